"""Heights piled up: which block stands at which line. Pure arithmetic; the cost of a change at the end is constant."""

from __future__ import annotations

from bisect import bisect_right


class Stack:
    """Blocks 0, 1, 2 … with their heights, and the line each begins at."""

    def __init__(self) -> None:
        self.heights: list[int] = []
        self._tops: list[int] = [0]
        """`_tops[i]` is where block i begins; only the first `len(_tops)` are known."""

    def __len__(self) -> int:
        return len(self.heights)

    def append(self, height: int) -> None:
        """A block at the end."""
        self.heights.append(height)

    def set(self, place: int, height: int) -> int:
        """Change a height; returns by how much it grew."""
        grown = height - self.heights[place]
        if grown:
            self.heights[place] = height
            del self._tops[place + 1 :]
        return grown

    def top(self, place: int) -> int:
        """The line where block `place` begins; `place` may be `len(self)`."""
        tops, heights = self._tops, self.heights
        now = tops[-1]
        for number in range(len(tops) - 1, place):
            now += heights[number]
            tops.append(now)
        return tops[place]

    @property
    def total(self) -> int:
        """All lines."""
        return self.top(len(self.heights))

    def find(self, line: int) -> tuple[int, int]:
        """The block that covers `line`, and how far into it; `(len(self), 0)` behind the end."""
        if line >= self.total:
            return len(self.heights), 0
        place = bisect_right(self._tops, max(0, line), 0, len(self.heights) + 1) - 1
        return place, max(0, line) - self._tops[place]

    def clear(self) -> None:
        """No blocks."""
        self.heights, self._tops = [], [0]
