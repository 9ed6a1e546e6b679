"""Motions of vi in a text: where they go from an offset, in time linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

WORD: Final = re.compile(r"\w+|[^\w\s]+")
SPACED_WORD: Final = re.compile(r"\S+")
BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Motion(NamedTuple):
    """Target of a motion, and what an operator does with it."""

    to: int
    inclusive: bool = False
    """An operator includes the character at the target."""
    linewise: bool = False
    """An operator takes whole lines."""


MotionFunction: TypeAlias = Callable[[str, int, int], Motion]
"""Takes the text, an offset and how often to move; the count is 0 if the user gave none."""


def line_start(text: str, pos: int) -> int:
    """Return where the line at `pos` begins."""
    return text.rfind("\n", 0, pos) + 1


def line_end(text: str, pos: int) -> int:
    """Return where the line at `pos` ends, before its line feed."""
    end = text.find("\n", pos)
    return len(text) if end < 0 else end


def first_nonblank(text: str, pos: int) -> int:
    """Return the first character in the line at `pos` that is no space."""
    start = line_start(text, pos)
    line = text[start : line_end(text, pos)]
    return start + len(line) - len(line.lstrip(" \t"))


def vertical(text: str, pos: int, lines: int) -> int:
    """Return the same column `lines` further down, or up if negative, as far as there are lines."""
    column = pos - line_start(text, pos)
    for _ in range(abs(lines)):
        if lines > 0:
            end = line_end(text, pos)
            if end == len(text):
                break
            pos = end + 1
        else:
            start = line_start(text, pos)
            if start == 0:
                break
            pos = line_start(text, start - 1)
    start = line_start(text, pos)
    return min(start + column, line_end(text, start))


def operator_word_end(text: str, start: int, stop: int) -> int:
    """Shorten the range of an operator with `w` to the last word before a line break, so that lines are not joined."""
    words = text[start:stop].rstrip()
    if "\n" not in text[start + len(words) : stop]:
        return stop
    return start + len(words) if words else line_end(text, start)


def _nth(targets: list[int], count: int, last: int) -> int:
    """Return the target number `count`; if there are fewer, `last`."""
    return targets[max(count, 1) - 1] if len(targets) >= max(count, 1) else last


def _word_motions(pattern: re.Pattern[str]) -> tuple[MotionFunction, MotionFunction, MotionFunction]:
    """Return the motions to the next word, to the previous one, and to the end of one."""

    def following(text: str, pos: int, count: int) -> Motion:
        return Motion(_nth([word.start() for word in pattern.finditer(text) if word.start() > pos], count, len(text)))

    def previous(text: str, pos: int, count: int) -> Motion:
        return Motion(_nth([word.start() for word in pattern.finditer(text) if word.start() < pos][::-1], count, 0))

    def end(text: str, pos: int, count: int) -> Motion:
        ends = [word.end() - 1 for word in pattern.finditer(text) if word.end() - 1 > pos]
        return Motion(_nth(ends, count, max(0, len(text) - 1)), inclusive=True)

    return following, previous, end


def _paragraph(text: str, pos: int, count: int, *, forward: bool) -> Motion:
    """Go to the empty line after or before the paragraph."""
    empty = [match.start() + 1 for match in re.finditer(r"\n(?=\n|\Z)", text)]
    if forward:
        return Motion(_nth([at for at in empty if at > pos], count, len(text)))
    return Motion(_nth([at for at in reversed(empty) if at < pos], count, 0))


def _to_line(text: str, pos: int, count: int, *, otherwise: int) -> Motion:
    """Go to line `count`, or to the offset `otherwise` without a count."""
    target = vertical(text, 0, count - 1) if count else otherwise
    return Motion(first_nonblank(text, target), linewise=True)


def matching_bracket(text: str, pos: int) -> int:
    """Return the partner of the bracket at `pos`; -1 if there is none."""
    bracket = text[pos : pos + 1]
    closing = BRACKETS.get(bracket, "")
    opening = next((key for key, value in BRACKETS.items() if value == bracket), "")
    positions = range(pos, len(text)) if closing else range(pos, -1, -1) if opening else range(0)
    depth = 0
    for at in positions:
        depth += (text[at] == bracket) - (text[at] == (closing or opening))
        if depth == 0:
            return at
    return -1


def _percent(text: str, pos: int, _count: int) -> Motion:
    end = line_end(text, pos)
    start = next((at for at in range(pos, end) if text[at] in "()[]{}"), pos)
    partner = matching_bracket(text, start) if text[start : start + 1] in set("()[]{}") else -1
    return Motion(pos, inclusive=False) if partner < 0 else Motion(partner, inclusive=True)


def find_character(text: str, pos: int, command: str, count: int, *, again: bool = False) -> Motion | None:
    """Return the target of `f`, `F`, `t` or `T` with its character; None if the line does not have it that often.

    `again`: the motion is repeated, so `t` and `T` don't find the character that they stand before.
    """
    kind, character = command[0], command[1]
    start, end = line_start(text, pos), line_end(text, pos)
    skip = 1 if again and kind in "tT" else 0
    if kind in "ft":
        found = [at for at in range(min(pos + 1 + skip, end), end) if text[at] == character]
    else:
        found = [at for at in range(pos - 1 - skip, start - 1, -1) if text[at] == character]
    if len(found) < max(count, 1):
        return None
    at = found[max(count, 1) - 1] + {"t": -1, "T": 1}.get(kind, 0)
    return Motion(at, inclusive=kind in "ft")


_next_word, _previous_word, _word_end = _word_motions(WORD)
_next_spaced, _previous_spaced, _spaced_end = _word_motions(SPACED_WORD)

MOTIONS: Final[dict[str, MotionFunction]] = {
    "h": lambda text, pos, n: Motion(max(line_start(text, pos), pos - max(n, 1))),
    "l": lambda text, pos, n: Motion(min(line_end(text, pos), pos + max(n, 1))),
    " ": lambda text, pos, n: Motion(min(len(text), pos + max(n, 1))),
    "j": lambda text, pos, n: Motion(vertical(text, pos, max(n, 1)), linewise=True),
    "k": lambda text, pos, n: Motion(vertical(text, pos, -max(n, 1)), linewise=True),
    "+": lambda text, pos, n: Motion(first_nonblank(text, vertical(text, pos, max(n, 1))), linewise=True),
    "-": lambda text, pos, n: Motion(first_nonblank(text, vertical(text, pos, -max(n, 1))), linewise=True),
    "_": lambda text, pos, n: Motion(first_nonblank(text, vertical(text, pos, max(n, 1) - 1)), linewise=True),
    "w": _next_word,
    "b": _previous_word,
    "e": _word_end,
    "W": _next_spaced,
    "B": _previous_spaced,
    "E": _spaced_end,
    "0": lambda text, pos, n: Motion(line_start(text, pos)),
    "^": lambda text, pos, n: Motion(first_nonblank(text, pos)),
    "$": lambda text, pos, n: Motion(line_end(text, vertical(text, line_start(text, pos), max(n, 1) - 1))),
    "|": lambda text, pos, n: Motion(min(line_end(text, pos), line_start(text, pos) + max(n, 1) - 1)),
    "{": lambda text, pos, n: _paragraph(text, pos, n, forward=False),
    "}": lambda text, pos, n: _paragraph(text, pos, n, forward=True),
    "%": _percent,
    "gg": lambda text, pos, n: _to_line(text, pos, n, otherwise=0),
    "G": lambda text, pos, n: _to_line(text, pos, n, otherwise=len(text)),
}
"""Keys of a motion → its target from an offset."""
