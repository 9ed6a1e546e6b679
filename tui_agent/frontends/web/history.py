"""Parts of a session for the page: the newest when it is opened, and earlier ones as the user scrolls up (X4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from tui_agent import events as e
from tui_agent.common.domain import Answer

FIRST_ITEMS = 40
"""Items of the transcript in the newest part: more than a screen, and painted in a moment."""
PART_ITEMS = 100
"""Items of the transcript in an earlier part."""
ITEMS_TO_MESSAGE = 60
"""Additional items to reach the message that they belong to."""
NO_RECORD = 1 << 53
PART_BYTES = 400_000
"""Bytes after which a part ends."""
ITEM_KINDS = frozenset(
    (
        e.UserMessageAdded.type,
        e.ReplyEnded.type,
        e.ToolStarted.type,
        e.Notice.type,
        e.UserShellCommand.type,
        e.RunEnded.type,
    )
)
"""Events that add an item."""
FIRST_KINDS = frozenset((e.UserMessageAdded.type, e.ReplyStarted.type, e.RunStarted.type, e.UserShellCommand.type))
"""Events that a part may begin with."""
STATE_EVENTS = frozenset(
    (
        e.SessionOpened.type,
        e.SessionTitled.type,
        e.ModeChanged.type,
        e.TrustChanged.type,
        e.SandboxChanged.type,
        e.ModelChanged.type,
        e.PlanDocChanged.type,
        e.ContextMeasured.type,
    )
)
"""Events whose newest record describes the current state: it is never dropped, and a page gets it first."""


class EventFrame(NamedTuple):
    """A server-sent event."""

    name: str
    data: str
    """JSON."""
    id: int | None = None
    """The record's number, on its last frame only: a browser that has it has the whole record."""


class FeedEntry(NamedTuple):
    """The frames of one record."""

    seq: int
    frames: tuple[EventFrame, ...]
    size: int
    kind: str
    node: str = ""
    is_piece: bool = False
    """A piece of a reply, which its end repeats."""
    clears: bool = False
    """The conversation is cleared: nothing before it is shown."""

    def matches(self, kind: str, node: str) -> bool:
        """Whether it is an event of this type and node."""
        return self.kind == kind and self.node == node


class HistoryPart(NamedTuple):
    """A part of the history."""

    frames: tuple[EventFrame, ...]
    start: int
    """Number of its first record; without any, above all numbers."""
    before: int
    """Number of its first record, if there are earlier ones; otherwise 0."""


def part_before(entries: Sequence[FeedEntry], before: int | None = None) -> HistoryPart:
    """The part that ends before the record number `before`, or at the end."""
    end = len(entries) if before is None else bisect_left(entries, before, key=lambda entry: entry.seq)
    start = _start(entries, end, FIRST_ITEMS if before is None else PART_ITEMS)
    if start < end and not entries[start].clears and not _has_items(entries, start):
        start = 0
    first = entries[start] if start < end else None
    is_first = first is None or not start or first.clears
    seq = NO_RECORD if first is None else first.seq
    return HistoryPart(tuple(_frames(entries[start:end])), seq, 0 if is_first else seq)


def _has_items(entries: Sequence[FeedEntry], end: int) -> bool:
    return any(entry.kind in ITEM_KINDS for entry in islice(entries, end))


def _start(entries: Sequence[FeedEntry], end: int, wanted: int) -> int:
    """Index of the first entry of a part of `wanted` items: a message if near, none before the last clearing."""
    items = size = 0
    candidate = end
    for index in range(end - 1, -1, -1):
        entry = entries[index]
        items += entry.kind in ITEM_KINDS
        size += 0 if entry.is_piece else entry.size
        if entry.clears:
            return index
        is_enough = items >= wanted or size >= PART_BYTES
        if entry.kind in FIRST_KINDS and (not is_enough or candidate == end):
            candidate = index
        if is_enough and entry.kind == e.UserMessageAdded.type:
            return index
        if items >= wanted + ITEMS_TO_MESSAGE or size >= 2 * PART_BYTES:
            return candidate if candidate < end else index
    return 0


def _frames(entries: Sequence[FeedEntry]) -> Iterable[EventFrame]:
    """The frames, without the pieces of replies whose end is among them."""
    ended = {entry.node for entry in entries if entry.kind == e.ReplyEnded.type}
    for entry in entries:
        if entry.kind == e.ReplyEnded.type:  # its other frames are pieces that the mask held back
            yield entry.frames[-1]
        elif not (entry.is_piece and entry.node in ended):
            yield from entry.frames


class Pinned:
    """Entries that describe the current state, and are sent even if they are older than the part that is shown."""

    def __init__(self) -> None:
        self._entries: dict[str, FeedEntry] = {}

    def entries_before(self, seq: int) -> list[FeedEntry]:
        """The pinned entries before the record `seq`, in order."""
        return sorted((entry for entry in self._entries.values() if entry.seq < seq), key=lambda entry: entry.seq)

    def add(self, event: e.Event, entry: FeedEntry) -> None:
        """Take note of an event: of a state, of something that waits for the user or runs, or of its end."""
        match event:
            case e.SessionOpened():
                self._drop("ask", "queued", *RUNNING)
            case (
                e.ApprovalAnswered(id=id)
                | e.QuestionAnswered(id=id)
                | e.PlanReviewed(id=id)
                | e.SummaryReviewed(id=id)
                | e.PlanDocResolved(id=id)
            ):
                self._drop(f"ask {id}")
            case e.UserMessageAdded(id=id) | e.MessageWithdrawn(id=id):
                self._drop(f"queued {id}")
            case e.RunEnded():
                self._drop(*RUNNING)
            case e.ToolFinished() | e.ReplyEnded():
                self._drop(f"call {entry.node}")
            case e.PlanDocChanged(pending=False):
                self._drop("proposal")
        if key := _key(event, entry.node):
            self._entries[key] = entry

    def _drop(self, *prefixes: str) -> None:
        for key in [key for key in self._entries if key.startswith(prefixes)]:
            del self._entries[key]


RUNNING = ("run", "call", "step", "plan")
"""Prefixes of what ends with a run."""


def _key(event: e.Event, node: str) -> str:
    """The name under which an entry is pinned; a later one takes its place. Empty: it is not pinned."""
    match event:
        case e.PlanDocChanged(pending=pending):
            return "proposal" if pending else "document"
        case e.PlanProposed(asks=False) | e.PlanReviewed(answer=Answer(verdict="approve")):
            return "plan"
        case (
            e.ApprovalRequested(id=id)
            | e.QuestionAsked(id=id)
            | e.PlanProposed(id=id)
            | e.SummaryProposed(id=id)
            | e.PlanDocConflict(id=id)
        ):
            return f"ask {id}"
        case e.ApprovalVoided(id=id):
            return f"ask {id} voided"
        case e.MessageQueued(id=id):
            return f"queued {id}"
        case e.MessageChanged(id=id):
            return f"queued {id} changed"
        case e.RunStarted():
            return "run"
        case e.ToolStarted() | e.ReplyStarted():
            return f"call {node}"
        case e.StepStarted() | e.StepFinished():
            return f"step {node} {event.type}"
    return f"state {event.type}" if event.type in STATE_EVENTS else ""
