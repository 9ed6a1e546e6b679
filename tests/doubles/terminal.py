"""A program in a pseudo-terminal, and its screen as a person would see it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable, Sequence
from pathlib import Path

import pyte

WAIT = 20.0


class PtyProgram:
    """Starts a program on a pty of its own, reads what it paints, types keys."""

    def __init__(
        self, argv: Sequence[str], *, env: dict[str, str], cwd: Path, size: tuple[int, int] = (100, 32)
    ) -> None:
        columns, lines = size
        self.screen = pyte.Screen(columns, lines)
        self._feed = pyte.ByteStream(self.screen)
        self.output = bytearray()
        """Every byte that the program wrote."""
        self._changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.code: int | None = None
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], list(argv), env)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.ended.set()
        else:
            self.output += data
            self._feed.feed(data)
        self._changed.set()

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    async def until(self, fits: Callable[[str], bool] | str, timeout: float = WAIT) -> str:
        """Wait until the screen shows a text, or fits."""
        test = (lambda text: fits in text) if isinstance(fits, str) else fits

        async def look() -> None:
            while not test(self.text):
                assert not self.ended.is_set(), f"it ended with {self.code}:\n{self.text}"
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(look(), timeout)
        except TimeoutError:
            raise AssertionError(f"not seen: {fits}\n{self.text}") from None
        return self.text

    async def still(self, seconds: float) -> None:
        """Wait until nothing was painted for so long, as a person who reads would."""
        while True:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return

    def type(self, keys: str | bytes) -> None:
        os.write(self._fd, keys.encode() if isinstance(keys, str) else keys)

    async def end(self, timeout: float = WAIT) -> int:
        await asyncio.wait_for(self.ended.wait(), timeout)
        assert self.code is not None
        return self.code

    def close(self) -> None:
        if not self.ended.is_set():
            asyncio.get_running_loop().remove_reader(self._fd)
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)
