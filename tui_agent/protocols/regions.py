"""Following one piece of markup to its end while it still comes in. Each is asked again only for what is new."""

from __future__ import annotations

import ast
import re
from typing import Protocol

from tui_agent.protocols import special
from tui_agent.protocols.hooks import TAGS
from tui_agent.protocols.pieces import Piece, at_line_start
from tui_agent.protocols.repair import Unreadable, read
from tui_agent.protocols.scan import ValueScan

_TAGS = "|".join(TAGS)
_CLOSER = re.compile(
    rf"</(?:{_TAGS}|function|invoke)>|\[/TOOL_CALLS\]|<\|(?:call|end|eom_id)\|>|{special.CALL_END}",
    re.IGNORECASE,
)
_CLOSER_TEXTS = (
    *(f"</{tag}>" for tag in (*TAGS, "function", "invoke")),
    "[/tool_calls]", "<|call|>", "<|end|>", "<|eom_id|>", *special.CLOSERS,
)  # fmt: skip
_EDGE = re.compile(rf"</(?:{_TAGS})>|<(?P<open>{_TAGS})(?:\s[^<>\n]{{0,100}})?>", re.IGNORECASE)
_FUNCTION_END = re.compile(
    rf"(?:</parameter>\s{{0,16}}|>\s{{0,16}})</(?:function|invoke)>(?:\s{{0,16}}</(?:{_TAGS})>)?",
    re.IGNORECASE,
)
_FUNCTION = re.compile(r"<(?:function=|invoke name=)[\"']?([\w.:\-]{1,64})[\"']?\s?>\s{0,64}", re.IGNORECASE)
_HALF_FUNCTION = re.compile(
    r"<(?:f[a-z]{0,7}|i[a-z]{0,5}(?: n?a?m?e?)?|(?:function=|invoke name=)[\"']?[\w.:\-]{0,64}[\"']?\s?(>\s*)?)?\Z",
    re.IGNORECASE,
)
_OUTER = re.compile(rf"\s{{0,16}}</(?:{_TAGS})>", re.IGNORECASE)
_NAMED = re.compile(r"[\w.\-]{1,64}\s{0,8}(?:\[CALL_ID\][\w\-]{0,64}\s{0,8})?(?:\[ARGS\]\s{0,8})?(?=\{)")
_NAME_CUT = re.compile(r"[\w.\-]{0,64}\s{0,8}(?:\[[A-Z_]{0,8}\]?[\w\-]{0,64}\s{0,8}){0,2}\Z")
_FENCE = re.compile(r"`{3,}[ \t]{0,16}\w{0,16}\s{0,64}")
_BETWEEN = re.compile(r"[\s,;}\]]{0,256}(?:`{3,}\s{0,64})?")
_EXTRA = re.compile(r"[}\]]{0,8}")
_BARE_KEY = re.compile(r"`?[{\[\s]*[A-Za-z_]")
_REST = re.compile(r"\w*")
_LONGEST = 300
"""Characters within which what follows a tag is decided."""


def _may_close(rest: str) -> bool:
    return any(one.startswith(rest) for one in _CLOSER_TEXTS)


def _whole_word(text: str, place: int) -> int:
    """The end of the word or number that `place` cuts, else `place`: half of a number is another number."""
    rest = _REST.match(text, place) if text[place - 1 : place].isalnum() else None
    return rest.end() if rest is not None else place


class Region(Protocol):
    """Markup that has begun."""

    end: int
    """Where it ended, once `run` gave a piece."""

    def run(self, text: str, final: bool) -> Piece | None:
        """The piece, or None while the text does not show its end."""


class ValueRegion:
    """JSON without markup around it."""

    def __init__(self, text: str, start: int) -> None:
        self._start = start
        self._quoted = text[start] == "`"
        # Within a line, keys without quotes are code and not a call.
        self._mention = not at_line_start(text, start) and bool(self._quoted or _BARE_KEY.match(text, start))
        self.scan = ValueScan(start + self._quoted)
        self._status = "more"
        self.end = start

    def run(self, text: str, final: bool) -> Piece | None:
        """The value, with surplus closing brackets behind it."""
        if self._status == "more":
            self._status = self.scan.run(text, final)
            if self._status == "more":
                return None
        place = len(text) if self._status == "cut" else self.scan.pos
        if self._status == "broken":
            place = _whole_word(text, place)
        body = text[self._start + self._quoted : place]
        if self._status == "closed":
            extra = _EXTRA.match(text, place)
            place = extra.end() if extra else place
            if place == len(text) and not final:
                return None
            if self._quoted and text[place : place + 1] == "`":
                place += 1
        self.end = place
        raw = text[self._start : place]
        return Piece(kind="text", raw=raw) if self._mention else Piece(kind="value", raw=raw, bodies=(body,))


class WrapperRegion:
    """Markup that says: this is a call. `head` is the length of its opening; `sure`: it is no word in a sentence."""

    def __init__(
        self, text: str, start: int, head: int, *, tag: str, name: str = "", sure: bool = False
    ) -> None:
        self._start = start
        self._tag = tag
        self._name = name
        self._quoted = text[start] == "`"
        self._line = sure or at_line_start(text, start)
        self._mention = self._quoted and not self._line
        self._pos = self._after = start + head
        self._phase = self._head
        self._scan: ValueScan | None = None
        self._from = self._pos
        self._bodies: list[str] = []
        self.end = start

    def run(self, text: str, final: bool) -> Piece | None:
        """The markup with what it holds; only its opening tag, as text, where it turns out to be prose."""
        while True:
            before = self._phase
            piece = self._phase(text, final)
            if piece is not None or self._phase == before:
                return piece

    def _done(self, text: str, end: int, kind: str = "wrapper") -> Piece:
        self.end = end
        raw = text[self._start : end]
        if self._mention:
            return Piece(kind="text", raw=raw)
        if kind == "function":
            inner = text[self._after : end] if self._tag != "function" else raw
            return Piece(kind="function", raw=raw, bodies=(inner,), tag=self._tag)
        return Piece(kind="wrapper", raw=raw, bodies=tuple(self._bodies), name=self._name, tag=self._tag)

    def _prose(self, text: str) -> Piece:
        self.end = self._after
        return Piece(kind="text", raw=text[self._start : self._after])

    def _broken(self, text: str, end: int) -> Piece:
        self.end = end
        return Piece(kind="broken", raw=text[self._start : end], tag=self._tag)

    def _head(self, text: str, final: bool) -> Piece | None:
        while text[self._pos : self._pos + 1].isspace():
            self._pos += 1
        rest = text[self._pos : self._pos + _LONGEST]
        whole = final or len(rest) == _LONGEST
        if not rest:
            if not final:
                return None
            return self._broken(text, len(text)) if self._line and not self._quoted else self._prose(text)
        if not whole and (rest in ("`", "``") or _NAME_CUT.match(rest) or _HALF_FUNCTION.match(rest)):
            return None
        fence = _FENCE.match(rest)
        if fence is not None:
            if fence.end() < len(rest):
                self._pos += fence.end()
                return self._head(text, final)
            if not whole:
                return None
        return self._inside(text, rest, final)

    def _inside(self, text: str, rest: str, final: bool) -> Piece | None:
        """What the markup holds, told by how it begins."""
        if rest[0] in "{[":
            self._scan_from(self._pos)
            return None
        if named := _NAMED.match(rest):
            self._name = re.split(r"[\s\[]", named.group().strip(), maxsplit=1)[0]
            self._scan_from(self._pos + named.end())
            return None
        function = _FUNCTION.match(rest)
        if function is not None and rest[function.end() : function.end() + 1] == "{":
            self._name = function[1]
            self._scan_from(self._pos + function.end())
            return None
        if function is not None or self._tag == "function":
            self._phase = self._function
            return None
        if self._tag in ("[TOOL_CALLS]", "harmony", "token"):
            if final and _NAME_CUT.match(rest) and self._line:
                return self._broken(text, len(text))
            return self._broken(text, self._after) if self._line else self._prose(text)
        self._phase = self._raw
        return None

    def _scan_from(self, place: int) -> None:
        self._scan, self._pos, self._from, self._phase = ValueScan(place), place, place, self._object

    def _object(self, text: str, final: bool) -> Piece | None:
        assert self._scan is not None
        status = self._scan.run(text, final)
        if status == "more":
            return None
        body = text[self._from :] if status == "cut" else text[self._from : self._scan.pos]
        self._pos = self._scan.pos
        behind = text[self._pos : self._pos + 16].lower()
        if status == "broken" and not final and len(behind) < 16 and _may_close(behind):
            return None
        if status == "cut":
            self._bodies.append(body)
            return self._done(text, len(text))
        if status == "broken":
            body = text[self._from : _whole_word(text, self._pos)]
        if status == "closed" or _CLOSER.match(text, self._pos) or self._only_unclosed(body):
            self._bodies.append(body)
            self._phase = self._tail
        else:
            self._phase = self._raw
        return None

    @staticmethod
    def _only_unclosed(body: str) -> bool:
        try:
            reading = read(body)
        except Unreadable:
            return False
        return reading.cut == "closers" and reading.end >= len(body.rstrip())

    def _tail(self, text: str, final: bool) -> Piece | None:
        between = _BETWEEN.match(text, self._pos)
        place = between.end() if between else self._pos
        rest = text[place : place + 16].lower()
        if closer := _CLOSER.match(text, place):
            end = closer.end()
            if self._tag != "function" and closer.group().lower() in ("</function>", "</invoke>"):
                rest = text[end : end + 48]
                if (
                    len(rest) < 48
                    and not final
                    and (not rest.strip() or "</tool_calls>".startswith(rest.strip()))
                ):
                    return None
                if after := _OUTER.match(text, end):
                    end = after.end()
            return self._done(text, end)
        if _may_close(rest) or rest in ("`", "``"):
            if not final:
                return None
            return self._done(text, len(text) if rest.strip() else place)
        if rest[:1] == "{" and not self._name:
            self._scan_from(place)
            return None
        extra = _EXTRA.match(text, self._pos)
        return self._done(text, extra.end() if extra else self._pos)

    def _raw(self, text: str, final: bool) -> Piece | None:
        edge = _EDGE.search(text, self._pos)
        if edge is None:
            self._pos = max(self._pos, len(text) - 120)
            if not final:
                return None
            if self._scan is not None:
                self._bodies.append(text[self._from :])
                return self._done(text, len(text))
            return self._prose(text)
        if edge["open"]:
            if self._scan is not None:
                self._bodies.append(text[self._from : edge.start()])
                return self._done(text, edge.start())
            return self._around(text, edge, final)
        inner = text[self._after : edge.start()]
        words = inner.strip().strip("`'\"").strip().lower()
        if self._mention or (
            not self._line and (not any(map(str.isalnum, words)) or words in ("and", "or", "to"))
        ):
            return self._prose(text)
        self._bodies.append(text[self._from : edge.start()])
        return self._done(text, edge.end())

    def _around(self, text: str, inner: re.Match[str], final: bool) -> Piece | None:
        """A tag that stands around others, each with its call, is markup itself; any other is prose."""
        if not self._line or self._quoted or text[self._after : inner.start()].strip():
            return self._prose(text)
        follows = text[inner.end() : inner.end() + _LONGEST].lstrip()[:1]
        if not follows and not final:
            return None
        return self._done(text, inner.start()) if follows and follows in "{[" else self._prose(text)

    def _function(self, text: str, final: bool) -> Piece | None:
        found = _FUNCTION_END.search(text, max(self._start, self._pos - 120))
        if found is None:
            self._pos = max(self._pos, len(text) - 120)
            return self._done(text, len(text), "function") if final else None
        if found.end() + 48 > len(text) and not final:
            return None
        return self._done(text, found.end(), "function")


class PythonRegion:
    """A whole reply that is a list of calls in Python's own form."""

    LIMIT = 64 * 1024

    def __init__(self, start: int) -> None:
        self._start = start
        self.end = start

    def run(self, text: str, final: bool) -> Piece | None:
        """The list; its bracket alone, as text, where it is none."""
        if len(text) - self._start <= self.LIMIT:
            if not final:
                return None
            try:
                tree = ast.parse(text[self._start :].strip(), mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                tree = None
            if isinstance(tree, ast.List) and all(isinstance(one, ast.Call) for one in tree.elts):
                self.end = len(text)
                return Piece(kind="python", raw=text[self._start :], bodies=(text[self._start :].strip(),))
        self.end = self._start + 1
        return Piece(kind="text", raw=text[self._start : self.end])


def region_at(text: str, found: re.Match[str]) -> Region | None:
    """The region that a hook begins, if it is one of calls."""
    kind = found.lastgroup if found.lastgroup != "tag" else "wrap"
    start = found.start()
    if kind == "value":
        return ValueRegion(text, start)
    if kind == "wrap":
        return WrapperRegion(text, start, found.end() - start, tag=found["tag"].lower())
    if kind == "mistral":
        return WrapperRegion(text, start, found.end() - start, tag="[TOOL_CALLS]")
    if kind == "function":
        quoted = text[start] == "`"
        return WrapperRegion(text, start, int(quoted), tag="function")
    return None
