"""Incremental markdown rendering: a growing text is split into pieces, and only the last piece is rendered again.

The splits depend only on the text, not on the size of the deltas, so a replayed reply looks like the live one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import msgspec
from rich.style import Style

from widgets.highlight import diff_span, highlight, is_diff, prepare
from widgets.links import Locate, file_target, link_spans, linked, looks_like_url, nowhere, url_target
from widgets.styled_text import Line, Source, Span, TextStyles, add_below, chop, indent, line, table_of, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.tree import SyntaxTreeNode

MAX_OPEN_CHARACTERS = 3_000
"""Number of characters from which an open piece is split at the next opportunity."""

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
TABLE_RULE = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
"""The line between the header of a table and its rows."""


class MarkdownPiece(msgspec.Struct):
    """One or more complete markdown blocks, or one fenced code block."""

    source: str = ""
    code: bool = False
    language: str = ""
    header: str = ""
    """Header of the table that `source` continues."""

    @property
    def shown(self) -> str:
        """The source to paint."""
        return self.header + self.source


class PaintedPiece(NamedTuple):
    """The lines of a piece."""

    start: int
    height: int
    names: frozenset[str]
    """Names of files that were looked for."""


class MarkdownStream:
    """Renders streamed markdown. `pieces` are final; `tail` may still change."""

    def __init__(self, locate: Locate = nowhere) -> None:
        """`locate` finds the files that the text names."""
        self.locate = locate
        self.pieces: list[MarkdownPiece] = []
        self.partial_line = ""
        """Last line, whose line break has not arrived yet."""
        self.ended = False
        self._open = MarkdownPiece()
        self._lines: list[str] = []
        self._size = 0
        self._fence = ""
        self._blank = False
        self._key: tuple[int, TextStyles] | None = None
        self._settled_lines: list[Line] = []
        self._painted_pieces: list[PaintedPiece] = []
        """The pieces in `_settled_lines`."""
        self._fence_lines: list[Line] = []
        self._painted_fence_lines = 0
        """Number of source lines of the open fence in `_fence_lines`."""

    @property
    def tail(self) -> str:
        """Source of the open piece, including the unfinished line."""
        return "\n".join([*self._lines, self.partial_line] if self.partial_line else self._lines)

    def feed(self, text: str) -> None:
        """Append text."""
        *complete_lines, self.partial_line = (self.partial_line + text).split("\n")
        for complete_line in complete_lines:
            self._add_line(complete_line)
        while len(self.partial_line) > MAX_OPEN_CHARACTERS:
            end = self.partial_line.rfind(" ", MAX_OPEN_CHARACTERS // 2, MAX_OPEN_CHARACTERS)
            end = MAX_OPEN_CHARACTERS if end < 0 or self._fence else end
            self._add_line(self.partial_line[:end])
            if not self._fence:
                self._settle_piece()
            self.partial_line = self.partial_line[end:]

    def end(self) -> None:
        """Finish the text and settle the last piece."""
        if self.partial_line:
            self._add_line(self.partial_line)
            self.partial_line = ""
        self._settle_piece()
        self.ended = True

    def _add_line(self, text: str) -> None:
        if self._fence:
            if self._closes(text):
                self._fence = ""
                self._settle_piece()
            else:
                self._append_line(text)
            return
        if (fence := FENCE.match(text)) and not (self._in_list() and text.startswith(" ")):
            self._settle_piece()
            language = (fence[2].split() or [""])[0]
            self._open, self._fence = MarkdownPiece(code=True, language=language), fence[1]
            return
        if not text.strip():
            self._blank = bool(self._lines)
            if self._lines:
                self._append_line("")
            return
        if self._starts_block(text):
            header = "" if self._blank or "|" not in text else self._table_header()
            self._settle_piece()
            self._open.header = header
        self._blank = False
        self._append_line(text)

    def _closes(self, text: str) -> bool:
        mark = text.strip()
        return len(mark) >= len(self._fence) and set(mark) == {self._fence[0]}

    def _in_list(self) -> bool:
        return bool(self._lines) and ITEM.match(self._lines[0]) is not None

    def _table_header(self) -> str:
        """Return the header of the table that is open, to repeat above the rows of the next piece; empty if none is."""
        if self._open.header:
            return self._open.header
        is_table = len(self._lines) > 1 and "|" in self._lines[0] and TABLE_RULE.match(self._lines[1])
        return "\n".join([*self._lines[:2], ""]) if is_table else ""

    def _starts_block(self, text: str) -> bool:
        """Return whether `text` starts a new block, so that the lines before it can be settled."""
        if text[0] in " \t":
            return False
        item = ITEM.match(text) is not None
        if self._blank:
            return not (item and self._in_list()) or self._size > MAX_OPEN_CHARACTERS
        if self._size > MAX_OPEN_CHARACTERS and not self._in_list() and self._table_header():
            return True
        return self._size > MAX_OPEN_CHARACTERS and (item if self._in_list() else self._size > 2 * MAX_OPEN_CHARACTERS)

    def _append_line(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text) + 1

    def _settle_piece(self) -> None:
        source = "\n".join(self._lines)
        if not self._open.code:
            source = source.rstrip()
        if source or self._open.code:
            self._open.source = source
            self.pieces.append(self._open)
        self._open, self._lines, self._size, self._blank = MarkdownPiece(), [], 0, False
        self._fence_lines, self._painted_fence_lines = [], 0

    def lines(self, width: int, styles: TextStyles) -> list[Line]:
        """Return all lines. Settled pieces are painted once per width and styles, the tail on every call."""
        if self._key != (width, styles):
            self._key, self._settled_lines, self._painted_pieces = (width, styles), [], []
            self._fence_lines, self._painted_fence_lines = [], 0
        for piece in self.pieces[len(self._painted_pieces) :]:
            lines, names = self._paint_piece(piece, width, styles)
            add_below(self._settled_lines, lines)
            self._painted_pieces.append(PaintedPiece(len(self._settled_lines) - len(lines), len(lines), names))
        return add_below(list(self._settled_lines), self._tail_lines(width, styles))

    def relink(self, found: AbstractSet[str]) -> bool:
        """Paint the settled pieces again that name a file in `found`, which leads elsewhere now.

        Return whether there are any.
        """
        if self._key is None:
            return False
        stale = [number for number, painted in enumerate(self._painted_pieces) if not painted.names.isdisjoint(found)]
        for number in stale:
            start, height, _names = self._painted_pieces[number]
            lines, names = self._paint_piece(self.pieces[number], *self._key)
            if len(lines) != height:  # a link does not change how a text is wrapped
                self._key = None
                break
            self._settled_lines[start : start + height] = lines
            self._painted_pieces[number] = PaintedPiece(start, height, names)
        return bool(stale)

    def _paint_piece(self, piece: MarkdownPiece, width: int, styles: TextStyles) -> tuple[list[Line], frozenset[str]]:
        """Return the lines of a piece, and the names of files that were looked for."""
        names: set[str] = set()

        def locate(name: str) -> str:
            names.add(name)
            return self.locate(name)

        return _piece_lines(piece, width, styles, locate), frozenset(names)

    def _tail_lines(self, width: int, styles: TextStyles) -> list[Line]:
        if not self._fence:
            shown = self._open.header + self.tail
            return render_markdown(shown, width, styles, self.locate) if self.tail.strip() else []
        language = self._open.language if is_diff(self._open.language) else ""
        if not language:
            prepare(self._open.language)
        for painted in self._lines[self._painted_fence_lines :]:
            self._fence_lines += code_lines(painted, language, width, styles)
        self._painted_fence_lines = len(self._lines)
        return self._fence_lines + (code_lines(self.partial_line, language, width, styles) if self.partial_line else [])


def _piece_lines(piece: MarkdownPiece, width: int, styles: TextStyles, locate: Locate) -> list[Line]:
    """Paint a settled piece, with its source attached to the lines."""
    if piece.code:
        lines = code_lines(piece.source, piece.language, width, styles)
        source = Source(f"```{piece.language}\n{piece.source}\n```", piece.source)
    else:
        lines, source = render_markdown(piece.shown, width, styles, locate), Source(piece.source)
    for painted in lines:
        painted.source = source
    return lines


BULLETS = "•◦▪"
CONTINUES = "↪ "
"""Margin of a code line that continues the one above it."""
TOO_DEEP = re.compile(r"^(?:[ \t]*(?:>|[-*+]|\d{1,9}[.)])){30}|^[ \t]{100}", re.MULTILINE)
"""Nesting too deep to parse; such text is shown as source."""
MAX_INDENT_LEVELS = 12
"""Number of list levels that are indented; deeper ones are shown flat."""


FORMULA = "formula"
"""Type of the tokens of formulas: LaTeX between its delimiters is kept as it was written."""
INLINE_FORMULA = re.compile(
    r"\\\((?:[^\\]|\\[^()])*?\\\)"  # \(…\)
    r"|\\\[(?:[^\\]|\\[^\[\]])*?\\\]"  # \[…\]
    r"|\$\$(?:[^$\\`]|\\.)+?\$\$"
    # $…$, but not two amounts of dollars: after a digit, only with something that LaTeX has
    r"|(?<![\w$])\$(?![\s$])(?!\d(?![^$`\n]*[\\^_{=]))(?:[^$\\`\n]|\\.)+?(?<!\s)\$(?![\w$])",
    re.DOTALL,
)
FORMULA_END = {"$$": "$$", "\\[": "\\]"}
"""Delimiters of a LaTeX formula that has lines of its own."""
MAX_FORMULA_LINES = 50
"""Maximum lines of one; a longer one is shown as text."""


def _add_formulas(parser: MarkdownIt) -> None:
    """Make a parser keep formulas, in tokens of the type `FORMULA` with their source."""
    parser.inline.ruler.before("escape", FORMULA, _read_inline_formula)
    parser.block.ruler.before("fence", FORMULA, _read_formula_lines, {"alt": ["paragraph", "blockquote", "list"]})


def _read_inline_formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "\\$" or not (match := INLINE_FORMULA.match(state.src, state.pos, state.posMax)):
        return False
    if not silent:
        state.push(FORMULA, "", 0).content = match[0]
    state.pos = match.end()
    return True


def _read_formula_lines(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Read lines from one that begins with `$$` or `\\[` to the one that ends with its counterpart."""
    if state.is_code_block(first):
        return False
    lines = [_text_of(state, first)]
    closing = FORMULA_END.get(lines[0][:2])
    if closing is None or closing in lines[0][2:]:
        return False
    above = _text_of(state, first - 1) if silent and first else ""
    if above[:2] == lines[0][:2] and closing not in above[2:]:
        return False  # the line above was asked first, and found no end
    while not lines[-1].endswith(closing) or len(lines) == 1:
        is_end = len(lines) == MAX_FORMULA_LINES or first + len(lines) >= end
        if is_end or state.isEmpty(first + len(lines)):
            return False
        lines.append(_text_of(state, first + len(lines)))
    if not silent:
        state.push(FORMULA, "", 0).content = "\n".join(lines)
        state.line = first + len(lines)
    return True


def _text_of(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Link definitions and content beyond maxNesting would not be rendered at all.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 200})
    _add_formulas(parser)
    return parser.enable(["table", "strikethrough"]).disable("reference")


def render_markdown(source: str, width: int, styles: TextStyles, locate: Locate = nowhere) -> list[Line]:
    """Render markdown as lines of at most `width` cells. `locate` finds the files that it names."""
    from markdown_it.tree import SyntaxTreeNode

    if TOO_DEEP.search(source):
        return wrap([(source, styles.text)], width)
    tree = SyntaxTreeNode(_parser().parse(source))
    return _Renderer(styles, locate).blocks(tree.children, max(1, width), tight=False, depth=0)


@lru_cache(500)
def plain_title(source: str, limit: int = 200) -> str:
    """Return the first words of a text as one line of at most `limit` characters, without Markdown; code blocks,
    tables and rules have none."""
    from tui_agent.text import one_line

    if TOO_DEEP.search(source):
        return one_line(source, limit)
    in_table = False
    for token in _parser().parse(source):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "inline" and not in_table:
            parts = (" " if child.type.endswith("break") else child.content for child in token.children or ())
            if title := one_line("".join(parts).strip(), limit):
                return title
    return ""


def code_lines(code: str, language: str, width: int, styles: TextStyles) -> list[Line]:
    """Paint a code block on a panel; long lines are wrapped at any character, whitespace is preserved.

    The margin of a wrapped line has a mark, which is not copied.
    """
    room = max(1, width - 2)
    margin: list[Span] = [("  ", styles.panel)]
    wrapped: list[Span] = [(CONTINUES, styles.panel + Style(color=styles.faint.color, dim=styles.faint.dim))]
    painted: list[Line] = []
    if is_diff(language):
        for text in code.split("\n"):
            span, fill = diff_span(text, styles)
            painted += indent(chop([span], room, fill=fill), margin, wrapped)
        return painted
    for spans in highlight(code, language, styles):
        painted += indent(chop(spans, room, fill=styles.panel), margin, wrapped)
    return painted


class _Renderer:
    def __init__(self, styles: TextStyles, locate: Locate) -> None:
        self.text_styles = styles
        self.locate = locate
        self.links = True
        """Whether URLs and places in the text become hyperlinks; not within the label of a link."""

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, *, tight: bool, depth: int) -> list[Line]:
        lines: list[Line] = []
        for node in nodes:
            block = self.block(node, width, depth)
            if lines and block and not tight:
                lines.append(Line([]))
            lines += block
        return lines

    def block(self, node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
        styles = self.text_styles
        match node.type:
            case "heading":
                return wrap(self.inline(node, styles.heading), width)
            case "fence" | "code_block":
                language = (node.info.split() or [""])[0] if node.type == "fence" else ""
                return code_lines(node.content.rstrip("\n"), language, width, styles)
            case "blockquote":
                inner = self.blocks(node.children, max(1, width - 2), tight=False, depth=depth + 1)
                return indent(inner, [("▎ ", styles.faint)], prefix=("> ", "> "))
            case "bullet_list" | "ordered_list":
                return self.listing(node, width, depth)
            case "hr":
                return [line(("─" * width, styles.faint))]
            case "table":
                return self.table(node, width)
            case formula if formula == FORMULA:
                return wrap([(node.content, styles.text)], width)
            case _:
                return wrap(self.inline(node, styles.text), width)

    def listing(self, node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
        ordered = node.type == "ordered_list"
        number = int(node.attrs.get("start", 1)) if ordered else 0
        tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        lines: list[Line] = []
        for item in node.children:
            mark = f"{number}. " if ordered else BULLETS[depth % len(BULLETS)] + " "
            number += 1
            room = len(mark) if depth < MAX_INDENT_LEVELS else 0
            inner = self.blocks(item.children, max(1, width - room), tight=tight, depth=depth + 1)
            if lines and not tight:
                lines.append(Line([]))
            pad = [(" " * room, self.text_styles.text)]
            head = [(mark, self.text_styles.accent)] if room else []
            prefix = (mark if ordered else "- ", " " * len(mark))
            lines += indent(inner or [Line([])], head, pad, prefix=prefix)
        return lines

    # --- text ---

    def inline(self, node: SyntaxTreeNode, base: Style) -> list[Span]:
        if not node.children and node.content:
            return [(node.content, base)]
        return [span for child in node.children for span in self.spans(child, base)]

    def spans(self, node: SyntaxTreeNode, base: Style) -> Iterator[Span]:
        styles = self.text_styles
        match node.type:
            case "text" | "html_inline":
                yield from self.linked(node.content, base)
            case "code_inline":
                yield from self.linked(node.content, base + styles.code, is_code=True)
            case "softbreak":
                yield " ", base
            case formula if formula == FORMULA:
                yield node.content.replace("\n", " "), base
            case "hardbreak":
                yield "\n", base
            case "strong":
                yield from self.inside(node, base + styles.strong.without_color)
            case "em":
                yield from self.inside(node, base + styles.emphasis.without_color)
            case "s":
                yield from self.inside(node, base + styles.struck.without_color)
            case "link":
                yield from self.link(node, base)
            case "image":
                yield f"[image: {node.content or 'no text'}] ", base
                source = str(node.attrs.get("src", ""))
                yield source, linked(base, link, styles.link) if (link := url_target(source)) else base + styles.link
            case _:
                yield from self.inside(node, base)

    def linked(self, text: str, style: Style, *, is_code: bool = False) -> Sequence[Span]:
        """Return a text with hyperlinks for the URLs and files in it."""
        if not self.links:
            return [(text, style)]
        return link_spans(text, style, self.text_styles.link, self.locate, is_code=is_code)

    def inside(self, node: SyntaxTreeNode, base: Style) -> Iterator[Span]:
        for child in node.children:
            yield from self.spans(child, base)

    def link(self, node: SyntaxTreeNode, base: Style) -> Iterator[Span]:
        """Yield the label of a link and where it leads. A label that looks like another address is no link itself."""
        styles = self.text_styles
        target = str(node.attrs.get("href", ""))
        link = url_target(target) or file_target(unquote(target), self.locate)
        self.links = False
        label = list(self.inside(node, base + styles.link))
        self.links = True
        text = "".join(part for part, _style in label)
        names_target = text == target or (bool(link) and link in (url_target(text), url_target(f"mailto:{text}")))
        if link and (names_target or not looks_like_url(text)):
            label = [(part, linked(style, link, styles.link)) for part, style in label]
        yield from label
        if target and not names_target:
            yield " (", styles.muted
            yield target, linked(styles.muted, link, styles.muted) if link else styles.muted
            yield ")", styles.muted

    # --- tables ---

    def table(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        styles = self.text_styles
        rows = [
            [self.inline(cell, styles.strong if part.type == "thead" else styles.text) for cell in row.children]
            for part in node.children
            for row in part.children
        ]
        aligns = [
            str(cell.attrs.get("style", "")).removeprefix("text-align:")
            for cell in node.children[0].children[0].children
        ]
        return table_of(rows, aligns, width, styles)
