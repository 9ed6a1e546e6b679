"""Base class of the blocks of a transcript."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

import msgspec

from widgets.links import Locate, nowhere
from widgets.styled_text import Line, TextStyles, indent, reuse
from widgets.text_selection import JoinedText

SHORT = 100
"""Calls shorter than this many milliseconds show no duration."""


ItemT = TypeVar("ItemT")


class BlockOptions(msgspec.Struct):
    """Display options shared by all blocks."""

    now: Callable[[], float]
    """Seconds since the epoch."""
    details: bool = False
    """Show details of all blocks."""
    locate: Locate = nowhere
    """Finds the files that texts name."""


class TranscriptBlock(ABC, Generic[ItemT]):
    """Paints one item. Lines are cached by width and styles until the item changes."""

    compact = False
    """Whether adjacent one-line blocks of this type have no blank line between them."""
    live = False
    """Whether the block changes with time."""

    def __init__(self, item: ItemT, options: BlockOptions) -> None:
        self.item = item
        self.options = options
        self.user_expanded: bool | None = None
        """What the user chose for this block; None follows `options.details`."""
        self.reused_lines = 0
        """Number of leading lines that the last paint reused."""
        self._lines: list[Line] = []
        self._key: tuple[int, TextStyles] | None = None
        self._fresh = False
        self._joined: JoinedText | None = None

    @property
    def nested(self) -> bool:
        """Whether the item belongs to a sub-agent; collapsed by default, as its call shows the result (T5)."""
        return bool(getattr(self.item, "agent", ""))

    @property
    def is_visible(self) -> bool:
        """Whether the block is visible: nested ones only with details, or when chosen in the tree (U3)."""
        return self.open or not self.nested

    @property
    def open(self) -> bool:
        """Whether details are shown."""
        return self.options.details if self.user_expanded is None else self.user_expanded

    def toggle(self) -> None:
        """Collapse or expand this block."""
        self.user_expanded = not self.open
        self.changed()

    def changed(self) -> None:
        """Invalidate the lines after a change of item or display."""
        self._fresh = False

    def relink(self, found: AbstractSet[str]) -> None:
        """Invalidate what names one of the files in `found`: they lead elsewhere than before."""

    def forget(self) -> None:
        """Drop cached lines."""
        self._lines, self._key, self._fresh, self._joined = [], None, False, None

    def lines(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Return the lines of the block."""
        if not self._fresh or self._key != (width, styles):
            painted = self._painted(width, styles)
            self.reused_lines = reuse(self._lines, painted) if self._key == (width, styles) else 0
            self._lines, self._key, self._fresh, self._joined = painted, (width, styles), True, None
        return self._lines

    def _painted(self, width: int, styles: TextStyles) -> list[Line]:
        if not self.nested:
            return list(self.paint(width, styles))
        return indent(self.paint(max(1, width - 2), styles), [("│ ", styles.faint)]) if self.open else []

    def joined(self, width: int, styles: TextStyles) -> JoinedText:
        """Return the text of the lines, for selection and search."""
        lines = self.lines(width, styles)
        if self._joined is None:
            self._joined = JoinedText(lines)
        return self._joined

    def exact(self, width: int) -> bool:
        """Return whether lines for `width` are cached."""
        return self._fresh and self._key is not None and self._key[0] == width

    @abstractmethod
    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint the lines for a width."""

    @abstractmethod
    def plain_text(self) -> str:
        """Return all text, including what is collapsed, without borders and line wraps."""

    def searched_texts(self) -> Iterator[str]:
        """Yield what a search looks through: the painted text, if there is any, then all text if more can be shown."""
        if self._fresh:
            self._joined = self._joined or JoinedText(self._lines)
            yield self._joined.text
        if not self._fresh or not self.open:
            yield self.plain_text()

    def guess(self, width: int) -> int:
        """Estimate the number of lines cheaply; corrected when the block becomes visible."""
        text = self.plain_text()
        return text.count("\n") + 1 + len(text) // max(1, width)


def format_duration(ms: float) -> str:
    """Format a duration compactly."""
    if ms < 950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 60:
        return f"{ms / 1000:.1f} s" if ms < 9_950 and ms % 1000 else f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} m"
