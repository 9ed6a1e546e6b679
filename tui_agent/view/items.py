"""What a screen shows of one session: items, progress tree, status, what waits. Only `fold_record` changes them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Literal, TypeAlias

from tui_agent import events as e
from tui_agent.common.domain import Action, Answer, Diff, Fault, FileChange, Grant, ToolCall, ToolResult, Usage
from tui_agent.common.symbols import Diagnostic
from tui_agent.common.workplan import PlanStep

TAIL = 64_000
"""Characters of live output in a card; the log has the rest."""


class GrowingText:
    """Text that grows at its end: adding costs what is added, reading joins once and keeps the result."""

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
        """All of it."""
        if len(self.chunks) > 1:
            self.chunks = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""

    def since(self, place: int) -> str:
        """The text after the first `place` characters; the cost grows with the result only."""
        missing, parts = self.size - place, []
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
        return f"Growing({self.text!r})"


class OutputTail:
    """The end of live output, at most `TAIL` characters, with a count of all lines that went through."""

    __slots__ = ("_chunks", "_size", "lines")

    def __init__(self) -> None:
        self._chunks: deque[str] = deque()
        self._size = 0
        self.lines = 0

    def add(self, text: str) -> None:
        """Append `text`; the oldest chunks fall out."""
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
        return f"Tail({self.text!r}, lines={self.lines})"


NodeKind: TypeAlias = Literal["run", "stage", "step", "reply", "call", "batch"]
NodeStatus: TypeAlias = Literal["running", "ok", "failed", "refused", "interrupted", "skipped"]


@dataclass(slots=True)
class ProgressNode:
    """One node. `parent` and `children` are places in `Tree.nodes`."""

    kind: NodeKind
    id: str
    title: str = ""
    parent: int = -1
    """-1 for a node at the top."""
    depth: int = 0
    status: NodeStatus = "running"
    began: float = 0.0
    """Seconds since the epoch."""
    ms: int = 0
    item: int = -1
    """Place in `SessionView.items` of its item; -1 when there is none."""
    asked: int = 0
    """Requests below this node that wait for somebody."""
    children: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ProgressTree:
    """All nodes in the order they came; only `grow` changes them."""

    nodes: list[ProgressNode] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """Id of a run, stage, step, reply or call → place in `nodes`."""
    running: dict[int, None] = field(default_factory=dict)
    """Places of the running nodes."""

    @property
    def last(self) -> ProgressNode | None:
        """The newest node at the top."""
        return self.nodes[self.roots[-1]] if self.roots else None


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
class ReplyItem:
    """One reply of the model, while it grows and afterwards."""

    id: str
    text: GrowingText = field(default_factory=GrowingText)
    thought: GrowingText = field(default_factory=GrowingText)
    began: float | None = None
    """When the first text came, in seconds since the epoch; None again once the reply has ended."""
    size: int = 0
    """Tokens of the request: estimated, until the server reports them."""
    fresh: int | None = None
    """Of these, what the server has to read, as far as is known."""
    read: int | None = None
    """Of these, what the server has read; None where it does not tell (E9)."""
    read_at: float = 0.0
    """When it reported that, in seconds since the epoch."""
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
    """Id of the call whose sub-agent wrote it; empty for the agent's own (T5)."""


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
    dispute: e.PlanDocConflict | None = None
    proposal: e.PlanProposed | None = None
    """A plan for the request (W2, W5)."""
    review: e.PlanReviewed | None = None
    """What became of it."""
    offer: e.SummaryProposed | None = None
    """A summary of the run (W9)."""
    settled: e.SummaryReviewed | None = None
    """What became of it."""
    answer: Answer | None = None
    grant: Grant | None = None
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
    output: OutputTail = field(default_factory=OutputTail)
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


StepOutcome: TypeAlias = Literal["", "done", "failed", "skipped", "interrupted"]


@dataclass(slots=True)
class StepItem:
    """A step of the plan, or with number 0 its check, during and after it."""

    id: str
    step: PlanStep
    of: int
    outcome: StepOutcome = ""
    text: str = ""
    verdicts: list[e.StepVerified] = field(default_factory=list)
    """What it should have come to and what it did (W7)."""
    recoveries: list[tuple[int, e.StepRecoveryStarted]] = field(default_factory=list)
    """What else was tried after a failure, and how many verdicts there were before."""
    iterations: int = 0
    ms: int = 0


@dataclass(slots=True)
class NoticeItem:
    """A sentence for the user."""

    level: Literal["info", "warning", "error"]
    text: str
    code: str = ""
    more: str = ""
    """Details, shown when the notice is unfolded."""


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


class ViewPart(Flag):
    """Parts of the view besides its items and its tree."""

    NOTHING = 0
    STATUS = auto()
    """Phase, modes, model, title, context."""
    PENDING = auto()
    """Requests that wait for somebody."""
    QUEUE = auto()
    PLAN = auto()
    """The plan document, or a proposal for it."""
    ALL = STATUS | PENDING | QUEUE


@dataclass(slots=True)
class ViewChanges:
    """What changed since somebody took it; places in `SessionView.items` and in `SessionView.tree`."""

    parts: ViewPart = ViewPart.NOTHING
    items: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.parts or self.items or self.nodes)


Item: TypeAlias = (
    e.UserMessageAdded | ReplyItem | ToolItem | RequestItem | StepItem | NoticeItem | e.UserShellCommand | EndItem
)


@dataclass(slots=True)
class PlanView:
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
    """The current activity (U9). `phase` is empty when there is none."""

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
    parent: str = ""
    """Id of the session that it is a fork of."""
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
    """Tokens of a prompt that the server reads in a second."""
    truncated: int = 0
    """Tokens that the server read of a prompt that it cut in this run; 0 if it cut none."""
    strategy: str = "native"
    """How the model is asked for its work (E4)."""
    strategy_why: str = ""
    """Why that one; empty where it is the usual one."""
    rejected: e.ReplyRejected | None = None
    """The rejection that the next notice about a reply reports."""
    items: list[Item] = field(default_factory=list)
    pending: dict[str, RequestItem] = field(default_factory=dict)
    queue: list[e.MessageQueued] = field(default_factory=list)
    status: Status = field(default_factory=Status)
    run: str = ""
    """Id of the active run."""
    stage: str = ""
    reply: ReplyItem | None = None
    """The reply that is being written."""
    asides: dict[str, ReplyItem] = field(default_factory=dict)
    """Replies of sub-agents that are being written, by id."""
    reply_phase: tuple[str, str] = ("", "")
    running: dict[str, ToolItem] = field(default_factory=dict)
    requests: dict[str, RequestItem] = field(default_factory=dict)
    step: StepItem | None = None
    """The newest step of the plan."""
    tree: ProgressTree = field(default_factory=ProgressTree)
    plan: PlanView = field(default_factory=PlanView)
    places: dict[str, int] = field(default_factory=dict)
    """Id of a reply, call or request → place in `items`."""
    changes: ViewChanges = field(default_factory=ViewChanges, compare=False)

    @property
    def first_message(self) -> str:
        """The first that the user said; empty when nothing was."""
        return next((item.text for item in self.items if isinstance(item, e.UserMessageAdded)), "")

    def item(self, key: str) -> Item | None:
        """The reply, call, request, step or message with this id."""
        place = self.places.get(key)
        return None if place is None else self.items[place]

    @property
    def busy(self) -> bool:
        """True during a run."""
        return bool(self.run)

    def take_changes(self) -> ViewChanges:
        """What changed since the last call."""
        changes, self.changes = self.changes, ViewChanges()
        return changes
