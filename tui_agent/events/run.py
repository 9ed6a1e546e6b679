"""Events of a run: stages, replies, tools, approvals, changes, the context window."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from tui_agent.common.domain import Action, Answer, Diff, Fault, FileChange, Grant, Harm, ToolCall, ToolResult, Usage
from tui_agent.events.base import Event


def outcome_word(outcome: str) -> str:
    """Return the word that all surfaces show for the outcome of a run, a step or a call."""
    return "stopped" if outcome == "interrupted" else outcome


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
    """The closing reply, or the reason why it ended."""
    said: str | None = None
    """The part of `text` written by the model, if the program added facts; None if there is no such distinction."""
    iterations: int = 0
    tool_calls: int = 0
    ms: int = 0
    prompts: dict[str, str] = msgspec.field(default_factory=dict)
    """Name → version of the prompts in the run's requests (H8)."""

    @property
    def facts(self) -> str:
        """`text` without the model's own words, which are in its reply."""
        return self.text.removeprefix(self.said).strip() if self.said else self.text

    def ending(self, facts: str | None = None) -> str:
        """Return outcome and facts (by default its own) in words, such as `stopped by the user.`"""
        facts = self.facts if facts is None else facts
        word = outcome_word(self.outcome)
        rest = facts.removeprefix(self.outcome.capitalize())
        return f"{word}{rest}" if rest != facts else f"{word}: {facts}" if facts else f"{word}."


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
    """A request is sent to the model. The record's `node` is the reply's id."""

    type: ClassVar[str] = "reply.started"
    model: str
    iteration: int
    messages: int
    estimate: int
    """Estimated tokens of the request."""
    fresh: int | None = None
    """How many of them were not in the previous request, so the server has to read them; None if unknown."""
    role: str = ""
    """Role of a side request: `dispatcher`, `planning`, `summary`, …; empty for the conversation."""
    purpose: str = ""
    """Secondary use of the role: `judging`, `diagnosing`, `replanning`, `mending`; empty for its main use."""


class ReplyPhase(Event, frozen=True, kw_only=True):
    """The reply entered a phase, or made progress in it."""

    type: ClassVar[str] = "reply.phase"
    phase: Literal["connecting", "loading", "reading", "thinking", "writing"]
    detail: str = ""
    """While the arguments of a call arrive: its tool and file."""
    done: int | None = None
    """Tokens of the prompt that the server has read, if it reports them (E9)."""
    total: int | None = None


class TextDelta(Event, frozen=True, kw_only=True):
    """Visible text: cleaned, masked, without the markup of calls. Buffered for at most 32 ms."""

    type: ClassVar[str] = "reply.text"
    text: str


class ReasoningDelta(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "reply.thought"
    text: str


class ReplyEnded(Event, frozen=True, kw_only=True):
    """The reply is complete or was cut off. History consists of these events."""

    type: ClassVar[str] = "reply.ended"
    text: str
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    thought_ms: int = 0
    stop: str = ""
    """Why the model stopped: `stop`, `length`, `tool_calls` or `content_filter`; empty if unknown."""
    usage: Usage = Usage()
    fault: Fault | None = None
    """Why the reply failed; text and calls are what arrived before."""
    role: str = ""
    """See ReplyStarted. With a role it is not part of the conversation."""
    interrupted: bool = False
    ms: int = 0


class RetryScheduled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "retry.waiting"
    attempt: int
    of: int
    seconds: float
    why: str


class ToolStarted(Event, frozen=True, kw_only=True):
    """A call is executed. The record's `node` is the call's id."""

    type: ClassVar[str] = "tool.started"
    call: ToolCall
    title: str
    reads_only: bool
    agent: str = ""
    """Id of the `run_subagent` call whose sub-agent made this call; empty for the agent's own (T5)."""


class ToolOutput(Event, frozen=True, kw_only=True):
    """Live output, limited by the tool; control sequences other than colors are removed."""

    type: ClassVar[str] = "tool.output"
    text: str
    file: str = ""
    """In the first event of a command with long output: the file with all of it, which exists while the session is
    open."""


class ToolFinished(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.finished"
    call_id: str
    name: str
    result: ToolResult
    text: str
    """The result as text for the model."""
    ms: int
    """Without the time spent waiting for the user."""
    agent: str = ""
    """See ToolStarted. A sub-agent's call is not part of the conversation."""
    seen: dict[str, str] = msgspec.field(default_factory=dict)
    """Absolute path → sha256 of each file that the model has seen since this call."""


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """An action needs approval. The record's `node` is the call that waits for it."""

    type: ClassVar[str] = "approval.asked"
    id: str
    action: Action
    digest: str
    why: str
    """The rule that requires approval."""
    grants: tuple[Grant, ...] = ()
    """The grants that "for this session" and "always" would store."""
    harm: Harm | None = None
    """What a critical command would destroy; None for any other action."""


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    """An action was approved or rejected. For an automatic approval there is no request; `by` names the rule."""

    type: ClassVar[str] = "approval.answered"
    id: str
    answer: Answer
    digest: str = ""
    grant: Grant | None = None


class ApprovalExecuted(Event, frozen=True, kw_only=True):
    """The approved action was executed, once."""

    type: ClassVar[str] = "approval.executed"
    id: str
    digest: str
    """Digest of the executed action."""
    action: Action | None = None
    """The executed action, if the user approved only parts of the requested one or edited it."""


class ApprovalVoided(Event, frozen=True, kw_only=True):
    """A request can't be approved anymore, because the file has changed (A9)."""

    type: ClassVar[str] = "approval.voided"
    id: str
    reason: str


class GrantRevoked(Event, frozen=True, kw_only=True):
    """The user revoked a grant."""

    type: ClassVar[str] = "grant.revoked"
    grant: Grant


class QuestionAsked(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "question.asked"
    id: str
    question: str
    options: tuple[str, ...] = ()
    about: str = ""
    """Name of the saved copy that the program asks about; empty for the model's questions."""
    otherwise: str = ""
    """What the user does by not answering (`leaves the file unchanged`); if set, only the options are answers."""


class QuestionAnswered(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "question.answered"
    id: str
    answer: Answer


class FileChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "file.changed"
    change: FileChange
    diff: Diff


class ContextMeasured(Event, frozen=True, kw_only=True):
    """The content of the context window after a reply."""

    type: ClassVar[str] = "context.measured"
    used: int | None
    limit: int | None
    """The window in effect, in tokens."""
    estimated: bool = False
    parts: dict[str, int] = msgspec.field(default_factory=dict)
    """Tokens by part: `system`, `tools`, `messages`, `results`, `files` (H4)."""
    truncated: int = 0
    """Tokens that the server read of a prompt that it truncated; 0 if it did not truncate it."""


class ContextCompacted(Event, frozen=True, kw_only=True):
    """The history was compacted: older messages of the run were replaced by a summary (H5).

    User messages and the newest plan remain unchanged; the journal keeps everything.
    """

    type: ClassVar[str] = "context.compacted"
    summary: str
    """Replaces the run's older messages; empty if none were removed."""
    kept: int
    """How many of the run's newest messages remain unchanged."""
    before: int
    """Estimated tokens before."""
    after: int
    by: Literal["model", "program"] = "model"
    users: int = 0
    """How many of the newest user messages remain; 0 leaves all."""
    cut: int = 0
    """Characters to which longer results, replies and arguments were cut; 0 leaves them complete."""
    entries: int = 0
    """How many entries of the plan's log are complete for the rest of the run (P5); 0 changes nothing."""


class ReplyRejected(Event, frozen=True, kw_only=True):
    """A reply, or a call in it, was unusable (W16). The feedback for the model is a `program.said`."""

    type: ClassVar[str] = "reply.rejected"
    kind: str
    """One of `feedback.RejectionKind`."""
    detail: str = ""
    attempt: int = 1
    raw: str = ""
    """Name of the file in the session folder with the raw reply, masked."""


class ProtocolChanged(Event, frozen=True, kw_only=True):
    """Tool calls use another protocol from now on (C1 to C3)."""

    type: ClassVar[str] = "protocol.changed"
    protocol: Literal["native", "json", "xml", "files"]
    why: str
    fixed: bool = False
    """It is configured in models.json; a resumed session reads that again."""
