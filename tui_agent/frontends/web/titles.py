"""The title that a program in a terminal gives its window, for the page that shows it (X4)."""

from __future__ import annotations

import re

from tui_agent.text import one_line

LONGEST = 4096
"""Bytes of a title; a longer one is none."""
SHOWN = 160
"""Characters of it that a page is told."""
_SET = re.compile(rb"\x1b\][02];([^\x07\x18\x1a\x1b]{0,%d})(?:\x07|(?=\x1b))" % LONGEST)
"""OSC 0 and 2 (xterm's ctlseqs). An escape ends it whatever follows, as it does in the terminal of the page."""
_BEGUN = re.compile(rb"\x1b(?:\](?:[02](?:;[^\x07\x18\x1a\x1b]{0,%d})?)?)?\Z" % LONGEST)


class Titles:
    """Follows what is written to the terminal."""

    def __init__(self) -> None:
        self.text = ""
        """The last title, on one line, without anything that would not be seen; empty for none."""
        self._held = b""

    def feed(self, data: bytes) -> bool:
        """Read on; True when the title is another one now."""
        if not self._held and b"\x1b]" not in data and data[-1:] != b"\x1b":
            return False
        data = self._held + data
        before = self.text
        for found in _SET.finditer(data):
            self.text = one_line(found[1].decode("utf-8", "replace"), SHOWN)
        begun = _BEGUN.search(data, max(0, data.rfind(b"\x1b")))
        self._held = begun[0] if begun else b""
        return self.text != before
