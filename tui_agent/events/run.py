"""A run and its parts: stages, replies, tools, approvals, changes, the window."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from tui_agent.common.domain import Action, Answer, Diff, Fault, FileChange, Grant, ToolCall, ToolResult, Usage
from tui_agent.events.base import Event


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
    said: str | None = None
    """The model's own words in `text`, which may hold facts beside them; None where all of it may be its own."""
    iterations: int = 0
    tool_calls: int = 0
    ms: int = 0
    prompts: dict[str, str] = msgspec.field(default_factory=dict)
    """Name → version of the prompt texts that the run's requests were made of (H8)."""

    @property
    def facts(self) -> str:
        """`text` without the model's own words, which stand in its reply."""
        return self.text.removeprefix(self.said).strip() if self.said else self.text


class StageStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "stage.entered"
    stage: str
    title: str


class StageEnded(Event, frozen=True, kw_only=True):
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
    fresh: int | None = None
    """Of these, what the request before did not have, so that the server has to read it; None is unknown."""
    role: str = ""
    """What the model is asked for beside the conversation: `dispatcher`, `planning`, `summary`, …; empty in it."""
    purpose: str = ""
    """What the reply is for, where its role has several uses: `judging`, `diagnosing`, `replanning`, `mending`; empty
    for the one that gave the role its name."""


class ReplyPhase(Event, frozen=True, kw_only=True):
    """Where the reply stands."""

    type: ClassVar[str] = "reply.phase"
    phase: Literal["connecting", "loading", "reading", "thinking", "writing"]
    detail: str = ""
    """While call arguments stream in: the tool and the file they name."""
    done: int | None = None
    """Tokens of the prompt that the server has read, where it tells (E9)."""
    total: int | None = None


class TextDelta(Event, frozen=True, kw_only=True):
    """Settled text: clean, masked, without markup of calls. Gathered for at most 32 ms."""

    type: ClassVar[str] = "reply.text"
    text: str


class ReasoningDelta(Event, frozen=True, kw_only=True):
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
    role: str = ""
    """See ReplyStarted. With a role it is no part of the conversation."""
    interrupted: bool = False
    ms: int = 0


class RetryScheduled(Event, frozen=True, kw_only=True):
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
    agent: str = ""
    """Id of the `run_subagent` call whose sub-agent makes this one; empty for the agent's own (T5)."""


class ToolOutput(Event, frozen=True, kw_only=True):
    """Live output, bounded by the tool; colours only, all other control removed."""

    type: ClassVar[str] = "tool.output"
    text: str
    file: str = ""
    """With the first output of a command: where all of it is as long as the session is open, if it is long."""


class ToolFinished(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.finished"
    call_id: str
    name: str
    result: ToolResult
    text: str
    """What the model gets."""
    ms: int
    """Without the time spent waiting for the user."""
    agent: str = ""
    """See ToolStarted. With one it is no part of the conversation."""
    seen: dict[str, str] = msgspec.field(default_factory=dict)
    """Absolute path → sha256 of each file whose bytes the model knows since this call."""


class ApprovalRequested(Event, frozen=True, kw_only=True):
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
    """Of what was carried out."""
    action: Action | None = None
    """What was carried out, where the user took only parts of what was asked for, or changed it."""


class ApprovalVoided(Event, frozen=True, kw_only=True):
    """What was asked for can't be approved any more: the file became another one meanwhile (A9)."""

    type: ClassVar[str] = "approval.voided"
    id: str
    reason: str


class GrantRevoked(Event, frozen=True, kw_only=True):
    """The user took a standing leave back."""

    type: ClassVar[str] = "grant.revoked"
    grant: Grant


class QuestionAsked(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "question.asked"
    id: str
    question: str
    options: tuple[str, ...] = ()
    about: str = ""
    """Name of the text kept aside that the program asks about; empty for the model's questions."""


class QuestionAnswered(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "question.answered"
    id: str
    answer: Answer


class FileChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "file.changed"
    change: FileChange
    diff: Diff


class ContextMeasured(Event, frozen=True, kw_only=True):
    """What the window holds."""

    type: ClassVar[str] = "context.measured"
    used: int | None
    limit: int | None
    """The window in effect, in tokens."""
    estimated: bool = False
    parts: dict[str, int] = msgspec.field(default_factory=dict)
    """Tokens by part: `system`, `tools`, `messages`, `results`, `files` (H4)."""
    truncated: int = 0
    """How many tokens of the prompt the server read when it cut it without a word; 0 when it did not."""


class ContextCompacted(Event, frozen=True, kw_only=True):
    """Older parts of a run were replaced by a summary of them (H5). History folds this.

    What the user said stays word for word, and so does the newest plan; the journal keeps all.
    """

    type: ClassVar[str] = "context.compacted"
    summary: str
    """What the model gets in place of the messages that went; "" when none of the run's own went."""
    kept: int
    """How many of the run's newest messages stay as they are."""
    before: int
    """Tokens before, estimated."""
    after: int
    by: Literal["model", "program"] = "model"
    users: int = 0
    """How many of the user's messages stay in sight, counted from the newest; 0 leaves them as they are."""
    cut: int = 0
    """Characters to which longer results, replies and arguments among what stays were cut; 0 leaves them whole."""
    entries: int = 0
    """How many entries of the plan's log stay whole for the rest of the run (P5); 0 leaves them."""


class ReplyRejected(Event, frozen=True, kw_only=True):
    """A reply, or a call in it, that could not be used as it came (W16); what the model is told is `program.said`."""

    type: ClassVar[str] = "reply.rejected"
    kind: str
    """`unreadable`, `unknown_tool`, `bad_arguments`, `empty`, `thinking_only`, `truncated`, `duplicate`, `loop`,
    `degenerate`, `too_many`, `server`."""
    detail: str = ""
    attempt: int = 1
    raw: str = ""
    """Name of the file in the session folder that holds the raw reply, masked."""


class ProtocolChanged(Event, frozen=True, kw_only=True):
    """Tool calls are asked for in another form from now on (C1 to C3)."""

    type: ClassVar[str] = "protocol.changed"
    protocol: Literal["native", "json", "xml", "files"]
    why: str
    fixed: bool = False
    """models.json fixes it: a resume looks there again."""
