"""The way of a reply's text: clean it, take thinking out, hold markup of calls and signals back, hand the rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui_agent.domain import ToolSpec
from tui_agent.protocols.parser import Parsed, Protocol
from tui_agent.protocols.streaming import TextStream
from tui_agent.protocols.thinking import Kind, ThinkSplitter
from tui_agent.text import Cleaner

LINES = 50
"""How often the same line may follow itself (R10.3)."""
STRETCH = 3_000
"""Characters that are one phrase of several words over and over: no text is so."""
STRETCH_WORD = 40_000
"""The same for a single word or sign: tables, rulers and test texts have many of them."""
PHRASE = 300
"""Characters of the longest phrase that is looked for."""
OVERLAP = 240
"""Characters at the beginning of a continuation that may repeat the end of what stood before."""
OVERLAP_LEAST = 8
"""Characters that are an overlap and no chance."""


class TextPipe:
    """Takes the text of one reply in pieces; `show` and `think` get what may be seen of it, in order."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        protocol: Protocol,
        *,
        show: Callable[[str], None],
        think: Callable[[str], None],
    ) -> None:
        self._cleaner = Cleaner()
        self._splitter = ThinkSplitter(marks=True)
        self._stream = TextStream(tools, protocol=protocol, attempts=bool(tools))
        self._show = show
        self._think = think
        self._joint: str | None = None
        self._raw: list[str] = []
        self.size = 0
        """Characters that came."""

    @property
    def raw(self) -> str:
        """All that came but for its thoughts and made-up results, clean, with its markup."""
        return "".join(self._raw)

    @property
    def over(self) -> bool:
        """The model has begun to write in the name of a tool or the user: nothing that still comes counts."""
        return self._splitter.over

    def feed(self, text: str) -> None:
        """The next piece."""
        if self._joint is not None:
            self._joint += text
            if len(self._joint) < OVERLAP:
                return
            text = self._joined()
        self._pass(self._cleaner.feed(text))

    def join(self) -> None:
        """What comes now continues a reply that was cut off; an overlap with what stands is left out (W14)."""
        self._joint = ""

    def finish(self) -> Parsed:
        """Hand the rest on; returns what the whole holds."""
        if self._joint is not None:
            self._pass(self._cleaner.feed(self._joined()))
        self._pass(self._cleaner.flush())
        self._split(self._splitter.finish())
        rest, parsed = self._stream.finish()
        if rest:
            self._show(rest)
        return parsed

    def _joined(self) -> str:
        new, self._joint = self._joint or "", None
        before = self.raw[-OVERLAP:]
        sizes = range(min(len(new), len(before)), OVERLAP_LEAST - 1, -1)
        size = next((size for size in sizes if before.endswith(new[:size])), 0)
        return new[size:]

    def _pass(self, text: str) -> None:
        if not text:
            return
        self.size += len(text)
        self._split(self._splitter.feed(text))
        if shown := self._stream.feed(text):  # it leaves thoughts out by itself
            self._show(shown)

    def _split(self, parts: list[tuple[Kind, str]]) -> None:
        for kind, text in parts:
            if kind == "unopened":
                self._think(self.raw)
                self._raw.clear()
            elif kind == "thought":
                self._think(text)
            else:
                self._raw.append(text)


class Babble:
    """Notices a stream that says the same over and over (R10.3). Work per piece does not grow with the stream."""

    def __init__(self) -> None:
        self._line = ""
        self._last = ""
        self._count = 0
        self._tail = ""
        self._unseen = 0
        self._same = 0
        self.found = ""
        """What is repeated; empty while nothing is."""

    def feed(self, text: str) -> bool:
        """Look at the next piece; True once something was found."""
        if self.found:
            return True
        *lines, rest = text.split("\n")
        for line in lines:
            self._take((self._line + line).strip())
            self._line = ""
        self._line = (self._line + rest)[-STRETCH:]
        self._tail = (self._tail + text)[-STRETCH:]
        self._unseen += len(text)
        if self._unseen >= STRETCH // 10 and len(self._tail) == STRETCH:
            self._unseen = 0
            self._look()
        return bool(self.found)

    def _take(self, line: str) -> None:
        if not line:
            return
        self._count = self._count + 1 if line == self._last else 1
        self._last = line
        if self._count > LINES:
            self.found = line

    def _look(self) -> None:
        tail = self._tail
        at = tail.find(tail[: STRETCH - PHRASE], 1)
        if not (0 < at <= PHRASE and tail[at:] == tail[:-at]):
            self._same = 0
            return
        self._same += STRETCH // 10
        if len(tail[:at].split()) > 2 or self._same > STRETCH_WORD:
            self.found = tail[:at]


def trimmed(text: str, phrase: str) -> str:
    """A reply that ends in endless repetition, with the phrase in it once."""
    at = text.find(phrase)
    return text if at < 0 or not phrase else text[: at + len(phrase)].rstrip() + " […]"
