"""The messages that wait for their turn: moved, meant for this run or the next, taken back, withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

from textual import events

from tui_agent.text import one_line
from tui_agent.view.items import SessionView
from widgets.dialog_keys import Keys, key_lines
from widgets.panel import ListPanel, cursor_mark
from widgets.styled_text import Line, TextStyles, fit, line

NOTHING = "The queue is empty. Messages you send during a run are queued, and each starts its own run afterwards."


class WaitingMessage(NamedTuple):
    """A message of the queue."""

    id: str
    text: str
    steering: bool


class QueueApi(Protocol):
    """The queue, by the ids of its messages. One may have left it when the user asks."""

    def order(self) -> list[tuple[str, bool]]:
        """Ids as they stand by now, each with whether it guides the run that goes on."""

    def move(self, message: str, before: str) -> object:
        """Before another one; to the end without one."""

    def set_steering(self, message: str, steering: bool) -> object:
        """Meant for the run that goes on, or for one of its own."""

    def send(self) -> object:
        """Begin with the first one: nothing runs."""


class QueuePanel(ListPanel[WaitingMessage]):
    """One message after the other; up and down choose."""

    TITLE = "Queued messages"

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)
    KEYS = Keys("queue")
    EMPTY = NOTHING

    def __init__(
        self, view: SessionView, queue: QueueApi, *, edit: Callable[[str], None], withdraw: Callable[[str], None]
    ) -> None:
        """Texts are the view's; the order is the queue's own, which is ahead of it."""
        super().__init__()
        self.view = view
        self._queue, self._edit, self._withdraw = queue, edit, withdraw
        self.list.rows = self._messages()

    def _messages(self) -> list[WaitingMessage]:
        """In the order in which they are sent."""
        texts = {message.id: message.text for message in self.view.queue}
        return [WaitingMessage(id, texts[id], steering) for id, steering in self._queue.order() if id in texts]

    def refresh_queue(self) -> None:
        """The queue changed. The cursor stays at its message; when that is gone, at its place."""
        chosen, rows = self.list.current, self._messages()
        places = [index for index, row in enumerate(rows) if chosen is not None and row.id == chosen.id]
        self.show_rows(rows, places[0] if places else self.list.cursor)

    def row_lines(self, row: WaitingMessage, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Whether it guides the run, and the message."""
        kind = ("guide   ", styles.accent) if row.steering else ("queued  ", styles.muted)
        text = fit(one_line(row.text, width), max(1, width - 10))
        return [line(cursor_mark(selected, styles), kind, (text, styles.strong if selected else styles.text))]

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be done with the chosen one."""
        pairs = [("esc", "closes")]
        if (chosen := self.list.current) is not None:
            means = "queue for its own run" if chosen.steering else "steer the run"
            pairs = [*self.KEYS.hints([("edit", "edit"), ("guide", means), ("withdraw", "withdraw")]), *pairs]
            if len(self.list.rows) > 1:
                moves = [
                    (self.KEYS.arrow_labels("up", "down"), "choose"),
                    (self.KEYS.labels("earlier", "later"), "move"),
                ]
                pairs = [*moves, *pairs]
            if not self.view.busy:
                pairs[-1:-1] = self.KEYS.hints([("send", "send the first")])
        return key_lines(pairs, width, styles)

    def closes(self, event: events.Key) -> bool:
        """Also the key that stops elsewhere."""
        return super().closes(event) or event.key == "ctrl+c"

    def act(self, event: events.Key) -> bool:
        """On the queue as it is now."""
        self.refresh_queue()
        return super().act(event)

    def do(self, action: str, chosen: WaitingMessage) -> None:
        """What is done with the chosen message."""
        index, rows = self.list.cursor, self.list.rows
        following = [*(row.id for row in rows[index + 2 : index + 3]), ""]
        match action:
            case "edit":
                self.dismiss()
                self._edit(chosen.id)
                return
            case "withdraw":
                self._withdraw(chosen.id)
            case "guide":
                self._queue.set_steering(chosen.id, not chosen.steering)
            case "send" if not self.view.busy:
                self._queue.send()
            case "earlier" if index:
                self._queue.move(chosen.id, rows[index - 1].id)
            case "later" if index + 1 < len(rows):
                self._queue.move(chosen.id, following[0])
        self.refresh_queue()
