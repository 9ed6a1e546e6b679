"""A reply's text, cut into pieces while it grows, so that only the last piece is ever rendered again.

The cuts depend on the text alone, never on how it arrived: a replayed reply looks like the live one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONG = 3_000
"""Characters after which an open piece is cut at the next possible place."""

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")


@dataclass(slots=True)
class Piece:
    """Some whole blocks of markdown, or one fenced code block."""

    source: str = ""
    code: bool = False
    language: str = ""


class MarkdownStream:
    """`feed` takes text as it comes; `pieces` are settled, `tail` is what may still change."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.rest = ""
        """The line that has no end yet."""
        self.ended = False
        self._open = Piece()
        self._lines: list[str] = []
        self._size = 0
        self._fence = ""
        self._blank = False

    @property
    def fenced(self) -> bool:
        """True while a code fence is open."""
        return bool(self._fence)

    @property
    def language(self) -> str:
        """What the open fence says that it holds."""
        return self._open.language

    @property
    def tail(self) -> str:
        """The open piece as far as it goes, the unfinished line included."""
        return "\n".join([*self._lines, self.rest] if self.rest else self._lines)

    @property
    def tail_lines(self) -> list[str]:
        """The whole lines of the open piece."""
        return self._lines

    def feed(self, text: str) -> None:
        """More text."""
        *whole, self.rest = (self.rest + text).split("\n")
        for one in whole:
            self._take(one)
        while len(self.rest) > LONG:
            place = self.rest.rfind(" ", LONG // 2, LONG)
            place = LONG if place < 0 or self._fence else place
            self._take(self.rest[:place])
            if not self._fence:
                self._settle()
            self.rest = self.rest[place:]

    def end(self) -> None:
        """No more text: everything is settled."""
        if self.rest:
            self._take(self.rest)
            self.rest = ""
        self._settle()
        self.ended = True

    def _take(self, text: str) -> None:
        if self._fence:
            if self._closes(text):
                self._fence = ""
                self._settle()
            else:
                self._push(text)
            return
        if (found := FENCE.match(text)) and not (self._in_list() and text.startswith(" ")):
            self._settle()
            language = (found[2].split() or [""])[0]
            self._open, self._fence = Piece(code=True, language=language), found[1]
            return
        if not text.strip():
            self._blank = bool(self._lines)
            if self._lines:
                self._push("")
            return
        if self._ripe(text):
            self._settle()
        self._blank = False
        self._push(text)

    def _closes(self, text: str) -> bool:
        mark = text.strip()
        return len(mark) >= len(self._fence) and set(mark) == {self._fence[0]}

    def _in_list(self) -> bool:
        return bool(self._lines) and ITEM.match(self._lines[0]) is not None

    def _ripe(self, text: str) -> bool:
        """True when a new block begins at `text` and the lines before it are whole blocks."""
        if text[0] in " \t":
            return False
        item = ITEM.match(text) is not None
        if self._blank:
            return not (item and self._in_list()) or self._size > LONG
        return self._size > LONG and (item if self._in_list() else self._size > 2 * LONG)

    def _push(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text) + 1

    def _settle(self) -> None:
        source = "\n".join(self._lines)
        if not self._open.code:
            source = source.rstrip()
        if source or self._open.code:
            self._open.source = source
            self.pieces.append(self._open)
        self._open, self._lines, self._size, self._blank = Piece(), [], 0, False
