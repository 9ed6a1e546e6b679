"""The command palette: everything that can be done, found by a few of its letters, with the key of each (U5).

It knows of no app: rows come in, and the name of the one that is chosen goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message

from widgets.dialog_keys import Keys
from widgets.finding_names import match
from widgets.ink import Ink, Line, Span, fit, line, width_of
from widgets.line_view import LinesView, LineView
from widgets.modal import LineInput
from widgets.panel import Sheet, key_rows

KEYS = Keys("palette")
TITLE = 24
"""Cells that a title keeps beside what it does."""


class Row(NamedTuple):
    """Something that can be done."""

    name: str
    """What goes out when it is chosen."""
    title: str
    does: str
    key: str = ""
    """Its key as the user reads it; empty where it has none."""


class Found(NamedTuple):
    """A row, and which letters of its title were found."""

    row: Row
    letters: frozenset[int]


def find(rows: Sequence[Row], typed: str) -> list[Found]:
    """The rows that fit, the best first; in their own order while nothing is typed."""
    typed = typed.strip()
    if not typed:
        return [Found(row, frozenset()) for row in rows]
    ranked = []
    for number, row in enumerate(rows):
        if (of_title := match(row.title, typed)) is not None:
            ranked.append((of_title.cost, number, Found(row, of_title.letters)))
        elif typed.casefold() in f"{row.does} {row.key}".casefold():
            ranked.append((1000, number, Found(row, frozenset())))
    return [found for _cost, _number, found in sorted(ranked, key=lambda one: one[:2])]


class PaletteList(LineView):
    """One line for each; one is chosen."""

    class Clicked(Message):
        """A row was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found: Sequence[Found] = ()
        self.chosen = 0

    def show(self, found: Sequence[Found]) -> None:
        """These, the first one chosen."""
        self.found = found
        self.resize_content(Size(self.columns, max(1, len(found))))
        self.choose(0)

    def choose(self, place: int) -> None:
        """Another one is the chosen one; it comes into view."""
        self.chosen = max(0, min(len(self.found) - 1, place))
        height = self.size.height
        top = min(self.chosen, max(self.scroll_offset.y, self.chosen - height + 1)) if height else 0
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)
        self.refresh()

    def on_resize(self) -> None:
        """Another width: the same rows."""
        self.resize_content(Size(self.columns, max(1, len(self.found))))
        self.choose(self.chosen)

    def line_at(self, y: int) -> Line | None:
        """One row; what is said where there is none."""
        ink = self.ink
        if not self.found:
            return line(("nothing has these letters", ink.muted)) if y == 0 else None
        return self._line(self.found[y], y == self.chosen, ink) if y < len(self.found) else None

    def _line(self, found: Found, on: bool, ink: Ink) -> Line:
        row, width = found.row, self.columns - 1  # beside the scroll bar
        plain = ink.strong if on else ink.text
        spans: list[Span] = [("▸ " if on else "  ", ink.accent)]
        spans += [
            (letter, plain + ink.link if at in found.letters else plain)
            for at, letter in enumerate(row.title)
        ]
        pad = max(2, TITLE - len(row.title))
        room = width - width_of(spans) - pad - (len(row.key) + 2 if row.key else 0)
        does = fit(row.does, room) if room > 8 else ""
        spans += [(" " * pad, ink.text), (does, ink.muted)]
        gap = width - width_of(spans) - len(row.key)
        return line(*spans, (" " * max(0, gap), ink.text), (row.key, ink.accent))

    def on_click(self, event: events.Click) -> None:
        """Do it."""
        place = int(self.scroll_offset.y) + event.y
        if place < len(self.found):
            self.post_message(self.Clicked(place))


class Palette(Sheet):
    """A field, the list, what the keys do."""

    AUTO_FOCUS = "#palette-search"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel", "help")
    """Actions of the app whose keys are the palette's while it is open."""

    def __init__(
        self, rows: Sequence[Row], do: Callable[[str], None], *, closing: Sequence[str] = ()
    ) -> None:
        """`do` gets the name of the chosen row once the palette is gone; `closing` are further keys that close it."""
        super().__init__()
        self.rows = rows
        self._do = do
        self._leave_by = ("escape", "ctrl+c", *closing)
        self._text = ""
        self._list = PaletteList(id="palette-list")
        self._field = LineInput(id="palette-search", placeholder="what do you want to do?", first=self._first)
        self._sign = LinesView(lambda _width, ink: [line(("› ", ink.accent))], id="palette-sign")
        self._keys = LinesView(self.keys, id="palette-keys")

    def compose(self) -> ComposeResult:
        """From the field down to the keys."""
        with Vertical(id="dialog"):
            with Horizontal(id="palette-bar"):
                yield self._sign
                yield self._field
            yield self._list
            yield self._keys

    def on_mount(self) -> None:
        """All of them."""
        self._list.styles.min_height = len(self.rows)  # it does not jump while one types
        self._list.show(find(self.rows, ""))

    def on_resize(self) -> None:
        """The list gets what is left of the screen."""
        low = self.size.height < 20
        self.set_class(low, "-low")
        self._list.styles.max_height = max(3, self.size.height - (4 if low else 9))

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """What can be done, and how much was found."""
        moves = KEYS.both("up", "down").replace(" ", "  ")
        pairs = [*KEYS.pairs([("do", "do it")]), *([(moves, "choose")] if moves else []), ("esc", "back")]
        rows = key_rows(pairs, width - 12, ink)
        found, known = len(self._list.found), len(self.rows)
        count = str(known) if found == known else f"{found} of {known}"
        gap = max(1, width - width_of([(rows[0].text, ink.text)]) - len(count))
        last = line((" " * gap, ink.text), (count, ink.muted))
        return [Line([*rows[0].segments, *last.segments]), *rows[1:]]

    def _first(self, key: str) -> bool:
        """A key that the field would take."""
        action = KEYS.named(key)
        if not action and key in self._leave_by:
            self.dismiss()
            return True
        if action:
            self._take_text()
        if action == "do":
            self._use()
        elif action:
            page, end = max(1, self._list.size.height - 1), 10**6
            steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "top": -end, "bottom": end}
            self._list.choose(self._list.chosen + steps[action])
        return bool(action)

    def on_key(self, event: events.Key) -> None:
        """A key that came while the field did not have the focus."""
        event.prevent_default()
        if self._first(event.key):
            event.stop()
        else:
            self._field.focus()

    def on_input_changed(self, message: LineInput.Changed) -> None:
        """Find at once."""
        message.stop()
        self._take_text()

    def _take_text(self) -> None:
        if self._field.value != self._text:
            self._text = self._field.value
            self._list.show(find(self.rows, self._text))
            self._keys.relayout()

    def on_palette_list_clicked(self, message: PaletteList.Clicked) -> None:
        """Chosen with the mouse."""
        self._list.choose(message.place)
        self._use()

    def _use(self) -> None:
        if self._list.found:
            name = self._list.found[self._list.chosen].row.name
            self.dismiss()
            self.app.call_later(self._do, name)
