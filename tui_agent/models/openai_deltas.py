"""Putting tool calls together from the deltas of OpenAI-compatible servers, each with its own habits (C-5)."""

from __future__ import annotations

from typing import Any

import msgspec

from tui_agent.models.base import CallBegun
from tui_agent.models.calls import ARGUMENTS_LIMIT
from tui_agent.models.framing import Unreadable, read_json

_FIRST_LOOK = 64
"""Characters of arguments at which they are read for the status line; then at every doubling, so that the work
stays linear in their length."""
_LOOKS = 200
"""How often a call's arguments are checked for being complete."""
_SHOWN = 200
"""Characters of one argument that the status line may get."""


class Slot:
    """One call in the making."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.whole: Any = None
        """Arguments that came as an object instead of text."""
        self._parts: list[str] = []
        self.length = 0
        self._next_look = self._looks = 0

    @property
    def arguments(self) -> Any:
        """The arguments as they came: text, or an object."""
        return self.whole if self.whole is not None else "".join(self._parts)

    @property
    def started(self) -> bool:
        """Some arguments are there."""
        return self.whole is not None or self.length > 0

    @property
    def closed(self) -> bool:
        """The arguments are a complete object. Asked only when a new call may begin, and not without end."""
        if self.whole is not None or not self._parts:
            return self.whole is not None
        self._looks += 1
        return (
            self._looks <= _LOOKS
            and self._parts[-1].rstrip().endswith("}")
            and _is_object("".join(self._parts))
        )

    def add_name(self, name: str) -> None:
        """Names come once, again and again in full, or (seldom) in parts; an empty one never overwrites."""
        if not self.name or name.startswith(self.name):
            self.name = name
        elif not self.started and not self.name.startswith(name):
            self.name += name

    def add_arguments(self, arguments: Any) -> None:
        """Text is a fragment; an object is all of it."""
        if isinstance(arguments, (dict, list)):
            if arguments or not self.length:
                self.whole = arguments
        elif isinstance(arguments, str) and arguments:
            self.length += len(arguments)
            if self.length <= ARGUMENTS_LIMIT + len(arguments):
                self._parts.append(arguments)

    def glimpse(self) -> CallBegun | None:
        """What the status line may show, when there is something new to look at."""
        if not self.name or self.length < self._next_look:
            return None
        self._next_look = max(_FIRST_LOOK, self.length * 2)
        if self.whole is not None:
            return CallBegun(name=self.name, arguments=_brief(self.whole))
        return CallBegun(name=self.name, arguments=_brief(_partial("".join(self._parts))))


class Slots:
    """All calls of a reply, in the order in which they began."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self._by_index: dict[int, Slot] = {}

    def add(self, delta: Any) -> Slot | None:
        """Take one entry of `tool_calls`; the call that it belongs to, or None for an entry that is none."""
        if not isinstance(delta, dict):
            return None
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        entry = _Entry(
            index=delta.get("index") if isinstance(delta.get("index"), int) else None,
            id=_word(delta.get("id")),
            name=_word(function.get("name")),
            arguments=function.get("arguments"),
        )
        if entry.index is None and not (entry.id or entry.name or entry.arguments):
            return None
        slot = self._slot(entry)
        if entry.id and not slot.id:
            slot.id = entry.id
        if entry.name:
            slot.add_name(entry.name)
        slot.add_arguments(entry.arguments)
        if entry.index is not None:
            self._by_index[entry.index] = slot
        return slot

    def _slot(self, entry: _Entry) -> Slot:
        """Which call an entry continues: its id tells first, then its index, then the order (C-5)."""
        if entry.id:
            known = next((slot for slot in reversed(self.slots) if slot.id == entry.id), None)
            if known is None:
                known = self._at(entry.index)
                if known is not None and known.id:
                    known = None  # parallel calls that all say index 0: a new id is a new call
        elif entry.index is not None:
            known = self._by_index.get(entry.index)
            if known is None and not entry.name and self.slots and not self.slots[-1].started:
                known = self.slots[-1]  # the arguments of a call that was named under another index
        else:
            known = self.slots[-1] if self.slots else None
        if known is None or _begins_another(entry, known):
            known = Slot()
            self.slots.append(known)
        return known

    def _at(self, index: int | None) -> Slot | None:
        if index is not None:
            return self._by_index.get(index)
        return self.slots[-1] if self.slots else None


class _Entry(msgspec.Struct, frozen=True):
    index: int | None
    id: str
    name: str
    arguments: Any


def _begins_another(entry: _Entry, slot: Slot) -> bool:
    """A named entry with arguments from their beginning, for a call that has all of its own, is another call, even
    with the same index or id. A repetition of the same call is none."""
    if not entry.name or not slot.started:
        return False
    if isinstance(entry.arguments, str):
        if not entry.arguments.lstrip().startswith("{"):
            return False
    elif not isinstance(entry.arguments, dict):
        return False
    return slot.closed


def _word(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_object(text: str) -> bool:
    try:
        return isinstance(read_json(text), dict)
    except Unreadable:
        return False


def _partial(text: str) -> Any:
    """What can be read of arguments that are still arriving."""
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}


def _brief(arguments: Any) -> dict[str, Any]:
    """Short scalars only: paths and names, not contents."""
    if not isinstance(arguments, dict):
        return {}
    out: dict[str, Any] = {}
    for key, value in arguments.items():
        if isinstance(value, str):
            out[key] = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
        elif isinstance(value, (int, float, bool)):
            out[key] = value
    return out


def arguments_text(arguments: Any) -> str:
    """Arguments for the wire: always one valid JSON object in a text (C-9, C-12)."""
    return msgspec.json.encode(arguments).decode() if arguments else "{}"
