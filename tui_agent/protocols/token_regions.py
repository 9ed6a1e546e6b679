"""Following a call that is written in special tokens, in DeepSeek's tags, or as Python in a block of its own."""

from __future__ import annotations

import re

from tui_agent.protocols import special
from tui_agent.protocols.pieces import Piece, at_line_start
from tui_agent.protocols.python_calls import CODE_LIMIT, parsed
from tui_agent.protocols.regions import WrapperRegion

_DSML = re.compile(r"[|｜]DSML[|｜]")
_INVOKE = re.compile(
    r"<[|｜]DSML[|｜]invoke\s{1,8}name=[\"']?(?P<name>[\w.:\-]{1,64})[\"']?\s?>", re.IGNORECASE
)
_INVOKE_END = re.compile(r"</[|｜]DSML[|｜]invoke>", re.IGNORECASE)
_TAG_LONGEST = 40
_ENDS = 100
"""Marks that may end a block of Python and are tried; others stand in its strings."""


class TokenRegion:
    """A call in tokens: its head, its arguments as JSON, its end."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._inner: WrapperRegion | None = None
        self._sought = start
        self.end = start

    def run(self, text: str, final: bool) -> Piece | None:
        """The call; as text or broken markup its first token alone where no call follows."""
        if self._inner is None:
            head = special.head_of(text, self._start, final)
            if head.status == "more":
                return None
            if head.status == "whole":
                return self._whole(text, head)
            if head.status == "none":
                return self._none(text)
            if head.status == "odd":
                return self._odd(text, head, final)
            name = head.name
            self._inner = WrapperRegion(
                text, self._start, head.end - self._start, tag="token", name=name, sure=True
            )
        piece = self._inner.run(text, final)
        self.end = self._inner.end
        return piece

    def _whole(self, text: str, head: special.Head) -> Piece:
        self.end = head.end
        raw = text[self._start : self.end]
        return Piece(kind="wrapper", raw=raw, bodies=("{}",), name=head.name, tag="token")

    def _odd(self, text: str, head: special.Head, final: bool) -> Piece | None:
        """Arguments that are no JSON, up to the next token."""
        found = special.ENDS.search(text, max(head.end, self._sought))
        if found is None and not final:
            self._sought = max(head.end, len(text) - _TAG_LONGEST - 8)
            return None
        body = text[head.end : found.start() if found else len(text)]
        self.end = found.end() if found and "end" in found.group() else head.end + len(body)
        raw = text[self._start : self.end]
        return Piece(kind="wrapper", raw=raw, bodies=(body,), name=head.name, tag="token")

    def _none(self, text: str) -> Piece:
        self.end = text.index(">", self._start) + 1
        if special.SECTION.match(text, self._start):
            return Piece(kind="closer", raw=text[self._start : self.end], tag="token")
        mention = text[self._start - 1 : self._start] == " " and not at_line_start(text, self._start)
        raw = text[self._start : self.end]
        return Piece(kind="text" if mention else "broken", raw=raw, tag="token")


class DsmlRegion:
    """`<｜DSML｜invoke name="…">` up to its end: the tags of other models, once the mark is taken out."""

    def __init__(self, start: int) -> None:
        self._start = self._pos = start
        self.end = start

    def run(self, text: str, final: bool) -> Piece | None:
        """The call, once its end or that of the text has come."""
        found = _INVOKE_END.search(text, self._pos)
        if found is None and not final:
            self._pos = max(self._pos, len(text) - _TAG_LONGEST)
            return None
        self.end = found.end() if found else len(text)
        raw = text[self._start : self.end]
        plain = _DSML.sub("", raw)
        head = _INVOKE.match(raw)
        inside = plain.partition(">")[2].rpartition("</")[0].strip()
        if head is not None and inside.startswith("{"):
            return Piece(kind="wrapper", raw=raw, bodies=(inside,), name=head["name"], tag="dsml")
        return Piece(kind="function", raw=raw, bodies=(plain,), tag="dsml")


def dsml_invokes(tag: str) -> bool:
    """Whether a tag of DeepSeek V3.2 begins a call; the others say nothing."""
    return _INVOKE.fullmatch(tag) is not None


class CodeBlock:
    """Python between a fence's marks: it ends at the first mark before which it can be read."""

    def __init__(self, start: int, mark: str) -> None:
        self._start = self._pos = start
        self._mark = mark
        self._tries = 0
        self._first = -1
        """The first mark that stands at the beginning of a line."""

    def run(self, text: str, final: bool) -> tuple[str, int] | None:
        """What stands in it and where it ends, its mark included."""
        while (at := text.find(self._mark, self._pos)) >= 0 and self._tries < _ENDS:
            end = at + len(self._mark)
            if end == len(text) and not final:
                return None
            self._tries += 1
            self._pos = end
            if readable(text[self._start : at]):
                return text[self._start : at], end
            if self._first < 0 and at_line_start(text, at):
                self._first = at
        self._pos = max(self._pos, len(text) - len(self._mark) + 1)
        if not final:
            return None
        at = self._first if self._first >= 0 else len(text)
        inside = text[self._start : at]
        if self._first < 0:
            inside = inside.rstrip().removesuffix(self._mark[:2]).removesuffix(self._mark[:1])
        return inside, min(len(text), at + len(self._mark))


def readable(code: str) -> bool:
    """Whether it is whole Python."""
    if len(code) > CODE_LIMIT:
        return False
    try:
        parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
