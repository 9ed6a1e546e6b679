"""What confines a command: said by the one that knows the workspace, carried out by the supervisor (A10, R-19)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tui_agent.domain import Noun
from tui_agent.platform import supervisor

if TYPE_CHECKING:
    from tui_agent.platform.proc import Stage


class Cage(Noun, frozen=True, kw_only=True):
    """What a command may do; `landlock` 0 without namespaces confines nothing here: the command is wrapped."""

    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    """Within what is writable, yet read only."""
    hidden: tuple[str, ...] = ()
    """Folders that look empty."""
    placed: tuple[str, ...] = ()
    """Folders that are made for as long as the command runs, so that they can be guarded although absent (G12)."""
    network: bool = False
    namespaces: bool = False
    landlock: int = 0
    """The kernel's ABI."""

    def said(self) -> tuple[supervisor.Cage | None, list[bytes]]:
        """The last two parts of a supervisor's request."""
        placed = [os.fsencode(path) for path in self.placed]
        if not self.landlock and not self.namespaces:
            return None, placed
        paths = ([os.fsencode(one) for one in some] for some in (self.writable, self.guarded, self.hidden))
        writable, guarded, hidden = paths
        return (writable, guarded, hidden, self.network, self.namespaces, self.landlock), placed


class Confinement(Protocol):
    """Confines one command. Making one may look through the workspace; using it costs nothing."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the command gets besides its own."""
        ...

    def confine(
        self, stages: Sequence[Stage], cwd: Path, more: Sequence[Path] = ()
    ) -> tuple[Sequence[Stage], Cage]:
        """The programs to start instead, and their cage; `more` are further folders that may be written."""
        ...
