"""A diff as lines: numbers, a sign that needs no colour, long lines cut over, everything invisible shown (R4.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.style import Style

from tui_agent.domain import Diff
from tui_agent.text import visible
from widgets.highlight import highlight
from widgets.ink import Ink, Line, Span, chop, indent, width_of

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


def paint_row(
    row: Row, width: int, number: int, ink: Ink, colours: Sequence[Span] | None = None
) -> list[Line]:
    """The lines of one row; `number` is the width of the line numbers, `colours` its text as `coloured` gives it."""
    if row.sign in "@!":
        style = ink.muted if row.sign == "@" else ink.warn
        return chop([(shown(row.text), style)], width)
    style, fill = _style(row.sign, ink)
    gutter = f"{row.old or '':>{number}} {row.new or '':>{number}} "
    heads = [(gutter, _over(ink.muted, fill)), (SIGNS.get(row.sign, " ") + " ", style)]
    rest = [(" " * (width_of(heads)), style)]
    spans: list[Span] = [(shown(row.text), style)]
    if colours and row.sign in " +-":
        spans = [(text, _on(token, style, ink)) for text, token in colours]
    lines = chop(spans, width - width_of(heads), fill)
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


def _on(token: Style, style: Style, ink: Ink) -> Style:
    """A token's colour on the ground of its line; plain code keeps the line's own."""
    if token is ink.code:
        return style
    return style + Style(color=token.color, italic=token.italic)


def _over(style: Style, fill: Style | None) -> Style:
    return style if fill is None else style + Style(bgcolor=fill.bgcolor)
