"""Choosing a model, for the session or for one of its roles: what the server has, searched while one types (M5, U4).

It knows of no server: rows come in, and what the user wants goes to a `ModelDoor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message

from tui_agent.text import one_line
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, fit, line, width_of, wrap
from widgets.line_view import LinesView, LineView
from widgets.modal import LineInput
from widgets.panel import Sheet, key_rows

NAME = 22
"""Cells that a model's name keeps beside its facts."""
LONGEST = 120
"""Characters of a name that are looked at."""

KEYS = Keys("models")


class Row(NamedTuple):
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
    """The user chose it for this role, so that it can be taken back."""


class ModelDoor(Protocol):
    """What the user wants of the models. All of it returns at once; what comes of it is shown later."""

    def outlook(self, role: str, name: str) -> Sequence[str]:
        """What choosing it would mean, in sentences; empty as long as that is not known."""
        ...

    def choose(self, role: str, name: str) -> None:
        """Use it; an empty name takes the choice back."""
        ...

    def closed(self) -> None:
        """The picker is gone."""
        ...


class ModelList(LineView):
    """One line a model; one is chosen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.chosen = 0
        self.used = ""
        """Name of the one that is in use."""
        self.nothing = ""
        """Said where there is no row."""
        self._widths = (0, 0, 0)

    def show(self, rows: Sequence[Row], chosen: int) -> None:
        """These, with the chosen one in view."""
        self.rows, self.chosen = rows, chosen
        self._widths = (
            max((len(row.able) for row in rows), default=0),
            max((len(row.window) for row in rows), default=0),
            max((len(row.build) for row in rows), default=0),
        )
        self.resize_content(Size(self.columns, max(1, len(rows))))
        self.choose(chosen)

    def choose(self, place: int) -> None:
        """Another one is the chosen one; it comes into view."""
        self.chosen = place
        height = self.size.height
        top = min(place, max(self.scroll_offset.y, place - height + 1)) if height else 0
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)
        self.refresh()

    def on_resize(self) -> None:
        """Another width: the same lines."""
        self.show(self.rows, self.chosen)

    def line_at(self, y: int) -> Line | None:
        """One row; what is said instead where there is none."""
        ink = self.ink
        if not self.rows:
            lines = wrap([(self.nothing, ink.muted)], self.columns)
            return lines[y] if y < len(lines) else None
        return self._line(self.rows[y], y == self.chosen, self.columns, ink) if y < len(self.rows) else None

    def _line(self, row: Row, on: bool, width: int, ink: Ink) -> Line:
        used = row.name == self.used
        head: list[Span] = [("▸ " if on else "  ", ink.accent), ("● " if used else "  ", ink.ok)]
        right: list[Span] = []
        able, window, build = self._widths
        for text, wide, style in (
            (f"{row.window:>{window}}", window, ink.text),
            (f"{row.able:<{able}}", able, ink.muted),
            (f"{row.build:<{build}}", build, ink.muted),
        ):
            if wide and width - width_of([*head, *right]) - wide - 2 >= NAME:
                right += [("  ", ink.text), (text, style)]
        room = width - width_of([*head, *right])
        name = fit(one_line(row.name, LONGEST), room)
        spans: list[Span] = [*head, (name, ink.strong if on else ink.text)]
        left = room - width_of([(name, ink.text)])
        label = fit(f"  {one_line(row.label, LONGEST)}", left) if row.label and left > 8 else ""
        spans.append((label, ink.muted))
        gap = width - width_of([*spans, *right])
        return line(*spans, (" " * gap, ink.text), *right)

    class Clicked(Message):
        """A row was clicked; `twice` uses it."""

        def __init__(self, place: int, twice: bool) -> None:
            super().__init__()
            self.place, self.twice = place, twice

    def on_click(self, event: events.Click) -> None:
        """Choose; twice uses."""
        place = self.scroll_offset.y + event.y
        if place < len(self.rows):
            self.post_message(self.Clicked(place, event.chain > 1))


class ModelPicker(Sheet):
    """Head, search, roles, list, what the chosen one would mean, keys."""

    AUTO_FOCUS = "#models-search"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)
    """Actions of the app whose keys are the picker's while it is open."""

    def __init__(self, door: ModelDoor, *, where: str, text: str = "") -> None:
        """`where` is the server, `text` what is searched for at first."""
        super().__init__()
        self.door = door
        self.where = where
        self.rows: Sequence[Row] | None = None
        """None until they are known."""
        self.roles: Sequence[RoleRow] = ()
        self.role = 0
        self._text = text
        self._told = ""
        self._list = ModelList(id="models-list")
        self._list.nothing = f"Asking {where} for its models …"
        self._field = LineInput(id="models-search", placeholder="search models")
        self._field.value = text
        painters = {
            "head": self.head,
            "sign": self._sign,
            "roles": self._roles,
            "about": self.body,
            "keys": self.keys,
        }
        self._views = {name: LinesView(paint, id=f"models-{name}") for name, paint in painters.items()}

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """From the head down to the keys."""
        views = self._views
        with Vertical(id="dialog"):
            yield views["head"]
            with Horizontal(id="models-bar"):
                yield views["sign"]
                yield self._field
            yield views["roles"]
            yield self._list
            yield views["about"]
            yield views["keys"]

    def on_resize(self) -> None:
        """The list gets what is left of the screen."""
        low = self.size.height < 20
        self.set_class(low, "-low")
        self._list.styles.max_height = max(3, self.size.height - (9 if low else 15))

    def on_unmount(self) -> None:
        """Whoever closed it."""
        self.door.closed()

    def head(self, width: int, ink: Ink) -> list[Line]:
        """Whose models, and how many there are."""
        shown, known = len(self._list.rows), len(self.rows or ())
        count = "" if self.rows is None else str(known) if shown == known else f"{shown} of {known}"
        left: list[Span] = [
            ("Models ", ink.heading),
            (fit(one_line(self.where, LONGEST), width - 18), ink.muted),
        ]
        return [
            line(*left, (" " * max(1, width - width_of(left) - len(count)), ink.text), (count, ink.muted))
        ]

    def _sign(self, width: int, ink: Ink) -> list[Line]:
        return [line(("⌕ ", ink.accent))]

    def _roles(self, width: int, ink: Ink) -> list[Line]:
        """For what a model is chosen, and what does it now."""
        if not self.roles:
            return [Line([]), Line([])]
        spans: list[Span] = [("for", ink.muted)]
        for number, one in enumerate(self.roles):
            style = ink.link + ink.strong.without_color if number == self.role else ink.text
            mark = "•" if one.own and number else ""
            spans += [("  ", ink.text), (one.says, style), (mark, ink.accent)]
        if width_of(spans) > width:
            one = self.roles[self.role]
            spans = [
                ("for  ", ink.muted),
                (one.says, ink.link),
                (f"  {self.role + 1} of {len(self.roles)}", ink.muted),
            ]
        now = self.roles[self.role]
        tail = f" · {now.why}" if now.why else ""
        model = fit(one_line(now.model, LONGEST) or "not known yet", max(8, width - 5 - len(tail)))
        return [line(*spans), line(("now  ", ink.muted), (model, ink.text), (tail, ink.muted))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """What choosing it would mean."""
        row = self.chosen
        if row is None or not self.roles:
            return [Line([])]
        said = " ".join(one_line(one, 300) for one in self.door.outlook(self.roles[self.role].role, row.name))
        return wrap([(said, ink.muted)], width)[:3]

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """What can be done, or what was said last."""
        if self._told:
            return wrap([(one_line(self._told, 400), ink.warn)], width)[:2]
        offered = [("use", "use it")] if self.chosen else []
        if len(self.roles) > 1:
            offered.append(("next_role", "for another role"))
        if self.roles and self.role and self.roles[self.role].own:
            offered.append(("take_back", "take it back"))
        return key_rows([*KEYS.pairs(offered), ("esc", "back")], width, ink)

    # --- what others show ---

    @property
    def chosen(self) -> Row | None:
        """The row that is chosen; None when there is none."""
        rows = self._list.rows
        return rows[self._list.chosen] if self._list.chosen < len(rows) else None

    def show_rows(self, rows: Sequence[Row], nothing: str = "") -> None:
        """The server's models, or `nothing`: why there are none."""
        if not self.is_attached:
            return
        first, self.rows = self.rows is None, rows
        self._list.nothing = nothing or "No model has all these letters."
        now = self._list.used if first else self.chosen.name if self.chosen else ""
        self._list.styles.min_height = len(rows)  # it does not jump while one types
        self._filter(now)

    def show_roles(self, roles: Sequence[RoleRow]) -> None:
        """Every role with its model."""
        self.roles = roles
        self._list.used = roles[self.role].model if self.role < len(roles) else ""
        if self.is_attached:
            self._list.refresh()
            self._repaint("roles", "about", "keys")

    def say(self, text: str) -> None:
        """A sentence in the place of the keys, until the next key."""
        self._told = text
        self._repaint("keys")

    # --- what is chosen ---

    def _filter(self, choose: str) -> None:
        words = self._text.casefold().split()
        rows = [
            row
            for row in self.rows or ()
            if all(word in f"{row.name}\n{row.label}\n{row.able}".casefold() for word in words)
        ]
        place = next((place for place, row in enumerate(rows) if row.name == choose), 0)
        self._list.show(rows, place)
        self._repaint("head", "about", "keys")

    def _repaint(self, *names: str) -> None:
        for name in names:
            if self._views[name].is_attached:
                self._views[name].relayout()

    def on_key(self, event: events.Key) -> None:
        """A key that the field left; what is none of ours is the field's."""
        event.prevent_default()
        self._take_text()
        does = DOES.get("back" if event.key in ("escape", "ctrl+c") else KEYS.named(event.key))
        if self._told:
            self.say("")
        if does is not None:
            event.stop()
            does(self)
        else:
            self._field.focus()

    def on_input_changed(self, message: LineInput.Changed) -> None:
        """Filter at once."""
        message.stop()
        self._take_text()

    def _take_text(self) -> None:
        if self._field.value != self._text:
            self._text = self._field.value
            self._filter(self.chosen.name if self.chosen else "")

    def on_model_list_clicked(self, message: ModelList.Clicked) -> None:
        """Chosen with the mouse; twice uses it."""
        self._field.focus()
        self._list.choose(message.place)
        self._repaint("about")
        if message.twice:
            self._use()

    def _move(self, by: int) -> None:
        if self._list.rows:
            self._list.choose(max(0, min(len(self._list.rows) - 1, self._list.chosen + by)))
            self._repaint("about")

    def _turn(self, by: int) -> None:
        """Another role."""
        if self.roles:
            self.role = (self.role + by) % len(self.roles)
            self.show_roles(self.roles)
            used = self._list.used
            place = next((place for place, row in enumerate(self._list.rows) if row.name == used), None)
            if place is not None:
                self._list.choose(place)
                self._repaint("about")

    def _use(self) -> None:
        if self.chosen is not None and self.roles:
            self.door.choose(self.roles[self.role].role, self.chosen.name)

    def _take_back(self) -> None:
        if self.role and self.roles[self.role].own:
            self.door.choose(self.roles[self.role].role, "")


DOES: dict[str, Callable[[ModelPicker], object]] = {
    "use": ModelPicker._use,
    "up": lambda picker: picker._move(-1),
    "down": lambda picker: picker._move(1),
    "page_up": lambda picker: picker._move(-max(1, picker._list.size.height - 1)),
    "page_down": lambda picker: picker._move(max(1, picker._list.size.height - 1)),
    "top": lambda picker: picker._move(-(10**9)),
    "bottom": lambda picker: picker._move(10**9),
    "next_role": lambda picker: picker._turn(1),
    "previous_role": lambda picker: picker._turn(-1),
    "take_back": ModelPicker._take_back,
    "back": lambda picker: picker.dismiss(),
}
"""What an action does."""
