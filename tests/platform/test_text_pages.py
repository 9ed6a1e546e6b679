from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.platform import text_pages as module
from tui_agent.platform.text_pages import ROW, PageRow, Pages


def all_below(pages: Pages, step: int = 7) -> list[PageRow]:
    rows: list[PageRow] = []
    while found := pages.rows_from(rows[-1].end if rows else 0, step):
        rows += found
    return rows


def all_above(pages: Pages, step: int = 7) -> list[PageRow]:
    rows: list[PageRow] = []
    while found := pages.rows_before(rows[0].start if rows else pages.size, step):
        rows[:0] = found
    return rows


LINES = st.lists(
    st.one_of(
        st.text("ab é日\t", max_size=30),
        st.integers(1, 3 * ROW).map(lambda count: "é" * count),
        st.just("x" * (2 * ROW + 5)),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(LINES, st.booleans(), st.integers(1, 40))
def test_rows_are_the_same_from_above_and_from_below(lines: list[str], ended: bool, step: int) -> None:
    text = "\n".join(lines) + ("\n" if ended else "")
    pages = Pages(data=text.encode())
    rows = all_below(pages, step)
    assert all_above(pages, step) == rows
    assert [row.start for row in rows[1:]] == [row.end for row in rows[:-1]]
    if len(text.encode()) and "\n" not in text:
        assert "".join(row.text for row in rows) == text
    short = [line for line in text.split("\n") if len(line.encode()) < ROW]
    assert {line for line in short if line} <= {row.text for row in rows}
    pages.count_lines(threading.Event())
    for row in rows[:: max(1, len(rows) // 5)]:
        number = pages.line_number(row.start)
        assert number == text.encode()[: row.start].count(b"\n") + 1
        assert pages.row_start(row.start) == row.start


def test_a_progress_bar_is_its_last_state_however_long_it_was() -> None:
    bar = b"".join(b"\rdone %d %%" % part for part in range(3000)) + b"\rdone 100 %\n"
    pages = Pages(data=b"begin\n" + bar + b"end\r\n\x1b[2Jx\x1b[31mred\x07\n")
    rows = all_below(pages, 3)
    assert [row.text for row in rows] == ["begin", "done 100 %", "end", "x\x1b[31mred"]
    assert all_above(pages) == rows


def test_a_growing_file_is_counted_on_and_searched_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNT_BLOCK", 1000)
    file = tmp_path / "out"
    lines = [f"line {number} {'Needle' if number % 100 == 7 else ''}\n" for number in range(2000)]
    file.write_text("".join(lines[:1000]))
    pages, stop = Pages(file), threading.Event()
    assert pages.line_offset(5) == sum(map(len, lines[:4]))
    assert pages.line_number(pages.size) is None
    pages.count_lines(stop)
    assert pages.line_count() == 1000
    with file.open("a") as more:
        more.writelines(lines[1000:])
    pages.count_lines(stop)
    assert pages.line_count() == 2000
    for number in (1, 2, 150, 1999, 2000):
        place = sum(map(len, lines[: number - 1]))
        assert pages.line_offset(number) == place
        assert pages.line_number(place) == number
    assert pages.line_offset(5000) == pages.size
    at, seen = 0, []
    while (found := pages.find("needle", at, back=False, stop=stop)) is not None:
        seen.append(pages.line_number(found))
        at = found + 1
    assert seen == [number + 1 for number in range(7, 2000, 100)]
    at, backwards = pages.size, []
    while (found := pages.find("needle", at, back=True, stop=stop)) is not None:
        backwards.append(pages.line_number(found))
        at = found
    assert backwards == seen[::-1]
    assert pages.find("NEEDLE", 0, back=False, stop=stop) is None
    assert pages.find("Needle", 0, back=False, stop=stop) is not None
    pages.close()
    assert pages.rows_from(0, 5) == []
    assert pages.size == 0


def test_what_is_replaced_while_it_is_counted_has_its_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNT_BLOCK", 1000)
    old, new = b"\n" * 5_000, b"x" * 99 + b"\n"
    swaps = iter((new * 50,))

    class FakePages(Pages):
        """Another thread replaces the data as soon as a piece of it was read."""

        def _read(self, place: int, count: int) -> bytes:
            data = super()._read(place, count)
            for swap in swaps:
                self.replace(swap)
            return data

    pages = FakePages(data=old)
    pages.count_lines(threading.Event())
    assert next(swaps, None) is None
    assert pages.line_count() == 50
    assert [pages.line_number(100 * line) for line in (0, 20, 49)] == [1, 21, 50]


@pytest.mark.parametrize("block", [40, 1 << 20])
def test_words_are_found_in_colors_and_in_any_case(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNT_BLOCK", block)
    lines = [
        "plain ÄRGER here",
        "x" * 30,
        "\x1b[1;31mÄr\x1b[0m\x1b[32mger\x1b[0m",
        "FAILED",
        "FA\x1b[31mILED\x1b[m",
        "end",
    ]
    data = "\n".join(lines).encode()
    pages, stop = Pages(data=data), threading.Event()

    def all_of(word: str) -> list[int | None]:
        at, seen = 0, []
        while (found := pages.find(word, at, back=False, stop=stop)) is not None:
            seen.append(data[:found].count(b"\n"))
            at = found + 1
        at, backwards = len(data), []
        while (found := pages.find(word, at, back=True, stop=stop)) is not None:
            backwards.append(data[:found].count(b"\n"))
            at = found
        assert backwards == seen[::-1]
        return list(seen)

    assert all_of("ärger") == [0, 2]
    assert all_of("failed") == all_of("FAILED") == [3, 4]
    assert all_of("Ärger") == [2]
    assert all_of("Failed") == []


@pytest.mark.parametrize("before", [0, 1, 3])
def test_every_offset_is_in_a_row(before: int) -> None:
    bar = b"x" * (before * ROW) + b"".join(b"\rdone %d %%" % part for part in range(3000)) + b"\n"
    pages = Pages(data=b"begin\n" + bar + b"end\n")
    rows = all_below(pages)
    for row in rows:
        assert {pages.row_start(place) for place in range(row.start, row.end, 97)} == {row.start}


def test_only_a_real_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none", "."):
        with pytest.raises(OSError):
            Pages(tmp_path / name)
