from __future__ import annotations

import asyncio
import fcntl
import io
import os
import re
import signal
import struct
import termios
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO, cast

import pytest

from tests import waiting
from tests.doubles.terminal import Terminal
from tests.nightly import sampled
from tests.tui.kit import app_for, run_app, screen_text, wait_for
from tui_agent import events as e
from tui_agent.tui.driver import CLIPBOARD, MAX_QUEUED, MAX_SWITCH_LENGTH, TerminalOutput

DEADLINE = 60.0
GREEN = "\x1b[32m"


@asynccontextmanager
async def flowing(tmp_path: Path) -> AsyncIterator[tuple[Terminal, Path]]:
    """A screen on which a long reply flows, and the file that says that all of it was said."""
    env = {"TUI_AGENT_HOME": str(tmp_path)}
    terminal = Terminal("-m", "tests.tui.pty_app", "empty", "noted", size=(100, 30), env=env)
    try:
        await terminal.wait_for_text("flow ")
        yield terminal, tmp_path / "over"
    finally:
        terminal.close()


async def said(over: Path) -> None:
    """Nobody reads what is painted meanwhile."""
    await waiting.wait_for(over.exists, "the session waits for the terminal")


def unread(terminal: Terminal) -> int:
    """Bytes that wait in the terminal."""
    return int(struct.unpack("i", fcntl.ioctl(terminal.master, termios.FIONREAD, b"\0" * 4))[0])


@pytest.mark.parametrize("blocking", sampled([True, False], [True]))
async def test_f16_f18_a_stopped_terminal_holds_nothing_up_and_shows_all_when_it_goes_on(
    tmp_path: Path, blocking: bool
) -> None:
    async with flowing(tmp_path) as (terminal, over):
        os.set_blocking(terminal.slave, blocking)  # the program's own: EAGAIN in the place of waiting
        await said(over)
        assert unread(terminal) > 1_000, "somebody read meanwhile"
        await terminal.wait_for_text("the flow ends")
        await terminal.wait_for_text("Ask for a change")
        await terminal.wait_until_quiet(0.5)
        shown = terminal.text
        terminal.screen.reset()
        terminal.resize(100, 30)  # paints all of it once more
        await terminal.wait_for_text("Ask for a change")
        await terminal.wait_for_text(lambda: terminal.text == shown)
        terminal.type("still here")
        await terminal.wait_for_text("still here")
        terminal.type("\x03\x04")
        assert await terminal.end() == 0
        assert terminal.is_sane()


async def test_f16_a_stopped_terminal_keeps_nobody_from_ending(tmp_path: Path) -> None:
    async with flowing(tmp_path) as (terminal, over):
        await said(over)
        assert unread(terminal) > 1_000, "somebody read meanwhile"
        terminal.kill(signal.SIGTERM)
        assert await asyncio.to_thread(terminal.process.wait, DEADLINE) == 143
        assert terminal.is_sane()


# --- what is written ---


class Pipe(io.StringIO):
    """A pipe in the place of a terminal's file."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.outside = os.pipe()
        fcntl.fcntl(self.outside, fcntl.F_SETPIPE_SZ, 4096)

    def fileno(self) -> int:
        return self.outside

    def taken(self, size: int) -> str:
        data = b""
        while len(data) < size:
            data += os.read(self.inside, 65536)
        return data.decode()


def output() -> tuple[TerminalOutput, Pipe, list[str]]:
    told: list[str] = []
    pipe = Pipe()
    made = TerminalOutput(cast(TextIO, pipe), on_lost=lambda: told.append("lost"))
    made.on_caught_up = lambda: told.append("caught up")
    made.start()
    return made, pipe, told


def test_what_is_written_arrives_in_order() -> None:
    made, pipe, told = output()
    text = "".join(f"{number} ünd " for number in range(200))
    for piece in text.split(" "):
        made.write(piece)
    assert pipe.taken(len(text.replace(" ", "").encode())) == text.replace(" ", "")
    assert made.drain(DEADLINE)
    made.write("again")
    assert pipe.taken(5) == "again"
    assert made.drain(DEADLINE) and told == []


def test_what_waits_is_bounded_and_modes_are_switched_all_the_same() -> None:
    made, pipe, told = output()
    for _ in range(1_000):
        made.write("x" * 1_000)
        made.write(GREEN)
    assert made.dropped > 700
    assert sum(map(len, made._queue)) <= MAX_QUEUED + 1_000 * MAX_SWITCH_LENGTH
    assert not made.drain(0.05)
    data = ""
    while data.count(GREEN) < 1_000:
        data += pipe.taken(1)
    assert made.drain(DEADLINE)
    assert told == ["caught up"]


def test_what_is_copied_arrives_also_at_a_terminal_that_is_behind() -> None:
    made, pipe, told = output()
    for number in range(1_000):
        made.write("x" * 1_000)
        if number % 100 == 50:
            made.write(f"{CLIPBOARD}c;{'A' * 60_000}{number}\x07")
    assert made.dropped > 700
    assert sum(map(len, made._queue)) <= MAX_QUEUED + 70_000
    data = ""
    while "950\x07" not in data:
        data += pipe.taken(1)
    assert made.drain(DEADLINE)
    assert told == ["caught up"]


def test_f18_a_lost_terminal_is_told_once_and_nothing_waits_any_more() -> None:
    made, pipe, told = output()
    os.close(pipe.inside)
    for _ in range(100):
        made.write("x" * 1_000)
    assert made.drain(DEADLINE)
    made.write("y")
    assert made.drain(DEADLINE)
    assert told == ["lost"] and made._queue == []


TERMS: dict[str, dict[str, str]] = {
    "none": {"TERM": ""},
    "linux console": {"TERM": "linux"},
    "16 colours": {"TERM": "xterm-16color", "COLORTERM": ""},
    "tmux": {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"},
    "no colour": {"TERM": "xterm-256color", "NO_COLOR": "1"},
    "no locale": {"TERM": "xterm", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
}


@pytest.mark.parametrize("name", sampled(TERMS, ("linux console", "no locale")))
async def test_f17_every_kind_of_terminal_shows_it(name: str) -> None:
    terminal = Terminal("-m", "tests.tui.pty_app", "answered", "told", size=(100, 30), env=TERMS[name])
    try:
        await terminal.wait_for_text("See the guide")
        terminal.type("hello")
        await terminal.wait_for_text("hello")
        if name == "no colour":
            assert not re.search(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;\d+)*m", terminal.bytes)
        terminal.type("\r")
        await terminal.wait_for_text("sent")
        terminal.type("\x04")
        assert await terminal.end() == 0
        assert terminal.is_sane()
    finally:
        terminal.close()


def test_f17_a_terminal_that_can_show_no_screen_is_told_what_works() -> None:
    terminal = Terminal("-m", "tests.tui.pty_app", "answered", env={"TERM": "dumb"})
    try:
        assert terminal.wait() == 2
        assert "tui-agent repl" in terminal.text
        assert b"\x1b" not in terminal.bytes
    finally:
        terminal.close()


async def test_f20_threads_that_hang_stop_neither_keys_nor_the_stop_key() -> None:
    app, session = app_for("streaming")
    release, loop = threading.Event(), asyncio.get_running_loop()
    async with run_app(app) as pilot:
        hanging = [loop.run_in_executor(None, release.wait, DEADLINE) for _ in range(64)]
        try:
            late = loop.run_in_executor(None, len, "")
            await pilot.press(*"still typing")
            assert app.prompt.text == "still typing"
            await pilot.press("escape")
            await wait_for(pilot, lambda: session.interrupts == 1)
            session.push(e.Notice(level="warning", text="Something hangs.", code="x"))
            await wait_for(pilot, lambda: "Something hangs." in screen_text(app))
            assert not late.done(), "the threads were never all busy"
        finally:
            release.set()
            await asyncio.gather(*hanging)
