"""No model server was found: what was tried, what to do, and a demonstration that needs none (G2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from tui_agent.text import visible
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, chop, indent, line, wrap
from widgets.line_view import LinesView
from widgets.modal import STILLNESS, StillModal, options

WAYS = (
    ("Ollama", ("ollama serve", "ollama pull qwen2.5-coder:7b")),
    ("another server", ("LLM_BASE_URL=http://localhost:8080/v1 tui-agent",)),
)
"""What starts a model, or names one."""
KEYS = Keys("first_run")


class FirstRun(StillModal):
    """Shown once a start, before the first message."""

    @dataclass
    class Picked(Message):
        """What the user wants."""

        what: Literal["demo", "retry", "go on"]

    def __init__(
        self, told: str, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS
    ) -> None:
        super().__init__(clock=clock, stillness=stillness)
        self.told = told

    def compose(self) -> ComposeResult:
        """What was tried, what to do, keys."""
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield LinesView(self._body, id="body")
            yield LinesView(self._keys, id="keys")

    @staticmethod
    def _head(width: int, ink: Ink) -> list[Line]:
        return [line(("No model yet", ink.heading))]

    def _body(self, width: int, ink: Ink) -> list[Line]:
        lines: list[Line] = []
        for text in visible(self.told, lookalikes=False).split("\n"):
            lines += wrap([(text, ink.text)], width)
        for name, commands in WAYS:
            lines += [Line([]), line((name, ink.muted))]
            for command in commands:
                lines += indent(
                    chop([(command, ink.strong)], width - 2), [("$ ", ink.accent)], [("  ", ink.text)]
                )
        return lines

    def _keys(self, width: int, ink: Ink) -> list[Line]:
        hint: list[Span] = [("esc", ink.accent), (" goes on without a model", ink.muted)]
        said = (("demo", "demonstration: a scripted model on a scratch project"), ("retry", "look again"))
        pairs = [(key, text, "") for key, text in KEYS.pairs(said)]
        return [*options(pairs, width, ink, lit=lambda key: self.armed), Line([]), *wrap(hint, width)]

    def on_resize(self) -> None:
        """The body can be scrolled where it does not fit."""
        self.query_one("#body").styles.max_height = max(2, self.size.height - 10)

    def listening(self) -> None:
        """Light the keys."""
        if self.is_mounted:
            self.query_one("#keys", LinesView).relayout()

    def pressed(self, event: events.Key) -> None:
        """One of the offered keys, or one that scrolls."""
        body = self.query_one("#body", LinesView)
        steps = {"up": -1, "down": 1, "page_up": -5, "page_down": 5}
        action = KEYS.does(event)
        if action in steps:
            body.scroll_to(y=body.scroll_offset.y + steps[action], animate=False)
        elif action:
            self.post_message(self.Picked("demo" if action == "demo" else "retry"))

    def escape(self) -> None:
        """Look around without one."""
        self.post_message(self.Picked("go on"))
