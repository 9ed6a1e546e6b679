"""However the program dies, the terminal is restored (L7)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.doubles.terminal import Terminal
from tests.nightly import sampled

OFF = (b"?1049l", b"?1000l", b"?1003l", b"?1006l", b"?2004l", b"?1004l", b"<u", b"?25h")
NAMES = ("KILL SEGV BUS ILL FPE ABRT SYS TRAP XCPU XFSZ USR1 USR2 ALRM VTALRM PROF PIPE QUIT TERM HUP").split()  # noqa: SIM905  # shorter
IGNORED = ("PIPE", "XFSZ")
"""Signals that Python ignores."""


@pytest.fixture
def start() -> Iterator[list[Terminal]]:
    started: list[Terminal] = []
    yield started
    for terminal in started:
        terminal.close()


def run(start: list[Terminal]) -> Terminal:
    start.append(Terminal("-m", "tests.tui.pty_app", "answered", env={"TUI_AGENT_NO_STACKS": "1"}))
    start[-1].shows("See the guide")
    return start[-1]


def is_restored(terminal: Terminal) -> bool:
    end = terminal.bytes[terminal.bytes.rindex(b"?1049h") :]
    return terminal.is_sane() and all(code in end for code in OFF)


@pytest.mark.parametrize("name", sampled(NAMES, ("KILL", "SEGV", "USR1", "PIPE")))
def test_every_deadly_signal_leaves_the_terminal_as_it_was(start: list[Terminal], name: str) -> None:
    terminal = run(start)
    assert not terminal.is_sane()
    terminal.kill(signal.Signals[f"SIG{name}"])
    if name in IGNORED:
        terminal.kill(signal.SIGKILL)
    assert terminal.wait() != 0
    terminal.until(lambda: is_restored(terminal))


def test_a_killed_process_group_leaves_the_terminal_as_it_was(start: list[Terminal]) -> None:
    """As a terminal or `kill -9 %1` does it."""
    terminal = run(start)
    os.killpg(terminal.process.pid, signal.SIGKILL)
    terminal.wait()
    terminal.until(lambda: is_restored(terminal))


def test_nothing_is_written_for_a_program_that_was_killed_while_suspended(start: list[Terminal]) -> None:
    terminal = run(start)
    terminal.kill(signal.SIGTSTP)
    terminal.until(lambda: terminal.stopped)
    terminal.until(lambda: is_restored(terminal))
    terminal.read()
    written = len(terminal.bytes)
    terminal.kill(signal.SIGKILL)
    terminal.wait()
    terminal.until(lambda: children_of(terminal) == [])
    terminal.read()
    assert len(terminal.bytes) == written


def children_of(terminal: Terminal) -> list[int]:
    """The processes that have the terminal open."""
    found = []
    path = os.ttyname(terminal.slave)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            files = [os.readlink(f"/proc/{name}/fd/{fd}") for fd in os.listdir(f"/proc/{name}/fd")]
        except OSError:
            continue
        if path in files and int(name) != os.getpid():
            found.append(int(name))
    return found


def test_no_process_is_left_after_a_normal_end(start: list[Terminal]) -> None:
    terminal = run(start)
    assert len(children_of(terminal)) == 2
    terminal.type("\x03\x03")
    assert terminal.wait() == 0
    assert children_of(terminal) == []
