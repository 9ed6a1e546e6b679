"""All settings on one screen: searchable, each with its value and source, and editable in place (U4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len

from widgets.dialog_keys import Keys
from widgets.panel import cursor_mark
from widgets.picker_dialog import PickerDialog
from widgets.styled_text import Line, Span, TextStyles, fit, justified_line, line, width_of, wrap

NAME_WIDTH = 30
"""Maximum cells of a setting's name."""
SOURCE_WIDTH = 24
"""Maximum cells reserved for the source beside the value."""
EDITING_KEYS = Keys("setting")


class SettingRow(NamedTuple):
    """A setting on the screen."""

    name: str
    value: str
    """On one line, without secrets."""
    source: str
    """Where the value comes from; empty for the built-in one."""
    description: str
    kind: str
    """The values it accepts, in words."""
    default: str
    choices: tuple[str, ...] = ()
    """All values it accepts, if they can be listed."""
    text: str = ""
    """The value as the user edits it; empty if it contains secrets."""
    in_user_file: bool = False
    """The user's own file sets it, so that it can be reset."""
    heading: str = ""
    """Subject of this setting and of those that follow; empty if it is not the first one."""


class SettingsForm(PickerDialog[SettingRow]):
    """Head, search, list, description of the current setting, keys. Subclasses save the changes."""

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel", "help")
    TITLE = "Settings"
    NAME = "settings"
    LAYOUT = ("head", "bar", "list", "about", "keys")
    HEIGHTS = (24, 9, 14)
    PLACEHOLDER = "search settings"

    def __init__(self, rows: Sequence[SettingRow], *, file: str, query: str = "") -> None:
        """`file` is the path of the file that changes are written to, `query` the initial search."""
        super().__init__(
            query=query, empty="no setting matches", height=lambda row, _: len(self._heading_lines(row)) + 1
        )
        self.sub_title = f"changes are saved in {file}"
        self.rows = rows
        self.editing: SettingRow | None = None
        """The setting whose value is in the field; None while the field searches."""
        self.set_total(len(rows))

    def save(self, name: str, text: str) -> None:
        """Write a value to the user's own file; `show_rows` shows the result."""
        raise NotImplementedError

    def reset(self, name: str) -> None:
        """Remove a setting from the user's own file."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show all settings."""
        self.filter_rows()

    # --- painting ---

    def row_lines(self, row: SettingRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        width -= 1  # beside the scroll bar
        name_width = min(NAME_WIDTH, width // 2)
        name = fit(row.name, name_width)
        left = [cursor_mark(selected, styles), (name, styles.strong if selected else styles.text)]
        left.append((" " * (name_width + 4 - width_of(left)), styles.text))
        room = width - width_of(left)
        reserved = min(SOURCE_WIDTH, cell_len(row.source) + 2) if room >= 2 * SOURCE_WIDTH else 0
        left.append((fit(row.value, max(1, room - reserved)), styles.accent if row.source else styles.muted))
        room = width - width_of(left) - 2
        is_readable = room >= min(SOURCE_WIDTH // 2, cell_len(row.source))
        right: list[Span] = [(fit(row.source, room), styles.muted)] if row.source and is_readable else []
        return [*self._heading_lines(row, styles), justified_line(left, right, width, styles)]

    def _heading_lines(self, row: SettingRow, styles: TextStyles | None = None) -> list[Line]:
        """Paint the heading above a row, while nothing is searched for: then the best rows come first."""
        if not row.heading or self.query_text:
            return []
        heading = line((row.heading, styles.heading)) if styles else line()
        return [heading] if row is self.rows[0] else [line(), heading]

    def _sign(self, width: int, styles: TextStyles) -> list[Line]:
        return [line(("= " if self.editing else self.SIGN, styles.accent))]

    def _about(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the description of the current setting, the values it accepts, its default and its source."""
        if (row := self.current) is None:
            return []
        lines = wrap([(row.description, styles.text)], width)[:2]
        facts: list[Span] = []
        for label, text in (("type: ", row.kind), (" · default: ", row.default), (" · source: ", row.source)):
            facts += [(label, styles.muted), (text or "default", styles.text)]
        return [*lines, *wrap(facts, width)]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys for the current setting."""
        if self.editing is not None:
            choices = EDITING_KEYS.labels("previous_word", "next_word", separator="  ") if self.editing.choices else ""
            return [*EDITING_KEYS.hints([("keep", "save")]), (choices, "next choice"), ("esc", "cancel")]
        moves = self.keys.arrow_labels("up", "down")
        resets = self.keys.hints([("reset", "reset to default")]) if self._can_reset() else []
        return [*self.keys.hints([("change", "change")]), (moves, "choose"), *resets, ("esc", "back")]

    def show_rows(self, rows: Sequence[SettingRow], message: str) -> None:
        """Show the settings after a change, and its result as a message."""
        self.rows = rows
        self._stop_editing()
        self.show_message(message)

    @property
    def searching(self) -> bool:
        """Whether the field filters the list, rather than editing a value."""
        return self.editing is None

    def filter_rows(self) -> None:
        """Show the settings that match the query; the cursor stays at its setting."""
        name = self.current.name if self.current else ""
        self.show_matching(self.rows, lambda row: f"{row.description} {row.value} {row.source}", name)
        self.repaint_parts("head", "about", "keys")

    def cursor_moved(self) -> None:
        """Describe the other setting."""
        self.repaint_parts("about", "keys")

    # --- actions ---

    def _key_action(self, key: str) -> str:
        """Return the action of a key. The field gets the reset key if there is text in it or nothing to reset."""
        if self.editing is not None and key not in ("escape", "ctrl+c"):
            return EDITING_KEYS.action_for_key(key)
        action = super()._key_action(key)
        return "" if action == "reset" and (self.field.value or not self._can_reset()) else action

    def _can_reset(self) -> bool:
        return self.current is not None and self.current.in_user_file

    def activate(self) -> None:
        """Edit the value of the current setting in the field."""
        if (row := self.current) is not None:
            self.editing = row
            self.set_text(row.text)
            self.repaint_parts("sign", "keys")

    _action_change = activate

    def _action_next_word(self, step: int = 1) -> None:
        """Put another choice into the field."""
        choices = self.editing.choices if self.editing else ()
        if choices:
            value = self.field.value
            self.set_text(choices[(choices.index(value) + step) % len(choices) if value in choices else 0])

    def _action_previous_word(self) -> None:
        self._action_next_word(-1)

    def _action_keep(self) -> None:
        if self.editing is not None and self.field.value == self.editing.text:
            self._stop_editing()  # unchanged, or a secret that was not put into the field
        elif self.editing is not None:
            self.save(self.editing.name, self.field.value)

    def _action_reset(self) -> None:
        if self.current is not None:
            self.reset(self.current.name)

    def _action_back(self) -> None:
        if self.editing is not None:
            self._stop_editing()
        else:
            super()._action_back()

    def _stop_editing(self) -> None:
        self.editing = None
        self.set_text(self.query_text)
        self.repaint_parts("sign")
        self.filter_rows()
