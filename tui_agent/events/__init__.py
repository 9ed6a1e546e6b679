"""What can happen: the one stream that leaves the engine. Plain data, journaled before anyone sees it.

`events.jsonl` is this stream, and TUI, headless, web, log, export, statistics and resume are readers of it.
An event never carries a live object. Adding one: a frozen class in one of these modules with its `noun.verb`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tui_agent.events.base import VERSION as VERSION
from tui_agent.events.base import Event as Event
from tui_agent.events.run import *  # noqa: F403  # the names of the package
from tui_agent.events.session import *  # noqa: F403  # the names of the package  # noqa: F403  # the names of the package  # noqa: F403  # the names of the package


class UnknownEvent(Event, frozen=True, kw_only=True):
    """A record of a newer schema: kept, counted, shown, never dropped."""

    type: ClassVar[str] = "unknown"
    name: str
    raw: dict[str, Any]


def _table() -> dict[str, type[Event]]:
    return {cls.type: cls for cls in Event.__subclasses__() if cls.__module__.startswith(f"{__name__}.")}


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
    if isinstance(event, UnknownEvent):
        return event.raw
    data: dict[str, Any] = msgspec.to_builtins(event)
    return data
