from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.terminal import Terminal
from tests.nightly import sampled

TIMES = int(os.environ.get("TUI_AGENT_DEATHS", "1"))
"""How often each way of dying is tried; 20 is what counts before a release."""

AT_ONCE = 3

OFF = (b"?1049l", b"?1000l", b"?1003l", b"?1006l", b"?2004l", b"?1004l", b"<u", b"?25h")

KEYS = {"f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~"}


@asynccontextmanager
async def program(*, owned: bool = True) -> AsyncIterator[tuple[Terminal, Path]]:
    with tempfile.TemporaryDirectory(prefix="death-") as home:
        env = {"TUI_AGENT_HOME": home, "HOME": home, "TMPDIR": home}
        terminal = Terminal("-m", "tests.tui.pty_app", "--demo", env=env, size=(100, 30), owned=owned)
        try:
            await terminal.wait_for_text("tui-agent-demo-")
            yield terminal, Path(home)
        finally:
            terminal.close()


async def busy(terminal: Terminal) -> None:
    terminal.type("fix the word counter\r")
    await terminal.wait_for_text("Plan · 3 steps · plans need your approval")


def records(home: Path) -> list[dict[str, Any]]:
    (journal,) = home.rglob("events.jsonl")
    return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]


def assert_restored(terminal: Terminal) -> None:
    end = terminal.bytes[terminal.bytes.rindex(b"?1049h") :]
    for code in OFF:
        assert code in end, code
    for on in (b"?1000h", b"?2004h", b"?25l"):
        assert end.rindex(on[:-1] + (b"l" if on.endswith(b"h") else b"h")) > end.rindex(on)
    assert terminal.is_sane()
    assert b"Traceback" not in terminal.bytes
    assert b"Resume with:" not in terminal.bytes  # the folder of a demo is removed


def assert_closed(home: Path, reason: str) -> None:
    last = records(home)[-1]
    assert last["type"] == "session.closed"
    assert last["data"]["reason"] == reason


async def by_signal(number: signal.Signals, *, running: bool) -> None:
    async with program() as (terminal, home):
        if running:
            await busy(terminal)
        terminal.kill(number)
        assert await terminal.end() == 128 + number
        assert_restored(terminal)
        assert_closed(home, f"signal {number.name}")


async def by_interrupt_twice() -> None:
    async with program() as (terminal, home):
        await busy(terminal)
        terminal.kill(signal.SIGINT)
        await terminal.wait_for_text("■ Stopped")
        terminal.kill(signal.SIGINT)
        assert await terminal.end() == 130
        assert_restored(terminal)
        assert_closed(home, "signal SIGINT")


async def by_key(*keys: str, code: int, said: bytes, reason: str) -> None:
    async with program() as (terminal, home):
        for key in keys:
            terminal.type(KEYS.get(key, key))
            await asyncio.sleep(0.3)  # so that each is read on its own
        assert await terminal.end() == code
        assert_restored(terminal)
        assert said in terminal.bytes
        assert_closed(home, reason)


async def by_losing_the_terminal(*, owned: bool) -> None:
    async with program(owned=owned) as (terminal, home):
        await busy(terminal)
        terminal.hang_up()
        assert await terminal.end() == 129
        assert_closed(home, "signal SIGHUP")


def listens(terminal: Terminal) -> bool:
    """The keys of the question are lit: the key in another colour than what it does."""
    for number, row in enumerate(terminal.screen.display):
        if (at := max(row.find("a approve"), row.find("a show the rest"))) >= 0:
            cells = terminal.screen.buffer[number]
            return bool(cells[at].fg != cells[at + 2].fg)
    return False


async def stop_and_go_on() -> None:
    async with program() as (terminal, _home):
        await busy(terminal)
        for _again in range(2):
            before = len(terminal.bytes)
            terminal.kill(signal.SIGTSTP)
            await terminal.wait_for_text(lambda: terminal.stopped)
            terminal.read(0.05)
            stopped = terminal.bytes[before:]
            assert all(code in stopped for code in OFF)
            assert terminal.is_sane()
            before = len(terminal.bytes)
            terminal.screen.reset()
            terminal.kill(signal.SIGCONT)
            await terminal.wait_for_text("Plan · 3 steps · plans need your approval")
            resumed = terminal.bytes[before:]
            assert all(code in resumed for code in (b"?1049h", b"?1000h", b"?1006h", b"?2004h", b"?25l"))
            assert not terminal.is_sane()
        await terminal.wait_for_text(
            lambda: listens(terminal)
        )  # what is typed behind `fg` before one can read is not for it
        terminal.type("\x1b")
        await terminal.wait_for_text("■ Stopped")
        terminal.kill(signal.SIGTERM)
        assert await terminal.end() == 143
        assert_restored(terminal)


WAYS = {
    "SIGTERM at rest": lambda: by_signal(signal.SIGTERM, running=False),
    "SIGTERM in a run": lambda: by_signal(signal.SIGTERM, running=True),
    "SIGHUP at rest": lambda: by_signal(signal.SIGHUP, running=False),
    "SIGHUP in a run": lambda: by_signal(signal.SIGHUP, running=True),
    "SIGQUIT": lambda: by_signal(signal.SIGQUIT, running=True),
    "SIGINT at rest": lambda: by_signal(signal.SIGINT, running=False),
    "SIGINT twice in a run": by_interrupt_twice,
    "stop and go on": stop_and_go_on,
    "terminal closed": lambda: by_losing_the_terminal(owned=True),
    "input ended": lambda: by_losing_the_terminal(owned=False),
    "key": lambda: by_key("f5", code=1, said=b"a key broke", reason="error"),
    "worker": lambda: by_key("f6", code=1, said=b"a worker broke", reason="error"),
    "thread": lambda: by_key("f7", code=1, said=b"a thread worker broke", reason="error"),
    "input thread": lambda: by_key("f8", "x", code=1, said=b"the input broke", reason="error"),
    "sys.exit": lambda: by_key("f9", code=3, said=b"", reason="user"),
    "on_unmount": lambda: by_key("f10", code=1, said=b"the end broke", reason="user"),
}


OFTEN = ("SIGTERM in a run", "SIGINT twice in a run", "stop and go on", "terminal closed")
"""A thread that breaks is also tried in `test_terminal`."""


@pytest.mark.parametrize("way", sampled(WAYS, OFTEN))
async def test_every_way_of_dying_leaves_a_sane_terminal_and_a_whole_log(way: str) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with room:
            await WAYS[way]()

    results = await asyncio.gather(*(one() for _ in range(TIMES)), return_exceptions=True)
    failed = [one for one in results if one is not None]
    if failed:
        raise failed[0]
