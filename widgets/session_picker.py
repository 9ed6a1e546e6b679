"""Finding a session and reopening it: a list that is searched while one types, and what is in the chosen one (S3, U4).

It knows nothing of files: rows come in, and what the user wants goes to a `PickerDoor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical

from tui_agent.text import one_line, visible
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, fit, indent, line, typable, width_of, wrap
from widgets.line_view import LinesView
from widgets.modal import LineInput
from widgets.panel import Panel, key_rows
from widgets.session_door import PickerDoor
from widgets.session_list import LONGEST, LOOKING, UNSAID, Row, SessionList, why_none

KEYS = Keys("sessions")
WIDE = 100
"""Columns from which on the preview stands beside the list."""
TALL = 18
"""Lines from which on it stands below the list, where there are fewer columns."""
PREVIEW = 400
"""Lines of a preview that are painted."""


class SessionPicker(Panel):
    """The whole screen: head, search, list and preview, keys."""

    AUTO_FOCUS = "#sessions-search"
    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)
    """Actions of the app whose keys are the picker's while it is open."""

    def __init__(self, door: PickerDoor, *, text: str = "") -> None:
        """`text` is what is searched for at first."""
        super().__init__()
        self.door = door
        self.rows: Sequence[Row] | None = None
        """None until they are known."""
        self._more = False
        """There are more than the rows that are known so far."""
        self.everywhere = False
        self._searched: dict[str, str] = {}
        """Id → title and folder as they are searched."""
        self._found: dict[str, str] = {}
        """Id → a line in which the text was found."""
        self._text = text
        self._left = False
        self._told = ""
        self._armed: tuple[str, str] | None = None
        """What the next press of the same key does without asking, and to which session."""
        self._renamed = ""
        """Id of the session whose title is typed at present."""
        self._preview: tuple[str, str] = ("", "")
        """Id of a session and what is in it."""
        self._list = SessionList(LOOKING, id="sessions-list")
        searches = "search titles and all that was said"
        self.field = LineInput(id="sessions-search", placeholder=searches, first=self._pressed)
        self.field.value = text
        painters = {
            "head": self.head,
            "sign": self._sign,
            "facts": self._about,
            "body": self.body,
            "keys": self.keys,
        }
        self._views = {name: LinesView(paint, id=name) for name, paint in painters.items()}

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, search, list and preview, keys."""
        views = self._views
        with Vertical(id="sessions"):
            yield views["head"]
            with Horizontal(id="sessions-bar"):
                yield views["sign"]
                yield self.field
            with Container(id="sessions-panes"):
                yield self._list
                with Vertical(id="sessions-about"):
                    yield views["facts"]
                    yield views["body"]
            yield views["keys"]

    def on_resize(self) -> None:
        """The preview stands beside the list, below it, or nowhere."""
        wide, tall = self.size.width >= WIDE, self.size.height >= TALL
        self.set_class(wide, "-wide")
        self.set_class(not tall, "-low")
        self.set_class(not wide and not tall, "-bare")
        self.call_after_refresh(self._look_into)

    def on_unmount(self) -> None:
        """Whoever closed it."""
        self.door.closed()

    def head(self, width: int, ink: Ink) -> list[Line]:
        """Where one looks, and how many there are."""
        scope = "of all folders" if self.everywhere else "of this folder"
        shown, known = len(self._list.rows), sum(row.here or self.everywhere for row in self.rows or ())
        count = "" if self.rows is None else str(known) if shown == known else f"{shown} of {known}"
        count += " …" if self._more else ""
        left: list[Span] = [("Sessions ", ink.heading), (scope, ink.muted)]
        gap = max(1, width - width_of(left) - len(count))
        return [line(*left, (" " * gap, ink.text), (count, ink.muted))]

    def _sign(self, width: int, ink: Ink) -> list[Line]:
        return [line(("✎ " if self._renamed else "⌕ ", ink.accent))]

    def _about(self, width: int, ink: Ink) -> list[Line]:
        """Which session is the chosen one."""
        row = self.chosen
        if row is None:
            return []
        lines: list[Line] = []
        facts = (row.where, row.facts)
        if self.has_class("-wide"):
            lines += wrap([(one_line(row.title, LONGEST) or UNSAID, ink.strong)], width)[:2]
        else:  # the title stands above, and lines are few
            facts = (fit(" · ".join(one for one in facts if one), width), "")
        for text, style in (
            (facts[0], ink.muted),
            (facts[1], ink.muted),
            ("open on this screen" if row.mine else "open in another process" if row.running else "", ink.ok),
            (row.problem, ink.warn),
        ):
            lines += wrap([(visible(one_line(text, LONGEST)), style)], width) if text else []
        return lines

    def body(self, width: int, ink: Ink) -> list[Line]:
        """The end of what was said in the chosen session."""
        lines: list[Line] = []
        if self.chosen is None or self._preview[0] != self.chosen.id:
            return lines
        for text in self._preview[1].split("\n")[-PREVIEW:]:
            mark, said = text[:2], visible(text, lookalikes=False)
            if mark == "› ":
                lines += [Line([])] if lines and self.has_class("-wide") else []
                lines += indent(
                    wrap([(said[2:], ink.strong)], width - 2), [("› ", ink.accent)], [("  ", ink.text)]
                )
            else:
                lines += wrap([(said, ink.muted if mark == "· " else ink.text)], width)
        return lines

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """What can be done with the chosen session, or what was said last."""
        if self._told:
            return wrap([(visible(self._told, lookalikes=False), ink.warn)], width)[:2]
        offered = [(name, name) for name in ("open", "rename", "fork", "delete") if self.chosen]
        offered.append(("folders", "this folder" if self.everywhere else "all folders"))
        offered = [("open", "save the title")] if self._renamed else offered
        leaving = "leave it as it was" if self._renamed else "back"
        return key_rows([*KEYS.pairs(offered), ("esc", leaving)], width, ink)

    # --- what others show ---

    @property
    def chosen(self) -> Row | None:
        """The row that is chosen; None when there is none."""
        rows = self._list.rows
        return rows[self._list.chosen] if self._list.chosen < len(rows) else None

    def show_rows(self, rows: Sequence[Row], choose: str = "", *, more: bool = False) -> None:
        """All sessions, the newest first; `choose` is the id of one that is to be chosen. With `more` they are only
        the newest ones, and the others follow; what is said in them is searched when all are known."""
        if not self.is_attached:
            return
        first = self.rows is None
        self.rows, self._more = rows, more
        self._searched = {row.id: f"{row.title}\n{row.where}".casefold() for row in rows}
        if first and not any(row.here and not row.mine for row in rows):
            self.everywhere = True
        self._filter(choose or (self.chosen.id if self.chosen else ""))
        if not more:
            self._ask_search()

    def show_found(self, text: str, found: Mapping[str, str]) -> None:
        """Lines in which `text` was found, by the ids of their sessions; they join those that are shown already."""
        if self.is_attached and found and text == self._text.strip():
            self._found.update(found)
            self._filter(self.chosen.id if self.chosen else "")

    def show_preview(self, id: str, text: str) -> None:
        """What is in a session."""
        self._preview = (id, text)
        if self.chosen is not None and self.chosen.id == id:
            self._repaint("body")
            view = self._views["body"]
            view.call_after_refresh(view.scroll_end, animate=False)

    def leave(self) -> None:
        """The session is chosen: what is typed from now on is meant for it."""
        with self.prevent(LineInput.Changed):
            self.field.value = ""
        self._left = True

    @property
    def typed_ahead(self) -> str:
        """What was typed since."""
        return self.field.value if self._left else ""

    def say(self, text: str, *, again: tuple[str, str] | None = None) -> None:
        """A sentence in the place of the keys, until the next key. With `again`, what (`open`, `delete`) the same key
        then does to which session."""
        self._told, self._armed = text, again
        self._repaint("keys")

    # --- what is chosen ---

    def _filter(self, choose: str) -> None:
        """Titles that hold all words first, then sessions in which the text was found."""
        words = self._text.casefold().split()
        mine = [row for row in self.rows or () if self.everywhere or row.here]
        titled = [row for row in mine if all(word in self._searched[row.id] for word in words)]
        named = {row.id for row in titled}
        other = [row for row in mine if row.id in self._found and row.id not in named]
        rows = [*titled, *other]
        found = {row.id: self._found[row.id] for row in other}
        near = min(self._list.chosen, len(rows) - 1) if choose else 0
        place = next((place for place, row in enumerate(rows) if row.id == choose), max(0, near))
        nothing = LOOKING if self._more else why_none(bool(words), self.everywhere)
        self._list.show(rows, found, self._text, place, folders=self.everywhere, nothing=nothing)
        self._repaint("head", "keys")
        self._look_into()

    def _ask_search(self) -> None:
        text = self._text.strip()
        shown = {row.id for row in self._list.rows}
        among = [row for row in self.rows or () if text and row.id not in shown]
        self.door.search(text, [row.id for row in sorted(among, key=lambda row: not row.here)])

    def _look_into(self) -> None:
        self._repaint("facts", "body")
        about = self._views["facts"].parent
        seen = isinstance(about, Vertical) and about.display
        if self.chosen is not None and seen and self._preview[0] != self.chosen.id:
            self.door.look_into(self.chosen.id)

    def _repaint(self, *names: str) -> None:
        for name in names:
            if self._views[name].is_attached:
                self._views[name].relayout()

    # --- keys ---

    def on_key(self, event: events.Key) -> None:
        """A key while the field has no focus."""
        event.prevent_default()
        if self._pressed(event.key):
            event.stop()
        else:
            self._hush()
            self.field.focus()

    def _pressed(self, key: str) -> bool:
        """Do what a key does; False for one that is the field's."""
        self._take_text()
        does = DOES.get("back" if key in ("escape", "ctrl+c") else KEYS.named(key))
        if does is not None and not self._left:
            does(self)
        return does is not None

    def on_input_changed(self, message: LineInput.Changed) -> None:
        """Titles at once; what was said in the sessions is looked for meanwhile."""
        message.stop()
        self._take_text()

    def _take_text(self) -> None:
        """Search for what stands in the field by now."""
        if self._left or self._renamed or self.field.value == self._text:
            return
        self._hush()
        self._text = self.field.value
        self._found.clear()
        self._filter("")
        self._ask_search()

    def _hush(self) -> tuple[str, str] | None:
        """What was said is read by now; returns what it was about."""
        armed, told = self._armed, self._told
        self._told, self._armed = "", None
        if told:
            self._repaint("keys")
        return armed

    def on_session_list_clicked(self, message: SessionList.Clicked) -> None:
        """Chosen with the mouse; twice opens."""
        self.field.focus()
        if not self._renamed:
            self._hush()
            self._choose(message.place)
            if message.twice:
                self._press_enter()

    def _move(self, by: int) -> None:
        """Choose another one."""
        self._hush()
        if self._list.rows and not self._renamed:
            self._choose(max(0, min(len(self._list.rows) - 1, self._list.chosen + by)))

    def _page(self, direction: int) -> None:
        """Go on by as many rows as are seen."""
        self._move(direction * max(1, self._list.size.height - 1))

    def _choose(self, place: int) -> None:
        self._list.choose(place)
        self._look_into()

    def _scroll_preview(self, by: int) -> None:
        """Move within what is in the session."""
        view = self._views["body"]
        view.scroll_to(y=view.scroll_offset.y + by, animate=False)

    def _widen(self) -> None:
        """This folder, or all."""
        self._hush()
        if not self._renamed and self.rows is not None:
            self.everywhere = not self.everywhere
            self._filter(self.chosen.id if self.chosen else "")

    def _press_enter(self) -> None:
        """Open the chosen session, or save the title that was typed."""
        armed, row = self._hush(), self.chosen
        if self._renamed:
            id, title = self._renamed, " ".join(typable(self.field.value).split())
            self._end_renaming()
            if title:
                self.door.rename(id, title)
        elif row is not None:
            self.door.open(row.id, sure=armed == ("open", row.id))

    def _rename(self) -> None:
        """Type a title in the place of the search."""
        self._hush()
        if self.chosen is not None and not self._renamed:
            self._renamed = self.chosen.id
            self.field.value = one_line(self.chosen.title, LONGEST)
            self.field.cursor_position = len(self.field.value)
            self._repaint("keys", "sign")

    def _end_renaming(self) -> None:
        with self.prevent(LineInput.Changed):
            self.field.value = self._text
        self._renamed = ""
        self.field.cursor_position = len(self._text)
        self._repaint("keys", "sign")

    def _fork(self) -> None:
        """A copy of the chosen session."""
        self._hush()
        if self.chosen is not None and not self._renamed:
            self.door.fork(self.chosen.id)

    def _delete(self) -> None:
        """Ask; the second press deletes."""
        armed, row = self._hush(), self.chosen
        if row is None or self._renamed:
            return
        if row.mine or row.running:
            self.say("A session that is open can't be deleted.")
        elif armed == ("delete", row.id):
            self.door.delete(row.id)
        else:
            name = fit(one_line(row.title, LONGEST) or row.id, max(8, self.size.width - 40))
            self.say(f"{KEYS.of('delete')} again deletes “{name}” for good.", again=("delete", row.id))

    def _back(self) -> None:
        """Leave the title as it was, else close."""
        self._hush()
        if self._renamed:
            self._end_renaming()
        else:
            self.dismiss()


DOES: dict[str, Callable[[SessionPicker], None]] = {
    "open": SessionPicker._press_enter,
    "up": lambda picker: picker._move(-1),
    "down": lambda picker: picker._move(1),
    "page_up": lambda picker: picker._page(-1),
    "page_down": lambda picker: picker._page(1),
    "top": lambda picker: picker._move(-(10**9)),
    "bottom": lambda picker: picker._move(10**9),
    "scroll_up": lambda picker: picker._scroll_preview(-1),
    "scroll_down": lambda picker: picker._scroll_preview(1),
    "folders": SessionPicker._widen,
    "rename": SessionPicker._rename,
    "fork": SessionPicker._fork,
    "delete": SessionPicker._delete,
    "back": SessionPicker._back,
}
"""What an action does."""
