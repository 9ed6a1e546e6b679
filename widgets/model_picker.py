"""The model picker: searches the server's models and chooses one for the session or for one of its roles (M5, U4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tui_agent.text import one_line
from widgets.panel import cursor_mark
from widgets.picker_dialog import PickerDialog
from widgets.styled_text import Line, Span, TextStyles, fit, justified_line, line, width_of, wrap

NAME_WIDTH = 22
"""Cells reserved for the name of a model beside its facts."""
MAX_NAME_LENGTH = 120
"""Maximum characters of a name that are shown."""


class ModelRow(NamedTuple):
    """A model in the picker. The texts are untrusted."""

    name: str
    label: str = ""
    """The user's name for it, if different."""
    abilities: str = ""
    window: str = ""
    build: str = ""


class RoleRow(NamedTuple):
    """A role and its model."""

    role: str
    label: str
    model: str
    source: str
    """Where the choice comes from, in a word or two."""
    chosen: bool = False
    """The user chose a model for this role, which can be reset."""


class ModelPicker(PickerDialog[ModelRow]):
    """Head, search, roles, list, consequences of the choice, keys. Subclasses provide models and apply the choice."""

    TITLE = "Models"
    NAME = "models"
    LAYOUT = ("head", "bar", "roles", "list", "about", "keys")
    HEIGHTS = (20, 9, 15)
    PLACEHOLDER = "search models"

    def __init__(self, *, endpoint: str) -> None:
        super().__init__(empty=f"Asking {endpoint} for its models …")
        self.sub_title = one_line(endpoint, MAX_NAME_LENGTH)
        self.rows: Sequence[ModelRow] | None = None
        """None until they are loaded."""
        self.role_rows: Sequence[RoleRow] = ()
        self.role_index = 0
        self._used_model = ""
        """Name of the model that the current role uses."""
        self._column_widths = (0, 0, 0)
        """Widths of window, abilities and build."""

    def outlook(self, role: str, name: str) -> Sequence[str]:
        """Return sentences about the consequences of choosing a model; empty while unknown."""
        raise NotImplementedError

    def choose(self, role: str, name: str) -> None:
        """Use a model for a role; an empty name resets the role."""
        raise NotImplementedError

    @property
    def role(self) -> RoleRow | None:
        """The role to choose a model for; None until the roles are loaded."""
        return self.role_rows[self.role_index] if self.role_rows else None

    # --- painting ---

    def row_lines(self, row: ModelRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        left = [cursor_mark(selected, styles), ("● " if row.name == self._used_model else "  ", styles.ok)]
        right: list[Span] = []
        window, abilities, build = self._column_widths
        for text, column_width, style in (
            (f"{row.window:>{window}}", window, styles.text),
            (f"{row.abilities:<{abilities}}", abilities, styles.muted),
            (f"{row.build:<{build}}", build, styles.muted),
        ):
            if column_width and width - width_of([*left, *right]) - column_width - 2 >= NAME_WIDTH:
                right += [("  ", styles.text), (text, style)]
        room = width - width_of([*left, *right])
        name = fit(one_line(row.name, MAX_NAME_LENGTH), room)
        left.append((name, styles.strong if selected else styles.text))
        if row.label and room - width_of(left[-1:]) > 8:
            left.append((f"  {one_line(row.label, MAX_NAME_LENGTH)}", styles.muted))
        return [justified_line(left, right[1:], width, styles)]

    def _roles(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the roles, and the model of the current one."""
        if (current := self.role) is None:
            return []
        spans: list[Span] = [("for", styles.muted)]
        for index, role in enumerate(self.role_rows):
            style = styles.link + styles.strong.without_color if role is current else styles.text
            spans += [("  ", styles.text), (role.label, style), ("•" if role.chosen and index else "", styles.accent)]
        if width_of(spans) > width:
            position = f"  {self.role_index + 1} of {len(self.role_rows)}"
            spans = [("for  ", styles.muted), (current.label, styles.link), (position, styles.muted)]
        source = f" · {current.source}" if current.source else ""
        model = fit(one_line(current.model, MAX_NAME_LENGTH) or "not known yet", max(8, width - 5 - len(source)))
        return [line(*spans), line(("now  ", styles.muted), (model, styles.text), (source, styles.muted))]

    def _about(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the consequences of choosing the current model."""
        if self.current is None or self.role is None:
            return []
        outlook = self.outlook(self.role.role, self.current.name)
        return wrap([(" ".join(one_line(sentence, 300) for sentence in outlook), styles.muted)], width)[:3]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys for the current model and role."""
        hints = [("use", "use it")] if self.current else []
        if len(self.role_rows) > 1:
            hints.append(("next_role", "for another role"))
        if self._can_reset():
            hints.append(("reset", "reset it"))
        return [*self.keys.hints(hints), ("esc", "back")]

    def show_rows(self, rows: Sequence[ModelRow], nothing: str = "") -> None:
        """Show the server's models, or `nothing`: why there are none."""
        if not self.is_attached:
            return
        is_first, self.rows = self.rows is None, rows
        self.list_view.empty = nothing or "No model matches."
        self.set_total(len(rows))
        self.filter_rows(self._used_model if is_first else "")

    def show_roles(self, roles: Sequence[RoleRow]) -> None:
        """Show the roles with their models."""
        self.role_rows = roles
        self._used_model = self.role.model if self.role is not None else ""
        self.list_view.repaint()
        self.repaint_parts("roles", "about", "keys")

    def filter_rows(self, selected: str = "") -> None:
        """Show the models that match the query; select the one named `selected`, or keep the selection."""
        name = selected or (self.current.name if self.current else "")
        self.show_matching(self.rows or (), lambda row: f"{row.label}\n{row.abilities}", name)
        lengths = ((len(row.window), len(row.abilities), len(row.build)) for row in self.list_view.rows)
        window, abilities, build = map(max, zip((0, 0, 0), *lengths, strict=True))
        self._column_widths = window, abilities, build
        self.repaint_parts("head", "about", "keys")

    def cursor_moved(self) -> None:
        """Show the consequences of the other model."""
        self.repaint_parts("about")

    # --- actions ---

    def activate(self) -> None:
        """Use the current model."""
        if self.current is not None and self.role is not None:
            self.choose(self.role.role, self.current.name)

    _action_use = activate

    def _action_next_role(self, step: int = 1) -> None:
        """Go to another role, and select its model."""
        if self.role_rows:
            self.role_index = (self.role_index + step) % len(self.role_rows)
            self.show_roles(self.role_rows)
            names = [row.name for row in self.list_view.rows]
            if self._used_model in names:
                self.list_view.move_to(names.index(self._used_model))
                self.cursor_moved()

    def _action_previous_role(self) -> None:
        self._action_next_role(-1)

    def _can_reset(self) -> bool:
        return self.role_index > 0 and self.role is not None and self.role.chosen

    def _action_reset(self) -> None:
        if self.role is not None and self._can_reset():
            self.choose(self.role.role, "")
