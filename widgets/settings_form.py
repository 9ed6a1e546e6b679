"""All settings on one screen: searched while one types, each with its value and where that comes from, and changed in
place (U4). It knows of no file: rows come in, and what the user wants is done by a subclass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len

from widgets.dialog_keys import Keys, key_lines
from widgets.panel import WIDE, cursor_mark
from widgets.picker_dialog import PickerDialog, counted
from widgets.styled_text import Line, Span, TextStyles, fit, justified_line, line, width_of, wrap

NAME = 30
"""Cells of a setting's name."""
SOURCE = 24
"""Cells that a value leaves to its source, where there is room for both."""

CHANGING = Keys("setting")


class SettingRow(NamedTuple):
    """A setting as the screen shows it."""

    name: str
    value: str
    """On one line, without secrets."""
    source: str
    """Where the value comes from, in a few words; empty for a built-in one."""
    says: str
    """What it is."""
    kind: str
    """What it may be."""
    default: str
    words: tuple[str, ...] = ()
    """All values that there are, where they can be counted."""
    typed: str = ""
    """What stands in the field when it is changed."""
    own: bool = False
    """It is set in the user's own file, so that it can be removed there."""


class SettingsForm(PickerDialog[SettingRow]):
    """A field, the list, what the chosen one is, keys."""

    AUTO_FOCUS = "#settings-search"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel", "help")
    NAME = "settings"
    KEYS = Keys("settings")
    LAYOUT = ("head", "bar", "list", "about", "keys")
    LOW = (24, 9, 14)
    PLACEHOLDER = "search settings"

    def __init__(self, rows: Sequence[SettingRow], *, file: str) -> None:
        """`file` is where changes are written."""
        super().__init__(empty="no setting matches")
        self.rows = rows
        self.file = file
        self.editing: SettingRow | None = None
        """The setting whose value is in the field; None while the field searches."""

    def save(self, name: str, text: str) -> None:
        """Write this value into the user's own file; the result is shown later."""
        raise NotImplementedError

    def reset(self, name: str) -> None:
        """Remove the setting from the user's own file."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show all settings."""
        self._list.styles.min_height = len(self.rows)  # it does not jump while one types
        self._list.set_rows(self.rows)

    def on_resize(self) -> None:
        """Wide where there is room."""
        self.set_class(self.size.width >= WIDE, "-wide")

    # --- what is shown ---

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        """What it is, and where changes go."""
        where = fit(self.file, max(1, width - 30))
        left = [("Settings ", styles.heading), (f"changes are saved in {where}", styles.muted)]
        count = counted(len(self._list.rows), len(self.rows))
        return [justified_line(left, [(count, styles.muted)], width, styles)]

    def row_lines(self, row: SettingRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        width -= 1  # beside the scroll bar
        names = min(NAME, width // 2)
        spans = [cursor_mark(selected, styles), (fit(row.name, names), styles.strong if selected else styles.text)]
        spans.append((" " * (names + 4 - width_of(spans)), styles.text))
        room = width - width_of(spans)
        reserved = min(SOURCE, cell_len(row.source) + 2) if room >= 2 * SOURCE else 0
        spans.append((fit(row.value, max(1, room - reserved)), styles.accent if row.source else styles.muted))
        left = width - width_of(spans) - 2
        source = fit(row.source, left) if left >= min(SOURCE // 2, cell_len(row.source)) else ""
        gap = left + 2 - cell_len(source)
        return [line(*spans, (" " * max(0, gap), styles.text), (source, styles.muted))]

    def _sign(self, width: int, styles: TextStyles) -> list[Line]:
        """Another one while a value is changed."""
        return [line(("= " if self.editing else self.SIGN, styles.accent))]

    def _about(self, width: int, styles: TextStyles) -> list[Line]:
        """What the chosen one is, what it may be, and where its value comes from."""
        row = self.chosen
        if row is None:
            return [Line([])] * 3
        lines = wrap([(row.says, styles.text)], width)[:2]
        facts: list[Span] = []
        for label, text in (("may be ", row.kind), (" · built in: ", row.default), (" · now from: ", row.source)):
            facts += [(label, styles.muted), (text or "built in", styles.text)]
        lines += wrap(facts, width)
        return [*lines, *[Line([])] * 4][:4]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be done, or the message."""
        if self.message:
            return self._message_lines(width, styles)
        if self.editing is not None:
            turns = CHANGING.labels("previous_word", "next_word").replace(" ", "  ")
            more = [(turns, "next choice")] if self.editing.words else []
            pairs = [*CHANGING.hints([("keep", "save")]), *more, ("esc", "cancel")]
            return key_lines(pairs, width, styles)
        moves = self.KEYS.labels("up", "down").replace(" ", "  ")
        pairs = [*self.KEYS.hints([("change", "change")]), (moves, "choose")]
        pairs += self.KEYS.hints([("reset", "reset to default")]) if self.chosen is not None and self.chosen.own else []
        return key_lines([*pairs, ("esc", "back")], width, styles)

    def show_rows(self, rows: Sequence[SettingRow], message: str) -> None:
        """The settings after a change; `message` says what was done."""
        self.rows = rows
        self._stop_editing()
        self.show_message(message)

    # --- what is done ---

    @property
    def searching(self) -> bool:
        """While no value is changed."""
        return self.editing is None

    def filter_rows(self) -> None:
        """The settings that have all the words; the cursor stays at its setting."""
        name = self.chosen.name if self.chosen else ""
        self.show_matching(self.rows, lambda row: f"{row.name} {row.says} {row.value} {row.source}", name)
        self.repaint_parts("head", "about", "keys")

    def cursor_moved(self) -> None:
        """Another setting is described."""
        self.repaint_parts("about", "keys")

    def action_of(self, key: str) -> str:
        """Other keys while a value is changed. Reset is a key of the field's while there is nothing to reset."""
        if self.editing is not None and key not in ("escape", "ctrl+c"):
            return CHANGING.action_for_key(key)
        action = super().action_of(key)
        resets = action == "reset" and (self.field.value or self.chosen is None or not self.chosen.own)
        return "" if resets else action

    @property
    def actions(self) -> Mapping[str, Callable[..., object]]:
        """While one searches, and while a value is changed."""
        return self.ACTIONS if self.editing is None else self.EDITING

    def activate(self) -> None:
        """Put the value into the field."""
        if (row := self.chosen) is not None:
            self.editing = row
            self.set_text(row.typed)
            self.repaint_parts("sign", "keys")

    def _turn(self, by: int) -> None:
        """The next of the words that it may be."""
        words = self.editing.words if self.editing else ()
        if words:
            value = self.field.value
            self.set_text(words[(words.index(value) + by) % len(words) if value in words else 0])

    def _save(self) -> None:
        if self.editing is not None and self.field.value == self.editing.typed:
            self._stop_editing()  # also a hidden value, of which nothing was in the field
        elif self.editing is not None:
            self.save(self.editing.name, self.field.value)

    def _reset(self) -> None:
        if self.chosen is not None:
            self.reset(self.chosen.name)

    def _stop_editing(self) -> None:
        self.editing = None
        self.set_text(self.query_text)
        self.repaint_parts("sign")
        self.filter_rows()

    ACTIONS: ClassVar[Mapping[str, Callable[..., object]]] = {
        "change": activate,
        "reset": _reset,
        "back": lambda form: form.dismiss(),
    }
    EDITING: ClassVar[Mapping[str, Callable[..., object]]] = {
        "keep": _save,
        "previous_word": lambda form: form._turn(-1),
        "next_word": lambda form: form._turn(1),
        "back": _stop_editing,
    }
