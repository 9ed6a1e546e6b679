"""The panel of queued messages: reorder, edit, withdraw, or use as steering for the active run."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

from textual import events

from tui_agent.text import one_line
from tui_agent.view.items import SessionView
from widgets.dialog_keys import Keys
from widgets.panel import ListPanel, cursor_mark
from widgets.styled_text import Line, TextStyles, fit, line


class WaitingMessage(NamedTuple):
    """A queued message."""

    id: str
    text: str
    steering: bool


class QueueApi(Protocol):
    """The queue of the session. Messages may leave it at any time; unknown ids are ignored."""

    def order(self) -> list[tuple[str, bool]]:
        """Return the messages in order as (id, whether it is steering)."""

    def move(self, message: str, before: str) -> object:
        """Move a message before another one; an empty `before` is the end."""

    def set_steering(self, message: str, steering: bool) -> object:
        """Deliver a message to the active run, or let it start its own."""

    def send(self) -> object:
        """Start a run with the first message, if no run is active."""


class QueuePanel(ListPanel[WaitingMessage]):
    """Lists the queued messages in the order in which they are sent."""

    TITLE = "Queued messages"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)
    KEYS = Keys("queue")
    KEY_GAP = 2
    EMPTY = "The queue is empty. Messages you send during a run are queued, and each starts its own run afterwards."

    def __init__(
        self, view: SessionView, queue: QueueApi, *, edit: Callable[[str], None], withdraw: Callable[[str], None]
    ) -> None:
        """Texts come from `view`, the order from `queue`, which changes first."""
        super().__init__()
        self.view = view
        self._queue, self._edit, self._withdraw = queue, edit, withdraw
        self.list_view.rows = self._messages()

    def _messages(self) -> list[WaitingMessage]:
        texts = {message.id: message.text for message in self.view.queue}
        return [WaitingMessage(id, texts[id], steering) for id, steering in self._queue.order() if id in texts]

    def refresh_queue(self) -> None:
        """Show the changed queue. The cursor stays at its message, or at its row if the message is gone."""
        current, rows = self.list_view.current, self._messages()
        ids = [row.id for row in rows]
        is_listed = current is not None and current.id in ids
        self.show_rows(rows, ids.index(current.id) if current is not None and is_listed else self.list_view.cursor)

    def row_lines(self, row: WaitingMessage, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        kind = ("steering  ", styles.accent) if row.steering else ("queued    ", styles.muted)
        text = fit(one_line(row.text, width), max(1, width - 12))
        return [line(cursor_mark(selected, styles), kind, (text, styles.strong if selected else styles.text))]

    def row_keys(self, row: WaitingMessage) -> list[tuple[str, str]]:
        """Return the keys for a message; those that move need two."""
        moves = [(self.KEYS.arrow_labels("up", "down"), "choose"), (self.KEYS.labels("earlier", "later"), "move")]
        toggle = "queue for its own run" if row.steering else "steer the run"
        hints = [("edit", "edit"), ("steer", toggle), ("withdraw", "withdraw")]
        hints += [] if self.view.busy else [("send", "send the first")]
        return [*(moves if len(self.list_view.rows) > 1 else ()), *self.KEYS.hints(hints)]

    def closes(self, event: events.Key) -> bool:
        """Return whether a key closes the panel; here also Ctrl+C."""
        return super().closes(event) or event.key == "ctrl+c"

    def act(self, event: events.Key) -> bool:
        """Handle a key, with the current queue."""
        self.refresh_queue()
        return super().act(event)

    def do(self, action: str, row: WaitingMessage) -> None:
        """Run an action on a message."""
        index, rows = self.list_view.cursor, self.list_view.rows
        match action:
            case "edit":
                self.dismiss()
                self._edit(row.id)
                return
            case "withdraw":
                self._withdraw(row.id)
            case "steer":
                self._queue.set_steering(row.id, not row.steering)
            case "send" if not self.view.busy:
                self._queue.send()
            case "earlier" if index:
                self._queue.move(row.id, rows[index - 1].id)
            case "later" if index + 1 < len(rows):
                self._queue.move(row.id, rows[index + 2].id if index + 2 < len(rows) else "")
        self.refresh_queue()
