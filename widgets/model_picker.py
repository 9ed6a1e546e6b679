"""Choosing a model, for the session or for one of its roles: what the server has, searched while one types (M5, U4).

It knows of no server: rows come in, and a subclass does what the user wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from tui_agent.text import one_line
from widgets.dialog_keys import Keys, key_lines
from widgets.panel import cursor_mark
from widgets.picker_dialog import PickerDialog, counted
from widgets.styled_text import Line, Span, TextStyles, fit, justified_line, line, width_of, wrap

NAME = 22
"""Cells that a model's name keeps beside its facts."""
LONGEST = 120
"""Characters of a name that are shown at most."""


class ModelRow(NamedTuple):
    """A model as the picker shows it. Nothing of it is trusted text."""

    name: str
    label: str = ""
    """What the user calls it, where that is another name."""
    able: str = ""
    """What it is able to, in words."""
    window: str = ""
    build: str = ""
    loaded: bool = False


class RoleRow(NamedTuple):
    """A role, and what answers in it."""

    role: str
    says: str
    """What the role is called."""
    model: str
    why: str
    """Whose choice that is, in a word or two."""
    own: bool = False
    """The user chose it for this role, so that the choice can be revoked."""


class ModelPicker(PickerDialog[ModelRow]):
    """Head, search, roles, list, what the chosen one would mean, keys."""

    AUTO_FOCUS = "#models-search"
    NAME = "models"
    KEYS = Keys("models")
    LAYOUT = ("head", "bar", "roles", "list", "about", "keys")
    LOW = (20, 9, 15)
    PLACEHOLDER = "search models"

    def __init__(self, *, where: str, text: str = "") -> None:
        """`where` is the server, `text` what is searched for at first."""
        super().__init__(query=text, empty=f"Asking {where} for its models …")
        self.where = where
        self.rows: Sequence[ModelRow] | None = None
        """None until they are known."""
        self.role_rows: Sequence[RoleRow] = ()
        self.role = 0
        self._used = ""
        """Name of the model that is in use."""
        self._widths = (0, 0, 0)
        """Cells of the columns: window, abilities, build."""

    def outlook(self, role: str, name: str) -> Sequence[str]:
        """What choosing it would mean, in sentences; empty as long as that is not known."""
        raise NotImplementedError

    def choose(self, role: str, name: str) -> None:
        """Use it; an empty name revokes the choice."""
        raise NotImplementedError

    # --- what is shown ---

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        """Whose models, and how many there are."""
        count = "" if self.rows is None else counted(len(self._list.rows), len(self.rows))
        left = [("Models ", styles.heading), (fit(one_line(self.where, LONGEST), width - 18), styles.muted)]
        return [justified_line(left, [(count, styles.muted)], width, styles)]

    def row_lines(self, row: ModelRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        left = [cursor_mark(selected, styles), ("● " if row.name == self._used else "  ", styles.ok)]
        right: list[Span] = []
        window, able, build = self._widths
        for text, wide, style in (
            (f"{row.window:>{window}}", window, styles.text),
            (f"{row.able:<{able}}", able, styles.muted),
            (f"{row.build:<{build}}", build, styles.muted),
        ):
            if wide and width - width_of([*left, *right]) - wide - 2 >= NAME:
                right += [("  ", styles.text), (text, style)]
        room = width - width_of([*left, *right])
        name = (fit(one_line(row.name, LONGEST), room), styles.strong if selected else styles.text)
        rest = room - width_of([name])
        label = fit(f"  {one_line(row.label, LONGEST)}", rest) if row.label and rest > 8 else ""
        left += [name, (label, styles.muted)]
        return [line(*left, (" " * (width - width_of([*left, *right])), styles.text), *right)]

    def _roles(self, width: int, styles: TextStyles) -> list[Line]:
        """For what a model is chosen, and what does it now."""
        if not self.role_rows:
            return [Line([]), Line([])]
        now = self.role_rows[self.role]
        spans: list[Span] = [("for", styles.muted)]
        for number, role_row in enumerate(self.role_rows):
            style = styles.link + styles.strong.without_color if number == self.role else styles.text
            mark = "•" if role_row.own and number else ""
            spans += [("  ", styles.text), (role_row.says, style), (mark, styles.accent)]
        if width_of(spans) > width:
            place = f"  {self.role + 1} of {len(self.role_rows)}"
            spans = [("for  ", styles.muted), (now.says, styles.link), (place, styles.muted)]
        tail = f" · {now.why}" if now.why else ""
        model = fit(one_line(now.model, LONGEST) or "not known yet", max(8, width - 5 - len(tail)))
        return [line(*spans), line(("now  ", styles.muted), (model, styles.text), (tail, styles.muted))]

    def _about(self, width: int, styles: TextStyles) -> list[Line]:
        """What choosing it would mean."""
        if self.chosen is None or not self.role_rows:
            return [Line([])]
        outlook = self.outlook(self.role_rows[self.role].role, self.chosen.name)
        return wrap([(" ".join(one_line(sentence, 300) for sentence in outlook), styles.muted)], width)[:3]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be done, or the message."""
        if self.message:
            return self._message_lines(width, styles)
        offered = [("use", "use it")] if self.chosen else []
        if len(self.role_rows) > 1:
            offered.append(("next_role", "for another role"))
        if self.role and self.role_rows[self.role].own:
            offered.append(("take_back", "reset it"))
        return key_lines([*self.KEYS.hints(offered), ("esc", "back")], width, styles)

    def show_rows(self, rows: Sequence[ModelRow], nothing: str = "") -> None:
        """The server's models, or `nothing`: why there are none."""
        if not self.is_attached:
            return
        first, self.rows = self.rows is None, rows
        self._list.empty = nothing or "No model matches."
        self._list.styles.min_height = len(rows)  # it does not jump while one types
        self.filter_rows(self._used if first else "")

    def show_roles(self, roles: Sequence[RoleRow]) -> None:
        """Every role with its model."""
        self.role_rows = roles
        self._used = roles[self.role].model if self.role < len(roles) else ""
        self._list.repaint()
        self.repaint_parts("roles", "about", "keys")

    # --- what is done ---

    def filter_rows(self, choose: str = "") -> None:
        """The models that have all the words; the cursor goes to the one named `choose`, or stays at its model."""
        name = choose or (self.chosen.name if self.chosen else "")
        self.show_matching(self.rows or (), lambda row: f"{row.name}\n{row.label}\n{row.able}", name)
        columns = ([len(row.window), len(row.able), len(row.build)] for row in self._list.rows)
        window, able, build = map(max, zip((0, 0, 0), *columns, strict=True))
        self._widths = window, able, build
        self.repaint_parts("head", "about", "keys")

    def cursor_moved(self) -> None:
        """Another model: other consequences."""
        self.repaint_parts("about")

    def activate(self) -> None:
        """Use the chosen model."""
        if self.chosen is not None and self.role_rows:
            self.choose(self.role_rows[self.role].role, self.chosen.name)

    def _turn(self, by: int) -> None:
        """Go to another role, the cursor to its model."""
        if self.role_rows:
            self.role = (self.role + by) % len(self.role_rows)
            self.show_roles(self.role_rows)
            for index, row in enumerate(self._list.rows):
                if row.name == self._used:
                    self._list.move_to(index)
                    self.cursor_moved()

    def _revoke(self) -> None:
        if self.role and self.role_rows[self.role].own:
            self.choose(self.role_rows[self.role].role, "")

    ACTIONS: ClassVar[Mapping[str, Callable[..., object]]] = {
        "use": activate,
        "next_role": lambda picker: picker._turn(1),
        "previous_role": lambda picker: picker._turn(-1),
        "take_back": _revoke,
        "back": lambda picker: picker.dismiss(),
    }
