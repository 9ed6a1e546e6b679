"""What follows when the screen ends and the program continues."""

from __future__ import annotations

from typing import NamedTuple

RESTART_AS_DEMO = 1000
"""What the app returns when the user wants the demonstration; no exit code of a process."""
CONTINUE = 1001
"""What it returns when the user continues in another session."""


class ContinueIn(NamedTuple):
    """The session that the user continues in."""

    id: str
    same_folder: bool
    """It works in the folder of the session before."""
    typed_ahead: str = ""
    """What was typed already for its composer."""
