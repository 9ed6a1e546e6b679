"""A pseudo terminal around a program, and a screen that understands what it writes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parents[2]


class Terminal:
    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (90, 30),
        env: dict[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes = b""
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # the tests have no threads
        )
        self.slave = slave

    def read(self, seconds: float = 0.05) -> None:
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.bytes += data
            self._stream.feed(data)
            seconds = 0

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    @property
    def listens(self) -> bool:
        """The keys of a dialog are lit."""
        return any(line[3].data == "a" and line[3].bold for line in self.screen.buffer.values())

    def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"never happened:\n{self.text}\n{self.bytes[-2000:]!r}"
            self.read()

    def shows(self, text: str) -> None:
        self.until(lambda: text in self.text)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 15) -> int:
        self.until(lambda: self.process.poll() is not None, seconds)
        self.read()
        return self.process.returncode

    def is_sane(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)
