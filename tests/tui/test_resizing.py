from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import struct
import termios
import time

import pytest

from tests.doubles.terminal import Terminal
from tests.tui.kit import app_for, running, screen_text, settled

RESIZES = 1_000
FINAL_FRAME = 0.5
"""Seconds from the last resize to the right frame (F08)."""


def resize(terminal: Terminal, columns: int, lines: int) -> None:
    fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    terminal.kill(signal.SIGWINCH)


def framed(terminal: Terminal) -> tuple[str, ...]:
    """What stands at the same place wherever the transcript is scrolled to: the first line and the last."""
    return (terminal.screen.display[0], terminal.screen.display[-1])


@pytest.mark.parametrize("scene", ["answered", "command_asked"])
async def test_a_storm_of_resizes_ends_in_the_right_frame(scene: str) -> None:
    dice = random.Random(1)
    terminal = Terminal("-m", "tests.tui.pty_app", scene, size=(90, 30))
    try:
        await terminal.sees("shift+tab approvals" if scene == "answered" else lambda: terminal.listens)
        await terminal.still(0.3)
        before = framed(terminal)
        for number in range(RESIZES):
            small = number % 3 == 0
            size = (
                (dice.randint(0, 9), dice.randint(0, 4))
                if small
                else (
                    dice.randint(1, 500),
                    dice.randint(1, 200),
                )
            )
            resize(terminal, *size)
            terminal.drain()
            await asyncio.sleep(0.002)  # five seconds with the work in between
        terminal.screen.reset()
        resize(terminal, 90, 30)
        began = time.monotonic()
        await terminal.sees(lambda: framed(terminal) == before, FINAL_FRAME * 20)
        print(f"final frame after {time.monotonic() - began:.3f} s")
        assert terminal.process.poll() is None
        assert os.fstat(terminal.master)
        terminal.kill(signal.SIGTERM)
        assert await terminal.end() == 143
        assert terminal.is_sane()
    finally:
        terminal.close()


@pytest.mark.parametrize(
    "scene", ["answered", "edit_asked", "command_hostile", "question", "streaming", "trust"]
)
async def test_every_size_can_be_painted(scene: str) -> None:
    dice = random.Random(2)
    app, _session = app_for(scene)
    async with running(app, (100, 30)) as pilot:
        await settled(pilot)
        before = screen_text(app)
        sizes = [(1, 1), (2, 1), (1, 50), (500, 1), (60, 16), (500, 200), (3, 3), (20, 5)]
        sizes += [(dice.randint(1, 60), dice.randint(1, 20)) for _size in range(12)]
        for size in sizes:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.press("pageup", "pagedown")
            assert app.is_running
        await pilot.resize_terminal(100, 30)
        await pilot.press("ctrl+end")
        await settled(pilot)
        if scene not in ("command_hostile",):
            assert screen_text(app) == before
