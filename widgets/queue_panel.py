"""The messages that wait for their turn: moved, meant for this run or the next, taken back, withdrawn (R11.3)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

from textual import events

from tui_agent.text import one_line
from tui_agent.view import SessionView
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, fit, line, wrap
from widgets.line_view import LinesView
from widgets.panel import Panel, key_rows

NOTHING = (
    "Nothing waits. What you send while a run goes on is queued, and starts a run of its own afterwards."
)
KEYS = Keys("queue")


class Waiting(NamedTuple):
    """A message of the queue."""

    id: str
    text: str
    steering: bool


class QueueDoor(Protocol):
    """What the user wants of the queue, by the ids of its messages. One may have left it when they ask."""

    def order(self) -> list[tuple[str, bool]]:
        """Ids as they stand by now, each with whether it guides the run that goes on."""
        ...

    def take_back(self, message: str) -> None:
        """Into the composer."""
        ...

    def withdraw(self, message: str) -> None:
        """Out of the queue."""
        ...

    def move(self, message: str, before: str) -> None:
        """Before another one; to the end without one."""
        ...

    def guide(self, message: str, steering: bool) -> None:
        """Meant for the run that goes on, or for one of its own."""
        ...

    def send(self) -> None:
        """Begin with the first one: nothing runs."""
        ...


class QueuePanel(Panel):
    """One message after the other; up and down choose."""

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)

    def __init__(self, view: SessionView, door: QueueDoor) -> None:
        """Texts are the view's; the order is what the door says, which is ahead of it."""
        super().__init__()
        self.view = view
        self._door = door
        self._chosen = ""
        self.place = 0

    def waiting(self) -> list[Waiting]:
        """In the order in which they are sent."""
        texts = {one.id: one.text for one in self.view.queue}
        return [Waiting(id, texts[id], steering) for id, steering in self._door.order() if id in texts]

    def _find(self, waiting: list[Waiting]) -> None:
        """The chosen message stays the chosen one wherever it goes; when it is gone, the one in its place is."""
        place = next((n for n, one in enumerate(waiting) if one.id == self._chosen), self.place)
        self.place = min(max(0, place), max(0, len(waiting) - 1))
        self._chosen = waiting[self.place].id if waiting else ""

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("What waits for its turn", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """In the order in which they are sent."""
        waiting = self.waiting()
        self._find(waiting)
        if not waiting:
            return wrap([(NOTHING, ink.muted)], width)
        return [
            line(
                ("▸ " if place == self.place else "  ", ink.accent),
                ("guide   " if steering else "queued  ", ink.accent if steering else ink.muted),
                (
                    fit(one_line(text, width), max(1, width - 10)),
                    ink.strong if place == self.place else ink.text,
                ),
            )
            for place, (_id, text, steering) in enumerate(waiting)
        ]

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """What can be done with the chosen one."""
        waiting = self.waiting()
        pairs = [("esc", "closes")]
        if waiting:
            self._find(waiting)
            means = "wait for its run" if waiting[self.place].steering else "guide the run"
            pairs = [*KEYS.pairs([("edit", "edit"), ("guide", means), ("withdraw", "withdraw")]), *pairs]
            if len(waiting) > 1:
                moves = [(KEYS.arrows("up", "down"), "choose"), (KEYS.both("earlier", "later"), "move")]
                pairs = [*(pair for pair in moves if pair[0]), *pairs]
            if not self.view.busy:
                pairs[-1:-1] = KEYS.pairs([("send", "send the first")])
        return key_rows(pairs, width, ink)

    def closes(self, event: events.Key) -> bool:
        """Also the key that stops elsewhere."""
        return super().closes(event) or event.key == "ctrl+c"

    def on_key(self, event: events.Key) -> None:
        """What is done with the chosen one, or what every panel takes."""
        waiting = self.waiting()
        action = KEYS.does(event)
        if not waiting or not action:
            super().on_key(event)
            return
        event.stop()
        event.prevent_default()
        self._find(waiting)
        self._do(action, waiting)

    def _do(self, action: str, waiting: list[Waiting]) -> None:
        chosen = waiting[self.place]
        steps = {"up": -1, "down": 1, "top": -len(waiting), "bottom": len(waiting)}
        if action in steps:
            self.place += steps[action]
            self._chosen = ""
        elif action == "edit":
            self.dismiss()
            self._door.take_back(chosen.id)
            return
        elif action == "withdraw":
            self._door.withdraw(chosen.id)
        elif action == "guide":
            self._door.guide(chosen.id, not chosen.steering)
        elif action == "send":
            if not self.view.busy:
                self._door.send()
        elif action == "earlier":
            if self.place:
                self._door.move(chosen.id, waiting[self.place - 1].id)
        elif self.place + 1 < len(waiting):
            behind = waiting[self.place + 2].id if self.place + 2 < len(waiting) else ""
            self._door.move(chosen.id, behind)
        self.refresh_queue()

    def refresh_queue(self) -> None:
        """The queue is another now."""
        if not self.is_mounted:
            return
        body = self.query_one("#body", LinesView)
        body.relayout()
        self.query_one("#keys", LinesView).relayout()
        self._find(self.waiting())
        top = body.scroll_offset.y
        if self.place < top:
            body.scroll_to(y=self.place, animate=False)
        elif self.place >= top + body.size.height:
            body.scroll_to(y=self.place - body.size.height + 1, animate=False)
