"""What the user gets to see of a reply: text without the gaps that calls leave, given out as early as it is sure."""

from __future__ import annotations

import re

from tui_agent.protocols.signals import SignalStrip

_SPACE_AFTER = re.compile(r"[\s;,]*")


class Shown:
    """Grows only: what was given out stays. Space at both ends of the whole is dropped."""

    def __init__(self) -> None:
        self._strip = SignalStrip()
        self._blank = ""
        self._after_call = False
        self._begun = False
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """Everything given out so far."""
        return "".join(self._parts)

    def add(self, text: str) -> str:
        """Take text; what of it may be shown now."""
        return self._give(self._strip.feed(text))

    def gap(self) -> str:
        """Something that is not shown stood here; separators between calls go with it. What may be shown now."""
        given = self._give(self._strip.finish())
        self._blank = self._blank.translate(_SEPARATORS) if self._after_call else self._blank
        self._after_call = True
        return given

    def end(self) -> str:
        """The rest."""
        rest = self._give(self._strip.finish())
        self._blank = ""
        return rest

    def _give(self, text: str) -> str:
        if not text:
            return ""
        lead = _SPACE_AFTER.match(text) if self._after_call else None
        blanks = lead.end() if lead is not None else len(text) - len(text.lstrip())
        self._blank += text[:blanks]
        if blanks == len(text):
            return ""
        tail = len(text.rstrip())
        before = self._blank
        if self._after_call and self._begun:
            before = re.sub(r"\n(?:[ \t\r]*\n){2,}", "\n\n", before)
        given = (before if self._begun else before.lstrip()) + text[blanks:tail]
        self._begun = True
        self._after_call = False
        self._blank = text[tail:]
        self._parts.append(given)
        return given


_SEPARATORS = str.maketrans("", "", ",;")
