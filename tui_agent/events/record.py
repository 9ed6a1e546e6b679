"""An event in its envelope, and the way to and from plain data."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tui_agent.events import files, plan, run, session
from tui_agent.events.base import VERSION, Event

KINDS = (session, run, plan, files)
"""The modules whose classes the table holds."""


class Unknown(Event, frozen=True, kw_only=True):
    """A record of a newer schema: kept, counted, shown, never dropped (A30)."""

    type: ClassVar[str] = "unknown"
    name: str
    raw: dict[str, Any]


def _table() -> dict[str, type[Event]]:
    return {
        cls.type: cls for cls in Event.__subclasses__() if cls.__module__ in {kind.__name__ for kind in KINDS}
    }


TABLE: dict[str, type[Event]] = _table()
"""Dotted name → class."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its envelope: its place in the stream and in the progress tree."""

    seq: int
    """1, 2, 3 … without gaps within a session."""
    at: str
    """ISO 8601 with milliseconds and offset."""
    event: Event
    run: str = ""
    node: str = ""
    """The thing this event is about: a reply, a call, a stage."""
    parent: str = ""
    """The node above it in the progress tree (run > stage > step > reply or call > sub-agent)."""


def to_data(event: Event) -> dict[str, Any]:
    """The event's fields as plain JSON-able data."""
    if isinstance(event, Unknown):
        return event.raw
    data: dict[str, Any] = msgspec.to_builtins(event)
    return data


def from_data(name: str, data: dict[str, Any], version: int = VERSION) -> Event:
    """The event `name` from its data; `Unknown` for a name, version or shape that this program does not know."""
    cls = TABLE.get(name)
    if cls is None or version > VERSION:
        return Unknown(name=name, raw=data)
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError:
        return Unknown(name=name, raw=data)
