"""Calls the user back to a terminal that is not in front: somebody has to decide, or a run has ended."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from tui_agent.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    PlanDocConflict,
    PlanDocResolved,
    PlanProposed,
    QuestionAnswered,
    QuestionAsked,
    Record,
    RunEnded,
    SummaryProposed,
    SummaryReviewed,
    UserMessageAdded,
)
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.driver import ScreenDriver
from tui_agent.view.change import epoch_seconds
from widgets.textual_private import driver_of

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
is in front."""
LONGEST: Final = 120
"""Characters of what a desktop shows."""
QUESTIONS: Final = (ApprovalRequested, QuestionAsked, PlanProposed, SummaryProposed, PlanDocConflict)
USER_EVENTS: Final = (UserMessageAdded, ApprovalAnswered, QuestionAnswered, PlanDocResolved, SummaryReviewed)
"""Events that show the user's presence."""
ATTENTION_EVENTS: Final = (*QUESTIONS, RunEnded)
"""What may need the user's attention."""
ENDS: Final = {
    "done": ("ends", "is done"),
    "limit": ("ends", "stopped at a limit"),
    "refused": ("failures", "was refused"),
    "failed": ("failures", "failed"),
    "unreachable": ("failures", "can't reach the model"),
}
"""Outcome of a run → its kind in `notify_of`, and words. An interrupt needs no notification."""


class Notifier:
    """One for a screen. Silent while the terminal says that it has the focus; one that never says so is taken for left
    alone once the user has done nothing for long."""

    def __init__(self, app: BaseApp) -> None:
        self.app = app
        self.how: How = "bell"
        self.of: Collection[str] = ("questions", "ends", "failures")
        self._tells = False
        """The terminal reports its focus."""
        self._seen = 0.0
        """When the user last did something, by the record of it."""

    def open(self) -> None:
        """Listen to the terminal's focus reports."""
        self.app.watch(self.app, "app_focus", self._focus_changed, init=False)

    def on_user(self, record: Record) -> None:
        """The user did something: nothing needs attention any more."""
        if getattr(record.event, "by", "user") == "user":
            self._seen = epoch_seconds(record.at)
            self._title("")

    def on_attention(self, record: Record) -> None:
        """Something waits for the user, or a run ended; past records are no news."""
        session = self.app.session
        if self.how == "off" or session is None or record.seq <= session.begins:
            return
        kind, words = _news(record.event)
        if kind in self.of and self._away(epoch_seconds(record.at)):
            self._call(words)

    def _focus_changed(self, focus: bool) -> None:
        self._tells = True
        if focus:
            self._title("")

    def _away(self, now: float) -> bool:
        return not self.app.app_focus or (not self._tells and self._seen > 0 and now - self._seen >= LONG)

    def _call(self, says: str) -> None:
        driver = driver_of(self.app)
        if driver is None:
            self.app.bell()
            return
        shown = notification_text(self.app.view.workspace, says)
        driver.write(BELL)
        self._title(f"● {shown}")
        if self.how in DESKTOP:
            driver.write(DESKTOP[self.how].format(shown))

    def _title(self, text: str) -> None:
        """Mark the window, or unmark it: among many it is the one that calls."""
        if isinstance(driver := driver_of(self.app), ScreenDriver):
            driver.show_title(text)


def _news(event: Event) -> tuple[str, str]:
    """What it is in `notify_of`, empty for nothing to tell, and in words."""
    if isinstance(event, QUESTIONS):
        return "questions", "is waiting for you"
    if isinstance(event, RunEnded):
        return ENDS.get(event.outcome, ("", ""))
    return "", ""


def notification_text(workspace: str, says: str) -> str:
    """What the desktop shows: the folder's name and words of ours; nothing that a model wrote, nothing that a terminal
    would take for anything but text."""
    name = "".join(letter for letter in Path(workspace).name if letter.isprintable() and letter != ";")
    return f"tui-agent · {name[: LONGEST - 60]} {says}"
