"""The view of one session: items, progress tree, status, pending requests. Only `fold_record` changes it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Literal, TypeAlias

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Action, Answer, Diff, Fault, FileChange, Grant, Harm, ToolCall, ToolResult, Usage
from tui_agent.common.symbols import Diagnostic
from tui_agent.common.workplan import PlanStep

TAIL = 64_000
"""Maximum characters of output in a card; the log has all of it."""


class GrowingText:
    """Text that is appended to in constant time and joined only when it is read."""

    __slots__ = ("chunks", "size")

    def __init__(self, text: str = "") -> None:
        self.chunks: list[str] = [text] if text else []
        self.size = len(text)

    def add(self, text: str) -> None:
        """Append `text`."""
        self.chunks.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """The whole text."""
        if len(self.chunks) > 1:
            self.chunks = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""

    def text_after(self, offset: int) -> str:
        """Return the text after the first `offset` characters, in time proportional to its length."""
        missing, parts = self.size - offset, []
        for chunk in reversed(self.chunks):
            if missing <= 0:
                break
            parts.append(chunk[-missing:] if missing < len(chunk) else chunk)
            missing -= len(chunk)
        return "".join(reversed(parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrowingText) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]  # mutable, so not a key

    def __repr__(self) -> str:
        return f"GrowingText({self.text!r})"


class OutputTail:
    """The last `TAIL` characters of live output, and the number of all lines."""

    __slots__ = ("_chunks", "_size", "lines")

    def __init__(self) -> None:
        self._chunks: deque[str] = deque()
        self._size = 0
        self.lines = 0

    def add(self, text: str) -> None:
        """Append `text` and drop the oldest chunks."""
        text, self.lines = text[-TAIL:], self.lines + text.count("\n")
        self._chunks.append(text)
        self._size += len(text)
        while self._size - len(self._chunks[0]) >= TAIL:
            self._size -= len(self._chunks.popleft())

    @property
    def text(self) -> str:
        """The last `TAIL` characters."""
        return "".join(self._chunks)[-TAIL:]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTail) and (self.lines, self.text) == (other.lines, other.text)

    __hash__ = None  # type: ignore[assignment]  # mutable, so not a key

    def __repr__(self) -> str:
        return f"OutputTail({self.text!r}, lines={self.lines})"


NodeKind: TypeAlias = Literal["run", "stage", "step", "reply", "call", "batch"]
NodeStatus: TypeAlias = Literal["planned", "running", "ok", "failed", "refused", "interrupted", "skipped"]
"""`planned` is a step of the approved plan that has not started."""


class ProgressNode(msgspec.Struct):
    """A node of the progress tree; `parent` and `children` are indexes in `ProgressTree.nodes`."""

    kind: NodeKind
    id: str
    title: str = ""
    parent: int = -1
    """-1 for a root."""
    depth: int = 0
    status: NodeStatus = "running"
    started_at: float = 0.0
    """Seconds since the epoch."""
    ms: int = 0
    item: int = -1
    """Index of its item in `SessionView.items`, or -1."""
    stage: str = ""
    """Name of a stage, such as `execution`."""
    number: int = 0
    """Number of a planned step."""
    pending_requests: int = 0
    """Number of pending requests at or below this node."""
    children: list[int] = msgspec.field(default_factory=list)


class ProgressTree(msgspec.Struct):
    """All nodes, in the order in which they were added."""

    nodes: list[ProgressNode] = msgspec.field(default_factory=list)
    roots: list[int] = msgspec.field(default_factory=list)
    indexes: dict[str, int] = msgspec.field(default_factory=dict)
    """Id of a run, stage, step, reply or call → index in `nodes`."""
    running: dict[int, None] = msgspec.field(default_factory=dict)
    """Indexes of the running nodes, in order."""
    planned: list[int] = msgspec.field(default_factory=list)
    """Indexes of the planned steps, in order: the last children of the node `execution`."""
    execution: int = -1
    """Index of the running execution stage, or -1."""


class Retry(msgspec.Struct):
    """A scheduled retry of a request to the server."""

    attempt: int
    of: int
    why: str
    until: float
    """Time of the retry, in seconds since the epoch."""
    is_over: bool = False


class ReplyItem(msgspec.Struct):
    """A reply of the model, complete or in progress."""

    id: str
    text: GrowingText = msgspec.field(default_factory=GrowingText)
    reasoning: GrowingText = msgspec.field(default_factory=GrowingText)
    started_at: float | None = None
    """Time of the first text, in seconds since the epoch; None again once the reply has ended."""
    prompt_tokens: int = 0
    """Tokens of the request: estimated, until the server reports them."""
    new_tokens: int | None = None
    """Of these, the tokens that the server has to read; None if unknown."""
    tokens_read: int | None = None
    """Of these, the tokens that the server has read; None if it does not report that (E9)."""
    read_at: float = 0.0
    """Time of that report, in seconds since the epoch."""
    thinking_since: float | None = None
    """Set while the model is thinking, in seconds since the epoch."""
    reasoning_ms: int = 0
    retry: Retry | None = None
    ended: bool = False
    call_count: int = 0
    stop_reason: str = ""
    fault: Fault | None = None
    interrupted: bool = False
    usage: Usage = msgspec.field(default_factory=Usage)
    ms: int = 0
    role: str = ""
    """Role of a reply apart from the conversation, whose text is not shown; empty in the conversation."""
    purpose: str = ""
    """Description of the purpose of such a reply."""
    rejected: str = ""
    """Why the whole reply was rejected, as in `reply.rejected`; empty if it was not."""
    agent: str = ""
    """Id of the call whose sub-agent wrote it; empty for the agent's own (T5)."""


class RequestItem(msgspec.Struct):
    """A request that the user must decide, or that a rule decided."""

    id: str
    node: str = ""
    action: Action | None = None
    """The action to approve, with masked secrets (A7); None for other requests."""
    digest: str = ""
    why: str = ""
    grants: tuple[Grant, ...] = ()
    question: str = ""
    options: tuple[str, ...] = ()
    otherwise: str = ""
    """What the user does by not answering a question; if set, only the options are answers."""
    conflict: e.PlanDocConflict | None = None
    proposal: e.PlanProposed | None = None
    """The plan to review (W2, W5)."""
    plan_review: e.PlanReviewed | None = None
    summary: e.SummaryProposed | None = None
    """The summary to review (W9)."""
    summary_review: e.SummaryReviewed | None = None
    answer: Answer | None = None
    grant: Grant | None = None
    exact_action: Action | None = None
    """The action with its secrets, which the answer is bound to; shown only on request."""
    harm: Harm | None = None
    """What a critical command would destroy."""
    void_reason: str = ""
    """Why a pending request can't be approved anymore; empty if it can."""

    @property
    def hides_secrets(self) -> bool:
        """True if `action` has masked secrets, so that a key must reveal `exact_action`."""
        return self.exact_action is not None and self.exact_action != self.action


ToolStatus: TypeAlias = Literal["running", "ok", "failed", "refused", "interrupted"]


class ToolItem(msgspec.Struct):
    """A tool call with its output, result, changes and requests."""

    id: str
    call: ToolCall
    title: str = ""
    reads_only: bool = False
    status: ToolStatus = "running"
    started_at: float = 0.0
    ms: int = 0
    output: OutputTail = msgspec.field(default_factory=OutputTail)
    result: ToolResult | None = None
    text: str = ""
    """What the model got, at most `TAIL` characters."""
    output_file: str = ""
    """Path of the full output, which exists only while the session is open."""
    changes: list[FileChange] = msgspec.field(default_factory=list)
    diffs: list[Diff] = msgspec.field(default_factory=list)
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    """Errors that a language server found in the written file (T4)."""
    requests: list[RequestItem] = msgspec.field(default_factory=list)
    agent: str = ""
    """Id of the call whose sub-agent makes this one; empty for the agent's own (T5)."""


StepOutcome: TypeAlias = Literal["", "done", "failed", "skipped", "interrupted"]


class StepItem(msgspec.Struct):
    """A step of the plan; number 0 is the plan's check."""

    id: str
    step: PlanStep
    of: int
    outcome: StepOutcome = ""
    text: str = ""
    verifications: list[e.StepVerified] = msgspec.field(default_factory=list)
    """Expected and actual outcomes (W7)."""
    recoveries: list[tuple[int, e.StepRecoveryStarted]] = msgspec.field(default_factory=list)
    """Attempts after a failure, each with the number of verifications before it."""
    iterations: int = 0
    ms: int = 0


class NoticeItem(msgspec.Struct):
    """A sentence for the user."""

    level: Literal["info", "warning", "error"]
    text: str
    code: str = ""
    details: str = ""
    """Details, shown when the notice is expanded."""


class EndItem(msgspec.Struct):
    """How a run ended."""

    outcome: str
    text: str
    """Empty if `already_shown`."""
    iterations: int
    tool_calls: int
    ms: int
    already_shown: bool = False
    """The last reply has the same text."""
    not_run: str = ""
    """What became of a critical command of the run that was rejected or failed; empty if there is none."""


class ViewPart(Flag):
    """Parts of the view other than its items and its tree."""

    NONE = 0
    STATUS = auto()
    """Phase, modes, model, title, context."""
    PENDING = auto()
    """Pending requests."""
    QUEUE = auto()
    PLAN = auto()
    """The plan document, or a proposal for it."""
    ALL = STATUS | PENDING | QUEUE


class ViewChanges(msgspec.Struct):
    """What changed since the last `take_changes`: indexes in `SessionView.items` and `ProgressTree.nodes`."""

    parts: ViewPart = ViewPart.NONE
    items: set[int] = msgspec.field(default_factory=set)
    nodes: set[int] = msgspec.field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.parts or self.items or self.nodes)


Item: TypeAlias = (
    e.UserMessageAdded | ReplyItem | ToolItem | RequestItem | StepItem | NoticeItem | e.UserShellCommand | EndItem
)


class PlanView(msgspec.Struct):
    """The plan document as text."""

    text: str = ""
    exact_text: str = ""
    """The text with its secrets, which edits start from; empty if the view is not redacted."""
    changed_by: str = ""
    """Who wrote it last, as in `plan_doc.changed`; empty if there is no plan."""
    proposal: str | None = None
    """The text that the model proposes in place of `proposal_base` (P6)."""
    proposal_base: str = ""
    """The text at the time of the proposal."""


class Status(msgspec.Struct):
    """The current activity (U9); `phase` is empty if there is none."""

    phase: str = ""
    detail: str = ""
    since: float = 0.0
    """Start of the phase, in seconds since the epoch."""


@dataclass(slots=True)
class SessionView:
    """Everything that a surface can show of one session."""

    seq: int = 0
    id: str = ""
    title: str = ""
    question: str = ""
    workspace: str = ""
    version: str = ""
    provider: str = ""
    model: str = ""
    roles: dict[str, str] = field(default_factory=dict)
    """Models that the user chose in this session, by role."""
    effort: str = ""
    """Reasoning effort of the session's model; empty: the default, or it can't reason."""
    mode: str = ""
    approval_mode: str = ""
    trusted: bool = False
    sandbox: str = ""
    sandbox_required: bool = False
    sandbox_network: bool = False
    """These three as in `session.opened`."""
    parent: str = ""
    """Id of the session that this one is a fork of."""
    closed: str = ""
    """Why the session was closed; empty while it is open."""
    context_used: int | None = None
    context_limit: int | None = None
    context_estimated: bool = False
    context_parts: dict[str, int] = field(default_factory=dict)
    """Tokens by part, as in `context.measured`."""
    usage: Usage = field(default_factory=Usage)
    """The server's report on the agent's newest reply."""
    reading_rate: float | None = None
    """Prompt tokens that the server reads per second."""
    truncated: int = 0
    """Tokens that the server read of a truncated prompt in this run; 0 if none was truncated."""
    strategy: str = "native"
    """How the model is asked for its work (E4)."""
    strategy_why: str = ""
    """Why that one; empty for the default."""
    unreported_rejection: e.ReplyRejected | None = None
    """The rejection that the next notice about a reply reports."""
    items: list[Item] = field(default_factory=list)
    older: int = 0
    """Number of items before `items` that were dropped; the journal has them."""
    pending: dict[str, RequestItem] = field(default_factory=dict)
    queue: list[e.MessageQueued] = field(default_factory=list)
    status: Status = field(default_factory=Status)
    run: str = ""
    """Id of the active run."""
    ended_run: str = ""
    """Id of the run that ended last."""
    stage: str = ""
    reply: ReplyItem | None = None
    """The reply in progress."""
    subagent_replies: dict[str, ReplyItem] = field(default_factory=dict)
    """Replies of sub-agents in progress, by id."""
    reply_phase: tuple[str, str] = ("", "")
    running: dict[str, ToolItem] = field(default_factory=dict)
    requests: dict[str, RequestItem] = field(default_factory=dict)
    step: StepItem | None = None
    """The newest step of the plan."""
    plan_steps: tuple[PlanStep, ...] = ()
    """Steps of the approved plan, until its execution starts."""
    tree: ProgressTree = field(default_factory=ProgressTree)
    plan: PlanView = field(default_factory=PlanView)
    indexes: dict[str, int] = field(default_factory=dict)
    """Id of a reply, call, step, request or message → index in `items`."""
    changes: ViewChanges = field(default_factory=ViewChanges, compare=False)

    @property
    def model_name(self) -> str:
        """The session's model in short: without the folder, if it is a file."""
        is_file = self.model.endswith(".gguf")
        return self.model.rpartition("/")[2].removesuffix(".gguf") if is_file else self.model

    @property
    def model_label(self) -> str:
        """The session's model and its provider; empty before a model is known."""
        return " · ".join(dict.fromkeys((self.model, self.provider))) if self.model else ""

    @property
    def first_message(self) -> str:
        """The text of the first user message, or ""."""
        return next((item.text for item in self.items if isinstance(item, e.UserMessageAdded)), "")

    def item(self, key: str) -> Item | None:
        """Return the reply, call, request, step or message with this id, or None."""
        index = self.indexes.get(key)
        return None if index is None else self.items[index]

    @property
    def busy(self) -> bool:
        """True during a run."""
        return bool(self.run)

    def take_changes(self) -> ViewChanges:
        """Return what changed since the last call."""
        changes, self.changes = self.changes, ViewChanges()
        return changes
