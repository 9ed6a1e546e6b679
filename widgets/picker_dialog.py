"""A dialog with a list that is filtered while the user types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tui_agent.text import one_line
from widgets.dialog_keys import Keys
from widgets.inputs import LineInput
from widgets.line_view import MOVES, LinesView, ListView
from widgets.panel import Sheet
from widgets.styled_text import Line, TextStyles, line, wrap

RowT = TypeVar("RowT")


class PickerDialog(Sheet, Generic[RowT]):
    """A search field, the list that it filters, and painted text around them.

    Subclasses name their parts in `LAYOUT` (`bar` is the field, `list` the list, all others are painted by methods of
    their names) and their actions in `ACTIONS`; `filter_rows` shows the rows that match `query_text`.
    """

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)
    """Actions of the app whose keys belong to the dialog while it is open."""
    NAME: ClassVar[str]
    """Prefix of the ids of its parts."""
    KEYS: ClassVar[Keys]
    ACTIONS: ClassVar[Mapping[str, Callable[..., object]]] = {}
    """What the actions of `KEYS` do, besides those that move the cursor."""
    LAYOUT: ClassVar[tuple[str, ...]] = ()
    ACTIVATES_ON_CLICK: ClassVar[bool] = False
    """Whether one click is enough."""
    LOW: ClassVar[tuple[int, int, int]]
    """Screen height below which gaps are left out; lines that all but the list take then, and otherwise."""

    PLACEHOLDER: ClassVar[str]
    SIGN: ClassVar[str] = "⌕ "

    def __init__(self, *, query: str = "", empty: str = "", height: Callable[[RowT, int], int] | None = None) -> None:
        super().__init__()
        self.query_text = query
        self.message = ""
        """Message shown instead of the keys until the next key."""
        self._list: ListView[RowT] = ListView(self.row_lines, empty=empty, height=height, id=f"{self.NAME}-list")
        self.field = LineInput(id=f"{self.NAME}-search", placeholder=self.PLACEHOLDER, handle_key=self.process_key)
        self.field.value = query
        names = ("sign", *(name for name in self.LAYOUT if name not in ("bar", "list")))
        self._views = {name: LinesView(getattr(self, f"_{name}"), id=f"{self.NAME}-{name}") for name in names}
        self._views["sign"].add_class("picker-sign")
        self._list.add_class("picker-list")

    def row_lines(self, row: RowT, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint a row; `selected` if it has the cursor."""
        raise NotImplementedError

    def _sign(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the prompt sign."""
        return [line((self.SIGN, styles.accent))]

    def compose(self) -> ComposeResult:
        """The parts in the order of `LAYOUT`."""
        with Vertical(id="dialog"):
            for part in self.LAYOUT:
                if part == "bar":
                    with Horizontal(id=f"{self.NAME}-bar", classes="picker-bar"):
                        yield self._views["sign"]
                        yield self.field
                else:
                    yield self._list if part == "list" else self._views[part]

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._lay_out()

    def _lay_out(self) -> None:
        """Limit the list to the remaining height."""
        screen, low, high = self.LOW
        self.set_class(self.size.height < screen, "-low")
        self._list.styles.max_height = max(3, self.size.height - (low if self.size.height < screen else high))

    @property
    def chosen(self) -> RowT | None:
        """The current row; None if the list is empty."""
        return self._list.current

    def filter_rows(self) -> None:
        """Show the rows that match `query_text`."""
        raise NotImplementedError

    def show_matching(self, rows: Iterable[RowT], text: Callable[[RowT], str], choose: str) -> None:
        """Show the rows whose text contains all words of the query, and select the one named `choose`."""
        words = self.query_text.casefold().split()
        found = [row for row in rows if all(word in text(row).casefold() for word in words)]
        names = [getattr(row, "name", "") for row in found]
        self._list.set_rows(found, names.index(choose) if choose in names else 0)

    def cursor_moved(self) -> None:
        """Called when the cursor moved."""

    def activate(self) -> None:
        """Called when a row was clicked, or double-clicked."""

    @property
    def searching(self) -> bool:
        """Whether the field filters the list."""
        return True

    def show_message(self, text: str) -> None:
        """Show a message instead of the keys until the next key."""
        self.message = text
        self.repaint_parts("keys")

    def repaint_parts(self, *names: str) -> None:
        """Paint parts again."""
        for name in names:
            self._views[name].relayout()

    def _message_lines(self, width: int, styles: TextStyles) -> list[Line]:
        """The message, in at most two lines."""
        return wrap([(one_line(self.message, 400), styles.warn)], width)[:2]

    # --- keys ---

    def action_of(self, key: str) -> str:
        """Return the action of a key; empty if the field handles it."""
        return "back" if key in ("escape", "ctrl+c") else self.KEYS.action_for_key(key)

    def process_key(self, key: str) -> bool:
        """Handle a key; return False if the field should get it."""
        if self.message:
            self.show_message("")
        self._sync_query()
        action = self.action_of(key)
        if action in self.actions:
            self.actions[action](self)
        elif self.searching and self._list.move_for(action):
            self.cursor_moved()
        else:
            return action in MOVES
        return True

    @property
    def actions(self) -> Mapping[str, Callable[..., object]]:
        """The actions available now."""
        return self.ACTIONS

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
            self._list.move_to(message.index)
            self.cursor_moved()
            if message.double or self.ACTIVATES_ON_CLICK:
                self.activate()


def counted(shown: int, known: int) -> str:
    """Format a count: `12`, or `3 of 12`."""
    return str(known) if shown == known else f"{shown} of {known}"
