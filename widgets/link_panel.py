"""The address of the page that shows this session in a browser (X4)."""

from __future__ import annotations

from widgets.ink import Ink, Line, line, wrap
from widgets.panel import Panel

ONCE = (
    "It lets one browser of yours on this machine in, once; /web shows another one, /web stop closes the page. "
    "What is said, approved or stopped there is so here too."
)


class LinkPanel(Panel):
    """A link, and what it is good for."""

    def __init__(self, link: str, opened: bool) -> None:
        """`opened`: a browser was started on a link of its own."""
        super().__init__()
        self.link = link
        self._opened = opened

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("This session in a browser", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """The link, whole, so that a terminal can open it."""
        words = "Your browser shows it now. For another one:" if self._opened else "Open this link:"
        at = [self.link[begin : begin + width] for begin in range(0, len(self.link), max(1, width))]
        links = [line((part, ink.accent)) for part in at]
        return [*wrap([(words, ink.text)], width), line(), *links, line(), *wrap([(ONCE, ink.muted)], width)]
