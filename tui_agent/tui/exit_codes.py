"""Return values of the app that are not exit codes of the process: the program continues."""

from __future__ import annotations

from typing import NamedTuple

RESTART_AS_DEMO = 1000
"""The user chose the demo."""
CONTINUE = 1001
"""The user continues in another session."""


class ContinueIn(NamedTuple):
    """The session to open next."""

    id: str
    same_folder: bool
    """It has the same workspace as the current session."""
    typed_ahead: str = ""
    """Text that was already typed for its composer."""
