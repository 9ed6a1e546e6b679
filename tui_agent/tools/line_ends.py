"""New text gets the line ends of the place that it goes to (R5.1)."""

from __future__ import annotations

import re

from tui_agent.tools.views import LINE_END

_OURS = re.compile(r"\r\n|\n")
"""What counts as a line end in text that the model writes; a lone carriage return is a character like any other."""


class LineEnds:
    """The line ends of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        crlf = text.count("\r\n")
        kinds = {"\r\n": crlf, "\n": text.count("\n") - crlf, "\r": text.count("\r") - crlf}
        self.kinds = [kind for kind, count in kinds.items() if count]
        """Which of CRLF, LF and CR occur."""
        self.mixed = len(self.kinds) > 1
        self._cached: tuple[str, str] | None = None

    def fit(self, old: str, new: str, start: int, end: int, *, exact: bool) -> str:
        """`new` with the line ends that belong at `start:end`, where `old` was found.

        In a text with one kind of line end that is it. In a mixed one, lines that stay keep their own, and new ones
        take that of the line in whose place they stand.
        """
        if not self.kinds or ("\n" not in new and "\r" not in new):
            return new
        if not self.mixed:
            if self._cached is None or self._cached[0] != new:
                self._cached = new, _OURS.sub(lambda _: self.kinds[0], new)
            return self._cached[1]
        return self._aligned(old, new, start, end, exact)

    def _aligned(self, old: str, new: str, start: int, end: int, exact: bool) -> str:
        pattern = _OURS if exact and "\n" in self._text else LINE_END
        region = self._text[start:end]
        ends = pattern.findall(region)
        before, after = pattern.split(old), _OURS.split(new)
        if len(before) != len(ends) + 1:
            before = pattern.split(region)
        count = len(after) - 1
        top = _common(before[:-1], after[:-1])
        # The last piece has no end of its own, so one fewer than the pieces that agree.
        bottom = max(0, _common(before[::-1], after[::-1]) - 1)
        bottom = min(bottom, len(ends) - top, count - top)
        middle = ends[top : len(ends) - bottom]
        if not middle:
            middle = [ends[top - 1] if top else ends[0] if ends else self._around(start, end, pattern)]
        fresh = count - top - bottom
        chosen = ends[:top] + (middle + [middle[-1]] * fresh)[:fresh] + ends[len(ends) - bottom :]
        return "".join(line + own for line, own in zip(after[:-1], chosen, strict=True)) + after[-1]

    def _around(self, start: int, end: int, pattern: re.Pattern[str]) -> str:
        """The end of the line that `end` is in, or else of the one before."""
        found = pattern.search(self._text, end)
        if found is not None:
            return found[0]
        before = pattern.findall(self._text, 0, start)
        return before[-1] if before else "\n"


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
