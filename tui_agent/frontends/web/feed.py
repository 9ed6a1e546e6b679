"""The session's records as browsers get them: masked once, numbered as in the journal, and retained for late readers.

One task follows the session for all browsers. A browser that reconnects continues after the last number it received
(`Last-Event-ID`). The pieces of a reply are dropped once it has ended, and the oldest records when there are too many.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from time import time
from typing import Any, cast
from weakref import WeakSet

from msgspec import to_builtins

from tui_agent import events as e
from tui_agent.common.domain import Action, EditAction, ReadAction, Scope
from tui_agent.engine.api import SessionApi
from tui_agent.events.grant_texts import grants_text
from tui_agent.events.narration import file_warning, harm_texts
from tui_agent.frontends.web.edits import EditableRequest, bounded_text, with_exact_signs
from tui_agent.frontends.web.history import STATE_EVENTS, EventFrame, FeedEntry, Pinned, part_before
from tui_agent.plan.markdown import parse
from tui_agent.plan.state import PlanState, plan_state
from tui_agent.storage.lines import encode_json
from tui_agent.text import make_visible
from tui_agent.text.json_values import map_strings
from tui_agent.view.redactor import Redactor

RETAINED_BYTES = 24 << 20
"""Size limit of the retained records."""
PLAN_STATE_MAX = 40_000
"""Characters of a plan document up to which it is read for its state: some milliseconds per 10,000."""
BATCH = 200
"""Entries sent to a browser before other tasks get their turn."""
INTERNAL_EVENTS = (e.StateSaved, e.UnknownEvent)
"""Events that are not sent."""
CUT = "history.cut"
"""Name of the frame that reports dropped records."""


class Feed:
    """Follows a session; `run` is the task that does it."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self._redactor = Redactor(session.mask, reveals=True)
        self._entries: list[FeedEntry] = []
        self._size = 0
        self.cut = 0
        """Number of the last dropped record."""
        self._role_replies: set[str] = set()
        """Nodes of running replies outside the conversation."""
        self._ended_replies: list[str] = []
        """Nodes of ended replies whose pieces are still retained."""
        self.ended = False
        self.last = 0
        """Number of the last record."""
        self.pinned = Pinned()
        self.caught_up = asyncio.Event()
        """Set once all records are there that the session had when it was first followed."""
        self.readers: WeakSet[Reader] = WeakSet()
        self.requests: dict[str, EditableRequest] = {}
        """Id → open request, unmasked."""
        self.document: e.PlanDocChanged | None = None
        """The saved plan document, unmasked."""
        self.proposal: e.PlanDocChanged | None = None
        """The pending proposal for it, unmasked."""

    async def run(self) -> None:
        """Process records until the session is closed."""
        earlier = self._session.last
        try:
            if not earlier:
                self.caught_up.set()
            async for record in self._session.follow():
                self._add(record)
                if record.seq >= earlier:
                    self.caught_up.set()
        finally:
            self.end()

    def end(self) -> None:
        """Let readers finish after the entries that are there."""
        self.ended = True
        self.caught_up.set()
        self._wake_readers()

    def _wake_readers(self) -> None:
        for reader in self.readers:
            reader.changed.set()

    def action(self, id: str) -> Action | None:
        """The exact action of an open approval request."""
        request = self.requests.get(id)
        return request.action if isinstance(request, e.ApprovalRequested) else None

    def read(self, after: int = 0) -> Reader:
        """A reader that continues after number `after`."""
        return Reader(self, min(after, self.last))

    def entries_after(self, position: int) -> list[FeedEntry]:
        """The next batch of entries after a number."""
        start = bisect_right(self._entries, position, key=lambda entry: entry.seq)
        return self._entries[start : start + BATCH]

    def history(self, before: int | None = None) -> bytes:
        """The newest part of the session, or the one before the record number `before`, as JSON.

        `state` has what is older than the newest part and still matters, `events` the part as [name, data], `before`
        the number to ask for the part before it (0: there is none), `cut` whether records before that were dropped.
        """
        part = part_before(self._entries, before)
        earlier = self.pinned.entries_before(part.start) if before is None else ()
        state = _encode_frames([frame for entry in earlier for frame in entry.frames])
        return (
            f'{{"state":{state},"events":{_encode_frames(part.frames)},"before":{part.before},'
            f'"last":{self.last},"cut":{"true" if self.cut else "false"}}}'
        ).encode()

    def _add(self, record: e.Record) -> None:
        event = record.event
        self.last = record.seq
        self._track(record)
        if isinstance(event, INTERNAL_EVENTS):
            return
        masked = self._redactor.records(record)
        frames = [frame for each in masked if (frame := self._frame(each)) is not None]
        if isinstance(event, e.RunEnded):
            frames.append(EventFrame("done", "{}"))
        if not frames:
            return
        frames[-1] = frames[-1]._replace(id=record.seq)
        is_piece = isinstance(event, e.TextDelta | e.ReasoningDelta | e.ReplyPhase)
        size = sum(len(frame.data) for frame in frames) + 200
        clears = isinstance(event, e.ConversationRewound) and event.cleared
        entry = FeedEntry(record.seq, tuple(frames), size, event.type, record.node, is_piece, clears)
        self._entries.append(entry)
        self.pinned.add(event, entry)
        self._size += size
        if isinstance(event, e.ReplyEnded):
            self._ended_replies.append(record.node)
        if isinstance(event, e.ReplyEnded | e.RunStarted | e.RunEnded):
            self._drop_pieces()
        if self._size > RETAINED_BYTES:
            self._drop_oldest()
        self._wake_readers()

    def _track(self, record: e.Record) -> None:
        match record.event:
            case e.ReplyStarted(role=role) if role:
                self._role_replies.add(record.node)
            case e.ReplyEnded():
                self._role_replies.discard(record.node)
            case e.ApprovalRequested() | e.PlanProposed() | e.SummaryProposed() | e.PlanDocConflict() as request:
                self.requests[request.id] = request
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

    def _frame(self, record: e.Record) -> EventFrame | None:
        """The frame of a masked record; None if there is no text to show yet."""
        event = record.event
        origin = {"seq": record.seq, "at": record.at, "run": record.run, "node": record.node, "parent": record.parent}
        match event:
            case e.TextDelta(text="") | e.ReasoningDelta(text="") | e.ToolOutput(text=""):
                return None
            case e.TextDelta(text=text) if record.node not in self._role_replies:
                return EventFrame("text", _encode({"content": text, **origin}))
            case e.ToolStarted(call=call, title=title, reads_only=reads_only, agent=agent):
                details = {"title": make_visible(title), "reads_only": reads_only, "agent": agent}
                data = map_strings({"name": call.name, "input": call.arguments, **details}, bounded_text)
                return EventFrame("tool", _encode({**data, **origin}))
        return EventFrame(event.type, _encode({**origin, "data": self._data(event)}))

    def _data(self, event: e.Event) -> dict[str, Any]:
        data = e.to_data(event)
        match event:
            case e.ReasoningDelta() | e.ToolOutput():
                return data
            case e.PlanDocChanged(pending=False, text=text) if len(text) <= PLAN_STATE_MAX:
                data["states"] = _plan_states(text)
            case e.ConversationRewound():
                data.pop("history")
            case e.ContextAttached():
                data["items"] = [{**item, "text": ""} for item in data["items"]]
            case e.ToolFinished():
                data["result"] = {**data["result"], "data": None}
            case e.ApprovalRequested(id=id):
                exact = self.action(id)
                hides = exact is not None and exact != event.action
                if hides and isinstance(event.action, EditAction):
                    diff = with_exact_signs(event.action.diff, cast(EditAction, exact).diff)
                    data["action"]["diff"] = to_builtins(diff)
                shown = {"action": displayable_action(data["action"]), "hides_secrets": hides, "rules": _rules(event)}
                return {**data, **shown, **_texts(event)}
        bounded: dict[str, Any] = map_strings(data, bounded_text)
        return bounded

    def _drop_pieces(self) -> None:
        """Drop the pieces of ended replies that all readers have passed; the end of a reply repeats its text."""
        reached = min((reader.position for reader in self.readers), default=self.last)
        for node in tuple(self._ended_replies):
            start = len(self._entries)
            end = 0
            while start and not self._entries[start - 1].matches(e.ReplyStarted.type, node):
                start -= 1
                end = self._entries[start].seq if self._entries[start].matches(e.ReplyEnded.type, node) else end
            if end > reached:
                continue
            self._ended_replies.remove(node)
            if not start:
                continue
            tail = self._entries[start:]
            retained = []
            for entry in tail:
                if entry.matches(e.ReplyEnded.type, node):  # its other frames are pieces that the mask held back
                    retained.append(entry._replace(frames=entry.frames[-1:]))
                elif not (entry.is_piece and entry.node == node):
                    retained.append(entry)
            self._size -= sum(entry.size for entry in tail) - sum(entry.size for entry in retained)
            self._entries[start:] = retained

    def _drop_oldest(self) -> None:
        newest = {entry.kind: entry.seq for entry in self._entries if entry.kind in STATE_EVENTS}
        retained: list[FeedEntry] = []
        entries = iter(self._entries)
        for entry in entries:
            if newest.get(entry.kind) == entry.seq:
                retained.append(entry)
                continue
            self._size -= entry.size
            self.cut = entry.seq
            if self._size <= RETAINED_BYTES // 2:
                break
        self._entries = [*retained, *entries]


def _plan_states(text: str) -> dict[str, PlanState]:
    """The state of the work on a plan document, as on the screen: while nothing runs, while a run or its plan does."""
    plan, now = parse(text).plan, time()
    return {
        "idle": plan_state(plan, now),
        "run": plan_state(plan, now, is_running=True),
        "steps": plan_state(plan, now, is_running=True, has_steps=True),
    }


class Reader:
    """One browser's position in the feed. From its creation on it misses nothing, however slow it is."""

    def __init__(self, feed: Feed, position: int) -> None:
        self._feed = feed
        self.position = position
        self.changed = asyncio.Event()
        feed.readers.add(self)

    async def frames(self) -> AsyncIterator[EventFrame]:
        """Yield the retained frames, then new ones, until the session is closed."""
        feed = self._feed
        try:
            if self.position < feed.cut:
                yield EventFrame(CUT, "{}")
            while True:
                self.changed.clear()
                batch = feed.entries_after(self.position)
                for entry in batch:
                    for frame in entry.frames:
                        yield frame
                    self.position = entry.seq
                if batch:
                    await asyncio.sleep(0)
                elif feed.ended:
                    return
                else:
                    self.position = feed.last
                    await self.changed.wait()
        finally:
            feed.readers.discard(self)


def displayable_action(action: Any) -> Any:
    """An action for a dialog, complete and with invisible characters made visible (A9)."""
    if isinstance(action, dict) and "diff" in action:
        diff = map_strings(action["diff"], lambda line: make_visible(line.rstrip("\r\n"), lookalikes=False))
        return {**map_strings({**action, "diff": None}, make_visible), "diff": diff}
    return map_strings(action, make_visible)


def _rules(event: e.ApprovalRequested) -> dict[str, str]:
    """Scope → what an approval with it allows from then on, as on the screen."""
    texts = {scope.value: grants_text(event.grants, event.action, scope) for scope in (Scope.SESSION, Scope.ALWAYS)}
    return {scope: text for scope, text in texts.items() if text}


def _texts(event: e.ApprovalRequested) -> dict[str, Any]:
    """What a critical command would destroy, and what is unusual about a file, in the words of the screen."""
    if isinstance(event.action, EditAction | ReadAction):
        return {"warning": file_warning(event.action, event.why)[0]}
    return {} if event.harm is None else {"harm_texts": [make_visible(text) for text in harm_texts(event.harm)]}


def _encode(data: dict[str, Any]) -> str:
    return encode_json(data).decode()


def _encode_frames(frames: Sequence[EventFrame]) -> str:
    return f"[{','.join(f'[{_encode_name(frame.name)},{frame.data}]' for frame in frames)}]"


def _encode_name(name: str) -> str:
    return encode_json(name).decode()
