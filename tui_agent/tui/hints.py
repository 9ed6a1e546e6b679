"""Words about the key that was just pressed, and leaving on the second press of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from widgets.later import after
from widgets.status_line import ActivityLine

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

QUIT_ARMED = 2.0
"""Seconds that a hint stays, and in which a second Ctrl+C quits (R11.1)."""
READ = 12
"""Characters that are read in a second, by somebody who looks elsewhere at first."""


class Hints:
    """One hint at a time, above the composer."""

    def __init__(self, app: TuiAgentApp, line: ActivityLine, *, clock: Callable[[], float]) -> None:
        self.app = app
        self._line = line
        self._clock = clock
        self._armed = float("-inf")
        self._count = 0

    def say(self, text: str) -> None:
        """A word for two seconds; a sentence for as long as reading it takes."""
        self._count += 1
        number = self._count
        self._line.say(hint=text)
        after(max(QUIT_ARMED, len(text) / READ), self.app, lambda: self._drop(number))

    def _drop(self, number: int) -> None:
        if number == self._count:
            self._line.say(hint="")

    def quit_or_arm(self, key: str) -> None:
        """The first press says what the second one does."""
        if self._clock() - self._armed <= QUIT_ARMED:
            self.app.exit(0)
        else:
            self._armed = self._clock()
            self.say(f"{key} again quits")
