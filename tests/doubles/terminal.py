"""A program in a pseudo-terminal, and its screen."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 60.0
EARLY = 200 if os.environ.get("TUI_AGENT_EARLY") else 0
"""With TUI_AGENT_EARLY, waiting ends as soon as the condition holds, with no further byte painted. A test that checks more
without waiting for it then fails always, instead of once in a hundred runs on a busy machine."""


def stack_dump_path(pid: int) -> Path:
    """Return the file to which a program under test writes its stacks on SIGUSR1."""
    return Path(tempfile.gettempdir()) / f"tui-agent-stacks-{pid}"


def enable_stack_dumps() -> None:
    """Register the SIGUSR1 handler; called in the program under test."""
    faulthandler.register(signal.SIGUSR1, stack_dump_path(os.getpid()).open("w"))


class _Screen(pyte.Screen):
    """A screen that can be read while half of a wide character is overwritten."""

    @property
    def display(self) -> list[str]:
        return ["".join(self.buffer[line][column].data for column in range(self.columns)) for line in range(self.lines)]


class Terminal:
    """Starts Python in a new pty, reads its output and types keys.

    The waiting methods come twice: `until`, `shows`, `wait` block; `sees`, `still`, `end` leave the event loop free.
    `owned` makes the pty the controlling terminal, as a terminal window does.
    """

    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (90, 30),
        env: dict[str, str] | None = None,
        cwd: Path = ROOT,
        owned: bool = True,
        whole_env: bool = False,
    ) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self.screen = _Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes = b""
        """All bytes painted so far."""
        self._unseen = b""
        world = {} if whole_env else {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=cwd,
            env={**world, **(env or {})},
            start_new_session=True,
            preexec_fn=_take_terminal if owned else None,  # noqa: PLW1509  # the tests have no threads
        )

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if hasattr(self, "screen"):
            self.screen.resize(lines, columns)
            self.process.send_signal(signal.SIGWINCH)

    # --- reading ---

    def read(self, seconds: float = 0.05, condition: Callable[[], bool] = lambda: False) -> None:
        """Read and paint what is available, after waiting up to `seconds` for the first byte."""
        if self._paint(condition):
            return
        while self.master >= 0 and select.select([self.master], [], [], seconds)[0]:
            try:
                self._unseen += os.read(self.master, 65536)
            except OSError:
                return
            if self._paint(condition):
                return
            seconds = 0

    def _paint(self, condition: Callable[[], bool]) -> bool:
        """Paint what was read; with EARLY, only until the condition holds."""
        while self._unseen:
            size = EARLY or len(self._unseen)
            piece, self._unseen = self._unseen[:size], self._unseen[size:]
            self.bytes += piece
            self._stream.feed(piece)
            if EARLY and condition():
                return True
        return False

    def drain(self) -> None:
        """Discard all available output."""
        self._unseen = b""
        while select.select([self.master], [], [], 0)[0]:
            os.read(self.master, 65536)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    @property
    def accepts_keys(self) -> bool:
        """True once the keys of a dialog are highlighted."""
        for row, text in enumerate(self.screen.display):
            key = re.match(r"[│ ]*([ad]|ctrl\+s)[ \xa0]{1,2}\S", text)
            if key:
                cells = self.screen.buffer[row]
                if cells[key.start(1)].bold or cells[key.start(1)].fg != cells[key.end() - 1].fg:
                    return True
        return False

    # --- waiting ---

    def until(self, condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self._seen()
            self.read(condition=condition)

    def shows(self, text: str) -> None:
        self.until(lambda: text in self.text)

    def wait(self, seconds: float = 60) -> int:
        self.until(lambda: self.process.poll() is not None, seconds)
        self.read()
        return self.process.returncode

    async def wait_for_text(self, wanted: Callable[[], bool] | str, seconds: float = TIMEOUT) -> None:
        condition = (lambda: wanted in self.text) if isinstance(wanted, str) else wanted
        assert await self.occurs(condition, seconds), f"{wanted}: {self._seen()}"

    async def occurs(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Return False if the condition does not hold in time, or the program ends first."""
        deadline = time.monotonic() + seconds
        self.read(0, condition)
        while not condition():
            if time.monotonic() >= deadline or (self.process.poll() is not None and not condition()):
                return False
            await self._readable(0.05)
            self.read(0, condition)
        return True

    async def wait_for_dialog(self, title: str, seconds: float = TIMEOUT) -> None:
        """Wait until a dialog is shown and accepts keys."""
        await self.wait_for_text(title, seconds)
        await self.wait_for_text(lambda: title in self.text and self.accepts_keys, seconds)

    async def wait_until_quiet(self, seconds: float) -> None:
        """Wait until nothing has been painted for `seconds`."""
        while await self._readable(seconds):
            self.read(0)

    async def end(self, seconds: float = TIMEOUT) -> int:
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self._seen()
            await self._readable(0.05)
            self.read(0)
        self.read(0)
        return self.process.returncode

    async def _readable(self, seconds: float) -> bool:
        if self.master < 0:
            await asyncio.sleep(seconds)
            return False
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        loop.add_reader(self.master, there.set)
        try:
            await asyncio.wait_for(there.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self.master)
        return True

    def _seen(self) -> str:
        return f"never happened:\n{self.text}\n{self.bytes[-500:]!r}\n{self._state()}"

    def _state(self) -> str:
        """Describe the state of the program: unread input, threads, and stacks if it reports them."""
        if self.slave < 0 or self.process.poll() is not None:
            return f"ended with {self.process.poll()}"
        unread = struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4))[0]
        modes = "signals" if termios.tcgetattr(self.slave)[3] & termios.ISIG else "raw"
        folder = Path(f"/proc/{self.process.pid}")
        with contextlib.suppress(OSError):
            tasks = [f"{one.name} {(one / 'wchan').read_text()}" for one in sorted((folder / "task").iterdir())]
            caught = re.search(r"SigCgt:\s*(\w+)", (folder / "status").read_text())
            told = stack_dump_path(self.process.pid)
            if caught and int(caught[1], 16) >> (signal.SIGUSR1 - 1) & 1:
                self.process.send_signal(signal.SIGUSR1)
                time.sleep(0.5)
            stacks = told.read_text() if told.exists() else ""
            os.write(self.master, b"~")  # is it still reading, and does this release what was stuck?
            time.sleep(1)
            self.read()
            return f"{unread} bytes unread, {modes}; {tasks}\n{stacks}\nafter one more key:\n{self.text}"
        return f"{unread} bytes unread, {modes}"

    # --- doing ---

    def type(self, keys: str | bytes) -> None:
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self.master)
        os.close(self.slave)
        self.master = self.slave = -1

    @property
    def stopped(self) -> bool:
        """True while job control holds the program."""
        state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"

    def is_sane(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        stack_dump_path(self.process.pid).unlink(missing_ok=True)
        for handle in (self.slave, self.master):
            if handle >= 0:
                with contextlib.suppress(OSError):
                    os.close(handle)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
