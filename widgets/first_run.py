"""The screen for a missing model server: what was tried, how to start one, and a demo without one (G2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from textual import events
from textual.message import Message

from tui_agent.text import make_visible
from widgets.dialog_frame import option_lines
from widgets.dialog_keys import Keys, held_label, key_spans
from widgets.request_view import GuardedModal
from widgets.styled_text import Line, TextStyles, hanging, line, wrap

SUGGESTIONS = (
    ("Ollama", ("ollama serve", "ollama pull qwen2.5-coder:7b")),
    ("another server", ("LLM_BASE_URL=http://localhost:8080/v1 tui-agent",)),
)
"""Kinds of servers, and commands that start or select them."""
KEYS = Keys("first_run")


class FirstRun(GuardedModal):
    """Shown once per start, before the first message."""

    @dataclass
    class Picked(Message):
        """The user's choice."""

        choice: Literal["demo", "retry", "continue"]

    def __init__(self, explanation: str, **guard: Any) -> None:
        """`guard` are the options of `KeyGuard`."""
        super().__init__(**guard)
        self.explanation = explanation

    @staticmethod
    def _head(width: int, styles: TextStyles) -> list[Line]:
        return [line(("No model yet", styles.heading))]

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        lines: list[Line] = []
        for text in make_visible(self.explanation, lookalikes=False).split("\n"):
            lines += wrap([(text, styles.text)], width)
        for server, commands in SUGGESTIONS:
            lines += [Line([]), line((server, styles.muted))]
            for command in commands:
                lines += hanging([("$ ", styles.accent)], [(command, styles.strong)], width, styles.text, cut=True)
        return lines

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        options = (("demo", "demo: a scripted model on a scratch project", ""), ("retry", "retry", ""))
        lines = option_lines(
            options, lambda action: self.armed, KEYS.label, width, styles, held=held_label(self.held_key)
        )
        return [*lines, Line([]), *wrap(key_spans([("esc", "continues without a model")], styles), width)]

    def on_resize(self) -> None:
        """Limit the body to the screen."""
        self.body.styles.max_height = max(2, self.size.height - 10)

    def process_key(self, event: events.Key) -> bool:
        """Report the choice, or scroll; return False for a key without a function."""
        action = KEYS.action_for(event)
        if not self.body.scroll_for(action) and action:
            self.post_message(self.Picked("demo" if action == "demo" else "retry"))
        return bool(action)

    def escape(self) -> None:
        """Continue without a model."""
        self.post_message(self.Picked("continue"))
