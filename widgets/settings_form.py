"""All settings on one screen: searched while one types, each with its value and where that comes from, and changed in
place (U4). It knows of no file: rows come in, and what the user wants goes to a `SettingsDoor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message

from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, fit, line, width_of, wrap
from widgets.line_view import LinesView, LineView
from widgets.modal import LineInput
from widgets.panel import WIDE, Sheet, key_rows

NAME = 30
"""Cells of a setting's name."""
SOURCE = 24
"""Cells that a value leaves to its source, where there is room for both."""

KEYS, CHANGING = Keys("settings"), Keys("setting")


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
    """It stands in the user's own file, so that it can be taken out there."""


class SettingsDoor(Protocol):
    """What the user wants of the settings. All of it returns at once; what comes of it is shown later."""

    def save(self, name: str, text: str) -> None:
        """Write this value into the user's own file."""
        ...

    def reset(self, name: str) -> None:
        """Take the setting out of the user's own file."""
        ...


class SettingsList(LineView):
    """One line a setting; one is chosen."""

    class Clicked(Message):
        """A row was clicked; `twice` changes it."""

        def __init__(self, place: int, twice: bool) -> None:
            super().__init__()
            self.place, self.twice = place, twice

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[SettingRow] = ()
        self.chosen = 0

    def show(self, rows: Sequence[SettingRow], chosen: int) -> None:
        """These, with the chosen one in view."""
        self.rows = rows
        self.resize_content(Size(self.columns, max(1, len(rows))))
        self.choose(chosen)

    def choose(self, place: int) -> None:
        """Another one is the chosen one; it comes into view."""
        self.chosen = max(0, min(len(self.rows) - 1, place))
        height = self.size.height
        top = min(self.chosen, max(self.scroll_offset.y, self.chosen - height + 1)) if height else 0
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)
        self.refresh()

    def on_resize(self) -> None:
        """Another width: the same rows."""
        self.show(self.rows, self.chosen)

    def line_at(self, y: int) -> Line | None:
        """One row; what is said where there is none."""
        ink, width = self.ink, self.columns - 1  # beside the scroll bar
        if not self.rows:
            return line(("no setting has these letters", ink.muted)) if y == 0 else None
        if y >= len(self.rows):
            return None
        row, on = self.rows[y], y == self.chosen
        name = fit(row.name, min(NAME, width // 2))
        spans: list[Span] = [("▸ " if on else "  ", ink.accent), (name, ink.strong if on else ink.text)]
        spans.append((" " * (min(NAME, width // 2) + 4 - width_of(spans)), ink.text))
        room = width - width_of(spans)
        kept = min(SOURCE, cell_len(row.source) + 2) if room >= 2 * SOURCE else 0
        spans.append((fit(row.value, max(1, room - kept)), ink.accent if row.source else ink.muted))
        left = width - width_of(spans) - 2
        source = fit(row.source, left) if left >= min(SOURCE // 2, cell_len(row.source)) else ""
        gap = left + 2 - cell_len(source)
        return line(*spans, (" " * max(0, gap), ink.text), (source, ink.muted))

    def on_click(self, event: events.Click) -> None:
        """Choose; twice changes."""
        place = int(self.scroll_offset.y) + event.y
        if place < len(self.rows):
            self.post_message(self.Clicked(place, event.chain > 1))


class SettingsForm(Sheet):
    """A field, the list, what the chosen one is, keys."""

    AUTO_FOCUS = "#settings-field"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel", "help")
    """Actions of the app whose keys are the form's while it is open."""

    def __init__(self, door: SettingsDoor, rows: Sequence[SettingRow], *, file: str) -> None:
        """`file` is where changes are written."""
        super().__init__()
        self.door = door
        self.rows = rows
        self.file = file
        self.editing: SettingRow | None = None
        """The setting whose value is in the field; None while the field searches."""
        self._searched = ""
        self._told = ""
        self._list = SettingsList(id="settings-list")
        self._field = LineInput(id="settings-field", placeholder="search settings", first=self._first)
        painters = {"head": self.head, "sign": self._sign, "about": self.about, "keys": self.keys}
        self._views = {name: LinesView(paint, id=f"settings-{name}") for name, paint in painters.items()}

    def compose(self) -> ComposeResult:
        """From the head down to the keys."""
        with Vertical(id="dialog"):
            yield self._views["head"]
            with Horizontal(id="settings-bar"):
                yield self._views["sign"]
                yield self._field
            yield self._list
            yield self._views["about"]
            yield self._views["keys"]

    def on_mount(self) -> None:
        """All of them."""
        self._list.styles.min_height = len(self.rows)  # it does not jump while one types
        self._list.show(self.rows, 0)

    def on_resize(self) -> None:
        """The list gets what is left of the screen."""
        low = self.size.height < 24
        self.set_class(low, "-low")
        self.set_class(self.size.width >= WIDE, "-wide")
        self._list.styles.max_height = max(3, self.size.height - (9 if low else 14))

    # --- what is shown ---

    def head(self, width: int, ink: Ink) -> list[Line]:
        """What it is, and where changes go."""
        where = fit(self.file, max(1, width - 30))
        shown, known = len(self._list.rows), len(self.rows)
        count = str(known) if shown == known else f"{shown} of {known}"
        left: list[Span] = [("Settings ", ink.heading), (f"changes go to {where}", ink.muted)]
        return [
            line(*left, (" " * max(1, width - width_of(left) - len(count)), ink.text), (count, ink.muted))
        ]

    def _sign(self, width: int, ink: Ink) -> list[Line]:
        return [line(("= " if self.editing else "⌕ ", ink.accent))]

    def about(self, width: int, ink: Ink) -> list[Line]:
        """What the chosen one is, what it may be, and where its value comes from."""
        row = self.chosen
        if row is None:
            return [Line([])] * 3
        lines = wrap([(row.says, ink.text)], width)[:2]
        may: list[Span] = [("may be ", ink.muted), (row.kind, ink.text), (" · built in: ", ink.muted)]
        from_where = row.source or "built in"
        lines += wrap(
            [*may, (row.default, ink.text), (" · now from: ", ink.muted), (from_where, ink.text)], width
        )
        return [*lines, *[Line([])] * 4][:4]

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """What can be done, or what was said last."""
        if self._told:
            return wrap([(self._told, ink.warn)], width)[:2]
        if self.editing is not None:
            turns = CHANGING.both("previous_word", "next_word").replace(" ", "  ")
            more = [(turns, "the next of its words")] if self.editing.words and turns else []
            keep = CHANGING.pairs([("keep", "keep it")])
            return key_rows([*keep, *more, ("esc", "leave it as it was")], width, ink)
        own = self.chosen is not None and self.chosen.own
        moves = KEYS.both("up", "down").replace(" ", "  ")
        pairs = [*KEYS.pairs([("change", "change it")]), *([(moves, "choose")] if moves else [])]
        pairs += KEYS.pairs([("reset", "back to built-in")]) if own else []
        return key_rows([*pairs, ("esc", "back")], width, ink)

    @property
    def chosen(self) -> SettingRow | None:
        """The chosen row; None when there is none."""
        rows = self._list.rows
        return rows[self._list.chosen] if self._list.chosen < len(rows) else None

    def show_rows(self, rows: Sequence[SettingRow], told: str) -> None:
        """They are others now; `told` says what was done."""
        self.rows = rows
        self._stop_editing()
        self.say(told)

    def say(self, text: str) -> None:
        """A sentence in the place of the keys, until the next key."""
        self._told = text
        self._repaint("keys")

    def _repaint(self, *names: str) -> None:
        for name in names:
            if self._views[name].is_attached:
                self._views[name].relayout()

    def _filter(self) -> None:
        words = self._searched.casefold().split()
        now = self.chosen.name if self.chosen else ""
        rows = [
            row
            for row in self.rows
            if all(word in f"{row.name} {row.says} {row.value} {row.source}".casefold() for word in words)
        ]
        self._list.show(rows, next((place for place, row in enumerate(rows) if row.name == now), 0))
        self._repaint("head", "about", "keys")

    # --- keys ---

    def _first(self, key: str) -> bool:
        """A key that the field would take."""
        if self._told:
            self.say("")
        if self.editing is None:
            self._take_text()
        searching = self.editing is None
        action = (KEYS if searching else CHANGING).named(key)
        action = "back" if key in ("escape", "ctrl+c") else action
        does = (SEARCHING if searching else EDITING).get(action)
        nothing = action == "reset" and (self._field.value or not (self.chosen and self.chosen.own))
        if does is None or nothing:
            return False
        does(self)
        return True

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
        if self.editing is None:
            self._take_text()

    def _take_text(self) -> None:
        if self._field.value != self._searched:
            self._searched = self._field.value
            self._filter()

    def on_settings_list_clicked(self, message: SettingsList.Clicked) -> None:
        """Chosen with the mouse; twice changes it."""
        if self.editing is None:
            self._list.choose(message.place)
            self._repaint("about", "keys")
            if message.twice:
                self._edit()

    def _move(self, by: int) -> None:
        self._list.choose(self._list.chosen + by)
        self._repaint("about", "keys")

    def _edit(self) -> None:
        """The value is in the field now."""
        if (row := self.chosen) is not None:
            self.editing = row
            self._put(row.typed)
            self._repaint("sign", "keys")

    def _put(self, text: str) -> None:
        self._field.value = text
        self._field.cursor_position = len(text)

    def _turn(self, by: int) -> None:
        """The next of the words that it may be."""
        words = self.editing.words if self.editing else ()
        if words:
            now = self._field.value
            at = (words.index(now) + by) % len(words) if now in words else 0
            self._put(words[at])

    def _keep(self) -> None:
        if self.editing is not None and self._field.value == self.editing.typed:
            self._stop_editing()  # also a hidden value, of which nothing stood in the field
        elif self.editing is not None:
            self.door.save(self.editing.name, self._field.value)

    def _reset(self) -> None:
        if self.chosen is not None and self.chosen.own:
            self.door.reset(self.chosen.name)

    def _stop_editing(self) -> None:
        self.editing = None
        self._put(self._searched)
        self._repaint("sign")
        self._filter()

    def _page(self, by: int) -> None:
        self._move(by * max(1, self._list.size.height - 1))


Act = Callable[[SettingsForm], object]
SEARCHING: dict[str, Act] = {
    "change": SettingsForm._edit,
    "up": lambda form: form._move(-1),
    "down": lambda form: form._move(1),
    "page_up": lambda form: form._page(-1),
    "page_down": lambda form: form._page(1),
    "top": lambda form: form._move(-(10**6)),
    "bottom": lambda form: form._move(10**6),
    "reset": SettingsForm._reset,
    "back": lambda form: form.dismiss(),
}
EDITING: dict[str, Act] = {
    "keep": SettingsForm._keep,
    "previous_word": lambda form: form._turn(-1),
    "next_word": lambda form: form._turn(1),
    "back": SettingsForm._stop_editing,
}
"""What an action does while one searches, and while a value is changed."""
