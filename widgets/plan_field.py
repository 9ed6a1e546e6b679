"""Where the text of one thing of the plan is typed; every key but four is typing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from textual import events
from textual.content import Content
from textual.widgets import TextArea

from widgets.prompt_input import NEWLINE_KEYS

Way: TypeAlias = Literal["keep", "leave", "next"]
WAYS: dict[str, Way] = {"enter": "keep", "escape": "leave", "tab": "next"}


class PlanField(TextArea):
    """Enter keeps, Tab goes to the next field, Esc leaves; every other key is typing."""

    def __init__(
        self,
        done: Callable[[Way], None],
        late: Callable[[str, str], None],
        *,
        id: str | None = None,
    ) -> None:
        """`done` is told how the user leaves the text; `late` gets the keys that come after that."""
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False
        self.done, self.late = done, late
        self.passes: Callable[[events.Key], bool] = lambda event: False
        """True for a key that goes elsewhere."""
        self.open = False

    def take(self, text: str, placeholder: str = "") -> None:
        """Edit this text, the cursor behind it."""
        self.open = True
        self.placeholder = Content(placeholder)
        self.load_text(text)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if self.passes(event):
            pass
        elif not self.open:
            self.late(event.key, event.character or "" if event.is_printable else "")
        elif event.key in WAYS:
            self.done(WAYS[event.key])
        elif event.key in NEWLINE_KEYS:
            self.insert("\n")
        else:
            return
        event.stop()
        event.prevent_default()
