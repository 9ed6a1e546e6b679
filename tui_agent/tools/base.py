"""The interface between tools and the engine: a tool accesses everything through its ToolContext."""

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
from tui_agent.common.workplan import PlanChange
from tui_agent.text.patterns import read_table


class ToolError(CodedError):
    """A failure that is reported to the model as `ToolResult(success=False)`; `code` is `ToolResult.code`."""


class ToolRefused(ToolError):
    """Permission was denied. The message gives the model the reason, quoting the user if they gave one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "refused")


class EditResult(msgspec.Struct, frozen=True):
    """A completed edit."""

    change: FileChange
    note: str = ""
    """Message for the model: +N −N, changes made by the user, and new errors reported by a language server (T4)."""


class SubagentTask(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment of a sub-agent (T5)."""

    task: str
    title: str
    hint: str = ""
    """Background information, or where to start."""
    mode: Mode = Mode.EXPLORE


class Code(Protocol):
    """Code intelligence of the language servers (T3).

    No method raises or takes longer than a minute; unknown results are `Unavailable`. A `SourcePosition` is that of a
    name.
    """

    async def diagnostics(self, path: Path) -> tuple[Diagnostic, ...] | Unavailable:
        """Return the errors and warnings of a file."""
        ...

    async def outline(self, path: Path) -> tuple[Symbol, ...] | Unavailable:
        """Return the symbols of a file, outer ones before the ones they contain."""
        ...

    async def locations(
        self, kind: LocationKind, path: Path, position: SourcePosition
    ) -> tuple[SourceLocation, ...] | Unavailable:
        """Return the definitions, references (including the declaration) or implementations of a name."""
        ...

    async def symbols(self, name: str) -> tuple[Symbol, ...] | Unavailable:
        """Search the workspace for symbols with this or a similar name, best match first."""
        ...

    async def hover(self, path: Path, position: SourcePosition) -> str | Unavailable:
        """Return signature, type and documentation, or an empty string."""
        ...

    async def calls(
        self, path: Path, position: SourcePosition, *, incoming: bool, outgoing: bool
    ) -> Hierarchy | Unavailable | None:
        """Return the callers and callees of a function; None if there is no function."""
        ...

    async def types(self, path: Path, position: SourcePosition) -> Hierarchy | Unavailable | None:
        """Return the super- and subtypes of a class or interface; None if there is none."""
        ...


class ToolContext(Protocol):
    """Everything that a tool may access; the engine creates one for each call."""

    scratch: Path
    """The session's folder for temporary files (T6)."""
    roots: tuple[Path, ...]
    mode: Mode
    command_timeout: int
    """Default timeout of commands, in seconds."""
    command_timeout_max: int
    search_matches: int
    """Maximum number of matches of one search."""
    search_program: Path | None
    """ripgrep, found on PATH outside the workspace, or None."""
    code: Code

    def resolve(self, path: str) -> Target:
        """Resolve a path. Raises ToolError for an invalid one (empty, NUL, symlink loop)."""
        ...

    async def permit(self, action: ReadAction) -> None:
        """Wait for permission to read (A4); the waiting time does not count against the call's timeout. Raises
        ToolRefused."""
        ...

    async def edit(
        self, target: Target, before: bytes | None, after: bytes, *, expected: bytes | None = None
    ) -> EditResult:
        """Show the edit, wait for permission, and write what the user allowed.

        `expected` is what the model expects the file to contain then, if another program has changed it too. A
        concurrent change of other lines is kept. Raises ToolRefused, and ToolError `changed` if the file no longer
        contains the lines that the edit changes; it must then be recomputed.
        """
        ...

    def output(self, text: str) -> None:
        """Show live output of the call. Cheap and bounded; call it from the event loop only."""
        ...

    async def run(self, command: str, cwd: str, timeout: int) -> CommandOutcome:
        """Wait for permission and run a command: without a shell if it is safe, else in the session's shell.

        `cwd` is absolute; empty for the current folder of the shell.
        """
        ...

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """Ask the user. Raises ToolRefused if no user is present or they decline."""
        ...

    def mark_seen(self, path: Path, sha256: str, content: bytes | None = None) -> None:
        """Record which version of a file the model has seen, and its content if that is small."""
        ...

    def seen_content(self, path: Path) -> bytes | None:
        """Return the content that the model saw last, or None if it was not kept."""
        ...

    def last_seen(self, path: Path) -> str | None:
        """Return the sha256 of the file version that the model saw last, or None."""
        ...

    def propose_plan(self, change: PlanChange) -> str:
        """Propose a change of the plan document, pending until the user accepts it (P6).

        Returns a short text of the changed plan. Raises ToolRefused in the read-only modes except `plan`.
        """
        ...

    async def delegate(self, subtask: SubagentTask) -> ToolResult:
        """Run a sub-agent and return its report, partial on failure (T5). Raises ToolRefused if none may be started."""
        ...


class Args(BaseModel):
    """Base of all argument models; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Args)


_aliases = partial(read_table, __package__, "aliases.json")
"""Aliases of each tool and its arguments; `arguments` may name another tool to share its aliases."""


class Tool(ABC, Generic[A]):
    """A tool (T7): a module with a description file of the shared name.

    `run` may raise ToolError; any other exception is a bug and is reported without a traceback.
    """

    name: ClassVar[str]
    args: type[A]
    reads_only: ClassVar[bool]
    """It changes nothing: such calls of one reply run in parallel."""
    timeout: ClassVar[float | None] = 5.0
    """Seconds, not counting the time spent waiting for the user; None if the tool limits its own time."""
    subject: ClassVar[str] = "path"
    """The argument shown as the title of a call."""
    modes: ClassVar[tuple[Mode, ...]] = tuple(Mode)
    """Modes that offer the tool; elsewhere a call still reaches it, and the context decides whether to refuse."""

    @abstractmethod
    async def run(self, args: A, ctx: ToolContext) -> ToolResult:
        """Execute the call."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names that models use for the tool."""
        return tuple(_aliases().get(self.name, {"names": ""})["names"].split())

    @cached_property
    def argument_aliases(self) -> dict[str, str]:
        """Other argument names → canonical name."""
        entry = _aliases().get(self.name, {"arguments": {}})["arguments"]
        shared = _aliases()[entry]["arguments"] if isinstance(entry, str) else entry
        return {alias: name for name, alternatives in shared.items() for alias in alternatives.split()}

    def title(self, args: A) -> str:
        """Return a short line for cards and tree, such as the path or the command."""
        return str(getattr(args, self.subject, ""))
