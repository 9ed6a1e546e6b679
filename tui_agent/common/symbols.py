"""Values that describe code as language servers report it (T3, T4)."""

from __future__ import annotations

from typing import Literal

from tui_agent.common.domain import FrozenValue

DiagnosticKind = Literal["error", "warning", "info", "hint"]
LocationKind = Literal["definitions", "references", "implementations"]
"""What to look up for a name."""


class SourcePosition(FrozenValue, frozen=True, kw_only=True):
    """A position in a file."""

    line: int
    """From 1."""
    column: int = 0
    """Code points before it on the line."""


class SourceLocation(FrozenValue, frozen=True, kw_only=True):
    """A range of lines in a file."""

    path: str
    """Absolute."""
    line: int
    """From 1."""
    end_line: int = 0
    """The last line; 0 if it is the first one."""


class Symbol(FrozenValue, frozen=True, kw_only=True):
    """A function, class, variable and so on."""

    name: str
    kind: str
    """`class`, `function`, `method`, …"""
    location: SourceLocation
    container: str = ""
    """Name of the enclosing symbol, as the server reports it."""
    detail: str = ""
    depth: int = 0
    """Nesting depth in its file."""


class HierarchyLink(FrozenValue, frozen=True, kw_only=True):
    """A neighbor in a hierarchy and where it is connected."""

    symbol: Symbol
    lines: tuple[int, ...] = ()
    """Lines of the calls, in the file of the caller; empty if unknown."""


class Hierarchy(FrozenValue, frozen=True, kw_only=True):
    """A symbol with its callers and callees, or its super- and subtypes."""

    symbol: Symbol
    incoming: tuple[HierarchyLink, ...] | None = ()
    """Callers or supertypes; None if not requested."""
    outgoing: tuple[HierarchyLink, ...] | None = ()
    """Callees or subtypes; None if not requested."""


class Diagnostic(FrozenValue, frozen=True, kw_only=True):
    """An error, warning or hint of a language server."""

    kind: DiagnosticKind
    line: int
    """From 1."""
    message: str
    column: int = 0
    """Code points before it on the line."""
    code: str = ""
    source: str = ""
    new: bool = False
    """It was not reported before the file was written."""


class Unavailable(FrozenValue, frozen=True, kw_only=True):
    """The result is unknown, for a reason; not a failure of the call."""

    reason: str
