"""The conversation as the loop sends it, for requests beside it, so that all begin with the same bytes (E7)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tui_agent.domain import Fault, Message, ToolSpec, Usage
from tui_agent.engine.asking import Desk
from tui_agent.engine.ladder import Ladder
from tui_agent.engine.window import Ready, Window


class Opened(msgspec.Struct, frozen=True):
    """A request that begins with the conversation."""

    ready: Ready
    tools: tuple[ToolSpec, ...]
    format: Literal["json"] | dict[str, Any] | None


class Conversation:
    """The conversation of one run's loop: its messages in the form of its protocol, with the tools of its mode."""

    def __init__(
        self, desk: Desk, window: Window, ladder: Ladder, tools: tuple[ToolSpec, ...], run: str
    ) -> None:
        self._desk = desk
        self._window = window
        self._ladder = ladder
        self._tools = tools
        self._run = run

    def followed_by(
        self, extra: tuple[Message, ...], schema: dict[str, Any] | None, most: int
    ) -> Opened | None:
        """The conversation with `extra` at its end, for a reply of `most` tokens; None where it does not fit, and where
        the model is not asked in its conversation (the files strategy). Tools and format never go together (O-21)."""
        if self._ladder.protocol == "files":
            return None
        tools = self._ladder.dress(self._tools).tools

        def context() -> tuple[Message, ...]:
            return self._ladder.messages(self._desk.context(), self._tools)

        ready = self._window.beside(context, tools, extra, most, run=self._run)
        return None if ready is None else Opened(ready, tools, None if tools else schema)

    def heard(self, usage: Usage) -> None:
        """Take in what the server counted of the last request."""
        self._window.counted(usage, run=self._run)

    def refused(self, fault: Fault) -> bool:
        """Whether the form of the request was refused and another one is taken from now on: ask again."""
        return self._ladder.refused(fault)
