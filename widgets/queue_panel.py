"""The messages that wait for their turn: each can be taken back into the composer, or withdrawn (R11.3)."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from tui_agent.text import one_line
from tui_agent.view import SessionView
from widgets.ink import Ink, Line, fit, line, wrap
from widgets.line_view import LinesView
from widgets.panel import Panel

NOTHING = (
    "Nothing waits. What you send while a run goes on is queued, and starts a run of its own afterwards."
)


class QueuePanel(Panel):
    """One message after the other; up and down choose, enter takes back, x withdraws."""

    def __init__(
        self, view: SessionView, take_back: Callable[[str], object], withdraw: Callable[[str], object]
    ) -> None:
        """Both are called with a message's id. A message may have left the queue when they are."""
        super().__init__()
        self.view = view
        self._take_back, self._withdraw = take_back, withdraw
        self._gone: set[str] = set()
        self.place = 0

    @property
    def _waiting(self) -> list[tuple[str, str, bool]]:
        return [(one.id, one.text, one.steering) for one in self.view.queue if one.id not in self._gone]

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("What waits for its turn", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """In the order in which they are sent."""
        waiting = self._waiting
        if not waiting:
            return wrap([(NOTHING, ink.muted)], width)
        return [
            line(
                ("▸ " if place == self.place else "  ", ink.accent),
                ("guide   " if steering else "queued  ", ink.muted),
                (
                    fit(one_line(text, width), max(1, width - 10)),
                    ink.strong if place == self.place else ink.text,
                ),
            )
            for place, (_id, text, steering) in enumerate(waiting)
        ]

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """How to choose, take back, withdraw and leave."""
        pairs = [("esc", "closes")]
        if self._waiting:
            pairs = [("↑ ↓", "choose"), ("enter", "edit it"), ("x", "withdraw it"), *pairs]
        spans = [span for key, does in pairs for span in ((key, ink.accent), (f" {does}   ", ink.muted))]
        return [line(*spans)]

    def on_key(self, event: events.Key) -> None:
        """Choose, take back, withdraw, or what every panel takes."""
        waiting = self._waiting
        if not waiting or event.key not in ("up", "down", "x", "enter"):
            super().on_key(event)
            return
        event.stop()
        event.prevent_default()
        self.place = min(self.place, len(waiting) - 1)
        chosen = waiting[self.place][0]
        if event.key == "enter":
            self.dismiss()
            self._take_back(chosen)
            return
        if event.key == "x":
            self._gone.add(chosen)
            self._withdraw(chosen)
        else:
            self.place += 1 if event.key == "down" else -1
        self.place = min(max(0, self.place), max(0, len(self._waiting) - 1))
        self._show()

    def _show(self) -> None:
        body = self.query_one("#body", LinesView)
        body.relayout()
        self.query_one("#keys", LinesView).relayout()
        top = body.scroll_offset.y
        if not top <= self.place < top + body.size.height:
            body.scroll_to(y=self.place, animate=False)
