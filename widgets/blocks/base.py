"""What the transcript expects of a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from widgets.styled_text import Line, TextStyles, indent, reuse
from widgets.text_selection import JoinedText

SHORT = 100
"""Milliseconds under which the time of a call is not worth a word."""


ItemT = TypeVar("ItemT")


@dataclass(slots=True)
class BlockOptions:
    """How all blocks are shown at the moment."""

    now: Callable[[], float]
    """Seconds since the epoch."""
    details: bool = False
    """Everything unfolded."""


class TranscriptBlock(ABC, Generic[ItemT]):
    """Paints one item. Lines are kept for one width and one set of styles until the item changes."""

    compact = False
    """True when two such blocks of one line each stand without a blank line between them."""
    live = False
    """True while time alone changes what is shown."""

    def __init__(self, item: ItemT, look: BlockOptions) -> None:
        self.item = item
        self.look = look
        self.unfolded: bool | None = None
        """What the user chose for this block; None follows `look.details`."""
        self.kept = 0
        """How many lines, from the top, the last painting left as they were."""
        self._lines: list[Line] = []
        self._key: tuple[int, TextStyles] | None = None
        self._fresh = False
        self._joined: JoinedText | None = None

    @property
    def nested(self) -> bool:
        """True for what a sub-agent says and calls: folded away, since its call tells what came of it (T5)."""
        return bool(getattr(self.item, "agent", ""))

    @property
    def shown(self) -> bool:
        """Of a sub-agent only with the details, or when it was chosen in the tree (U3)."""
        return self.open or not self.nested

    @property
    def open(self) -> bool:
        """True when the block shows its details."""
        return self.look.details if self.unfolded is None else self.unfolded

    def toggle(self) -> None:
        """Fold or unfold this block."""
        self.unfolded = not self.open
        self.changed()

    def changed(self) -> None:
        """The item, or how it is shown, changed."""
        self._fresh = False

    def forget(self) -> None:
        """Drop what can be painted again."""
        self._lines, self._key, self._fresh, self._joined = [], None, False, None

    def lines(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """All lines of the block."""
        if not self._fresh or self._key != (width, styles):
            painted = self._painted(width, styles)
            self.kept = reuse(self._lines, painted) if self._key == (width, styles) else 0
            self._lines, self._key, self._fresh, self._joined = painted, (width, styles), True, None
        return self._lines

    def _painted(self, width: int, styles: TextStyles) -> list[Line]:
        if not self.nested:
            return list(self.paint(width, styles))
        return indent(self.paint(max(1, width - 2), styles), [("│ ", styles.faint)]) if self.open else []

    def joined(self, width: int, styles: TextStyles) -> JoinedText:
        """What the lines say, for selecting and searching."""
        lines = self.lines(width, styles)
        if self._joined is None:
            self._joined = JoinedText(lines)
        return self._joined

    def exact(self, width: int) -> bool:
        """True when the lines for `width` are at hand."""
        return self._fresh and self._key is not None and self._key[0] == width

    @abstractmethod
    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """The lines for a width."""

    @abstractmethod
    def plain(self) -> str:
        """The block's own text, for copying: no borders, no breaks that the screen made."""

    def guess(self, width: int) -> int:
        """About how many lines it will take; cheap, and put right when the block comes into view."""
        text = self.plain()
        return text.count("\n") + 1 + len(text) // max(1, width)


def format_duration(ms: float) -> str:
    """A time span in the shortest form that says enough."""
    if ms < 950:
        return f"{ms / 1000:.1f} s"
    whole = round(ms / 1000)
    if whole < 60:
        return f"{ms / 1000:.1f} s" if ms < 9_950 and ms % 1000 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"
