"""Read-only panels: scrolled with the usual keys, closed with Esc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from tui_agent.text import one_line
from widgets.dialog_keys import Keys, held_label, key_lines, key_spans
from widgets.line_view import LinesView, LineView, ListView
from widgets.lone_keys import TakesLetters
from widgets.overlay import OverlayScreen
from widgets.styled_text import Line, Span, TextStyles, line

RowT = TypeVar("RowT")
KEYS = Keys("panel")
WIDE = 170
"""Screen width from which a sheet uses its wide layout."""


def cursor_mark(selected: bool, styles: TextStyles) -> Span:
    """Return the marker in front of a list row."""
    return ("▸ " if selected else "  "), styles.accent


class Sheet(OverlayScreen):
    """A screen over the session until it is closed or a request needs the user."""

    def _set_wide(self) -> None:
        self.set_class(self.app.size.width >= WIDE, "-wide")

    on_mount = on_resize = _set_wide


class Panel(Sheet):
    """A sheet with head, body and key hints."""

    def __init__(self) -> None:
        super().__init__()
        self.body_view: LineView = LinesView(self.body, id="body")
        self.keys_view = LinesView(self.keys, id="keys")

    def compose(self) -> ComposeResult:
        """Head, body, keys."""
        with Vertical(id="dialog"):
            yield LinesView(self.head, id="head")
            yield self.body_view
            yield self.keys_view

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the title."""
        return [line((one_line(self.title or "", width), styles.heading))]

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the content."""
        raise NotImplementedError

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the key hints."""
        return [line(*key_spans(self.key_pairs(), styles))]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys, with the number of hidden lines."""
        hidden = self.body_view.lines_below
        scroll = [(KEYS.arrow_labels("down", "page_down"), f"{hidden} more lines")] if hidden else []
        return [("esc", "closes"), *scroll]

    def on_mount(self) -> None:
        """Update the key hints while scrolling."""
        self.watch(self.body_view, "scroll_y", self.keys_view.relayout, init=False)
        self.call_after_refresh(self.keys_view.relayout)

    def on_line_view_resized(self) -> None:
        """Update the number of hidden lines."""
        self.keys_view.relayout()

    def on_resize(self) -> None:
        """Limit the body to the screen."""
        self._fit()
        self.call_after_refresh(self.keys_view.relayout)
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Leave room for all lines of the key hints."""
        self.body_view.styles.max_height = max(1, self.size.height - 5 - max(1, len(self.keys_view.lines)))

    def closes(self, event: events.Key) -> bool:
        """Return whether a key closes the panel."""
        return event.key == "escape" or KEYS.action_for(event) == "close"

    def on_key(self, event: events.Key) -> None:
        """Scroll or close."""
        event.stop()
        event.prevent_default()
        if self.act(event):
            return
        if self.closes(event):
            self.dismiss()
        elif not self.body_view.scroll_for(KEYS.action_for(event)):
            self.unbound_key(event)

    def unbound_key(self, event: events.Key) -> None:
        """Called for a key without a function here."""

    def act(self, event: events.Key) -> bool:
        """Handle a key of this panel; return False for other keys."""
        return False


class ListPanel(TakesLetters, Panel, Generic[RowT]):
    """A panel whose body is a list with a cursor. Letters act if they stand alone; typed text goes to the draft."""

    KEYS: ClassVar[Keys]
    EMPTY: ClassVar[str]
    """Text shown while the list is empty."""
    KEY_GAP: ClassVar[int] = 3
    """Cells between two key hints."""

    def __init__(self, rows: Sequence[RowT] = ()) -> None:
        super().__init__()
        self.list_view: ListView[RowT] = ListView(self.row_lines, empty=self.EMPTY, height=self._height, id="body")
        self.list_view.rows = rows
        self.body_view = self.list_view

    def _height(self, row: RowT, width: int) -> int:
        return len(self.row_lines(row, row is self.list_view.current, width, self.list_view.text_styles))

    def row_lines(self, row: RowT, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint a row; `selected` if it has the cursor."""
        raise NotImplementedError

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the key hints, on several lines if necessary."""
        return key_lines(self.key_pairs(), width, styles, gap=self.KEY_GAP, held=held_label(self.held_key))

    def repaint_keys(self) -> None:
        """Repaint the key hints."""
        self.keys_view.relayout()

    def holds(self, event: events.Key) -> bool:
        """Return whether a key acts here if it stands alone: not a sign that may be repeated, such as `+` and `-`."""
        is_sign = event.is_printable and not (event.character or "").isalnum()
        may_repeat = is_sign and bool(self.KEYS.action_for(event)) and not self.KEYS.decides(event)
        return super().holds(event) and not may_repeat

    def unbound_key(self, event: events.Key) -> None:
        """Ignore a lone key without a function here: the user opened this panel."""

    def on_paste(self, event: events.Paste) -> None:
        """Send a paste to the draft."""
        event.stop()
        self.post_message(self.TypedAhead(event.text))

    def row_keys(self, row: RowT) -> list[tuple[str, str]]:
        """Return the keys for the current row and what they do."""
        raise NotImplementedError

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys for the current row, if there is one, and the one that closes."""
        row = self.list_view.current
        return [*(self.row_keys(row) if row is not None else ()), ("esc", "closes")]

    def do(self, action: str, row: RowT) -> None:
        """Run an action on the current row."""
        raise NotImplementedError

    def act(self, event: events.Key) -> bool:
        """Move the cursor, or run an action on the current row."""
        action = self.KEYS.action_for(event)
        if self.list_view.current is None or not action:
            return False
        if self.list_view.move_for(action):
            self.show_rows(self.list_view.rows, self.list_view.cursor)
        else:
            self.do(action, self.list_view.current)
        return True

    def show_rows(self, rows: Sequence[RowT], cursor: int) -> None:
        """Show rows and move the cursor; row heights may change."""
        self.list_view.set_rows(rows, cursor)
        self.keys_view.relayout()
        self._fit()
