"""The contract between a tool and the engine: a tool works at a bench that gives it everything it may touch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict

from tui_agent.domain import (
    Action,
    CommandOutcome,
    Editing,
    FileChange,
    Mode,
    Permit,
    Running,
    Target,
    ToolResult,
)
from tui_agent.symbols import Diagnostic, Family, Place, Spot, Symbol, Unavailable
from tui_agent.workplan import PlanChange


class ToolError(Exception):
    """A failure that the model can act on; becomes `ToolResult(success=False)`.

    `code` is the machine-readable kind (see `ToolResult.code`).
    """

    def __init__(self, message: str, code: str = "other") -> None:
        super().__init__(message)
        self.code = code


class Refused(ToolError):
    """Leave was not given. The message tells the model why, with the user's own words if there are any."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "refused")


class Agreed(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to write a file: the bytes that may be written, which the user may have made others than was asked for."""

    permit: Permit
    content: bytes
    note: str = ""
    """What the model must know of the difference."""


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What a sub-agent is sent out for (T5)."""

    task: str
    title: str
    hint: str = ""
    """What it should know or look at first."""
    mode: Mode = Mode.EXPLORE


class Code(Protocol):
    """What language servers know of the code (T3). Nothing here raises or takes longer than a minute: what can't be
    told is `Unavailable`. A `Spot` is where a name stands in the file."""

    async def diagnostics(self, path: Path) -> tuple[Diagnostic, ...] | Unavailable:
        """What is wrong in a file."""
        ...

    async def outline(self, path: Path) -> tuple[Symbol, ...] | Unavailable:
        """The symbols of a file, outer ones before what they hold."""
        ...

    async def definitions(self, path: Path, spot: Spot) -> tuple[Place, ...] | Unavailable:
        """Where it is defined."""
        ...

    async def references(self, path: Path, spot: Spot) -> tuple[Place, ...] | Unavailable:
        """Every use, the declaration among them."""
        ...

    async def implementations(self, path: Path, spot: Spot) -> tuple[Place, ...] | Unavailable:
        """What implements or overrides it."""
        ...

    async def symbols(self, name: str) -> tuple[Symbol, ...] | Unavailable:
        """Symbols of the whole workspace that are called so or alike, the likest first."""
        ...

    async def hover(self, path: Path, spot: Spot) -> str | Unavailable:
        """Signature, type and documentation; empty where there are none."""
        ...

    async def calls(
        self, path: Path, spot: Spot, *, incoming: bool, outgoing: bool
    ) -> Family | Unavailable | None:
        """Callers and callees of a function; None where there is none."""
        ...

    async def types(self, path: Path, spot: Spot) -> Family | Unavailable | None:
        """Super- and subtypes of a class or interface; None where there is none."""
        ...


class Bench(Protocol):
    """All that a tool may touch. Filled in by the engine, once a call."""

    scratch: Path
    """The session's folder for temporary files (T6)."""
    roots: tuple[Path, ...]
    mode: Mode
    command_timeout: int
    """Seconds; the default for commands."""
    command_timeout_max: int
    search_matches: int
    """Matches that one search gives at the most."""
    search_program: Path | None
    """ripgrep, found on PATH outside the workspace (R-04); None when there is none."""
    code: Code

    def resolve(self, path: str) -> Target:
        """Where `path` leads (E01–E05). Raises ToolError for what can never be a path (empty, NUL, loops)."""
        ...

    async def permit(self, action: Action) -> Permit:
        """Wait for leave (A4). Raises Refused. The time spent here never counts against the call."""
        ...

    async def permit_edit(self, action: Editing, before: bytes | None, after: bytes) -> Agreed:
        """Wait for leave to make an edit, or a part of it; `before` and `after` are the bytes that it is about.

        Raises Refused, and ToolError `changed` when the file became another one while somebody decided."""
        ...

    def output(self, text: str) -> None:
        """Show live output of the call. Cheap and bounded; may be called from the event loop only."""
        ...

    async def write(self, permit: Permit, content: bytes) -> FileChange:
        """Carry out an approved edit by the replace protocol (FAULTS 5.3). Raises ToolError `changed` when the
        bytes on disk are no longer those of the permit: ask again with a new diff, never overwrite."""
        ...

    async def checked(self, change: FileChange) -> str:
        """The errors that a language server finds in a file that was just written, for the model; empty without any
        and where nothing can be told in time (T4). Shown to the user, too. Never raises."""
        ...

    async def run(self, permit: Permit, timeout: int) -> CommandOutcome:
        """Carry out an approved command: as argv where it may run unasked, else in the session's shell."""
        ...

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer. Raises Refused when no user is present or they decline."""
        ...

    def saw(self, path: Path, sha256: str) -> None:
        """Remember what the model has seen of a file (R5.4)."""
        ...

    def seen(self, path: Path) -> str | None:
        """sha256 of the file's bytes when the model last saw them; None if it never did."""
        ...

    def propose_plan(self, change: PlanChange) -> str:
        """Propose a change of the plan document: shown as pending, written only when the user accepts it (P6).

        Returns the plan as it would be, in a few lines. Raises Refused in modes that only look, `plan` apart.
        """
        ...

    async def delegate(self, errand: Errand) -> ToolResult:
        """What a sub-agent found, or how it failed with what it found until then (T5). Raises Refused where none may
        be started."""
        ...

    async def judge(self, command: str, cwd: str) -> Running:
        """The command with its severity and whether it may run unasked."""
        ...

    async def diff(self, target: Target, before: bytes | None, after: bytes) -> Editing:
        """The edit as an action, its diff computed off the event loop."""
        ...


class Args(BaseModel):
    """Base of all argument models: unknown fields are an error that names them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Args)


class Tool(ABC, Generic[A]):
    """One thing the model can do (T7): a file with a description beside it, registered by one line.

    `run` may raise ToolError; anything else it raises is a defect and is reported as such without a traceback.
    """

    name: ClassVar[str]
    args: type[A]
    reads_only: ClassVar[bool]
    """True when running it can change nothing: such calls of one reply run in parallel."""
    timeout: ClassVar[float | None] = 5.0
    """Seconds without the time spent waiting for the user; None when the tool keeps its own time."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names under which models call it."""
    argument_aliases: ClassVar[dict[str, str]] = {}
    """Other argument names → ours."""

    modes: ClassVar[tuple[Mode, ...]] = tuple(Mode)
    """Where the model is told of it; called elsewhere it is found all the same, and refused or not by the bench."""

    @abstractmethod
    async def run(self, args: A, bench: Bench) -> ToolResult:
        """Do it."""

    def title(self, args: A) -> str:
        """One short line for cards and tree, such as the path or the command."""
        return ""


__all__ = [
    "Agreed",
    "Args",
    "Bench",
    "Code",
    "Errand",
    "Refused",
    "Tool",
    "ToolError",
]
