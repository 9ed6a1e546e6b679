"""Thinking that comes inside the text (`<think>…</think>`), taken apart while it streams in (C6, R9.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tui_agent.protocols.pieces import Piece
from tui_agent.protocols.segments import Segmenter

Kind = Literal["text", "thought", "unopened"]


class ThinkSplitter:
    """Splits a stream into text and thoughts; calls and what stands in their strings pass as text.

    `thinking`: the reply begins inside a thought, as with models whose template opens it for them.
    """

    def __init__(self, *, thinking: bool = False, marks: bool = False) -> None:
        """With `marks`, an empty piece `unopened` tells where a thought ended that was never opened, and what the
        model wrote in the name of a tool or the user is left out."""
        self._marks = marks
        self._segmenter = Segmenter(thinking=thinking, cuts=marks)
        self.unopened = False
        """A thought was closed that was never opened: what came as text before was thought."""
        self.done = False
        """The signal of completion stood in a thought; in text it is left for the reader of calls."""

    @property
    def over(self) -> bool:
        """Nothing that still comes counts."""
        return self._segmenter.over

    def feed(self, text: str) -> list[tuple[Kind, str]]:
        """The pieces that are decided, in order."""
        return self._sorted(self._segmenter.feed(text))

    def finish(self) -> list[tuple[Kind, str]]:
        """The rest; a thought that was never closed ends here."""
        return self._sorted(self._segmenter.finish())

    def _sorted(self, pieces: Iterable[Piece]) -> list[tuple[Kind, str]]:
        found: list[tuple[Kind, str]] = []
        for piece in pieces:
            if piece.kind == "unopened":
                self.unopened = True
                if self._marks:
                    found.append(("unopened", ""))
                continue
            if piece.kind == "invented":
                continue
            if piece.kind == "done" and piece.tag == "thought":
                self.done = True
                continue
            kind: Kind = "thought" if piece.kind == "thought" else "text"
            if found and found[-1][0] == kind:
                found[-1] = (kind, found[-1][1] + piece.raw)
            else:
                found.append((kind, piece.raw))
        return found
