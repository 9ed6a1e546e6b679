"""Words that models use as control signals, taken out of the text they stand in (C4, W8)."""

from __future__ import annotations

import re

COMPLETE = "[TASK_COMPLETE]"
"""The model claims that its task is done."""

_COMPLETE = re.compile(re.escape(COMPLETE), re.IGNORECASE)
_BEGINNING = re.compile(r"\[TASK(?:_[A-Z]*)?\Z", re.IGNORECASE)


def beginning_at(text: str, start: int = 0) -> int:
    """Where in the end of `text` a signal may have begun; the length of the text where none has."""
    at = text.find("[", max(start, len(text) - len(COMPLETE) + 1))
    while at >= 0:
        if COMPLETE.startswith(text[at:].upper()):
            return at
        at = text.find("[", at + 1)
    return len(text)


def without_signals(text: str) -> tuple[str, bool]:
    """The text without signals, and without a torn one at its end; and whether it held a whole one."""
    stripped, count = _COMPLETE.subn("", text)
    return _BEGINNING.sub("", stripped), count > 0


class SignalStrip:
    """The same for a stream, such as native thinking."""

    def __init__(self) -> None:
        self._held = ""
        self.seen = False
        """A whole signal came."""

    def feed(self, text: str) -> str:
        """What is sure to be no signal."""
        stripped, count = _COMPLETE.subn("", self._held + text)
        self.seen = self.seen or count > 0
        at = beginning_at(stripped)
        self._held = stripped[at:]
        return stripped[:at]

    def finish(self) -> str:
        """The rest; a torn signal is dropped."""
        rest, self._held = self._held, ""
        return _BEGINNING.sub("", rest)
