"""The composer: a text area that sends on Enter, keeps what was typed, and never stops taking keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import TextArea

NEWLINE_KEYS = ("ctrl+j", "alt+enter", "shift+enter")
"""`\\` before Enter is the one that works in every terminal."""

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

    class Leave(Message):
        """Ctrl+D with nothing typed."""

    def __init__(self, *, id: str | None = None) -> None:
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
        self.sent: list[str] = []
        self._place: int | None = None
        """Where in the history we are; None at the draft."""
        self._draft = ""

    async def _on_key(self, event: events.Key) -> None:
        if event.key in NEWLINE_KEYS:
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
