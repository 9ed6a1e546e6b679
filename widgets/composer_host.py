"""What the composer asks of the program around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from textual.events import Key

from widgets.composer_history import DraftText


class ComposerHost(NamedTuple):
    """What the composer asks of the program around it."""

    say: Callable[[str], object]
    """Tell the user a sentence."""
    changed: Callable[[bool], object]
    """What must survive is another now; `at_once` when the user turned to something else."""
    send: Callable[[str], str]
    """This leaves the composer to be sent. Returns the id that the message gets."""
    remembered: Callable[[list[DraftText]], object]
    """These are new in the history."""
    past: Callable[[], Awaitable[Iterable[DraftText]]]
    """What earlier sessions wrote, oldest first; asked for once."""
    edit_elsewhere: Callable[[], object]
    """Open the user's own editor on the draft."""
    key: Callable[[Key], Awaitable[bool]]
    """A key, before the composer takes it; True when it was meant for something else."""
    take_back: Callable[[], Awaitable[DraftText | None]]
    """The newest message of the queue, which is not in the queue any more."""
