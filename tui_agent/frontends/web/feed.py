"""The session's records as a browser gets them: masked once, numbered as they are journaled, kept for who comes late.

One follower takes them for all browsers, so all of them see the very same, and one that was away goes on behind the
last number it had (`Last-Event-ID`). Records of a reply that ended are told by its end; the oldest go when there are
too many.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast
from weakref import WeakSet

from msgspec import to_builtins

from tui_agent import events as e
from tui_agent.common.domain import Action, EditAction
from tui_agent.engine.api import SessionApi
from tui_agent.frontends.web.edits import Asked, bounded_text, left_out_count, with_exact_signs
from tui_agent.storage.lines import encode_json
from tui_agent.text import reveal, visible
from tui_agent.text.json_values import map_text
from tui_agent.view.redactor import Redactor

KEPT_BYTES = 24 << 20
"""How much is kept for browsers that come late."""
BATCH = 200
"""Frames that a browser is given before the event loop gets its turn."""
STICKY = frozenset(
    (
        e.SessionOpened.type,
        e.SessionTitled.type,
        e.ModeChanged.type,
        e.ModelChanged.type,
        e.PlanDocChanged.type,
        e.ContextMeasured.type,
    )
)
"""Of these the newest is never dropped: it tells how things stand."""
DROPPED = (e.StateSaved, e.UnknownEvent)
"""Nothing for people."""
CUT = "history.cut"
"""Name of the frame that tells that there was more."""


class EventFrame(NamedTuple):
    """One server-sent event."""

    name: str
    data: str
    """JSON."""
    id: int | None = None
    """Number of the record, on the last frame of it only: who has it has all of the record."""


class FeedEntry(NamedTuple):
    """What there is to send of one record."""

    seq: int
    frames: tuple[EventFrame, ...]
    size: int
    kind: str
    node: str = ""
    piece: bool = False
    """A part of a text that its end tells as a without_pieces."""

    def without_pieces(self, node: str) -> FeedEntry:
        """Without what was held back of a text, where this is its end."""
        return self._replace(frames=self.frames[-1:]) if self.matches(e.ReplyEnded.type, node) else self

    def matches(self, kind: str, node: str) -> bool:
        """Whether it is the one of this kind about this node."""
        return self.kind == kind and self.node == node


class Feed:
    """Follows a session as long as it is open. `run` is to be kept going by the server."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self._veil = Redactor(session.mask)
        self._entries: list[FeedEntry] = []
        self._size = 0
        self.cut = 0
        """Number of the last record that was dropped."""
        self._role_replies: set[str] = set()
        """Replies apart from the conversation that go on."""
        self._ended_replies: list[str] = []
        """Replies that ended, and whose pieces are still there."""
        self.ended = False
        """Nothing more comes."""
        self.last = 0
        """Number of the last record taken."""
        self.readers: WeakSet[Reader] = WeakSet()
        """Browsers that are being told at the moment."""
        self.requests: dict[str, Asked] = {}
        """What waits for an answer, exact, by its id."""
        self.document: e.PlanDocChanged | None = None
        """The plan document as it is saved, exact."""
        self.proposal: e.PlanDocChanged | None = None
        """What the agent proposes for it, exact."""

    async def run(self) -> None:
        """Take every record until the session is closed."""
        try:
            async for record in self._session.follow():
                self._add(record)
        finally:
            self.end()

    def end(self) -> None:
        """Tell no more; who listens is told what there is, and then that it was all."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for one in self.readers:
            one.changed.set()

    def action(self, id: str) -> Action | None:
        """What an open request for approval would do, exact."""
        asked = self.requests.get(id)
        return asked.action if isinstance(asked, e.ApprovalRequested) else None

    def behind(self, position: int) -> list[FeedEntry]:
        """The next entries behind a number."""
        begin = bisect_right(self._entries, position, key=lambda one: one.seq)
        return self._entries[begin : begin + BATCH]

    # --- taking ---

    def _add(self, record: e.Record) -> None:
        event = record.event
        self.last = record.seq
        self._track(record)
        if isinstance(event, DROPPED):
            return
        shown = [(one, self._frame(one)) for one in self._veil.records(record)]
        frames = [frame for one, frame in shown if not _is_empty(one.event)]
        if isinstance(event, e.RunEnded):
            frames.append(EventFrame("done", "{}"))
        if not frames:
            return
        frames[-1] = frames[-1]._replace(id=record.seq)
        piece = isinstance(event, e.TextDelta | e.ReasoningDelta | e.ReplyPhase)
        size = sum(len(frame.data) for frame in frames) + 200
        self._entries.append(FeedEntry(record.seq, tuple(frames), size, event.type, record.node, piece))
        self._size += size
        if isinstance(event, e.ReplyEnded):
            self._ended_replies.append(record.node)
        if isinstance(event, e.ReplyEnded | e.RunStarted | e.RunEnded):
            self._drop_pieces()
        if self._size > KEPT_BYTES:
            self._trim()
        self._wake()

    def _track(self, record: e.Record) -> None:
        match record.event:
            case e.ReplyStarted(role=role) if role:
                self._role_replies.add(record.node)
            case e.ReplyEnded():
                self._role_replies.discard(record.node)
            case e.ApprovalRequested() | e.PlanProposed() | e.SummaryProposed() | e.PlanDocConflict() as asked:
                self.requests[asked.id] = asked
            case (
                e.ApprovalAnswered(id=id) | e.PlanReviewed(id=id) | e.SummaryReviewed(id=id) | e.PlanDocResolved(id=id)
            ):
                self.requests.pop(id, None)
            case e.PlanDocChanged(pending=True) as proposal:
                self.proposal = proposal
            case e.PlanDocChanged() as document:
                self.document, self.proposal = document, None
            case e.SessionOpened():
                self.requests.clear()

    def _frame(self, record: e.Record) -> EventFrame:
        event = record.event
        place = {"at": record.at, "run": record.run, "node": record.node, "parent": record.parent}
        match event:
            case e.TextDelta(text=text) if record.node not in self._role_replies:
                return EventFrame("text", _json({"content": reveal(text), **place}))
            case e.ToolStarted(call=call, title=title, reads_only=reads_only, agent=agent):
                more = {"title": title, "reads_only": reads_only, "agent": agent}
                given = map_text({"name": call.name, "input": call.arguments, **more}, bounded_text)
                return EventFrame("tool", _json({**given, **place}))
        return EventFrame(event.type, _json({"seq": record.seq, **place, "data": self._data(event)}))

    def _data(self, event: e.Event) -> dict[str, Any]:
        data = e.to_data(event)
        match event:
            case e.ConversationRewound():
                data.pop("history")
            case e.ContextAttached():
                data["items"] = [{**item, "text": ""} for item in data["items"]]
            case e.PlanDocChanged(text=text):
                data["cut"] = left_out_count(text)
            case e.ToolFinished():
                data["result"] = {**data["result"], "data": None}
            case e.ApprovalRequested(id=id):
                exact = self.action(id)
                hides = exact is not None and exact != event.action
                if hides and isinstance(event.action, EditAction):
                    diff = with_exact_signs(event.action.diff, cast(EditAction, exact).diff)
                    data["action"]["diff"] = to_builtins(diff)
                return {**data, "action": displayable_action(data["action"]), "hides": hides}
        shown: dict[str, Any] = map_text(data, bounded_text)
        return shown

    def _drop_pieces(self) -> None:
        """The end of a reply tells all of it, to who was not there while it grew."""
        reached = min((one.position for one in self.readers), default=self.last)
        for node in tuple(self._ended_replies):
            at = len(self._entries)
            end = 0
            while at and not self._entries[at - 1].matches(e.ReplyStarted.type, node):
                at -= 1
                end = self._entries[at].seq if self._entries[at].matches(e.ReplyEnded.type, node) else end
            if end > reached:
                continue
            self._ended_replies.remove(node)
            tail = self._entries[at:]
            kept = [one.without_pieces(node) for one in tail if not (one.piece and one.node == node)]
            if at:
                self._size -= sum(one.size for one in tail) - sum(one.size for one in kept)
                self._entries[at:] = kept

    def _trim(self) -> None:
        newest = {one.kind: one.seq for one in self._entries if one.kind in STICKY}
        stay: list[FeedEntry] = []
        rest = iter(self._entries)
        for one in rest:
            if newest.get(one.kind) == one.seq:
                stay.append(one)
                continue
            self._size -= one.size
            self.cut = one.seq
            if self._size <= KEPT_BYTES // 2:
                break
        self._entries = [*stay, *rest]

    # --- telling ---

    def read(self, after: int = 0) -> Reader:
        """A browser that has everything up to number `after`."""
        return Reader(self, min(after, self.last))


class Reader:
    """One browser's place in the feed. From its making on it misses nothing, however slow it is."""

    def __init__(self, feed: Feed, position: int) -> None:
        self._feed = feed
        self.position = position
        self.changed = asyncio.Event()
        feed.readers.add(self)

    async def frames(self) -> AsyncIterator[EventFrame]:
        """Everything there is, then what comes; ends when the session is closed."""
        feed = self._feed
        try:
            if self.position < feed.cut:
                yield EventFrame(CUT, "{}")
            while True:
                self.changed.clear()
                batch = feed.behind(self.position)
                for one in batch:
                    for frame in one.frames:
                        yield frame
                    self.position = one.seq
                if batch:
                    await asyncio.sleep(0)
                elif feed.ended:
                    return
                else:
                    self.position = feed.last
                    await self.changed.wait()
        finally:
            feed.readers.discard(self)


def _is_empty(event: e.Event) -> bool:
    """A piece of which nothing may be seen yet."""
    return isinstance(event, e.TextDelta | e.ReasoningDelta | e.ToolOutput) and not event.text


def displayable_action(action: Any) -> Any:
    """An action as a dialog shows it: all of it, and nothing in it that would not be seen (A9)."""
    if isinstance(action, dict) and "diff" in action:
        diff = map_text(action["diff"], lambda line: visible(line.rstrip("\r\n"), lookalikes=False))
        return {**map_text({**action, "diff": None}, visible), "diff": diff}
    return map_text(action, visible)


def _json(data: dict[str, Any]) -> str:
    return encode_json(data).decode()
