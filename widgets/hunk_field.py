"""Where the text of a hunk is changed before it is applied; every key but two is typing (A3)."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.widgets import TextArea

from widgets.dialog_keys import Keys
from widgets.ink import HIDDEN

KEYS = Keys("change")
LONGEST = 200_000
"""Characters of a hunk that can be edited."""


def editable(text: str) -> bool:
    """Whether a text can be shown in a field as it is: what can't be seen would be edited unseen."""
    return len(text) <= LONGEST and not any(
        ord(character) in HIDDEN or "\ud800" <= character <= "\udfff" for character in set(text)
    )


class HunkField(TextArea):
    """One key takes the text, Esc drops it."""

    def __init__(
        self, done: Callable[[bool], None], late: Callable[[events.Key], None], *, id: str | None = None
    ) -> None:
        """`done` is told whether the text is taken; `late` gets the keys that come after that."""
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="indent",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False
        self.open = False
        self._done, self._late = done, late

    def take(self, text: str) -> None:
        """Edit this text."""
        self.open = True
        self.indent_type = "tabs" if "\n\t" in "\n" + text else "spaces"
        self.load_text(text)

    def press(self, event: events.Key) -> None:
        """A key that was pressed before the field had the focus."""
        if self._decides(event.key):
            return
        if event.key == "enter":
            self.insert("\n")
        elif event.key == "backspace":
            self.action_delete_left()
        elif event.character and event.is_printable:
            self.insert(event.character)

    def _decides(self, key: str) -> bool:
        takes = KEYS.named(key) == "take"
        if takes or key == "escape":
            self.open = False
            self._done(takes)
            return True
        return False

    async def _on_key(self, event: events.Key) -> None:
        if not self.open:
            self._late(event)
        elif not self._decides(event.key):
            return
        event.stop()
        event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self.open:
            self.insert(event.text.replace("\r\n", "\n").translate(dict.fromkeys(HIDDEN)))
