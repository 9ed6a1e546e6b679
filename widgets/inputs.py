"""Text fields: a line of a dialog, a plain text area, and a field that edits one text."""

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
from tui_agent.text import clean, strip_invisible
from widgets.textual_private import field_bindings, replace_selection


async def press_bound_key(widget: Widget, event: events.Key) -> bool:
    """Run the widget's own binding of a key immediately, and consume the key; return False if there is none.

    Textual runs bindings only after the key has bubbled up to the app, so letters typed after it would be inserted
    first: `helo`, Backspace and `lo` received together would give the wrong text.
    """
    for binding in field_bindings(widget, event.key):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return True
    return False


DELETE_KEYS = ("backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+h")
"""Keys that delete text; no dialog uses them while its field has the focus."""


class LineInput(Input):
    """A line of text in a dialog."""

    def __init__(
        self,
        *,
        id: str | None = None,
        placeholder: str = "",
        option_keys: str = "",
        handle_key: Callable[[str], bool] = lambda key: False,
    ) -> None:
        """`option_keys` are left to the dialog while the field is empty. `handle_key` is called first with the name of
        each key, and returns True if it handled the key."""
        super().__init__(id=id, placeholder=placeholder, compact=True, select_on_focus=False)
        self._handle_key = handle_key
        self.cursor_blink = False
        self.option_keys = option_keys

    async def on_key(self, event: events.Key) -> None:
        if self._handle_key(event.key):
            event.stop()
            event.prevent_default()
        elif event.character and event.character in self.option_keys and not self.value:
            event.prevent_default()  # not typed, but bubbles up to the dialog
        elif event.key in DELETE_KEYS:
            await press_bound_key(self, event)

    def press(self, event: events.Key) -> None:
        """Handle a key that was pressed before the field had the focus."""
        if event.key == "backspace":
            self.action_delete_left()
        elif event.character and event.is_printable:
            self.insert_text_at_cursor(event.character)


class ConfirmInput(LineInput):
    """A line for a word that confirms; it must be typed, so a paste is ignored."""

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()


class PlainTextArea(TextArea):
    """A text area with wrapped lines, without line numbers, highlighting or a blinking cursor."""

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
        """Render a line; blank if there is no column left, to which Textual can't wrap the placeholder."""
        if self.content_size.width <= 0:
            return Strip.blank(0)
        strip = super().render_line(y)
        if self.text or not self.app.ansi_color:
            return strip
        # Textual before 8.2.5 paints the cursor on a placeholder black on black with ANSI colors.
        return Strip([Segment(text, style and style.without_color) for text, style, _ in strip], strip.cell_length)


class EditField(PlainTextArea):
    """Edits a text until a key ends the editing."""

    def __init__(
        self,
        end_action: Callable[[str], str],
        on_end: Callable[[str], None],
        on_late_key: Callable[[events.Key], None],
        *,
        id: str | None = None,
        tab_behavior: Literal["focus", "indent"] = "focus",
    ) -> None:
        """`end_action` returns the action of a key that ends the editing, or an empty string; `on_end` is called with
        that action, `on_late_key` with keys pressed afterwards."""
        super().__init__(id=id, tab_behavior=tab_behavior)
        self.open = False
        self.intercept: Callable[[events.Key], bool] = lambda event: False
        """Called before a key is handled; returns True if it was forwarded to another widget."""
        self._end_action, self._end, self._late_key = end_action, on_end, on_late_key

    def edit_text(self, text: str, placeholder: str = "") -> None:
        """Start editing a text."""
        self.open = True
        self.placeholder = Content(placeholder)
        self.indent_type = "tabs" if "\n\t" in "\n" + text else "spaces"
        self.load_text(text)

    def press(self, event: events.Key) -> None:
        """Handle a key that was pressed before the field had the focus."""
        if action := self._end_action(event.key):
            self._end(action)
        elif event.key == "enter" or event.key in SESSION_ACTIONS["newline"].keys:
            self.insert("\n")
        elif event.key == "backspace":
            self.action_delete_left()
        elif event.character and event.is_printable:
            self.insert(event.character)

    async def on_key(self, event: events.Key) -> None:
        if self.intercept(event):
            pass
        elif not self.open:
            self._late_key(event)
        elif self._end_action(event.key) or event.key in SESSION_ACTIONS["newline"].keys:
            self.press(event)
        else:
            return
        event.stop()
        event.prevent_default()

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self.open:
            replace_selection(self, strip_invisible(clean(event.text)))
