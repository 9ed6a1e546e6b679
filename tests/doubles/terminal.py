"""A program in a pseudo-terminal, and its screen as a person would see it."""

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
WAIT = 60.0
EARLY = 200 if os.environ.get("TUI_AGENT_EARLY") else 0
"""With TUI_AGENT_EARLY a test is told of what it waits for when no byte more than that has been painted: what it then
looks at without waiting fails every time, not once in a hundred runs on a busy machine."""


def stacks_of(pid: int) -> Path:
    """Where a program under test writes its stacks when it gets SIGUSR1."""
    return Path(tempfile.gettempdir()) / f"tui-agent-stacks-{pid}"


def tell_stacks() -> None:
    """Called in the program: do so."""
    faulthandler.register(signal.SIGUSR1, stacks_of(os.getpid()).open("w"))


class _Screen(pyte.Screen):
    """One that can be read in the middle of a line, when half of a wide character is overwritten."""

    @property
    def display(self) -> list[str]:
        return ["".join(self.buffer[line][column].data for column in range(self.columns)) for line in range(self.lines)]


class Terminal:
    """Starts Python with the given arguments on a pty of its own, reads what it paints, types keys.

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
        """Every byte that the program wrote and the screen has taken."""
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
        """Take what is written within `seconds`, and all that is there then."""
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
        """Put on the screen what was read: all of it, or (EARLY) no more than the condition needs to become true."""
        while self._unseen:
            size = EARLY or len(self._unseen)
            piece, self._unseen = self._unseen[:size], self._unseen[size:]
            self.bytes += piece
            self._stream.feed(piece)
            if EARLY and condition():
                return True
        return False

    def drain(self) -> None:
        """Take what is there and look at none of it."""
        self._unseen = b""
        while select.select([self.master], [], [], 0)[0]:
            os.read(self.master, 65536)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    @property
    def listens(self) -> bool:
        """A key of a dialog stands out from what it does."""
        for row, text in enumerate(self.screen.display):
            key = re.match(r"[│ ]*([ad]|ctrl\+s)[ \xa0]{1,2}\S", text)
            if key:
                cells = self.screen.buffer[row]
                if cells[key.start(1)].bold or cells[key.start(1)].fg != cells[key.end() - 1].fg:
                    return True
        return False

    # --- waiting ---

    def until(self, condition: Callable[[], bool], seconds: float = WAIT) -> None:
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

    async def sees(self, wanted: Callable[[], bool] | str, seconds: float = WAIT) -> None:
        condition = (lambda: wanted in self.text) if isinstance(wanted, str) else wanted
        assert await self.saw(condition, seconds), f"{wanted}: {self._seen()}"

    async def saw(self, condition: Callable[[], bool], seconds: float) -> bool:
        """False when it did not happen in time, or the program ended before."""
        deadline = time.monotonic() + seconds
        self.read(0, condition)
        while not condition():
            if time.monotonic() >= deadline or (self.process.poll() is not None and not condition()):
                return False
            await self._readable(0.05)
            self.read(0, condition)
        return True

    async def asks(self, title: str, seconds: float = WAIT) -> None:
        """Wait for a dialog, and until it takes keys."""
        await self.sees(title, seconds)
        await self.sees(lambda: title in self.text and self.listens, seconds)

    async def still(self, seconds: float) -> None:
        """Wait until nothing was painted for so long, as a person who reads would."""
        while await self._readable(seconds):
            self.read(0)

    async def end(self, seconds: float = WAIT) -> int:
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
        """What the program does meanwhile: what it has not read yet, what its threads wait in, its stacks if it tells."""
        if self.slave < 0 or self.process.poll() is not None:
            return f"ended with {self.process.poll()}"
        unread = struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4))[0]
        modes = "signals" if termios.tcgetattr(self.slave)[3] & termios.ISIG else "raw"
        folder = Path(f"/proc/{self.process.pid}")
        with contextlib.suppress(OSError):
            tasks = [f"{one.name} {(one / 'wchan').read_text()}" for one in sorted((folder / "task").iterdir())]
            caught = re.search(r"SigCgt:\s*(\w+)", (folder / "status").read_text())
            told = stacks_of(self.process.pid)
            if caught and int(caught[1], 16) >> (signal.SIGUSR1 - 1) & 1:
                self.process.send_signal(signal.SIGUSR1)
                time.sleep(0.5)
            stacks = told.read_text() if told.exists() else ""
            os.write(self.master, b"~")  # does it listen still, and comes what was stuck before?
            time.sleep(1)
            self.read()
            return f"{unread} bytes unread, {modes}; {tasks}\n{stacks}\nafter one more key:\n{self.text}"
        return f"{unread} bytes unread, {modes}"

    # --- doing ---

    def type(self, keys: str | bytes) -> None:
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def lose(self) -> None:
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
        stacks_of(self.process.pid).unlink(missing_ok=True)
        for handle in (self.slave, self.master):
            if handle >= 0:
                with contextlib.suppress(OSError):
                    os.close(handle)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
