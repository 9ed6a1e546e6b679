"""Folds records into the view and paints what changed, at most 30 times a second."""

from __future__ import annotations

from asyncio import Lock, TimerHandle, to_thread
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import fields
from time import monotonic
from typing import TYPE_CHECKING

from tui_agent.events import Event, Record, ReplyEnded, RunEnded
from tui_agent.tui.base_app import BaseApp
from tui_agent.view.fold import add_older, drop_older, fold_record
from tui_agent.view.items import SessionView, ViewPart
from tui_agent.view.redactor import Redactor
from widgets.request_view import call_later_once

if TYPE_CHECKING:
    from pathlib import Path

    from textual.timer import Timer

    from tui_agent.engine.api import SessionApi

FRAME = 1 / 30
"""Minimum seconds between paints (U1)."""
IDLE_FACTOR = 8
"""After a paint, the loop is free for at least this many times its duration: keys and the stream come first."""
MAX_PAUSE = 0.25
"""Maximum seconds between paints, however long they take."""
MAX_ITEMS, KEPT_ITEMS = 1_000, 500
"""Number of items above which the older ones are dropped, and how many are kept: memory is bounded."""


class Router:
    """Folds live and replayed records alike, and schedules paints."""

    def __init__(
        self, app: BaseApp, *, on_requests_changed: Callable[[], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self.app = app
        self.view = app.view
        self.clock = clock
        self._on_requests_changed = on_requests_changed
        self._replay_end = 0
        """Number of the last record of earlier processes."""
        self._painted_at = float("-inf")
        self._next_paint: TimerHandle | None = None
        self._second_timer: Timer | None = None
        self.redactor = Redactor()
        """Masks secrets in what is shown (A7)."""
        self._subscribers: dict[type[Event], list[Callable[[Record], None]]] = {}
        self._paint_seconds = 0.0
        """Duration of the last paint."""
        self._full_view: SessionView | None = None
        """While `view` shows only the end of a long journal: the view that is folded from its beginning."""
        self._replay_until = 0
        """Number of the last record that belongs to `_full_view`."""
        self._older_items: int | None = None
        """Number of items in front of those that are shown, until the transcript knows it."""
        self._reading_older = Lock()

    def start(self) -> None:
        """Start the timer that repaints elapsed times every second while something is going on."""
        self._second_timer = self.app.set_interval(1.0, self._tick, pause=True)

    async def open(self, session: SessionApi) -> None:
        """Prepare for the records of `session`; show the end of a long journal before `route` gets all of it (S3)."""
        self.redactor, self._replay_end = Redactor(session.mask), session.replay_end
        folder: Path | None = getattr(session, "folder", None)
        if folder is None or not session.replay_end:
            return
        from tui_agent.storage.journal import read_tail

        with suppress(OSError):  # reported when the journal is read in full
            for record in await to_thread(read_tail, folder / "events.jsonl", session.replay_end):
                fold_record(self.view, record, self.redactor)
        if self.dirty:
            self._full_view, self._replay_until = SessionView(), session.replay_end
            self.redactor = Redactor(session.mask)
            self._paint_soon()

    def subscribe(self, callback: Callable[[Record], None], *event_types: type[Event]) -> None:
        """Call `callback` with every record of these events, also replayed ones, after it is folded."""
        for event_type in event_types:
            self._subscribers.setdefault(event_type, []).append(callback)

    def route(self, record: Record) -> None:
        """Fold one record, call its subscribers, and schedule a paint; replayed records are painted all at once."""
        if self._full_view is not None and record.seq <= self._replay_until:
            fold_record(self._full_view, record, self.redactor)
            if len(self._full_view.items) > max(MAX_ITEMS, 2 * len(self.view.items)):
                drop_older(self._full_view, max(KEPT_ITEMS, len(self.view.items)))
        else:
            if self._full_view is not None:
                self._show_full_view(self._full_view)
            fold_record(self.view, record, self.redactor)
        for callback in self._subscribers.get(type(record.event), ()):
            callback(record)
        if record.seq >= self._replay_end:
            if self._next_paint is not None and isinstance(record.event, ReplyEnded | RunEnded):
                self._next_paint.cancel()
                self._next_paint = call_later_once(0.0, self.app, self.paint)  # the end is not kept waiting
            elif self._next_paint is None:
                self._paint_soon()

    def _show_full_view(self, full_view: SessionView) -> None:
        """Replace the end of the journal by all of it."""
        self._older_items, self._full_view = len(full_view.items) - len(self.view.items), None
        for field in fields(SessionView):
            setattr(self.view, field.name, getattr(full_view, field.name))
        self.view.changes.parts |= ViewPart.ALL

    async def read_older(self) -> None:
        """Read the items that were dropped from the journal, and give them to the transcript."""
        async with self._reading_older:
            session, view = self.app.session, self.view
            if session is None or not view.older:
                return
            full_view, redactor = SessionView(), Redactor(session.mask)
            with suppress(OSError):
                async with aclosing(session.follow()) as records:
                    async for record in records:
                        fold_record(full_view, record, redactor)
                        if full_view.seq >= view.seq:
                            break
            if added := add_older(view, full_view):
                self._older_items = added
                self.paint()
            else:
                self.app.hints.show("the older part of this session can't be read")

    @property
    def dirty(self) -> bool:
        """True while there are changes to paint."""
        return bool(self.view.changes)

    def seconds_until_paint(self, cost: float = 0.0) -> float:
        """Return the seconds to wait for the next paint, if the screen took `cost` seconds to render the last one."""
        pause = min(MAX_PAUSE, max(FRAME, IDLE_FACTOR * (self._paint_seconds + cost)))
        return max(0.0, self._painted_at + pause - self.clock())

    def _paint_soon(self) -> None:
        cost = getattr(self.app.screen, "cost", 0.0)  # dialogs don't count
        self._next_paint = call_later_once(self.seconds_until_paint(cost), self.app, self.paint)

    def paint(self) -> None:
        """Give each widget its part of what changed, in one batch."""
        app, view, columns = self.app, self.view, self.app.columns
        changes, self._next_paint, self._painted_at = view.take_changes(), None, self.clock()
        parts = changes.parts
        with app.batch_update():
            if self._older_items is not None:
                columns.load_older(view.items, self._older_items, complete=not view.older)
                self._older_items = None
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
            looks_back = not columns.may_drop or len(app.screen_stack) > 1
            if len(view.items) > MAX_ITEMS and not looks_back and (dropped := drop_older(view, KEPT_ITEMS)):
                columns.drop_older(dropped)
            self._paint_seconds = self.clock() - self._painted_at
            if ViewPart.PENDING in parts:
                self._on_requests_changed()
        if columns.transcript.holds_back:
            call_later_once(0.3, app, self._tick)
        if app.prompt.has_focus:
            app.cursor_position = app.prompt.cursor_screen_offset  # for input methods
        if self._second_timer is not None:
            (self._second_timer.resume if view.status.phase else self._second_timer.pause)()

    def _tick(self) -> None:
        self.app.transcript.tick()
        self.app.columns.progress.tick()
        self.app.activity.set_texts()
