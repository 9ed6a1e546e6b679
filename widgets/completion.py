"""The lists above the composer: commands while the draft starts with `/`, files while a mention is typed (H7).

They never have the focus: the draft filters them, and the keys of the composer move their cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from tui_agent.text import make_visible
from widgets.line_view import LinesView
from widgets.ranking import rank
from widgets.styled_text import Line, Span, TextStyles, fit, line, overlay, split_cells, width_of

MAX_VISIBLE = 8
"""Number of entries that are visible at once, on a screen that is high enough."""
OTHER_LINES = 10
"""Lines of the screen that are not for entries."""


class CompletionList(LinesView):
    """A list of names with a cursor; hidden at first."""

    def __init__(self, painter: Callable[[int, TextStyles], list[Line]], *, id: str | None = None) -> None:
        super().__init__(painter, id=id)
        self.names: Sequence[str] = ()
        self.cursor = 0
        self.display = False

    @property
    def selected_name(self) -> str:
        """The name at the cursor; empty if there is none."""
        return self.names[self.cursor] if self.cursor < len(self.names) else ""

    @property
    def visible_count(self) -> int:
        """Number of entries that are visible at once."""
        return max(1, min(MAX_VISIBLE, self.app.size.height - OTHER_LINES))

    def move(self, by: int) -> None:
        """Move the cursor, wrapping around at the ends."""
        self.cursor = (self.cursor + by) % max(1, len(self.names))
        self.relayout()


class CommandMenu(CompletionList):
    """Commands and their descriptions."""

    def __init__(self, entries: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.entries = dict(entries)
        self._draft = ""
        self._closed_draft = ""
        """The draft for which the user closed the menu."""

    def filter(self, draft: str) -> bool:
        """Show the commands that match a draft; return whether the menu is open."""
        if draft != self._draft:
            self._draft, self.cursor = draft, 0
            if draft != self._closed_draft:
                self._closed_draft = ""
            self.names = self._matches(draft)
        is_open = bool(self.names) and not self._closed_draft
        if is_open or self.display:
            self.display = is_open
            self.relayout()
        return is_open

    def _matches(self, draft: str) -> list[str]:
        if not draft.startswith("/") or "\n" in draft:
            return []
        query, space, _argument = draft[1:].partition(" ")
        if space:
            return [query] if query in self.entries else []
        matches = [(order, name) for name in self.entries if (order := rank(name, query)) is not None]
        return [name for _order, name in sorted(matches, key=lambda match: match[0])]

    def close(self) -> None:
        """Close the menu until the draft changes."""
        self._closed_draft = self._draft
        self.display = False

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        first = max(0, self.cursor - self.visible_count + 1)
        column_width = max(map(len, self.entries), default=1) + 3
        lines: list[Line] = []
        for index, name in enumerate(self.names[first : first + self.visible_count], start=first):
            selected = index == self.cursor
            spans: list[Span] = [
                ("› " if selected else "  ", styles.accent),
                (f"{'/' + name:<{column_width}}", styles.strong if selected else styles.text),
            ]
            lines.append(line(*spans, (fit(self.entries[name], max(1, width - column_width - 2)), styles.muted)))
        if len(self.names) > self.visible_count:
            lines.append(line((f"  {self.cursor + 1} of {len(self.names)}", styles.muted)))
        return lines


class MentionPicker(CompletionList):
    """Paths of files and folders that match a mention."""

    def __init__(self, on_pick: Callable[[str], object], *, id: str | None = None) -> None:
        """`on_pick` is called with a name that was clicked."""
        super().__init__(self._paint, id=id)
        self._pick = on_pick
        self.query_text = ""
        """The query that `names` match."""
        self.user_moved = False
        """Whether the user moved the cursor."""
        self._note = ""
        self._listing = False
        self._min_height = 0
        """Largest height since the list opened: shrinking it would lay out the screen again with every key."""

    def show(self, query: str, names: Sequence[str], *, listing: bool = False, note: str = "") -> None:
        """Show the matches of a query. The cursor stays on a name that the user selected if it is among them."""
        selected = self.selected_name if self.user_moved and query == self.query_text else ""
        self.user_moved = bool(selected) and selected in names
        self.query_text, self.names, self._listing, self._note = query, names, listing, note
        self.cursor = names.index(selected) if self.user_moved else 0
        self.display = bool(names) or listing
        self.relayout()

    def close(self) -> None:
        """Close and clear the list."""
        if self.display or self.names:
            self.query_text, self.names, self.cursor, self.user_moved = "", (), 0, False
            self.display, self._min_height = False, 0

    def move(self, by: int) -> None:
        """Move the cursor at the request of the user."""
        self.user_moved = True
        super().move(by)

    @property
    def _first(self) -> int:
        """Index of the first visible name."""
        return max(0, min(self.cursor - self.visible_count // 2, len(self.names) - self.visible_count))

    def on_click(self, event: events.Click) -> None:
        """Pick the clicked name."""
        visible = min(self.visible_count, len(self.names))
        row = event.y - (len(self.lines) - visible - 1)
        if 0 <= row < visible:
            self._pick(self.names[self._first + row])

    # --- painting ---

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        lines = [
            self._row(name, index == self.cursor, width, styles)
            for index, name in enumerate(self.names[self._first : self._first + self.visible_count], start=self._first)
        ]
        lines.append(line((fit(f"  {self._status()}", width), styles.muted)))
        self._min_height = max(self._min_height, len(lines))
        return [*(Line([]) for _ in range(self._min_height - len(lines))), *lines]

    def _status(self) -> str:
        """Return the position of the cursor, and what can be done with the selected name."""
        if not self.names:
            return "listing files …" if self._listing else ""
        parts = [f"{self.cursor + 1} of {len(self.names)}"] if len(self.names) > self.visible_count else []
        folder = self.selected_name.endswith("/")
        parts.append("enter inserts it · tab opens it" if folder else "enter inserts it · :L10-L50 for lines")
        if self._note or self._listing:
            parts.append(self._note or "listing files …")
        return " · ".join(parts)

    def _row(self, name: str, selected: bool, width: int, styles: TextStyles) -> Line:
        path = make_visible(name, lookalikes=False)
        room = max(1, width - 2)
        base = path.rstrip("/").rfind("/") + 1
        if width_of([(path, styles.text)]) > room:  # shorten the folders, not the name
            cells = max(0, room - 1 - width_of([(path[base:], styles.text)]))
            folders = split_cells(path[:base][::-1], cells)[0][::-1]
            path, base = fit(f"…{folders}{path[base:]}", room), len(folders) + 1
        base_style, folder_style = (styles.strong, styles.text) if selected else (styles.text, styles.muted)
        matches = [(column, column + 1) for column in _matched_columns(path, self.query_text)]
        spans = overlay([(path[:base], folder_style), (path[base:], base_style)], matches, styles.link)
        return line(("› " if selected else "  ", styles.accent), *spans)


def _matched_columns(name: str, query: str) -> set[int]:
    """Return the columns of the query's letters: the last substring if there is one, otherwise the last letters."""
    lower, query = name.lower(), query.lower()
    if not query or len(lower) != len(name):
        return set()
    if (start := lower.rfind(query)) >= 0:
        return set(range(start, start + len(query)))
    columns: set[int] = set()
    end = len(lower)
    for character in reversed(query):
        end = lower.rfind(character, 0, end)
        if end < 0:
            return set()
        columns.add(end)
    return columns
