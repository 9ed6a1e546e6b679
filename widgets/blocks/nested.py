"""What a sub-agent says and calls: folded away as a whole, since its call tells what came of it (T5, U3)."""

from __future__ import annotations

from collections.abc import Sequence

from widgets.blocks.reply import ReplyBlock
from widgets.blocks.tool_card import ToolCard
from widgets.ink import Ink, Line, Span, indent


def _rule(ink: Ink) -> list[Span]:
    return [("│ ", ink.faint)]


class NestedCard(ToolCard):
    """A call of a sub-agent; shown with the details, or when it was chosen in the tree."""

    @property
    def live(self) -> bool:  # type: ignore[override]  # as in ToolCard
        """As a card, while it is shown."""
        return self.open and self.item.status == "running"

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """As a card, behind a rule."""
        return indent(list(super().paint(max(1, width - 2), ink)), _rule(ink)) if self.open else []

    def guess(self, width: int) -> int:
        """About how many lines it will take."""
        return super().guess(width) if self.open else 0


class NestedReply(ReplyBlock):
    """What a sub-agent thought and said, likewise."""

    @property
    def live(self) -> bool:  # type: ignore[override]  # as in ReplyBlock
        """While it is shown and thinks."""
        return self.open and not self.item.ended and self.item.thinking_since is not None

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """As a reply, behind a rule."""
        return indent(list(super().paint(max(1, width - 2), ink)), _rule(ink)) if self.open else []

    def guess(self, width: int) -> int:
        """About how many lines it will take."""
        return super().guess(width) if self.open else 0
