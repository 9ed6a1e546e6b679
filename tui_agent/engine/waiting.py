"""The messages that wait for their turn, and what their user does with them besides taking them back (R11.3)."""

from __future__ import annotations

from collections.abc import Callable

from tui_agent.engine.state import EngineState, Queued
from tui_agent.events import Event, MessageChanged, MessageMoved


class Waiting:
    """The queue of a session that is open in this process. Every change is an event, so that a crash keeps it."""

    def __init__(
        self, state: EngineState, emit: Callable[[Event], None], start: Callable[[], object]
    ) -> None:
        """`start` begins with the first message unless a run goes on."""
        self._state = state
        self._emit = emit
        self._start = start
        self._stopped = self._rests = False
        self._late: set[str] = set()
        """Said after the stop."""

    def begun(self) -> None:
        """A run begins."""
        self._stopped = self._rests = False
        self._late.clear()

    def stopped(self) -> None:
        """The user wants the run that goes on to end."""
        self._stopped = True

    def said(self, message: str) -> None:
        """A message came to wait."""
        if self._stopped:
            self._late.add(message)

    def ended(self, interrupted: bool) -> None:
        """This is how the run ended."""
        self._rests = interrupted

    def go_on(self, _run: object = None) -> None:
        """The run is over and saved. After one that was stopped the queue waits for its user, unless something was
        said after the stop: who said that waits for no more than the end of the run."""
        if not self._rests or any(one.id in self._late for one in self._state.queue):
            self._start()

    def order(self) -> list[tuple[str, bool]]:
        """Ids in the order in which they are sent, each with whether it guides the run that goes on."""
        return [(one.id, one.steering) for one in self._state.queue]

    def move(self, message: str, before: str = "") -> bool:
        """Put a message before another one, by their ids; to the end without one. False when either is not waiting
        any more, or nothing would change."""
        ids = [one.id for one in self._state.queue]
        if message not in ids or message == before or (before and before not in ids):
            return False
        behind = ids.index(message) + 1
        if before == (ids[behind] if behind < len(ids) else ""):
            return False
        self._emit(MessageMoved(id=message, before=before))
        return True

    def guide(self, message: str, steering: bool) -> bool:
        """Mean a message for the run that goes on, or for one of its own. False when it is not waiting any more, or
        is meant so already."""
        one = self._find(message)
        if one is None or one.steering == steering:
            return False
        self._emit(MessageChanged(id=message, text=one.text, steering=steering))
        return True

    def send(self) -> bool:
        """Begin with the first message; False when a run goes on or nothing waits. After a run that was stopped the
        queue waits for this, or for something else to be said."""
        waiting = [one.id for one in self._state.queue]
        self._start()
        return [one.id for one in self._state.queue] != waiting

    def _find(self, message: str) -> Queued | None:
        return next((one for one in self._state.queue if one.id == message), None)
