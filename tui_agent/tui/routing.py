"""From records to widgets: fold them, and paint what they changed at most 30 times a second."""

from __future__ import annotations

from asyncio import TimerHandle, to_thread
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from time import monotonic
from typing import TYPE_CHECKING

from tui_agent.events import Event, Record
from tui_agent.tui.base_app import BaseApp
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView, ViewPart
from tui_agent.view.redactor import Redactor
from widgets.request_view import call_later_once

if TYPE_CHECKING:
    from pathlib import Path

    from textual.timer import Timer

    from tui_agent.engine.api import SessionApi

FRAME = 1 / 30
"""Seconds between paints (U1)."""
SHARE = 4
"""A paint is followed by at least so many times its own duration without one: keys and the stream come first."""
SLOWEST = 0.25
"""Seconds between paints, however long they take."""


class Router:
    """Keeps the view up to date and painted. The same for live and replayed records."""

    def __init__(self, app: BaseApp, *, ask_next: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        """`ask_next` is called when the requests that wait are others than before."""
        self.app = app
        self.view = app.view
        self.clock = clock
        self._ask_next = ask_next
        self._begins = 0
        """The first record of this process."""
        self._last = float("-inf")
        self._frame: TimerHandle | None = None
        """The next paint."""
        self._second: Timer | None = None
        self.redactor = Redactor()
        """Takes secrets out of what is shown (A7)."""
        self._subscribers: dict[type[Event], list[Callable[[Record], None]]] = {}
        self._paint_seconds = 0.0
        """Seconds that the last paint took."""
        self._whole: SessionView | None = None
        """The view of all, while the end of a long past is shown."""
        self._until = 0
        self._older: int | None = None
        """How many items came before those that are shown, once that is known."""

    def begin(self) -> None:
        """The screen is there: what counts seconds is painted every second while something is going on."""
        self._second = self.app.set_interval(1.0, self._tick, pause=True)

    async def open(self, session: SessionApi) -> None:
        """The records of this session follow. Shows how a long past ends before all of it is read (S3): `take` gets it
        from its beginning all the same."""
        self.redactor, self._begins = Redactor(session.mask), session.begins
        folder: Path | None = getattr(session, "folder", None)
        if folder is None or not session.begins:
            return
        from tui_agent.storage.journal import end_of

        with suppress(OSError):  # the full read reports it
            for record in await to_thread(end_of, folder / "events.jsonl", session.begins):
                fold_record(self.view, record, self.redactor)
        if self.dirty:
            self._whole, self._until, self.redactor = SessionView(), session.begins, Redactor(session.mask)
            self._paint_soon()

    def subscribe(self, handle: Callable[[Record], None], *kinds: type[Event]) -> None:
        """Call `handle` with every record of these events, the past ones too, once it is folded."""
        for kind in kinds:
            self._subscribers.setdefault(kind, []).append(handle)

    def take(self, record: Record) -> None:
        """Fold one record, hand it to its subscribers, and have it painted soon; the past once all of it is there."""
        if self._whole is not None and record.seq <= self._until:
            fold_record(self._whole, record, self.redactor)
        else:
            if self._whole is not None:
                self._show_whole_past(self._whole)
            fold_record(self.view, record, self.redactor)
        for handle in self._subscribers.get(type(record.event), ()):
            handle(record)
        if record.seq >= self._begins and self._frame is None:
            self._paint_soon()

    def _show_whole_past(self, whole: SessionView) -> None:
        """All of the past is read: it takes the place of its end."""
        self._older, self._whole = len(whole.items) - len(self.view.items), None
        for one in fields(SessionView):
            setattr(self.view, one.name, getattr(whole, one.name))
        self.view.changes.parts |= ViewPart.ALL

    @property
    def reading_past(self) -> bool:
        """True while older parts than those that are shown are read."""
        return self._whole is not None

    @property
    def dirty(self) -> bool:
        """True while something is not painted."""
        return bool(self.view.changes)

    def due(self, cost: float = 0.0) -> float:
        """Seconds until the next paint may be, when the screen took `cost` seconds for the last one."""
        pause = min(SLOWEST, max(FRAME, SHARE * (self._paint_seconds + cost)))
        return max(0.0, self._last + pause - self.clock())

    def _paint_soon(self) -> None:
        cost = getattr(self.app.screen, "cost", 0.0)  # dialogs don't count
        self._frame = call_later_once(self.due(cost), self.app, self.paint)

    def paint(self) -> None:
        """Hand every widget its part of what changed, all in one update."""
        app, view, columns = self.app, self.view, self.app.columns
        changes, self._frame, self._last = view.take_changes(), None, self.clock()
        parts = changes.parts
        with app.batch_update():
            if self._older is not None:
                columns.look_back(view.items, self._older)
                self._older = None
            if changes.items:
                columns.transcript.show(view.items, changes.items)
            if changes.nodes:
                columns.progress.show(changes.nodes)
                columns.fit_in()
            if ViewPart.PLAN in parts:
                columns.show_plan(view.plan)
            if ViewPart.STATUS in parts:
                app.title_line.relayout()
                columns.transcript.refresh_greeting()
            if parts & (ViewPart.STATUS | ViewPart.PLAN):
                app.key_line.relayout()
            if parts & (ViewPart.STATUS | ViewPart.QUEUE):
                app.activity.relayout()
            self._paint_seconds = self.clock() - self._last
            if ViewPart.PENDING in parts:
                self._ask_next()
        if columns.transcript.holding:
            call_later_once(0.3, app, self._tick)
        if app.prompt.has_focus:
            app.cursor_position = app.prompt.cursor_screen_offset  # for input methods
        if self._second is not None:
            (self._second.resume if view.status.phase else self._second.pause)()

    def _tick(self) -> None:
        self.app.transcript.tick()
        self.app.columns.progress.tick()
        self.app.activity.say()
