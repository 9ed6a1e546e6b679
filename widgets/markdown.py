"""Markdown as styled lines: what a reply looks like. Links are shown with their address, nothing is ever fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from rich.style import Style

from widgets.highlight import highlight
from widgets.ink import Ink, Line, Span, chop, cut, fit, indent, line, width_of, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

BULLETS = "•◦▪"
TOO_DEEP = re.compile(r"^(?:[ \t]*(?:>|[-*+]|\d{1,9}[.)])){30}|^[ \t]{100}", re.MULTILINE)
"""Nesting that is shown as it was written."""
DEEPEST = 12
"""Levels of nesting that are still indented; deeper ones are shown flat."""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Link definitions would vanish from what is shown, and so would what is nested too deeply.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 200})
    return parser.enable(["table", "strikethrough"]).disable("reference")


def render(source: str, width: int, ink: Ink) -> list[Line]:
    """Lines of at most `width` cells."""
    from markdown_it.tree import SyntaxTreeNode

    if TOO_DEEP.search(source):
        return wrap([(source, ink.text)], width)
    tree = SyntaxTreeNode(_parser().parse(source))
    return _Renderer(ink).blocks(tree.children, max(1, width), tight=False, depth=0)


def code_lines(code: str, language: str, width: int, ink: Ink) -> list[Line]:
    """A code block on its panel, long lines cut over, blanks kept."""
    room = max(1, width - 2)
    margin = [("  ", ink.panel)]
    painted: list[Line] = []
    for spans in highlight(code, language, ink):
        painted += indent(chop(spans, room, fill=ink.panel), margin)
    return painted


class _Renderer:
    def __init__(self, ink: Ink) -> None:
        self.ink = ink

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, *, tight: bool, depth: int) -> list[Line]:
        lines: list[Line] = []
        for node in nodes:
            block = self.block(node, width, depth)
            if lines and block and not tight:
                lines.append(Line([]))
            lines += block
        return lines

    def block(self, node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
        ink = self.ink
        match node.type:
            case "heading":
                return wrap(self.inline(node, ink.heading), width)
            case "fence" | "code_block":
                language = (node.info.split() or [""])[0] if node.type == "fence" else ""
                return code_lines(node.content.rstrip("\n"), language, width, ink)
            case "blockquote":
                inner = self.blocks(node.children, max(1, width - 2), tight=False, depth=depth + 1)
                return indent(inner, [("▎ ", ink.faint)], prefix=("> ", "> "))
            case "bullet_list" | "ordered_list":
                return self.listing(node, width, depth)
            case "hr":
                return [line(("─" * width, ink.faint))]
            case "table":
                return self.table(node, width)
            case _:
                return wrap(self.inline(node, ink.text), width)

    def listing(self, node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
        ordered = node.type == "ordered_list"
        number = int(node.attrs.get("start", 1)) if ordered else 0
        tight = all(
            child.hidden for item in node.children for child in item.children if child.type == "paragraph"
        )
        lines: list[Line] = []
        for item in node.children:
            mark = f"{number}. " if ordered else BULLETS[depth % len(BULLETS)] + " "
            number += 1
            room = len(mark) if depth < DEEPEST else 0
            inner = self.blocks(item.children, max(1, width - room), tight=tight, depth=depth + 1)
            if lines and not tight:
                lines.append(Line([]))
            pad = [(" " * room, self.ink.text)]
            head = [(mark, self.ink.accent)] if room else []
            told = (mark if ordered else "- ", " " * len(mark))
            lines += indent(inner or [Line([])], head, pad, prefix=told)
        return lines

    # --- text ---

    def inline(self, node: SyntaxTreeNode, base: Style) -> list[Span]:
        if not node.children and node.content:
            return [(node.content, base)]
        return [span for child in node.children for span in self.spans(child, base)]

    def spans(self, node: SyntaxTreeNode, base: Style) -> Iterator[Span]:
        ink = self.ink
        match node.type:
            case "text" | "html_inline":
                yield node.content, base
            case "code_inline":
                yield node.content, base + ink.code
            case "softbreak":
                yield " ", base
            case "hardbreak":
                yield "\n", base
            case "strong":
                yield from self.inside(node, base + _only(ink.strong))
            case "em":
                yield from self.inside(node, base + _only(ink.emphasis))
            case "s":
                yield from self.inside(node, base + _only(ink.struck))
            case "link":
                yield from self.link(node, base)
            case "image":
                yield f"[image: {node.content or 'no text'}] ", base
                yield str(node.attrs.get("src", "")), base + ink.link
            case _:
                yield from self.inside(node, base)

    def inside(self, node: SyntaxTreeNode, base: Style) -> Iterator[Span]:
        for child in node.children:
            yield from self.spans(child, base)

    def link(self, node: SyntaxTreeNode, base: Style) -> Iterator[Span]:
        shown = list(self.inside(node, base + self.ink.link))
        yield from shown
        target = str(node.attrs.get("href", ""))
        if target and target != "".join(text for text, _style in shown):
            yield f" ({target})", self.ink.muted

    # --- tables ---

    def table(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        rows = [
            [
                self.inline(cell, self.ink.strong if part.type == "thead" else self.ink.text)
                for cell in row.children
            ]
            for part in node.children
            for row in part.children
        ]
        columns = max(len(row) for row in rows)
        widths = _shares(rows, columns, width - 3 * (columns - 1))
        lines: list[Line] = []
        for number, row in enumerate(rows):
            lines += self.row(row, widths)
            if number == 0:
                rule = "─┼─".join("─" * share for share in widths)
                lines.append(line((cut(rule, width)[0], self.ink.faint)))
        return lines

    def row(self, cells: list[list[Span]], widths: list[int]) -> list[Line]:
        broken = [wrap(cell, share) for cell, share in zip(cells, widths, strict=False)]
        lines: list[Line] = []
        for number in range(max(len(cell) for cell in broken)):
            joined = Line([])
            for column, share in enumerate(widths):
                cell = broken[column] if column < len(broken) else []
                segments = cell[number].segments if number < len(cell) else []
                used = sum(segment.cell_length for segment in segments)
                last = column == len(widths) - 1
                pad = "" if last else " " * max(0, share - used) + " "
                joined.segments += [*segments, *line((pad, self.ink.text)).segments]
                if not last:
                    joined.segments += line(("│ ", self.ink.faint)).segments
            lines.append(joined)
        return lines


def _only(style: Style) -> Style:
    """The attributes of a style without its colours, to lay over another."""
    return style.without_color


def _shares(rows: list[list[list[Span]]], columns: int, room: int) -> list[int]:
    """A width for each column: what it wants, or a fair part when that is too much."""
    wanted = [max((width_of(row[i]) for row in rows if i < len(row)), default=1) or 1 for i in range(columns)]
    if sum(wanted) <= room:
        return wanted
    fair = max(3, room // max(1, columns))
    spare = room - sum(min(want, fair) for want in wanted)
    greedy = [i for i, want in enumerate(wanted) if want > fair]
    return [
        min(want, fair) + (max(0, spare) // len(greedy) if i in greedy else 0)
        for i, want in enumerate(wanted)
    ]


__all__ = ["code_lines", "fit", "render"]
