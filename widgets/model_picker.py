"""The model picker: searches the models of all servers and chooses one for the session or for one of its roles (M5, L3,
U4)."""

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
MAX_FACT = 40
"""Maximum characters of a fact that are shown."""
COLUMNS = ("server", "state", "window", "abilities", "speed", "build")
"""Facts of a row, the most important ones first: those that have room are shown."""


class ModelRow(NamedTuple):
    """A model in the picker, or a server without any. The texts are untrusted."""

    name: str
    """Empty for a server without models."""
    label: str = ""
    """The user's name for it, if different."""
    abilities: str = ""
    window: str = ""
    build: str = ""
    server: str = ""
    """Name of its server; empty for the session's own."""
    heading: str = ""
    """Above the row, the first one of its server."""
    state: str = ""
    """Whether it is loaded, and where."""
    speed: str = ""
    note: str = ""
    """Why a server has no models here."""
    loaded: bool | None = None
    """Whether it can be unloaded or loaded; None: the server does neither on request."""


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
        super().__init__(
            empty=f"Asking {endpoint} for its models …", height=lambda row, _: len(self._heading_lines(row)) + 1
        )
        self.sub_title = one_line(endpoint, MAX_NAME_LENGTH)
        self.rows: Sequence[ModelRow] | None = None
        """None until they are loaded."""
        self.role_rows: Sequence[RoleRow] = ()
        self.role_index = 0
        self._used_model = ""
        """Id of the row of the model that the current role uses."""
        self._column_widths = [0] * len(COLUMNS)
        self._confirmed = ""
        """Id of the row to load or unload with another press of the key."""

    def outlook(self, role: str, row: ModelRow) -> Sequence[str]:
        """Return sentences about the consequences of choosing a model; empty while unknown."""
        raise NotImplementedError

    def choose(self, role: str, name: str, server: str = "") -> None:
        """Use a model for a role; an empty name resets the role."""
        raise NotImplementedError

    def set_loaded(self, row: ModelRow, wanted: bool) -> None:
        """Load a model into memory, or unload it."""
        raise NotImplementedError

    def risk(self, row: ModelRow) -> str:
        """Return why loading or unloading a model needs a second press, as a sentence; empty if it does not."""
        raise NotImplementedError

    def reload(self) -> None:
        """List the servers and models again."""
        raise NotImplementedError

    def get_model(self) -> None:
        """Help to get another model."""
        raise NotImplementedError

    @property
    def role(self) -> RoleRow | None:
        """The role to choose a model for; None until the roles are loaded."""
        return self.role_rows[self.role_index] if self.role_rows else None

    @property
    def model(self) -> ModelRow | None:
        """The current row, if it is a model."""
        return self.current if self.current is not None and self.current.name else None

    def row_id(self, row: ModelRow) -> str:
        """See PickerDialog: two servers may have models of the same name."""
        return f"{row.server}\n{row.name}"

    # --- painting ---

    def row_lines(self, row: ModelRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        above = self._heading_lines(row, styles, width)
        used = self.row_id(row) == self._used_model
        left = [cursor_mark(selected, styles), ("● " if used else "  ", styles.ok)]
        if not row.name:
            return [*above, line(*left, (fit(one_line(row.note, 300), width - width_of(left)), styles.muted))]
        right: list[Span] = []
        for name, column_width in self._fitting(width).items():
            text, style = one_line(getattr(row, name), MAX_FACT), styles.muted
            if name == "state" and row.state:
                style = styles.ok if row.state.startswith("loaded") else styles.warn
            elif name == "window":
                text, style = f"{text:>{column_width}}", styles.text
            right += [("  ", styles.text), (f"{text:<{column_width}}", style)]
        room = width - width_of([*left, *right])
        name = fit(one_line(row.name, MAX_NAME_LENGTH), room)
        left.append((name, styles.strong if selected else styles.text))
        if row.label and room - width_of(left[-1:]) > 8:
            left.append((f"  {one_line(row.label, MAX_NAME_LENGTH)}", styles.muted))
        return [*above, justified_line(left, right[1:], width, styles)]

    def _fitting(self, width: int) -> dict[str, int]:
        """Return the facts that have room in a row, with the widths of their columns."""
        fitting: dict[str, int] = {}
        room = width - 4 - NAME_WIDTH
        for name, column_width in zip(COLUMNS, self._column_widths, strict=True):
            if column_width and column_width + 2 <= room:
                fitting[name] = column_width
                room -= column_width + 2
        return fitting

    def _heading_lines(self, row: ModelRow, styles: TextStyles | None = None, width: int = 1) -> list[Line]:
        """Paint the name of a server above its models, while nothing is searched for: then the best rows come first."""
        if not row.heading or self.query_text:
            return []
        heading = line((fit(one_line(row.heading, 200), width), styles.heading)) if styles else line()
        is_first = bool(self.rows) and self.rows is not None and row is self.rows[0]
        return [heading] if is_first or self.has_class("-low") else [line(), heading]

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
        """Paint the consequences of choosing the current model, and the facts for which its row has no room."""
        if (row := self.model) is None or self.role is None:
            return []
        outlook = [one_line(sentence, 300) for sentence in self.outlook(self.role.role, row)]
        shown = self._fitting(self.list_view.columns)
        facts = [one_line(getattr(row, name), MAX_FACT) for name in COLUMNS[1:] if name not in shown]
        return wrap([(" ".join([*outlook, " · ".join(filter(None, facts))]).strip(), styles.muted)], width)[:3]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys for the current model and role."""
        row = self.model
        hints = [("use", "use it")] if row is not None else []
        if len(self.role_rows) > 1:
            hints.append(("next_role", "for another role"))
        if self._can_reset():
            hints.append(("reset", "reset it"))
        if row is not None and row.loaded is not None:
            hints.append(("load", "unload it" if row.loaded else "load it"))
        hints += [("refresh", "refresh"), ("get", "get a model")]
        return [*self.keys.hints(hints), ("esc", "back")]

    def show_rows(self, rows: Sequence[ModelRow], nothing: str = "") -> None:
        """Show the models of the servers, or `nothing`: why there are none."""
        if not self.is_attached:
            return
        is_first, self.rows = self.rows is None, rows
        self.list_view.empty = nothing or "No model matches."
        self.set_total(sum(bool(row.name) for row in rows))
        self.filter_rows(self._used_model if is_first else "")

    def show_roles(self, roles: Sequence[RoleRow]) -> None:
        """Show the roles with their models, which are on the session's server."""
        self.role_rows = roles
        self._used_model = f"\n{self.role.model}" if self.role is not None else ""
        self.list_view.repaint()
        self.repaint_parts("roles", "about", "keys")

    def filter_rows(self, selected: str = "") -> None:
        """Show the models that match the query; select the row with the id `selected`, or keep the selection."""
        wanted = selected or (self.row_id(self.current) if self.current else "")
        self.show_matching(self.rows or (), lambda row: f"{row.label}\n{row.abilities}\n{row.server}", wanted)
        rows = [row for row in self.list_view.rows if row.name]
        self._column_widths = [
            max((len(one_line(getattr(row, name), MAX_FACT)) for row in rows), default=0) for name in COLUMNS
        ]
        if not self.query_text:
            self._column_widths[0] = 0  # headings name the servers
        self._confirmed = ""
        self.repaint_parts("head", "about", "keys")

    @property
    def _count_text(self) -> str:
        shown = sum(bool(row.name) for row in self.list_view.rows)
        return "" if self.total is None else str(shown) if shown == self.total else f"{shown} of {self.total}"

    def cursor_moved(self) -> None:
        """Show the consequences of the other model."""
        self._confirmed = ""
        self.repaint_parts("about", "keys")

    # --- actions ---

    def activate(self) -> None:
        """Use the current model."""
        if (row := self.model) is not None and self.role is not None:
            self.choose(self.role.role, row.name, row.server)

    _action_use = activate

    def _action_next_role(self, step: int = 1) -> None:
        """Go to another role, and select its model."""
        if self.role_rows:
            self.role_index = (self.role_index + step) % len(self.role_rows)
            self.show_roles(self.role_rows)
            ids = [self.row_id(row) for row in self.list_view.rows]
            if self._used_model in ids:
                self.list_view.move_to(ids.index(self._used_model))
                self.cursor_moved()

    def _action_previous_role(self) -> None:
        self._action_next_role(-1)

    def _can_reset(self) -> bool:
        return self.role_index > 0 and self.role is not None and self.role.chosen

    def _action_reset(self) -> None:
        if self.role is not None and self._can_reset():
            self.choose(self.role.role, "")

    def _action_load(self) -> None:
        """Load or unload the current model, after a second press if that affects one in use."""
        if (row := self.model) is None or row.loaded is None:
            return
        if (risk := self.risk(row)) and self._confirmed != self.row_id(row):
            self._confirmed = self.row_id(row)
            key = self.keys.label("load")
            self.show_message(f"{risk} {key} again {'unloads' if row.loaded else 'loads'} it.")
            return
        self._confirmed = ""
        self.set_loaded(row, not row.loaded)

    def _action_refresh(self) -> None:
        self.reload()

    def _action_get(self) -> None:
        self.get_model()
