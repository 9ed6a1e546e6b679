"""Text objects of vi: a word, a quotation, what is in brackets, a paragraph."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from tui_agent.tui.vim.motions import BRACKETS, line_end, line_start, matching_bracket


class TextRange(NamedTuple):
    """A part of a text that an operator takes."""

    start: int
    stop: int
    """Offset behind the last character."""
    linewise: bool = False
    """It consists of whole lines, without the line feed of the last one."""


ObjectFunction: TypeAlias = Callable[[str, int, bool], TextRange | None]
"""Takes the text, an offset, and whether the object is taken with what surrounds it (`a` instead of `i`)."""


def _kind(character: str, *, spaced: bool) -> int:
    if character.isspace():
        return 0
    return 1 if spaced or character.isalnum() or character == "_" else 2


def _word(text: str, pos: int, around: bool, *, spaced: bool) -> TextRange | None:
    low, high = line_start(text, pos), line_end(text, pos)
    if low == high:
        return None
    pos = min(pos, high - 1)

    def run_end(at: int) -> int:
        kind = _kind(text[at], spaced=spaced)
        while at < high and _kind(text[at], spaced=spaced) == kind:
            at += 1
        return at

    def run_start(at: int) -> int:
        kind = _kind(text[at], spaced=spaced)
        while at > low and _kind(text[at - 1], spaced=spaced) == kind:
            at -= 1
        return at

    start, stop = run_start(pos), run_end(pos)
    if not around:
        return TextRange(start, stop)
    is_space = text[pos].isspace()
    if stop < high and (is_space or text[stop].isspace()):
        return TextRange(start, run_end(stop))
    if start > low and (is_space or text[start - 1].isspace()):
        return TextRange(run_start(start - 1), stop)
    return TextRange(start, stop)


def _quotation(text: str, pos: int, around: bool, *, quote: str) -> TextRange | None:
    low, high = line_start(text, pos), line_end(text, pos)
    quotes = [at for at in range(low, high) if text[at] == quote and text[at - 1 : at] != "\\"]
    pairs = list(pairwise(quotes))[::2]
    pair = next((pair for pair in pairs if pos <= pair[1]), None)
    if pair is None:
        return None
    start, stop = pair
    if not around:
        return TextRange(start + 1, stop)
    stop += 1
    while stop < high and text[stop] in " \t":
        stop += 1
    return TextRange(start, stop)


def _in_brackets(text: str, pos: int, around: bool, *, opening: str) -> TextRange | None:
    closing, depth = BRACKETS[opening], 0
    for at in range(min(pos, len(text) - 1), -1, -1):
        if text[at] == closing and at != pos:
            depth += 1
        elif text[at] == opening:
            if depth == 0:
                partner = matching_bracket(text, at)
                return None if partner < 0 else TextRange(at + (not around), partner + around)
            depth -= 1
    return None


def _paragraph(text: str, pos: int, around: bool) -> TextRange | None:
    is_blank = not text[line_start(text, pos) : line_end(text, pos)].strip()

    def grow(stop: int, blank: bool) -> int:
        while stop < len(text) and (not text[stop + 1 : line_end(text, stop + 1)].strip()) == blank:
            stop = line_end(text, stop + 1)
        return stop

    start = line_start(text, pos)
    while start and (not text[line_start(text, start - 1) : start - 1].strip()) == is_blank:
        start = line_start(text, start - 1)
    stop = grow(line_end(text, pos), is_blank)
    return TextRange(start, grow(stop, not is_blank) if around else stop, linewise=True)


def _quoted(quote: str) -> ObjectFunction:
    return lambda text, pos, around: _quotation(text, pos, around, quote=quote)


def _bracketed(opening: str) -> ObjectFunction:
    return lambda text, pos, around: _in_brackets(text, pos, around, opening=opening)


OBJECTS: Final[dict[str, ObjectFunction]] = {
    "w": lambda text, pos, around: _word(text, pos, around, spaced=False),
    "W": lambda text, pos, around: _word(text, pos, around, spaced=True),
    "p": _paragraph,
    **{quote: _quoted(quote) for quote in "\"'`"},
    **{sign: _bracketed(pair[0]) for pair in BRACKETS.items() for sign in pair},
    "b": _bracketed("("),
    "B": _bracketed("{"),
}
"""Key after `i` or `a` → the object at an offset; None if there is none."""
