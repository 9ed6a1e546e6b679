"""What lines say: their text without gutters and without the breaks that the screen made."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from widgets.ink import Line, cut


class Joined:
    """The text of a block's lines as the source has it, and where each line stands in it.

    A place in this text stays the same when the lines are broken for another width.
    """

    __slots__ = ("_contents", "_lines", "_starts", "text")

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._contents = [one.content for one in lines]
        self._starts: list[int] = []
        parts: list[str] = []
        size = 0
        for one, content in zip(lines, self._contents, strict=True):
            self._starts.append(size)
            size += len(content) + len(one.glue)
            parts += (content, one.glue)
        self.text = "".join(parts)

    def place_at(self, line: int, cell: int, *, after: bool = False) -> int:
        """The place in the text of what stands at a cell; with `after`, the place behind it."""
        if not self._lines:
            return 0
        if line >= len(self._lines):
            return len(self.text)
        content = self._contents[line]
        cells = cell - self._lines[line].gutter
        if cells < 0:
            return self._starts[line]
        count = len(cut(content, cells)[0])
        return self._starts[line] + min(len(content), count + (1 if after else 0))

    def line_of(self, place: int) -> int:
        """The line on which a place in the text stands."""
        return max(0, bisect_right(self._starts, place) - 1)

    def cells(self, line: int, begin: int, end: int) -> tuple[int, int] | None:
        """The cells of a line that show the text from `begin` to `end`; None when there are none."""
        start, content = self._starts[line], self._contents[line]
        low, high = max(begin - start, 0), min(end - start, len(content))
        if low >= high:
            return None
        left = self._lines[line].gutter + cell_len(content[:low])
        return left, left + cell_len(content[low:high])

    def copy(self, begin: int, end: int, *, alone: bool = True) -> str:
        """What a copy of the text from `begin` to `end` holds.

        Where all lines of a piece of source are within, it is the source itself. `alone` says that nothing of
        another block is copied with it.
        """
        parts: list[str] = []
        glue = ""
        for first, last in self._pieces():
            start, stop = self._starts[first], self._starts[last] + len(self._contents[last])
            if stop < begin or start >= end:
                continue
            source = self._lines[first].source
            whole = begin <= start + self._blanks(first) and end >= start + len(
                self.text[start:stop].rstrip()
            )
            if source is not None and whole:
                only = alone and begin >= start - 2 and end <= stop + 2
                parts += (glue, source.bare if only else source.text)
            else:
                parts += (glue, self._shown(first, last, begin, end))
            glue = self._lines[last].glue
        return "".join(parts)

    def _blanks(self, line: int) -> int:
        content = self._contents[line]
        return len(content) - len(content.lstrip())

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """First and last line of each run of lines with one source; lines without one stand alone."""
        first = 0
        for number in range(1, len(self._lines) + 1):
            source = self._lines[first].source
            if number == len(self._lines) or source is None or self._lines[number].source is not source:
                yield first, number - 1
                first = number

    def _shown(self, first: int, last: int, begin: int, end: int) -> str:
        parts: list[str] = []
        fresh = first == 0 or self._lines[first - 1].glue == "\n"
        for number in range(first, last + 1):
            one, start, content = self._lines[number], self._starts[number], self._contents[number]
            low, high = max(begin - start, 0), min(end - start, len(content))
            if low <= high and end > start:
                if fresh and low == 0:
                    parts.append(one.prefix)
                piece = content[low:high]
                wraps = one.glue != "\n"
                parts.append(piece if wraps else piece.rstrip())
                if number < last and end > start + len(content):
                    parts.append(one.glue)
            fresh = one.glue == "\n"
        return "".join(parts)
