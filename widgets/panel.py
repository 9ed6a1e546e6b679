"""A dialog that only shows something: scrolled with the usual keys, closed with Esc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from widgets.dialog_keys import Keys, key_spans
from widgets.line_view import LinesView, LineView, ListView
from widgets.overlay import OverlayScreen
from widgets.styled_text import Line, Span, TextStyles, line

RowT = TypeVar("RowT")
KEYS = Keys("panel")
WIDE = 170
"""Width of the screen from which on a sheet with much to show is wider."""


def cursor_mark(selected: bool, styles: TextStyles) -> Span:
    """What stands before a row of a list."""
    return ("▸ " if selected else "  "), styles.accent


class Sheet(OverlayScreen):
    """Lies over the session until it is closed, or until somebody has to decide something."""

    AUTO_FOCUS = ""


class Panel(Sheet):
    """Head, body, a line of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.body_view: LineView = LinesView(self.body, id="body")
        self.keys_view = LinesView(self.keys, id="keys")

    def compose(self) -> ComposeResult:
        """The body takes what is left."""
        with Vertical(id="dialog"):
            yield LinesView(self.head, id="head")
            yield self.body_view
            yield self.keys_view

    TITLE: ClassVar[str] = ""

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """What it is."""
        return [line((self.TITLE, styles.heading))]

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """All of it."""
        raise NotImplementedError

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be pressed."""
        return [line(*key_spans(self.key_pairs(), styles))]

    def key_pairs(self) -> list[tuple[str, str]]:
        """How to leave, and how much is hidden."""
        left = self.body_view.lines_below
        return [("esc", "closes"), *([(KEYS.arrows("down", "page_down"), f"{left} more lines")] if left else [])]

    def on_mount(self) -> None:
        """Say how much is hidden."""
        self.set_class(self.app.size.width >= WIDE, "-wide")
        self.watch(self.body_view, "scroll_y", self.keys_view.relayout, init=False)
        self.call_after_refresh(self.keys_view.relayout)

    def on_line_view_resized(self) -> None:
        """A part has its place, which may come later than our own size."""
        self.keys_view.relayout()

    def on_resize(self) -> None:
        """The body gets what is left of the screen."""
        self.set_class(self.size.width >= WIDE, "-wide")
        self.body_view.styles.max_height = max(1, self.size.height - 6)
        self.call_after_refresh(self.keys_view.relayout)

    def closes(self, event: events.Key) -> bool:
        """True for a key that closes it."""
        return event.key == "escape" or KEYS.does(event) == "close"

    def on_key(self, event: events.Key) -> None:
        """Scroll or close."""
        event.stop()
        event.prevent_default()
        if self.act(event):
            return
        if self.closes(event):
            self.dismiss()
        else:
            self.body_view.scroll_for(KEYS.does(event))

    def act(self, event: events.Key) -> bool:
        """What a key means in this panel alone; False when nothing."""
        return False


class ListPanel(Panel, Generic[RowT]):
    """A panel whose body is a list with a cursor."""

    KEYS: ClassVar[Keys]
    EMPTY: ClassVar[str]
    """Shown while there is no row."""

    def __init__(self, rows: Sequence[RowT] = ()) -> None:
        super().__init__()
        self.list: ListView[RowT] = ListView(self.row_lines, empty=self.EMPTY, height=self._height, id="body")
        self.list.rows = rows
        self.body_view = self.list

    def _height(self, row: RowT, width: int) -> int:
        return len(self.row_lines(row, row is self.list.current, width, self.list.text_styles))

    def row_lines(self, row: RowT, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """The lines of a row; `selected` is the one with the cursor."""
        raise NotImplementedError

    def do(self, action: str, row: RowT) -> None:
        """What an action does with the row that has the cursor."""
        raise NotImplementedError

    def act(self, event: events.Key) -> bool:
        """Move the cursor, or do something with its row."""
        action = self.KEYS.does(event)
        if self.list.current is None or not action:
            return False
        if self.list.move_for(action):
            self.show_rows(self.list.rows, self.list.cursor)
        else:
            self.do(action, self.list.current)
        return True

    def show_rows(self, rows: Sequence[RowT], cursor: int) -> None:
        """Show other rows, or the same with the cursor elsewhere, which may change their heights."""
        self.list.set_rows(rows, cursor)
        self.keys_view.relayout()
