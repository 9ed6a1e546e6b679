"""`/queue`: what the user does with the messages that wait, while the run that they wait for goes on (R11.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_agent.events import MessageChanged, MessageMoved, MessageQueued, MessageWithdrawn, UserSaid
from widgets.drafting import Written

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.composer import Composer
    from tui_agent.tui.door import SessionDoor

CHANGES = (MessageQueued, MessageChanged, MessageMoved, MessageWithdrawn, UserSaid)
"""Events after which the queue is another."""
GONE = "that message has just begun"
"""It is not in the queue any more."""


def show(composer: Composer, session: SessionDoor) -> None:
    """Every message that waits."""
    from widgets.queue_panel import QueuePanel

    composer.app.push_screen(QueuePanel(composer.app.view, Queue(composer, session)))


def look_at(app: TuiAgentApp) -> None:
    """The panel follows the journal."""
    if (refresh := getattr(app.screen, "refresh_queue", None)) is not None:
        refresh()


class Queue:
    """See QueueDoor."""

    def __init__(self, composer: Composer, session: SessionDoor) -> None:
        self._composer = composer
        self._session = session

    def order(self) -> list[tuple[str, bool]]:
        """See QueueDoor."""
        return self._session.queue.order()

    def take_back(self, message: str) -> None:
        """See QueueDoor. The draft that is there is set aside."""
        self._composer.edit_queued(message)

    def withdraw(self, message: str) -> None:
        """See QueueDoor. It stays in the history."""
        text = self._composer.outbox.queue.get(message)
        if text is not None and self._session.withdraw_message(message):
            self._composer.prompt.remember(Written(text=text))
            self._composer.app.hints.say("withdrawn · it is in the history · up")
        else:
            self._composer.app.hints.say(GONE)

    def move(self, message: str, before: str) -> None:
        """See QueueDoor."""
        self._session.queue.move(message, before)

    def guide(self, message: str, steering: bool) -> None:
        """See QueueDoor."""
        self._session.queue.guide(message, steering)

    def send(self) -> None:
        """See QueueDoor."""
        self._session.queue.send()
