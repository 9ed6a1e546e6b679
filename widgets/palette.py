"""The command palette: finds any action by some of its letters, and shows its key (U5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.fuzzy import FuzzySearch

from widgets.dialog_keys import key_lines
from widgets.panel import cursor_mark
from widgets.picker_dialog import PickerDialog
from widgets.ranking import rank
from widgets.styled_text import Line, Span, TextStyles, fit, justified_line, line, overlay, width_of

TITLE_WIDTH = 24
"""Cells reserved for a title beside its description."""
MIN_DESCRIPTION_WIDTH = 9
FUZZY_SEARCH = FuzzySearch()


class PaletteRow(NamedTuple):
    """An action of the palette."""

    name: str
    """Identifies the action to the caller."""
    title: str
    description: str
    key: str = ""
    """Label of its key; may be empty."""
    group: str = ""
    """Its subject; rows of a subject stand together."""


class PaletteMatch(NamedTuple):
    """A row, and the positions of the matched letters in its title."""

    row: PaletteRow
    positions: Sequence[int]
    heading: str = ""
    """The subject of this row and of those that follow; empty if it is not the first one, or in a search."""


def find_rows(rows: Sequence[PaletteRow], query: str) -> list[PaletteMatch]:
    """Return the rows whose title, or else description, matches, best first; with an empty query all by subject."""
    letters = "".join(query.split())
    if not letters:
        groups = ["", *(row.group for row in rows)]
        return [
            PaletteMatch(row, (), row.group if row.group != before else "")
            for row, before in zip(rows, groups, strict=False)
        ]
    ranked = []
    for row in rows:
        if (order := rank(row.title, query, f"{row.description} {row.key} {row.group}")) is not None:
            score, positions = FUZZY_SEARCH.match(letters, row.title)
            ranked.append((order, -score, positions[0] if score else 0, PaletteMatch(row, positions if score else ())))
    return [match for *_rank, match in sorted(ranked, key=lambda entry: entry[:3])]


def _heading_lines(match: PaletteMatch, styles: TextStyles | None = None) -> list[Line]:
    """Paint the heading above a row, if it has one."""
    return [line((match.heading, styles.heading)) if styles else line()] if match.heading else []


class Palette(PickerDialog[PaletteMatch]):
    """Search field, list, keys."""

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel", "help")
    NAME = "palette"
    LAYOUT = ("bar", "list", "keys")
    HEIGHTS = (20, 4, 9)
    PLACEHOLDER = "search actions"
    EMPTY = "no action matches"
    EFFECT = "run"
    """What choosing a row does."""
    SIGN = "› "
    ACTIVATES_ON_CLICK = True

    def __init__(
        self, rows: Sequence[PaletteRow], on_chosen: Callable[[str], None], *, closing: Sequence[str] = ()
    ) -> None:
        """`on_chosen` gets the name of the chosen row after the palette closed; `closing` are more keys to close it."""
        super().__init__(empty=self.EMPTY, height=lambda match, _: len(_heading_lines(match)) + 1)
        self.rows = rows
        self._on_chosen = on_chosen
        self._close_keys = ("escape", "ctrl+c", *closing)
        self.set_total(len(rows))

    def on_mount(self) -> None:
        """Show all rows."""
        self.filter_rows()

    def filter_rows(self) -> None:
        """Show the rows that match the query, and select the best one."""
        self.list_view.set_rows(find_rows(self.rows, self.query_text))
        self.repaint_parts("keys")

    def _key_action(self, key: str) -> str:
        """Return the action of a key; keys of the palette take precedence over those that close it."""
        return self.keys.action_for_key(key) or ("back" if key in self._close_keys else "")

    def row_lines(self, match: PaletteMatch, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        row, width = match.row, width - 1  # beside the scroll bar
        title = (row.title, styles.strong if selected else styles.text)
        left = [cursor_mark(selected, styles), *overlay([title], [(i, i + 1) for i in match.positions], styles.link)]
        left.append((" " * max(2, TITLE_WIDTH - len(row.title)), styles.text))
        right: list[Span] = [(row.key, styles.accent)] if row.key else []
        room = width - width_of([*left, *right]) - 2 * len(right)
        if room >= MIN_DESCRIPTION_WIDTH:
            left.append((fit(row.description, room), styles.muted))
        return [*_heading_lines(match, styles), justified_line(left, right, width, styles)]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the keys, and the number of rows."""
        moves = self.keys.arrow_labels("up", "down")
        pairs = [*self.keys.hints([("do", self.EFFECT)]), (moves, "choose"), ("esc", "back")]
        first, *others = key_lines(pairs, width - 12, styles)
        spans = [(segment.text, segment.style or styles.text) for segment in first.segments]
        return [justified_line(spans, [(self._count_text, styles.muted)], width, styles), *others]

    def activate(self) -> None:
        """Close, and report the chosen row."""
        if self.current is not None:
            name = self.current.row.name
            self.dismiss()
            self.app.call_later(self._on_chosen, name)

    _action_do = activate
