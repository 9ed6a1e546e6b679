"""Buffering of streamed text, so that many small deltas become one event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TextBuffer:
    """Collects text for `seconds`, then passes it to `emit`."""

    def __init__(self, emit: Callable[[str], object], seconds: float) -> None:
        self._emit = emit
        self._seconds = seconds
        self._deltas: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self.size = 0
        """Total characters added."""

    def add(self, text: str) -> None:
        """Add a delta; the first one starts the timer."""
        if not text:
            return
        self._deltas.append(text)
        self.size += len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.flush)

    def flush(self) -> None:
        """Emit the collected text immediately."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deltas:
            text = "".join(self._deltas)
            self._deltas.clear()
            self._emit(text)
