"""Who leaves a panel is followed by the keys that were on their way to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from textual import events
from textual.widget import Widget


class Followed(Protocol):
    """Takes keys, and asks before each whether it is for somebody else."""

    passes: Callable[[events.Key], bool]


class Going:
    """Knows whether the keys of a panel are about to go elsewhere. `left` tells that they do: with a text that was
    typed, or with a key that came after the one that left; `followed` are the widgets that take keys there."""

    def __init__(self, left: Callable[[str, events.Key | None], object], *followed: Followed) -> None:
        self._left = left
        self._going = False
        for one in followed:
            one.passes = self.passes

    def leave(self, text: str = "") -> None:
        """The keys go elsewhere from here on."""
        self._going = True
        self._left(text, None)

    def after_keys(self, widget: Widget) -> None:
        """Leave when the widget has had the keys that came before."""
        widget.call_later(self.leave)

    def passes(self, event: events.Key) -> bool:
        """True for a key that is not for the panel any more."""
        if self._going:
            self._left("", events.Key(event.key, event.character))
        return self._going

    def settle(self, here: bool) -> None:
        """The focus moved; `here` says whether the panel has it."""
        self._going = self._going and here
