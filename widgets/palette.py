"""The command palette: everything that can be done, found by a few of its letters, with the key of each (U5).

It knows of no app: rows come in, and the name of the one that is chosen goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from widgets.dialog_keys import Keys, key_lines
from widgets.panel import cursor_mark
from widgets.picker_dialog import PickerDialog, counted
from widgets.styled_text import Line, Span, TextStyles, fit, line, overlay, width_of

TITLE = 24
"""Cells that a title keeps beside its description."""


FuzzyMatch: TypeAlias = tuple[int, frozenset[int]]
"""What a fit costs, less is better, and the places of the letters that were found."""


def fuzzy_match(name: str, typed: str) -> FuzzyMatch | None:
    """The letters in their order, anywhere; together and at the beginning of words is better. None for no fit."""
    name, typed = name.casefold(), "".join(typed.casefold().split())
    at = name.find(typed)
    if at >= 0:
        begins = at == 0 or not name[at - 1].isalnum()
        return 0 if at == 0 else 20 if begins else 40, frozenset(range(at, at + len(typed)))
    if places := _places(name, typed, words=True):
        return 60 + places[-1], frozenset(places)
    if places := _places(name, typed, words=False):
        return 100 + places[-1] - places[0], frozenset(places)
    return None


def _places(name: str, typed: str, *, words: bool) -> list[int]:
    """Places of the letters in their order, with `words` at the beginnings of words where they do not follow each
    other; none where there are not all of them."""
    places: list[int] = []
    for letter in typed:
        start = places[-1] + 1 if places else 0
        found = name.find(letter, start)
        if words and places and found != start:
            begins = (at for at in range(start, len(name)) if name[at] == letter and not name[at - 1].isalnum())
            found = next(begins, found)
        if found < 0:
            return []
        places.append(found)
    return places


class PaletteRow(NamedTuple):
    """Something that can be done."""

    name: str
    """What goes out when it is chosen."""
    title: str
    does: str
    key: str = ""
    """Its key as the user reads it; empty where it has none."""


class PaletteMatch(NamedTuple):
    """A row, and which letters of its title were found."""

    row: PaletteRow
    letters: frozenset[int]


def find_rows(rows: Sequence[PaletteRow], typed: str) -> list[PaletteMatch]:
    """The rows that match, the best first; in their own order while nothing is typed."""
    typed = typed.strip()
    if not typed:
        return [PaletteMatch(row, frozenset()) for row in rows]
    ranked = []
    for number, row in enumerate(rows):
        if (of_title := fuzzy_match(row.title, typed)) is not None:
            ranked.append((of_title[0], number, PaletteMatch(row, of_title[1])))
        elif typed.casefold() in f"{row.does} {row.key}".casefold():
            ranked.append((1000, number, PaletteMatch(row, frozenset())))
    return [found for _cost, _number, found in sorted(ranked, key=lambda entry: entry[:2])]


class Palette(PickerDialog[PaletteMatch]):
    """A field, the list, what the keys do."""

    AUTO_FOCUS = "#palette-search"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel", "help")
    NAME = "palette"
    KEYS = Keys("palette")
    LAYOUT = ("bar", "list", "keys")
    LOW = (20, 4, 9)
    PLACEHOLDER = "search actions"
    SIGN = "› "
    ACTIVATES_ON_CLICK = True

    def __init__(self, rows: Sequence[PaletteRow], do: Callable[[str], None], *, closing: Sequence[str] = ()) -> None:
        """`do` gets the name of the chosen row once the palette is closed; `closing` are further keys that close it."""
        super().__init__(empty="no action matches")
        self.rows = rows
        self._do = do
        self._close_keys = ("escape", "ctrl+c", *closing)

    def on_mount(self) -> None:
        """Show all rows."""
        self._list.styles.min_height = len(self.rows)  # it does not jump while one types
        self._list.set_rows(find_rows(self.rows, ""))

    def filter_rows(self) -> None:
        """The rows that match the text, the best one chosen."""
        self._list.set_rows(find_rows(self.rows, self.query_text))
        self.repaint_parts("keys")

    def action_of(self, key: str) -> str:
        """Keys of the palette come before those that close it."""
        return self.KEYS.action_for_key(key) or ("back" if key in self._close_keys else "")

    def row_lines(self, found: PaletteMatch, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        row, width = found.row, width - 1  # beside the scroll bar
        plain = styles.strong if selected else styles.text
        left = [cursor_mark(selected, styles)]
        left += overlay([(row.title, plain)], [(at, at + 1) for at in found.letters], styles.link)
        pad = max(2, TITLE - len(row.title))
        room = width - width_of(left) - pad - (len(row.key) + 2 if row.key else 0)
        left += [(" " * pad, styles.text), (fit(row.does, room) if room > 8 else "", styles.muted)]
        gap = width - width_of(left) - len(row.key)
        return [line(*left, (" " * max(0, gap), styles.text), (row.key, styles.accent))]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be done, and how much was found."""
        moves = self.KEYS.labels("up", "down").replace(" ", "  ")
        pairs = [*self.KEYS.hints([("do", "do it")]), (moves, "choose"), ("esc", "back")]
        first, *more = key_lines(pairs, width - 12, styles)
        count = counted(len(self._list.rows), len(self.rows))
        gap: Span = (" " * max(1, width - width_of([(first.text, styles.text)]) - len(count)), styles.text)
        return [Line([*first.segments, *line(gap, (count, styles.muted)).segments]), *more]

    def activate(self) -> None:
        """Close, and do what was chosen."""
        if self.chosen is not None:
            name = self.chosen.row.name
            self.dismiss()
            self.app.call_later(self._do, name)

    ACTIONS: ClassVar[Mapping[str, Callable[..., object]]] = {"do": activate, "back": lambda palette: palette.dismiss()}
