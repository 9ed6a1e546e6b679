"""Finding the calls in what a model wrote, whatever form it chose: one tolerant reader for all protocols (C4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from tui_agent.domain import ToolSpec
from tui_agent.protocols import forms
from tui_agent.protocols.offer import Offer
from tui_agent.protocols.pieces import Piece
from tui_agent.protocols.python_calls import attempted_calls, code_calls, listed_calls
from tui_agent.protocols.segments import Segmenter
from tui_agent.protocols.shapes import DATA, Found, Shape, shape
from tui_agent.protocols.shown import Shown

Protocol = Literal["native", "json", "xml", "files"]

__all__ = ["Assembly", "Found", "Parsed", "Protocol", "parse"]


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, taken apart."""

    calls: tuple[Found, ...] = ()
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
_BESIDE = " \t\r\n`;,}]"
"""What may stand between a call and its closing tag."""


class _Item(msgspec.Struct, frozen=True):
    """A part whose meaning is known but for what the whole reply decides."""

    kind: Literal["text", "calls", "bare", "attempt", "final", "gap", "closer"]
    raw: str = ""
    shape: Shape = DATA
    recovered: bool = True
    behind_call: bool = False
    """A closing tag that belongs to the call before it."""


def parse(text: str, tools: Sequence[ToolSpec], *, protocol: Protocol = "native") -> Parsed:
    """Calls, text and claims of a whole reply.

    Markup that says it is a call counts whatever tool it names. JSON without such markup counts only when there is
    none, its tool is offered and its shape fits; text in strings, nested objects and thoughts never is a call.
    `protocol` is the form that was asked for: calls in another one are marked as recovered.
    """
    segmenter = Segmenter()
    assembly = Assembly(tools, protocol)
    for piece in [*segmenter.feed(text), *segmenter.finish()]:
        assembly.add(piece)
    assembly.finish()
    return assembly.parsed()


class Assembly:
    """Puts the parts of a reply together as they come."""

    def __init__(self, tools: Sequence[ToolSpec], protocol: Protocol, *, attempts: bool = False) -> None:
        """With `attempts`, a reply that is nothing but JSON calling tools that are not offered is their calls."""
        self._offer = Offer(tools)
        self._protocol = protocol
        self._items: list[_Item] = []
        self._next = 0
        """The first item that has not been shown or passed over."""
        self._shown = Shown()
        self._clean: Shown | None = None
        """What may stay of the text when the beginning turned out to be a thought."""
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
        self._calls: tuple[Found, ...] = ()

    def add(self, piece: Piece) -> str:
        """Take the next part; the text that may be shown now."""
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
            self._clean = Shown()
        elif piece.kind != "thought":
            for item in self._read(piece):
                self._items.append(item)
                if item.kind != "text" or item.raw.strip(_BESIDE):
                    self._last = item.kind if item.kind != "closer" else self._last
        return self._show()

    def finish(self) -> str:
        """The rest of the text to show."""
        explicit = any(item.kind == "calls" and item.shape.calls for item in self._items)
        alone = self._alone()
        tried = not explicit and self._only_tried()
        rest = ""
        calls: list[Found] = []
        for place, item in enumerate(self._items):
            if (item.kind == "bare" and not explicit) or (item.kind == "attempt" and tried):
                calls.extend(item.shape.calls)
                self._errors.append(item.shape.error)
            elif item.kind == "calls":
                own = not item.recovered
                calls.extend(
                    msgspec.structs.replace(call, recovered=False) if own else call
                    for call in item.shape.calls
                )
            if place >= self._next:
                rest += self._settle(item, explicit, item is alone or tried)
        self._calls = tuple(calls)
        if self._invented and not calls:
            self._errors.append(INVENTED)
        rest += self._shown.end()
        if self._clean is not None:
            self._clean.end()
        return rest

    def parsed(self) -> Parsed:
        """The whole; after `finish`."""
        shown = self._shown if self._clean is None else self._clean
        return Parsed(
            calls=self._calls,
            text=shown.text,
            error=next(filter(None, self._errors), ""),
            done=self._done,
            question=self._question,
        )

    # --- what a part means ------------------------------------------------------------------

    def _read(self, piece: Piece) -> list[_Item]:
        if piece.kind == "text":
            return [_Item("text", piece.raw)]
        if piece.kind == "fence":
            inner = [item for part in piece.parts for item in self._read(part)]
            kept = [item for item in inner if item.kind != "text"]
            if not kept:
                return [_Item("text", piece.raw)]
            if all(item.kind == "attempt" for item in kept):
                calls = tuple(call for item in kept for call in item.shape.calls)
                return [_Item("attempt", piece.raw, Shape(kind="attempt", calls=calls))]
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
            return [_Item("calls", piece.raw, found, not self._own(piece, found))]
        kind: Literal["bare", "attempt", "final"] = (
            "bare" if found.kind == "bare" else "attempt" if found.kind == "attempt" else "final"
        )
        return [_Item(kind, piece.raw, found)]

    def _shape(self, piece: Piece) -> Shape:
        if piece.kind == "value":
            return shape(piece.bodies[0], self._offer)
        if piece.kind == "python":
            calls = listed_calls(piece.bodies[0], self._offer)
            return (
                Shape(kind="calls", calls=calls) if calls else attempted_calls(piece.bodies[0], self._offer)
            )
        if piece.kind == "code":
            return code_calls(piece.bodies[0], self._offer)
        if piece.kind == "function":
            return forms.tagged(piece.bodies[0], self._offer)
        shapes = [self._body(body, piece) for body in piece.bodies]
        calls = tuple(call for one in shapes for call in one.calls)
        return Shape(kind="calls", calls=calls, error=next((one.error for one in shapes if one.error), ""))

    def _body(self, body: str, piece: Piece) -> Shape:
        if piece.tag == "tool_code" and body.strip()[:1] not in ("{", "<"):
            return code_calls(body, self._offer)
        if piece.name and (body.lstrip()[:1] == "{" or piece.tag == "token"):
            return forms.named(piece.name, body.strip(), self._offer)
        if body.strip()[:1] in ("{", "["):
            return shape(body.strip(), self._offer, wrapped=True)
        return forms.tagged(body, self._offer)

    def _own(self, piece: Piece, found: Shape) -> bool:
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
        return self._protocol == "json" and all(
            item.kind == "text" and not item.raw.strip() for item in before
        )

    def _worded(self) -> bool:
        """Whether there is text beside the JSON that came."""
        return any(item.kind == "text" and item.raw.strip(_BESIDE) for item in self._items)

    def _only_tried(self) -> bool:
        """Whether the whole reply is JSON in the shape of calls."""
        kinds = {item.kind for item in self._items if item.kind not in ("text", "closer")}
        return "attempt" in kinds and kinds <= {"attempt", "bare"} and not self._worded()

    def _alone(self) -> _Item | None:
        """The one answer that the whole reply is."""
        solid = [
            item for item in self._items if item.kind not in ("text", "closer") or item.raw.strip("`~ \t\r\n")
        ]
        if solid and solid[0].kind == "final" and (len(solid) == 1 or self._protocol == "json"):
            return solid[0]
        return None

    def _settle(self, item: _Item, explicit: bool, alone: bool) -> str:
        """Show an item or pass over it."""
        if item.kind == "text":
            return self._add(item.raw)
        if item.kind == "closer":
            if item.behind_call:
                return self._gap()
            return self._add(item.raw)
        if (item.kind == "bare" and explicit) or (item.kind in ("final", "attempt") and not alone):
            return self._add(item.raw)
        answer = item.shape.answer
        if item.kind == "final":
            self._done = self._done or item.shape.done
            self._question = item.shape.question
        given = self._gap()
        if not answer:
            return given
        return given + self._add(answer)

    def _add(self, text: str) -> str:
        if self._clean is not None:
            self._clean.add(text)
        return self._shown.add(text)

    def _gap(self) -> str:
        if self._clean is not None:
            self._clean.gap()
        return self._shown.gap()
