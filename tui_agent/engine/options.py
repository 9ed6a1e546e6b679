"""What a front end asks of a session, light enough to be read before the engine is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

AS_ROOT = "tui-agent runs as root: its permissions cover the whole machine. Run it as an ordinary user if possible."
"""Said to whoever is there."""


class SessionOpenError(Exception):
    """The session can't be opened; the message says why and what to do. `code` is the exit status."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


class SessionOptions(msgspec.Struct, kw_only=True):
    """What a front end asks for; the rest comes from the settings."""

    workspace: Path | None = None
    """Without one: the resumed session's own, else the current folder."""
    more_roots: tuple[Path, ...] = ()
    flags: dict[str, Any]
    """Settings given on the command line, by name."""
    scenarios: Path | None = None
    trust: bool = False
    attended: bool = True
    """Somebody can answer questions."""
    accept_plan: bool = False
    """Nobody is there: carry out plans that would ask (X3)."""
    accept_summary: bool = False
    """Nobody is there: take summaries as they are (X3)."""
    resume: str | None = None
    """A session's id, the beginning of one, or `latest`."""
    fork: bool = False
    """Go on in a copy of that session, which is named by its id."""
