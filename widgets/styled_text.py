"""Styled lines: the colors a widget paints with, and the breaking of text into lines of a width.

Text arrives here as data and leaves as segments; no markup parser is on the way, and control characters fall out
once more.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.css.model import RuleSet
from textual.strip import Strip
from textual.widget import Widget

from widgets.textual_private import class_style

Span: TypeAlias = tuple[str, Style]

CONTROL: Final[dict[int, str | None]] = {
    **dict.fromkeys([*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029], None),
    9: "    ",
    10: "\n",
    **{
        code: f"<U+{code:04X}>"
        for code in (0x061C, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF)
    },
    **{code: f"<U+{code:04X}>" for code in range(0xE0000, 0xE0080)},
}
"""What segments never hold: C0 but the line feed, DEL, C1 and the separators; tabs become spaces. What turns the
direction of text or can't be seen at all is shown."""

HIDDEN = frozenset(code for code, shown in CONTROL.items() if code not in (9, 10))
"""What an input never holds: it would be typed over unseen."""


def typable(text: str) -> str:
    """`text` as it may stand in an input: without what moves the cursor, turns the direction or can't be seen."""
    return text.replace("\t", "    ").translate(dict.fromkeys(HIDDEN))


WORDS = re.compile(r"[^\S\xa0]+|[\S\xa0]+")
"""Blanks and words; what a no-break space joins is one word."""


class TextStyles(NamedTuple):
    """The text roles of a widget. Each is the class `role--<role>` of `styles/tokens.tcss`."""

    text: Style
    muted: Style
    faint: Style
    accent: Style
    strong: Style
    emphasis: Style
    struck: Style
    heading: Style
    link: Style
    code: Style
    panel: Style
    ok: Style
    warn: Style
    bad: Style
    added: Style
    removed: Style
    added_word: Style
    removed_word: Style
    keyword: Style
    string: Style
    number: Style
    comment: Style
    name: Style


ROLES: Final = [f"role--{role}" for role in TextStyles._fields]
"""Classes of the roles in `styles/tokens.tcss`."""
_STYLES: WeakKeyDictionary[App[object], tuple[list[RuleSet], dict[object, TextStyles]]] = WeakKeyDictionary()


def text_styles_of(widget: Widget) -> TextStyles:
    """The theme's text roles on the ground of `widget`.

    Worked out when something is painted, and once for all widgets on the same ground. As component classes of every
    widget, Textual would work them out for each of them, twice before the first paint.
    """
    app = widget.app
    rules = app.stylesheet.rules
    kept = _STYLES.get(app)
    if kept is None or kept[0] is not rules:  # parsed anew for another theme
        kept = _STYLES[app] = rules, {}
    known = kept[1]
    ground = frozenset(app.pseudo_classes), widget.rich_style, widget.background_colors
    if (styles := known.get(ground)) is None:
        styles = known[ground] = TextStyles(*(class_style(widget, name) for name in ROLES))
    return styles


class Source:
    """Text that some lines were painted from; copied in their place when all of them are selected."""

    __slots__ = ("bare", "text")

    def __init__(self, text: str, bare: str | None = None) -> None:
        self.text = text
        self.bare = text if bare is None else bare
        """What is copied when nothing but these lines is selected: code without its fence."""


class Line:
    """One painted line: its segments, the style of what is left of the width, and its strip once it was shown.

    It also knows what of it is text: `gutter` cells at the left are decoration, `prefix` stands for them in a copy,
    `glue` is what the source has between this line and the next one.
    """

    __slots__ = ("_base", "_strip", "fill", "glue", "gutter", "prefix", "segments", "source")

    def __init__(
        self,
        segments: list[Segment],
        fill: Style | None = None,
        *,
        glue: str = "\n",
        gutter: int = 0,
        prefix: str = "",
        source: Source | None = None,
    ) -> None:
        self.segments = segments
        self.fill = fill
        self.glue = glue
        self.gutter = gutter
        self.prefix = prefix
        self.source = source
        self._strip: Strip | None = None
        self._base: Style | None = None

    @property
    def text(self) -> str:
        """Without styles."""
        return "".join(segment.text for segment in self.segments)

    @property
    def content(self) -> str:
        """Without styles and gutter."""
        text = self.text
        return split_cells(text, self.gutter)[1] if self.gutter else text

    def strip(self, width: int, base: Style) -> Strip:
        """Ready to paint, exactly `width` cells wide."""
        if self._strip is None or self._strip.cell_length != width or self._base is not base:
            self._base = base
            self._strip = Strip(self.segments).adjust_cell_length(width, self.fill or base)
        return self._strip


def line(*spans: Span, fill: Style | None = None) -> Line:
    """A line of the given spans, as they are."""
    return Line([Segment(text.translate(CONTROL), style) for text, style in spans if text], fill)


def width_of(spans: Iterable[Span]) -> int:
    """Cells that the spans take on one line."""
    return sum(cell_len(text) for text, _style in spans)


def split_cells(text: str, cells: int) -> tuple[str, str]:
    """The longest beginning of `text` that fits `cells`, perhaps nothing, and the rest."""
    cells = max(0, cells)
    if text.isascii():
        return text[:cells], text[cells:]
    used = 0
    for index, character in enumerate(text):
        used += cell_len(character)
        if used > cells:
            return text[:index], text[index:]
    return text, ""


def _split_some(text: str, cells: int, must: bool) -> tuple[str, str]:
    """Like `cut`, but takes a character that is too wide for a whole line when it `must`."""
    head, rest = split_cells(text, cells)
    return (text[:1], text[1:]) if must and not head else (head, rest)


def fit(text: str, cells: int) -> str:
    """`text` on one line in at most `cells`, an ellipsis in place of what is too much."""
    text = text.translate(CONTROL).replace("\n", " ")
    if cell_len(text) <= cells:
        return text
    return split_cells(text, cells - 1)[0] + "…" if cells > 1 else "…"[:cells]


class _Breaker:
    """Breaks spans at blanks. A word may change its style within and still stays whole."""

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.lines: list[Line] = []
        self.spans: list[Span] = []
        self.used = 0
        self.gap: Span | None = None
        self.word: list[Span] = []
        self.word_width = 0

    def take(self, text: str, style: Style) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                self.end_line()
            for match in WORDS.finditer(part):
                piece = match[0]
                if piece.isspace():
                    self.end_word()
                    self.gap = (piece, style)
                else:
                    self.word.append((piece, style))
                    self.word_width += cell_len(piece)

    def end_word(self) -> None:
        if not self.word:
            return
        blank = self.gap[0] if self.gap else ""
        gap = cell_len(blank)
        if self.used and self.used + gap + self.word_width > self.width >= self.word_width:
            self.push(blank)
        elif self.gap is not None and gap < self.width - self.used:
            self.spans.append(self.gap)
            self.used += gap
        elif self.used:
            self.push(blank)
        for text, style in self.word:
            self.place(text, style)
        self.word, self.word_width, self.gap = [], 0, None

    def place(self, text: str, style: Style) -> None:
        while cell_len(text) > self.width - self.used:
            head, text = _split_some(text, self.width - self.used, must=not self.used)
            if head:
                self.spans.append((head, style))
            self.push("")
        if text:
            self.spans.append((text, style))
            self.used += cell_len(text)

    def push(self, glue: str) -> None:
        self.lines.append(Line(list(_merged(self.spans)), glue=glue))
        self.spans, self.used, self.gap = [], 0, None

    def end_line(self) -> None:
        self.end_word()
        self.push("\n")


def _merged(spans: Iterable[Span]) -> Iterator[Segment]:
    text, style = "", None
    for piece, styles in spans:
        if styles is style:
            text += piece
            continue
        if text:
            yield Segment(text, style)
        text, style = piece, styles
    if text:
        yield Segment(text, style)


def wrap(spans: Sequence[Span], width: int) -> list[Line]:
    """The spans broken at blanks into lines of at most `width` cells; too long words are broken anywhere."""
    breaker = _Breaker(width)
    for text, style in spans:
        breaker.take(text.translate(CONTROL), style)
    breaker.end_line()
    return breaker.lines


def chop(spans: Sequence[Span], width: int, fill: Style | None = None) -> list[Line]:
    """The spans of one line cut at exactly `width` cells: for code, commands and output, where blanks count."""
    width = max(1, width)
    lines: list[Line] = []
    now: list[Segment] = []
    used = 0
    for raw, style in spans:
        text = raw.translate(CONTROL).replace("\n", " ")
        while cell_len(text) > width - used:
            head, text = _split_some(text, width - used, must=not used)
            if head:
                now.append(Segment(head, style))
            lines.append(Line(now, fill, glue=""))
            now, used = [], 0
        if text:
            now.append(Segment(text, style))
            used += cell_len(text)
    lines.append(Line(now, fill))
    return lines


def add_below(lines: list[Line], more: Sequence[Line]) -> list[Line]:
    """Add lines to others, a blank one between them where there are both."""
    if lines and more:
        lines.append(Line([]))
    lines += more
    return lines


def reuse(old: Sequence[Line], new: list[Line]) -> int:
    """Put the old lines in the place of equal new ones, so that their strips live on. Returns how many are the same
    from the top."""
    same = True
    first = 0
    for index, (old_line, new_line) in enumerate(zip(old, new, strict=False)):
        if old_line is not new_line:
            if old_line.segments != new_line.segments or old_line.fill is not new_line.fill:
                same = False
                continue
            old_line.glue, old_line.gutter, old_line.prefix, old_line.source = (
                new_line.glue,
                new_line.gutter,
                new_line.prefix,
                new_line.source,
            )
            new[index] = old_line
        if same:
            first = index + 1
    return first


def indent(
    lines: Iterable[Line],
    first: Sequence[Span],
    rest: Sequence[Span] | None = None,
    *,
    prefix: tuple[str, str] = ("", ""),
) -> list[Line]:
    """The lines with spans in front: `first` before the first one, `rest` (or the same) before the others. `prefix`
    is what these stand for in a copy."""
    heads = [Segment(*span) for span in first]
    others = heads if rest is None else [Segment(*span) for span in rest]
    head_width, rest_width = width_of(first), width_of(first if rest is None else rest)
    return [
        Line(
            [*(others if index else heads), *wrapped.segments],
            wrapped.fill,
            glue=wrapped.glue,
            gutter=(rest_width if index else head_width) + wrapped.gutter,
            prefix=prefix[1 if index else 0] + wrapped.prefix,
            source=wrapped.source,
        )
        for index, wrapped in enumerate(lines)
    ]


def hanging(head: Sequence[Span], spans: Sequence[Span], width: int, blank: Style, *, cut: bool = False) -> list[Line]:
    """Spans broken beside a head, blanks of a style below it; with `cut` broken anywhere, as commands and paths are."""
    inset = width_of(head)
    lines = chop(spans, width - inset) if cut else wrap(spans, max(8, width - inset))
    return indent(lines, head, [(" " * inset, blank)])


def justified_line(left: Sequence[Span], right: Sequence[Span], width: int, styles: TextStyles) -> Line:
    """Two ends of a line; the left one is shortened when they meet."""
    room = width - width_of(right) - (2 if right else 0)
    kept = fitted_spans(left, room)
    gap = max(0, width - width_of(kept) - width_of(right))
    return line(*kept, (" " * gap, styles.text), *right)


def fitted_spans(spans: Sequence[Span], width: int) -> list[Span]:
    """On one line, with an ellipsis in place of what is too much."""
    kept: list[Span] = []
    for text, style in spans:
        if short := fit(text, max(0, width - width_of(kept))):
            kept.append((short, style))
    return kept


def share_bar(part: float, cells: int, style: Style, styles: TextStyles) -> list[Span]:
    """`part` of 1 as a bar; what is not nothing shows at least one cell."""
    part = min(1.0, max(0.0, part))
    full = min(cells, max(1 if part else 0, round(part * cells)))
    return [("▰" * full, style), ("▱" * (cells - full), styles.faint)]


def overlay(spans: Iterable[Span], ranges: Iterable[tuple[int, int]], style: Style) -> list[Span]:
    """Spans with a style laid over ranges of their text, which do not overlap."""
    ranges = sorted(ranges)
    starts = [start for start, _stop in ranges]
    borders = sorted({index for pair in ranges for index in pair})
    result: list[Span] = []
    begin = 0
    for text, own in spans:
        inner = borders[bisect_right(borders, begin) : bisect_left(borders, begin + len(text))]
        for first, last in pairwise([begin, *inner, begin + len(text)]):
            at = bisect_right(starts, first) - 1
            inside = at >= 0 and first < ranges[at][1]
            result.append((text[first - begin : last - begin], own + style if inside else own))
        begin += len(text)
    return result


def beside(
    columns: Sequence[Sequence[Line]], widths: Iterable[int], between: Sequence[Span], styles: TextStyles
) -> list[Line]:
    """Columns side by side; `widths` are those of all but the last one, `between` stands behind each of these."""
    lines: list[Line] = []
    for row in zip_longest(*columns, fillvalue=Line([])):
        segments: list[Segment] = []
        for cell, width in zip(row, widths, strict=False):
            gap = " " * (width - sum(part.cell_length for part in cell.segments))
            segments += [*cell.segments, Segment(gap, cell.fill or styles.text), *(Segment(*span) for span in between)]
        lines.append(Line([*segments, *row[-1].segments], row[-1].fill))
    return lines


def highlighted_line(spans: Sequence[Span], styles: TextStyles) -> Line:
    """A line on the ground of the cursor."""
    ground = Style(bgcolor=styles.panel.bgcolor)
    return line(*((text, style + ground) for text, style in spans), fill=styles.panel)
