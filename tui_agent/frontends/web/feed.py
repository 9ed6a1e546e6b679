"""The session's records as a browser gets them: masked once, numbered as they are journaled, kept for who comes late.

One follower takes them for all browsers, so all of them see the very same, and one that was away goes on behind the
last number it had (`Last-Event-ID`). Records of a reply that ended are told by its end; the oldest go when there are
too many.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, cast
from weakref import WeakSet

from msgspec import to_builtins

from tui_agent import events as e
from tui_agent.domain import Editing
from tui_agent.frontends.web.covered import bounded, left_out
from tui_agent.frontends.web.door import WebDoor
from tui_agent.frontends.web.edits import Asked
from tui_agent.frontends.web.parts import signed
from tui_agent.storage.lines import encode
from tui_agent.text import reveal, visible
from tui_agent.view import Veil

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
DROPPED = (e.StateSaved, e.Unknown)
"""Nothing for people."""
CUT = "history.cut"
"""Name of the frame that tells that there was more."""


class Frame(NamedTuple):
    """One server-sent event."""

    name: str
    data: str
    """JSON."""
    id: int | None = None
    """Number of the record, on the last frame of it only: who has it has all of the record."""


class Entry(NamedTuple):
    """What there is to send of one record."""

    seq: int
    frames: tuple[Frame, ...]
    size: int
    kind: str
    node: str = ""
    piece: bool = False
    """A part of a text that its end tells as a whole."""

    def whole(self, node: str) -> Entry:
        """Without what was held back of a text, where this is its end."""
        return self._replace(frames=self.frames[-1:]) if self.is_(e.ReplyEnded.type, node) else self

    def is_(self, kind: str, node: str) -> bool:
        """Whether it is the one of this kind about this node."""
        return self.kind == kind and self.node == node


class Feed:
    """Follows a session as long as it is open. `run` is to be kept going by the server."""

    def __init__(self, door: WebDoor) -> None:
        self._door = door
        self._veil = Veil(door.mask)
        self._entries: list[Entry] = []
        self._size = 0
        self.cut = 0
        """Number of the last record that was dropped."""
        self._aside: set[str] = set()
        """Replies apart from the conversation that go on."""
        self._told: list[str] = []
        """Replies that ended, and whose pieces are still there."""
        self.ended = False
        """Nothing more comes."""
        self.last = 0
        """Number of the last record taken."""
        self.readers: WeakSet[Reader] = WeakSet()
        """Browsers that are being told at the moment."""
        self.requests: dict[str, e.ApprovalAsked] = {}
        """Open requests for leave, exact."""
        self._offers: dict[str, Asked] = {}
        """Plans, summaries and conflicts that wait, exact."""
        self.document: e.PlanDocChanged | None = None
        """The plan document as it is saved, exact."""
        self.proposal: e.PlanDocChanged | None = None
        """What the agent proposes for it, exact."""

    async def run(self) -> None:
        """Take every record until the session is closed."""
        try:
            async for record in self._door.follow():
                self._take(record)
        finally:
            self.end()

    def end(self) -> None:
        """Tell no more; who listens is told what there is, and then that it was all."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for one in self.readers:
            one.changed.set()

    def asked(self, id: str) -> Asked | None:
        """What waits for an answer under this id, exact."""
        return self.requests.get(id) or self._offers.get(id)

    def behind(self, position: int) -> list[Entry]:
        """The next entries behind a number."""
        begin = bisect_right(self._entries, position, key=lambda one: one.seq)
        return self._entries[begin : begin + BATCH]

    # --- taking ---

    def _take(self, record: e.Record) -> None:
        event = record.event
        self.last = record.seq
        self._note(record)
        if isinstance(event, DROPPED):
            return
        shown = [(one, self._frame(one)) for one in self._veil.records(record)]
        frames = [frame for one, frame in shown if not _is_empty(one.event)]
        if isinstance(event, e.RunEnded):
            frames.append(Frame("done", "{}"))
        if not frames:
            return
        frames[-1] = frames[-1]._replace(id=record.seq)
        piece = isinstance(event, e.ReplyText | e.ReplyThought | e.ReplyPhase)
        size = sum(len(frame.data) for frame in frames) + 200
        self._entries.append(Entry(record.seq, tuple(frames), size, event.type, record.node, piece))
        self._size += size
        if isinstance(event, e.ReplyEnded):
            self._told.append(record.node)
        if isinstance(event, e.ReplyEnded | e.RunStarted | e.RunEnded):
            self._drop_pieces()
        if self._size > KEPT_BYTES:
            self._trim()
        self._wake()

    def _note(self, record: e.Record) -> None:
        match record.event:
            case e.ReplyStarted(role=role) if role:
                self._aside.add(record.node)
            case e.ReplyEnded():
                self._aside.discard(record.node)
            case e.ApprovalAsked() as asked:
                self.requests[asked.id] = asked
            case e.ApprovalAnswered(id=id):
                self.requests.pop(id, None)
            case e.PlanProposed() | e.SummaryOffered() | e.PlanDocConflict() as offer:
                self._offers[offer.id] = offer
            case e.PlanReviewed(id=id) | e.SummarySettled(id=id) | e.PlanDocSettled(id=id):
                self._offers.pop(id, None)
            case e.PlanDocChanged(pending=True) as proposal:
                self.proposal = proposal
            case e.PlanDocChanged() as document:
                self.document, self.proposal = document, None
            case e.SessionOpened():
                self.requests.clear()
                self._offers.clear()

    def _frame(self, record: e.Record) -> Frame:
        event = record.event
        place = {"at": record.at, "run": record.run, "node": record.node, "parent": record.parent}
        match event:
            case e.ReplyText(text=text) if record.node not in self._aside:
                return Frame("text", _json({"content": reveal(text), **place}))
            case e.ToolStarted(call=call, title=title, reads_only=reads_only, agent=agent):
                more = {"title": title, "reads_only": reads_only, "agent": agent}
                given = told({"name": call.name, "input": call.arguments, **more}, bounded)
                return Frame("tool", _json({**given, **place}))
        return Frame(event.type, _json({"seq": record.seq, **place, "data": self._data(event)}))

    def _data(self, event: e.Event) -> dict[str, Any]:
        data = e.to_data(event)
        match event:
            case e.ConversationRewound():
                data.pop("history")
            case e.ContextAttached():
                data["items"] = [{**item, "text": ""} for item in data["items"]]
            case e.PlanDocChanged(text=text):
                data["cut"] = left_out(text)
            case e.ToolFinished():
                data["result"] = {**data["result"], "data": None}
            case e.ApprovalAsked(id=id):
                asked = self.requests.get(id)
                hides = asked is not None and asked.action != event.action
                if asked is not None and hides and isinstance(event.action, Editing):
                    diff = signed(event.action.diff, cast(Editing, asked.action).diff)
                    data["action"]["diff"] = to_builtins(diff)
                return {**data, "action": decisive(data["action"]), "hides": hides}
        shown: dict[str, Any] = told(data, bounded)
        return shown

    def _drop_pieces(self) -> None:
        """The end of a reply tells all of it, to who was not there while it grew."""
        reached = min((one.position for one in self.readers), default=self.last)
        for node in tuple(self._told):
            at = len(self._entries)
            end = 0
            while at and not self._entries[at - 1].is_(e.ReplyStarted.type, node):
                at -= 1
                end = self._entries[at].seq if self._entries[at].is_(e.ReplyEnded.type, node) else end
            if end > reached:
                continue
            self._told.remove(node)
            tail = self._entries[at:]
            kept = [one.whole(node) for one in tail if not (one.piece and one.node == node)]
            if at:
                self._size -= sum(one.size for one in tail) - sum(one.size for one in kept)
                self._entries[at:] = kept

    def _trim(self) -> None:
        newest = {one.kind: one.seq for one in self._entries if one.kind in STICKY}
        stay: list[Entry] = []
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

    async def frames(self) -> AsyncIterator[Frame]:
        """Everything there is, then what comes; ends when the session is closed."""
        feed = self._feed
        try:
            if self.position < feed.cut:
                yield Frame(CUT, "{}")
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
    return isinstance(event, e.ReplyText | e.ReplyThought | e.ToolOutput) and not event.text


def told(value: Any, show: Callable[[str], str]) -> Any:
    """Plain data with every text as `show` makes it."""
    if isinstance(value, str):
        return show(value)
    if isinstance(value, dict):
        return {key: told(one, show) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [told(one, show) for one in value]
    return value


def decisive(action: Any) -> Any:
    """An action as a dialog shows it: all of it, and nothing in it that would not be seen (A9, R-17)."""
    if isinstance(action, dict) and "diff" in action:
        diff = told(action["diff"], lambda line: visible(line.rstrip("\r\n"), lookalikes=False))
        return {**told({**action, "diff": None}, visible), "diff": diff}
    return told(action, visible)


def _json(data: dict[str, Any]) -> str:
    return encode(data).decode()
