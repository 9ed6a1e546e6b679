"""A dialog that only shows something: scrolled with the usual keys, closed with Esc."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from widgets.dialog_keys import Keys
from widgets.dimmed import OverScreen
from widgets.ink import Ink, Line, Span, line, width_of
from widgets.line_view import LinesView

KEYS = Keys("panel")
WIDE = 170
"""Width of the screen from which on a sheet with much to show is wider."""


def key_rows(pairs: Iterable[tuple[str, str]], width: int, ink: Ink) -> list[Line]:
    """Keys with what they do, in as many lines as they need."""
    rows: list[list[Span]] = [[]]
    for key, does in pairs:
        spans: list[Span] = [(key, ink.accent), (f" {does}", ink.muted)]
        if rows[-1] and width_of([*rows[-1], *spans]) + 2 > width:
            rows.append([])
        rows[-1] += [("  ", ink.text), *spans] if rows[-1] else spans
    return [line(*spans) for spans in rows]


class Sheet(OverScreen):
    """Lies over the session until it is closed, or until somebody has to decide something."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = []


class Panel(Sheet):
    """Head, body, a line of keys."""

    def compose(self) -> ComposeResult:
        """The body takes what is left."""
        with Vertical(id="dialog"):
            yield LinesView(self.head, id="head")
            yield LinesView(self.body, id="body")
            yield LinesView(self.keys, id="keys")

    def head(self, width: int, ink: Ink) -> list[Line]:
        """What it is."""
        raise NotImplementedError

    def body(self, width: int, ink: Ink) -> list[Line]:
        """All of it."""
        raise NotImplementedError

    _hidden_then = 0
    """Lines that were hidden when the line of keys was drawn last."""

    def hidden(self) -> int:
        """Lines below what is shown."""
        body = self.query_one("#body", LinesView)
        return int(body.max_scroll_y - body.scroll_offset.y)

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """How to leave, and how much is hidden."""
        left = self.hidden()
        scrolls = KEYS.arrows("down", "page_down")
        more = [(f"   {scrolls}", ink.accent), (f" {left} more lines", ink.muted)] if left else []
        return [line(("esc", ink.accent), (" closes", ink.muted), *more)]

    def on_mount(self) -> None:
        """Say how much is hidden."""
        self.set_class(self.app.size.width >= WIDE, "-wide")
        self.watch(self.query_one("#body"), "scroll_y", self._scrolled, init=False)
        self.screen_layout_refresh_signal.subscribe(self, self._laid_out)
        self.call_after_refresh(self._scrolled)

    def _laid_out(self, _screen: object) -> None:
        """The body may have got another height with the second layout only."""
        if self.is_mounted and self.hidden() != self._hidden_then:
            self._scrolled()

    def on_resize(self) -> None:
        """The body gets what is left of the screen."""
        self.set_class(self.size.width >= WIDE, "-wide")
        self.query_one("#body").styles.max_height = max(1, self.size.height - 6)
        self.call_after_refresh(self._scrolled)

    def _scrolled(self) -> None:
        if self.is_mounted:
            self._hidden_then = self.hidden()
            self.query_one("#keys", LinesView).relayout()

    def closes(self, event: events.Key) -> bool:
        """True for a key that closes it."""
        return event.key == "escape" or KEYS.does(event) == "close"

    def on_key(self, event: events.Key) -> None:
        """Scroll or close."""
        event.stop()
        event.prevent_default()
        body = self.query_one("#body", LinesView)
        page = max(1, body.size.height - 1)
        end = 10**6
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "top": -end, "bottom": end}
        if self.closes(event):
            self.dismiss()
        elif (action := KEYS.does(event)) in steps:
            body.scroll_to(y=body.scroll_offset.y + steps[action], animate=False)
