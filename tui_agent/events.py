"""What can happen: the one stream that leaves the engine. Plain data, journaled before anyone sees it.

`events.jsonl` is this stream, and TUI, headless, web, log, export, statistics and resume are readers of it.
An event never carries a live object. Adding one: a frozen class here with its `noun.verb`, nothing else.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from tui_agent.domain import (
    Action,
    Answer,
    Diff,
    Fault,
    FileChange,
    Grant,
    ToolCall,
    ToolResult,
    Usage,
)

VERSION = 1
"""Schema version of a record."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events. `type` is the dotted name on disk."""

    type: ClassVar[str] = ""


# --- session ---------------------------------------------------------------------------------


class SessionOpened(Event, frozen=True, kw_only=True):
    """A process took the session into its hands: first start (`resumed` False) or resume."""

    type: ClassVar[str] = "session.opened"
    id: str
    version: str
    workspace: str
    roots: tuple[str, ...]
    provider: str
    model: str
    mode: str
    approval_mode: str
    trusted: bool
    resumed: bool = False
    question: str = ""
    """The opening question, the first line of chat_history.log."""


class SessionClosed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.closed"
    reason: str


class SessionRecovered(Event, frozen=True, kw_only=True):
    """What a start found after a crash (FAULTS 5.2)."""

    type: ClassVar[str] = "session.recovered"
    damaged: int = 0
    """Records that could not be read; they stay in the file."""
    offset: int | None = None
    size: int = 0
    sha256: str = ""
    interrupted: tuple[str, ...] = ()
    """Ids of tool calls that had begun and have no end: outcome unknown, never re-run."""
    void: tuple[str, ...] = ()
    """Ids of approvals that were open: void."""


class SessionTitled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.titled"
    title: str


class StateSaved(Event, frozen=True, kw_only=True):
    """Engine state, so that a resume need not read all records before it."""

    type: ClassVar[str] = "state.saved"
    state: dict[str, Any]


class ModeChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "mode.changed"
    mode: str
    approval_mode: str
    by: str = "user"


class ModelChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "model.changed"
    provider: str
    model: str
    context_window: int | None = None


class Notice(Event, frozen=True, kw_only=True):
    """A sentence for the user that belongs to no other event."""

    type: ClassVar[str] = "notice"
    level: Literal["info", "warning", "error"]
    text: str
    code: str = ""
    """Stable name, such as `context.small` or `models.bad`."""


# --- the user --------------------------------------------------------------------------------


class UserSaid(Event, frozen=True, kw_only=True):
    """A message reached the conversation."""

    type: ClassVar[str] = "user.said"
    id: str
    text: str
    steering: bool = False
    """Given to a run that was already going on."""


class MessageQueued(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.queued"
    id: str
    text: str
    steering: bool = False


class MessageChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.changed"
    id: str
    text: str


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.withdrawn"
    id: str


class ProgramSaid(Event, frozen=True, kw_only=True):
    """The program tells the model something in the user's role: feedback, packets, context (W15, W16).

    Journaled so that a resumed session sends what it would have sent; never counted as a user message.
    """

    type: ClassVar[str] = "program.said"
    kind: str
    """Which tag wraps it: `feedback`, `control`, …"""
    text: str


class ShellRan(Event, frozen=True, kw_only=True):
    """A `!command` of the user's own."""

    type: ClassVar[str] = "shell.ran"
    command: str
    cwd: str
    output: str
    exit_code: int | None


# --- a run and its parts ---------------------------------------------------------------------


class RunStarted(Event, frozen=True, kw_only=True):
    """Work on one user message began. The record's `run` is the run's id."""

    type: ClassVar[str] = "run.started"
    message_id: str
    mode: str
    model: str


class RunEnded(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "run.ended"
    outcome: Literal["done", "failed", "interrupted", "limit", "refused", "unreachable"]
    text: str = ""
    """The closing reply, or why it ended so."""
    iterations: int = 0
    tool_calls: int = 0
    ms: int = 0


class StageEntered(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "stage.entered"
    stage: str
    title: str


class StageLeft(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "stage.left"
    stage: str
    outcome: str
    ms: int


class ReplyStarted(Event, frozen=True, kw_only=True):
    """A request goes to the model. The record's `node` is the reply's id."""

    type: ClassVar[str] = "reply.started"
    model: str
    iteration: int
    messages: int
    estimate: int
    """Tokens that the request is thought to hold."""


class ReplyPhase(Event, frozen=True, kw_only=True):
    """Where the reply stands (R15.1)."""

    type: ClassVar[str] = "reply.phase"
    phase: Literal["connecting", "loading", "reading", "thinking", "writing"]
    detail: str = ""
    """While call arguments stream in: the tool and the file they name."""


class ReplyText(Event, frozen=True, kw_only=True):
    """Settled text: clean, masked, without markup of calls. Gathered for at most 32 ms."""

    type: ClassVar[str] = "reply.text"
    text: str


class ReplyThought(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "reply.thought"
    text: str


class ReplyEnded(Event, frozen=True, kw_only=True):
    """The reply is complete, or as complete as it will be. This is what history is made of."""

    type: ClassVar[str] = "reply.ended"
    text: str
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    thought_ms: int = 0
    stop: str = ""
    """Why the model stopped: `stop`, `length`, `tool_calls`, `content_filter`, `` unknown."""
    usage: Usage = Usage()
    fault: Fault | None = None
    """Set when the reply ended badly; text and calls hold what came before."""
    interrupted: bool = False
    ms: int = 0


class RetryWaiting(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "retry.waiting"
    attempt: int
    of: int
    seconds: float
    why: str


class ToolStarted(Event, frozen=True, kw_only=True):
    """A call is being carried out. The record's `node` is the call's id."""

    type: ClassVar[str] = "tool.started"
    call: ToolCall
    title: str
    reads_only: bool


class ToolOutput(Event, frozen=True, kw_only=True):
    """Live output, bounded by the tool; colours only, all other control removed."""

    type: ClassVar[str] = "tool.output"
    text: str


class ToolFinished(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.finished"
    call_id: str
    name: str
    result: ToolResult
    text: str
    """What the model gets."""
    ms: int
    """Without the time spent waiting for the user."""


class ApprovalAsked(Event, frozen=True, kw_only=True):
    """Somebody must decide. The record's `node` is the call that waits."""

    type: ClassVar[str] = "approval.asked"
    id: str
    action: Action
    digest: str
    why: str
    """The rule that asks."""
    grants: tuple[Grant, ...] = ()
    """The exact rules that "for this session" and "always" would store."""


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    """Settled. An automatic approval has this event too, without a question before it; `by` names the rule."""

    type: ClassVar[str] = "approval.answered"
    id: str
    answer: Answer
    digest: str = ""
    grant: Grant | None = None


class ApprovalExecuted(Event, frozen=True, kw_only=True):
    """The approved bytes were carried out, once."""

    type: ClassVar[str] = "approval.executed"
    id: str
    digest: str


class QuestionAsked(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "question.asked"
    id: str
    question: str
    options: tuple[str, ...] = ()


class QuestionAnswered(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "question.answered"
    id: str
    answer: Answer


class FileChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "file.changed"
    change: FileChange
    diff: Diff


class ContextMeasured(Event, frozen=True, kw_only=True):
    """What the window holds (R22.1)."""

    type: ClassVar[str] = "context.measured"
    used: int | None
    limit: int | None
    estimated: bool = False


class Unknown(Event, frozen=True, kw_only=True):
    """A record of a newer schema: kept, counted, shown, never dropped (A30)."""

    type: ClassVar[str] = "unknown"
    name: str
    raw: dict[str, Any]


def _table() -> dict[str, type[Event]]:
    return {cls.type: cls for cls in Event.__subclasses__() if cls is not Unknown}


TABLE: dict[str, type[Event]] = _table()
"""Dotted name → class."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its envelope: its place in the stream and in the progress tree."""

    seq: int
    """1, 2, 3 … without gaps within a session."""
    at: str
    """ISO 8601 with milliseconds and offset."""
    event: Event
    run: str = ""
    node: str = ""
    """The thing this event is about: a reply, a call, a stage."""
    parent: str = ""
    """The node above it in the progress tree (run > stage > step > reply or call > sub-agent)."""


def to_data(event: Event) -> dict[str, Any]:
    """The event's fields as plain JSON-able data."""
    if isinstance(event, Unknown):
        return event.raw
    data: dict[str, Any] = msgspec.to_builtins(event)
    return data


def from_data(name: str, data: dict[str, Any], version: int = VERSION) -> Event:
    """The event `name` from its data; `Unknown` for a name, version or shape that this program does not know."""
    cls = TABLE.get(name)
    if cls is None or version > VERSION:
        return Unknown(name=name, raw=data)
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError:
        return Unknown(name=name, raw=data)
