"""What the session picker needs of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class PickerDoor(Protocol):
    """What the user wants of the sessions. All of it returns at once; what comes of it is shown later."""

    def search(self, text: str, among: Sequence[str]) -> None:
        """Look for `text` in what was said in the sessions of these ids, instead of what was looked for before."""
        ...

    def look_into(self, id: str) -> None:
        """What is in this session is wanted."""
        ...

    def open(self, id: str, *, sure: bool) -> None:
        """Go on with this session; `sure` when the user was told what that means."""
        ...

    def rename(self, id: str, title: str) -> None:
        """Give it a title."""
        ...

    def fork(self, id: str) -> None:
        """Make a copy of it."""
        ...

    def delete(self, id: str) -> None:
        """Delete it for good; the user was asked."""
        ...

    def closed(self) -> None:
        """The picker is gone."""
        ...
