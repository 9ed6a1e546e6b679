"""Which words of a changed line are other ones (A3). Bounded: long or wholly different lines are not compared."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from rich.style import Style

from tui_agent.common.domain import Diff
from tui_agent.text import make_visible
from widgets.highlight import highlight
from widgets.styled_text import Line, Span, TextStyles, beside, chop, indent, overlay, width_of

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Places in a line, each from its first character to the one behind its last."""

LONGEST_LINE = 2_000
"""Characters of a line that is compared."""
MOST_PAIRS = 20_000
"""Pairs of words that are compared."""
ALIKE = 0.35
"""Share of the characters that two lines have in common, below which no word is worth marking."""
NO_CHANGES: tuple[Ranges, Ranges] = ((), ())
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def changed_words(old: str, new: str) -> tuple[Ranges, Ranges]:
    """What only `old` has and what only `new` has; nothing where the lines are too long or have little in common."""
    if old == new or len(old) > LONGEST_LINE or len(new) > LONGEST_LINE:
        return NO_CHANGES
    left, right = _WORD.findall(old), _WORD.findall(new)
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    ours, theirs = left[head : len(left) - tail], right[head : len(right) - tail]
    if len(ours) * len(theirs) > MOST_PAIRS:
        return NO_CHANGES
    gone: list[tuple[int, int]] = []
    come: list[tuple[int, int]] = []
    if not ours or not theirs:
        gone, come = [(0, len(ours))] if ours else [], [(0, len(theirs))] if theirs else []
    else:
        for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if tag != "equal":
                gone += [(a, b)] if b > a else []
                come += [(c, d)] if d > c else []
    marked = _marked_ranges(left, head, gone), _marked_ranges(right, head, come)
    same = len(old.strip()) - sum(stop - start for start, stop in marked[0])
    if same < ALIKE * min(len(old.strip()), len(new.strip())):
        return NO_CHANGES
    return marked


def _marked_ranges(words: Sequence[str], head: int, spans: Sequence[tuple[int, int]]) -> Ranges:
    """Ranges of words as ranges of characters; what only blanks part is one range."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    found: list[tuple[int, int]] = []
    for first, stop in spans:
        begin, end = starts[head + first], starts[head + stop]
        between = "".join(words[bisect_left(starts, found[-1][1]) : head + first]) if found else "x"
        if found and not between.strip():
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return tuple(found)


def partners(signs: Sequence[str]) -> dict[int, int]:
    """Places of removed lines → the added lines that stand in their place, and back, by the signs of all lines."""
    pairs = [(left, right) for left, right in row_pairs(signs) if left is not None and right is not None]
    changed = [pair for pair in pairs if signs[pair[0]] == "-"]
    return dict([*changed, *((right, left) for left, right in changed)])


class WordMarks:
    """Marks of the lines of one diff, worked out when a line is painted first."""

    def __init__(self, texts: Sequence[str], signs: Sequence[str]) -> None:
        self._texts = texts
        self._partners: Mapping[int, int] = partners(signs)
        self._signs = signs
        self._known: dict[int, Ranges] = {}

    def of(self, index: int) -> Ranges:
        """What to mark in the line at `index`."""
        other = self._partners.get(index)
        if other is None:
            return ()
        if index not in self._known:
            old, new = (index, other) if self._signs[index] == "-" else (other, index)
            self._known[old], self._known[new] = changed_words(self._texts[old], self._texts[new])
        return self._known[index]


LONGEST_SIDE = 2_000_000
"""Characters of a side of a hunk that are colored."""

SIGNS = {"+": "+", "-": "−", " ": " ", "\\": " "}


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line of a diff before it is painted."""

    sign: str
    """`+`, `-`, blank, `\\` for a remark about the line before, `@` for a hunk's head, `!` for a note."""
    text: str
    old: int | None = None
    new: int | None = None
    hunk: int = -1
    """The place of its hunk; -1 for a note."""


def diff_rows(diff: Diff, *, heads: bool = False) -> Iterator[DiffRow]:
    """All lines of the diff in order, the note first. With `heads` every hunk has one, also the only one."""
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
    """Cells that the longest line number takes."""
    last = max((max(h.old_start + h.old_count, h.new_start + h.new_count) for h in diff.hunks), default=1)
    return len(str(last))


def visible_text(text: str) -> str:
    """The text of a diff line as it is painted."""
    if text.isascii() and text.isprintable() and " " * 20 not in text:
        return text
    return make_visible(text.expandtabs(4), lookalikes=False)


def colored_rows(some: Sequence[DiffRow], language: str, styles: TextStyles) -> dict[int, list[Span]]:
    """Place of a row → its text in the language's colors; both sides are read as the files they come from."""
    found: dict[int, list[Span]] = {}
    hunk: list[int] = []
    for index, row in enumerate([*some, DiffRow("@", "")]):
        if row.sign in " +-":
            hunk.append(index)
        elif row.sign == "@":
            for side in (" -", " +"):
                places = [at for at in hunk if some[at].sign in side]
                painted = highlight(
                    "\n".join(visible_text(some[at].text) for at in places), language, styles, limit=LONGEST_SIDE
                )
                if len(painted) == len(places):
                    found.update(zip(places, painted, strict=True))
            hunk = []
    return found


class RowStyle(NamedTuple):
    """How a line is painted beyond its sign."""

    colors: Sequence[Span] | None = None
    """Its text in the language's colors, as `colored` gives it."""
    words: Ranges = ()
    """What of its text is marked as changed, as places in what `shown` gives."""
    left_out: bool = False
    """Its hunk is not taken."""


PLAIN = RowStyle()


def paint_row(row: DiffRow, width: int, number: int, styles: TextStyles, row_style: RowStyle = PLAIN) -> list[Line]:
    """The lines of one row; `number` is the width of the line numbers."""
    if row.sign in "@!":
        style = styles.muted if row.sign == "@" else styles.warn
        return chop([(visible_text(row.text), style)], width)
    gutter = f"{row.old or '':>{number}} {row.new or '':>{number}} "
    return paint_side(row, gutter, width, styles, row_style)


def paint_side(row: DiffRow, gutter: str, width: int, styles: TextStyles, row_style: RowStyle) -> list[Line]:
    """The lines of a row behind any gutter, its sign after that."""
    style, fill = (styles.muted, None) if row_style.left_out else _style(row.sign, styles)
    heads = [(gutter, _over(styles.muted, fill)), (SIGNS.get(row.sign, " ") + " ", style)]
    rest = [(" " * (width_of(heads)), style)]
    lines = chop(_spans(row, style, styles, row_style), width - width_of(heads), fill)
    return indent(lines, heads, rest)


def _spans(row: DiffRow, style: Style, styles: TextStyles, row_style: RowStyle) -> list[Span]:
    text = visible_text(row.text)
    if row_style.left_out or row.sign not in " +-":
        return [(text, style)]
    spans: list[Span] = [(text, style)]
    if row_style.colors:
        spans = [(part, _on(token, style, styles)) for part, token in row_style.colors]
    if not row_style.words or sum(len(part) for part, _style in spans) != len(text):
        return spans
    word = styles.added_word if row.sign == "+" else styles.removed_word
    own = Style(color=word.color, bgcolor=word.bgcolor, bold=word.bold, underline=word.underline)
    return overlay(spans, row_style.words, own)


def row_height(row: DiffRow, width: int, number: int) -> int:
    """How many lines `paint_row` gives, without painting where that is possible."""
    return line_count(row.text, width if row.sign in "@!" else width - 2 * number - 4)


def line_count(text: str, room: int) -> int:
    """How many lines a diff line's text takes."""
    text = visible_text(text)
    if text.isascii():
        return max(1, -(-len(text) // max(1, room)))
    return len(chop([(text, Style.null())], room))


def _style(sign: str, styles: TextStyles) -> tuple[Style, Style | None]:
    if sign == "+":
        return styles.added, styles.added
    if sign == "-":
        return styles.removed, styles.removed
    return (styles.muted, None) if sign == "\\" else (styles.text, None)


def _on(token: Style, style: Style, styles: TextStyles) -> Style:
    """A token's color on the ground of its line; plain code keeps the line's own."""
    if token is styles.code:
        return style
    return style + Style(color=token.color, italic=token.italic)


def _over(style: Style, fill: Style | None) -> Style:
    return style if fill is None else style + Style(bgcolor=fill.bgcolor)


NARROWEST = 92
"""Columns of the view from which on two sides stand beside each other (a screen of about 100)."""
BETWEEN = " │ "


class Pair(NamedTuple):
    """Places of the rows that stand beside each other; what goes over both sides is at the left alone."""

    left: int | None
    right: int | None


def row_pairs(signs: Sequence[str]) -> list[Pair]:
    """Unchanged lines beside themselves, removed ones beside the added ones that follow them, by their signs."""
    found: list[Pair] = []
    removed: list[int] = []
    added: list[int] = []

    def flush() -> None:
        found.extend(Pair(left, right) for left, right in zip_longest(removed, added))
        removed.clear()
        added.clear()

    before = " "
    for index, sign in enumerate(signs):
        if sign == "\\" and before in "-+":
            (removed if before == "-" else added).append(index)
            continue
        if sign == "+":
            added.append(index)
        elif sign == "-":
            if added:
                flush()
            removed.append(index)
        else:
            flush()
            found.append(Pair(index, None if sign in "@!\\" else index))
        before = sign
    flush()
    return found


def side_widths(width: int) -> tuple[int, int]:
    """Cells of the left and of the right side."""
    room = width - len(BETWEEN)
    return room // 2, room - room // 2


def pair_height(pair: Pair, rows: Sequence[DiffRow], width: int, number: int) -> int:
    """How many lines `paint_pair` gives."""
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
    """The lines of a pair."""
    if pair.left is not None and pair.right is None and rows[pair.left].sign in "@!":
        row = rows[pair.left]
        return chop([(visible_text(row.text), styles.muted if row.sign == "@" else styles.warn)], width)
    sides: list[list[Line]] = []
    for index, room, which in zip(pair, side_widths(width), ("old", "new"), strict=True):
        if index is None:
            sides.append([])
            continue
        row = rows[index]
        count = row.old if which == "old" else row.new
        sides.append(paint_side(row, f"{count or '':>{number}} ", room, styles, row_style(index)))
    return beside(sides, side_widths(width)[:1], [(BETWEEN, styles.faint)], styles)
