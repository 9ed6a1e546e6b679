"""Text fields with the keys of readline: a line of a dialog, a plain text area, and one that edits one text (U8)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui_agent.keys.keymap import SESSION_ACTIONS
from tui_agent.text import clean, strip_invisible
from widgets.textual_private import field_bindings, replace_selection

MAX_KILLS: Final = 30
"""Deletions that can be inserted again."""

Location: TypeAlias = tuple[int, int]
"""Row and column."""

REPLACED_KEYS: Final = frozenset(
    (
        *("ctrl+z", "ctrl+y", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+left", "ctrl+right", "f6", "f7"),
        *("ctrl+backspace", "alt+backspace", "alt+delete", "ctrl+delete", "super+backspace"),
    )
)
"""Keys of Textual's text area that do something else here."""

READLINE: Final[dict[str, str]] = {
    "ctrl+b": "cursor_left",
    "alt+b,alt+left,ctrl+left": "word_left",
    "alt+f,alt+right,ctrl+right": "word_right",
    "ctrl+w": "kill('spaced_left')",
    "alt+backspace,ctrl+backspace": "kill('word_left')",
    "alt+d,alt+delete,ctrl+delete": "kill('word_right')",
    "ctrl+u,super+backspace": "kill('line_start')",
    "ctrl+k": "kill('line_end')",
    "ctrl+y": "yank",
    "alt+y": "yank_earlier",
    "ctrl+underscore,ctrl+minus": "undo",
    "alt+underscore,ctrl+shift+z": "redo",
}
"""Keys → action of a text area."""


def readline_bindings() -> list[BindingType]:
    """Return the bindings of Textual's text area with the keys of readline."""
    kept: list[BindingType] = []
    for binding in TextArea.BINDINGS:
        assert isinstance(binding, Binding)
        keys = [key for key in binding.key.split(",") if key not in REPLACED_KEYS]
        if keys:
            kept.append(Binding(",".join(keys), binding.action, show=False))
    return kept + [Binding(keys, action, show=False) for keys, action in READLINE.items()]


class KillRing:
    """The latest deletions of a text area, newest last. Deletions in a row are one."""

    def __init__(self) -> None:
        self._kills: deque[str] = deque(maxlen=MAX_KILLS)

    def add(self, text: str, *, before: bool, continues: bool) -> None:
        """Add a deletion; if it `continues` the last one, extend that `before` or after its text."""
        if continues and self._kills:
            last = self._kills.pop()
            text = text + last if before else last + text
        self._kills.append(text)

    @property
    def newest(self) -> str:
        """The newest deletion; empty if there is none."""
        return self._kills[-1] if self._kills else ""

    def rotate(self) -> str:
        """Make the deletion before the newest one the newest, and return it."""
        self._kills.rotate(1)
        return self.newest


def _before(pattern: re.Pattern[str]) -> Callable[[TextArea], Location]:
    """Return a function for the start of what stands before the cursor, or the end of the line before."""

    def target(area: TextArea) -> Location:
        row, column = area.cursor_location
        if column == 0:
            return _line_start(area)
        match = pattern.match(area.document.get_line(row)[:column][::-1])  # reversed: in linear time
        return row, column - (match.end() if match else 0)

    return target


def _after(pattern: re.Pattern[str]) -> Callable[[TextArea], Location]:
    """Return a function for the end of what stands after the cursor, or the start of the line after."""

    def target(area: TextArea) -> Location:
        row, column = area.cursor_location
        line = area.document.get_line(row)
        if column == len(line):
            return _line_end(area)
        match = pattern.match(line, column)
        return row, match.end() if match else column

    return target


def _line_start(area: TextArea) -> Location:
    row, column = area.cursor_location
    return (row, 0) if column or not row else (row - 1, len(area.document.get_line(row - 1)))


def _line_end(area: TextArea) -> Location:
    row, column = area.cursor_location
    end = len(area.document.get_line(row))
    return (row, end) if column < end or row + 1 == area.document.line_count else (row + 1, 0)


TARGETS: Final[dict[str, Callable[[TextArea], Location]]] = {
    "word_left": _before(re.compile(r"\W*\w*")),
    "word_right": _after(re.compile(r"\W*\w*")),
    "spaced_left": _before(re.compile(r"\s*\S*")),
    "line_start": _line_start,
    "line_end": _line_end,
}
"""Name → where a deletion or movement from the cursor ends."""


class ReadlineTextArea(TextArea, inherit_bindings=False):
    """A text area with the keys of readline; what they delete can be inserted again with Ctrl+Y."""

    BINDINGS: ClassVar[list[BindingType]] = readline_bindings()

    _after_kill: tuple[Location, int] | None = None
    """Cursor and length of the text after the last deletion, if that was the last edit."""
    _yanked: tuple[Location, Location, int] | None = None
    """Start, end and length of the text after the last insertion of a deletion."""

    @cached_property
    def kills(self) -> KillRing:
        """What was deleted."""
        return KillRing()

    def action_word_left(self) -> None:
        """Move to the start of the word before."""
        self.move_cursor(TARGETS["word_left"](self))

    def action_word_right(self) -> None:
        """Move to the end of the word after."""
        self.move_cursor(TARGETS["word_right"](self))

    def action_kill(self, to: str) -> None:
        """Delete from the cursor to a target in `TARGETS`, or the selection, and remember the text."""
        if self.read_only:
            return
        cursor, target = self.selection if not self.selection.is_empty else (self.cursor_location, TARGETS[to](self))
        if cursor == target:
            return
        continues = self._after_kill == (cursor, len(self.text))
        self.history.checkpoint()
        result = self.delete(*sorted((cursor, target)), maintain_selection_offset=False)
        self.history.checkpoint()
        self.kills.add(result.replaced_text, before=target < cursor, continues=continues)
        self._after_kill = self.cursor_location, len(self.text)

    def action_yank(self) -> None:
        """Insert the last deletion."""
        if text := self.kills.newest:
            start, end = sorted(self.selection)
            self._insert_kill(text, start, end)

    def action_yank_earlier(self) -> None:
        """Replace the inserted deletion by the one before it."""
        start, end, length = self._yanked or (None, None, 0)
        if start is not None and end is not None and self.cursor_location == end and len(self.text) == length:
            self._insert_kill(self.kills.rotate(), start, end)

    def _insert_kill(self, text: str, start: Location, end: Location) -> None:
        if self.read_only:
            return
        self.history.checkpoint()
        result = self.replace(text, start, end, maintain_selection_offset=False)
        self.history.checkpoint()
        self.move_cursor(result.end_location)
        self._yanked = start, result.end_location, len(self.text)


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


DELETE_KEYS = ("backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+h", "alt+d", "alt+backspace")
"""Keys that delete text; no dialog uses them while its field has the focus."""


class LineInput(Input):
    """A line of text in a dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+b,alt+left", "cursor_left_word", show=False),
        Binding("alt+f,alt+right", "cursor_right_word", show=False),
        Binding("alt+d", "delete_right_word", show=False),
        Binding("alt+backspace", "delete_left_word", show=False),
    ]

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


class PlainTextArea(ReadlineTextArea):
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
