from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.platform.output import (
    LIVE_FAST,
    Capture,
    LiveOutput,
    OutputView,
    OverflowFile,
    RingBuffer,
    is_binary,
    present,
    settle_output,
)


def presented(data: bytes, head: int = 256 * 1024, tail: int = 1024 * 1024) -> OutputView:
    rings = RingBuffer(head, tail)
    for start in range(0, len(data), 1000):
        rings.add(data[start : start + 1000])
    return present(rings)


def numbered(count: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(1, count + 1))


@pytest.mark.parametrize("count", [0, 1, 15, 99, 100])
def test_a_hundred_lines_are_shown_completely(count: int) -> None:
    shown = presented(numbered(count))
    assert shown.text == numbered(count).decode().rstrip("\n")
    assert not shown.is_cut


@pytest.mark.parametrize("count", [101, 1000, 20_000])
@pytest.mark.parametrize(("head", "tail"), [(1 << 20, 1 << 20), (300, 900), (10, 600)])
def test_head_and_tail_with_the_exact_count_between(count: int, head: int, tail: int) -> None:
    lines = presented(numbered(count), head, tail).text.split("\n")
    marker = next(number for number, line in enumerate(lines) if "left out" in line)
    shown = len(lines) - 1
    assert lines[-1] == str(count)
    if head > 200:
        assert lines[:15] == [str(number) for number in range(1, 16)] and marker == 15
        assert lines[16:] == [str(number) for number in range(count - 84, count + 1)]
    assert lines[marker] == f"[… {count - shown:,} of {count:,} lines left out …]"


@given(st.lists(st.binary(max_size=80), max_size=40), st.integers(1, 60), st.integers(1, 60))
def test_rings_count_everything_and_keep_both_ends(chunks: list[bytes], head: int, tail: int) -> None:
    rings = RingBuffer(head, tail)
    for chunk in chunks:
        if chunk:
            rings.add(chunk)
    data = b"".join(chunks)
    assert rings.total_bytes == len(data)
    assert rings.total_lines == data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    assert bytes(rings.head) == data[:head]
    assert data.endswith(rings.tail)
    assert len(rings.head) + rings.gap + len(rings.tail) == len(data)
    present(rings)


def test_a_very_long_line_is_cut_and_counted() -> None:
    shown = presented(b"x" * 5_000_000)
    assert len(shown.text) < 5000 and "more characters" in shown.text and "bytes left out" in shown.text


def test_many_long_lines_stay_within_bounds() -> None:
    shown = presented(b"".join(b"%d" % n + b"y" * 5000 + b"\n" for n in range(300)))
    assert len(shown.text) < 35_000
    assert "200 of 300 lines left out" in shown.text


def test_terminal_control_is_taken_out() -> None:
    shown = presented(b"\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07ok\x07\x08\n\xc2\x9b2Jx\n")
    assert shown.text == "red ok\nx"


def test_progress_bars_collapse_to_their_last_state() -> None:
    bar = b"".join(b"\r%3d%%" % percent for percent in range(101))
    assert presented(b"start\r\n" + bar + b"\ndone\r\n").text == "start\n100%\ndone"
    assert settle_output("10%\r20%\r") == "20%"


def test_invalid_utf8_is_replaced() -> None:
    assert presented(b"caf\xe9 here and there and everywhere\n").text == "caf\ufffd here and there and everywhere"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG"),
        (b"\x7fELF" + b"\0" * 100, "ELF"),
        (bytes(range(256)) * 10, "binary data"),
    ],
)
def test_binary_output_is_named_not_shown(data: bytes, name: str) -> None:
    shown = presented(data)
    assert shown.text == "" and name in shown.note and f"{len(data):,} bytes" in shown.note


def test_names_separated_by_nul_are_text() -> None:
    assert not is_binary(b"./a.py\0./b.py\0./c.py\0")
    assert presented(b"./a.py\0./b.py\0").text == "./a.py\n./b.py"


def test_live_text_survives_any_split() -> None:
    data = "Grün ✓ \x1b[31mrot\x1b[0m\r\nzwei\n".encode()
    for cut in range(len(data)):
        live = LiveOutput()
        live.add(data[:cut])
        text = live.take()
        live.add(data[cut:])
        text += live.take(last=True)
        assert text == "Grün ✓ \x1b[31mrot\x1b[0m\nzwei\n"


def test_live_text_is_bounded() -> None:
    live = LiveOutput()
    total = 0
    for _ in range(200):
        live.add(b"z" * 1_000_000)
        total += len(live.take())
    assert total < 2 * LIVE_FAST + 200 * 3000
    assert live.interval >= 1.0


def test_live_progress_shows_states_not_returns() -> None:
    live = LiveOutput()
    live.add(b"\r 1%\r 2%\r 3%")
    assert "\r" not in live.take() and live.take(last=True) == ""


def test_binary_is_not_shown_live() -> None:
    live = LiveOutput()
    live.add(bytes(range(256)))
    assert live.take() == "[binary data, not shown]\n"
    live.add(b"\xff\xfe")
    assert live.take(last=True) == ""


async def test_the_full_output_is_saved_when_it_is_cut(tmp_path: Path) -> None:
    for count, is_spilled in ((50, False), (5000, True), (400_000, True)):
        file = tmp_path / f"output-{count}.txt"
        capture = Capture(spill=file)
        data = numbered(count)
        for start in range(0, len(data), 65536):
            capture.add(data[start : start + 65536])
            if capture.needs_flush:
                await capture.flush()
        _, spill = await capture.finish()
        assert (spill == file) is is_spilled and file.exists() is is_spilled
        if is_spilled:
            assert file.read_bytes() == data
            assert file.stat().st_mode & 0o777 == 0o600


def test_the_file_has_a_cap_and_a_full_disk_is_survived(tmp_path: Path) -> None:
    spill = OverflowFile(tmp_path / "full", cap=100)
    for _ in range(10):
        spill.add(b"a" * 30)
    assert spill.flush() and (tmp_path / "full").stat().st_size == 100
    broken = OverflowFile(Path("/dev/full"))
    broken.add(b"x" * 10_000)
    assert not broken.flush()
    planted = tmp_path / "link"
    planted.symlink_to(tmp_path / "elsewhere")
    through = OverflowFile(planted)
    through.add(b"x")
    assert not through.flush() and not (tmp_path / "elsewhere").exists()
