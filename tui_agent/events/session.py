"""Events of a session: its opening, models and context, the plan, files and commands."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from tui_agent.common.domain import Answer, FrozenValue
from tui_agent.common.symbols import Diagnostic
from tui_agent.common.workplan import Classification, InstructionPlan, PlanStep, Summary
from tui_agent.events.base import Event

Level: TypeAlias = Literal["info", "warning", "error"]


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
    sandbox: str = ""
    """What confines commands that nobody may have looked at: `bwrap`, `landlock`, `landlock: files only`, …; `none`
    where there is nothing, `off` by the settings; empty in records of earlier versions."""


class SessionClosed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.closed"
    reason: str


class SessionRecovered(Event, frozen=True, kw_only=True):
    """What a start found after a crash."""

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


class SessionForked(Event, frozen=True, kw_only=True):
    """Up to here the session is a copy of another one, which goes its own way (S3)."""

    type: ClassVar[str] = "session.forked"
    parent: str
    """Id of the other session."""
    before: str = ""
    """The message of the user's, as it was said, before which the copy ends; empty for all there was."""


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
    by: str = ""
    """`user` when it was chosen in the session, and so holds for it whatever the settings say."""


class RoleChanged(Event, frozen=True, kw_only=True):
    """The user gave a role a model of its own for this session, or took it back (M5, M6)."""

    type: ClassVar[str] = "role.changed"
    role: str
    model: str = ""
    """Empty: as settings and models.json say."""


class Notice(Event, frozen=True, kw_only=True):
    """A sentence for the user that belongs to no other event."""

    type: ClassVar[str] = "notice"
    level: Level
    text: str
    code: str = ""
    """Stable name, such as `context.small` or `models.bad`."""


class UserMessageAdded(Event, frozen=True, kw_only=True):
    """A message reached the conversation."""

    type: ClassVar[str] = "user.said"
    id: str
    text: str
    steering: bool = False
    """Given to a run that was already going on."""


class Attachment(FrozenValue, frozen=True, kw_only=True):
    """A file, lines of it, or a folder that the user attached to a message by naming it (H7)."""

    display: str
    """As the user knows it, with the lines that were asked for: `src/a.py:L10-L50`."""
    path: str
    """Absolute, resolved."""
    kind: Literal["file", "lines", "folder"]
    label: str
    """What the model is told it is, and how much of it is there."""
    text: str
    """What the model gets."""
    note: str = ""
    """What was cut, for the user."""
    sha256: str | None = None
    """Of the whole file, where it was read as a whole."""


class ContextAttached(Event, frozen=True, kw_only=True):
    """What a message names was read and goes to the model in front of it (H7). History folds this."""

    type: ClassVar[str] = "context.attached"
    message: str
    """Id of the message."""
    items: tuple[Attachment, ...]


class MessageQueued(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.queued"
    id: str
    text: str
    steering: bool = False


class MessageChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.changed"
    id: str
    text: str
    steering: bool | None = None
    """What it is meant for from now on; None leaves it."""


class MessageMoved(Event, frozen=True, kw_only=True):
    """A queued message has another place."""

    type: ClassVar[str] = "message.moved"
    id: str
    before: str = ""
    """Id of the message that it stands before; empty for the end, which is also its place when that one is gone."""


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.withdrawn"
    id: str


class ProgramMessageAdded(Event, frozen=True, kw_only=True):
    """The program tells the model something in the user's role: feedback, packets, context (W15, W16).

    Journaled so that a resumed session sends what it would have sent; never counted as a user message.
    """

    type: ClassVar[str] = "program.said"
    kind: str
    """Which tag wraps it: `feedback`, `control`, …"""
    text: str
    agent: str = ""
    """Id of the `run_subagent` call to whose sub-agent it is said; empty for the agent itself (T5)."""


class UserShellCommand(Event, frozen=True, kw_only=True):
    """A `!command` of the user's own."""

    type: ClassVar[str] = "shell.ran"
    command: str
    cwd: str
    output: str
    exit_code: int | None


class RequestClassified(Event, frozen=True, kw_only=True):
    """The dispatcher read the request (W1)."""

    type: ClassVar[str] = "request.classified"
    classified: Classification
    ms: int = 0


class PlanProposed(Event, frozen=True, kw_only=True):
    """How the request shall be done, before anything runs. Asks when `asks` (W5)."""

    type: ClassVar[str] = "plan.proposed"
    id: str
    plan: InstructionPlan
    asks: bool
    """Somebody must decide; otherwise `plan.reviewed` with a rule's name follows at once."""
    why: str = ""
    """The rule that asks, or the one that does not."""
    depth: str = "moderate"
    cached: bool = False
    fallback: bool = False
    """No usable plan came: the request as a single step in the direct loop."""
    recovery: bool = False
    """Made after a failure, to go on from there."""
    ms: int = 0
    prompt_version: str = ""
    faults: tuple[str, ...] = ()
    """What was wrong with earlier attempts at this plan."""


class PlanReviewed(Event, frozen=True, kw_only=True):
    """What was decided about a proposed plan; `plan` is what will be carried out."""

    type: ClassVar[str] = "plan.reviewed"
    id: str
    answer: Answer
    """`approve`, `reject` with a reason, or `withdrawn`."""
    plan: InstructionPlan
    edited: bool = False
    alternative: int | None = None
    """Which alternative was picked, from 0."""


class StepStarted(Event, frozen=True, kw_only=True):
    """The record's `node` is the step's id."""

    type: ClassVar[str] = "step.started"
    step: PlanStep
    of: int


class StepVerified(Event, frozen=True, kw_only=True):
    """Expected and actual outcome of a step, or of the run's check (W7)."""

    type: ClassVar[str] = "step.verified"
    met: bool
    expected: str
    actual: str
    by: Literal["facts", "model", "command"]
    command: str = ""
    """The run's check command; empty for a step."""
    ms: int = 0


class StepRecoveryStarted(Event, frozen=True, kw_only=True):
    """A step failed and something else is tried (W7)."""

    type: ClassVar[str] = "step.recovering"
    by: Literal["fallback", "recovery"]
    error_class: str = ""
    """Such as `authentication`, `missing_program`, `not_found`."""
    cause: str = ""
    strategy: str = ""


class StepFinished(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "step.finished"
    outcome: Literal["done", "failed", "skipped", "interrupted"]
    text: str = ""
    iterations: int = 0
    ms: int = 0


class CompletionRefused(Event, frozen=True, kw_only=True):
    """A claim of completion was not accepted (W8)."""

    type: ClassVar[str] = "completion.refused"
    why: str


class PlanDocChanged(Event, frozen=True, kw_only=True):
    """plan_doc.md is different now; `text` is all of it."""

    type: ClassVar[str] = "plan_doc.changed"
    text: str
    by: Literal["template", "summary", "review", "user", "editor", "merge", "repair"]
    sha256: str = ""
    pending: bool = False
    """A proposal by the model: shown, but not written yet (P6)."""


class PlanDocConflict(Event, frozen=True, kw_only=True):
    """The agent's and the user's edits of plan_doc.md can't both hold: asks which one."""

    type: ClassVar[str] = "plan_doc.conflict"
    id: str
    where: str
    ours: str
    theirs: str


class PlanDocResolved(Event, frozen=True, kw_only=True):
    """The user decided about a conflict or a pending proposal."""

    type: ClassVar[str] = "plan_doc.settled"
    id: str
    answer: Answer


class SummaryProposed(Event, frozen=True, kw_only=True):
    """What of the run shall become memory: waits for accept, edit or discard (W9)."""

    type: ClassVar[str] = "summary.offered"
    id: str
    summary: Summary
    by: Literal["model", "program"] = "model"


class SummaryReviewed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "summary.settled"
    id: str
    outcome: Literal["accepted", "edited", "discarded", "pending"]
    """`pending`: nobody was there; offered again at the next interactive start."""
    summary: Summary
    by: str = "user"


RestoreOutcome: TypeAlias = Literal["restored", "already", "left", "aside", "failed"]
"""`already`: it was as it should be. `left`: somebody changed it since, and it was not touched. `aside`: the earlier
content was written beside it."""


class FileState(FrozenValue, frozen=True, kw_only=True):
    """What lies at a path, by content."""

    kind: Literal["absent", "file", "folder", "link", "other"]
    sha256: str = ""
    """Of a file's bytes; of a link's target."""
    size: int = 0
    mode: int = 0
    """Permission bits of a file."""


class DiagnosticsReported(Event, frozen=True, kw_only=True):
    """A language server found errors in a file that was just written (T4). The record's `node` is the call."""

    type: ClassVar[str] = "file.diagnosed"
    path: str
    """Absolute, resolved."""
    display: str
    found: tuple[Diagnostic, ...] = ()
    """Errors only, new ones marked."""


class FileSnapshotted(Event, frozen=True, kw_only=True):
    """A file is about to be edited; what lies there is kept. Durable before the edit.

    `file.changed` tells that the edit happened. Where it is missing, the bytes on disk tell.
    """

    type: ClassVar[str] = "file.snapshotted"
    path: str
    """Absolute, resolved."""
    display: str
    before: FileState
    after: str
    """sha256 of the bytes that the edit writes."""
    folders: tuple[str, ...] = ()
    """Folders that the edit makes on the way, the outermost first."""
    unkept: str = ""
    """Why what lies there could not be kept: then this edit can't be undone."""
    call: str = ""
    """Id of the tool call that edits."""


class RestoredFile(FrozenValue, frozen=True, kw_only=True):
    """One file of an undo, with the states from and to which it goes."""

    path: str
    display: str
    before: FileState
    after: FileState
    folders: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    """The edits that this takes back or makes again: `file.snapshotted` records, counted from 1."""
    aside: bool = False
    """What was there is to be written beside it, and it stays as it is."""
    outcome: RestoreOutcome | Literal[""] = ""
    """Empty while it is not done."""
    why: str = ""
    """What kept it from being done; for `aside` where the content is."""


class UndoStarted(Event, frozen=True, kw_only=True):
    """These files go back. Durable before the first one is touched: without `undo.done` a crash cut it off."""

    type: ClassVar[str] = "undo.begun"
    id: str
    kind: Literal["undo", "redo", "rewind"]
    items: tuple[RestoredFile, ...]
    runs: tuple[str, ...] = ()


class UndoFinished(Event, frozen=True, kw_only=True):
    """What became of every file."""

    type: ClassVar[str] = "undo.done"
    id: str
    kind: Literal["undo", "redo", "rewind"]
    outcome: Literal["done", "stopped", "rolled_back"]
    """`stopped`: some files failed. `rolled_back`: a cut-off undo was reversed."""
    items: tuple[RestoredFile, ...]
    runs: tuple[str, ...] = ()


class CheckpointsKept(Event, frozen=True, kw_only=True):
    """The user is content with what these runs did: `undo` passes them over."""

    type: ClassVar[str] = "checkpoints.kept"
    runs: tuple[str, ...]


class CommandChangedFiles(Event, frozen=True, kw_only=True):
    """A command changed files, which undo can't take back. The record's `node` is the call."""

    type: ClassVar[str] = "command.changed"
    command: str
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    """Further files that are not named."""
    unwatched: tuple[str, ...] = ()
    """What could not be watched, in words."""


class ConversationRewound(Event, frozen=True, kw_only=True):
    """The model no longer knows what was said since a message; the record of it stays (K1)."""

    type: ClassVar[str] = "conversation.rewound"
    run: str
    """The run before whose message the conversation goes on."""
    text: str
    """That message, to be said again in other words."""
    history: tuple[Any, ...]
    """The conversation as it is now, as `History.export` writes it."""
    cleared: bool = False
    """The user wants all of it forgotten (`/clear`, U5); plan, files and session stay as they are."""
