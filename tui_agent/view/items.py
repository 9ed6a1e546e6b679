"""What a screen shows of one session: items in a transcript, a status, what waits. Only `fold` changes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
from tui_agent.symbols import Diagnostic
from tui_agent.view.nodes import Tree
from tui_agent.view.texts import Growing, Tail
from tui_agent.workplan import InstructionPlan, PlanStep, Summary


@dataclass(slots=True)
class UserItem:
    """What the user said."""

    id: str
    text: str
    steering: bool = False


@dataclass(slots=True)
class Retry:
    """The server is asked again."""

    attempt: int
    of: int
    why: str
    until: float
    """When, in seconds since the epoch."""
    over: bool = False


@dataclass(slots=True)
class Rejected:
    """Why a reply, or a call in it, could not be used (W16)."""

    kind: str
    detail: str = ""
    attempt: int = 1
    raw: str = ""
    """Name of the file in the session folder that holds it."""


@dataclass(slots=True)
class ReplyItem:
    """One reply of the model, while it grows and afterwards."""

    id: str
    text: Growing = field(default_factory=Growing)
    thought: Growing = field(default_factory=Growing)
    began: float | None = None
    """When the first text came, in seconds since the epoch; None again once the reply has ended."""
    size: int = 0
    """Tokens of the request: estimated, until the server tells."""
    fresh: int | None = None
    """Of these, what the server has to read, as far as is known."""
    read: int | None = None
    """Of these, what the server has read; None where it does not tell (E9)."""
    read_at: float = 0.0
    """When it said so, in seconds since the epoch."""
    thinking_since: float | None = None
    """Set while the model thinks."""
    thought_ms: int = 0
    retry: Retry | None = None
    ended: bool = False
    calls: int = 0
    stop: str = ""
    fault: Fault | None = None
    interrupted: bool = False
    usage: Usage = field(default_factory=Usage)
    ms: int = 0
    role: str = ""
    """What the model was asked for beside the conversation; such a reply shows no text."""
    does: str = ""
    """What such a reply is for, in words; empty in the conversation."""
    rejected: str = ""
    """Why nothing of it could be used, as in `reply.rejected`; empty if that is not so."""
    agent: str = ""
    """Id of the call whose sub-agent says it; empty for the agent's own (T5)."""


@dataclass(slots=True)
class Dispute:
    """One place of the plan document that two sides changed, each in another way."""

    where: str
    ours: str
    """What the agent wants to write."""
    theirs: str
    """What the file says."""


@dataclass(slots=True)
class Proposal:
    """A plan for the request, and what became of it (W2, W5)."""

    plan: InstructionPlan
    asks: bool = False
    why: str = ""
    depth: str = ""
    cached: bool = False
    fallback: bool = False
    recovery: bool = False
    faults: tuple[str, ...] = ()
    ms: int = 0
    taken: InstructionPlan | None = None
    """What is carried out; None until it was reviewed."""
    edited: bool = False
    alternative: int | None = None


@dataclass(slots=True)
class Offer:
    """A summary of the run, and what became of it (W9)."""

    summary: Summary
    by: str = "model"
    outcome: str = ""
    """`accepted`, `edited`, `discarded`, `pending`; empty while it waits."""
    taken: Summary | None = None


@dataclass(slots=True)
class RequestItem:
    """Something that somebody must decide, or a rule decided."""

    id: str
    node: str = ""
    action: Action | None = None
    """None for a question. As it may be seen: with `⟨secret NAME, 40 characters⟩` for each secret (A7)."""
    digest: str = ""
    why: str = ""
    grants: tuple[Grant, ...] = ()
    question: str = ""
    options: tuple[str, ...] = ()
    dispute: Dispute | None = None
    proposal: Proposal | None = None
    offer: Offer | None = None
    answer: Answer | None = None
    grant: Grant | None = None
    executed: bool = False
    exact: Action | None = None
    """What will really be done, and what the answer is bound to; to be shown only when the user asks for it."""
    void: str = ""
    """Why it can't be approved any more, while it waits; empty as long as it can."""

    @property
    def hides(self) -> bool:
        """Whether `action` shows less than what will be done: then a key reveals `exact`."""
        return self.exact is not None and self.exact != self.action


ToolStatus: TypeAlias = Literal["running", "ok", "failed", "refused", "interrupted"]


@dataclass(slots=True)
class ToolItem:
    """One tool call and all that belongs to it."""

    id: str
    call: ToolCall
    title: str = ""
    reads_only: bool = False
    status: ToolStatus = "running"
    began: float = 0.0
    ms: int = 0
    output: Tail = field(default_factory=Tail)
    result: ToolResult | None = None
    text: str = ""
    """What the model got, at most `TAIL` characters."""
    file: str = ""
    """Where all of the output may be, while the session is open."""
    changes: list[FileChange] = field(default_factory=list)
    diffs: list[Diff] = field(default_factory=list)
    wrong: list[Diagnostic] = field(default_factory=list)
    """Errors that a language server found in what was written (T4)."""
    requests: list[RequestItem] = field(default_factory=list)
    agent: str = ""
    """Id of the call whose sub-agent makes this one; empty for the agent's own (T5)."""


@dataclass(slots=True)
class Verdict:
    """What a step should have come to and what it did (W7)."""

    met: bool
    expected: str
    actual: str
    by: str
    command: str = ""
    ms: int = 0


@dataclass(slots=True)
class Recovering:
    """Something else that was tried after a failure."""

    by: str
    """`fallback` or `recovery`."""
    error_class: str = ""
    cause: str = ""
    strategy: str = ""
    after: int = 0
    """How many verdicts there were before."""


StepOutcome: TypeAlias = Literal["", "done", "failed", "skipped", "interrupted"]


@dataclass(slots=True)
class StepItem:
    """A step of the plan, or with number 0 its check, while it goes on and afterwards."""

    id: str
    step: PlanStep
    of: int
    outcome: StepOutcome = ""
    text: str = ""
    verdicts: list[Verdict] = field(default_factory=list)
    recoveries: list[Recovering] = field(default_factory=list)
    iterations: int = 0
    ms: int = 0


@dataclass(slots=True)
class NoticeItem:
    """A sentence for the user."""

    level: Literal["info", "warning", "error"]
    text: str
    code: str = ""
    more: str = ""
    """What stands behind it: shown when the notice is unfolded."""


@dataclass(slots=True)
class ShellItem:
    """A `!command` of the user's own."""

    command: str
    cwd: str
    output: str
    exit_code: int | None


@dataclass(slots=True)
class EndItem:
    """How a run ended."""

    outcome: str
    text: str
    """Empty when `told`."""
    iterations: int
    tool_calls: int
    ms: int
    told: bool = False
    """The last reply already says it."""


Item: TypeAlias = UserItem | ReplyItem | ToolItem | RequestItem | StepItem | NoticeItem | ShellItem | EndItem


@dataclass(slots=True)
class Queued:
    """A message that waits for its turn."""

    id: str
    text: str
    steering: bool = False


@dataclass(slots=True)
class PlanSight:
    """The plan document as text; whoever shows it reads it."""

    text: str = ""
    exact: str = ""
    """With its secrets: what an edit starts from; empty when the view is unveiled."""
    by: str = ""
    """Who wrote it last, as in `plan_doc.changed`; empty when there is none."""
    proposal: str | None = None
    """What the model proposes to make of `ground`; not written yet (P6)."""
    ground: str = ""
    """The text that was there when the proposal came."""


@dataclass(slots=True)
class Status:
    """What goes on at the moment (U9). `phase` is empty when nothing does."""

    phase: str = ""
    detail: str = ""
    since: float = 0.0
    """When the phase began, in seconds since the epoch."""


@dataclass(slots=True)
class SessionView:
    """All that a screen of one session can show. Only `fold` changes it."""

    seq: int = 0
    id: str = ""
    title: str = ""
    question: str = ""
    workspace: str = ""
    version: str = ""
    provider: str = ""
    model: str = ""
    roles: dict[str, str] = field(default_factory=dict)
    """Models that the user chose for single roles, by role."""
    mode: str = ""
    approval_mode: str = ""
    trusted: bool = False
    sandbox: str = ""
    """As in `session.opened`."""
    closed: str = ""
    """Why the session was closed; empty while it is open."""
    context_used: int | None = None
    context_limit: int | None = None
    context_estimated: bool = False
    context_parts: dict[str, int] = field(default_factory=dict)
    """Tokens by part, as in `context.measured`."""
    usage: Usage = field(default_factory=Usage)
    """What the server said of the newest reply of the agent's own."""
    reading_rate: float | None = None
    """Tokens of a prompt that the server reads in a second."""
    truncated: int = 0
    """Tokens that the server read of a prompt that it cut in this run; 0 if it cut none."""
    strategy: str = "native"
    """How the model is asked for its work (E4)."""
    strategy_why: str = ""
    """Why that one; empty where it is the usual one."""
    rejected: Rejected | None = None
    """What the next notice about a reply tells of."""
    items: list[Item] = field(default_factory=list)
    pending: dict[str, RequestItem] = field(default_factory=dict)
    queue: list[Queued] = field(default_factory=list)
    status: Status = field(default_factory=Status)
    run: str = ""
    """Id of the run that goes on."""
    stage: str = ""
    unknown: int = 0
    """Records of a newer program."""
    reply: ReplyItem | None = None
    """The reply that is being written."""
    asides: dict[str, ReplyItem] = field(default_factory=dict)
    """Replies of sub-agents that are being written, by id."""
    reply_phase: tuple[str, str] = ("", "")
    running: dict[str, ToolItem] = field(default_factory=dict)
    requests: dict[str, RequestItem] = field(default_factory=dict)
    step: StepItem | None = None
    """The newest step of the plan."""
    tree: Tree = field(default_factory=Tree)
    plan: PlanSight = field(default_factory=PlanSight)
    places: dict[str, int] = field(default_factory=dict)
    """Id of a reply, call or request → place in `items`."""

    @property
    def busy(self) -> bool:
        """True while a run goes on."""
        return bool(self.run)
