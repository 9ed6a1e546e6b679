from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doubles.terminal import Terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    started = Terminal("-m", "tui_agent", "--demo", size=(110, 80))
    yield started
    started.close()


def test_read_edit_and_run_by_keys_alone_in_a_real_terminal(terminal: Terminal) -> None:
    terminal.shows("tui-agent-demo-")
    terminal.shows("Enter starts the demonstration")
    terminal.type("\r")
    terminal.shows("▌ The word counter")
    terminal.shows("Edit wordcount/counting.py")
    terminal.until(lambda: terminal.listens)
    terminal.type("a")
    terminal.shows("Run a command")
    terminal.shows("$ python3 -m unittest")
    terminal.until(lambda: terminal.listens)
    terminal.type("s")
    terminal.shows("OK")
    terminal.shows("· Done · ")
    terminal.shows("enter send")
    assert "✓ run_terminal_command" in terminal.text
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert terminal.is_sane()
    assert b"Resume with: tui-agent --resume 20" in terminal.bytes


def test_escape_stops_a_run_and_the_session_stays_usable(terminal: Terminal) -> None:
    terminal.shows("tui-agent-demo-")
    terminal.shows("Enter starts the demonstration")
    terminal.type("\r")
    terminal.shows("Edit wordcount/counting.py")
    terminal.type("\x1b")
    terminal.shows("■ Stopped")
    terminal.type("what can you do\r")
    terminal.shows("▌ what can you do")
    terminal.shows("enter send")
    terminal.type("\x03\x03")
    assert terminal.wait() == 0
    assert terminal.is_sane()
