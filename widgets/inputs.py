"""Text fields: one line within a dialog, and a plain text area."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui_agent.keys.keymap import SESSION_ACTIONS
from widgets.styled_text import NOT_TYPABLE
from widgets.textual_private import field_bindings, replace_selection


async def press_bound_key(widget: Widget, event: events.Key) -> bool:
    """Do at once what a key is bound to in this widget, and say whether it was; then nobody else gets the key.

    By itself the key would first go up to the app, and letters that were typed after it would be faster: of `helo`,
    Backspace and `lo` in one read the wrong letters stay.
    """
    for binding in field_bindings(widget, event.key):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return True
    return False


DELETING = ("backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+h")
"""Keys that delete; no dialog has a use for them while something is typed."""


class LineInput(Input):
    """One line of text within a dialog. `picks` are keys that are the dialog's while nothing is typed; `first` is asked
    about every key by its name, in their order, and says whether it took it."""

    def __init__(
        self,
        *,
        id: str | None = None,
        placeholder: str = "",
        picks: str = "",
        first: Callable[[str], bool] = lambda key: False,
    ) -> None:
        super().__init__(id=id, placeholder=placeholder, compact=True, select_on_focus=False)
        self._first = first
        self.cursor_blink = False
        self.picks = picks

    async def on_key(self, event: events.Key) -> None:
        if self._first(event.key):
            event.stop()
            event.prevent_default()
        elif event.character and event.character in self.picks and not self.value:
            event.prevent_default()  # so that it bubbles up to the dialog instead of being typed
        elif event.key in DELETING:
            await press_bound_key(self, event)

    def press(self, event: events.Key) -> None:
        """A key that was pressed before the field had the focus."""
        if event.key == "backspace":
            self.action_delete_left()
        elif event.character and event.is_printable:
            self.insert_text_at_cursor(event.character)


class PlainTextArea(TextArea):
    """Several lines of text that wrap, without line numbers, highlighting or a blinking cursor."""

    def __init__(
        self,
        text: str = "",
        *,
        id: str | None = None,
        tab_behavior: Literal["focus", "indent"] = "focus",
        placeholder: str = "",
    ) -> None:
        super().__init__(
            text,
            id=id,
            soft_wrap=True,
            tab_behavior=tab_behavior,
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder=Content(placeholder),
        )
        self.cursor_blink = False

    def render_line(self, y: int) -> Strip:
        """A line; nothing where no column is left, which Textual's placeholder can't be wrapped to."""
        if self.content_size.width <= 0:
            return Strip.blank(0)
        strip = super().render_line(y)
        if self.text or not self.app.ansi_color:
            return strip
        # Textual before 8.2.5 paints the cursor on a placeholder black on black in the terminal's own colors.
        return Strip([Segment(text, style and style.without_color) for text, style, _ in strip], strip.cell_length)


class EditField(PlainTextArea):
    """Edits one text until a key ends that; every other key is typing."""

    def __init__(
        self,
        ends: Callable[[str], str],
        done: Callable[[str], None],
        late: Callable[[events.Key], None],
        *,
        id: str | None = None,
        tab_behavior: Literal["focus", "indent"] = "focus",
    ) -> None:
        """`ends` says in a word how a key ends the text, if it does; `done` gets that, `late` the keys that follow."""
        super().__init__(id=id, tab_behavior=tab_behavior)
        self.open = False
        self.passes: Callable[[events.Key], bool] = lambda event: False
        """True for a key that goes elsewhere."""
        self._ends, self._done, self._late = ends, done, late

    def take(self, text: str, placeholder: str = "") -> None:
        """Edit this text."""
        self.open = True
        self.placeholder = Content(placeholder)
        self.indent_type = "tabs" if "\n\t" in "\n" + text else "spaces"
        self.load_text(text)

    def press(self, event: events.Key) -> None:
        """A key that was pressed before the field had the focus."""
        if way := self._ends(event.key):
            self._done(way)
        elif event.key == "enter" or event.key in SESSION_ACTIONS["newline"].keys:
            self.insert("\n")
        elif event.key == "backspace":
            self.action_delete_left()
        elif event.character and event.is_printable:
            self.insert(event.character)

    async def on_key(self, event: events.Key) -> None:
        if self.passes(event):
            pass
        elif not self.open:
            self._late(event)
        elif self._ends(event.key) or event.key in SESSION_ACTIONS["newline"].keys:
            self.press(event)
        else:
            return
        event.stop()
        event.prevent_default()

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self.open:
            replace_selection(self, event.text.replace("\r\n", "\n").translate(dict.fromkeys(NOT_TYPABLE)))
