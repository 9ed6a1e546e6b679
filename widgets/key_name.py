"""What a pressed key is called, and what it does: for the `keys:` of the settings, and for terminals that keep some
(R20.2)."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from tui_agent.key_names import pressed, read_any, read_key, sign
from widgets.ink import Ink, Line, line, wrap
from widgets.line_view import LinesView
from widgets.panel import Panel, key_rows


class KeyName(Panel):
    """Every key is only looked at; Esc twice closes."""

    OWN_ACTIONS = ("cancel", "help", "interrupt")

    def __init__(self, does: Callable[[str], str]) -> None:
        """`does` says what a key does, in words."""
        super().__init__()
        self.does = does
        self.pressed = ""

    def head(self, width: int, ink: Ink) -> list[Line]:
        """What to do."""
        return [line(("Press a key", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """The key that was pressed last."""
        if not self.pressed:
            says = "What does not show up here is kept by your terminal, or by tmux or a window around it."
            return wrap([(says, ink.muted)], width)
        does = self.does(self.pressed) or "does nothing of its own"
        (_, why_not), (key, never) = read_key(self.pressed), read_any(self.pressed)
        lines = [line((sign(self.pressed), ink.accent)), *wrap([(does, ink.text)], width)]
        named = f"In `keys:` it is {self.pressed}" if not why_not else f"In `keys:` it can't stand: {why_not}"
        if why_not and not never:
            named = (
                f"In `keys:` it is {key} for what is done in dialogs, lists and panels; elsewhere {why_not}"
            )
        return [*lines, *wrap([(named, ink.muted)], width)]

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """How to leave."""
        return key_rows([("esc", "again closes" if self.pressed == "escape" else "twice closes")], width, ink)

    def on_key(self, event: events.Key) -> None:
        """Look at it."""
        event.stop()
        event.prevent_default()
        if event.key == "escape" and self.pressed == "escape":
            self.dismiss()
            return
        self.pressed = pressed(event.key, event.character)
        for part in self.query(LinesView):
            part.relayout()
