"""A place where keys mean something of their own: what stands in the table of `places.py`."""

from __future__ import annotations

from typing import Final, NamedTuple


class Does(NamedTuple):
    """An action of a place with its built-in keys."""

    name: str
    keys: tuple[str, ...]
    """As Textual names them."""
    says: str
    row: str = ""
    """What the help says of it and of its neighbours with the same words, in one row; empty for one of its own."""
    decides: bool = False
    """It decides or does something for good: no key that moves or goes on may be its key."""
    typed: bool | None = None
    """Whether a letter may be its key; None as it is in the place."""


class Fixed(NamedTuple):
    """Keys of a place that stay as they are."""

    keys: str
    """As the user reads them."""
    says: str
    why: str
    keep: tuple[str, ...] = ()
    """Those of them that no action of the place may take, as Textual names them."""


class Place(NamedTuple):
    """Where keys mean something of their own."""

    name: str
    title: str
    """For the help."""
    actions: tuple[Does, ...] = ()
    fixed: tuple[Fixed, ...] = ()
    field: bool = False
    """Text is typed there: letters and the keys that edit are not for actions."""
    upon: str = ""
    """The place whose keys work there too, where this one has none of its own for them."""
    app: tuple[str, ...] | None = ("cancel", "help")
    """Actions of the whole program whose keys work there first; None for all of them."""


OUT: Final = ("escape", "ctrl+c")
"""Keys that lead out of every place, or stop: nothing else may be done by them."""
_MOVES = "enter tab shift+tab space up down left right home end pageup pagedown backspace delete insert"
_EDITS = (
    "left right up down home end pageup pagedown backspace delete enter insert ctrl+left ctrl+right shift+left "
    "shift+right shift+up shift+down shift+home shift+end ctrl+shift+left ctrl+shift+right ctrl+shift+a ctrl+shift+k "
    "ctrl+a ctrl+c ctrl+d ctrl+e ctrl+f ctrl+j ctrl+k ctrl+u ctrl+v ctrl+w ctrl+x ctrl+y ctrl+z ctrl+backspace "
    "ctrl+delete alt+backspace alt+delete super+backspace super+c super+x super+y super+z f6 f7"
)
MOVING: Final = frozenset(_MOVES.split())
"""Keys that move, scroll or go on: none of them decides anything, wherever it was not built in (A9)."""
EDITING: Final = frozenset(_EDITS.split())
"""Keys that edit or select in a text field."""
