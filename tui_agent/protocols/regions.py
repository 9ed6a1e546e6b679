"""Follow a single piece of markup to its end while the reply streams in. Text is scanned only once."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from typing import Any

from tui_agent.protocols.calls import CODE_LIMIT, parse_code
from tui_agent.protocols.markup import (
    CLOSERS,
    Segment,
    SegmentKind,
    TokenCall,
    alternatives,
    is_at_line_start,
    token_call,
)
from tui_agent.protocols.python_source import PARSE_ERRORS, parse_expression
from tui_agent.protocols.repair import UnreadableJson, ValueScan, repair_json
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "regions")
_MARKUP = Patterns("tui_agent.protocols", "markup")

_LOOKAHEAD = 300
"""Characters after a tag that decide what follows it."""


def _may_begin_closer(text: str) -> bool:
    tags = (f"</{tag}>" for tag in (*alternatives("tags"), "function", "invoke"))
    closers = (*tags, "[/tool_calls]", "<|call|>", "<|end|>", "<|eom_id|>", *CLOSERS)
    return any(closer.startswith(text) for closer in closers)


def _word_end(text: str, position: int) -> int:
    """Return the end of the word or number that `position` splits, else `position`: half a number is another number."""
    following = _RE.word_end.match(text, position) if text[position - 1 : position].isalnum() else None
    return following.end() if following is not None else position


class Region(ABC):
    """Markup that begins at `start`."""

    def __init__(self, start: int) -> None:
        self._start = self._pos = start
        self.end = start
        """Where it ends, once `run` has returned a segment."""

    @abstractmethod
    def run(self, text: str, final: bool) -> Segment | None:
        """Return the segment, or None while its end is not visible in `text`. `final`: no more text will follow."""

    def _segment(self, kind: SegmentKind, text: str, end: int, **fields: Any) -> Segment:
        self.end = end
        return Segment(kind=kind, raw=text[self._start : end], **fields)


class ValueRegion(Region):
    """JSON without surrounding markup."""

    def __init__(self, text: str, start: int) -> None:
        super().__init__(start)
        self._quoted = text[start] == "`"
        # Within a line, unquoted keys are code rather than a call.
        self._is_mention = not is_at_line_start(text, start) and bool(self._quoted or _RE.bare_key.match(text, start))
        self.scan = ValueScan(start + self._quoted)
        self._scan_status = "more"

    def run(self, text: str, final: bool) -> Segment | None:
        """Return the value, with surplus closing brackets."""
        if self._scan_status == "more":
            self._scan_status = self.scan.run(text, final)
            if self._scan_status == "more":
                return None
        position = len(text) if self._scan_status == "cut" else self.scan.pos
        if self._scan_status == "broken":
            position = _word_end(text, position)
        body = text[self._start + self._quoted : position]
        if self._scan_status == "closed":
            extra = _RE.extra.match(text, position)
            position = extra.end() if extra else position
            if position == len(text) and not final:
                return None
            if self._quoted and text[position : position + 1] == "`":
                position += 1
        return (
            self._segment("text", text, position)
            if self._is_mention
            else self._segment("value", text, position, bodies=(body,))
        )


class WrapperRegion(Region):
    """Markup of a call. `head` is the length of its opening tag; `certain`: it can't be a word in a sentence."""

    def __init__(self, text: str, start: int, head: int, *, tag: str, name: str = "", certain: bool = False) -> None:
        super().__init__(start)
        self._tag = tag
        self._name = name
        self._quoted = text[start] == "`"
        self._at_line_start = certain or is_at_line_start(text, start)
        self._is_mention = self._quoted and not self._at_line_start
        self._pos = self._content_start = start + head
        self._step = self._read_head
        self._scan: ValueScan | None = None
        self._scan_start = self._pos
        self._bodies: list[str] = []

    def run(self, text: str, final: bool) -> Segment | None:
        """Return the markup with its content, or only its opening tag as text if it turns out to be prose."""
        while True:
            before = self._step
            segment = self._step(text, final)
            if segment is not None or self._step == before:
                return segment

    def _finish(self, text: str, end: int, *, function: bool = False) -> Segment:
        if self._is_mention:
            return self._segment("text", text, end)
        if function:
            inner = text[self._start if self._tag == "function" else self._content_start : end]
            return self._segment("function", text, end, bodies=(inner,), tag=self._tag)
        return self._segment("wrapper", text, end, bodies=tuple(self._bodies), name=self._name, tag=self._tag)

    def _finish_with(self, text: str, body_end: int, end: int | None = None) -> Segment:
        self._bodies.append(text[self._scan_start : body_end])
        return self._finish(text, body_end if end is None else end)

    def _as_prose(self, text: str) -> Segment:
        return self._segment("text", text, self._content_start)

    def _as_broken(self, text: str, end: int) -> Segment:
        return self._segment("broken", text, end, tag=self._tag)

    def _read_head(self, text: str, final: bool) -> Segment | None:
        while text[self._pos : self._pos + 1].isspace():
            self._pos += 1
        following = text[self._pos : self._pos + _LOOKAHEAD]
        is_decided = final or len(following) == _LOOKAHEAD
        if not following:
            if not final:
                return None
            return (
                self._as_broken(text, len(text)) if self._at_line_start and not self._quoted else self._as_prose(text)
            )
        if not is_decided and (
            following in ("`", "``") or _RE.name_cut.match(following) or _RE.half_function.match(following)
        ):
            return None
        fence = _RE.fence.match(following)
        if fence is not None:
            if fence.end() < len(following):
                self._pos += fence.end()
                return self._read_head(text, final)
            if not is_decided:
                return None
        return self._read_content(text, following, final)

    def _read_content(self, text: str, following: str, final: bool) -> Segment | None:
        """Choose how to read the content by its first characters."""
        if following[0] in "{[":
            self._start_scan(self._pos)
            return None
        if named := _RE.named.match(following):
            self._name = re.split(r"[\s\[]", named.group().strip(), maxsplit=1)[0]
            self._start_scan(self._pos + named.end())
            return None
        function = _RE.function.match(following)
        if function is not None and following[function.end() : function.end() + 1] == "{":
            self._name = function[1]
            self._start_scan(self._pos + function.end())
            return None
        if function is not None or self._tag == "function":
            self._step = self._read_function
            return None
        if self._tag in ("[TOOL_CALLS]", "harmony", "token"):
            if final and _RE.name_cut.match(following) and self._at_line_start:
                return self._as_broken(text, len(text))
            return self._as_broken(text, self._content_start) if self._at_line_start else self._as_prose(text)
        self._step = self._read_raw
        return None

    def _start_scan(self, position: int) -> None:
        self._scan, self._pos, self._scan_start, self._step = ValueScan(position), position, position, self._read_json

    def _read_json(self, text: str, final: bool) -> Segment | None:
        assert self._scan is not None
        status = self._scan.run(text, final)
        if status == "more":
            return None
        self._pos = self._scan.pos
        body = text[self._scan_start : self._pos]
        lookahead = text[self._pos : self._pos + 16].lower()
        if status == "broken" and not final and len(lookahead) < 16 and _may_begin_closer(lookahead):
            return None
        if status == "cut":
            return self._finish_with(text, len(text))
        if status == "broken":
            body = text[self._scan_start : _word_end(text, self._pos)]
        if status == "closed" or _MARKUP.closer.match(text, self._pos) or self._lacks_only_brackets(body):
            self._bodies.append(body)
            self._step = self._read_tail
        else:
            self._step = self._read_raw
        return None

    @staticmethod
    def _lacks_only_brackets(body: str) -> bool:
        try:
            repaired = repair_json(body)
        except UnreadableJson:
            return False
        return repaired.cut == "closers" and repaired.end >= len(body.rstrip())

    def _read_tail(self, text: str, final: bool) -> Segment | None:
        separator = _RE.separator.match(text, self._pos)
        position = separator.end() if separator else self._pos
        following = text[position : position + 16].lower()
        if closer_match := _MARKUP.closer.match(text, position):
            end = closer_match.end()
            if self._tag != "function" and closer_match.group().lower() in ("</function>", "</invoke>"):
                following = text[end : end + 48]
                if (
                    len(following) < 48
                    and not final
                    and (not following.strip() or "</tool_calls>".startswith(following.strip()))
                ):
                    return None
                if after := _MARKUP.outer.match(text, end):
                    end = after.end()
            return self._finish(text, end)
        if _may_begin_closer(following) or following in ("`", "``"):
            if not final:
                return None
            return self._finish(text, len(text) if following.strip() else position)
        if following[:1] == "{" and not self._name:
            self._start_scan(position)
            return None
        extra = _RE.extra.match(text, self._pos)
        return self._finish(text, extra.end() if extra else self._pos)

    def _read_raw(self, text: str, final: bool) -> Segment | None:
        edge_tag = _MARKUP.edge.search(text, self._pos)
        if edge_tag is None:
            self._pos = max(self._pos, len(text) - 120)
            if not final:
                return None
            return self._finish_with(text, len(text)) if self._scan else self._as_prose(text)
        if edge_tag["open"]:
            if self._scan is not None:
                return self._finish_with(text, edge_tag.start())
            return self._outer_tag(text, edge_tag, final)
        inner = text[self._content_start : edge_tag.start()]
        content = inner.strip().strip("`'\"").strip().lower()
        if self._is_mention or (
            not self._at_line_start and (not any(map(str.isalnum, content)) or content in ("and", "or", "to"))
        ):
            return self._as_prose(text)
        return self._finish_with(text, edge_tag.start(), edge_tag.end())

    def _outer_tag(self, text: str, inner: re.Match[str], final: bool) -> Segment | None:
        """Return an outer tag around others, each with a call, as markup; any other as prose."""
        if not self._at_line_start or self._quoted or text[self._content_start : inner.start()].strip():
            return self._as_prose(text)
        follows = text[inner.end() : inner.end() + _LOOKAHEAD].lstrip()[:1]
        if not follows and not final:
            return None
        return self._finish(text, inner.start()) if follows and follows in "{[" else self._as_prose(text)

    def _read_function(self, text: str, final: bool) -> Segment | None:
        match = _MARKUP.function_end.search(text, max(self._start, self._pos - 120))
        if match is None:
            self._pos = max(self._pos, len(text) - 120)
            return self._finish(text, len(text), function=True) if final else None
        if match.end() + 48 > len(text) and not final:
            return None
        return self._finish(text, match.end(), function=True)


class PythonRegion(Region):
    """A reply that consists of a list of calls in Python syntax."""

    LIMIT = 64 * 1024

    def run(self, text: str, final: bool) -> Segment | None:
        """Return the list, or its opening bracket as text if it is not one."""
        if len(text) - self._start <= self.LIMIT:
            if not final:
                return None
            tree = parse_expression(text[self._start :].strip())
            if isinstance(tree, ast.List) and all(isinstance(item, ast.Call) for item in tree.elts):
                return self._segment("python", text, len(text), bodies=(text[self._start :].strip(),))
        return self._segment("text", text, self._start + 1)


def region_at(text: str, match: re.Match[str]) -> Region | None:
    """Return the region that a hook opens, if it may hold calls."""
    start, head = match.start(), match.end() - match.start()
    match match.lastgroup:
        case "value":
            return ValueRegion(text, start)
        case "wrap" | "tag":
            return WrapperRegion(text, start, head, tag=match["tag"].lower())
        case "mistral":
            return WrapperRegion(text, start, head, tag="[TOOL_CALLS]")
        case "function":
            return WrapperRegion(text, start, int(text[start] == "`"), tag="function")
    return None


_MAX_TAG = 40
_MAX_ENDS = 100
"""Maximum number of marks tried as the end of a block of Python; others occur in its strings."""


class TokenRegion(Region):
    """A call in special tokens: head, arguments as JSON, end."""

    _inner: WrapperRegion | None = None

    def run(self, text: str, final: bool) -> Segment | None:
        """Return the call, or its first token alone if no call follows."""
        if self._inner is None:
            head = token_call(text, self._start, final)
            if head.status == "incomplete":
                return None
            if head.status == "complete":
                return self._segment("wrapper", text, head.end, bodies=("{}",), name=head.name, tag="token")
            if head.status == "none":
                return self._as_token(text)
            if head.status == "other":
                return self._read_other_arguments(text, head, final)
            name = head.name
            self._inner = WrapperRegion(text, self._start, head.end - self._start, tag="token", name=name, certain=True)
        segment = self._inner.run(text, final)
        self.end = self._inner.end
        return segment

    def _read_other_arguments(self, text: str, head: TokenCall, final: bool) -> Segment | None:
        """Read arguments that are not JSON, up to the next token."""
        match = _MARKUP.ends.search(text, max(head.end, self._pos))
        if match is None and not final:
            self._pos = max(head.end, len(text) - _MAX_TAG - 8)
            return None
        body = text[head.end : match.start() if match else len(text)]
        end = match.end() if match and "end" in match.group() else head.end + len(body)
        return self._segment("wrapper", text, end, bodies=(body,), name=head.name, tag="token")

    def _as_token(self, text: str) -> Segment:
        is_mention = text[self._start - 1 : self._start] == " " and not is_at_line_start(text, self._start)
        section = _MARKUP.section.match(text, self._start)
        end = text.index(">", self._start) + 1
        return self._segment("closer" if section else "text" if is_mention else "broken", text, end, tag="token")


class DsmlRegion(Region):
    """`<｜DSML｜invoke name="…">` up to its end: tags like those of other models, with an additional mark."""

    def run(self, text: str, final: bool) -> Segment | None:
        """Return the call."""
        match = _RE.invoke_end.search(text, self._pos)
        if match is None and not final:
            self._pos = max(self._pos, len(text) - _MAX_TAG)
            return None
        end = match.end() if match else len(text)
        raw = text[self._start : end]
        unmarked = _RE.dsml.sub("", raw)
        head = _RE.invoke.match(raw)
        content = unmarked.partition(">")[2].rpartition("</")[0].strip()
        if head is not None and content.startswith("{"):
            return self._segment("wrapper", text, end, bodies=(content,), name=head["name"], tag="dsml")
        return self._segment("function", text, end, bodies=(unmarked,), tag="dsml")


def dsml_invokes(tag: str) -> bool:
    """Whether a tag of DeepSeek V3.2 begins a call; the others carry no meaning."""
    return _RE.invoke.fullmatch(tag) is not None


class CodeBlock:
    """Python in a fence, which ends at the first mark before which it parses."""

    def __init__(self, start: int, mark: str) -> None:
        self._start = self._pos = start
        self._mark = mark
        self._tries = 0
        self._first_mark = -1
        """The first mark at the start of a line."""

    def run(self, text: str, final: bool) -> tuple[str, int] | None:
        """Return its content and its end, including the mark."""
        while (at := text.find(self._mark, self._pos)) >= 0 and self._tries < _MAX_ENDS:
            end = at + len(self._mark)
            if end == len(text) and not final:
                return None
            self._tries += 1
            self._pos = end
            if is_complete_python(text[self._start : at]):
                return text[self._start : at], end
            if self._first_mark < 0 and is_at_line_start(text, at):
                self._first_mark = at
        self._pos = max(self._pos, len(text) - len(self._mark) + 1)
        if not final:
            return None
        at = self._first_mark if self._first_mark >= 0 else len(text)
        content = text[self._start : at]
        if self._first_mark < 0:
            content = content.rstrip().removesuffix(self._mark[:2]).removesuffix(self._mark[:1])
        return content, min(len(text), at + len(self._mark))


def is_complete_python(code: str) -> bool:
    """Whether `code` is complete Python."""
    if len(code) > CODE_LIMIT:
        return False
    try:
        parse_code(code)
    except PARSE_ERRORS:
        return False
    return True
