"""Notifies the user of pending requests and finished runs while the terminal is not focused."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from tui_agent import events as e
from tui_agent.text import visible_name
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.driver import ScreenDriver
from tui_agent.view.change import epoch_seconds
from widgets.textual_private import driver_of

Method = Literal["off", "bell", "desktop", "desktop-777", "desktop-99"]

BELL: Final = "\a"
DESKTOP: Final = {
    "desktop": "\x1b]9;{}\a",
    "desktop-777": "\x1b]777;notify;tui-agent;{}\x1b\\",
    "desktop-99": "\x1b]99;;{}\x1b\\",
}
"""Desktop notification sequences of iTerm2, urxvt and kitty."""
IDLE_SECONDS: Final = 10.0
"""If the terminal does not report its focus, the user counts as away after this time without activity."""
MAX_LENGTH: Final = 120
"""Maximum characters of a desktop notification."""
REQUEST_EVENTS: Final = (e.ApprovalRequested, e.QuestionAsked, e.PlanProposed, e.SummaryProposed, e.PlanDocConflict)
USER_EVENTS: Final = (e.UserMessageAdded, e.ApprovalAnswered, e.QuestionAnswered, e.PlanDocResolved, e.SummaryReviewed)
"""Events that show the user's presence."""
ATTENTION_EVENTS: Final = (*REQUEST_EVENTS, e.RunEnded)
"""Events that may need the user's attention."""
OUTCOMES: Final = {
    "done": ("ends", "is done"),
    "limit": ("ends", "stopped at a limit"),
    "refused": ("failures", "was refused"),
    "failed": ("failures", "failed"),
    "unreachable": ("failures", "can't reach the model"),
}
"""Outcome of a run → its kind in the `notify_of` setting, and the text. Interrupts are not notified."""


class Notifier:
    """Rings the bell, marks the window title and sends desktop notifications, unless the terminal is focused."""

    def __init__(self, app: BaseApp) -> None:
        self.app = app
        self.method: Method = "bell"
        self.kinds: Collection[str] = ("questions", "ends", "failures")
        self._reports_focus = False
        """The terminal has reported its focus."""
        self._last_activity = 0.0
        """Time of the user's last record, in seconds since the epoch."""

    def open(self) -> None:
        """Start watching the terminal's focus reports."""
        self.app.watch(self.app, "app_focus", self._focus_changed, init=False)

    def on_user_activity(self, record: e.Record) -> None:
        """Clear the mark in the window title: the user is here."""
        if getattr(record.event, "by", "user") == "user":
            self._last_activity = epoch_seconds(record.at)
            self._set_title("")

    def on_attention(self, record: e.Record) -> None:
        """Notify the user of a pending request or the end of a run, except for replayed records."""
        session = self.app.session
        if self.method == "off" or session is None or record.seq <= session.replay_end:
            return
        kind, text = _classify(record.event)
        if kind in self.kinds and self._is_away(epoch_seconds(record.at)):
            self._notify(text)

    def _focus_changed(self, focus: bool) -> None:
        self._reports_focus = True
        if focus:
            self._set_title("")

    def _is_away(self, now: float) -> bool:
        idle = self._last_activity > 0 and now - self._last_activity >= IDLE_SECONDS
        return not self.app.app_focus or (not self._reports_focus and idle)

    def _notify(self, text: str) -> None:
        driver = driver_of(self.app)
        if driver is None:
            self.app.bell()
            return
        message = notification_text(self.app.view.workspace, text)
        driver.write(BELL)
        self._set_title(f"● {message}")
        if self.method in DESKTOP:
            driver.write(DESKTOP[self.method].format(message))

    def _set_title(self, text: str) -> None:
        if isinstance(driver := driver_of(self.app), ScreenDriver):
            driver.show_title(text)


def _classify(event: e.Event) -> tuple[str, str]:
    """Return the event's kind in the `notify_of` setting, or "" for none, and the text of the notification."""
    if isinstance(event, REQUEST_EVENTS):
        return "questions", "is waiting for you"
    if isinstance(event, e.RunEnded):
        return OUTCOMES.get(event.outcome, ("", ""))
    return "", ""


def notification_text(workspace: str, text: str) -> str:
    """Return the notification: folder name and `text`, without control characters or text written by a model."""
    name = visible_name(Path(workspace).name).replace(";", "")
    return f"tui-agent · {name[: MAX_LENGTH - 60]} {text}"
