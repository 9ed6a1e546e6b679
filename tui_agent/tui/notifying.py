"""Calls the user back to a terminal that is not in front: somebody has to decide, or a run has ended (R28.1)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tui_agent.events import (
    ApprovalAsked,
    Event,
    PlanDocConflict,
    PlanProposed,
    QuestionAsked,
    Record,
    RunEnded,
    SummaryOffered,
)

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

How = Literal["off", "bell", "desktop"]

BELL: Final = "\a"
LONGEST: Final = 120
"""Characters of what a desktop shows."""
QUESTIONS: Final = (ApprovalAsked, QuestionAsked, PlanProposed, SummaryOffered, PlanDocConflict)
ENDS: Final = {
    "done": ("ends", "is done"),
    "limit": ("ends", "stopped at a limit"),
    "refused": ("failures", "was refused"),
    "failed": ("failures", "failed"),
    "unreachable": ("failures", "does not reach the model"),
}
"""Outcome of a run → what it is in `notify_of`, and in words. Who interrupts a run is there."""


class Notifying:
    """One for a screen. Silent while the terminal has the focus, as far as it tells."""

    def __init__(self, app: TuiAgentApp) -> None:
        self.app = app
        self.how: How = "bell"
        self.of: Collection[str] = ("questions", "ends", "failures")

    def look_at(self, record: Record) -> None:
        """A record arrived; those of the past are no news."""
        session = self.app.session
        if self.how == "off" or self.app.app_focus or session is None or record.seq <= session.begins:
            return
        about, says = _news(record.event)
        if about in self.of:
            self._call(says)

    def _call(self, says: str) -> None:
        driver = self.app._driver
        if driver is None:
            return
        driver.write(BELL)
        if self.how == "desktop":
            driver.write(f"\x1b]9;{payload(self.app.view.workspace, says)}\a")


def _news(event: Event) -> tuple[str, str]:
    """What it is in `notify_of`, empty for nothing to tell, and in words."""
    if isinstance(event, QUESTIONS):
        return "questions", "waits for you"
    if isinstance(event, RunEnded):
        return ENDS.get(event.outcome, ("", ""))
    return "", ""


def payload(workspace: str, says: str) -> str:
    """What the desktop shows: the folder's name and words of ours; nothing that a model wrote, nothing that a terminal
    would take for anything but text."""
    name = "".join(letter for letter in Path(workspace).name if letter.isprintable() and letter != ";")
    return f"tui-agent · {name[: LONGEST - 60]} {says}"
