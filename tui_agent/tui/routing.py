"""From records to widgets: fold, gather what changed, hand each widget its part at most 30 times a second."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from time import monotonic
from typing import TYPE_CHECKING

from tui_agent.events import Record
from tui_agent.text import Mask
from tui_agent.view import Part, SessionView, Veil, fold
from widgets.columns import Columns
from widgets.status_line import ActivityLine, KeyLine, TitleLine

if TYPE_CHECKING:
    from pathlib import Path

    from tui_agent.tui.door import SessionDoor

FRAME = 1 / 30
"""Seconds between paints (U1)."""
SHARE = 4
"""A paint is followed by at least so many times its own duration without one: keys and the stream come first."""
SLOWEST = 0.25
"""Seconds between paints, however long they take."""


class Router:
    """Owns what is not painted yet. The same for live and replayed records."""

    def __init__(self, view: SessionView, *, clock: Callable[[], float] = monotonic) -> None:
        self.view = view
        self.clock = clock
        self._parts = Part.NOTHING
        self._items: set[int] = set()
        self._nodes: set[int] = set()
        self._last = float("-inf")
        self.veil = Veil()
        """Takes secrets out of what is shown (A7)."""
        self._handed = 0.0
        """Seconds that the last flush took."""
        self._whole: SessionView | None = None
        """The view of all, while the end of a long past is shown."""
        self._until = 0
        self._older: int | None = None
        """How many items came before those that are shown, once that is known."""

    async def show_end(self, session: SessionDoor, paint: Callable[[], None]) -> None:
        """Show how a long past ends before all of it is read (S3): `take` gets it from its beginning all the same."""
        folder: Path | None = getattr(session, "folder", None)
        if folder is None or not session.begins:
            return
        from tui_agent.storage.past import end_of

        with suppress(OSError):  # whoever reads all of it tells
            for record in await to_thread(end_of, folder / "events.jsonl", session.begins):
                self.take(record)
        if self.dirty:
            self._whole, self._until, self.veil = SessionView(), session.begins, Veil(self.veil.mask)
            paint()

    def take(self, record: Record) -> None:
        """Fold one record."""
        if self._whole is not None:
            if record.seq <= self._until:
                fold(self._whole, record, self.veil)
                return
            self._look_back(self._whole)
        change = fold(self.view, record, self.veil)
        self._parts |= change.parts
        self._items.update(change.items)
        self._nodes.update(change.nodes)

    def _look_back(self, whole: SessionView) -> None:
        """All of the past is read: it takes the place of its end."""
        self._older, self._whole = len(whole.items) - len(self.view.items), None
        for one in fields(SessionView):
            setattr(self.view, one.name, getattr(whole, one.name))
        self._parts = Part.ALL
        self._items, self._nodes = set(range(len(whole.items))), set(range(len(whole.tree.nodes)))

    def hide(self, mask: Mask) -> None:
        """From now on `mask` decides what is a secret."""
        self.veil = Veil(mask)

    @property
    def looks_back(self) -> bool:
        """True while older parts than those that are shown are read."""
        return self._whole is not None

    @property
    def dirty(self) -> bool:
        """True while something is not painted."""
        return bool(self._parts)

    def due(self, cost: float = 0.0) -> float:
        """Seconds until the next paint may be, when the screen took `cost` seconds for the last one."""
        pause = min(SLOWEST, max(FRAME, SHARE * (self._handed + cost)))
        return max(0.0, self._last + pause - self.clock())

    def flush(self, columns: Columns, title: TitleLine, activity: ActivityLine, keys: KeyLine) -> Part:
        """Hand every widget its part; returns the parts that had changed."""
        parts, items, nodes = self._parts, self._items, self._nodes
        self._parts, self._items, self._nodes, self._last = Part.NOTHING, set(), set(), self.clock()
        if self._older is not None:
            columns.look_back(self.view.items, self._older)
            self._older = None
        if items:
            columns.transcript.show(self.view.items, items)
        if nodes:
            columns.progress.show(nodes)
            columns.fit_in()
        if Part.PLAN in parts:
            columns.show_plan(self.view.plan)
            keys.relayout()
        if Part.STATUS in parts:
            title.relayout()
            columns.transcript.refresh_greeting()
            keys.relayout()
        if parts & (Part.STATUS | Part.QUEUE):
            activity.relayout()
        self._handed = self.clock() - self._last
        return parts
