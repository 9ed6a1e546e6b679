"""What language servers tell of code, as nouns that tools, engine and screen share (T3, T4)."""

from __future__ import annotations

from typing import Literal

from tui_agent.common.domain import FrozenValue

DiagnosticKind = Literal["error", "warning", "info", "hint"]
PlaceKind = Literal["definitions", "references", "implementations"]
"""What is asked about a name."""


class SourcePosition(FrozenValue, frozen=True, kw_only=True):
    """A position in a file that is asked about."""

    line: int
    """From 1."""
    column: int = 0
    """Characters (code points) before it on its line."""


class SourceLocation(FrozenValue, frozen=True, kw_only=True):
    """Lines of a file that a server names."""

    path: str
    """Absolute."""
    line: int
    """From 1."""
    last: int = 0
    """The last line; 0 where it is the first one."""


class Symbol(FrozenValue, frozen=True, kw_only=True):
    """A function, class, variable and so on."""

    name: str
    kind: str
    """In a word: `class`, `function`, `method`, …"""
    place: SourceLocation
    container: str = ""
    """What it belongs to, as the server says it."""
    detail: str = ""
    depth: int = 0
    """How deep it lies within other symbols of its file."""


class HierarchyLink(FrozenValue, frozen=True, kw_only=True):
    """Another symbol and where the two meet."""

    symbol: Symbol
    lines: tuple[int, ...] = ()
    """Lines of the calls, in the file of whichever symbol calls; empty where they are not told."""


class Hierarchy(FrozenValue, frozen=True, kw_only=True):
    """A symbol and its neighbours in a hierarchy: who calls it and whom it calls, or its super- and subtypes."""

    symbol: Symbol
    above: tuple[HierarchyLink, ...] | None = ()
    """Callers or supertypes; None when they were not asked for."""
    below: tuple[HierarchyLink, ...] | None = ()
    """Callees or subtypes; None when they were not asked for."""


class Diagnostic(FrozenValue, frozen=True, kw_only=True):
    """What a server finds wrong at a place."""

    kind: DiagnosticKind
    line: int
    """From 1."""
    message: str
    column: int = 0
    """Characters before it on its line."""
    code: str = ""
    source: str = ""
    new: bool = False
    """It was not there before the file was written."""


class Unavailable(FrozenValue, frozen=True, kw_only=True):
    """Why something can't be told; never a failure of the call."""

    why: str
