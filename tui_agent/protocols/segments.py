"""Split a streamed reply into segments: text, reasoning, calls and marks."""

from __future__ import annotations

import re
from typing import Literal

from tui_agent.protocols.markup import (
    UNDECIDED_REACH,
    Segment,
    SegmentKind,
    is_at_line_start,
    is_mentioned,
    is_quoted,
    is_tool_result,
    may_begin_mark,
    token_meaning,
    undecided_start,
    without_signals,
)
from tui_agent.protocols.regions import (
    CodeBlock,
    DsmlRegion,
    PythonRegion,
    Region,
    TokenRegion,
    WrapperRegion,
    dsml_invokes,
    region_at,
)
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "segments")
_MARKUP = Patterns("tui_agent.protocols", "markup")

_MAX_CALLS = 500
"""Maximum number of calls in one fence."""
_CODE_LANGUAGES = ("tool_code", "tool_codes", "tool_call", "tool_calls", "function_call", "function_calls")
"""Languages of fences whose Python contains calls: Gemma's, and variants by other models."""
_INVENTED_LANGUAGES = ("tool_output", "tool_outputs", "tool_response", "tool_result", "tool_results")
"""Languages of fences that only a program writes."""
_CALL_HOOKS = ("value", "wrap", "function", "mistral")


class FenceRegion(Region):
    """A code fence: markup if it holds nothing but calls, otherwise text."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self._mark = ""
        self._inner: Region | None = None
        self._parts: list[Segment] = []
        self._kind = ""
        self._code: CodeBlock | None = None
        self.open = ""
        """The fence's mark if it holds text and continues after the segment."""

    def run(self, text: str, final: bool) -> Segment | None:
        """Return the whole fence, or as text what was read up to the first sign of anything but calls."""
        if not self._mark and not self._read_head(text, final):
            return None
        if self._kind in _INVENTED_LANGUAGES:
            return self._segment("invented", text, self._pos, tag="result")
        if self._kind in _CODE_LANGUAGES and not self._decide_code(text, final):
            return None
        if self._code is not None:
            return self._as_code(self._code, text, final)
        while True:
            if self._inner is not None:
                segment = self._inner.run(text, final)
                if segment is None:
                    return None
                self._pos = self._inner.end
                self._inner = None
                if segment.kind == "text" or len(self._parts) > _MAX_CALLS:
                    return self._as_text(text)
                self._parts.append(segment)
            between = _RE.between.match(text, self._pos)
            self._pos = between.end() if between else self._pos
            if self._pos == len(text) or (final and self._mark.startswith(text[self._pos :])):
                return self._as_fence(text, len(text)) if final else None
            if text.startswith(self._mark, self._pos):
                return self._as_fence(text, self._pos + len(self._mark))
            match = _MARKUP.hook.match(text, self._pos)
            self._inner = region_at(text, match) if match and match.lastgroup in _CALL_HOOKS else None
            if self._inner is None:
                remainder = text[self._pos : self._pos + len(self._mark)]
                if not final and (may_begin_mark(text, self._pos) or self._mark.startswith(remainder)):
                    return None
                return self._as_text(text)

    def _read_head(self, text: str, final: bool) -> bool:
        head = _RE.head.match(text, self._start)
        if head is None or (head.end() == len(text) and head["line"] is None and not final):
            return False
        self._mark = head["mark"]
        self._kind = head["kind"].lower()
        self._pos = head.end()
        return True

    def _decide_code(self, text: str, final: bool) -> bool:
        """Whether the content's form is decided: Python, unless it begins like another form."""
        if is_at_line_start(text, self._start) or "\n" in text[self._start : self._pos]:
            remainder = text[self._pos : self._pos + 400].lstrip()
            if not final and (remainder in ("", "[") or self._mark.startswith(remainder)):
                return False
            if remainder and not remainder.startswith(("{", "<", "[{", self._mark)):
                self._code = CodeBlock(self._pos, self._mark)
        self._kind = ""
        return True

    def _as_code(self, code: CodeBlock, text: str, final: bool) -> Segment | None:
        match = code.run(text, final)
        if match is None:
            return None
        inside, end = match
        return self._segment("code", text, end, bodies=(inside,), tag="tool_code")

    def _as_fence(self, text: str, end: int) -> Segment:
        return self._segment("fence" if self._parts else "text", text, end, parts=tuple(self._parts))

    def _as_text(self, text: str) -> Segment:
        self.open = self._mark
        return self._segment("text", text, self._pos)


MAX_HEAD = 320
_MAX_CLOSING_TAG = 16
MAX_REGIONS = 2000
"""Maximum number of pieces of markup in one reply; what follows is text."""


class Segmenter:
    """Splits streamed text into segments. They don't depend on the chunks, except where text and reasoning are
    split."""

    def __init__(self, *, detect_invented: bool = True) -> None:
        """`detect_invented` False: what the model writes on behalf of a tool or the user counts as text."""
        self._detect_invented = detect_invented
        self._last_text_end = 0
        """End of the last text that is not blank."""
        self.text = ""
        """All text received."""
        self._pos = 0
        self._region: Region | None = None
        self._in_reasoning_block = False
        self._reasoning_scan_from = -1
        """Where to look for the end of reasoning that began within a line."""
        self._fence = ""
        self._has_content = False
        self._is_never_closed = False
        self._region_count = 0
        self._invented = ""
        """`result` or `turn` if the model invented one: what follows is ignored."""
        self._closer_scan_from = -1
        """Where to look for the closing tag of an invented result."""
        self._segments: list[Segment] = []

    @property
    def is_over(self) -> bool:
        """Whether what follows is ignored."""
        return bool(self._invented)

    def feed(self, text: str) -> list[Segment]:
        """Add text and return the segments that are decided."""
        # Without a second reference, CPython appends in position, so that small chunks are not copied each time.
        buffer = self.text
        self.text = ""
        buffer += text
        self.text = buffer
        return self._advance(False)

    def finish(self) -> list[Segment]:
        """Return the remaining segments."""
        return self._advance(True)

    def _advance(self, final: bool) -> list[Segment]:
        self._segments = []
        while self._pos < len(self.text):
            before = self._pos
            if self._invented:
                return self._skip_rest(final)
            if self._region is not None:
                progressed = self._in_region(final)
            elif self._in_reasoning_block:
                progressed = self._in_reasoning(final)
            elif self._fence:
                progressed = self._in_fence(final)
            else:
                progressed = self._in_text(final)
            if not progressed and (self._pos == before or not final):
                break
        return self._segments

    def _skip_rest(self, final: bool) -> list[Segment]:
        """Skip everything after an invented turn; its content decides at the end what it is."""
        if final:
            if self._invented == "turn" and is_tool_result(self.text, self._pos):
                self._segments.append(Segment(kind="invented", raw="", tag="result"))
            self._pos = len(self.text)
        return self._segments

    def _emit_invented(self, tag: str, end: int) -> bool:
        if not self._detect_invented:
            return self._emit("text", end)
        self._invented = tag
        return self._emit_mark("invented", end, tag)

    def _emit(self, kind: Literal["text", "thought"], end: int) -> bool:
        """Emit everything up to `end` as text or reasoning. Returns True: there is more to read."""
        if end > self._pos:
            raw = self.text[self._pos : end]
            if kind == "text" and not raw.isspace():
                self._has_content = True
                self._last_text_end = end
            self._segments.append(Segment(kind=kind, raw=raw))
            self._pos = end
        return True

    def _emit_mark(self, kind: SegmentKind, end: int, tag: str = "") -> bool:
        """Emit everything up to `end` as a mark. Returns True: there is more to read."""
        self._segments.append(Segment(kind=kind, raw=self.text[self._pos : end], tag=tag))
        self._pos = end
        return True

    def _in_region(self, final: bool) -> bool:
        region = self._region
        assert region is not None
        segment = region.run(self.text, final)
        if segment is None:
            return False
        self._has_content = True
        if segment.kind == "invented":
            self._region = None
            return self._emit_invented(segment.tag, region.end)
        self._segments.append(segment)
        self._last_text_end = region.end if segment.kind == "text" else self._last_text_end
        self._pos = region.end
        if isinstance(region, FenceRegion):
            self._fence = region.open
        self._region = None
        return True

    def _in_reasoning(self, final: bool) -> bool:
        match = _MARKUP.in_thought.search(self.text, self._pos)
        if match is None:
            size = len(self.text)
            if final and (closer := _RE.partial_closer.search(self.text, max(self._pos, size - _MAX_CLOSING_TAG))):
                self._emit("thought", closer.start())
                self._pos = size
            self._emit("thought", size if final else self._find_first(size - _MAX_CLOSING_TAG, "<["))
            return False
        self._emit("thought", match.start())
        if match["done"]:
            return self._emit_mark("done", match.end(), "thought")
        self._pos = match.end()
        self._in_reasoning_block = False
        return True

    def _find_first(self, at: int, chars: str) -> int:
        """Return the first position of one of `chars` from `at` on, or the length of the text."""
        positions = [position for char in chars if (position := self.text.find(char, max(at, self._pos))) >= 0]
        return min(positions, default=len(self.text))

    def _in_fence(self, final: bool) -> bool:
        match = _MARKUP.in_fence.search(self.text, self._pos)
        if match is None or (match["fence"] and match.end() == len(self.text) and not final):
            end = len(self.text)
            if not final:
                end = match.start() if match else self._find_first(end - _MAX_CLOSING_TAG, "`~[")
            self._emit("text", end)
            return False
        if match["done"]:
            self._emit("text", match.start())
            return self._emit_mark("done", match.end())
        mark = match.group()
        if mark.startswith(self._fence) and is_at_line_start(self.text, match.start()):
            self._fence = ""
        return self._emit("text", match.end())

    def _in_text(self, final: bool) -> bool:
        match = _MARKUP.hook.search(self.text, self._pos)
        python = None if self._has_content else self._python_start(final)
        if python is not None and (match is None or python <= match.start()):
            self._emit("text", python)
            if _RE.python.match(self.text, python) is None and not final:
                return False
            self._has_content = True
            self._region = PythonRegion(python)
            return True
        if match is None:
            size = len(self.text)
            self._emit("text", size if final else undecided_start(self.text, self._pos))
            return False
        if not final and match.start() > len(self.text) - UNDECIDED_REACH:
            undecided = undecided_start(self.text, self._pos)
            if undecided < match.start():
                self._emit("text", undecided)
                return False
        self._emit("text", match.start())
        return self._handle_hook(match, final)

    def _python_start(self, final: bool) -> int | None:
        """Return where a reply begins that may be a list of calls in Python syntax."""
        position = self._pos
        while self.text[position : position + 1].isspace():
            position += 1
        if _RE.python.match(self.text, position) or (not final and _RE.python_begun.match(self.text, position)):
            return position
        return None

    def _handle_hook(self, match: re.Match[str], final: bool) -> bool:
        kind = match.lastgroup or ""
        if kind in ("done", "unwrap"):
            return self._emit_mark("done" if kind == "done" else "closer", match.end())
        readers = {
            "think": self._handle_think,
            "unthink": self._handle_unthink,
            "token": self._handle_token,
            "result": self._handle_result,
        }
        if kind in readers:
            return readers[kind](match, final)
        if kind == "dsml" and not dsml_invokes(match.group()):
            return self._emit_mark("closer", match.end(), "token")
        self._region_count += 1
        if self._region_count > MAX_REGIONS:
            return self._emit("text", match.end())
        if kind == "fence":
            self._region = FenceRegion(match.start())
            if not is_at_line_start(self.text, match.start()) and match.group()[0] == "~":
                self._region = None
                self._emit("text", match.end())
            return True
        self._region = DsmlRegion(match.start()) if kind == "dsml" else region_at(self.text, match)
        return True

    def _follows_markup(self, position: int) -> bool:
        """Whether markup directly precedes `position`."""
        return not self.text[self._last_text_end : position].isspace() and self._last_text_end < position

    def _handle_result(self, match: re.Match[str], final: bool) -> bool:
        """Handle a tag of a tool's result: invented unless it is only mentioned."""
        start, end = match.span()
        following = self.text[end : end + 1]
        if not following and not final:
            return False
        if is_quoted(self.text, start):
            self._emit("text", end)
        elif following.isalnum() or (following and following in "\r\n{["):
            return self._emit_invented("result", end)
        elif is_mentioned(self.text, start) and not self._follows_markup(start):
            self._emit("text", end)
        else:
            closer = re.compile(rf"</{re.escape(match['name'])}>", re.IGNORECASE)
            if not following or closer.search(self.text, max(end, self._closer_scan_from)):
                return self._emit_invented("result", end)
            self._closer_scan_from = max(end, len(self.text) - 64)
            if not final:
                return False
            self._closer_scan_from = -1
            self._emit("text", end)
        return True

    def _handle_think(self, match: re.Match[str], final: bool) -> bool:
        position = match.start()
        if position and self.text[position - 1] in "`\"'":
            return self._emit("text", match.end())
        if not is_at_line_start(self.text, position) and not self._reasoning_ends(match.end(), final):
            if final:
                self._emit("text", match.end())
            return final
        self._reasoning_scan_from = -1
        self._in_reasoning_block = True
        self._pos = match.end()
        return True

    def _reasoning_ends(self, after: int, final: bool) -> bool:
        """Whether reasoning that began within a line has ended."""
        if self._is_never_closed:
            return False
        is_closed = _MARKUP.unthink.search(self.text, max(after, self._reasoning_scan_from)) is not None
        self._reasoning_scan_from = max(after, len(self.text) - _MAX_CLOSING_TAG)
        self._is_never_closed = final and not is_closed
        return is_closed

    def _handle_unthink(self, match: re.Match[str], final: bool) -> bool:
        start, end = match.span()
        line = self.text[end : end + 64]
        if not line.strip(" \t") and not final and len(line) < 64:
            return False
        is_alone = is_at_line_start(self.text, start) or not line.strip(" \t") or line.lstrip(" \t")[0] in "\r\n"
        if not is_quoted(self.text, start) and (is_alone or self._is_real_closer(start, end)):
            self._has_content = False
            return self._emit_mark("unopened", end)
        return self._emit("text", end)

    def _is_real_closer(self, start: int, end: int) -> bool:
        """Whether a closing tag within a line is not just mentioned: it directly follows a word or sentence, or
        precedes the beginning of one."""
        following = self.text[end : end + 64].lstrip(" \t")[:1]
        if following.isupper() or following in tuple("<[{#"):
            return True
        before = self.text[max(0, start - 64) : start]
        return not before[-1:].isspace() or before.rstrip()[-1:] in tuple(".!?:;…)*")

    def _handle_token(self, match: re.Match[str], final: bool) -> bool:
        meaning = token_meaning(self.text, match, final, after_markup=self._follows_markup(match.start()))
        if meaning is None:
            return False
        if meaning.kind in ("result", "turn"):
            return self._emit_invented(meaning.kind, meaning.end)
        if meaning.kind == "text":
            return self._emit("text", meaning.end)
        if meaning.kind == "drop":
            return self._emit_mark("closer", meaning.end, "token")
        if meaning.kind == "plain":
            return self._handle_plain_token(match, final)
        self._region_count += 1
        self._region = TokenRegion(match.start())
        return True

    def _handle_plain_token(self, match: re.Match[str], final: bool) -> bool:
        start = match.start()
        head = _RE.harmony.match(self.text, start)
        if head is None:
            following = match.group() in ("<|start|>", "<|channel|>")
            if following and not final and len(self.text) - start < MAX_HEAD:
                return False
            self._has_content = self._has_content and match.group() != "<|python_tag|>"
            return self._emit_mark("closer", match.end(), "" if match.group() == "</s>" else "token")
        to = _RE.to.search(head["to"] or "") or _RE.to.search(head["recipient"] or "")
        if to is not None:
            self._region = WrapperRegion(self.text, start, head.end() - start, tag="harmony", name=to[1])
            return True
        if head["channel"] == "analysis":
            return self._handle_analysis(head.end(), final)
        self._pos = head.end()
        return True

    def _handle_analysis(self, begin: int, final: bool) -> bool:
        """Handle reasoning in the harmony format, which ends where the next message begins."""
        ends = re.compile(r"<\|(?:end|return|start|channel)\|>").search(self.text, begin)
        if ends is None and not final:
            return False
        end = ends.start() if ends else len(self.text)
        self._segments.append(Segment(kind="thought", raw=without_signals(self.text[begin:end], partial=True)))
        self._pos = end
        return True
