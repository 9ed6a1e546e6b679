"""What is shown instead of a screen that is too small: a sentence (U6). Everything below it stays as it is."""

from __future__ import annotations

from typing import Any

from textual.geometry import Size
from textual.screen import Screen

from widgets.line_view import LinesView
from widgets.styled_text import Line, TextStyles, wrap

MIN_WIDTH, MIN_HEIGHT = 40, 10
"""Smallest usable size of the terminal, in cells."""
KEYS_WHEN_TOO_SMALL = ("ctrl+c", "ctrl+z")
"""Keys that act nevertheless: they stop the run or quit, and suspend."""


def is_too_small(size: Size) -> bool:
    """Return whether nothing can be done in a terminal of a size."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


class TooSmall(LinesView):
    """Covers the screen, so that no answer is given unseen."""

    def __init__(self, size: Size) -> None:
        super().__init__(self._sentence)
        self.terminal_size = size

    def _sentence(self, width: int, styles: TextStyles) -> list[Line]:
        size = f"{self.terminal_size.width}×{self.terminal_size.height}"
        text = f"Too small: at least {MIN_WIDTH}×{MIN_HEIGHT}. This terminal has {size}. Nothing is lost."
        return wrap([(text, styles.text)], max(1, width))


def cover_if_too_small(screen: Screen[Any], size: Size | None = None) -> None:
    """Cover a screen while the terminal, of the given or the app's `size`, is too small for it."""
    size = size or screen.app.size
    covers = screen.query_children(TooSmall)
    if not is_too_small(size):
        covers.remove()
    elif covers:
        covers.first().terminal_size = size
        covers.first().relayout()
    else:
        screen.mount(TooSmall(size))
