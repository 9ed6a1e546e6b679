"""A diff as lines: numbers, a sign that needs no colour, long lines cut over, everything invisible shown (R4.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.style import Style

from tui_agent.domain import Diff
from tui_agent.text import visible
from widgets.highlight import highlight
from widgets.ink import Ink, Line, Span, chop, indent, width_of
from widgets.word_changes import Ranges, split_at

LONGEST = 2_000_000
"""Characters of a side of a hunk that are coloured."""

SIGNS = {"+": "+", "-": "−", " ": " ", "\\": " "}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diff before it is painted."""

    sign: str
    """`+`, `-`, blank, `\\` for a remark about the line before, `@` for a hunk's head, `!` for a note."""
    text: str
    old: int | None = None
    new: int | None = None
    hunk: int = -1
    """The place of its hunk; -1 for a note."""


def rows(diff: Diff, *, heads: bool = False) -> Iterator[Row]:
    """All lines of the diff in order, the note first. With `heads` every hunk has one, also the only one."""
    if diff.note:
        yield Row("!", diff.note)
    for number, hunk in enumerate(diff.hunks):
        if heads or number or hunk.old_start > 1 or hunk.new_start > 1:
            counts = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
            yield Row("@", counts, hunk=number)
        old, new = hunk.old_start, hunk.new_start
        for raw in hunk.lines:
            sign, text = raw[:1] or " ", raw[1:].rstrip("\n")
            yield Row(sign, text, old if sign in " -" else None, new if sign in " +" else None, number)
            old += sign in " -"
            new += sign in " +"
    if not diff.hunks and not diff.note:
        yield Row("!", "The file stays empty." if diff.kind == "create" else "No line changes.")


def digits(diff: Diff) -> int:
    """Cells that the longest line number takes."""
    last = max((max(h.old_start + h.old_count, h.new_start + h.new_count) for h in diff.hunks), default=1)
    return len(str(last))


def shown(text: str) -> str:
    """The text of a diff line as it is painted."""
    if text.isascii() and text.isprintable() and " " * 20 not in text:
        return text
    return visible(text.expandtabs(4), lookalikes=False)


def coloured(some: Sequence[Row], language: str, ink: Ink) -> dict[int, list[Span]]:
    """Place of a row → its text in the language's colours; both sides are read as the files they come from."""
    found: dict[int, list[Span]] = {}
    hunk: list[int] = []
    for place, row in enumerate([*some, Row("@", "")]):
        if row.sign in " +-":
            hunk.append(place)
        elif row.sign == "@":
            for side in (" -", " +"):
                places = [one for one in hunk if some[one].sign in side]
                painted = highlight(
                    "\n".join(shown(some[one].text) for one in places), language, ink, limit=LONGEST
                )
                if len(painted) == len(places):
                    found.update(zip(places, painted, strict=True))
            hunk = []
    return found


class Look(NamedTuple):
    """How a line is painted beyond its sign."""

    colours: Sequence[Span] | None = None
    """Its text in the language's colours, as `coloured` gives it."""
    words: Ranges = ()
    """What of its text is marked as changed, as places in what `shown` gives."""
    left_out: bool = False
    """Its hunk is not taken."""


PLAIN = Look()


def paint_row(row: Row, width: int, number: int, ink: Ink, look: Look = PLAIN) -> list[Line]:
    """The lines of one row; `number` is the width of the line numbers."""
    if row.sign in "@!":
        style = ink.muted if row.sign == "@" else ink.warn
        return chop([(shown(row.text), style)], width)
    gutter = f"{row.old or '':>{number}} {row.new or '':>{number}} "
    return paint_side(row, gutter, width, ink, look)


def paint_side(row: Row, gutter: str, width: int, ink: Ink, look: Look) -> list[Line]:
    """The lines of a row behind any gutter, its sign after that."""
    style, fill = (ink.muted, None) if look.left_out else _style(row.sign, ink)
    heads = [(gutter, _over(ink.muted, fill)), (SIGNS.get(row.sign, " ") + " ", style)]
    rest = [(" " * (width_of(heads)), style)]
    lines = chop(_spans(row, style, ink, look), width - width_of(heads), fill)
    return indent(lines, heads, rest)


def _spans(row: Row, style: Style, ink: Ink, look: Look) -> list[Span]:
    text = shown(row.text)
    if look.left_out or row.sign not in " +-":
        return [(text, style)]
    spans: list[Span] = [(text, style)]
    if look.colours:
        spans = [(part, _on(token, style, ink)) for part, token in look.colours]
    if not look.words or sum(len(part) for part, _style in spans) != len(text):
        return spans
    word = ink.added_word if row.sign == "+" else ink.removed_word
    own = Style(color=word.color, bgcolor=word.bgcolor, bold=word.bold, underline=word.underline)
    marked: list[Span] = []
    at = 0
    for part, token in spans:
        stop = at + len(part)
        inside = tuple((max(a, at) - at, min(b, stop) - at) for a, b in look.words if a < stop and b > at)
        pieces = split_at(inside, len(part))
        marked += [(part[a:b], token + own if on else token) for a, b, on in pieces]
        at = stop
    return marked


def height(row: Row, width: int, number: int) -> int:
    """How many lines `paint_row` gives, without painting where that is possible."""
    return lines_of(row.text, width if row.sign in "@!" else width - 2 * number - 4)


def lines_of(text: str, room: int) -> int:
    """How many lines a diff line's text takes."""
    text = shown(text)
    if text.isascii():
        return max(1, -(-len(text) // max(1, room)))
    return len(chop([(text, Style.null())], room))


def _style(sign: str, ink: Ink) -> tuple[Style, Style | None]:
    if sign == "+":
        return ink.added, ink.added
    if sign == "-":
        return ink.removed, ink.removed
    return (ink.muted, None) if sign == "\\" else (ink.text, None)


def _on(token: Style, style: Style, ink: Ink) -> Style:
    """A token's colour on the ground of its line; plain code keeps the line's own."""
    if token is ink.code:
        return style
    return style + Style(color=token.color, italic=token.italic)


def _over(style: Style, fill: Style | None) -> Style:
    return style if fill is None else style + Style(bgcolor=fill.bgcolor)
