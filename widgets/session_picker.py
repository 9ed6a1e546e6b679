"""Finding a session and reopening it: a list that is searched while one types, and what is in the chosen one (S3, U4).

It knows nothing of files: rows come in, and what the user wants is done by a subclass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical

from tui_agent.text import make_visible, one_line
from widgets.dialog_keys import Keys, key_lines
from widgets.inputs import LineInput
from widgets.panel import WIDE, cursor_mark
from widgets.picker_dialog import PickerDialog, counted
from widgets.styled_text import (
    Line,
    Span,
    TextStyles,
    fit,
    hanging,
    justified_line,
    line,
    overlay,
    strip_untypable,
    width_of,
    wrap,
)

TALL = 18
"""Lines from which on the preview stands below the list, where there are fewer than WIDE columns."""
PREVIEW = 400
"""Lines of a preview that are painted."""


LONGEST = 300
"""Characters of a title or a found line that are looked at."""
UNTITLED = "(no messages)"
"""In the place of a title that there is none of."""
LOOKING = "Finding sessions …"
TITLE = 16
"""Cells that a title keeps beside what stands at the right."""


class SessionRow(NamedTuple):
    """A session as the picker shows it. Nothing of it is trusted text."""

    id: str
    title: str
    age: str
    """When it was used last, in words."""
    where: str = ""
    """Its folder, as the user knows it."""
    facts: str = ""
    """What else is known of it, on one line."""
    here: bool = True
    """It works in the folder that the user is in."""
    mine: bool = False
    """It is the one on the screen."""
    running: bool = False
    problem: str = ""
    """Why it can't be opened as it is."""


def around(text: str, needle: str, width: int) -> str:
    """The part of a line in which the first word of `needle` stands, on one line."""
    words = one_line(text, 10 * LONGEST)
    first = next(iter(needle.casefold().split()), "")
    at = words.casefold().find(first) if first else 0
    if len(words) <= width or at <= width // 2:
        return words
    return "…" + words[at - width // 3 :]


def highlight_words(text: str, needle: str, style: Style, styles: TextStyles) -> list[Span]:
    """`text` with the words of `needle` standing out."""
    lower = text.casefold()
    words = [word for word in needle.casefold().split() if word] if len(lower) == len(text) else []
    ranges: list[tuple[int, int]] = []
    at = 0
    while hits := [(found, -len(word)) for word in words if (found := lower.find(word, at)) >= 0]:
        found, length = min(hits)
        at = found - length
        ranges.append((found, at))
    return overlay([(text, style)], ranges, styles.link)


def empty_text(searched: bool, everywhere: bool) -> str:
    """What stands where there is no row."""
    if searched:
        return "Nothing found." if everywhere else "Nothing found in this folder. Tab searches all folders."
    if everywhere:
        return "No sessions yet."
    return "No sessions in this folder. Tab shows all folders."


class SessionPicker(PickerDialog[SessionRow]):
    """The whole screen: head, search, list and preview, keys."""

    AUTO_FOCUS = "#sessions-search"
    NAME = "sessions"
    KEYS = Keys("sessions")
    LAYOUT = ("head", "bar", "list", "facts", "body", "keys")
    PLACEHOLDER = "search titles and messages"

    def __init__(self, *, text: str = "") -> None:
        """`text` is what is searched for at first."""
        super().__init__(query=text, empty=LOOKING, height=lambda row, width: 2 if row.id in self._matches else 1)
        self.rows: Sequence[SessionRow] | None = None
        """None until they are known."""
        self._more = False
        """There are more than the rows that are known so far."""
        self.everywhere = False
        self._searched: dict[str, str] = {}
        """Id → title and folder as they are searched."""
        self._found: dict[str, str] = {}
        """Id → a line in which the text was found."""
        self._matches: dict[str, str] = {}
        """The same, of the rows that are listed for it."""
        self._left = False
        self._asked: tuple[str, str] | None = None
        """What the next press of the same key does without asking, and to which session."""
        self._confirmed: tuple[str, str] | None = None
        """What `_asked` was before the key that is handled now."""
        self._renamed = ""
        """Id of the session whose title is typed at present."""
        self._preview: tuple[str, str] = ("", "")
        """Id of a session and what is in it."""

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, search, list and preview, keys."""
        views = self._views
        with Vertical(id="sessions"):
            yield views["head"]
            with Horizontal(id="sessions-bar", classes="picker-bar"):
                yield views["sign"]
                yield self.field
            with Container(id="sessions-panes"):
                yield self._list
                with Vertical(id="sessions-about"):
                    yield views["facts"]
                    yield views["body"]
            yield views["keys"]

    def _lay_out(self) -> None:
        """The preview stands beside the list, below it, or nowhere."""
        wide, tall = self.size.width >= WIDE, self.size.height >= TALL
        self.set_class(wide, "-wide")
        self.set_class(not tall, "-low")
        self.set_class(not wide and not tall, "-bare")
        self.call_after_refresh(self.cursor_moved)

    def _do(self, job: Callable[..., Awaitable[None]], *given: Any) -> None:
        """Run it, with what is given, in the background."""
        raise NotImplementedError

    def _search_messages(self, text: str, among: Sequence[str]) -> None:
        """Look for `text` in what was said in the sessions of these ids, instead of what was looked for before."""
        raise NotImplementedError

    def _want_preview(self, id: str) -> None:
        """What is in this session is wanted."""
        raise NotImplementedError

    def _open_session(self, id: str, *, sure: bool) -> None:
        """Go on with this session; `sure` when the user was told what that means."""
        raise NotImplementedError

    async def _rename_session(self, id: str, title: str) -> None:
        """Give it a title."""
        raise NotImplementedError

    async def _fork_session(self, id: str) -> None:
        """Make a copy of it."""
        raise NotImplementedError

    async def _delete_session(self, id: str) -> None:
        """Delete it for good; the user was asked."""
        raise NotImplementedError

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        """Where one looks, and how many there are."""
        known = sum(row.here or self.everywhere for row in self.rows or ())
        count = "" if self.rows is None else counted(len(self._list.rows), known)
        left = [
            ("Sessions ", styles.heading),
            ("of all folders" if self.everywhere else "of this folder", styles.muted),
        ]
        return [justified_line(left, [(count + " …" * self._more, styles.muted)], width, styles)]

    def _sign(self, width: int, styles: TextStyles) -> list[Line]:
        """A pen while a title is typed."""
        return [line(("✎ " if self._renamed else self.SIGN, styles.accent))]

    def row_lines(self, row: SessionRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        mark: Span = ("  ", styles.text)
        if row.mine or row.running:
            mark = ("● ", styles.ok)
        elif row.problem:
            mark = ("! ", styles.warn)
        head = [cursor_mark(selected, styles), mark]
        right = self._age_spans(row, width - width_of(head), styles)
        room = max(1, width - width_of([*head, *right]) - 2)
        title = fit(one_line(row.title, LONGEST) or UNTITLED, room)
        style = styles.strong if selected else styles.text if row.title else styles.muted
        spans = [*head, *highlight_words(title, self.query_text, style, styles)]
        lines = [line(*spans, (" " * (width - width_of([*spans, *right])), styles.text), *right)]
        if row.id in self._matches:
            words = fit(around(self._matches[row.id], self.query_text, max(8, width - 6)), width - 6)
            found = highlight_words(words, self.query_text, styles.muted, styles)
            lines.append(line(("      ", styles.text), *found))
        return lines

    def _age_spans(self, row: SessionRow, width: int, styles: TextStyles) -> list[Span]:
        """The folder where it matters, then the age, as far as there is room beside a title."""
        spans: list[Span] = [("this one" if row.mine else row.age, styles.muted)]
        room = width - TITLE - width_of(spans) - 3
        if self.everywhere and not row.here and room > 6:
            where = one_line(row.where, LONGEST)
            short = where if len(where) <= min(room, 30) else "…" + where[1 - min(room, 30) :]
            spans = [(fit(short, room), styles.muted), (" · ", styles.faint), *spans]
        return spans if width - TITLE - width_of(spans) > 0 else []

    def _facts(self, width: int, styles: TextStyles) -> list[Line]:
        """Which session is the chosen one."""
        row = self.chosen
        if row is None:
            return []
        lines: list[Line] = []
        facts = (row.where, row.facts)
        if self.has_class("-wide"):
            lines += wrap([(one_line(row.title, LONGEST) or UNTITLED, styles.strong)], width)[:2]
        else:  # the title stands above, and lines are few
            facts = (fit(" · ".join(fact for fact in facts if fact), width), "")
        state = "open on this screen" if row.mine else "open in another process" if row.running else ""
        told = [*((text, styles.muted) for text in facts), (state, styles.ok), (row.problem, styles.warn)]
        for text, style in told:
            lines += wrap([(make_visible(one_line(text, LONGEST)), style)], width) if text else []
        return lines

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        """The end of the conversation of the chosen session."""
        lines: list[Line] = []
        if self.chosen is None or self._preview[0] != self.chosen.id:
            return lines
        for text in self._preview[1].split("\n")[-PREVIEW:]:
            mark, words = text[:2], make_visible(text, lookalikes=False)
            if mark == "› ":
                lines += [Line([])] if lines and self.has_class("-wide") else []
                lines += hanging([("› ", styles.accent)], [(words[2:], styles.strong)], width, styles.text)
            else:
                lines += wrap([(words, styles.muted if mark == "· " else styles.text)], width)
        return lines

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be done with the chosen session, or the message."""
        if self.message:
            return wrap([(make_visible(self.message, lookalikes=False), styles.warn)], width)[:2]
        if self._renamed:
            pairs = [*self.KEYS.hints([("open", "save the title")]), ("esc", "cancel")]
            return key_lines(pairs, width, styles)
        offered = [(name, name) for name in ("open", "rename", "fork", "delete") if self.chosen]
        offered.append(("folders", "this folder" if self.everywhere else "all folders"))
        return key_lines([*self.KEYS.hints(offered), ("esc", "back")], width, styles)

    def show_rows(self, rows: Sequence[SessionRow], choose: str = "", *, more: bool = False) -> None:
        """All sessions, the newest first; `choose` is the id of one that is to be chosen. With `more` they are only
        the newest ones, and the others follow; what is said in them is searched when all are known."""
        if not self.is_attached:
            return
        first = self.rows is None
        self.rows, self._more = rows, more
        self._searched = {row.id: f"{row.title}\n{row.where}".casefold() for row in rows}
        if first and not any(row.here and not row.mine for row in rows):
            self.everywhere = True
        self._filter(choose or self._chosen_id)
        if not more:
            self._ask_search()

    def show_found(self, text: str, found: Mapping[str, str]) -> None:
        """Lines in which `text` was found, by the ids of their sessions; they join those that are shown already."""
        if self.is_attached and found and text == self.query_text.strip():
            self._found.update(found)
            self._filter(self._chosen_id)

    def show_preview(self, id: str, text: str) -> None:
        """What is in a session."""
        self._preview = (id, text)
        if self._chosen_id == id:
            self.repaint_parts("body")
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

    def ask_again(self, text: str, action: str, id: str) -> None:
        """Say `text`; the same key then does `action` (`open`, `delete`) with the session `id`."""
        self.show_message(text)
        self._asked = (action, id)

    # --- what is chosen ---

    @property
    def _chosen_id(self) -> str:
        return self.chosen.id if self.chosen is not None else ""

    @property
    def searching(self) -> bool:
        """Unless a title is typed, or the session was chosen."""
        return not self._left and not self._renamed

    def filter_rows(self) -> None:
        """Titles at once; what was said in the sessions is searched meanwhile."""
        self.show_message("")
        self._found.clear()
        self._filter("")
        self._ask_search()

    def _filter(self, choose: str) -> None:
        """Titles that hold all words first, then sessions in which the text was found."""
        words = self.query_text.casefold().split()
        offered = [row for row in self.rows or () if self.everywhere or row.here]
        titled = [row for row in offered if all(word in self._searched[row.id] for word in words)]
        ids = {row.id for row in titled}
        other = [row for row in offered if row.id in self._found and row.id not in ids]
        rows = [*titled, *other]
        self._matches = {row.id: self._found[row.id] for row in other}
        near = self._list.cursor if choose else 0
        self._list.empty = LOOKING if self._more else empty_text(bool(words), self.everywhere)
        self._list.set_rows(rows, next((index for index, row in enumerate(rows) if row.id == choose), near))
        self.repaint_parts("head", "keys")
        self.cursor_moved()

    def _ask_search(self) -> None:
        text = self.query_text.strip()
        shown = {row.id for row in self._list.rows}
        among = [row for row in self.rows or () if text and row.id not in shown]
        self._search_messages(text, [row.id for row in sorted(among, key=lambda row: not row.here)])

    def cursor_moved(self) -> None:
        """Show what is in the chosen session, and ask for it unless it is known."""
        self.repaint_parts("facts", "body")
        about = self._views["facts"].parent
        visible = isinstance(about, Vertical) and about.display
        if self.chosen is not None and visible and self._preview[0] != self.chosen.id:
            self._want_preview(self.chosen.id)

    # --- what is done ---

    def process_key(self, key: str) -> bool:
        """A confirmation holds for the next key only."""
        self._confirmed, self._asked = self._asked, None
        return super().process_key(key)

    @property
    def actions(self) -> Mapping[str, Callable[..., object]]:
        """None once the session is chosen; two while a title is typed."""
        if self._left:
            return dict.fromkeys(self.ACTIONS, lambda picker: None)
        if self._renamed:
            nothing = dict.fromkeys(self.ACTIONS, lambda picker: None)
            scrolls = {name: self.ACTIONS[name] for name in ("scroll_up", "scroll_down")}
            return {**nothing, **scrolls, "open": SessionPicker._save_title, "back": SessionPicker._end_renaming}
        return self.ACTIONS

    def _scroll_preview(self, by: int) -> None:
        view = self._views["body"]
        view.scroll_to(y=view.scroll_offset.y + by, animate=False)

    def _toggle_folders(self) -> None:
        """This folder, or all."""
        if self.rows is not None:
            self.everywhere = not self.everywhere
            self._filter(self._chosen_id)

    def activate(self) -> None:
        """Open the chosen session."""
        if self.chosen is not None:
            self._open_session(self.chosen.id, sure=self._confirmed == ("open", self.chosen.id))

    def _rename(self) -> None:
        """Type a title in the place of the search."""
        if self.chosen is not None:
            self._renamed = self.chosen.id
            self.set_text(one_line(self.chosen.title, LONGEST))
            self.repaint_parts("keys", "sign")

    def _save_title(self) -> None:
        id, title = self._renamed, " ".join(strip_untypable(self.field.value).split())
        self._end_renaming()
        if title:
            self._do(self._rename_session, id, title)

    def _end_renaming(self) -> None:
        with self.prevent(LineInput.Changed):
            self.set_text(self.query_text)
        self._renamed = ""
        self.repaint_parts("keys", "sign")

    def _fork(self) -> None:
        if self.chosen is not None:
            self._do(self._fork_session, self.chosen.id)

    def _delete(self) -> None:
        """Ask; the second press deletes."""
        row = self.chosen
        if row is None:
            return
        if row.mine or row.running:
            self.show_message("A session that is open can't be deleted.")
        elif self._confirmed == ("delete", row.id):
            self._do(self._delete_session, row.id)
        else:
            name = fit(one_line(row.title, LONGEST) or row.id, max(8, self.size.width - 40))
            self.ask_again(f"{self.KEYS.label('delete')} again deletes “{name}” permanently.", "delete", row.id)

    ACTIONS: ClassVar[Mapping[str, Callable[..., object]]] = {
        "open": activate,
        "scroll_up": lambda picker: picker._scroll_preview(-1),
        "scroll_down": lambda picker: picker._scroll_preview(1),
        "folders": _toggle_folders,
        "rename": _rename,
        "fork": _fork,
        "delete": _delete,
        "back": lambda picker: picker.dismiss(),
    }
