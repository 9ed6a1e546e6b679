"""Events: the only output of the engine, as plain data that is journaled before anybody sees it.

`events.jsonl` holds them; all surfaces, the log, exports, statistics and resume read them. To add an event, add a
frozen class with a `type` of the form `noun.verb` to one of these modules.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tui_agent.events.base import VERSION as VERSION
from tui_agent.events.base import Event as Event
from tui_agent.events.run import *  # noqa: F403  # re-exported
from tui_agent.events.session import *  # noqa: F403  # re-exported


class UnknownEvent(Event, frozen=True, kw_only=True):
    """An event of a newer version, preserved as it is."""

    type: ClassVar[str] = "unknown"
    name: str
    raw: dict[str, Any]


TABLE: dict[str, type[Event]] = {
    cls.type: cls for cls in Event.__subclasses__() if cls.__module__.startswith(f"{__name__}.")
}
"""Type on disk → class."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its position in the stream and in the progress tree."""

    seq: int
    """1, 2, 3 … without gaps within a session."""
    at: str
    """ISO 8601 with milliseconds and offset."""
    event: Event
    run: str = ""
    node: str = ""
    """Id of what the event is about: a reply, call, step or stage."""
    parent: str = ""
    """Id of the parent node in the progress tree (run > stage > step > reply or call > sub-agent)."""


def to_data(event: Event) -> dict[str, Any]:
    """Return the event's fields as plain data for JSON."""
    if isinstance(event, UnknownEvent):
        return event.raw
    data: dict[str, Any] = msgspec.to_builtins(event)
    return data
