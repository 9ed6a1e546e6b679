"""Search in the whole history: counted in slices between turns of the event loop, placed where blocks are shown."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Protocol

from widgets.copying import Joined

SLICE = 0.004
"""Seconds of counting after which the event loop gets a turn."""


class Searchable(Protocol):
    """A block as far as the search needs it."""

    def plain(self) -> str:
        """Its own text."""
        ...


def lower(text: str) -> str:
    """`text` in lower case with every character in its place."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


class Finder:
    """One search. A query without capital letters finds both."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.counts: list[int] = []
        """Matches in each block that was counted, from the first one on."""
        self.total = 0
        self.done = False
        self.current: tuple[int, int] | None = None
        """Block of the match the user is at, and which of its matches it is."""
        self._folded = query == query.lower()
        self._spans: dict[int, tuple[Joined, list[tuple[int, int]]]] = {}

    def _fold(self, text: str) -> str:
        return lower(text) if self._folded else text

    def count(self, block: int, matches: int) -> None:
        """So many matches are in a block."""
        if block < len(self.counts):
            self.total += matches - self.counts[block]
            self.counts[block] = matches

    def recount(self, block: int, source: Searchable) -> None:
        """A block changed."""
        if block < len(self.counts):
            self.count(block, self._fold(source.plain()).count(self.query))
            self._spans.pop(block, None)

    async def scan(self, blocks: Sequence[Searchable]) -> None:
        """Count the matches of all blocks."""
        began = perf_counter()
        while self.query and len(self.counts) < len(blocks):
            self.counts.append(0)
            self.recount(len(self.counts) - 1, blocks[len(self.counts) - 1])
            if perf_counter() - began > SLICE:
                await sleep(0)
                began = perf_counter()
        await sleep(0)
        self.done = True

    def spans(self, block: int, joined: Joined) -> list[tuple[int, int]]:
        """Where the matches stand in what a block shows."""
        known = self._spans.get(block)
        if known is None or known[0] is not joined:
            known = self._spans[block] = (joined, list(self._found(joined.text)))
            if len(self._spans) > 200:
                del self._spans[next(iter(self._spans))]
        return known[1]

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        text, size = self._fold(text), len(self.query)
        place = text.find(self.query) if size else -1
        while place >= 0:
            yield place, place + size
            place = text.find(self.query, place + size)

    def beyond(self, block: int, direction: int) -> int | None:
        """The next block with matches in a direction, around the end if need be; the same one last."""
        size = len(self.counts)
        return next(
            (place for step in range(1, size + 1) if self.counts[place := (block + direction * step) % size]),
            None,
        )

    @property
    def number(self) -> int:
        """Which match of all the user is at, from 1; 0 before the first."""
        if self.current is None:
            return 0
        block, which = self.current
        return sum(self.counts[:block]) + min(which + 1, self.counts[block])
