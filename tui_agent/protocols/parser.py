"""Find the calls in a model's reply in any form: one tolerant parser for all protocols (C4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tui_agent.common.domain import ToolCall, ToolSpec
from tui_agent.protocols.calls import (
    DATA,
    NO_READABLE_CALL,
    Interpretation,
    ValueKind,
    code_calls,
    interpret,
    interpret_named,
    interpret_tags,
    list_calls,
)
from tui_agent.protocols.markup import Segment, find_partial_signal, without_signals
from tui_agent.protocols.offer import OfferedTools
from tui_agent.protocols.segments import Segmenter

Protocol = Literal["native", "json", "xml", "files"]


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed reply."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    """What remains for the user."""
    error: str = ""
    """What was wrong, as feedback for the model; valid calls may exist alongside."""
    done: bool = False
    """The model claimed that the task is done."""
    question: str = ""
    """A question to the user, in the protocol's form."""


INVENTED = (
    "it holds the result of a tool that you wrote yourself. Results come from the program only, after a call of yours; "
    "what you wrote from there on was dropped"
)
"""Error of a reply that invents a tool result and contains no calls."""
_SPACE_AFTER_CALL = re.compile(r"[\s;,]*")
_SEPARATORS = str.maketrans("", "", ",;")
MAX_OVERLAP = 240
"""Maximum overlap of a continuation with the text before it, in characters."""
MIN_OVERLAP = 8
"""Minimum overlap, in characters; shorter ones are coincidence."""
_FILLERS = " \t\r\n`;,}]"
"""Characters that may occur between a call and its closing tag."""


class _Item(msgspec.Struct, frozen=True):
    """An interpreted part of the reply; whether it counts may depend on the whole reply."""

    kind: ValueKind | Literal["text", "gap", "closer"]
    raw: str = ""
    meaning: Interpretation = DATA
    follows_call: bool = False
    """Whether a closing tag belongs to the call before it."""


def parse_reply(text: str, tools: Sequence[ToolSpec], *, protocol: Protocol = "native") -> ParsedReply:
    """Parse a whole reply.

    Markup of a call counts whatever tool it names. JSON without markup counts only if there is none with, its tool is
    offered and its shape fits; text in strings, nested objects and reasoning is never a call. `protocol` is the
    requested form: calls in another one are marked as recovered.
    """
    parser = ReplyParser(tools, protocol)
    parser.feed(text)
    return parser.finish()[1]


class ReplyParser:
    """Parses a reply while it streams in (C4). It holds back what may become markup or a signal, and returns the rest
    at once.

    The joined results of `feed` and `finish` are the text of the parse, however the reply was split. The one exception
    is reasoning that is closed without having been opened: what was already shown stays shown.
    """

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        protocol: Protocol = "native",
        *,
        accept_attempts: bool = False,
        on_reasoning: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Create a parser for a reply.

        `accept_attempts`: a reply that consists only of JSON calls of unknown tools counts as calls. `on_reasoning` is
        called with every piece of reasoning, before `feed` returns. In the protocol `files` everything but reasoning is
        text, since files may contain any token.
        """
        self._files = protocol == "files"
        self._segmenter = Segmenter(detect_invented=not self._files)
        self._on_reasoning = on_reasoning
        self._offer = OfferedTools(tools)
        self._protocol = protocol
        self._continuation: str | None = None
        """The beginning of a continuation, which may repeat the end of the text before it."""
        self._raw: list[str] = []
        self.size = 0
        """Number of characters received."""
        self._items: list[_Item] = []
        self._next_index = 0
        """Index of the first item that has not been shown or skipped."""
        self._visible = [VisibleText()]
        """The text shown, followed by what remains if its beginning turns out to be reasoning."""
        self._last_kind: str = ""
        """Kind of the last item that is not blank."""
        self._errors: list[str] = []
        self._done = False
        self._question = ""
        self._accept_attempts = accept_attempts
        self._has_invented_result = False
        """The model wrote a tool's result itself."""
        self._is_over = False
        """What follows is ignored."""

    @property
    def is_over(self) -> bool:
        """Whether the model writes on behalf of a tool or the user: what follows is ignored."""
        return not self._files and self._segmenter.is_over

    @property
    def raw(self) -> str:
        """The reply with its markup, without reasoning and invented results."""
        return "".join(self._raw)

    def resume(self) -> None:
        """Continue a reply that was cut off; an overlap with the text before is removed (W14)."""
        self._continuation = ""

    def feed(self, text: str) -> str:
        """Add text and return what may be shown now."""
        if self._continuation is not None:
            self._continuation += text
            if len(self._continuation) < MAX_OVERLAP:
                return ""
            text = self._remove_overlap()
        self.size += len(text)
        return self._process(self._segmenter.feed(text))

    def _remove_overlap(self) -> str:
        new, self._continuation = self._continuation or "", None
        preceding = self.raw[-MAX_OVERLAP:]
        sizes = range(min(len(new), len(preceding)), MIN_OVERLAP - 1, -1)
        length = next((length for length in sizes if preceding.endswith(new[:length])), 0)
        return new[length:]

    def _process(self, segments: list[Segment]) -> str:
        for segment in segments:
            if segment.kind == "thought":
                self._on_reasoning(segment.raw)
            elif segment.is_text:
                self._raw.append(segment.raw)
            elif segment.kind == "unopened" and not self._files:
                self._on_reasoning(self.raw)
                self._raw.clear()
        if self._files:
            return "".join(segment.raw for segment in segments if segment.is_text)
        return "".join(map(self._add, segments))

    def _add(self, segment: Segment) -> str:
        """Add a segment and return what may be shown now."""
        if segment.kind == "invented":
            self._has_invented_result = self._has_invented_result or segment.tag == "result"
            self._items.append(_Item("closer", follows_call=True))
        elif self._is_over:
            return ""
        elif segment.kind == "done":
            self._done = True
        elif segment.kind == "unopened":
            self._items = []
            self._next_index = 0
            self._last_kind = ""
            self._errors = []
            self._visible[1:] = [VisibleText()]
        elif segment.kind != "thought":
            for item in self._interpret_segment(segment):
                self._items.append(item)
                if item.kind != "text" or item.raw.strip(_FILLERS):
                    self._last_kind = item.kind if item.kind != "closer" else self._last_kind
        return self._show()

    def finish(self) -> tuple[str, ParsedReply]:
        """Return the remaining text to show, and the parsed reply."""
        remaining = ""
        if self._continuation is not None:
            remaining = self.feed(self._remove_overlap())
        remaining += self._process(self._segmenter.finish())
        if self._files:
            return remaining, ParsedReply(text=self.raw)
        has_calls = any(item.kind == "calls" and item.meaning.calls for item in self._items)
        sole_answer = self._sole_answer()
        are_attempts = not has_calls and self._is_only_attempts()
        calls: list[ToolCall] = []
        for index, item in enumerate(self._items):
            if (item.kind == "bare" and not has_calls) or (item.kind == "attempt" and are_attempts):
                calls.extend(item.meaning.calls)
                self._errors.append(item.meaning.error)
            elif item.kind == "calls":
                calls.extend(item.meaning.calls)
            if index >= self._next_index:
                remaining += self._show_item(item, has_calls, item is sole_answer or are_attempts)
        if self._has_invented_result and not calls:
            self._errors.append(INVENTED)
        ends = [text.end() for text in self._visible]
        return remaining + ends[0], ParsedReply(
            calls=tuple(calls),
            text=self._visible[-1].text,
            error=next(filter(None, self._errors), ""),
            done=self._done,
            question=self._question,
        )

    # --- interpretation ------------------------------------------------------------------

    def _interpret_segment(self, segment: Segment) -> list[_Item]:
        if segment.kind == "text":
            return [_Item("text", segment.raw)]
        if segment.kind == "fence":
            inner = [item for part in segment.parts for item in self._interpret_segment(part)]
            calls_inside = [item for item in inner if item.kind != "text"]
            if not calls_inside:
                return [_Item("text", segment.raw)]
            if all(item.kind == "attempt" for item in calls_inside):
                calls = tuple(call for item in calls_inside for call in item.meaning.calls)
                return [_Item("attempt", segment.raw, Interpretation(kind="attempt", calls=calls))]
            return inner if len(inner) > 1 else [msgspec.structs.replace(calls_inside[0], raw=segment.raw)]
        if segment.kind == "closer":
            follows_call = self._last_kind not in ("", "text") or segment.tag == "token"
            return [_Item("closer", segment.raw, follows_call=follows_call)]
        if segment.kind == "broken":
            self._errors.append(NO_READABLE_CALL)
            return [_Item("gap", segment.raw)]
        meaning = self._interpret(segment)
        if meaning.kind == "result" and (self._protocol == "json" or self._last_kind not in ("", "text")):
            self._has_invented_result = self._is_over = True
            return [_Item("closer", follows_call=True)]
        if meaning.error and meaning.kind != "bare":
            self._errors.append(meaning.error)
        if meaning.kind in ("data", "result") or (meaning.kind == "attempt" and not self._accept_attempts):
            return [_Item("text", segment.raw, meaning)]
        if meaning.kind == "calls":
            self._done = self._done or meaning.done
            if self._has_requested_form(segment, meaning):
                calls = tuple(msgspec.structs.replace(call, recovered=False) for call in meaning.calls)
                meaning = msgspec.structs.replace(meaning, calls=calls)
        return [_Item(meaning.kind, segment.raw, meaning)]

    def _interpret(self, segment: Segment) -> Interpretation:
        if segment.kind == "value":
            return interpret(segment.bodies[0], self._offer)
        if segment.kind == "python":
            return list_calls(segment.bodies[0], self._offer)
        if segment.kind == "code":
            return code_calls(segment.bodies[0], self._offer)
        if segment.kind == "function":
            return interpret_tags(segment.bodies[0], self._offer)
        meanings = [self._interpret_body(body, segment) for body in segment.bodies]
        calls = tuple(call for meaning in meanings for call in meaning.calls)
        error = next((meaning.error for meaning in meanings if meaning.error), "")
        return Interpretation(kind="calls", calls=calls, error=error)

    def _interpret_body(self, body: str, segment: Segment) -> Interpretation:
        if segment.tag == "tool_code" and body.strip()[:1] not in ("{", "<"):
            return code_calls(body, self._offer)
        if segment.name and (body.lstrip()[:1] == "{" or segment.tag == "token"):
            return interpret_named(segment.name, body.strip(), self._offer)
        if body.strip()[:1] in ("{", "["):
            return interpret(body.strip(), self._offer, wrapped=True)
        return interpret_tags(body, self._offer)

    def _has_requested_form(self, segment: Segment, meaning: Interpretation) -> bool:
        """Whether the call has the requested form."""
        if self._protocol == "xml":
            return segment.kind == "wrapper" and segment.tag == "tool_call"
        return self._protocol == "json" and meaning.key == "tool_calls"

    # --- visible text ----------------------------------------------------------------------

    def _show(self) -> str:
        """Show what later text can't change."""
        shown = ""
        while self._next_index < len(self._items):
            item = self._items[self._next_index]
            if item.kind == "attempt" and not self._has_text():
                break
            if item.kind == "bare" or (item.kind == "final" and not self._is_leading_answer(self._next_index)):
                break
            shown += self._show_item(item, True, item.kind == "final")
            self._next_index += 1
        return shown

    def _is_leading_answer(self, index: int) -> bool:
        """Whether an answer comes first in a reply of the JSON protocol, where it counts at once."""
        preceding = self._items[:index]
        return self._protocol == "json" and all(item.kind == "text" and not item.raw.strip() for item in preceding)

    def _has_text(self) -> bool:
        """Whether there is text in addition to JSON."""
        return any(item.kind == "text" and item.raw.strip(_FILLERS) for item in self._items)

    def _is_only_attempts(self) -> bool:
        """Whether the reply consists of JSON in the shape of calls."""
        kinds = {item.kind for item in self._items if item.kind not in ("text", "closer")}
        return "attempt" in kinds and kinds <= {"attempt", "bare"} and not self._has_text()

    def _sole_answer(self) -> _Item | None:
        """Return the answer that the whole reply consists of."""
        items = [item for item in self._items if item.kind not in ("text", "closer") or item.raw.strip("`~ \t\r\n")]
        if items and items[0].kind == "final" and (len(items) == 1 or self._protocol == "json"):
            return items[0]
        return None

    def _show_item(self, item: _Item, has_calls: bool, is_sole_answer: bool) -> str:
        """Show an item or skip it."""
        if item.kind == "text":
            return self._show_text(item.raw)
        if item.kind == "closer":
            return self._show_gap() if item.follows_call else self._show_text(item.raw)
        if (item.kind == "bare" and has_calls) or (item.kind in ("final", "attempt") and not is_sole_answer):
            return self._show_text(item.raw)
        answer = item.meaning.answer
        if item.kind == "final":
            self._done = self._done or item.meaning.done
            self._question = item.meaning.question
        return self._show_gap() + (self._show_text(answer) if answer else "")

    def _show_text(self, text: str) -> str:
        shown, *_ = [visible.add(text) for visible in self._visible]
        return shown

    def _show_gap(self) -> str:
        shown, *_ = [visible.gap() for visible in self._visible]
        return shown


class VisibleText:
    """The text of a reply as the user sees it: without signals and the gaps left by calls.

    It only grows. Whitespace at both ends is dropped.
    """

    def __init__(self) -> None:
        self._withheld = ""
        """The end of the text, where a signal may begin."""
        self._pending_space = ""
        self._after_call = False
        self._has_text = False
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All text returned so far."""
        return "".join(self._parts)

    def add(self, text: str) -> str:
        """Add text and return what may be shown now."""
        visible = without_signals(self._withheld + text)
        end = find_partial_signal(visible)
        self._withheld = visible[end:]
        return self._release_text(visible[:end])

    def gap(self) -> str:
        """Note a gap left by something hidden; separators between calls go with it. Returns what may be shown now."""
        shown = self._release_withheld()
        self._pending_space = self._pending_space.translate(_SEPARATORS) if self._after_call else self._pending_space
        self._after_call = True
        return shown

    def end(self) -> str:
        """Return the remaining text."""
        remaining = self._release_withheld()
        self._pending_space = ""
        return remaining

    def _release_withheld(self) -> str:
        """Return what was held back, without an incomplete signal."""
        remaining, self._withheld = self._withheld, ""
        return self._release_text(without_signals(remaining, partial=True))

    def _release_text(self, text: str) -> str:
        if not text:
            return ""
        leading = _SPACE_AFTER_CALL.match(text) if self._after_call else None
        blank_size = leading.end() if leading is not None else len(text) - len(text.lstrip())
        self._pending_space += text[:blank_size]
        if blank_size == len(text):
            return ""
        tail = len(text.rstrip())
        space = self._pending_space
        if self._after_call and self._has_text:
            space = re.sub(r"\n(?:[ \t\r]*\n){2,}", "\n\n", space)
        shown = (space if self._has_text else space.lstrip()) + text[blank_size:tail]
        self._has_text = True
        self._after_call = False
        self._pending_space = text[tail:]
        self._parts.append(shown)
        return shown
