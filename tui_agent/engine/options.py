"""Options for opening a session; importable without loading the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

AS_ROOT = "tui-agent runs as root: its permissions cover the whole machine. Run it as an ordinary user if possible."


class SessionOpenError(Exception):
    """The session can't be opened. The message says why and what to do; `code` is the exit status."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


class SessionOptions(msgspec.Struct, kw_only=True):
    """Options chosen by a surface; everything else comes from the settings."""

    workspace: Path | None = None
    """Defaults to the resumed session's workspace, else to the current folder."""
    more_roots: tuple[Path, ...] = ()
    flags: dict[str, Any]
    """Settings given on the command line, by name."""
    temporary: bool = False
    """The workspace is removed when the process ends, so there will be nothing to resume."""
    scenarios: Path | None = None
    trust: bool = False
    attended: bool = True
    """A person can answer questions."""
    accept_plan: bool = False
    """Unattended: execute plans that need a review (X3)."""
    accept_summary: bool = False
    """Unattended: accept summaries unchanged (X3)."""
    resume: str | None = None
    """A session's id, a prefix of it, or `latest`."""
    fork: bool = False
    """Continue in a copy of that session, given by its id."""
