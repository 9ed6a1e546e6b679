"""The way of a reply's text in the files protocol: all but thoughts is shown, since no call is written in it."""

from __future__ import annotations

from collections.abc import Callable

from tui_agent.engine.pipe import TextPipe
from tui_agent.protocols.parser import Parsed
from tui_agent.protocols.thinking import Kind, ThinkSplitter


class PlainPipe(TextPipe):
    """Takes the text of one reply in pieces, as it is."""

    def __init__(self, *, show: Callable[[str], None], think: Callable[[str], None]) -> None:
        super().__init__((), "files", show=show, think=think)
        self._splitter = ThinkSplitter()  # files may hold any token

    def finish(self) -> Parsed:
        """Hand the rest on; returns the text."""
        if self._joint is not None:
            self._pass(self._cleaner.feed(self._joined()))
        self._pass(self._cleaner.flush())
        self._split(self._splitter.finish())
        return Parsed(text=self.raw)

    def _pass(self, text: str) -> None:
        self.size += len(text)
        if text:
            self._split(self._splitter.feed(text))

    def _split(self, parts: list[tuple[Kind, str]]) -> None:
        super()._split(parts)
        for kind, text in parts:
            if kind == "text":
                self._show(text)
