"""The composer: a text area that sends on Enter, keeps what was typed, and never stops taking keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from widgets.command_menu import CommandMenu

NEWLINE_KEYS = ("ctrl+j", "alt+enter", "shift+enter")
"""`\\` before Enter is the one that works in every terminal."""

MENU_KEYS = ("up", "down", "tab", "enter", "escape")
"""Belong to the list of commands while it is open."""

PLACEHOLDER = "Ask for a change, or ask a question"


class PromptInput(TextArea):
    """Several lines, a history of what was sent or set aside, the unsent draft kept while looking through it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+g", "submit(True)", "Guide the run", show=False),
        Binding("up", "older", "Older message", show=False),
        Binding("down", "newer", "Newer message", show=False),
        Binding("ctrl+z", "undo", "Undo", show=False),
    ]

    @dataclass
    class Submitted(Message):
        """Enter: the text is to be sent."""

        text: str
        steering: bool = False
        """Meant for the run that goes on, not for the next one."""

    @dataclass
    class Commanded(Message):
        """Enter on a command of the list."""

        name: str
        rest: str

    class Begun(Message):
        """The first key of all into the composer."""

    class Leave(Message):
        """Ctrl+D with nothing typed."""

    class HelpWanted(Message):
        """A question mark with nothing typed."""

    def __init__(self, menu: CommandMenu | None = None, *, id: str | None = None) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder=Content(PLACEHOLDER),
        )
        self.cursor_blink = False
        self.menu = menu
        self._begun = False
        self._parked = ""
        """The draft while a command is typed."""
        self.sent: list[str] = []
        self._place: int | None = None
        """Where in the history we are; None at the draft."""
        self._draft = ""

    def render_line(self, y: int) -> Strip:
        """A line; nothing where no column is left, which Textual's placeholder can't be wrapped to."""
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(0)

    async def _on_key(self, event: events.Key) -> None:
        if not self._begun and event.is_printable:
            self._begun = True
            self.post_message(self.Begun())
        if event.key in MENU_KEYS and self.menu is not None and self.menu.filter(self.text):
            event.stop()
            event.prevent_default()
            self._in_menu(self.menu, event.key)
        elif event.key == "question_mark" and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(self.HelpWanted())
        elif event.key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif event.key == "ctrl+d" and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(self.Leave())
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()

    def _in_menu(self, menu: CommandMenu, key: str) -> None:
        if key in ("up", "down"):
            menu.move(-1 if key == "up" else 1)
        elif key == "tab":
            self.text = f"/{menu.name_chosen} "
            self.move_cursor(self.document.end)
        elif key == "enter":
            name, rest = menu.name_chosen, self.text.partition(" ")[2]
            self._unpark()
            self.post_message(self.Commanded(name, rest))
        else:
            menu.close()
            if self._parked:
                self._unpark()

    def _unpark(self) -> None:
        self.text, self._parked = self._parked, ""
        self.move_cursor(self.document.end)
        if self.menu is not None:
            self.menu.filter(self.text)

    def open_menu(self) -> None:
        """List the commands; the draft comes back afterwards."""
        if not self.text.startswith("/"):
            self._parked = self.text
            self.text = "/"
            self.move_cursor(self.document.end)

    def on_text_area_changed(self) -> None:
        """The draft filters the list."""
        if self.menu is not None:
            self.menu.filter(self.text)

    def _enter(self) -> None:
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        if before.endswith("\\"):
            self.replace("\n", (row, column - 1), (row, column))
        else:
            self.action_submit(False)

    def action_submit(self, steering: bool) -> None:
        """Hand the text up and clear the composer."""
        text = self.text
        if not text.strip():
            return
        self._remember(text)
        self.clear()
        self.post_message(self.Submitted(text, steering))

    def set_aside(self) -> bool:
        """Put the draft into the history and clear the composer (R11.1). False when there was none."""
        if not self.text.strip():
            self.clear()
            return False
        self._remember(self.text)
        self.clear()
        return True

    def take_typed(self, text: str) -> None:
        """Text that was typed into a dialog before it would listen goes on where the draft ends."""
        self.insert(text, self.document.end)
        self.move_cursor(self.document.end)

    def _remember(self, text: str) -> None:
        self._place, self._draft = None, ""
        if not self.sent or self.sent[-1] != text:
            self.sent.append(text)

    def action_older(self) -> None:
        """In the first line: the message before. Elsewhere: a line up."""
        if self.cursor_at_first_line and self.sent and self._place != 0:
            if self._place is None:
                self._draft = self.text
            self._recall((len(self.sent) if self._place is None else self._place) - 1)
        else:
            self.action_cursor_up()

    def action_newer(self) -> None:
        """In the last line: the message after, at last the draft. Elsewhere: a line down."""
        if self.cursor_at_last_line and self._place is not None:
            self._recall(self._place + 1 if self._place + 1 < len(self.sent) else None)
        else:
            self.action_cursor_down()

    def _recall(self, place: int | None) -> None:
        self._place = place
        self.text = self._draft if place is None else self.sent[place]
        self.move_cursor(self.document.end)

    def action_undo(self) -> None:
        """Undo; an edit that can't be undone at this size is left as it is (Textual #6686)."""
        try:
            super().action_undo()
        except ValueError:
            self.refresh(layout=True)
