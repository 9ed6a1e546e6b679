"""What is selected in a pile of blocks: from one place in a block's text to another, whatever the width is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from widgets.copying import Joined

Place: TypeAlias = tuple[int, int]
"""A block and a place in its text."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The character under the pointer: its block, where it begins and where it ends."""

    block: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Selection:
    """From the character where it began to the one where it stands now, both included."""

    anchor: Mark
    head: Mark

    @property
    def start(self) -> Place:
        """The first selected place."""
        return min((self.anchor.block, self.anchor.begin), (self.head.block, self.head.begin))

    @property
    def stop(self) -> Place:
        """The place behind the last selected one."""
        return max((self.anchor.block, self.anchor.end), (self.head.block, self.head.end))

    def within(self, block: int, size: int) -> tuple[int, int] | None:
        """What is selected of the text of a block that has `size` characters; None when nothing is."""
        (first, begin), (last, end) = self.start, self.stop
        if not first <= block <= last:
            return None
        return begin if block == first else 0, end if block == last else size

    def text(self, joined: Callable[[int], Joined]) -> str:
        """All that is selected, blocks apart by a blank line."""
        first, last = self.start[0], self.stop[0]
        parts = []
        for block in range(first, last + 1):
            one = joined(block)
            found = self.within(block, len(one.text))
            if found is not None:
                parts.append(one.copy(*found, alone=first == last).strip("\n"))
        return "\n\n".join(part for part in parts if part.strip())
