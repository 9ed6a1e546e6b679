"""The way to a terminal that takes data when it likes: nobody waits for it, and nothing piles up (FAULTS F16, F18)."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

BEHIND: Final = 128_000
"""Characters that wait at most. A terminal that has not taken them yet gets a fresh picture once it has."""

SHORT: Final = 40
"""Characters of what switches a mode at most: such goes on its way although pictures are left out."""

SWITCHES: Final = 2_000
"""So many of those wait at most."""

CLIPBOARD: Final = "\x1b]52;"
"""Begins what sets the clipboard: the user was told that it is sent. The last one counts."""

PIECE: Final = 4_096
"""Bytes that are written at once."""


class TerminalOutput:
    """What Textual takes for the terminal's file. A thread of its own writes, so that whoever has something to show
    goes on at once, however long the terminal is stopped."""

    def __init__(self, file: TextIO, *, lost: Callable[[], object]) -> None:
        """`lost` is called once, from the thread, when the terminal is gone."""
        self.caught_up: Callable[[], object] = lambda: None
        """Called from the thread when something was left out and the terminal takes data again."""
        self.left_out = 0
        """Writes that were left out so far."""
        self._file = file
        self._lost = lost
        self._gone = False
        self._more = threading.Condition()
        self._waiting: list[str] = []
        self._size = 0
        self._behind = False
        self._ending = False
        self._thread: threading.Thread | None = None

    def fileno(self) -> int:
        """Of the terminal."""
        return self._file.fileno()

    def flush(self) -> None:
        """Nothing waits longer than it must."""

    def write(self, text: str) -> None:
        """Take it. While the terminal is behind only what switches a mode or sets the clipboard is taken."""
        with self._more:
            if not text or self._gone:
                return
            if not self._behind and self._waiting and self._size + len(text) > BEHIND:
                self._behind = True
            if text.startswith(CLIPBOARD):
                self._waiting = [one for one in self._waiting if not one.startswith(CLIPBOARD)]
                self._size = sum(map(len, self._waiting))
            elif self._behind and (len(text) > SHORT or len(self._waiting) > SWITCHES):
                self.left_out += 1
                return
            self._waiting.append(text)
            self._size += len(text)
            if self._thread is None:
                self._ending = False
                self._thread = threading.Thread(target=self._run, name="terminal-output", daemon=True)
                self._thread.start()
            self._more.notify()

    def drain(self, seconds: float) -> bool:
        """Wait until all is written, and let the thread go; False when the terminal did not take it in time."""
        with self._more:
            thread, self._ending = self._thread, True
            self._more.notify()
        if thread is not None:
            thread.join(seconds)
            return not thread.is_alive()
        return True

    def _run(self) -> None:
        while (text := self._next()) is not None:
            self._put(text)

    def _next(self) -> str | None:
        """All that waits; None at the end."""
        with self._more:
            if not self._waiting and self._behind:
                self._behind = False
                self.caught_up()
            while not self._waiting and not self._ending:
                self._more.wait()
            if not self._waiting:
                self._thread = None
                return None
            text = "".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            return text

    def _put(self, text: str) -> None:
        handle = self._file.fileno()
        left = memoryview(text.encode(self._file.encoding or "utf-8", "replace"))
        while left and not self._gone:
            try:
                left = left[os.write(handle, left[:PIECE]) :]
            except BlockingIOError:  # another program made it so
                with suppress(OSError, ValueError):
                    select.select([], [handle], [], 1.0)
            except OSError:
                self._gone = True
                self._lost()
