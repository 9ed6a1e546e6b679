"""A dialog with a list that is filtered while the user types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tui_agent.text import one_line
from widgets.dialog_keys import Keys, key_lines
from widgets.inputs import LineInput
from widgets.line_view import MOVES, LinesView, ListView
from widgets.panel import Sheet
from widgets.ranking import rank
from widgets.styled_text import Line, Span, TextStyles, justified_line, line, wrap

RowT = TypeVar("RowT")


class PickerDialog(Sheet, Generic[RowT]):
    """A search field, the list that it filters, and painted text around them.

    Subclasses name their parts in `LAYOUT`: `bar` is the search field, `list` the list, and any other part is painted
    by the method `_<part>`. A key action calls the method `_action_<name>`, unless it moves the cursor.
    """

    AUTO_FOCUS = "LineInput"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)
    """Actions of the app whose keys belong to the dialog while it is open."""
    NAME: ClassVar[str]
    """Prefix of the ids of the parts, and key context."""
    LAYOUT: ClassVar[tuple[str, ...]] = ()
    ACTIVATES_ON_CLICK: ClassVar[bool] = False
    """Whether a single click activates a row."""
    HEIGHTS: ClassVar[tuple[int, int, int]]
    """Screen height below which gaps are omitted, and the lines around the list without and with gaps."""
    PLACEHOLDER: ClassVar[str]
    SIGN: ClassVar[str] = "⌕ "

    def __init__(self, *, query: str = "", empty: str = "", height: Callable[[RowT, int], int] | None = None) -> None:
        """`query` is the initial search; `empty` and `height` are those of `ListView`."""
        super().__init__()
        self.keys = Keys(self.NAME)
        self.query_text = query
        self._shown_query = query
        """The query that the list was filtered by."""
        self.message = ""
        """Message shown instead of the keys until the next key."""
        self.total: int | None = None
        """Number of rows without a filter; None until the rows are loaded."""
        self.list_view: ListView[RowT] = ListView(self.row_lines, empty=empty, height=height, id=f"{self.NAME}-list")
        self.field = LineInput(id=f"{self.NAME}-search", placeholder=self.PLACEHOLDER, handle_key=self.process_key)
        self.field.value = query
        names = ("sign", *(name for name in self.LAYOUT if name not in ("bar", "list")))
        self._views = {name: LinesView(getattr(self, f"_{name}"), id=f"{self.NAME}-{name}") for name in names}
        self._views["sign"].add_class("picker-sign")
        self.list_view.add_class("picker-list")

    # --- layout ---

    def compose(self) -> ComposeResult:
        """Yield the parts in the order of `LAYOUT`."""
        with Vertical(id="dialog"):
            for part in self.LAYOUT:
                if part == "bar":
                    yield from self._search_bar()
                else:
                    yield self.list_view if part == "list" else self._views[part]

    def _search_bar(self) -> ComposeResult:
        """Yield the search field and its sign."""
        with Horizontal(id=f"{self.NAME}-bar", classes="picker-bar"):
            yield self._views["sign"]
            yield self.field

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._lay_out()

    def _lay_out(self) -> None:
        """Limit the list to the remaining height."""
        threshold, compact, normal = self.HEIGHTS
        is_low = self.size.height < threshold
        self.set_class(is_low, "-low")
        self.list_view.styles.max_height = max(3, self.size.height - (compact if is_low else normal))

    # --- painting ---

    def row_lines(self, row: RowT, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint a row; `selected` if it has the cursor."""
        raise NotImplementedError

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys and what they do now."""
        raise NotImplementedError

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        left: list[Span] = [(f"{self.title} ", styles.heading), (self.sub_title or "", styles.muted)]
        return [justified_line(left, [(self._count_text, styles.muted)], width, styles)]

    def _sign(self, width: int, styles: TextStyles) -> list[Line]:
        return [line((self.SIGN, styles.accent))]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self.message:
            return wrap([(one_line(self.message, 400), styles.warn)], width)[:2]
        return key_lines(self.key_pairs(), width, styles)

    @property
    def _count_text(self) -> str:
        """Number of listed rows: `12`, or `3 of 12`; empty until the rows are loaded."""
        shown = len(self.list_view.rows)
        return "" if self.total is None else str(shown) if shown == self.total else f"{shown} of {self.total}"

    def show_message(self, text: str) -> None:
        """Show a message instead of the keys until the next key."""
        self.message = text
        self.repaint_parts("keys")

    def repaint_parts(self, *names: str) -> None:
        """Paint parts again."""
        for name in names:
            self._views[name].relayout()

    # --- rows ---

    @property
    def current(self) -> RowT | None:
        """The row with the cursor; None if the list is empty."""
        return self.list_view.current

    @property
    def searching(self) -> bool:
        """Whether the field filters the list."""
        return True

    def filter_rows(self) -> None:
        """Show the rows that match `query_text`."""
        raise NotImplementedError

    def matches(self, text: str) -> bool:
        """Return whether a text contains all words of the query."""
        text = text.casefold()
        return all(word in text for word in self.query_text.casefold().split())

    def show_matching(self, rows: Iterable[RowT], text: Callable[[RowT], str], selected: str) -> None:
        """Show the rows that match the query by their `name` or their text, the best first.

        Another query selects the best row, an unchanged or empty one the row with the id `selected`.
        """
        query, is_new = self.query_text, self.query_text != self._shown_query
        self._shown_query = query
        ranked = [(rank(getattr(row, "name", ""), query, text(row), letters=False), row) for row in rows]
        matches = [(order, row) for order, row in ranked if order is not None]
        if query:
            matches.sort(key=lambda match: match[0])
        ids = [] if is_new and query else [self.row_id(row) for _, row in matches]
        self.list_view.set_rows([row for _, row in matches], ids.index(selected) if selected in ids else 0)

    def row_id(self, row: RowT) -> str:
        """Return what identifies a row: its name, unless several rows may have the same."""
        return str(getattr(row, "name", ""))

    def set_total(self, total: int) -> None:
        """Set the number of rows without a filter, which the list has room for: it does not shrink while filtering."""
        self.total = total
        self.list_view.styles.min_height = total

    def cursor_moved(self) -> None:
        """Called when the cursor moved."""

    def activate(self) -> None:
        """Called when a row was clicked, or double-clicked."""

    # --- keys and mouse ---

    def _key_action(self, key: str) -> str:
        """Return the action of a key; empty if the field handles it."""
        return "back" if key in ("escape", "ctrl+c") else self.keys.action_for_key(key)

    def can_run(self, action: str) -> bool:
        """Return whether an action is available now; its key does nothing otherwise."""
        return True

    def process_key(self, key: str) -> bool:
        """Handle a key; return False if the field should get it."""
        if self.message:
            self.show_message("")
        self._sync_query()
        action = self._key_action(key)
        if action in MOVES:
            if self.searching:
                self.list_view.move_for(action)
                self.cursor_moved()
            return True
        handler = getattr(self, f"_action_{action}", None)
        if handler is not None and self.can_run(action):
            handler()
        return handler is not None

    def _action_back(self) -> None:
        self.dismiss()

    def on_key(self, event: events.Key) -> None:
        """Handle a key while the field is not focused."""
        event.prevent_default()
        if self.process_key(event.key):
            event.stop()
        else:
            self.field.focus()

    def on_input_changed(self, message: LineInput.Changed) -> None:
        """Filter while the user types."""
        message.stop()
        self._sync_query()

    def _sync_query(self) -> None:
        """Filter by the current text of the field."""
        if self.searching and self.field.value != self.query_text:
            self.query_text = self.field.value
            self.filter_rows()

    def set_text(self, text: str) -> None:
        """Set the text of the field, with the cursor at its end."""
        self.field.value = text
        self.field.cursor_position = len(text)

    def on_list_view_clicked(self, message: ListView.Clicked) -> None:
        """Select the clicked row; a double click activates it."""
        self.field.focus()
        if self.message:
            self.show_message("")
        if self.searching:
            self.list_view.move_to(message.index)
            self.cursor_moved()
            if message.double or self.ACTIVATES_ON_CLICK:
                self.activate()
