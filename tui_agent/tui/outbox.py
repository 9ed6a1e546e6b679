"""Tracks where each text of the user is: in the composer, being sent, in the queue, or delivered (U8).

It does no input or output: it gets the user's actions and the journal's events, and returns the state to be saved. The
draft already has the id of its future message, so that after a crash the journal tells whether it was sent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from tui_agent.events import Event, MessageChanged, MessageMoved, MessageQueued, MessageWithdrawn, UserMessageAdded
from widgets.composer_history import NO_DRAFT, DraftText


def new_message_id() -> str:
    """Return a random id for a message."""
    return f"m-{secrets.token_hex(6)}"


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was sent but is not in the journal yet. The fields are stored on disk."""

    id: str
    text: str
    of: str = ""
    """Id of the queued message that it replaces."""


class ComposerState(msgspec.Struct, frozen=True, kw_only=True):
    """The saved state of a composer. The fields are stored on disk."""

    id: str = ""
    """Id that the draft's message will get."""
    draft: DraftText = NO_DRAFT
    of: str = ""
    """Id of the queued message that is edited as the draft."""
    of_text: str = ""
    """Text of that message before the edit."""
    aside: tuple[DraftText, ...] = ()
    """Edited history entries and stashed drafts."""
    waiting: tuple[Sent, ...] = ()

    @property
    def empty(self) -> bool:
        """True if there is nothing to save."""
        return self.draft.blank and not self.aside and not self.waiting

    @property
    def texts(self) -> list[DraftText]:
        """All texts: messages that were being sent, stashed drafts, and the draft."""
        sent = [DraftText(text=message.text) for message in self.waiting]
        return [draft for draft in (*sent, *self.aside, self.draft) if not draft.blank]


class QueuePlace(NamedTuple):
    """Position and kind of a queued message."""

    later_ids: tuple[str, ...] = ()
    """Ids of the messages after it."""
    steering: bool = False


NO_PLACE: Final = QueuePlace()


class RecoveredTexts(NamedTuple):
    """Texts that a crash left in the composer."""

    unsent: list[DraftText]
    """Messages that never reached the journal, then the draft."""
    stashed: list[DraftText]
    """Stashed drafts, for the history."""
    withdraw: list[str]
    """Ids of messages that are still queued although they are being edited."""


class Outbox:
    """The messages of one session that are not delivered yet."""

    def __init__(self, new_id: Callable[[], str] = new_message_id) -> None:
        self._new_id = new_id
        self.id = new_id()
        """Id that the draft's message will get."""
        self.edited_id = self._edited_text = ""
        """Id and original text of the queued message that is edited as the draft."""
        self._edited_place = NO_PLACE
        self._places: dict[str, QueuePlace] = {}
        """Former places of edited messages that go back to the queue."""
        self.sending: dict[str, Sent] = {}
        self.queue: dict[str, str] = {}
        """Texts of the queued messages by id, in order."""
        self._delivered: set[str] = set()
        self._journaled: set[str] = set()

    def apply(self, event: Event) -> bool:
        """Apply an event of the queue; return True if there is less to save now."""
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
                self._delivered.add(key)
            case _:
                return False
        self._journaled.add(key)
        return self.sending.pop(key, None) is not None

    def send(self, text: str, *, keep_draft: bool = False) -> str:
        """Send the draft and begin a new one; with `keep_draft`, send another text. Returns the message's id."""
        if keep_draft:
            key = self._new_id()
            self.sending[key] = Sent(id=key, text=text)
            return key
        key, self.id = self.id, self._new_id()
        self.sending[key] = Sent(id=key, text=text, of=self.edited_id)
        if self.edited_id:
            self._places[key] = self._edited_place
        self.edited_id = self._edited_text = ""
        self._edited_place = NO_PLACE
        return key

    def discard(self, message: str) -> None:
        """Forget a message that is not for the journal, such as a `!` command."""
        self.sending.pop(message, None)
        self._places.pop(message, None)

    def _move(self, message: str, before: str) -> None:
        if message not in self.queue:
            return
        others = [key for key in self.queue if key != message]
        index = others.index(before) if before in others else len(others)
        self.queue = {key: self.queue[key] for key in (*others[:index], message, *others[index:])}

    def newest_queued(self) -> tuple[str, str] | None:
        """Return id and text of the last message in the queue."""
        return next(reversed(self.queue.items()), None)

    def state_editing(self, message: str, stashed: Sequence[DraftText] = ()) -> ComposerState:
        """Return the state to be saved before a queued message is withdrawn to become the draft."""
        text = self.queue[message]
        return msgspec.structs.replace(self.state(DraftText(text=text), stashed), of=message, of_text=text)

    def edit_queued(self, message: str, text: str, later_ids: Sequence[str] = (), steering: bool = False) -> None:
        """Make a withdrawn message the draft. `later_ids` are the messages after it."""
        self.edited_id, self._edited_text = message, text
        self._edited_place = QueuePlace(tuple(later_ids), steering)

    def draft_cleared(self) -> None:
        """Forget the former queue place: the next draft is a new message."""
        self._edited_place = NO_PLACE

    def pop_place(self, message: str) -> QueuePlace:
        """Return, once, the former queue place of a message that is sent again."""
        return self._places.pop(message, NO_PLACE)

    def state(self, draft: DraftText, stashed: Sequence[DraftText] = ()) -> ComposerState:
        """Return the state to be saved while `draft` is in the composer."""
        return ComposerState(
            id=self.id,
            draft=draft,
            of=self.edited_id,
            of_text=self._edited_text,
            aside=tuple(stashed),
            waiting=tuple(self.sending.values()),
        )

    def recover(self, saved: ComposerState) -> RecoveredTexts:
        """Return what exists only in the saved state, once all events of the journal have been applied."""
        lost = [sent for sent in saved.waiting if sent.id not in self._journaled]
        unsent = [DraftText(text=sent.text) for sent in lost]
        delivered = saved.of in self._delivered and saved.draft.full_text == saved.of_text
        has_draft = not saved.draft.blank and saved.id not in self._journaled and not delivered
        replaced = [*(sent.of for sent in lost), *([saved.of] if has_draft else [])]
        withdraw = [id for id in replaced if id in self.queue]
        if has_draft:
            unsent.append(saved.draft)
            self.edited_id, self._edited_text = saved.of, saved.of_text
            if len(unsent) == 1:
                self.id = saved.id or self.id
        return RecoveredTexts(unsent, [draft for draft in saved.aside if not draft.blank], withdraw)
