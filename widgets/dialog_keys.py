"""What a key means in a dialog, list or panel, and which key does something there: asked of the keymap that holds."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events

from tui_agent import keymap
from tui_agent.key_names import pressed, sign

ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→"}


class Keys:
    """The keys of one place of `tui_agent/places.py`."""

    def __init__(self, place: str) -> None:
        self.place = place

    def does(self, event: events.Key) -> str:
        """The action of a pressed key; empty when it means nothing here."""
        return self.named(event.key, event.character)

    def named(self, key: str, character: str | None = None) -> str:
        """The same, of a key by its name and the character that it types."""
        return keymap.current().places.does(self.place, pressed(key, character))

    def all_of(self, action: str) -> tuple[str, ...]:
        """The keys of an action, as Textual names them."""
        return keymap.current().places.keys[f"{self.place}.{action}"]

    def of(self, action: str) -> str:
        """Its first key as the user reads it; empty where it has none."""
        return next((sign(key) for key in self.all_of(action)), "")

    def arrows(self, *actions: str) -> str:
        """The first keys of several, arrows as arrows."""
        firsts = [self.all_of(action)[:1] for action in actions]
        return " ".join(ARROWS.get(key, sign(key)) for keys in firsts for key in keys)

    def both(self, *actions: str) -> str:
        """The first keys of several, one behind the other."""
        return " ".join(key for action in actions if (key := self.of(action)))

    def pairs(self, wanted: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Keys with words, from actions with words; without those that have no key."""
        return [(key, word) for action, word in wanted if (key := self.of(action))]
