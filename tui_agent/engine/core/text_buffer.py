"""Text that is gathered for a moment, so that many small pieces become one event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TextBuffer:
    """Joins the pieces of `seconds` and passes them to `emit`."""

    def __init__(self, emit: Callable[[str], object], seconds: float) -> None:
        self._emit = emit
        self._seconds = seconds
        self._waiting: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0
        """Characters that came."""

    def add(self, text: str) -> None:
        """Take a piece; the first one that waits starts the timer."""
        if not text:
            return
        self._waiting.append(text)
        self.size += len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.flush)

    def flush(self) -> None:
        """Pass on what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            text = "".join(self._waiting)
            self._waiting.clear()
            self._emit(text)
