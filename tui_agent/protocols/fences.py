"""Code fences: one that holds nothing but calls is markup, any other is text."""

from __future__ import annotations

import re

from tui_agent.protocols.hooks import HOOK, may_begin
from tui_agent.protocols.pieces import Piece, at_line_start
from tui_agent.protocols.regions import Region, region_at
from tui_agent.protocols.token_regions import CodeBlock

_HEAD = re.compile(
    r"(?P<mark>`{3,16}|~{3,16})[ \t]{0,16}(?P<kind>[\w+.#\-]{0,32})[ \t]{0,16}(?P<line>\r?\n)?"
)
_BETWEEN = re.compile(r"[\s,;]*")
_LONGEST = 500
"""Calls that one fence may hold."""
_CODE = ("tool_code", "tool_codes", "tool_call", "tool_calls", "function_call", "function_calls")
"""Fences whose Python is meant as calls: Gemma's and what it makes of others."""
_INVENTED = ("tool_output", "tool_outputs", "tool_response", "tool_result", "tool_results")
"""Fences that only a program writes."""
_CALLS = ("value", "wrap", "function", "mistral")


class FenceRegion:
    """Follows a fence as long as it may hold calls only."""

    def __init__(self, start: int) -> None:
        self._start = self._pos = self.end = start
        self._mark = ""
        self._inner: Region | None = None
        self._parts: list[Piece] = []
        self._kind = ""
        self._code: CodeBlock | None = None
        self.open = ""
        """The fence's mark if it holds text and goes on behind the piece."""

    @property
    def inner(self) -> Region | None:
        """What is being read inside."""
        return self._inner

    def run(self, text: str, final: bool) -> Piece | None:
        """The whole fence, or as text what was read of it up to the first sign of something else."""
        if not self._mark and not self._head(text, final):
            return None
        if self._kind in _INVENTED:
            self.end = self._pos
            return Piece(kind="invented", raw=text[self._start : self._pos], tag="result")
        if self._kind in _CODE and not self._begins_code(text, final):
            return None
        if self._code is not None:
            return self._python(self._code, text, final)
        while True:
            if self._inner is not None:
                piece = self._inner.run(text, final)
                if piece is None:
                    return None
                self._pos = self._inner.end
                self._inner = None
                if piece.kind == "text" or len(self._parts) > _LONGEST:
                    return self._other(text)
                self._parts.append(piece)
            between = _BETWEEN.match(text, self._pos)
            self._pos = between.end() if between else self._pos
            if self._pos == len(text) or (final and self._mark.startswith(text[self._pos :])):
                return self._whole(text, len(text)) if final else None
            if text.startswith(self._mark, self._pos):
                return self._closed(text)
            found = HOOK.match(text, self._pos)
            self._inner = region_at(text, found) if found and found.lastgroup in _CALLS else None
            if self._inner is None:
                rest = text[self._pos : self._pos + len(self._mark)]
                if not final and (may_begin(text, self._pos) or self._mark.startswith(rest)):
                    return None
                return self._other(text)

    def _head(self, text: str, final: bool) -> bool:
        head = _HEAD.match(text, self._start)
        if head is None or (head.end() == len(text) and head["line"] is None and not final):
            return False
        self._mark = head["mark"]
        self._kind = head["kind"].lower()
        self._pos = head.end()
        return True

    def _begins_code(self, text: str, final: bool) -> bool:
        """Whether it is settled what the fence holds; Python, unless it begins like another form."""
        if at_line_start(text, self._start) or "\n" in text[self._start : self._pos]:
            rest = text[self._pos : self._pos + 400].lstrip()
            if not final and (rest in ("", "[") or self._mark.startswith(rest)):
                return False
            if rest and not rest.startswith(("{", "<", "[{", self._mark)):
                self._code = CodeBlock(self._pos, self._mark)
        self._kind = ""
        return True

    def _python(self, code: CodeBlock, text: str, final: bool) -> Piece | None:
        found = code.run(text, final)
        if found is None:
            return None
        inside, self.end = found
        return Piece(kind="code", raw=text[self._start : self.end], bodies=(inside,), tag="tool_code")

    def _closed(self, text: str) -> Piece:
        end = self._pos + len(self._mark)
        if not self._parts:
            self.end = end
            return Piece(kind="text", raw=text[self._start : end])
        return self._whole(text, end)

    def _whole(self, text: str, end: int) -> Piece:
        self.end = end
        raw = text[self._start : end]
        return (
            Piece(kind="fence", raw=raw, parts=tuple(self._parts))
            if self._parts
            else Piece(kind="text", raw=raw)
        )

    def _other(self, text: str) -> Piece:
        self.end = self._pos
        self.open = self._mark
        return Piece(kind="text", raw=text[self._start : self._pos])
