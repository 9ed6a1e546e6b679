"""The nouns of the product: small frozen values that every layer may hold and any of them can be written as JSON."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec


class FrozenValue(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every value here: immutable, compared by content, unknown fields ignored on reading."""


# --- who the agent is at the moment ---------------------------------------------------------


class Mode(StrEnum):
    """How a user message is worked on (W11)."""

    AGENT = "agent"
    DIRECT = "direct"
    CHAT = "chat"
    PLAN = "plan"
    EXPLORE = "explore"
    REVIEW = "review"
    DEEP_EXPLORE = "deep-explore"

    @property
    def reads_only(self) -> bool:
        """True where no tool may write or change anything."""
        return self not in (Mode.AGENT, Mode.DIRECT)


class ApprovalMode(StrEnum):
    """Who is asked when (A4)."""

    ASK = "ask"
    AUTO_EDIT = "auto-edit"
    AUTO = "auto"
    READ_ONLY = "read-only"


class Severity(StrEnum):
    """How much harm a command can do (A1); the order is `rank`."""

    NONE = "none"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for `none` up to 3 for `critical`."""
        return list(Severity).index(self)


# --- tool calls -----------------------------------------------------------------------------


class ToolCall(FrozenValue, frozen=True, kw_only=True):
    """One call that the model asks for."""

    id: str
    """Unique within the session; made by us when the server gave none."""
    name: str
    arguments: dict[str, Any]
    """Parsed arguments; `{}` when they could not be read (then `fault` says why)."""
    fault: str | None = None
    """Why the call can't run as it came (unreadable arguments); it is answered with this error."""
    raw: str | None = None
    """The arguments exactly as the model wrote them, kept only when they could not be read."""
    recovered: bool = False
    """True when the call was found in plain text instead of the protocol's own field (C4)."""


class ToolResult(FrozenValue, frozen=True, kw_only=True):
    """What a tool gives back (T7)."""

    success: bool
    data: Any = None
    """JSON-able; a string is shown to the model as it is."""
    error: str | None = None
    code: str | None = None
    """Machine-readable kind of failure, such as `not_found`, `refused`, `timeout`, `interrupted`."""
    changes: tuple[FileChange, ...] = ()


class ToolSpec(FrozenValue, frozen=True, kw_only=True):
    """What the model is told of a tool: generated once from its definition (C5)."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    aliases: tuple[str, ...] = ()
    """Other names under which a call of it is understood; the model is not told of them."""
    argument_aliases: dict[str, str] = {}
    """Other names of arguments, each with ours."""


# --- files and diffs ------------------------------------------------------------------------


class Hunk(FrozenValue, frozen=True, kw_only=True):
    """A run of changed lines with context. Lines keep their prefix: ' ', '+', '-' or '\\'."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]


class Diff(FrozenValue, frozen=True, kw_only=True):
    """The exact change of one file, computed from the bytes on disk."""

    path: str
    """As the user knows it: relative to its root where it is inside one."""
    kind: Literal["create", "modify", "delete"]
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    note: str | None = None
    """What lines can't show: line ends, a byte order mark, a binary file, a change of mode."""


class FileChange(FrozenValue, frozen=True, kw_only=True):
    """One write that happened."""

    path: str
    """Absolute, resolved."""
    display: str
    kind: Literal["create", "modify", "delete"]
    added: int
    removed: int
    before: str | None
    """sha256 of the old bytes; None for a new file."""
    after: str | None
    """sha256 of the new bytes; None for a deleted file."""


# --- actions that need leave, and the leave given ------------------------------------------


class ReadAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="read"):
    """Reading a file or folder."""

    path: str
    """Absolute, resolved."""
    display: str
    outside: bool = False
    """Outside every root."""
    credentials: bool = False
    """The file is known to hold secrets (A2)."""


class EditAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="edit"):
    """Writing a file: bound to the bytes before and after (A9)."""

    path: str
    """Absolute, resolved."""
    display: str
    diff: Diff
    before: str | None
    """sha256 of the bytes on disk that the diff starts from; None when there is no file."""
    after: str
    """sha256 of the bytes that will be written."""
    outside: bool = False
    protected: bool = False
    sensitive: bool = False
    parts: bool = False
    """Its hunks can be taken one by one, and their text changed before (A3)."""


class RunAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="run"):
    """Running a command line."""

    command: str
    """The exact text that will be executed."""
    cwd: str
    """Absolute, resolved."""
    severity: Severity = Severity.MEDIUM
    unasked: bool = False
    """Passed the strict test of A1/R-11: it may run without asking, as argv and without a shell."""
    reasons: tuple[str, ...] = ()
    """Why it is rated so, for the dialog."""
    always_ask: bool = False
    """On the always-ask list."""
    env_changes: tuple[str, ...] = ()
    """Variables that the session's shell carries and that change how programs are found or loaded."""


class TrustAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="trust"):
    """Interpreting what lies in a folder (A8)."""

    folder: str
    found: tuple[str, ...] = ()
    """What in it would be interpreted."""


Action: TypeAlias = ReadAction | EditAction | RunAction | TrustAction


def action_digest(action: Action) -> str:
    """sha256 over the action's exact content: what an approval is bound to."""
    # ASCII, since a file name may hold bytes that are no text (lone surrogates), which UTF-8 can't.
    return hashlib.sha256(json.dumps(msgspec.to_builtins(action), sort_keys=True).encode()).hexdigest()


class Target(FrozenValue, frozen=True, kw_only=True):
    """A path as the workspace's roots see it."""

    path: Path
    """Absolute and resolved (symlinks followed as far as the path exists)."""
    display: str
    """What user and model are shown: relative to the root, with the root's name in front if there are several."""
    outside: bool = False
    protected: bool = False
    sensitive: bool = False
    credentials: bool = False


class CommandOutcome(FrozenValue, frozen=True, kw_only=True):
    """How a command ended."""

    exit_code: int | None
    """128+n when a signal ended it; None when it was stopped by time-out or interrupt."""
    output: str
    """Decoded, without control sequences, cut to head and tail lines for the model (T2)."""
    total_bytes: int = 0
    total_lines: int = 0
    timed_out: bool = False
    interrupted: bool = False
    cwd: str = ""
    """The shell's folder afterwards."""
    note: str = ""
    """What else the model should know: shell restarted, killed by a signal, binary output, jobs left running."""
    spill: str | None = None
    """File with the full output, inside the scratch folder, when it was cut."""


class Scope(StrEnum):
    """How far an approval reaches (A3)."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class Grant(FrozenValue, frozen=True, kw_only=True):
    """A standing leave: the rule that turned *ask* into *run*."""

    kind: Literal["read", "edit", "run"]
    pattern: str
    """edit/read: a glob over the shown path. run: the exact command text; `cwd` must match too."""
    cwd: str | None = None
    env_changes: tuple[str, ...] = ()
    """run: the changed variables that were shown with the command; others are other leave."""
    scope: Scope = Scope.SESSION


class Answer(FrozenValue, frozen=True, kw_only=True):
    """What was decided about a request; the first answer wins."""

    verdict: Literal["approve", "reject", "withdrawn", "reply"]
    """`reply` answers a question; `withdrawn` is written by an interrupt or a closing session."""
    scope: Scope = Scope.ONCE
    text: str = ""
    """The reason given with a rejection, or the answer to a question."""
    by: str = "user"
    """Who answered: `user`, or the flag, setting, rule or grant that did."""
    data: dict[str, Any] | None = None
    """What was changed before approving, as plain data: an edited plan or summary; of an edit the places of the `hunks`
    that are taken and, by place, the new text of those that were edited (`hunks.Choice`)."""


# --- the conversation, protocol-neutral (H2) ------------------------------------------------


class SystemMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """Agent rules, tool guidance and what else stands first."""

    text: str


class UserMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """What the user said."""

    text: str


class ProgramMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="program"):
    """What the program says in the user's role: packets, feedback, context. Never counts as a user message. `text` is
    wrapped by `program_text()`, so that readers of the wire can tell it from the user's own words."""

    text: str


class AssistantMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """One reply of the model."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    """Sent back only to providers that demand it together with its tool calls (O-16)."""


class ToolMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """The result of one call, as the model gets it."""

    call_id: str
    name: str
    text: str
    success: bool = True


Message: TypeAlias = SystemMessage | UserMessage | ProgramMessage | AssistantMessage | ToolMessage

PROGRAM_MARK = "<agent_"
"""Messages in the user's role that the program wrote begin with this; the user's own never do."""


def program_text(kind: str, text: str) -> str:
    """Wrap program text so that it begins with PROGRAM_MARK, e.g. `<agent_feedback>…</agent_feedback>`."""
    return f"<agent_{kind}>\n{text}\n</agent_{kind}>"


# --- measures -------------------------------------------------------------------------------


class Usage(FrozenValue, frozen=True, kw_only=True):
    """Token counts and times of one reply; None is unknown, never zero."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    load_ms: int | None = None
    prompt_ms: int | None = None
    generate_ms: int | None = None


class ModelInfo(FrozenValue, frozen=True, kw_only=True):
    """What is known of a model on a server; None is unknown."""

    name: str
    capabilities: tuple[str, ...] | None = None
    """Such as `tools`, `thinking`, `vision`; None when the server does not say."""
    context_window: int | None = None
    """Trained or configured maximum, in tokens."""
    loaded_window: int | None = None
    """The window in effect now."""
    build: str = ""
    """Parameters, quantization, size on disk, such as `7.6B · Q4_K_M · 4.7 GB`."""
    any_name: bool = False
    """The server has one model and gives it under any name."""
    parameters: float | None = None
    """In thousand millions."""


class Fault(FrozenValue, frozen=True, kw_only=True):
    """Why a reply ended badly; plain data, so that it can be journaled."""

    kind: Literal[
        "unreachable",
        "timeout",
        "broken",
        "status",
        "protocol",
        "model_output",
        "context_overflow",
        "too_large",
        "cancelled",
    ]
    """`broken`: the stream ended without its end marker. `model_output`: the server could not parse what
    the model wrote (O-18); it is feedback for the model, not a reason to retry blindly."""
    message: str
    """One clean line or a few: what happened."""
    advice: str = ""
    """What the user can do about it."""
    status: int | None = None
    retry_after: float | None = None
    """Seconds, as the server asked."""
    retryable: bool = False
    """True only for what M7 retries, and only when nothing had been produced."""
    n_ctx: int | None = None
    """The real window, when a context overflow tells it."""
    n_prompt: int | None = None

    @property
    def sentence(self) -> str:
        """What happened and what to do, for the user."""
        return f"{self.message} {self.advice}".strip()

    @property
    def outcome(self) -> Literal["unreachable", "failed"]:
        """How a run ends by it."""
        return "unreachable" if self.kind == "unreachable" else "failed"
