"""Panels that only show something: the help, the name of a key, the link to the web page."""

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
"""The least width of a column, and what is between two."""


class HelpPanel(Panel):
    """Everything that can be pressed or typed."""

    TITLE = "Keys and commands"

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = list(groups)

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """As many columns as there is room for, all of about the same height."""
        count = max(1, (width + GAP) // (COLUMN + GAP))
        room = (width + GAP) // count - GAP
        groups = [_group_lines(group, room, styles) for group in self.groups]
        columns = [
            [row for at, group in enumerate(some) for row in ([Line([])] if at else []) + group]
            for some in balance_columns(groups, count)
        ]
        return beside(columns, [room + GAP] * (len(columns) - 1), [], styles)


def balance_columns(groups: Sequence[list[Line]], count: int) -> list[list[list[Line]]]:
    """The groups in their order, in at most `count` columns, the highest of them as low as can be."""
    most = max(map(len, groups), default=0)
    while True:
        columns: list[list[list[Line]]] = [[]]
        for group in groups:
            if columns[-1] and sum(map(len, columns[-1])) + len(columns[-1]) + len(group) > most:
                columns.append([])
            columns[-1].append(group)
        if len(columns) <= count:
            return columns
        most += 1


def _group_lines(group: Group, width: int, styles: TextStyles) -> list[Line]:
    name, rows = group
    wide = min(max(len(keys) for keys, _does in rows), 11) + 2
    lines = [line((name, styles.muted))]
    for keys, does in rows:
        head: list[Span] = [(f"{keys:<{wide}}", styles.accent)]
        if len(keys) > wide - 2:
            lines += wrap([(keys, styles.accent)], width)
            head = [(" " * wide, styles.text)]
        lines += hanging(head, [(does, styles.text)], width, styles.text)
    return lines


class KeyName(Panel):
    """Every key is only looked at; Esc twice closes."""

    TITLE = "Press a key"

    OWN_ACTIONS = ("cancel", "help", "interrupt")

    def __init__(self, does: Callable[[str], str]) -> None:
        """`does` says what a key does, in words."""
        super().__init__()
        self.does = does
        self.pressed = ""

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """The key that was pressed last."""
        if not self.pressed:
            says = "Keys that don't show up here are caught by your terminal, tmux or window manager."
            return wrap([(says, styles.muted)], width)
        does = self.does(self.pressed) or "not bound"
        (_, why_not), (key, never) = read_untyped_key(self.pressed), read_key(self.pressed)
        lines = [line((key_label(self.pressed), styles.accent)), *wrap([(does, styles.text)], width)]
        named = f"In `keys:` it is {self.pressed}" if not why_not else f"It can't be used in `keys:`: {why_not}"
        if why_not and not never:
            named = f"In `keys:` it is {key} for actions in dialogs, lists and panels; elsewhere {why_not}"
        return [*lines, *wrap([(named, styles.muted)], width)]

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """How to leave."""
        return key_lines([("esc", "again to close" if self.pressed == "escape" else "twice to close")], width, styles)

    def act(self, event: events.Key) -> bool:
        """Look at it."""
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
    """A link, and what it is good for."""

    TITLE = "This session in a browser"

    def __init__(self, link: str, opened: bool) -> None:
        """`opened`: a browser was started on a link of its own."""
        super().__init__()
        self.link = link
        self._opened = opened

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """The link, whole, so that a terminal can open it."""
        words = "It is open in your browser. Link for another browser:" if self._opened else "Open this link:"
        at = [self.link[begin : begin + width] for begin in range(0, len(self.link), max(1, width))]
        links = [line((part, styles.accent)) for part in at]
        return [*wrap([(words, styles.text)], width), line(), *links, line(), *wrap([(LINK_NOTE, styles.muted)], width)]
