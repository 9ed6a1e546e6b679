"""Where the text of one thing of the plan is typed; every key but four is typing."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

from widgets.prompt_input import NEWLINE_KEYS


class PlanField(TextArea):
    """Enter keeps, Tab goes to the next field, Esc leaves; every other key is typing."""

    @dataclass
    class Done(Message):
        """The user is through with it."""

        how: str
        """`keep`, `leave` or `next`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False

    def take(self, text: str, placeholder: str = "") -> None:
        """Edit this text, the cursor behind it."""
        self.placeholder = Content(placeholder)
        self.load_text(text)
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        ways = {"enter": "keep", "escape": "leave", "tab": "next"}
        if event.key in ways:
            self.post_message(self.Done(ways[event.key]))
        elif event.key in NEWLINE_KEYS:
            self.insert("\n")
        else:
            return
        event.stop()
        event.prevent_default()
