"""What follows when the screen ends and the program goes on."""

from __future__ import annotations

from typing import NamedTuple

RESTART_AS_DEMO = 1000
"""What the app returns when the user wants the demonstration; no exit code of a process."""
GO_ON = 1001
"""What it returns when the user goes on in another session."""


class GoOn(NamedTuple):
    """The session that the user goes on in."""

    id: str
    same_folder: bool
    """It works in the folder of the session before."""
    typed: str = ""
    """What was typed already for its composer."""
