"""A diff as lines: numbers, a sign that needs no colour, long lines cut over, everything invisible shown (R4.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.style import Style

from tui_agent.domain import Diff
from tui_agent.text import visible
from widgets.ink import Ink, Line, chop, indent, width_of

SIGNS = {"+": "+", "-": "−", " ": " ", "\\": " "}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diff before it is painted."""

    sign: str
    """`+`, `-`, blank, `\\` for a remark about the line before, `@` for a hunk's head, `!` for a note."""
    text: str
    old: int | None = None
    new: int | None = None


def rows(diff: Diff) -> Iterator[Row]:
    """All lines of the diff in order, the note first."""
    if diff.note:
        yield Row("!", diff.note)
    for number, hunk in enumerate(diff.hunks):
        if number or hunk.old_start > 1 or hunk.new_start > 1:
            counts = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
            yield Row("@", counts)
        old, new = hunk.old_start, hunk.new_start
        for raw in hunk.lines:
            sign, text = raw[:1] or " ", raw[1:].rstrip("\n")
            yield Row(sign, text, old if sign in " -" else None, new if sign in " +" else None)
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


def paint_row(row: Row, width: int, number: int, ink: Ink) -> list[Line]:
    """The lines of one row; `number` is the width of the line numbers."""
    if row.sign in "@!":
        style = ink.muted if row.sign == "@" else ink.warn
        return chop([(shown(row.text), style)], width)
    style, fill = _style(row.sign, ink)
    gutter = f"{row.old or '':>{number}} {row.new or '':>{number}} "
    heads = [(gutter, _over(ink.muted, fill)), (SIGNS.get(row.sign, " ") + " ", style)]
    rest = [(" " * (width_of(heads)), style)]
    lines = chop([(shown(row.text), style)], width - width_of(heads), fill)
    return indent(lines, heads, rest)


def height(row: Row, width: int, number: int) -> int:
    """How many lines `paint_row` gives, without painting where that is possible."""
    room = width if row.sign in "@!" else width - 2 * number - 4
    text = shown(row.text)
    if text.isascii():
        return max(1, -(-len(text) // max(1, room)))
    return len(chop([(text, Style.null())], room))


def _style(sign: str, ink: Ink) -> tuple[Style, Style | None]:
    if sign == "+":
        return ink.added, ink.added
    if sign == "-":
        return ink.removed, ink.removed
    return (ink.muted, None) if sign == "\\" else (ink.text, None)


def _over(style: Style, fill: Style | None) -> Style:
    return style if fill is None else style + Style(bgcolor=fill.bgcolor)
