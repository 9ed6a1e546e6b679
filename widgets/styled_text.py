"""Styled lines: text styles of the theme, wrapping, and line layout.

Text is never parsed as markup, and control characters are removed.
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

from tui_agent.text import reveal, strip_invisible
from widgets.textual_private import class_style

Span: TypeAlias = tuple[str, Style]

CONTROL: Final[dict[int, str | None]] = {**dict.fromkeys([*range(32), *range(0x7F, 0xA0)], None), 9: "    ", 10: "\n"}
"""Translation table for segments: removes C0 (except line feed), DEL and C1, and expands tabs."""


class ShownText(str):
    """What `visible` or `fit` returned. It is not marked again: in a cut text, other characters could be marked."""

    __slots__ = ()


def visible(text: str) -> ShownText:
    """Return the text of a segment: without control characters, tabs expanded, invisible characters marked."""
    return text if isinstance(text, ShownText) else ShownText(reveal(text, start=False).translate(CONTROL))


def strip_untypable(text: str) -> str:
    """Return `text` for an input: tabs expanded, without control, bidirectional and invisible characters."""
    return strip_invisible(text).translate(CONTROL)


WORD_OR_BLANKS = re.compile(r"[^\S\xa0]+|[\S\xa0]+")
"""Runs of whitespace, and words; a no-break space does not end a word."""


class TextStyles(NamedTuple):
    """The text roles of a widget, defined by the classes `role--<role>` in `styles/tokens.tcss`."""

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
    held: Style
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
    """Return the theme's text styles on the background of `widget`.

    Computed on demand and cached per background. As component classes, Textual would compute them for every widget,
    twice before the first paint.
    """
    app = widget.app
    rules = app.stylesheet.rules
    entry = _STYLES.get(app)
    if entry is None or entry[0] is not rules:  # the rules are replaced when the theme changes
        entry = _STYLES[app] = rules, {}
    cache = entry[1]
    key = frozenset(app.pseudo_classes), widget.rich_style, widget.background_colors
    if (styles := cache.get(key)) is None:
        styles = cache[key] = TextStyles(*(class_style(widget, name) for name in ROLES))
    return styles


class Source:
    """The text that lines were painted from; copied instead of them if all are selected."""

    __slots__ = ("inner", "text")

    def __init__(self, text: str, inner: str | None = None) -> None:
        self.text = text
        self.inner = text if inner is None else inner
        """Text to copy if only these lines are selected: code without its fence."""


class Line:
    """A painted line: segments, the style that fills the remaining width, and a cached strip.

    For copying, `gutter` is the number of decorative cells on the left, `prefix` their replacement, and `glue` the
    source text between this line and the next.
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
        """Text without styles."""
        return "".join(segment.text for segment in self.segments)

    @property
    def content(self) -> str:
        """Text without styles and gutter."""
        text = self.text
        return split_cells(text, self.gutter)[1] if self.gutter else text

    def strip(self, width: int, base: Style) -> Strip:
        """Return the line as a strip of exactly `width` cells."""
        if self._strip is None or self._strip.cell_length != width or self._base is not base:
            self._base = base
            self._strip = Strip(self.segments).adjust_cell_length(width, self.fill or base)
        return self._strip


def line(*spans: Span, fill: Style | None = None) -> Line:
    """Return a line of the given spans."""
    return Line([Segment(visible(text), style) for text, style in spans if text], fill)


def width_of(spans: Iterable[Span]) -> int:
    """Return the width of the spans in cells."""
    return sum(cell_len(text) for text, _style in spans)


def split_cells(text: str, cells: int) -> tuple[str, str]:
    """Split `text` after the longest prefix that fits in `cells`; the prefix may be empty."""
    cells = max(0, cells)
    if text.isascii():
        return text[:cells], text[cells:]
    used = 0
    for index, character in enumerate(text):
        used += cell_len(character)
        if used > cells:
            return text[:index], text[index:]
    return text, ""


def _split_at_least_one(text: str, cells: int, must: bool) -> tuple[str, str]:
    """Like `split_cells`, but if `must`, the first part has at least one character, even if it is too wide."""
    head, rest = split_cells(text, cells)
    return (text[:1], text[1:]) if must and not head else (head, rest)


def fit(text: str, cells: int) -> str:
    """Return `text` on one line of at most `cells`, shortened with an ellipsis."""
    text = visible(text).replace("\n", " ")
    if cell_len(text) > cells:
        text = split_cells(text, cells - 1)[0] + "…" if cells > 1 else "…"[:cells]
    return ShownText(text)


class _LineBreaker:
    """Wraps spans at whitespace. A word of several styles is not broken where the style changes."""

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
            for match in WORD_OR_BLANKS.finditer(part):
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
            head, text = _split_at_least_one(text, self.width - self.used, must=not self.used)
            if head:
                self.spans.append((head, style))
            self.push("")
        if text:
            self.spans.append((text, style))
            self.used += cell_len(text)

    def push(self, glue: str) -> None:
        self.lines.append(Line(list(_merge_segments(self.spans)), glue=glue))
        self.spans, self.used, self.gap = [], 0, None

    def end_line(self) -> None:
        self.end_word()
        self.push("\n")


def _merge_segments(spans: Iterable[Span]) -> Iterator[Segment]:
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
    """Wrap spans at whitespace into lines of at most `width` cells; longer words are broken at any character."""
    shown = [(visible(text), style) for text, style in spans]
    whole = "".join(text for text, _style in shown)
    if "\n" not in whole and whole == whole.rstrip() and cell_len(whole) <= width:
        return [Line(list(_merge_segments(shown)))]
    breaker = _LineBreaker(width)
    for text, style in shown:
        breaker.take(text, style)
    breaker.end_line()
    return breaker.lines


def chop(spans: Sequence[Span], width: int, fill: Style | None = None) -> list[Line]:
    """Break spans at exactly `width` cells, preserving whitespace: for code, commands and output."""
    width = max(1, width)
    lines: list[Line] = []
    segments: list[Segment] = []
    used = 0
    for raw, style in spans:
        text = visible(raw).replace("\n", " ")
        while cell_len(text) > width - used:
            head, text = _split_at_least_one(text, width - used, must=not used)
            if head:
                segments.append(Segment(head, style))
            lines.append(Line(segments, fill, glue=""))
            segments, used = [], 0
        if text:
            segments.append(Segment(text, style))
            used += cell_len(text)
    lines.append(Line(segments, fill))
    return lines


def add_below(lines: list[Line], more: Sequence[Line]) -> list[Line]:
    """Append `more` to `lines`, separated by a blank line if both have content; return `lines`."""
    if lines and more:
        lines.append(Line([]))
    lines += more
    return lines


def reuse(old: Sequence[Line], new: list[Line]) -> int:
    """Replace new lines by equal old ones to keep their cached strips; return the number of equal leading lines."""
    same = True
    equal_lines = 0
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
            equal_lines = index + 1
    return equal_lines


def indent(
    lines: Iterable[Line],
    first: Sequence[Span],
    rest: Sequence[Span] | None = None,
    *,
    prefix: tuple[str, str] = ("", ""),
) -> list[Line]:
    """Return the lines with `first` in front of the first one and `rest` (default: `first`) in front of the others.

    `prefix` has the texts that replace these when copied.
    """
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
    """Wrap spans with a hanging indent after `head`; `cut` breaks them at any character, as for commands and paths."""
    inset = width_of(head)
    lines = chop(spans, width - inset) if cut else wrap(spans, max(8, width - inset))
    return indent(lines, head, [(" " * inset, blank)])


def justified_line(left: Sequence[Span], right: Sequence[Span], width: int, styles: TextStyles) -> Line:
    """Return a line with left- and right-aligned spans; the left ones are shortened if necessary."""
    room = width - width_of(right) - (2 if right else 0)
    fitted = fitted_spans(left, room)
    gap = max(0, width - width_of(fitted) - width_of(right))
    return line(*fitted, (" " * gap, styles.text), *right)


def fitted_spans(spans: Sequence[Span], width: int) -> list[Span]:
    """Return the spans shortened to one line of `width` cells with an ellipsis."""
    fitted: list[Span] = []
    for text, style in spans:
        if short := fit(text, max(0, width - width_of(fitted))):
            fitted.append((short, style))
    return fitted


def share_bar(part: float, cells: int, style: Style, styles: TextStyles) -> list[Span]:
    """Return a bar for a share from 0 to 1; a share above 0 fills at least one cell."""
    part = min(1.0, max(0.0, part))
    full = min(cells, max(1 if part else 0, round(part * cells)))
    return [("▰" * full, style), ("▱" * (cells - full), styles.faint)]


def overlay(spans: Iterable[Span], ranges: Iterable[tuple[int, int]], style: Style) -> list[Span]:
    """Return the spans with a style applied to non-overlapping ranges of their text."""
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


def side_by_side(
    columns: Sequence[Sequence[Line]], widths: Iterable[int], between: Sequence[Span], styles: TextStyles
) -> list[Line]:
    """Lay out columns side by side. `widths` and the separator `between` are for all but the last column."""
    lines: list[Line] = []
    for row in zip_longest(*columns, fillvalue=Line([])):
        segments: list[Segment] = []
        for cell, width in zip(row, widths, strict=False):
            gap = " " * (width - sum(part.cell_length for part in cell.segments))
            segments += [*cell.segments, Segment(gap, cell.fill or styles.text), *(Segment(*span) for span in between)]
        lines.append(Line([*segments, *row[-1].segments], row[-1].fill))
    return lines


def highlighted_line(spans: Sequence[Span], styles: TextStyles) -> Line:
    """Return a line on the background of the cursor."""
    ground = Style(bgcolor=styles.panel.bgcolor)
    return line(*((text, style + ground) for text, style in spans), fill=styles.panel)


# --- tables ---

Cell: TypeAlias = Sequence[Span]
Row: TypeAlias = Sequence[Cell]

TABLE_GAP = 3
"""Cells between two columns: a rule with a space on both sides."""
MAX_LABEL_SHARE = 0.4
"""Share of the width that the labels of a record may take."""


def table_of(rows: Sequence[Row], aligns: Sequence[str], width: int, styles: TextStyles) -> list[Line]:
    """Lay out a table whose first row is its header. `aligns` has "left", "center" or "right" for each column."""
    columns = max(len(row) for row in rows)
    aligns = [*aligns, *(["left"] * (columns - len(aligns)))][:columns]
    padded = [[*row, *([()] * (columns - len(row)))] for row in rows]
    widths = column_widths(padded, width - TABLE_GAP * (columns - 1))
    if widths is None:
        return _records(padded, width, styles)
    lines: list[Line] = []
    for number, row in enumerate(padded):
        cells = [
            [_aligned(wrapped, share, align, styles) for wrapped in wrap(cell, share)]
            for cell, share, align in zip(row, widths, aligns, strict=True)
        ]
        lines += side_by_side(cells, widths[:-1], [(" ", styles.text), ("│ ", styles.faint)], styles)
        if number == 0:
            rule = "─┼─".join("─" * share for share in widths)
            lines.append(line((split_cells(rule, width)[0], styles.faint)))
    return lines


def column_widths(rows: Sequence[Row], room: int) -> list[int] | None:
    """Return the widths of the columns, `room` cells at most; None if that would break a word.

    If the content doesn't fit on one line, rows get as few lines as possible; what is left then goes to the columns
    that lack least.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(1, *map(_widest_line, column)) for column in columns]
    if sum(natural) <= room:
        return natural
    minimum = [max(1, *map(_longest_word, column)) for column in columns]
    if sum(minimum) > room:
        return None
    height = _lowest_height(natural, minimum, room)
    widths = [max(least, -(-most // height)) for most, least in zip(natural, minimum, strict=True)]
    left = room - sum(widths)
    for index in sorted(range(len(widths)), key=lambda index: natural[index] - widths[index]):
        more = min(left, natural[index] - widths[index])
        widths[index] += more
        left -= more
    return widths


def _lowest_height(natural: Sequence[int], minimum: Sequence[int], room: int) -> int:
    """Return the smallest number of lines per row for which the columns fit in `room` cells."""
    low, high = 1, max(natural)
    while low < high:
        middle = (low + high) // 2
        if sum(max(least, -(-most // middle)) for most, least in zip(natural, minimum, strict=True)) <= room:
            high = middle
        else:
            low = middle + 1
    return low


def _widest_line(cell: Cell) -> int:
    return max(map(cell_len, visible("".join(text for text, _style in cell)).split("\n")))


def _longest_word(cell: Cell) -> int:
    text = visible("".join(text for text, _style in cell))
    return max((cell_len(word) for word in WORD_OR_BLANKS.findall(text) if not word.isspace()), default=1)


def _aligned(wrapped: Line, width: int, align: str, styles: TextStyles) -> Line:
    """Move the text of a cell to the middle or to the right of its column."""
    free = width - sum(segment.cell_length for segment in wrapped.segments)
    before = {"right": free, "center": free // 2}.get(align, 0)
    if before > 0:
        wrapped.segments.insert(0, Segment(" " * before, styles.text))
    return wrapped


def _records(rows: Sequence[Row], width: int, styles: TextStyles) -> list[Line]:
    """Show each row as lines of "Header: value", with a blank line between two rows; empty cells are left out."""
    header, *others = rows
    if not others:
        return wrap(list(_joined_cells(header, styles)), width)
    labels = ["".join(text for text, _style in cell) for cell in header]
    inset = max(map(cell_len, labels)) + 2
    inset = inset if inset <= width * MAX_LABEL_SHARE else 2
    lines: list[Line] = []
    for row in others:
        record: list[Line] = []
        for label, cell in zip(labels, row, strict=True):
            if not "".join(text for text, _style in cell).strip():
                continue
            head: list[Span] = [(f"{label}: " if label else "", styles.muted)]
            if inset > 2:
                head.append((" " * (inset - width_of(head)), styles.text))
                record += hanging(head, cell, width, styles.text)
            else:
                record += indent(wrap([*head, *cell], max(1, width - 2)), [], [("  ", styles.text)])
        add_below(lines, record)
    return lines


def _joined_cells(cells: Iterable[Cell], styles: TextStyles) -> Iterable[Span]:
    for number, cell in enumerate(cells):
        if number:
            yield " │ ", styles.faint
        yield from cell
