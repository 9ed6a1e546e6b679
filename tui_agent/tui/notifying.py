"""Calls the user back to a terminal that is not in front: somebody has to decide, or a run has ended (R28.1)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tui_agent.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    PlanDocConflict,
    PlanDocSettled,
    PlanProposed,
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunEnded,
    SummaryOffered,
    SummarySettled,
    UserSaid,
)
from tui_agent.tui.driver import ScreenDriver
from tui_agent.view.change import seconds

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

How = Literal["off", "bell", "desktop", "desktop-777", "desktop-99"]

BELL: Final = "\a"
DESKTOP: Final = {
    "desktop": "\x1b]9;{}\a",
    "desktop-777": "\x1b]777;notify;tui-agent;{}\x1b\\",
    "desktop-99": "\x1b]99;;{}\x1b\\",
}
"""How a terminal is asked to tell the desktop: as iTerm2, as urxvt and as kitty have it."""
LONG: Final = 10.0
"""Seconds without a word of the user, after which a call is welcome also where the terminal does not tell whether it
is in front (R28.1)."""
LONGEST: Final = 120
"""Characters of what a desktop shows."""
QUESTIONS: Final = (ApprovalAsked, QuestionAsked, PlanProposed, SummaryOffered, PlanDocConflict)
HERE: Final = (UserSaid, ApprovalAnswered, QuestionAnswered, PlanDocSettled, SummarySettled)
"""What shows that the user was there."""
ENDS: Final = {
    "done": ("ends", "is done"),
    "limit": ("ends", "stopped at a limit"),
    "refused": ("failures", "was refused"),
    "failed": ("failures", "failed"),
    "unreachable": ("failures", "does not reach the model"),
}
"""Outcome of a run → what it is in `notify_of`, and in words. Who interrupts a run is there."""


class Notifying:
    """One for a screen. Silent while the terminal says that it has the focus; one that never says so is taken for left
    alone once the user has done nothing for long."""

    def __init__(self, app: TuiAgentApp) -> None:
        self.app = app
        self.how: How = "bell"
        self.of: Collection[str] = ("questions", "ends", "failures")
        self._tells = False
        """The terminal has said where the focus is."""
        self._seen = 0.0
        """When the user last did something, by the record of it."""

    def open(self) -> None:
        """The screen is there: listen to what the terminal says."""
        self.app.watch(self.app, "app_focus", self._told, init=False)

    def look_at(self, record: Record) -> None:
        """A record arrived; those of the past are no news."""
        session = self.app.session
        if isinstance(record.event, HERE) and getattr(record.event, "by", "user") == "user":
            self._seen = seconds(record.at)
            self._title("")
        if self.how == "off" or session is None or record.seq <= session.begins:
            return
        about, says = _news(record.event)
        if about in self.of and self._away(seconds(record.at)):
            self._call(says)

    def _told(self, focus: bool) -> None:
        self._tells = True
        if focus:
            self._title("")

    def _away(self, now: float) -> bool:
        return not self.app.app_focus or (not self._tells and self._seen > 0 and now - self._seen >= LONG)

    def _call(self, says: str) -> None:
        driver = self.app._driver
        if driver is None:
            return
        shown = payload(self.app.view.workspace, says)
        driver.write(BELL)
        self._title(f"● {shown}")
        if self.how in DESKTOP:
            driver.write(DESKTOP[self.how].format(shown))

    def _title(self, text: str) -> None:
        """Mark the window, or unmark it: among many it is the one that calls."""
        if isinstance(self.app._driver, ScreenDriver):
            self.app._driver.show_title(text)


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
