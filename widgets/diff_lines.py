"""Painting of diff lines, with changed words marked (A3). Long or completely different lines are not compared."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

import msgspec
from rich.style import Style

from tui_agent.common.domain import Diff
from tui_agent.text import make_visible
from widgets.highlight import highlight
from widgets.styled_text import Line, Span, TextStyles, chop, indent, overlay, side_by_side, width_of

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""(start, end) offsets in a line."""

MAX_LINE_CHARACTERS = 2_000
"""Longest line that is compared by words."""
MAX_WORD_PAIRS = 20_000
"""Limit of old words × new words for a comparison."""
MIN_COMMON_SHARE = 0.35
"""Share of common characters below which no words are marked."""
NO_CHANGES: tuple[Ranges, Ranges] = ((), ())
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def changed_words(old: str, new: str) -> tuple[Ranges, Ranges]:
    """Return the ranges only in `old` and only in `new`; empty if the lines are too long or too different."""
    if old == new or len(old) > MAX_LINE_CHARACTERS or len(new) > MAX_LINE_CHARACTERS:
        return NO_CHANGES
    left, right = _WORD.findall(old), _WORD.findall(new)
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    old_words, new_words = left[head : len(left) - tail], right[head : len(right) - tail]
    if len(old_words) * len(new_words) > MAX_WORD_PAIRS:
        return NO_CHANGES
    removed_ranges: list[tuple[int, int]] = []
    added_ranges: list[tuple[int, int]] = []
    if not old_words or not new_words:
        removed_ranges = [(0, len(old_words))] if old_words else []
        added_ranges = [(0, len(new_words))] if new_words else []
    else:
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes():
            if tag != "equal":
                removed_ranges += [(a, b)] if b > a else []
                added_ranges += [(c, d)] if d > c else []
    marked = _marked_ranges(left, head, removed_ranges), _marked_ranges(right, head, added_ranges)
    common = len(old.strip()) - sum(stop - start for start, stop in marked[0])
    if common < MIN_COMMON_SHARE * min(len(old.strip()), len(new.strip())):
        return NO_CHANGES
    return marked


def _marked_ranges(words: Sequence[str], head: int, spans: Sequence[tuple[int, int]]) -> Ranges:
    """Convert ranges of words to ranges of characters, merging ranges separated only by whitespace."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    ranges: list[tuple[int, int]] = []
    for first, stop in spans:
        begin, end = starts[head + first], starts[head + stop]
        between = "".join(words[bisect_left(starts, ranges[-1][1]) : head + first]) if ranges else "x"
        if ranges and not between.strip():
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((begin, end))
    return tuple(ranges)


def changed_line_pairs(signs: Sequence[str]) -> dict[int, int]:
    """Map indexes of removed lines to the added lines replacing them, and vice versa, given the signs of all lines."""
    pairs = [(left, right) for left, right in row_pairs(signs) if left is not None and right is not None]
    changed = [pair for pair in pairs if signs[pair[0]] == "-"]
    return dict([*changed, *((right, left) for left, right in changed)])


class WordMarks:
    """Changed words of the lines of a diff, computed when a line is first painted."""

    def __init__(self, texts: Sequence[str], signs: Sequence[str]) -> None:
        self._texts = texts
        self._line_pairs: Mapping[int, int] = changed_line_pairs(signs)
        self._signs = signs
        self._cached: dict[int, Ranges] = {}

    def of(self, index: int) -> Ranges:
        """Return the ranges to mark in a line."""
        other = self._line_pairs.get(index)
        if other is None:
            return ()
        if index not in self._cached:
            old, new = (index, other) if self._signs[index] == "-" else (other, index)
            self._cached[old], self._cached[new] = changed_words(self._texts[old], self._texts[new])
        return self._cached[index]


MAX_SIDE_CHARACTERS = 2_000_000
"""Largest side of a hunk that is highlighted."""

SIGNS = {"+": "+", "-": "−", " ": " ", "\\": " "}


class DiffRow(msgspec.Struct, frozen=True):
    """A line of a diff."""

    sign: str
    """`+`, `-`, space, `\\` for a remark about the previous line, `@` for a hunk header, `!` for a note."""
    text: str
    old: int | None = None
    new: int | None = None
    hunk: int = -1
    """Index of the hunk; -1 for a note."""


def diff_rows(diff: Diff, *, heads: bool = False) -> Iterator[DiffRow]:
    """Yield the note and lines of a diff. With `heads`, every hunk has a header, even one starting at line 1."""
    if diff.note:
        yield DiffRow("!", diff.note)
    for number, hunk in enumerate(diff.hunks):
        if heads or number or hunk.old_start > 1 or hunk.new_start > 1:
            counts = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
            yield DiffRow("@", counts, hunk=number)
        old, new = hunk.old_start, hunk.new_start
        for raw in hunk.lines:
            sign, text = raw[:1] or " ", raw[1:].rstrip("\n")
            yield DiffRow(sign, text, old if sign in " -" else None, new if sign in " +" else None, number)
            old += sign in " -"
            new += sign in " +"
    if not diff.hunks and not diff.note:
        yield DiffRow("!", "The file stays empty." if diff.kind == "create" else "No line changes.")


def number_width(diff: Diff) -> int:
    """Return the width of the longest line number."""
    last = max((max(h.old_start + h.old_count, h.new_start + h.new_count) for h in diff.hunks), default=1)
    return len(str(last))


def visible_text(text: str) -> str:
    """Return the text of a diff line as it is painted."""
    if text.isascii() and text.isprintable() and " " * 20 not in text:
        return text
    return make_visible(text.expandtabs(4), lookalikes=False)


def colored_rows(rows: Sequence[DiffRow], language: str, styles: TextStyles) -> dict[int, list[Span]]:
    """Return highlighted spans by row index. The old and new side of a hunk are highlighted separately."""
    colors: dict[int, list[Span]] = {}
    hunk: list[int] = []
    for index, row in enumerate([*rows, DiffRow("@", "")]):
        if row.sign in " +-":
            hunk.append(index)
        elif row.sign == "@":
            for side in (" -", " +"):
                indexes = [row_index for row_index in hunk if rows[row_index].sign in side]
                painted = highlight(
                    "\n".join(visible_text(rows[row_index].text) for row_index in indexes),
                    language,
                    styles,
                    limit=MAX_SIDE_CHARACTERS,
                )
                if len(painted) == len(indexes):
                    colors.update(zip(indexes, painted, strict=True))
            hunk = []
    return colors


class RowStyle(NamedTuple):
    """How a line is painted, in addition to its sign."""

    colors: Sequence[Span] | None = None
    """Highlighted text, from `colored_rows`."""
    words: Ranges = ()
    """Ranges of changed words in the result of `visible_text`."""
    left_out: bool = False
    """Whether the hunk is excluded."""


PLAIN = RowStyle()


def paint_row(row: DiffRow, width: int, number: int, styles: TextStyles, row_style: RowStyle = PLAIN) -> list[Line]:
    """Paint a row; `number` is the width of the line numbers."""
    if row.sign in "@!":
        style = styles.muted if row.sign == "@" else styles.warn
        return chop([(visible_text(row.text), style)], width)
    gutter = f"{row.old or '':>{number}} {row.new or '':>{number}} "
    return paint_side(row, gutter, width, styles, row_style)


def paint_side(row: DiffRow, gutter: str, width: int, styles: TextStyles, row_style: RowStyle) -> list[Line]:
    """Paint a row with a gutter followed by the sign."""
    style, fill = (styles.muted, None) if row_style.left_out else _sign_styles(row.sign, styles)
    heads = [(gutter, _on_fill(styles.muted, fill)), (SIGNS.get(row.sign, " ") + " ", style)]
    rest = [(" " * (width_of(heads)), style)]
    lines = chop(_spans(row, style, styles, row_style), width - width_of(heads), fill)
    return indent(lines, heads, rest)


def _spans(row: DiffRow, style: Style, styles: TextStyles, row_style: RowStyle) -> list[Span]:
    text = visible_text(row.text)
    if row_style.left_out or row.sign not in " +-":
        return [(text, style)]
    spans: list[Span] = [(text, style)]
    if row_style.colors:
        spans = [(part, _token_style(token, style, styles)) for part, token in row_style.colors]
    if not row_style.words or sum(len(part) for part, _style in spans) != len(text):
        return spans
    word = styles.added_word if row.sign == "+" else styles.removed_word
    word_style = Style(color=word.color, bgcolor=word.bgcolor, bold=word.bold, underline=word.underline)
    return overlay(spans, row_style.words, word_style)


def row_height(row: DiffRow, width: int, number: int) -> int:
    """Return the number of lines of `paint_row`, if possible without painting."""
    return line_count(row.text, width if row.sign in "@!" else width - 2 * number - 4)


def line_count(text: str, room: int) -> int:
    """Return the number of lines of a text wrapped to `room` cells."""
    text = visible_text(text)
    if text.isascii():
        return max(1, -(-len(text) // max(1, room)))
    return len(chop([(text, Style.null())], room))


def _sign_styles(sign: str, styles: TextStyles) -> tuple[Style, Style | None]:
    if sign == "+":
        return styles.added, styles.added
    if sign == "-":
        return styles.removed, styles.removed
    return (styles.muted, None) if sign == "\\" else (styles.text, None)


def _token_style(token: Style, style: Style, styles: TextStyles) -> Style:
    """Return the color of a token on the background of its line; tokens without a role keep the line's color."""
    if token is styles.code:
        return style
    return style + Style(color=token.color, italic=token.italic)


def _on_fill(style: Style, fill: Style | None) -> Style:
    return style if fill is None else style + Style(bgcolor=fill.bgcolor)


MIN_SPLIT_COLUMNS = 92
"""Minimum width for two sides (a screen of about 100 columns)."""
SEPARATOR = " │ "


class Pair(NamedTuple):
    """Indexes of two rows side by side; a row that spans both sides is `left`, without `right`."""

    left: int | None
    right: int | None


def row_pairs(signs: Sequence[str]) -> list[Pair]:
    """Pair rows by their signs: unchanged lines with themselves, removed lines with the added lines after them."""
    pairs: list[Pair] = []
    removed: list[int] = []
    added: list[int] = []

    def flush() -> None:
        pairs.extend(Pair(left, right) for left, right in zip_longest(removed, added))
        removed.clear()
        added.clear()

    previous = " "
    for index, sign in enumerate(signs):
        if sign == "\\" and previous in "-+":
            (removed if previous == "-" else added).append(index)
            continue
        if sign == "+":
            added.append(index)
        elif sign == "-":
            if added:
                flush()
            removed.append(index)
        else:
            flush()
            pairs.append(Pair(index, None if sign in "@!\\" else index))
        previous = sign
    flush()
    return pairs


def side_widths(width: int) -> tuple[int, int]:
    """Return the widths of the left and right side."""
    room = width - len(SEPARATOR)
    return room // 2, room - room // 2


def pair_height(pair: Pair, rows: Sequence[DiffRow], width: int, number: int) -> int:
    """Return the number of lines of `paint_pair`."""
    if pair.left is not None and rows[pair.left].sign in "@!":
        return line_count(rows[pair.left].text, width) if rows[pair.left].sign == "!" else 1
    left, right = side_widths(width)
    heights = [
        line_count(rows[index].text, room - number - 3)
        for index, room in zip(pair, (left, right), strict=True)
        if index is not None
    ]
    return max(heights)


def paint_pair(
    pair: Pair,
    rows: Sequence[DiffRow],
    width: int,
    number: int,
    styles: TextStyles,
    row_style: Callable[[int], RowStyle],
) -> list[Line]:
    """Paint a pair of rows; `row_style` returns the style of a row index."""
    if pair.left is not None and pair.right is None and rows[pair.left].sign in "@!":
        row = rows[pair.left]
        return chop([(visible_text(row.text), styles.muted if row.sign == "@" else styles.warn)], width)
    sides: list[list[Line]] = []
    for index, room, side in zip(pair, side_widths(width), ("old", "new"), strict=True):
        if index is None:
            sides.append([])
            continue
        row = rows[index]
        line_number = row.old if side == "old" else row.new
        sides.append(paint_side(row, f"{line_number or '':>{number}} ", room, styles, row_style(index)))
    return side_by_side(sides, side_widths(width)[:1], [(SEPARATOR, styles.faint)], styles)
