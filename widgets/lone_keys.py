"""Tells a key that stands alone from typed text: only the former acts in a dialog (A9)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from textual import events
from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    Mixin = Widget
else:
    Mixin = object  # Textual takes its style sheet from the first base that is a widget

KeyT = TypeVar("KeyT")

LONE_SECONDS = 0.25
"""Two characters typed within this time are text; a single one acts after it."""
LINE_BREAKS = ("enter", "ctrl+j")


class Use(NamedTuple, Generic[KeyT]):
    """What becomes of a key: it acts, or it is text for the draft."""

    key: KeyT
    is_text: bool


class TypingFilter(Generic[KeyT]):
    """Holds a character that would act for `seconds`: it acts if no key follows, otherwise it is text."""

    def __init__(self, seconds: float = LONE_SECONDS) -> None:
        self.seconds = seconds
        self.held: KeyT | None = None
        """The key that waits for what follows."""
        self._typed_at = -inf
        """When the last character was typed, in seconds."""
        self._in_text = False
        """Whether the last character was text for the draft."""

    def press(self, key: KeyT, name: str, character: str, at: float, *, holds: bool) -> list[Use[KeyT]]:
        """Return what becomes of the held key and of this one, in order; a key that is held from now on is left out.

        `name` is the name of the key, `character` what it types (empty if nothing), `at` the time in seconds. `holds`:
        the key acts here if it stands alone.
        """
        follows = at - self._typed_at < self.seconds
        held, self.held = self.held, None
        uses = [] if held is None else [Use(held, is_text=follows)]
        if uses and follows and name == "backspace":
            return []
        is_break = name in LINE_BREAKS
        if not (character or is_break):
            return [*uses, Use(key, is_text=False)]
        if holds and not follows and self.seconds > 0:
            self.held, self._typed_at, self._in_text = key, at, False
            return uses
        if follows or not is_break:
            self._typed_at = at
        self._in_text = follows and (holds or held is not None or self._in_text)
        return [*uses, Use(key, self._in_text)]

    def release(self, key: KeyT) -> bool:
        """Stop holding `key`; return whether it was still held, and so stands alone."""
        is_alone = self.held is key
        if is_alone:
            self.held = None
        return is_alone


class TakesLetters(Mixin):
    """Mixin for what acts on letters: the app passes a letter on when it stands alone, and typed text as `Typed`."""

    @dataclass
    class Typed(Message, bubble=False):
        """A key that is text."""

        key: events.Key

    @dataclass
    class TypedAhead(Message):
        """Text for the draft."""

        text: str
        erases: bool = False
        """Whether the last character of the draft is deleted first."""

    held_key: events.Key | None = None
    """The key that acts in a moment unless another one follows."""

    def holds(self, event: events.Key) -> bool:
        """Return whether a key acts here if it stands alone, and is text if it does not."""
        return event.key in LINE_BREAKS or bool(event.character and event.is_printable)

    def show_held(self, event: events.Key | None) -> None:
        """Show the choice that the held key makes in a moment; None if there is none."""
        self.held_key = event
        self.repaint_keys()

    def repaint_keys(self) -> None:
        """Repaint the key hints."""

    def forward_to_draft(self, event: events.Key) -> None:
        """Send a typed key to the draft, or delete its last character."""
        if event.key == "backspace":
            self.post_message(self.TypedAhead("", erases=True))
        elif event.key in LINE_BREAKS:
            self.post_message(self.TypedAhead("\n"))
        elif event.character and event.is_printable:
            self.post_message(self.TypedAhead(event.character))

    def unbound_key(self, event: events.Key) -> None:
        """Send a key without a function to the draft, except for a lone space."""
        if event.key != "space" and event.key not in LINE_BREAKS:
            self.forward_to_draft(event)

    def take_text(self, event: events.Key) -> None:
        """Take a key that is text: it goes to the draft."""
        self.forward_to_draft(event)

    def on_takes_letters_typed(self, message: Typed) -> None:
        """Take a key that is text."""
        self.take_text(message.key)
