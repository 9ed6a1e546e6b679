"""Finding the calls in what a model wrote, whatever form it chose: one tolerant reader for all protocols (C4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tui_agent.common.domain import ToolCall, ToolSpec
from tui_agent.protocols.calls import (
    DATA,
    Interpretation,
    attempted_calls,
    code_calls,
    interpret,
    interpret_named,
    interpret_tags,
    listed_calls,
)
from tui_agent.protocols.markup import Segment, beginning_at, without_signals
from tui_agent.protocols.offer import OfferedTools
from tui_agent.protocols.segments import Segmenter

Protocol = Literal["native", "json", "xml", "files"]


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, taken apart."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    """What is left for the user."""
    error: str = ""
    """What was wrong, in words for the model; empty when nothing was. Good calls may stand beside it."""
    done: bool = False
    """The model claimed completion."""
    question: str = ""
    """What it asks the user in the form of its protocol."""


INVENTED = (
    "it holds the result of a tool that you wrote yourself. Results come from the program only, after a call of yours; "
    "what you wrote from there on was dropped"
)
"""What is wrong with a reply that makes up a result and calls nothing."""
_SPACE_AFTER = re.compile(r"[\s;,]*")
_SEPARATORS = str.maketrans("", "", ",;")
OVERLAP = 240
"""Characters at the beginning of a continuation that may repeat the end of what stood before."""
OVERLAP_LEAST = 8
"""Characters that are an overlap and no chance."""
_BESIDE = " \t\r\n`;,}]"
"""What may stand between a call and its closing tag."""


class _Item(msgspec.Struct, frozen=True):
    """A part whose meaning is known but for what the whole reply decides."""

    kind: Literal["text", "calls", "bare", "attempt", "final", "gap", "closer"]
    raw: str = ""
    meaning: Interpretation = DATA
    behind_call: bool = False
    """A closing tag that belongs to the call before it."""


def parse_reply(text: str, tools: Sequence[ToolSpec], *, protocol: Protocol = "native") -> ParsedReply:
    """Calls, text and claims of a whole reply.

    Markup that says it is a call counts whatever tool it names. JSON without such markup counts only when there is
    none, its tool is offered and its shape fits; text in strings, nested objects and thoughts never is a call.
    `protocol` is the form that was asked for: calls in another one are marked as recovered.
    """
    parser = ReplyParser(tools, protocol)
    parser.feed(text)
    return parser.finish()[1]


class ReplyParser:
    """Takes a reply apart while it streams in: holds back what may still become the markup of a call or a signal, and
    gives out the rest at once (C4).

    What `feed` and `finish` gave out, joined, is the text of the parse, however the reply was cut. The one exception
    is a thought that closes without ever having been opened: what was shown of it stays shown.
    """

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        protocol: Protocol = "native",
        *,
        attempts: bool = False,
        think: Callable[[str], object] = lambda text: None,
    ) -> None:
        """With `attempts`, a reply that is nothing but JSON calling tools that are not offered is their calls.
        `think` is called with every thought, before `feed` returns. Files may hold any token: in that protocol all is
        text but for the thoughts."""
        self._files = protocol == "files"
        self._segmenter = Segmenter(cuts=not self._files)
        self._think = think
        self._offer = OfferedTools(tools)
        self._protocol = protocol
        self._joint: str | None = None
        """What came of a continuation that may still repeat the end of what stands before it."""
        self._raw: list[str] = []
        self.size = 0
        """Characters that came."""
        self._items: list[_Item] = []
        self._next = 0
        """The first item that has not been shown or passed over."""
        self._visible = [VisibleText()]
        """What is shown, and behind it what may stay of that when the beginning turned out to be a thought."""
        self._last: str = ""
        """The kind of the last item that is more than blanks."""
        self._errors: list[str] = []
        self._done = False
        self._question = ""
        self._attempts = attempts
        self._invented = False
        """The model wrote the result of a tool itself."""
        self._over = False
        """Nothing that still comes counts."""

    @property
    def over(self) -> bool:
        """The model has begun to write in the name of a tool or the user: nothing that still comes counts."""
        return not self._files and self._segmenter.over

    @property
    def raw(self) -> str:
        """All that came but for its thoughts and made-up results, with its markup."""
        return "".join(self._raw)

    def join(self) -> None:
        """What comes now continues a reply that was cut off; an overlap with what stands is left out (W14)."""
        self._joint = ""

    def feed(self, text: str) -> str:
        """Take the next text; what may be shown now."""
        if self._joint is not None:
            self._joint += text
            if len(self._joint) < OVERLAP:
                return ""
            text = self._without_overlap()
        self.size += len(text)
        return self._take(self._segmenter.feed(text))

    def _without_overlap(self) -> str:
        new, self._joint = self._joint or "", None
        before = self.raw[-OVERLAP:]
        sizes = range(min(len(new), len(before)), OVERLAP_LEAST - 1, -1)
        size = next((size for size in sizes if before.endswith(new[:size])), 0)
        return new[size:]

    def _take(self, pieces: list[Segment]) -> str:
        for piece in pieces:
            if piece.kind == "thought":
                self._think(piece.raw)
            elif piece.is_text:
                self._raw.append(piece.raw)
            elif piece.kind == "unopened" and not self._files:
                self._think(self.raw)
                self._raw.clear()
        if self._files:
            return "".join(piece.raw for piece in pieces if piece.is_text)
        return "".join(map(self._add, pieces))

    def _add(self, piece: Segment) -> str:
        """Take a part; what may be shown now."""
        if piece.kind == "invented":
            self._invented = self._invented or piece.tag == "result"
            self._items.append(_Item("closer", behind_call=True))
        elif self._over:
            return ""
        elif piece.kind == "done":
            self._done = True
        elif piece.kind == "unopened":
            self._items = []
            self._next = 0
            self._last = ""
            self._errors = []
            self._visible[1:] = [VisibleText()]
        elif piece.kind != "thought":
            for item in self._read(piece):
                self._items.append(item)
                if item.kind != "text" or item.raw.strip(_BESIDE):
                    self._last = item.kind if item.kind != "closer" else self._last
        return self._show()

    def finish(self) -> tuple[str, ParsedReply]:
        """The rest to show, and the parse of the whole."""
        rest = ""
        if self._joint is not None:
            rest = self.feed(self._without_overlap())
        rest += self._take(self._segmenter.finish())
        if self._files:
            return rest, ParsedReply(text=self.raw)
        explicit = any(item.kind == "calls" and item.meaning.calls for item in self._items)
        alone = self._alone()
        tried = not explicit and self._only_tried()
        calls: list[ToolCall] = []
        for place, item in enumerate(self._items):
            if (item.kind == "bare" and not explicit) or (item.kind == "attempt" and tried):
                calls.extend(item.meaning.calls)
                self._errors.append(item.meaning.error)
            elif item.kind == "calls":
                calls.extend(item.meaning.calls)
            if place >= self._next:
                rest += self._settle(item, explicit, item is alone or tried)
        if self._invented and not calls:
            self._errors.append(INVENTED)
        ends = [text.end() for text in self._visible]
        return rest + ends[0], ParsedReply(
            calls=tuple(calls),
            text=self._visible[-1].text,
            error=next(filter(None, self._errors), ""),
            done=self._done,
            question=self._question,
        )

    # --- what a part means ------------------------------------------------------------------

    def _read(self, piece: Segment) -> list[_Item]:
        if piece.kind == "text":
            return [_Item("text", piece.raw)]
        if piece.kind == "fence":
            inner = [item for part in piece.parts for item in self._read(part)]
            kept = [item for item in inner if item.kind != "text"]
            if not kept:
                return [_Item("text", piece.raw)]
            if all(item.kind == "attempt" for item in kept):
                calls = tuple(call for item in kept for call in item.meaning.calls)
                return [_Item("attempt", piece.raw, Interpretation(kind="attempt", calls=calls))]
            return inner if len(inner) > 1 else [msgspec.structs.replace(kept[0], raw=piece.raw)]
        if piece.kind == "closer":
            behind = self._last not in ("", "text") or piece.tag == "token"
            return [_Item("closer", piece.raw, behind_call=behind)]
        if piece.kind == "broken":
            self._errors.append("The markup of a call holds no call that can be read.")
            return [_Item("gap", piece.raw)]
        found = self._shape(piece)
        if found.kind == "result" and (self._protocol == "json" or self._last not in ("", "text")):
            self._invented = self._over = True
            return [_Item("closer", behind_call=True)]
        if found.error and found.kind != "bare":
            self._errors.append(found.error)
        if found.kind in ("data", "result") or (found.kind == "attempt" and not self._attempts):
            return [_Item("text", piece.raw, found)]
        if found.kind == "calls":
            self._done = self._done or found.done
            if self._own(piece, found):
                calls = tuple(msgspec.structs.replace(call, recovered=False) for call in found.calls)
                found = msgspec.structs.replace(found, calls=calls)
            return [_Item("calls", piece.raw, found)]
        kind: Literal["bare", "attempt", "final"] = (
            "bare" if found.kind == "bare" else "attempt" if found.kind == "attempt" else "final"
        )
        return [_Item(kind, piece.raw, found)]

    def _shape(self, piece: Segment) -> Interpretation:
        if piece.kind == "value":
            return interpret(piece.bodies[0], self._offer)
        if piece.kind == "python":
            calls = listed_calls(piece.bodies[0], self._offer)
            return Interpretation(kind="calls", calls=calls) if calls else attempted_calls(piece.bodies[0], self._offer)
        if piece.kind == "code":
            return code_calls(piece.bodies[0], self._offer)
        if piece.kind == "function":
            return interpret_tags(piece.bodies[0], self._offer)
        shapes = [self._body(body, piece) for body in piece.bodies]
        calls = tuple(call for one in shapes for call in one.calls)
        return Interpretation(kind="calls", calls=calls, error=next((one.error for one in shapes if one.error), ""))

    def _body(self, body: str, piece: Segment) -> Interpretation:
        if piece.tag == "tool_code" and body.strip()[:1] not in ("{", "<"):
            return code_calls(body, self._offer)
        if piece.name and (body.lstrip()[:1] == "{" or piece.tag == "token"):
            return interpret_named(piece.name, body.strip(), self._offer)
        if body.strip()[:1] in ("{", "["):
            return interpret(body.strip(), self._offer, wrapped=True)
        return interpret_tags(body, self._offer)

    def _own(self, piece: Segment, found: Interpretation) -> bool:
        """Whether the call came in the form that was asked for."""
        if self._protocol == "xml":
            return piece.kind == "wrapper" and piece.tag == "tool_call"
        return self._protocol == "json" and found.own == "tool_calls"

    # --- what is shown ----------------------------------------------------------------------

    def _show(self) -> str:
        """Show what nothing that may still come can change."""
        given = ""
        while self._next < len(self._items):
            item = self._items[self._next]
            if item.kind == "attempt" and not self._worded():
                break
            if item.kind == "bare" or (item.kind == "final" and not self._leads(self._next)):
                break
            given += self._settle(item, True, item.kind == "final")
            self._next += 1
        return given

    def _leads(self, place: int) -> bool:
        """Whether an answer stands first in a reply of the JSON protocol, where it counts at once."""
        before = self._items[:place]
        return self._protocol == "json" and all(item.kind == "text" and not item.raw.strip() for item in before)

    def _worded(self) -> bool:
        """Whether there is text beside the JSON that came."""
        return any(item.kind == "text" and item.raw.strip(_BESIDE) for item in self._items)

    def _only_tried(self) -> bool:
        """Whether the whole reply is JSON in the shape of calls."""
        kinds = {item.kind for item in self._items if item.kind not in ("text", "closer")}
        return "attempt" in kinds and kinds <= {"attempt", "bare"} and not self._worded()

    def _alone(self) -> _Item | None:
        """The one answer that the whole reply is."""
        solid = [item for item in self._items if item.kind not in ("text", "closer") or item.raw.strip("`~ \t\r\n")]
        if solid and solid[0].kind == "final" and (len(solid) == 1 or self._protocol == "json"):
            return solid[0]
        return None

    def _settle(self, item: _Item, explicit: bool, alone: bool) -> str:
        """Show an item or pass over it."""
        if item.kind == "text":
            return self._show_text(item.raw)
        if item.kind == "closer":
            if item.behind_call:
                return self._gap()
            return self._show_text(item.raw)
        if (item.kind == "bare" and explicit) or (item.kind in ("final", "attempt") and not alone):
            return self._show_text(item.raw)
        answer = item.meaning.answer
        if item.kind == "final":
            self._done = self._done or item.meaning.done
            self._question = item.meaning.question
        given = self._gap()
        if not answer:
            return given
        return given + self._show_text(answer)

    def _show_text(self, text: str) -> str:
        given, *_ = [visible.add(text) for visible in self._visible]
        return given

    def _gap(self) -> str:
        given, *_ = [visible.gap() for visible in self._visible]
        return given


class VisibleText:
    """What the user sees of a reply: text without signals and without the gaps that calls leave.

    Grows only: what was given out stays. Space at both ends of the whole is dropped."""

    def __init__(self) -> None:
        self._held = ""
        """The end of the text, where a signal may have begun."""
        self._blank = ""
        self._after_call = False
        self._begun = False
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """Everything given out so far."""
        return "".join(self._parts)

    def add(self, text: str) -> str:
        """Take text; what of it may be shown now."""
        stripped = without_signals(self._held + text)
        at = beginning_at(stripped)
        self._held = stripped[at:]
        return self._give(stripped[:at])

    def gap(self) -> str:
        """Something that is not shown stood here; separators between calls go with it. What may be shown now."""
        given = self._release()
        self._blank = self._blank.translate(_SEPARATORS) if self._after_call else self._blank
        self._after_call = True
        return given

    def end(self) -> str:
        """The rest."""
        rest = self._release()
        self._blank = ""
        return rest

    def _release(self) -> str:
        """What was held back; a torn signal is dropped."""
        rest, self._held = self._held, ""
        return self._give(without_signals(rest, torn=True))

    def _give(self, text: str) -> str:
        if not text:
            return ""
        lead = _SPACE_AFTER.match(text) if self._after_call else None
        blanks = lead.end() if lead is not None else len(text) - len(text.lstrip())
        self._blank += text[:blanks]
        if blanks == len(text):
            return ""
        tail = len(text.rstrip())
        before = self._blank
        if self._after_call and self._begun:
            before = re.sub(r"\n(?:[ \t\r]*\n){2,}", "\n\n", before)
        given = (before if self._begun else before.lstrip()) + text[blanks:tail]
        self._begun = True
        self._after_call = False
        self._blank = text[tail:]
        self._parts.append(given)
        return given
