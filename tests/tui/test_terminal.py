from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text
from textual.content import Content
from textual.widgets import Static

from tests.doubles.terminal import Terminal
from tests.nightly import sampled
from tests.tui.kit import app_for, run_app, screen_text, wait_until_rendered
from tui_agent.common import paths
from tui_agent.tui.terminal import widen_control_tables

OFF = (b"?1049l", b"?1000l", b"?1003l", b"?1006l", b"?2004l", b"?25h")
"""What the last bytes must switch off, and the cursor back on."""


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[list[Terminal]]:
    started: list[Terminal] = []
    yield started
    for terminal in started:
        terminal.close()


def run(start: list[Terminal], scene: str, kind: str = "", **more) -> Terminal:
    terminal = Terminal("-m", "tests.tui.pty_app", scene, *([kind] if kind else []), **more)
    start.append(terminal)
    return terminal


def assert_restored(terminal: Terminal) -> None:
    end = terminal.bytes[terminal.bytes.rindex(b"?1049h") :]
    for code in OFF:
        assert code in end, code
    assert terminal.is_sane()


def is_quiet(terminal: Terminal, seconds: float) -> bool:
    """Whether nothing at all is written for so long; what comes late from before only puts it off."""
    before = len(terminal.bytes)
    for _ in range(math.ceil(seconds / 0.2)):
        terminal.read(0.2)
        if len(terminal.bytes) != before:
            return False
    return True


@pytest.mark.parametrize(
    "number", sampled([signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT], [signal.SIGHUP])
)
def test_a_signal_restores_the_terminal(start: list[Terminal], number: signal.Signals) -> None:
    terminal = run(start, "answered")
    terminal.shows("See the guide")
    terminal.kill(number)
    assert terminal.wait() == 128 + number
    assert_restored(terminal)
    assert b"--resume 2026-01-05T09:00:00.000+0000" in terminal.bytes


def test_a_signal_ends_the_program_although_the_session_hangs(start: list[Terminal]) -> None:
    terminal = run(start, "answered", "slow")
    terminal.shows("See the guide")
    terminal.kill(signal.SIGTERM)
    assert terminal.wait() == 143
    assert_restored(terminal)


def test_a_lost_terminal_ends_the_program(start: list[Terminal]) -> None:
    terminal = run(start, "streaming")
    terminal.shows("The exporter")
    os.close(terminal.master)
    os.close(terminal.slave)
    try:
        assert terminal.process.wait(15) in (128 + signal.SIGHUP, -signal.SIGHUP)
    finally:
        terminal.master, terminal.slave = os.pipe()


def test_leaving_by_keys_restores_the_terminal_and_says_how_to_come_back(start: list[Terminal]) -> None:
    terminal = run(start, "answered")
    terminal.shows("See the guide")
    terminal.type("\x03")
    terminal.shows("again quits")
    terminal.type("\x03")
    assert terminal.wait() == 0
    assert_restored(terminal)
    assert b"Resume with: tui-agent --resume" in terminal.bytes


def test_a_failure_becomes_a_sentence_and_a_log_without_local_variables(start: list[Terminal]) -> None:
    terminal = run(start, "empty", "broken")
    terminal.shows("exporter")
    terminal.type("hi\r")
    assert terminal.wait() == 1
    assert_restored(terminal)
    text = terminal.bytes.decode()
    log = paths.debug_log_file()
    assert "RuntimeError: it broke" in text
    assert str(log) in re.sub(r"\s", "", text)
    assert "Traceback" not in text
    assert "Traceback" in log.read_text()
    assert "local-variable-0815" not in text.replace('"local-variable-0815"', "")
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_failing_handler_ends_in_order_too(start: list[Terminal]) -> None:
    terminal = run(start, "command_asked", "handler")
    terminal.until(lambda: terminal.accepts_keys)
    terminal.type("a")
    assert terminal.wait() == 1
    assert_restored(terminal)
    assert b"ValueError: the handler broke" in terminal.bytes
    assert b"Traceback" not in terminal.bytes
    assert "the handler broke" in paths.debug_log_file().read_text()


def test_a_failing_thread_leaves_the_screen_alone(start: list[Terminal]) -> None:
    terminal = run(start, "empty", "threaded")
    terminal.shows("exporter")
    terminal.type("hi there\r")
    terminal.shows("▌ hi there")
    terminal.until(lambda: paths.debug_log_file().exists())
    assert b"Traceback" not in terminal.bytes
    assert "a thread broke" in paths.debug_log_file().read_text()
    terminal.type("\x03\x03")
    assert terminal.wait() == 0


def test_a_session_that_can_not_be_opened_is_explained(start: list[Terminal]) -> None:
    terminal = run(start, "empty", "locked")
    assert terminal.wait() == 2
    assert b"Another tui-agent has this session open." in terminal.bytes
    assert not paths.debug_log_file().exists()
    assert_restored(terminal)


def test_idle_writes_nothing(start: list[Terminal]) -> None:
    terminal = run(start, "answered")
    terminal.shows("See the guide")
    terminal.until(lambda: is_quiet(terminal, 2.0))


def test_the_keys_of_a_dialog_light_up_and_then_work(start: list[Terminal]) -> None:
    terminal = run(start, "command_asked")
    terminal.shows("approve once")
    terminal.until(lambda: terminal.accepts_keys)
    terminal.type("a")
    terminal.until(lambda: "approve once" not in terminal.text)


def test_no_foreign_control_byte_reaches_the_terminal(start: list[Terminal]) -> None:
    for scene in ("hostile_text", "command_hostile"):
        terminal = run(start, scene)
        terminal.shows("@click=app.quit")
        terminal.read(0.5)
        written = terminal.bytes.replace(b"\x1b]22;default\x07", b"")  # the shape of the mouse pointer
        written = re.sub(
            rb"\x1b\]8;id=[\d-]+;http://x\w?\x1b\\\x1b\[[\d;]*mhttp://x\w?\x1b\[0m\x1b\]8;;\x1b\\", b"", written
        )
        for foreign in (b"\x1b]52", b"\x9b2J", b"\xc2\x9b", b"\x1b[2J", b"\x07", "\u202e".encode(), b"\x1b]8;"):
            assert foreign not in written, foreign


def test_a_widgets_folder_in_the_workspace_is_not_ours(tmp_path: Path, start: list[Terminal]) -> None:
    (tmp_path / "widgets").mkdir()
    (tmp_path / "widgets" / "__init__.py").write_text("raise SystemExit('the wrong widgets')")
    (tmp_path / "styles").mkdir()
    code = "import tui_agent.tui, widgets, tui_agent.tui.app; print('ours', widgets.__file__)"
    root = Path(__file__).resolve().parents[2]
    terminal = Terminal("-c", code, cwd=tmp_path, env={"PYTHONPATH": f".:{root}"}, size=(300, 10))
    start.append(terminal)
    assert terminal.wait() == 0
    assert str(root / "widgets" / "__init__.py") in terminal.text


HOSTILE = "a\x1b]52;c;aGk=\x07b\x9b2Jc\x00\x7f\x85\x1b[6nd\te\nf"


def test_both_control_tables_are_widened() -> None:
    widen_control_tables()
    for shown in (Content(HOSTILE).plain, Text(HOSTILE).plain):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
        assert "\t" in shown
        assert "\n" in shown


async def test_no_markup_is_ever_read(start: list[Terminal]) -> None:
    widen_control_tables()
    app, _session = app_for("hostile_text")
    async with run_app(app) as pilot:
        text = screen_text(app)
        assert text.count("[@click=app.quit]boo[/]") >= 8
        await pilot.click("#transcript", offset=(30, 3))
        await pilot.press("ctrl+o")
        await wait_until_rendered(pilot)
        assert app.is_running
        assert not app.query(Static)


async def test_the_size_is_the_terminals_whatever_is_exported() -> None:
    program = Terminal("-m", "tests.tui.pty_app", "empty", size=(90, 30), env={"COLUMNS": "50", "LINES": "12"})
    try:
        await program.wait_for_text(lambda: "qwen2.5-coder:7b" in program.screen.display[0][60:])
        program.resize(70, 20)
        await program.wait_for_text(lambda: "qwen2.5-coder:7b" in program.screen.display[0][:70])
    finally:
        program.close()
