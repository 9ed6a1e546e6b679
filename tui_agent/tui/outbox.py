"""Which text is where: in the composer, on its way, in the queue, or said. No text is in two places, none in no place.

Pure: it is told what the user does and what the journal says, and tells what has to be on disk (U8). A draft
has the id that its message will get, so after a crash the journal says whether it was sent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from tui_agent.events import Event, MessageChanged, MessageMoved, MessageQueued, MessageWithdrawn, UserMessageAdded
from widgets.composer_history import NO_DRAFT, DraftText


def new_message_id() -> str:
    """For a message that is not sent yet."""
    return f"m-{secrets.token_hex(6)}"


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A message that left the composer and that the journal does not have yet."""

    id: str
    text: str
    of: str = ""
    """Id of the queued message that it replaces."""


class ComposerState(msgspec.Struct, frozen=True, kw_only=True):
    """What is on disk of a composer."""

    id: str = ""
    """The id that the draft's message will get."""
    draft: DraftText = NO_DRAFT
    of: str = ""
    """Id of the queued message that is edited as the draft."""
    of_text: str = ""
    aside: tuple[DraftText, ...] = ()
    """Edited history entries, and drafts set aside."""
    waiting: tuple[Sent, ...] = ()

    @property
    def empty(self) -> bool:
        """True when there is nothing to keep."""
        return self.draft.blank and not self.aside and not self.waiting


class QueuePlace(NamedTuple):
    """A place in the queue."""

    behind: tuple[str, ...] = ()
    """Ids of the messages that came after it."""
    steering: bool = False


NO_PLACE: Final = QueuePlace()


class RecoveredTexts(NamedTuple):
    """What a crash left to the composer."""

    texts: list[DraftText]
    """Unsent: messages that never got into the journal, then the draft."""
    aside: list[DraftText]
    """For the history."""
    withdraw: list[str]
    """Ids of messages that are still queued although they are being edited."""


class Outbox:
    """The composer's own bookkeeping over one session."""

    def __init__(self, ids: Callable[[], str] = new_message_id) -> None:
        self._ids = ids
        self.id = ids()
        """Of the draft."""
        self.of = self._of_text = ""
        self._queue_place = NO_PLACE
        self._places: dict[str, QueuePlace] = {}
        """Queue places of edited messages on their way back to the queue."""
        self.waiting: dict[str, Sent] = {}
        self.queue: dict[str, str] = {}
        """Messages in the queue, exactly as they were sent, in their order."""
        self._said: set[str] = set()
        self._known: set[str] = set()

    def take(self, event: Event) -> bool:
        """What the journal has; True when there is less to keep than before."""
        match event:
            case MessageQueued(id=key, text=text):
                self.queue[key] = text
            case MessageChanged(id=key, text=text) if key in self.queue:
                self.queue[key] = text
            case MessageMoved(id=key, before=before):
                self._move(key, before)
            case MessageWithdrawn(id=key):
                self.queue.pop(key, None)
            case UserMessageAdded(id=key):
                self.queue.pop(key, None)
                self._said.add(key)
            case _:
                return False
        self._known.add(key)
        return self.waiting.pop(key, None) is not None

    def send(self, text: str, *, beside: bool = False) -> str:
        """The draft goes on its way; another one begins. `beside` says that the draft stays, and something else goes.
        Returns the message's id."""
        if beside:
            key = self._ids()
            self.waiting[key] = Sent(id=key, text=text)
            return key
        key, self.id = self.id, self._ids()
        self.waiting[key] = Sent(id=key, text=text, of=self.of)
        if self.of:
            self._places[key] = self._queue_place
        self.of = self._of_text = ""
        self._queue_place = NO_PLACE
        return key

    def discard(self, message: str) -> None:
        """It is not a message for the journal, such as a shell command of the user."""
        self.waiting.pop(message, None)
        self._places.pop(message, None)

    def _move(self, message: str, before: str) -> None:
        if message not in self.queue:
            return
        rest = [key for key in self.queue if key != message]
        place = rest.index(before) if before in rest else len(rest)
        self.queue = {key: self.queue[key] for key in (*rest[:place], message, *rest[place:])}

    def newest_queued(self) -> tuple[str, str] | None:
        """Id and text of the message that is sent last."""
        return next(reversed(self.queue.items()), None)

    def state_taking(self, message: str, aside: Sequence[DraftText] = ()) -> ComposerState:
        """What must be on disk before this message of the queue is withdrawn to become the draft."""
        text = self.queue[message]
        return msgspec.structs.replace(self.state(DraftText(text=text), aside), of=message, of_text=text)

    def edit_queued(self, message: str, text: str, behind: Sequence[str] = (), steering: bool = False) -> None:
        """A withdrawn message is the draft now. `behind` are the ids of the messages after it."""
        self.of, self._of_text = message, text
        self._queue_place = QueuePlace(tuple(behind), steering)

    def draft_cleared(self) -> None:
        """The draft is gone: what is written next is another message, with a place of its own."""
        self._queue_place = NO_PLACE

    def pop_place(self, message: str) -> QueuePlace:
        """The earlier place in the queue of a message that is sent again."""
        return self._places.pop(message, NO_PLACE)

    def state(self, draft: DraftText, aside: Sequence[DraftText] = ()) -> ComposerState:
        """What must be on disk while this is in the composer."""
        return ComposerState(
            id=self.id,
            draft=draft,
            of=self.of,
            of_text=self._of_text,
            aside=tuple(aside),
            waiting=tuple(self.waiting.values()),
        )

    def recover(self, kept: ComposerState) -> RecoveredTexts:
        """What of a saved state is nowhere else, once all events of the journal were taken."""
        lost = [one for one in kept.waiting if one.id not in self._known]
        texts = [DraftText(text=one.text) for one in lost]
        delivered = kept.of in self._said and kept.draft.whole == kept.of_text
        mine = not kept.draft.blank and kept.id not in self._known and not delivered
        taken = [*(one.of for one in lost), *([kept.of] if mine else [])]
        withdraw = [one for one in taken if one in self.queue]
        if mine:
            texts.append(kept.draft)
            self.of, self._of_text = kept.of, kept.of_text
            if len(texts) == 1:
                self.id = kept.id or self.id
        return RecoveredTexts(texts, [one for one in kept.aside if not one.blank], withdraw)
