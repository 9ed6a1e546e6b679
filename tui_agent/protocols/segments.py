"""Code fences: one that holds nothing but calls is markup, any other is text."""

from __future__ import annotations

import re
from typing import Literal

from tui_agent.protocols.markup import (
    REACH,
    Segment,
    SegmentKind,
    is_at_line_start,
    is_mentioned,
    is_quoted,
    may_begin,
    says_result,
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

_LONGEST = 500
"""Calls that one fence may hold."""
_CODE = ("tool_code", "tool_codes", "tool_call", "tool_calls", "function_call", "function_calls")
"""Fences whose Python is meant as calls: Gemma's and what it makes of others."""
_INVENTED = ("tool_output", "tool_outputs", "tool_response", "tool_result", "tool_results")
"""Fences that only a program writes."""
_CALLS = ("value", "wrap", "function", "mistral")


class FenceRegion(Region):
    """Follows a fence as long as it may hold calls only."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self._mark = ""
        self._inner: Region | None = None
        self._parts: list[Segment] = []
        self._kind = ""
        self._code: CodeBlock | None = None
        self.open = ""
        """The fence's mark if it holds text and goes on behind the piece."""

    def run(self, text: str, final: bool) -> Segment | None:
        """The whole fence, or as text what was read of it up to the first sign of something else."""
        if not self._mark and not self._head(text, final):
            return None
        if self._kind in _INVENTED:
            return self._piece("invented", text, self._pos, tag="result")
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
            between = _RE.between.match(text, self._pos)
            self._pos = between.end() if between else self._pos
            if self._pos == len(text) or (final and self._mark.startswith(text[self._pos :])):
                return self._whole(text, len(text)) if final else None
            if text.startswith(self._mark, self._pos):
                return self._whole(text, self._pos + len(self._mark))
            found = _MARKUP.hook.match(text, self._pos)
            self._inner = region_at(text, found) if found and found.lastgroup in _CALLS else None
            if self._inner is None:
                rest = text[self._pos : self._pos + len(self._mark)]
                if not final and (may_begin(text, self._pos) or self._mark.startswith(rest)):
                    return None
                return self._other(text)

    def _head(self, text: str, final: bool) -> bool:
        head = _RE.head.match(text, self._start)
        if head is None or (head.end() == len(text) and head["line"] is None and not final):
            return False
        self._mark = head["mark"]
        self._kind = head["kind"].lower()
        self._pos = head.end()
        return True

    def _begins_code(self, text: str, final: bool) -> bool:
        """Whether it is settled what the fence holds; Python, unless it begins like another form."""
        if is_at_line_start(text, self._start) or "\n" in text[self._start : self._pos]:
            rest = text[self._pos : self._pos + 400].lstrip()
            if not final and (rest in ("", "[") or self._mark.startswith(rest)):
                return False
            if rest and not rest.startswith(("{", "<", "[{", self._mark)):
                self._code = CodeBlock(self._pos, self._mark)
        self._kind = ""
        return True

    def _python(self, code: CodeBlock, text: str, final: bool) -> Segment | None:
        found = code.run(text, final)
        if found is None:
            return None
        inside, end = found
        return self._piece("code", text, end, bodies=(inside,), tag="tool_code")

    def _whole(self, text: str, end: int) -> Segment:
        return self._piece("fence" if self._parts else "text", text, end, parts=tuple(self._parts))

    def _other(self, text: str) -> Segment:
        self.open = self._mark
        return self._piece("text", text, self._pos)


_LONGEST_HEAD = 320
_THOUGHT_TAIL = 16
REGIONS = 2000
"""Pieces of markup that are read in one reply; what follows them is text."""


class Segmenter:
    """Text in any pieces in, parts out. The same parts come whatever way the text was cut, but for where text and
    thoughts themselves are cut."""

    def __init__(self, *, cuts: bool = True) -> None:
        """Without `cuts`, what the model writes in the name of a tool or the user is text like any other."""
        self._cuts = cuts
        self._words = 0
        """Where the last text that is more than blanks ends."""
        self.text = ""
        """Everything that came."""
        self._at = 0
        self._region: Region | None = None
        self._thinking = False
        self._thought_from = -1
        """Where a thought within a line began whose end has not come yet."""
        self._fence = ""
        self._begun = False
        self._never_closed = False
        self._regions = 0
        self._invented = ""
        """Whose words the model invented, a `result` or a `turn`: nothing behind them counts."""
        self._closer_from = -1
        """From where the end of an invented result is sought."""
        self._out: list[Segment] = []

    @property
    def over(self) -> bool:
        """Nothing that still comes counts."""
        return bool(self._invented)

    def feed(self, text: str) -> list[Segment]:
        """The parts that are decided."""
        # Taking the text out of its attribute lets CPython append in place, so that small pieces cost no copies.
        whole = self.text
        self.text = ""
        whole += text
        self.text = whole
        return self._go(False)

    def finish(self) -> list[Segment]:
        """The rest."""
        return self._go(True)

    def _go(self, final: bool) -> list[Segment]:
        self._out = []
        while self._at < len(self.text):
            before = self._at
            if self._invented:
                return self._over(final)
            if self._region is not None:
                more = self._in_region(final)
            elif self._thinking:
                more = self._in_thought(final)
            elif self._fence:
                more = self._in_fence(final)
            else:
                more = self._in_text(final)
            if not more and (self._at == before or not final):
                break
        return self._out

    def _over(self, final: bool) -> list[Segment]:
        """What a reply goes on with behind an invented turn; what that holds decides in the end what it is."""
        if final:
            if self._invented == "turn" and says_result(self.text, self._at):
                self._out.append(Segment(kind="invented", raw="", tag="result"))
            self._at = len(self.text)
        return self._out

    def _invent(self, tag: str, end: int) -> bool:
        if not self._cuts:
            return self._say("text", end)
        self._invented = tag
        return self._mark("invented", end, tag)

    def _say(self, kind: Literal["text", "thought"], end: int) -> bool:
        """Give out everything up to `end` as text or thought; True, for there is more to read."""
        if end > self._at:
            raw = self.text[self._at : end]
            if kind == "text" and not raw.isspace():
                self._begun = True
                self._words = end
            self._out.append(Segment(kind=kind, raw=raw))
            self._at = end
        return True

    def _mark(self, kind: SegmentKind, end: int, tag: str = "") -> bool:
        """Give out everything up to `end` as a mark; True, for there is more to read."""
        self._out.append(Segment(kind=kind, raw=self.text[self._at : end], tag=tag))
        self._at = end
        return True

    def _in_region(self, final: bool) -> bool:
        region = self._region
        assert region is not None
        piece = region.run(self.text, final)
        if piece is None:
            return False
        self._begun = True
        if piece.kind == "invented":
            self._region = None
            return self._invent(piece.tag, region.end)
        self._out.append(piece)
        self._words = region.end if piece.kind == "text" else self._words
        self._at = region.end
        if isinstance(region, FenceRegion):
            self._fence = region.open
        self._region = None
        return True

    def _in_thought(self, final: bool) -> bool:
        found = _MARKUP.in_thought.search(self.text, self._at)
        if found is None:
            size = len(self.text)
            if final and (torn := _RE.torn.search(self.text, max(self._at, size - _THOUGHT_TAIL))):
                self._say("thought", torn.start())
                self._at = size
            self._say("thought", size if final else self._safe(size - _THOUGHT_TAIL, "<["))
            return False
        self._say("thought", found.start())
        if found["done"]:
            return self._mark("done", found.end(), "thought")
        self._at = found.end()
        self._thinking = False
        return True

    def _safe(self, at: int, signs: str) -> int:
        """The first of `signs` from `at` on, or the end."""
        places = [place for sign in signs if (place := self.text.find(sign, max(at, self._at))) >= 0]
        return min(places, default=len(self.text))

    def _in_fence(self, final: bool) -> bool:
        found = _MARKUP.in_fence.search(self.text, self._at)
        if found is None or (found["fence"] and found.end() == len(self.text) and not final):
            end = len(self.text)
            if not final:
                end = found.start() if found else self._safe(end - _THOUGHT_TAIL, "`~[")
            self._say("text", end)
            return False
        if found["done"]:
            self._say("text", found.start())
            return self._mark("done", found.end())
        mark = found.group()
        if mark.startswith(self._fence) and is_at_line_start(self.text, found.start()):
            self._fence = ""
        return self._say("text", found.end())

    def _in_text(self, final: bool) -> bool:
        found = _MARKUP.hook.search(self.text, self._at)
        python = None if self._begun else self._python(final)
        if python is not None and (found is None or python <= found.start()):
            self._say("text", python)
            if _RE.python.match(self.text, python) is None and not final:
                return False
            self._begun = True
            self._region = PythonRegion(python)
            return True
        if found is None:
            size = len(self.text)
            self._say("text", size if final else undecided_start(self.text, self._at))
            return False
        if not final and found.start() > len(self.text) - REACH:
            undecided = undecided_start(self.text, self._at)
            if undecided < found.start():
                self._say("text", undecided)
                return False
        self._say("text", found.start())
        return self._hook(found, final)

    def _python(self, final: bool) -> int | None:
        """Where a reply begins that may be calls in Python's form."""
        place = self._at
        while self.text[place : place + 1].isspace():
            place += 1
        if _RE.python.match(self.text, place) or (not final and _RE.python_begun.match(self.text, place)):
            return place
        return None

    def _hook(self, found: re.Match[str], final: bool) -> bool:
        kind = found.lastgroup or ""
        if kind in ("done", "unwrap"):
            return self._mark("done" if kind == "done" else "closer", found.end())
        readers = {"think": self._think, "unthink": self._unthink, "token": self._token, "result": self._result}
        if kind in readers:
            return readers[kind](found, final)
        if kind == "dsml" and not dsml_invokes(found.group()):
            return self._mark("closer", found.end(), "token")
        self._regions += 1
        if self._regions > REGIONS:
            return self._say("text", found.end())
        if kind == "fence":
            self._region = FenceRegion(found.start())
            if not is_at_line_start(self.text, found.start()) and found.group()[0] == "~":
                self._region = None
                self._say("text", found.end())
            return True
        self._region = DsmlRegion(found.start()) if kind == "dsml" else region_at(self.text, found)
        return True

    def _behind(self, place: int) -> bool:
        """Whether markup stands right before `place`."""
        return not self.text[self._words : place].isspace() and self._words < place

    def _result(self, found: re.Match[str], final: bool) -> bool:
        """A tag of a tool's result: invented, unless it is spoken of."""
        start, end = found.span()
        sign = self.text[end : end + 1]
        if not sign and not final:
            return False
        if is_quoted(self.text, start):
            self._say("text", end)
        elif sign.isalnum() or (sign and sign in "\r\n{["):
            return self._invent("result", end)
        elif is_mentioned(self.text, start) and not self._behind(start):
            self._say("text", end)
        else:
            closer = re.compile(rf"</{re.escape(found['of'])}>", re.IGNORECASE)
            if not sign or closer.search(self.text, max(end, self._closer_from)):
                return self._invent("result", end)
            self._closer_from = max(end, len(self.text) - 64)
            if not final:
                return False
            self._closer_from = -1
            self._say("text", end)
        return True

    def _think(self, found: re.Match[str], final: bool) -> bool:
        place = found.start()
        if place and self.text[place - 1] in "`\"'":
            return self._say("text", found.end())
        if not is_at_line_start(self.text, place) and not self._thought_ends(found.end(), final):
            if final:
                self._say("text", found.end())
            return final
        self._thought_from = -1
        self._thinking = True
        self._at = found.end()
        return True

    def _thought_ends(self, after: int, final: bool) -> bool:
        """Whether the end of a thought that began within a line has come."""
        if self._never_closed:
            return False
        closed = _MARKUP.unthink.search(self.text, max(after, self._thought_from)) is not None
        self._thought_from = max(after, len(self.text) - _THOUGHT_TAIL)
        self._never_closed = final and not closed
        return closed

    def _unthink(self, found: re.Match[str], final: bool) -> bool:
        start, end = found.span()
        line = self.text[end : end + 64]
        if not line.strip(" \t") and not final and len(line) < 64:
            return False
        alone = is_at_line_start(self.text, start) or not line.strip(" \t") or line.lstrip(" \t")[0] in "\r\n"
        if not is_quoted(self.text, start) and (alone or self._ends_thought(start, end)):
            self._begun = False
            return self._mark("unopened", end)
        return self._say("text", end)

    def _ends_thought(self, start: int, end: int) -> bool:
        """Whether a closing tag within a line is none that is spoken of: it stands right behind a word or a sentence,
        or before the beginning of one."""
        begins = self.text[end : end + 64].lstrip(" \t")[:1]
        if begins.isupper() or begins in tuple("<[{#"):
            return True
        before = self.text[max(0, start - 64) : start]
        return not before[-1:].isspace() or before.rstrip()[-1:] in tuple(".!?:;…)*")

    def _token(self, found: re.Match[str], final: bool) -> bool:
        meaning = token_meaning(self.text, found, final, behind=self._behind(found.start()))
        if meaning is None:
            return False
        if meaning.kind in ("result", "turn"):
            return self._invent(meaning.kind, meaning.end)
        if meaning.kind == "text":
            return self._say("text", meaning.end)
        if meaning.kind == "drop":
            return self._mark("closer", meaning.end, "token")
        if meaning.kind == "old":
            return self._plain_token(found, final)
        self._regions += 1
        self._region = TokenRegion(found.start())
        return True

    def _plain_token(self, found: re.Match[str], final: bool) -> bool:
        start = found.start()
        head = _RE.harmony.match(self.text, start)
        if head is None:
            begins = found.group() in ("<|start|>", "<|channel|>")
            if begins and not final and len(self.text) - start < _LONGEST_HEAD:
                return False
            self._begun = self._begun and found.group() != "<|python_tag|>"
            return self._mark("closer", found.end(), "" if found.group() == "</s>" else "token")
        to = _RE.to.search(head["to"] or "") or _RE.to.search(head["who"] or "")
        if to is not None:
            self._region = WrapperRegion(self.text, start, head.end() - start, tag="harmony", name=to[1])
            return True
        if head["channel"] == "analysis":
            return self._analysis(head.end(), final)
        self._at = head.end()
        return True

    def _analysis(self, begin: int, final: bool) -> bool:
        """A thought of the harmony format: it ends where the next message begins."""
        ends = re.compile(r"<\|(?:end|return|start|channel)\|>").search(self.text, begin)
        if ends is None and not final:
            return False
        end = ends.start() if ends else len(self.text)
        self._out.append(Segment(kind="thought", raw=without_signals(self.text[begin:end], torn=True)))
        self._at = end
        return True
