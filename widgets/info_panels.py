"""Help, key names, and the link to the web page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from tui_agent.keys.key_names import key_label, pressed_key, read_key, read_untyped_key
from widgets.dialog_keys import key_lines
from widgets.line_view import LinesView
from widgets.panel import Panel
from widgets.styled_text import Line, Span, TextStyles, beside, hanging, line, wrap

Group = tuple[str, Sequence[tuple[str, str]]]
COLUMN, GAP = 44, 4
"""Minimum width of a column, and the gap between two."""


class HelpPanel(Panel):
    """All keys and commands."""

    TITLE = "Keys and commands"

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = list(groups)

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint as many columns as fit, of similar height."""
        count = max(1, (width + GAP) // (COLUMN + GAP))
        room = (width + GAP) // count - GAP
        groups = [_group_lines(group, room, styles) for group in self.groups]
        columns = [
            [row for at, group in enumerate(column) for row in ([Line([])] if at else []) + group]
            for column in balance_columns(groups, count)
        ]
        return beside(columns, [room + GAP] * (len(columns) - 1), [], styles)


def balance_columns(groups: Sequence[list[Line]], count: int) -> list[list[list[Line]]]:
    """Distribute groups in order over at most `count` columns, minimizing the height of the highest one."""
    limit = max(map(len, groups), default=0)
    while True:
        columns: list[list[list[Line]]] = [[]]
        for group in groups:
            if columns[-1] and sum(map(len, columns[-1])) + len(columns[-1]) + len(group) > limit:
                columns.append([])
            columns[-1].append(group)
        if len(columns) <= count:
            return columns
        limit += 1


def _group_lines(group: Group, width: int, styles: TextStyles) -> list[Line]:
    name, rows = group
    key_width = min(max(len(keys) for keys, _does in rows), 11) + 2
    lines = [line((name, styles.muted))]
    for keys, does in rows:
        head: list[Span] = [(f"{keys:<{key_width}}", styles.accent)]
        if len(keys) > key_width - 2:
            lines += wrap([(keys, styles.accent)], width)
            head = [(" " * key_width, styles.text)]
        lines += hanging(head, [(does, styles.text)], width, styles.text)
    return lines


class KeyName(Panel):
    """Shows the name and action of every key pressed; Esc twice closes."""

    TITLE = "Press a key"

    OWN_ACTIONS = ("cancel", "help", "interrupt")

    def __init__(self, describe: Callable[[str], str]) -> None:
        """`describe` returns the action of a key in words."""
        super().__init__()
        self.describe = describe
        self.pressed = ""

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """The key pressed last."""
        if not self.pressed:
            hint = "Keys that don't show up here are caught by your terminal, tmux or window manager."
            return wrap([(hint, styles.muted)], width)
        does = self.describe(self.pressed) or "not bound"
        (_, why_not), (key, never) = read_untyped_key(self.pressed), read_key(self.pressed)
        lines = [line((key_label(self.pressed), styles.accent)), *wrap([(does, styles.text)], width)]
        named = f"In `keys:` it is {self.pressed}" if not why_not else f"It can't be used in `keys:`: {why_not}"
        if why_not and not never:
            named = f"In `keys:` it is {key} for actions in dialogs, lists and panels; elsewhere {why_not}"
        return [*lines, *wrap([(named, styles.muted)], width)]

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the key hints."""
        return key_lines([("esc", "again to close" if self.pressed == "escape" else "twice to close")], width, styles)

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
        """`opened`: a browser was already opened with another link."""
        super().__init__()
        self.link = link
        self._opened = opened

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """The link, never shortened, so that a terminal can open it."""
        words = "It is open in your browser. Link for another browser:" if self._opened else "Open this link:"
        at = [self.link[begin : begin + width] for begin in range(0, len(self.link), max(1, width))]
        links = [line((part, styles.accent)) for part in at]
        return [*wrap([(words, styles.text)], width), line(), *links, line(), *wrap([(LINK_NOTE, styles.muted)], width)]
