"""Following one piece of markup to its end while it still comes in. Each is asked again only for what is new."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from typing import Any

from tui_agent.protocols.calls import CODE_LIMIT, parse_code
from tui_agent.protocols.markup import CLOSERS, TAGS, Segment, SegmentKind, TokenCall, is_at_line_start, token_call
from tui_agent.protocols.python_source import parse_expression
from tui_agent.protocols.repair import UnreadableJson, ValueScan, repair_json
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "regions")
_MARKUP = Patterns("tui_agent.protocols", "markup")

_CLOSER_TEXTS = (
    *(f"</{tag}>" for tag in (*TAGS, "function", "invoke")),
    "[/tool_calls]", "<|call|>", "<|end|>", "<|eom_id|>", *CLOSERS,
)  # fmt: skip
_LONGEST = 300
"""Characters within which what follows a tag is decided."""


def _may_close(rest: str) -> bool:
    return any(one.startswith(rest) for one in _CLOSER_TEXTS)


def _whole_word(text: str, place: int) -> int:
    """The end of the word or number that `place` cuts, else `place`: half of a number is another number."""
    rest = _RE.rest.match(text, place) if text[place - 1 : place].isalnum() else None
    return rest.end() if rest is not None else place


class Region(ABC):
    """Markup that has begun at `start`."""

    def __init__(self, start: int) -> None:
        self._start = self._pos = start
        self.end = start
        """Where it ended, once `run` gave a piece."""

    @abstractmethod
    def run(self, text: str, final: bool) -> Segment | None:
        """The piece, or None while the text does not show its end."""

    def _piece(self, kind: SegmentKind, text: str, end: int, **more: Any) -> Segment:
        """The piece, which ends at `end`."""
        self.end = end
        return Segment(kind=kind, raw=text[self._start : end], **more)


class ValueRegion(Region):
    """JSON without markup around it."""

    def __init__(self, text: str, start: int) -> None:
        super().__init__(start)
        self._quoted = text[start] == "`"
        # Within a line, keys without quotes are code and not a call.
        self._mention = not is_at_line_start(text, start) and bool(self._quoted or _RE.bare_key.match(text, start))
        self.scan = ValueScan(start + self._quoted)
        self._status = "more"

    def run(self, text: str, final: bool) -> Segment | None:
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
            extra = _RE.extra.match(text, place)
            place = extra.end() if extra else place
            if place == len(text) and not final:
                return None
            if self._quoted and text[place : place + 1] == "`":
                place += 1
        return self._piece("text", text, place) if self._mention else self._piece("value", text, place, bodies=(body,))


class WrapperRegion(Region):
    """Markup that says: this is a call. `head` is the length of its opening; `sure`: it is no word in a sentence."""

    def __init__(self, text: str, start: int, head: int, *, tag: str, name: str = "", sure: bool = False) -> None:
        super().__init__(start)
        self._tag = tag
        self._name = name
        self._quoted = text[start] == "`"
        self._line = sure or is_at_line_start(text, start)
        self._mention = self._quoted and not self._line
        self._pos = self._after = start + head
        self._phase = self._head
        self._scan: ValueScan | None = None
        self._from = self._pos
        self._bodies: list[str] = []

    def run(self, text: str, final: bool) -> Segment | None:
        """The markup with what it holds; only its opening tag, as text, where it turns out to be prose."""
        while True:
            before = self._phase
            piece = self._phase(text, final)
            if piece is not None or self._phase == before:
                return piece

    def _done(self, text: str, end: int, *, function: bool = False) -> Segment:
        if self._mention:
            return self._piece("text", text, end)
        if function:
            inner = text[self._start if self._tag == "function" else self._after : end]
            return self._piece("function", text, end, bodies=(inner,), tag=self._tag)
        return self._piece("wrapper", text, end, bodies=tuple(self._bodies), name=self._name, tag=self._tag)

    def _prose(self, text: str) -> Segment:
        return self._piece("text", text, self._after)

    def _broken(self, text: str, end: int) -> Segment:
        return self._piece("broken", text, end, tag=self._tag)

    def _head(self, text: str, final: bool) -> Segment | None:
        while text[self._pos : self._pos + 1].isspace():
            self._pos += 1
        rest = text[self._pos : self._pos + _LONGEST]
        whole = final or len(rest) == _LONGEST
        if not rest:
            if not final:
                return None
            return self._broken(text, len(text)) if self._line and not self._quoted else self._prose(text)
        if not whole and (rest in ("`", "``") or _RE.name_cut.match(rest) or _RE.half_function.match(rest)):
            return None
        fence = _RE.fence.match(rest)
        if fence is not None:
            if fence.end() < len(rest):
                self._pos += fence.end()
                return self._head(text, final)
            if not whole:
                return None
        return self._inside(text, rest, final)

    def _inside(self, text: str, rest: str, final: bool) -> Segment | None:
        """What the markup holds, told by how it begins."""
        if rest[0] in "{[":
            self._scan_from(self._pos)
            return None
        if named := _RE.named.match(rest):
            self._name = re.split(r"[\s\[]", named.group().strip(), maxsplit=1)[0]
            self._scan_from(self._pos + named.end())
            return None
        function = _RE.function.match(rest)
        if function is not None and rest[function.end() : function.end() + 1] == "{":
            self._name = function[1]
            self._scan_from(self._pos + function.end())
            return None
        if function is not None or self._tag == "function":
            self._phase = self._function
            return None
        if self._tag in ("[TOOL_CALLS]", "harmony", "token"):
            if final and _RE.name_cut.match(rest) and self._line:
                return self._broken(text, len(text))
            return self._broken(text, self._after) if self._line else self._prose(text)
        self._phase = self._raw
        return None

    def _scan_from(self, place: int) -> None:
        self._scan, self._pos, self._from, self._phase = ValueScan(place), place, place, self._object

    def _object(self, text: str, final: bool) -> Segment | None:
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
        if status == "closed" or _RE.closer.match(text, self._pos) or self._only_unclosed(body):
            self._bodies.append(body)
            self._phase = self._tail
        else:
            self._phase = self._raw
        return None

    @staticmethod
    def _only_unclosed(body: str) -> bool:
        try:
            reading = repair_json(body)
        except UnreadableJson:
            return False
        return reading.cut == "closers" and reading.end >= len(body.rstrip())

    def _tail(self, text: str, final: bool) -> Segment | None:
        between = _RE.between.match(text, self._pos)
        place = between.end() if between else self._pos
        rest = text[place : place + 16].lower()
        if closer := _RE.closer.match(text, place):
            end = closer.end()
            if self._tag != "function" and closer.group().lower() in ("</function>", "</invoke>"):
                rest = text[end : end + 48]
                if len(rest) < 48 and not final and (not rest.strip() or "</tool_calls>".startswith(rest.strip())):
                    return None
                if after := _RE.outer.match(text, end):
                    end = after.end()
            return self._done(text, end)
        if _may_close(rest) or rest in ("`", "``"):
            if not final:
                return None
            return self._done(text, len(text) if rest.strip() else place)
        if rest[:1] == "{" and not self._name:
            self._scan_from(place)
            return None
        extra = _RE.extra.match(text, self._pos)
        return self._done(text, extra.end() if extra else self._pos)

    def _raw(self, text: str, final: bool) -> Segment | None:
        edge = _RE.edge.search(text, self._pos)
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
        if self._mention or (not self._line and (not any(map(str.isalnum, words)) or words in ("and", "or", "to"))):
            return self._prose(text)
        self._bodies.append(text[self._from : edge.start()])
        return self._done(text, edge.end())

    def _around(self, text: str, inner: re.Match[str], final: bool) -> Segment | None:
        """A tag that stands around others, each with its call, is markup itself; any other is prose."""
        if not self._line or self._quoted or text[self._after : inner.start()].strip():
            return self._prose(text)
        follows = text[inner.end() : inner.end() + _LONGEST].lstrip()[:1]
        if not follows and not final:
            return None
        return self._done(text, inner.start()) if follows and follows in "{[" else self._prose(text)

    def _function(self, text: str, final: bool) -> Segment | None:
        found = _RE.function_end.search(text, max(self._start, self._pos - 120))
        if found is None:
            self._pos = max(self._pos, len(text) - 120)
            return self._done(text, len(text), function=True) if final else None
        if found.end() + 48 > len(text) and not final:
            return None
        return self._done(text, found.end(), function=True)


class PythonRegion(Region):
    """A whole reply that is a list of calls in Python's own form."""

    LIMIT = 64 * 1024

    def run(self, text: str, final: bool) -> Segment | None:
        """The list; its bracket alone, as text, where it is none."""
        if len(text) - self._start <= self.LIMIT:
            if not final:
                return None
            tree = parse_expression(text[self._start :].strip())
            if isinstance(tree, ast.List) and all(isinstance(one, ast.Call) for one in tree.elts):
                return self._piece("python", text, len(text), bodies=(text[self._start :].strip(),))
        return self._piece("text", text, self._start + 1)


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


_TAG_LONGEST = 40
_ENDS = 100
"""Marks that may end a block of Python and are tried; others stand in its strings."""


class TokenRegion(Region):
    """A call in tokens: its head, its arguments as JSON, its end."""

    _inner: WrapperRegion | None = None

    def run(self, text: str, final: bool) -> Segment | None:
        """The call; as text or broken markup its first token alone where no call follows."""
        if self._inner is None:
            head = token_call(text, self._start, final)
            if head.status == "more":
                return None
            if head.status == "whole":
                return self._piece("wrapper", text, head.end, bodies=("{}",), name=head.name, tag="token")
            if head.status == "none":
                return self._none(text)
            if head.status == "odd":
                return self._odd(text, head, final)
            name = head.name
            self._inner = WrapperRegion(text, self._start, head.end - self._start, tag="token", name=name, sure=True)
        piece = self._inner.run(text, final)
        self.end = self._inner.end
        return piece

    def _odd(self, text: str, head: TokenCall, final: bool) -> Segment | None:
        """Arguments that are no JSON, up to the next token."""
        found = _MARKUP.ends.search(text, max(head.end, self._pos))
        if found is None and not final:
            self._pos = max(head.end, len(text) - _TAG_LONGEST - 8)
            return None
        body = text[head.end : found.start() if found else len(text)]
        end = found.end() if found and "end" in found.group() else head.end + len(body)
        return self._piece("wrapper", text, end, bodies=(body,), name=head.name, tag="token")

    def _none(self, text: str) -> Segment:
        mention = text[self._start - 1 : self._start] == " " and not is_at_line_start(text, self._start)
        section = _MARKUP.section.match(text, self._start)
        end = text.index(">", self._start) + 1
        return self._piece("closer" if section else "text" if mention else "broken", text, end, tag="token")


class DsmlRegion(Region):
    """`<｜DSML｜invoke name="…">` up to its end: the tags of other models, once the mark is taken out."""

    def run(self, text: str, final: bool) -> Segment | None:
        """The call, once its end or that of the text has come."""
        found = _RE.invoke_end.search(text, self._pos)
        if found is None and not final:
            self._pos = max(self._pos, len(text) - _TAG_LONGEST)
            return None
        end = found.end() if found else len(text)
        raw = text[self._start : end]
        plain = _RE.dsml.sub("", raw)
        head = _RE.invoke.match(raw)
        inside = plain.partition(">")[2].rpartition("</")[0].strip()
        if head is not None and inside.startswith("{"):
            return self._piece("wrapper", text, end, bodies=(inside,), name=head["name"], tag="dsml")
        return self._piece("function", text, end, bodies=(plain,), tag="dsml")


def dsml_invokes(tag: str) -> bool:
    """Whether a tag of DeepSeek V3.2 begins a call; the others say nothing."""
    return _RE.invoke.fullmatch(tag) is not None


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
            if is_whole_python(text[self._start : at]):
                return text[self._start : at], end
            if self._first < 0 and is_at_line_start(text, at):
                self._first = at
        self._pos = max(self._pos, len(text) - len(self._mark) + 1)
        if not final:
            return None
        at = self._first if self._first >= 0 else len(text)
        inside = text[self._start : at]
        if self._first < 0:
            inside = inside.rstrip().removesuffix(self._mark[:2]).removesuffix(self._mark[:1])
        return inside, min(len(text), at + len(self._mark))


def is_whole_python(code: str) -> bool:
    """Whether it is whole Python."""
    if len(code) > CODE_LIMIT:
        return False
    try:
        parse_code(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
