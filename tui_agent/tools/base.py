"""The contract between a tool and the engine: its ToolContext gives a tool everything it may touch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict

from tui_agent.common.domain import CommandOutcome, FileChange, Mode, ReadAction, Target, ToolResult
from tui_agent.common.errors import CodedError
from tui_agent.common.symbols import (
    Diagnostic,
    Hierarchy,
    LocationKind,
    SourceLocation,
    SourcePosition,
    Symbol,
    Unavailable,
)
from tui_agent.common.tables import read_table
from tui_agent.common.workplan import PlanChange


class ToolError(CodedError):
    """A failure that the model can act on; becomes `ToolResult(success=False)`.

    `code` is the machine-readable kind (see `ToolResult.code`).
    """


class ToolRefused(ToolError):
    """Leave was not given. The message tells the model why, with the user's own words if there are any."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "refused")


class Written(msgspec.Struct, frozen=True):
    """A file that was written."""

    change: FileChange
    note: str = ""
    """What the model is told: +N −N, how the user changed the edit, and errors that a language server finds (T4)."""


class SubagentTask(msgspec.Struct, frozen=True, kw_only=True):
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

    async def places(
        self, kind: LocationKind, path: Path, spot: SourcePosition
    ) -> tuple[SourceLocation, ...] | Unavailable:
        """Where it is defined, every use (the declaration among them), or what implements or overrides it."""
        ...

    async def symbols(self, name: str) -> tuple[Symbol, ...] | Unavailable:
        """Symbols of the whole workspace that are called so or alike, the likest first."""
        ...

    async def hover(self, path: Path, spot: SourcePosition) -> str | Unavailable:
        """Signature, type and documentation; empty where there are none."""
        ...

    async def calls(
        self, path: Path, spot: SourcePosition, *, incoming: bool, outgoing: bool
    ) -> Hierarchy | Unavailable | None:
        """Callers and callees of a function; None where there is none."""
        ...

    async def types(self, path: Path, spot: SourcePosition) -> Hierarchy | Unavailable | None:
        """Super- and subtypes of a class or interface; None where there is none."""
        ...


class ToolContext(Protocol):
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
    """ripgrep, found on PATH outside the workspace; None when there is none."""
    code: Code

    def resolve(self, path: str) -> Target:
        """Where `path` leads. Raises ToolError for what can never be a path (empty, NUL, loops)."""
        ...

    async def permit(self, action: ReadAction) -> None:
        """Wait for permission to read (A4). Raises Refused. The time spent here never counts against the call."""
        ...

    async def edit(self, target: Target, before: bytes | None, after: bytes) -> Written:
        """Show the edit, wait for permission, and write what the user allowed, by the replace protocol.

        Raises Refused, and ToolError `changed` when the bytes on disk are no longer `before`: work the edit out again.
        """
        ...

    def output(self, text: str) -> None:
        """Show live output of the call. Cheap and bounded; may be called from the event loop only."""
        ...

    async def run(self, command: str, cwd: str, timeout: int) -> CommandOutcome:
        """Wait for permission and run a command: as argv where it may run unasked, else in the session's shell. `cwd`
        is absolute; empty for wherever that shell stands."""
        ...

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer. Raises Refused when no user is present or they decline."""
        ...

    def mark_seen(self, path: Path, sha256: str) -> None:
        """Remember what the model has seen of a file."""
        ...

    def seen(self, path: Path) -> str | None:
        """sha256 of the file's bytes when the model last saw them; None if it never did."""
        ...

    def propose_plan(self, change: PlanChange) -> str:
        """Propose a change of the plan document: shown as pending, written only when the user accepts it (P6).

        Returns the plan as it would be, in a few lines. Raises Refused in modes that only look, `plan` apart.
        """
        ...

    async def delegate(self, subtask: SubagentTask) -> ToolResult:
        """What a sub-agent found, or how it failed with what it found until then (T5). Raises Refused where none may
        be started."""
        ...


class Args(BaseModel):
    """Base of all argument models: unknown fields are an error that names them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Args)


_aliases = partial(read_table, __file__, "aliases.json")
"""By tool, the other names of the tool and of its arguments; `arguments` may name a tool that has the same ones."""


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
    subject: ClassVar[str] = "path"
    """The argument that is shown as the title of a call."""
    modes: ClassVar[tuple[Mode, ...]] = tuple(Mode)
    """Where the model is told of it; called elsewhere it is found all the same, and refused or not by the context."""

    @abstractmethod
    async def run(self, args: A, ctx: ToolContext) -> ToolResult:
        """Do it."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names under which models call it."""
        return tuple(_aliases().get(self.name, {"names": ""})["names"].split())

    @cached_property
    def argument_aliases(self) -> dict[str, str]:
        """Other argument names → ours."""
        entry = _aliases().get(self.name, {"arguments": {}})["arguments"]
        same = _aliases()[entry]["arguments"] if isinstance(entry, str) else entry
        return {alias: name for name, others in same.items() for alias in others.split()}

    def title(self, args: A) -> str:
        """One short line for cards and tree, such as the path or the command."""
        return str(getattr(args, self.subject, ""))


__all__ = ["Args", "Code", "SubagentTask", "Tool", "ToolContext", "ToolError", "ToolRefused", "Written"]
