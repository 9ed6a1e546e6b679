"""Help, key names, and the link to the web page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from textual import events

from tui_agent.keys.key_names import key_label, pressed_key, read_key, read_untyped_key
from widgets.line_view import LinesView
from widgets.panel import Panel
from widgets.styled_text import Line, Span, TextStyles, add_below, chop, hanging, line, side_by_side, wrap

Group = tuple[str, Sequence[tuple[str, str]]]
COLUMN_WIDTH, GAP = 44, 4
"""Minimum width of a column, and the gap between two."""
KEY_WIDTH = 13
"""Width of the keys before their descriptions, the same in all groups."""


class HelpPanel(Panel):
    """All keys and commands; `/` searches them."""

    TITLE = "Keys and commands"

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = list(groups)
        self.query_text: str | None = None
        """What is searched for; None while nothing is."""

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the title, with the search."""
        (title,) = super().head(width, styles)
        if self.query_text is None:
            return [title]
        query = line(("  /", styles.accent), (self.query_text, styles.text), ("▏", styles.accent))
        return [Line([*title.segments, *query.segments])]

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint as many columns as fit, of similar height."""
        count = max(1, (width + GAP) // (COLUMN_WIDTH + GAP))
        column_width = (width + GAP) // count - GAP
        groups = [_group_lines(group, column_width, styles) for group in self._found()]
        if not groups:
            return [line(("no key or command matches", styles.muted))]
        columns = balance_columns(groups, count)
        return side_by_side(columns, [column_width + GAP] * (len(columns) - 1), [], styles)

    def _found(self) -> list[Group]:
        """Return the groups, with the rows that contain all words of the search."""
        words = (self.query_text or "").casefold().split()
        found = [
            (name, [row for row in rows if all(word in f"{name} {row[0]} {row[1]}".casefold() for word in words)])
            for name, rows in self.groups
        ]
        return [group for group in found if group[1]]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys; Esc ends the search first."""
        if self.query_text is not None:
            return [("esc", "shows all"), *super().key_pairs()[1:]]
        return [("/", "searches"), *super().key_pairs()]

    def act(self, event: events.Key) -> bool:
        """Edit the search."""
        query = self.query_text
        if query is None:
            if event.character != "/":
                return False
            query = ""
        elif event.key == "escape":
            query = None
        elif event.key == "backspace":
            query = query[:-1] if query else None
        elif event.is_printable and event.character:
            query += event.character
        else:
            return False
        self._search(query)
        return True

    def _search(self, query: str | None) -> None:
        self.query_text = query
        self.body_view.scroll_to(y=0, animate=False)
        for part in ("#head", "#body"):
            self.query_one(part, LinesView).relayout()
        self.call_after_refresh(self.keys_view.relayout)


def balance_columns(groups: Sequence[list[Line]], count: int) -> list[list[Line]]:
    """Distribute groups in order over at most `count` columns, minimizing the height of the tallest one."""
    limit = max(map(len, groups), default=0)
    while True:
        columns: list[list[Line]] = [[]]
        for group in groups:
            if columns[-1] and len(columns[-1]) + 1 + len(group) > limit:
                columns.append([])
            add_below(columns[-1], group)
        if len(columns) <= count:
            return columns
        limit += 1


def _group_lines(group: Group, width: int, styles: TextStyles) -> list[Line]:
    """Paint a group; long keys have a line of their own, unless the description fits beside them."""
    name, rows = group
    lines = [line((name, styles.muted))]
    for keys, description in rows:
        head: list[Span] = [(f"{keys:<{KEY_WIDTH}}", styles.accent)]
        if len(keys) > KEY_WIDTH - 2:
            if cell_len(keys) + 2 + cell_len(description) <= width:
                lines.append(line((f"{keys}  ", styles.accent), (description, styles.text)))
                continue
            lines += wrap([(keys, styles.accent)], width)
            head = [(" " * KEY_WIDTH, styles.text)]
        lines += hanging(head, [(description, styles.text)], width, styles.text)
    return lines


class KeyName(Panel):
    """Shows the name and action of every key pressed; Esc twice closes."""

    TITLE = "Press a key"

    OWN_ACTIONS = ("cancel", "help", "interrupt", "command")

    def __init__(self, describe: Callable[[str], str]) -> None:
        """`describe` returns the action of a key in words."""
        super().__init__()
        self.describe = describe
        self.pressed = ""

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the key pressed last, with its action and its name in the settings."""
        if not self.pressed:
            hint = "Keys that don't show up here are caught by your terminal, tmux or window manager."
            return wrap([(hint, styles.muted)], width)
        (_, problem), (key, always_problem) = read_untyped_key(self.pressed), read_key(self.pressed)
        if not problem:
            note = f"In `keys:` it is {self.pressed}"
        elif always_problem:
            note = f"It can't be used in `keys:`: {problem}"
        else:
            note = f"In `keys:` it is {key} for actions in dialogs, lists and panels; elsewhere {problem}"
        action = self.describe(self.pressed) or "not bound"
        return [
            line((key_label(self.pressed), styles.accent)),
            *wrap([(action, styles.text)], width),
            *wrap([(note, styles.muted)], width),
        ]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return what Esc does."""
        return [("esc", "again to close" if self.pressed == "escape" else "twice to close")]

    def act(self, event: events.Key) -> bool:
        """Show the key."""
        if event.key == "escape" and self.pressed == "escape":
            return False
        self.pressed = pressed_key(event.key, event.character)
        for part in self.query(LinesView):
            part.relayout()
        return True


LINK_NOTE = (
    "It works once, in a browser on this machine. /web shows a new link, /web stop closes the page. "
    "Both show the same session: what you send, approve or stop there also takes effect here."
)


class LinkPanel(Panel):
    """A link to the web page of the session."""

    TITLE = "This session in a browser"

    def __init__(self, link: str, opened: bool) -> None:
        """`opened`: whether a browser was already opened, with another link."""
        super().__init__()
        self.link = link
        self._opened = opened

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the complete link, which a terminal can open."""
        intro = "It is open in your browser. Link for another browser:" if self._opened else "Open this link:"
        link = chop([(self.link, styles.accent)], width)
        return [*wrap([(intro, styles.text)], width), line(), *link, line(), *wrap([(LINK_NOTE, styles.muted)], width)]
