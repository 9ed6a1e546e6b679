"""The domain model: frozen values that every layer can use and that can be written as JSON."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec


class FrozenValue(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all values: immutable, compared by content; unknown fields are ignored when reading."""


# --- modes and ratings ----------------------------------------------------------------------


class Mode(StrEnum):
    """How the agent works on a message (W11)."""

    AGENT = "agent"
    DIRECT = "direct"
    CHAT = "chat"
    PLAN = "plan"
    EXPLORE = "explore"
    REVIEW = "review"
    DEEP_EXPLORE = "deep-explore"

    @property
    def reads_only(self) -> bool:
        """True if no tool may change anything."""
        return self not in (Mode.AGENT, Mode.DIRECT)


class ApprovalMode(StrEnum):
    """What needs approval (A4)."""

    ASK = "ask"
    AUTO_EDIT = "auto-edit"
    AUTO = "auto"
    READ_ONLY = "read-only"


class Severity(StrEnum):
    """The harm a command can do (A1), ordered by `rank`."""

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
    """A tool call requested by the model."""

    id: str
    """Unique within the session; generated if the server sent none."""
    name: str
    arguments: dict[str, Any]
    """Parsed arguments; `{}` if they are unreadable (see `fault`)."""
    fault: str | None = None
    """Error that answers the call instead of running it, such as unreadable arguments."""
    raw: str | None = None
    """The arguments as the model wrote them, only if they are unreadable."""
    recovered: bool = False
    """True if the call was found in plain text (C4)."""


class ToolResult(FrozenValue, frozen=True, kw_only=True):
    """The result of a tool call (T7)."""

    success: bool
    data: Any = None
    """JSON-compatible; a string is shown to the model unchanged."""
    error: str | None = None
    code: str | None = None
    """Kind of failure, such as `not_found`, `refused`, `timeout`, `interrupted`."""
    changes: tuple[FileChange, ...] = ()


class ToolSpec(FrozenValue, frozen=True, kw_only=True):
    """Description of a tool for the model, generated from its definition (C5)."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    aliases: tuple[str, ...] = ()
    """Other accepted names, not shown to the model."""
    argument_aliases: dict[str, str] = {}
    """Other accepted argument names → canonical name."""


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
    """Path as displayed: relative to its root if inside one."""
    kind: Literal["create", "modify", "delete"]
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    note: str | None = None
    """Changes not visible in lines: line endings, byte order mark, binary content, file mode."""


class FileChange(FrozenValue, frozen=True, kw_only=True):
    """A completed write of one file."""

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


# --- actions and approvals ------------------------------------------------------------------


class ReadAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="read"):
    """Reading a file or folder."""

    path: str
    """Absolute, resolved."""
    display: str
    outside: bool = False
    """Outside every root."""
    credentials: bool = False
    """Known to contain secrets (A2)."""


class EditAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="edit"):
    """Writing a file, bound to the exact bytes before and after (A9)."""

    path: str
    """Absolute, resolved."""
    display: str
    diff: Diff
    before: str | None
    """sha256 of the current bytes; None for a new file."""
    after: str
    """sha256 of the new bytes."""
    outside: bool = False
    protected: bool = False
    sensitive: bool = False
    splittable: bool = msgspec.field(default=False, name="parts")
    """The user can accept single hunks and edit their text (A3)."""


class RunAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="run"):
    """Running a shell command."""

    command: str
    """The exact text that will be executed."""
    cwd: str
    """Absolute, resolved."""
    severity: Severity = Severity.MEDIUM
    safe: bool = msgspec.field(default=False, name="unasked")
    """Passed the strict test of A1/R-11: may run without approval, as argv and without a shell."""
    reasons: tuple[str, ...] = ()
    """Reasons for the severity, for the dialog."""
    always_ask: bool = False
    """On the always-ask list."""
    unfamiliar: bool = False
    """It is not known what it does: it asks in every mode but read-only, which refuses it."""
    credentials: tuple[str, ...] = ()
    """Files with secrets that it names or reads, as displayed."""
    outside: tuple[str, ...] = ()
    """Files outside the roots that it names, as displayed."""
    env_changes: tuple[str, ...] = ()
    """Changed variables of the session's shell that affect how programs are found or loaded."""
    writes_outside: bool = False
    """It may write outside every root, which a sandbox prevents."""
    sandboxed: bool = False
    """It would run in the sandbox (A10)."""


class Harm(FrozenValue, frozen=True, kw_only=True):
    """What a critical command would destroy, as far as it could be counted before it was asked for (A1)."""

    targets: tuple[str, ...] = ()
    """Absolute paths and patterns that it would change."""
    files: int = 0
    bytes: int = 0
    complete: bool = True
    """False if there is more than `files`."""
    sandboxed: bool = False
    """It would run in the sandbox."""
    word: str = "run it"
    """What the user types to approve it."""


class TrustAction(FrozenValue, frozen=True, kw_only=True, tag_field="kind", tag="trust"):
    """Trusting the contents of a folder (A8)."""

    folder: str
    contents: tuple[str, ...] = msgspec.field(default=(), name="found")
    """What would be read and followed, as `name: purpose`: rules, settings, git data, language servers."""
    risks: tuple[str, ...] = ()
    """What makes the folder unsafe to trust, as sentences."""


class FolderTrustState(FrozenValue, frozen=True, kw_only=True):
    """Whether a folder of the workspace is trusted, and what follows from it."""

    folder: str
    trusted: bool
    since: str = ""
    """ISO 8601; empty if it is trusted for this session only, or not trusted."""
    through: str = ""
    """The parent folder whose trust covers it; empty if it was trusted itself."""
    contents: tuple[str, ...] = ()
    """What is read and followed if it is trusted, as `name: purpose`."""
    risks: tuple[str, ...] = ()


Action: TypeAlias = ReadAction | EditAction | RunAction | TrustAction


def action_digest(action: Action) -> str:
    """Return the sha256 of the exact content of an action, to which an approval is bound."""
    # ASCII output, since file names may contain lone surrogates, which UTF-8 can't encode.
    return hashlib.sha256(json.dumps(msgspec.to_builtins(action), sort_keys=True).encode()).hexdigest()


class Target(FrozenValue, frozen=True, kw_only=True):
    """A path resolved and classified against the roots."""

    path: Path
    """Absolute and resolved (symlinks followed as far as the path exists)."""
    display: str
    """Path as displayed: relative to the root, prefixed with the root's name if there are several."""
    outside: bool = False
    protected: bool = False
    sensitive: bool = False
    credentials: bool = False


class CommandOutcome(FrozenValue, frozen=True, kw_only=True):
    """Result of a shell command."""

    exit_code: int | None
    """128+n if killed by signal n; None after a timeout or interrupt."""
    output: str
    """Decoded output without control sequences, shortened to head and tail for the model (T2)."""
    total_bytes: int = 0
    total_lines: int = 0
    timed_out: bool = False
    interrupted: bool = False
    cwd: str = ""
    """Working directory of the shell afterwards."""
    note: str = ""
    """Further information for the model: shell restarted, killed by a signal, binary output, background jobs."""
    spill: str | None = None
    """File in the scratch folder with the full output, if it was shortened."""


class Scope(StrEnum):
    """How long an approval is valid (A3)."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class Grant(FrozenValue, frozen=True, kw_only=True):
    """A standing permission."""

    kind: Literal["read", "edit", "run"]
    pattern: str
    """read, edit: a glob for the displayed path. run: the exact command; `cwd` must match too."""
    cwd: str | None = None
    env_changes: tuple[str, ...] = ()
    """run: the changed variables shown with the command; they must match too."""
    scope: Scope = Scope.SESSION


SAME_QUESTION = "the answer to the same question"
"""`Answer.by` of the user's answer to another call with the same question."""


class Answer(FrozenValue, frozen=True, kw_only=True):
    """The decision on a request; the first answer wins."""

    verdict: Literal["approve", "reject", "withdrawn", "reply"]
    """`reply` answers a question; an interrupt or the end of the session gives `withdrawn`."""
    scope: Scope = Scope.ONCE
    text: str = ""
    """The reason given with a rejection, or the answer to a question."""
    by: str = "user"
    """`user`, `SAME_QUESTION`, or the flag, setting, rule or grant that decided."""
    data: dict[str, Any] | None = None
    """Changes made before approving: an edited plan or summary, or the selected and edited hunks (`HunkChoice`)."""


# --- the conversation, protocol-neutral (H2) ------------------------------------------------


class SystemMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """The system prompt."""

    text: str


class UserMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """A message of the user."""

    text: str


class ProgramMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="program"):
    """A program message in the user's role: control packet, feedback or context; `text` comes from `program_text()`."""

    text: str


class AssistantMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """A reply of the model."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = msgspec.field(default="", name="thought")
    """Sent back only to providers that require it with the tool calls (O-16)."""


class ToolMessage(FrozenValue, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """The result of a tool call as sent to the model."""

    call_id: str
    name: str
    text: str
    success: bool = True


Message: TypeAlias = SystemMessage | UserMessage | ProgramMessage | AssistantMessage | ToolMessage

PROGRAM_MARK = "<agent_"
"""Prefix of every program message; user messages never start with it."""


def program_text(kind: str, text: str) -> str:
    """Wrap the text of a program message, e.g. `<agent_feedback>…</agent_feedback>`."""
    return f"<agent_{kind}>\n{text}\n</agent_{kind}>"


# --- model servers --------------------------------------------------------------------------


class Usage(FrozenValue, frozen=True, kw_only=True):
    """Token counts and durations of one reply; None means unknown."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    load_ms: int | None = None
    prompt_ms: int | None = None
    generate_ms: int | None = None


class ModelInfo(FrozenValue, frozen=True, kw_only=True):
    """Properties of a model on a server; None means unknown."""

    name: str
    capabilities: tuple[str, ...] | None = None
    """Such as `tools`, `thinking`, `vision`; None if the server does not report them."""
    context_window: int | None = None
    """Trained or configured maximum, in tokens."""
    loaded_window: int | None = None
    """The window currently in effect, in tokens."""
    build: str = ""
    """Parameters, quantization, size on disk, such as `7.6B · Q4_K_M · 4.7 GB`."""
    any_name: bool = False
    """The server has a single model and serves it under any name."""
    parameters: float | None = None
    """In billions."""
    fitting_window: int | None = None
    """Largest window for which there is memory, in tokens, where this program runs the model."""
    loaded: bool | None = None
    """Whether the model is in memory now."""
    state: str = ""
    """Another state that the server reports, such as `loading`, `sleeping` or `failed`; otherwise empty."""
    size: int | None = None
    """Bytes of the weights on disk."""
    memory: int | None = None
    """Bytes that the loaded model takes, with its cache."""
    graphics_memory: int | None = None
    """Bytes of `memory` that are on graphics cards."""
    cache_bytes: int | None = None
    """Bytes of memory that the cache needs for each token of the window."""
    reasoning_switches: tuple[str, ...] | None = None
    """Variables of its chat template that choose whether, or how much, it reasons; None if the template is unknown."""


EffortLevel: TypeAlias = Literal["default", "off", "low", "medium", "high"]
"""How much a model reasons before it answers (L5); `default`: as models.json says, else as the server does."""
EFFORT_LEVELS: tuple[str, ...] = get_args(EffortLevel)

UNAUTHORIZED = 401
"""HTTP status of a server that requires another key or token."""


class Fault(FrozenValue, frozen=True, kw_only=True):
    """Why a request failed, as plain data for the journal."""

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
    """`broken`: the stream ended without its end marker. `model_output`: the server could not parse the output of
    the model (O-18), which calls for feedback rather than a retry."""
    message: str
    """What happened, in one or a few lines."""
    advice: str = ""
    """What the user can do about it."""
    status: int | None = None
    retry_after: float | None = None
    """Seconds, as requested by the server."""
    retryable: bool = False
    """True for failures that M7 retries, if nothing had been produced."""
    n_ctx: int | None = None
    """The actual window, if a context overflow reports it."""
    n_prompt: int | None = None

    @property
    def full_message(self) -> str:
        """Message and advice, for the user."""
        return f"{self.message} {self.advice}".strip()

    @property
    def is_unauthorized(self) -> bool:
        """Whether the server requires another key."""
        return self.status == UNAUTHORIZED

    @property
    def outcome(self) -> Literal["unreachable", "failed"]:
        """Outcome of a run that ends with it."""
        return "unreachable" if self.kind == "unreachable" else "failed"
