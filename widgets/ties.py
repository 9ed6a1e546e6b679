"""What the composer asks of the program around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from textual.events import Key

from widgets.drafting import Written


async def _no_message() -> Written | None:
    return None


async def _no_key(event: Key) -> bool:
    return False


async def _no_past() -> Iterable[Written]:
    return ()


class Ties(NamedTuple):
    """What the composer asks of the program around it. As it stands: nothing is kept, and nothing comes back."""

    say: Callable[[str], object] = lambda text: None
    """Tell the user a sentence."""
    changed: Callable[[bool], object] = lambda at_once: None
    """What must survive is another now; `at_once` when the user turned to something else."""
    send: Callable[[str], str] = lambda text: ""
    """This leaves the composer to be sent. Returns the id that the message gets."""
    remembered: Callable[[list[Written]], object] = lambda new: None
    """These are new in the history."""
    past: Callable[[], Awaitable[Iterable[Written]]] = _no_past
    """What earlier sessions wrote, oldest first; asked for once."""
    edit_elsewhere: Callable[[], object] = lambda: None
    """Open the user's own editor on the draft."""
    key: Callable[[Key], Awaitable[bool]] = _no_key
    """A key, before the composer takes it; True when it was meant for something else."""
    take_back: Callable[[], Awaitable[Written | None]] = _no_message
    """The newest message of the queue, which is not in the queue any more."""
