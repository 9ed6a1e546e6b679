"""Events of a session: its opening, models and context, the plan, files and commands."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from tui_agent.common.domain import Answer, FrozenValue
from tui_agent.common.symbols import Diagnostic
from tui_agent.common.workplan import Classification, InstructionPlan, PlanStep, Summary
from tui_agent.events.base import Event

Level: TypeAlias = Literal["info", "warning", "error"]


class SessionOpened(Event, frozen=True, kw_only=True):
    """A process opened the session, new or `resumed`."""

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
    """Sandbox of commands: `bwrap` or `landlock`, followed by what it denies if that is not all (`landlock: files`);
    `none` if unavailable, `off` by the settings; empty in records of earlier versions."""
    sandbox_required: bool = False
    """Whether approved commands also run in it in approval mode `ask`."""
    sandbox_network: bool = False
    """Whether it lets commands use the network."""


class SessionClosed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.closed"
    reason: str


class SessionRecovered(Event, frozen=True, kw_only=True):
    """What was found when the session was opened after a crash."""

    type: ClassVar[str] = "session.recovered"
    damaged: int = 0
    """Number of unreadable records; they remain in the file."""
    offset: int | None = None
    size: int = 0
    sha256: str = ""
    interrupted: tuple[str, ...] = ()
    """Ids of tool calls that were started and not finished: their outcome is unknown, they are never run again."""
    void: tuple[str, ...] = ()
    """Ids of approvals that were open."""


class SessionForked(Event, frozen=True, kw_only=True):
    """The session up to here is a copy of another one (S3)."""

    type: ClassVar[str] = "session.forked"
    parent: str
    """Id of the other session."""
    before: str = ""
    """The user message before which the copy ends; empty for a complete copy."""


class SessionTitled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.titled"
    title: str


class StateSaved(Event, frozen=True, kw_only=True):
    """A snapshot of the engine state; a resume does not read the records before it."""

    type: ClassVar[str] = "state.saved"
    state: dict[str, Any]


class ModeChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "mode.changed"
    mode: str
    approval_mode: str
    by: str = "user"


class TrustChanged(Event, frozen=True, kw_only=True):
    """The workspace is trusted from now on, or no longer (A8)."""

    type: ClassVar[str] = "trust.changed"
    trusted: bool


class SandboxChanged(Event, frozen=True, kw_only=True):
    """Stricter settings changed the sandbox of the session's commands; the fields are those of `session.opened`."""

    type: ClassVar[str] = "sandbox.changed"
    sandbox: str
    sandbox_required: bool = False
    sandbox_network: bool = False


class ModelChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "model.changed"
    provider: str
    model: str
    context_window: int | None = None
    by: str = ""
    """`user` if it was chosen in the session, which takes precedence over the settings."""
    server: str = ""
    """Address of the server if the user chose it from the list, without secrets; `local` for models that the program
    runs itself, empty for the server of the settings."""
    effort: str = ""
    """Its reasoning effort; empty: the default, or it can't reason."""


class RoleChanged(Event, frozen=True, kw_only=True):
    """The user chose the model of a role for this session, or reset it (M5, M6)."""

    type: ClassVar[str] = "role.changed"
    role: str
    model: str = ""
    """Empty: the model of settings and models.json."""


class EffortChanged(Event, frozen=True, kw_only=True):
    """The user, or the settings, changed how much models reason before they answer (L5)."""

    type: ClassVar[str] = "effort.changed"
    role: str = ""
    """Empty: all roles with work to do."""
    effort: str = ""
    """The user's choice in this session: `default`, `off`, `low`, `medium` or `high`; empty: none."""
    effective: str = ""
    """The effort of the session's model now; empty: the default, or it can't reason."""


class Notice(Event, frozen=True, kw_only=True):
    """A sentence for the user that belongs to no other event."""

    type: ClassVar[str] = "notice"
    level: Level
    text: str
    code: str = ""
    """Stable name, such as `context.small` or `models.bad`."""


SERVER_MISSING = "server.missing"
"""Code of the notice about an unreachable server or missing model."""


class UserMessageAdded(Event, frozen=True, kw_only=True):
    """A user message was added to the conversation."""

    type: ClassVar[str] = "user.said"
    id: str
    text: str
    steering: bool = False
    """Delivered to the active run."""


class Attachment(FrozenValue, frozen=True, kw_only=True):
    """A file, a part of it, or a folder that the user mentioned in a message (H7), or text from standard input."""

    display: str
    """Path for display, with the requested lines: `src/a.py:L10-L50`."""
    path: str
    """Absolute, resolved; empty for standard input."""
    kind: Literal["file", "lines", "folder", "input"]
    label: str
    """Description for the model, with how much of it is included."""
    text: str
    """The content for the model."""
    note: str = ""
    """For the user: what was left out."""
    sha256: str | None = None
    """Hash of the file, if it was read completely."""


class ContextAttached(Event, frozen=True, kw_only=True):
    """The mentions in a message were read; they precede it in the conversation (H7)."""

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
    """Whether it is a steering message now; None leaves it unchanged."""


class MessageMoved(Event, frozen=True, kw_only=True):
    """A queued message was moved."""

    type: ClassVar[str] = "message.moved"
    id: str
    before: str = ""
    """Id of the message that follows it; empty for the end of the queue."""


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.withdrawn"
    id: str


class ProgramMessageAdded(Event, frozen=True, kw_only=True):
    """A program message in the user's role: feedback, control packet, context (W15, W16).

    Journaled so that a resumed session sends the same requests; never counted as a user message.
    """

    type: ClassVar[str] = "program.said"
    kind: str
    """Its tag: `feedback`, `control`, …"""
    text: str
    agent: str = ""
    """Id of the `run_subagent` call whose sub-agent gets it; empty for the agent itself (T5)."""


class UserShellCommand(Event, frozen=True, kw_only=True):
    """The user ran a `!command`."""

    type: ClassVar[str] = "shell.ran"
    command: str
    cwd: str
    output: str
    exit_code: int | None


class RequestClassified(Event, frozen=True, kw_only=True):
    """The request was classified (W1)."""

    type: ClassVar[str] = "request.classified"
    classified: Classification
    ms: int = 0


class PlanProposed(Event, frozen=True, kw_only=True):
    """A plan was made. It waits for a review if `asks` is set (W5)."""

    type: ClassVar[str] = "plan.proposed"
    id: str
    plan: InstructionPlan
    asks: bool
    """The user must decide; otherwise `plan.reviewed` with the name of a rule follows at once."""
    why: str = ""
    """The rule that requires a review, or allows to skip it."""
    depth: str = "moderate"
    cached: bool = False
    fallback: bool = False
    """There was no valid plan: the request is the only step."""
    recovery: bool = False
    """It continues after a failure."""
    ms: int = 0
    prompt_version: str = ""
    faults: tuple[str, ...] = ()
    """Faults of earlier attempts at this plan."""


class PlanReviewed(Event, frozen=True, kw_only=True):
    """A proposed plan was approved or rejected; `plan` is the one to execute."""

    type: ClassVar[str] = "plan.reviewed"
    id: str
    answer: Answer
    """`approve`, `reject` with a reason, or `withdrawn`."""
    plan: InstructionPlan
    edited: bool = False
    alternative: int | None = None
    """Index of the chosen alternative."""


class StepStarted(Event, frozen=True, kw_only=True):
    """A step is executed. The record's `node` is the step's id."""

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
    """A step failed, and its fallback or a recovery plan follows (W7)."""

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
    """plan_doc.md has changed; `text` is its content."""

    type: ClassVar[str] = "plan_doc.changed"
    text: str
    by: Literal["template", "summary", "review", "user", "editor", "merge", "repair"]
    sha256: str = ""
    pending: bool = False
    """A proposal by the model, not written yet (P6)."""


class PlanDocConflict(Event, frozen=True, kw_only=True):
    """The agent and the user edited the same lines of plan_doc.md; the user must decide."""

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
    """A run was summarized; the user accepts, edits or discards the summary (W9)."""

    type: ClassVar[str] = "summary.offered"
    id: str
    summary: Summary
    by: Literal["model", "program"] = "model"


class SummaryReviewed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "summary.settled"
    id: str
    outcome: Literal["accepted", "edited", "discarded", "pending"]
    """`pending`: undecided; offered again at the next interactive start."""
    summary: Summary
    by: str = "user"


RestoreOutcome: TypeAlias = Literal["restored", "already", "left", "aside", "failed"]
"""`already`: no change was needed. `left`: not restored, since it was changed after the edit. `aside`: the earlier
content was written next to it."""


class FileState(FrozenValue, frozen=True, kw_only=True):
    """What is at a path, identified by content."""

    kind: Literal["absent", "file", "folder", "link", "other"]
    sha256: str = ""
    """Hash of a file's bytes, or of a link's target."""
    size: int = 0
    mode: int = 0
    """Permission bits of a file."""


class DiagnosticsReported(Event, frozen=True, kw_only=True):
    """A language server checked a file that was just written (T4). The record's `node` is the call."""

    type: ClassVar[str] = "file.diagnosed"
    path: str
    """Absolute, resolved."""
    display: str
    found: tuple[Diagnostic, ...] = ()
    """Its errors; new ones are marked."""


class FileSnapshotted(Event, frozen=True, kw_only=True):
    """The content of a file was saved before an edit. Durable before the edit.

    `file.changed` confirms the edit; if it is missing, the bytes on disk show whether the edit happened.
    """

    type: ClassVar[str] = "file.snapshotted"
    path: str
    """Absolute, resolved."""
    display: str
    before: FileState
    after: str
    """sha256 of the bytes to be written."""
    folders: tuple[str, ...] = ()
    """Folders created by the edit, outermost first."""
    unkept: str = ""
    """Why the content could not be saved: the edit can't be undone."""
    call: str = ""
    """Id of the tool call that edits the file."""


class RestoredFile(FrozenValue, frozen=True, kw_only=True):
    """One file of an undo, with its states before and after."""

    path: str
    display: str
    before: FileState
    after: FileState
    folders: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    """The edits that are undone or redone: numbers of `file.snapshotted` records, from 1."""
    set_mode: bool = False
    """The permissions are restored, too: a command may have changed them."""
    aside: bool = False
    """The file stays as it is, and the earlier content is written next to it."""
    outcome: RestoreOutcome | Literal[""] = ""
    """Empty until it is done."""
    why: str = ""
    """Why it was not done; for `aside`, the path of the earlier content."""
    choices: tuple[str, ...] = ()
    """What else can be done with a file that was left because of a conflict."""


class UndoStarted(Event, frozen=True, kw_only=True):
    """Files are about to be restored. Durable before the first one: without `undo.done` a crash interrupted it."""

    type: ClassVar[str] = "undo.begun"
    id: str
    kind: Literal["undo", "redo", "rewind"]
    items: tuple[RestoredFile, ...]
    runs: tuple[str, ...] = ()


class UndoFinished(Event, frozen=True, kw_only=True):
    """An undo has ended; `items` have the outcome of each file."""

    type: ClassVar[str] = "undo.done"
    id: str
    kind: Literal["undo", "redo", "rewind"]
    outcome: Literal["done", "stopped", "rolled_back"]
    """`stopped`: some files failed. `rolled_back`: an interrupted undo was reversed."""
    items: tuple[RestoredFile, ...]
    runs: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Commands that ran in these runs: only their changes of files were reverted."""
    uncovered: tuple[str, ...] = ()
    """Commands whose changes of files undo does not cover, or not all."""
    protected: tuple[str, ...] = ()
    """Protected files that commands made and that stay, such as `changed .git/config`."""


class CheckpointsKept(Event, frozen=True, kw_only=True):
    """The user keeps the changes of these runs: undo skips them."""

    type: ClassVar[str] = "checkpoints.kept"
    runs: tuple[str, ...]


class CommandFile(FrozenValue, frozen=True, kw_only=True):
    """A file that a command created, changed or deleted, with what undo needs."""

    path: str
    """Absolute."""
    display: str
    before: FileState
    after: FileState
    folders: tuple[str, ...] = ()
    """Folders created with it, outermost first."""
    unkept: str = ""
    """Why its earlier content was not saved: it can't be undone."""
    added: int = 0
    removed: int = 0


class CommandChangedFiles(Event, frozen=True, kw_only=True):
    """A command changed files. The record's `node` is the call; many files are spread over several events."""

    type: ClassVar[str] = "command.changed"
    command: str
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    """Number of files beyond the listed ones."""
    unwatched: tuple[str, ...] = ()
    """Descriptions of what could not be watched."""
    covered: bool = False
    """Undo covers the changes: they are in `files`, here or in the following events of the call."""
    beyond: int = 0
    """Number of files that are in no event, as there are too many."""
    protected: tuple[str, ...] = ()
    """Protected files that undo does not cover, such as `changed .git/config`."""
    files: tuple[CommandFile, ...] = ()


class QuarantinedFile(FrozenValue, frozen=True, kw_only=True):
    """A protected file or folder as a command left it, moved out of the workspace."""

    path: str
    """Absolute."""
    display: str
    kind: Literal["create", "modify", "delete"]
    moved_to: str = ""
    """Where the command's version lies now; empty for a deleted one."""
    before: FileState
    """What is at the path again."""
    restored: bool = True
    """False if the earlier content could not be written back."""
    why: str = ""


class FilesQuarantined(Event, frozen=True, kw_only=True):
    """Protected files that a command made are about to be moved aside, until the user decides. Durable before that."""

    type: ClassVar[str] = "files.quarantined"
    command: str
    files: tuple[QuarantinedFile, ...]


class ConversationRewound(Event, frozen=True, kw_only=True):
    """The conversation was reset to the state before a message, which stays in the journal (K1)."""

    type: ClassVar[str] = "conversation.rewound"
    run: str
    """The run of that message; empty if the rewind was undone."""
    text: str
    """The text of that message, for editing it."""
    history: tuple[Any, ...]
    """The new history, as returned by `History.export`."""
    cleared: bool = False
    """The whole conversation was cleared (`/clear`, U5); plan, files and session are unchanged."""
    undo: str = ""
    """The undo that restored the files in the same rewind; empty if only the conversation was reset."""
