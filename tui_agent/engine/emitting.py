"""What the parts of the agent need of a stream: the session's own one fits, and so does that of a sub-agent."""

from __future__ import annotations

from typing import Protocol

from tui_agent.engine.history import History
from tui_agent.events import Event


class Emitting(Protocol):
    """Where events go."""

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """Number the event and hand it on. Returns the number; see EventStream."""
        ...

    async def durable(self, seq: int | None = None) -> None:
        """Wait until all that was emitted survives a loss of power. Raises JournalBroken."""
        ...


class Remembered(Protocol):
    """The part of the engine's state that a window works on."""

    history: History
    log_entries: int
    asked_apart: int


class Remembering(Emitting, Protocol):
    """A stream that folds what it is given."""

    @property
    def state(self) -> Remembered:
        """What was folded."""
        ...
