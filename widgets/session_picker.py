"""The session picker: a searchable list of sessions with a preview of the current one (S3, U4)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tui_agent.text import make_visible, one_line
from widgets.inputs import LineInput
from widgets.panel import WIDE, cursor_mark
from widgets.picker_dialog import PickerDialog
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

MIN_PREVIEW_HEIGHT = 18
"""Screen height from which a screen narrower than `WIDE` shows the preview, below the list."""
MAX_PREVIEW_LINES = 400
MAX_TEXT_LENGTH = 300
"""Maximum characters of a title or excerpt that are processed."""
TITLE_WIDTH = 16
"""Cells reserved for a title beside folder and age."""
UNTITLED = "(no messages)"
LOADING = "Finding sessions …"
RENAMING_ACTIONS = ("open", "back", "scroll_up", "scroll_down")
"""Actions that are available while a title is edited."""


class SessionRow(NamedTuple):
    """A session in the picker. The texts are untrusted."""

    id: str
    title: str
    age: str
    """Time since its last use, in words."""
    folder: str = ""
    facts: str = ""
    """Further facts, on one line."""
    is_here: bool = True
    """It works in the user's current folder."""
    is_current: bool = False
    """It is the session on the screen."""
    is_running: bool = False
    problem: str = ""
    """Why it can't be opened; usually empty."""


def text_around(text: str, query: str, width: int) -> str:
    """Return the part of a line around the first word of `query`."""
    text = one_line(text, 10 * MAX_TEXT_LENGTH)
    first_word = next(iter(query.casefold().split()), "")
    start = text.casefold().find(first_word) if first_word else 0
    if len(text) <= width or start <= width // 2:
        return text
    return "…" + text[start - width // 3 :]


def highlight_words(text: str, query: str, style: Style, styles: TextStyles) -> list[Span]:
    """Return `text` with the words of `query` highlighted."""
    folded = text.casefold()
    words = sorted(query.casefold().split(), key=len, reverse=True)
    if not words or len(folded) != len(text):
        return [(text, style)]
    matches = re.finditer("|".join(map(re.escape, words)), folded)
    return overlay([(text, style)], [match.span() for match in matches], styles.link)


def empty_text(has_query: bool, all_folders: bool) -> str:
    """Return the text for an empty list."""
    if has_query:
        return "Nothing found." if all_folders else "Nothing found in this folder. Tab searches all folders."
    if all_folders:
        return "No sessions yet."
    return "No sessions in this folder. Tab shows all folders."


class SessionPicker(PickerDialog[SessionRow]):
    """Head, search, list and preview, keys. Subclasses load the sessions and act on them."""

    TITLE = "Sessions"
    SUB_TITLE = "of this folder"
    NAME = "sessions"
    LAYOUT = ("head", "bar", "list", "facts", "body", "keys")
    PLACEHOLDER = "search titles and messages"

    def __init__(self, *, query: str = "") -> None:
        """`query` is the initial search."""
        super().__init__(query=query, empty=LOADING, height=lambda row, width: 2 if row.id in self._excerpts else 1)
        self.rows: Sequence[SessionRow] | None = None
        """None until they are loaded."""
        self._is_partial = False
        """More rows are being loaded."""
        self.all_folders = False
        self._matching_lines: dict[str, str] = {}
        """Id → a line of the session that matches the query."""
        self._excerpts: dict[str, str] = {}
        """The matching lines that are listed, as the title does not match."""
        self._collecting = False
        """A session was chosen; the field collects what is typed until it is open."""
        self._pending: tuple[str, str] | None = None
        """Action and session that the next press of the same key confirms."""
        self._confirmed: tuple[str, str] | None = None
        """Action and session that the key being handled confirms."""
        self._renamed_id = ""
        """Id of the session whose title is edited."""
        self._preview: tuple[str, str] = ("", "")
        """Id of a session and the text of its preview."""

    # --- hooks ---

    def _run_job(self, job: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run a job in the background."""
        raise NotImplementedError

    def _search_messages(self, text: str, ids: Sequence[str]) -> None:
        """Search the messages of these sessions, instead of an earlier search, and call `show_found` with matches."""
        raise NotImplementedError

    def _request_preview(self, id: str) -> None:
        """Load the preview of a session and pass it to `show_preview`."""
        raise NotImplementedError

    def _open_session(self, id: str, *, confirmed: bool) -> None:
        """Open a session; `confirmed` if the user was asked first."""
        raise NotImplementedError

    async def _rename_session(self, id: str, title: str) -> None:
        raise NotImplementedError

    async def _fork_session(self, id: str) -> None:
        raise NotImplementedError

    async def _delete_session(self, id: str) -> None:
        raise NotImplementedError

    # --- layout and painting ---

    def compose(self) -> ComposeResult:
        """Yield head, search, list and preview, keys."""
        with Vertical(id="sessions"):
            yield self._views["head"]
            yield from self._search_bar()
            with Container(id="sessions-panes"):
                yield self.list_view
                with Vertical(id="sessions-about"):
                    yield self._views["facts"]
                    yield self._views["body"]
            yield self._views["keys"]

    def _lay_out(self) -> None:
        """Show the preview beside the list, below it, or not at all."""
        is_low = self.size.height < MIN_PREVIEW_HEIGHT
        self.set_class(is_low, "-low")
        self.set_class(is_low and self.size.width < WIDE, "-bare")
        self.call_after_refresh(self.cursor_moved)

    @property
    def _count_text(self) -> str:
        """Number of listed sessions, with `…` while more are being loaded."""
        return super()._count_text + " …" * self._is_partial

    def _sign(self, width: int, styles: TextStyles) -> list[Line]:
        return [line(("✎ " if self._renamed_id else self.SIGN, styles.accent))]

    def row_lines(self, row: SessionRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        mark: Span = ("  ", styles.text)
        if row.is_current or row.is_running:
            mark = ("● ", styles.ok)
        elif row.problem:
            mark = ("! ", styles.warn)
        head = [cursor_mark(selected, styles), mark]
        right = self._folder_and_age(row, width - width_of(head), styles)
        room = max(1, width - width_of([*head, *right]) - 2)
        title = fit(one_line(row.title, MAX_TEXT_LENGTH) or UNTITLED, room)
        style = styles.strong if selected else styles.text if row.title else styles.muted
        left = [*head, *highlight_words(title, self.query_text, style, styles)]
        lines = [justified_line(left, right, width, styles)]
        if row.id in self._excerpts:
            text = fit(text_around(self._excerpts[row.id], self.query_text, max(8, width - 6)), width - 6)
            highlighted = highlight_words(text, self.query_text, styles.muted, styles)
            lines.append(line(("      ", styles.text), *highlighted))
        return lines

    def _folder_and_age(self, row: SessionRow, width: int, styles: TextStyles) -> list[Span]:
        """Return the folder if it matters, and the age, as far as there is room beside the title."""
        spans: list[Span] = [("this one" if row.is_current else row.age, styles.muted)]
        room = width - TITLE_WIDTH - width_of(spans) - 3
        if self.all_folders and not row.is_here and room > 6:
            folder = one_line(row.folder, MAX_TEXT_LENGTH)
            short = folder if len(folder) <= min(room, 30) else "…" + folder[1 - min(room, 30) :]
            spans = [(fit(short, room), styles.muted), (" · ", styles.faint), *spans]
        return spans if width - TITLE_WIDTH - width_of(spans) > 0 else []

    def _facts(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the facts about the current session."""
        if (row := self.current) is None:
            return []
        lines: list[Line] = []
        facts = [row.folder, row.facts]
        if self.has_class("-wide"):
            lines += wrap([(one_line(row.title, MAX_TEXT_LENGTH) or UNTITLED, styles.strong)], width)[:2]
        else:  # the title is in the list right above, and there are few lines
            facts = [fit(" · ".join(filter(None, facts)), width)]
        state = "open on this screen" if row.is_current else "open in another process" if row.is_running else ""
        texts = [*((fact, styles.muted) for fact in facts), (state, styles.ok), (row.problem, styles.warn)]
        for text, style in texts:
            lines += wrap([(make_visible(one_line(text, MAX_TEXT_LENGTH)), style)], width) if text else []
        return lines

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the end of the conversation of the current session."""
        lines: list[Line] = []
        if self.current is None or self._preview[0] != self.current.id:
            return lines
        for text in self._preview[1].split("\n")[-MAX_PREVIEW_LINES:]:
            mark, visible = text[:2], make_visible(text, lookalikes=False)
            if mark == "› ":
                lines += [Line([])] if lines and self.has_class("-wide") else []
                lines += hanging([("› ", styles.accent)], [(visible[2:], styles.strong)], width, styles.text)
            else:
                lines += wrap([(visible, styles.muted if mark == "· " else styles.text)], width)
        return lines

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys for the current session."""
        if self._renamed_id:
            return [*self.keys.hints([("open", "save the title")]), ("esc", "cancel")]
        hints = [(name, name) for name in ("open", "rename", "fork", "delete") if self.current]
        hints.append(("folders", "this folder" if self.all_folders else "all folders"))
        return [*self.keys.hints(hints), ("esc", "back")]

    # --- content ---

    def show_rows(self, rows: Sequence[SessionRow], selected: str = "", *, more: bool = False) -> None:
        """Show the sessions, newest first, and select the one with the id `selected`.

        `more` means that others follow; messages are searched when all are loaded.
        """
        if not self.is_attached:
            return
        is_first = self.rows is None
        self.rows, self._is_partial = rows, more
        if is_first and not any(row.is_here and not row.is_current for row in rows):
            self.all_folders = True
        self._filter(selected or self._current_id)
        if not more:
            self._start_search()

    def show_found(self, text: str, lines: Mapping[str, str]) -> None:
        """Add sessions by id, each with a line that matches `text`."""
        if self.is_attached and lines and text == self.query_text.strip():
            self._matching_lines.update(lines)
            self._filter(self._current_id)

    def show_preview(self, id: str, text: str) -> None:
        """Show the preview of a session, if it is still the current one."""
        self._preview = (id, text)
        if self._current_id == id:
            self.repaint_parts("body")
            view = self._views["body"]
            view.call_after_refresh(view.scroll_end, animate=False)

    def start_typeahead(self) -> None:
        """Clear the field, which collects what is typed from now on: it is meant for the chosen session."""
        with self.prevent(LineInput.Changed):
            self.field.value = ""
        self._collecting = True

    def confirm(self, text: str, action: str, id: str) -> None:
        """Show `text`; the same key again confirms the action (`open`, `delete`) on the session."""
        self.show_message(text)
        self._pending = (action, id)

    # --- filter ---

    @property
    def _current_id(self) -> str:
        return self.current.id if self.current is not None else ""

    @property
    def searching(self) -> bool:
        """Whether the field filters the list, rather than editing a title or collecting text."""
        return not self._collecting and not self._renamed_id

    def filter_rows(self) -> None:
        """Filter by title and folder now, and start a search of the messages."""
        self.show_message("")
        self._matching_lines.clear()
        self._filter("")
        self._start_search()

    def _filter(self, selected: str) -> None:
        """Show sessions whose title or folder has all words, then those with matching messages."""
        candidates = [row for row in self.rows or () if self.all_folders or row.is_here]
        by_title = [row for row in candidates if self.matches(f"{row.title}\n{row.folder}")]
        ids = {row.id for row in by_title}
        by_message = [row for row in candidates if row.id in self._matching_lines and row.id not in ids]
        rows = [*by_title, *by_message]
        self._excerpts = {row.id: self._matching_lines[row.id] for row in by_message}
        self.sub_title = "of all folders" if self.all_folders else self.SUB_TITLE
        self.total = None if self.rows is None else len(candidates)
        self.list_view.empty = (
            LOADING if self._is_partial else empty_text(bool(self.query_text.strip()), self.all_folders)
        )
        fallback = self.list_view.cursor if selected else 0
        self.list_view.set_rows(rows, next((i for i, row in enumerate(rows) if row.id == selected), fallback))
        self.repaint_parts("head", "keys")
        self.cursor_moved()

    def _start_search(self) -> None:
        """Search the messages of the sessions that are not listed, those of this folder first."""
        text = self.query_text.strip()
        listed = {row.id for row in self.list_view.rows}
        others = [row for row in self.rows or () if text and row.id not in listed]
        self._search_messages(text, [row.id for row in sorted(others, key=lambda row: not row.is_here)])

    def cursor_moved(self) -> None:
        """Show the facts and the preview of the current session."""
        self.repaint_parts("facts", "body")
        pane = self._views["facts"].parent
        is_visible = isinstance(pane, Vertical) and pane.display
        if self.current is not None and is_visible and self._preview[0] != self.current.id:
            self._request_preview(self.current.id)

    # --- actions ---

    def process_key(self, key: str) -> bool:
        """Handle a key; a confirmation is only valid for the next key."""
        self._confirmed, self._pending = self._pending, None
        return super().process_key(key)

    def can_run(self, action: str) -> bool:
        """Return whether an action is available: none after a choice, some while a title is edited."""
        return not self._collecting and (not self._renamed_id or action in RENAMING_ACTIONS)

    def _action_scroll_up(self, lines: int = -1) -> None:
        view = self._views["body"]
        view.scroll_to(y=view.scroll_offset.y + lines, animate=False)

    def _action_scroll_down(self) -> None:
        self._action_scroll_up(1)

    def _action_folders(self) -> None:
        if self.rows is not None:
            self.all_folders = not self.all_folders
            self._filter(self._current_id)

    def activate(self) -> None:
        """Open the current session."""
        if self.current is not None:
            self._open_session(self.current.id, confirmed=self._confirmed == ("open", self.current.id))

    def _action_open(self) -> None:
        if self._renamed_id:
            self._save_title()
        else:
            self.activate()

    def _action_back(self) -> None:
        if self._renamed_id:
            self._end_renaming()
        else:
            super()._action_back()

    def _action_rename(self) -> None:
        if self.current is not None:
            self._renamed_id = self.current.id
            self.set_text(one_line(self.current.title, MAX_TEXT_LENGTH))
            self.repaint_parts("keys", "sign")

    def _save_title(self) -> None:
        id, title = self._renamed_id, " ".join(strip_untypable(self.field.value).split())
        self._end_renaming()
        if title:
            self._run_job(self._rename_session, id, title)

    def _end_renaming(self) -> None:
        with self.prevent(LineInput.Changed):
            self.set_text(self.query_text)
        self._renamed_id = ""
        self.repaint_parts("keys", "sign")

    def _action_fork(self) -> None:
        if self.current is not None:
            self._run_job(self._fork_session, self.current.id)

    def _action_delete(self) -> None:
        """Delete the current session at the second press."""
        if (row := self.current) is None:
            return
        if row.is_current or row.is_running:
            self.show_message("A session that is open can't be deleted.")
        elif self._confirmed == ("delete", row.id):
            self._run_job(self._delete_session, row.id)
        else:
            name = fit(one_line(row.title, MAX_TEXT_LENGTH) or row.id, max(8, self.size.width - 40))
            self.confirm(f"{self.keys.label('delete')} again deletes “{name}” permanently.", "delete", row.id)
