"""HTML export: one file without scripts or external resources, in the color scheme of the reader's system."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Literal, TypeAlias

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from tui_agent.export.prose import MAX_PARSED_LINE, code_spans, prose_blocks
from tui_agent.export.sections import CodePart, ExportDocument, ExportSection, trimmed_text

SYMBOLS = {"ok": "✓", "bad": "✗", "warn": "!", "": "·"}
HEADING_TAGS = {"user": "h2", "document": "h2", "agent": "h3", "step": "h3", "plan": "h3", "summary": "h3"}
"""Kind of section → tag of its heading; `p` for the others."""
DIFF_CLASSES = {"+": "added", "-": "removed", "\\": "note", "@": "hunk"}
"""First character of a diff line → CSS class."""
BUFFERED_PIECES = 64
"""Template pieces that are yielded as one."""

MAX_LEVELS = 10
"""Levels of nested lists."""
LineKind: TypeAlias = Literal["p", "blockquote", "list"]

_ITEM = re.compile(r"([ \t]*)(\d{1,9}[.)]|[-*+])[ \t]+(\S.*)")
_LINK = re.compile(
    r"(?<![!\\])\[(?P<label>[^\[\]]{1,300})\]\((?P<address>https?://[^\s<>()\"'`]{1,1000})\)"
    r"|(?<![\w/])(?P<bare>https?://[^\s<>\"'`\\|]{1,1000})"
)
_AFTER_ADDRESS = ".,;:!?)]}*_"
"""Characters at the end of an address in a text that belong to the text."""
_KEPT = re.compile("\0([0-9]+)\0")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_TABLE_RULE = re.compile(r":?-+:?")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*<]{1,500}?)(?<=\S)\*(?![\w*])")
_STRONG = re.compile(r"\*\*(?=\S)([^*]{1,500}?)(?<=\S)\*\*")


def html_pieces(document: ExportDocument) -> Iterator[str]:
    """Yield the text of the file in pieces."""
    template, style, digest = _template()
    stream = template.stream(document=document, style=style, digest=digest, symbols=SYMBOLS, heading_tags=HEADING_TAGS)
    stream.enable_buffering(BUFFERED_PIECES)
    yield from stream


@cache
def _template() -> tuple[Template, Markup, str]:
    folder = resources.files("tui_agent.export")
    style = (folder / "page.css").read_text(encoding="utf-8").strip()
    environment = Environment(autoescape=True, keep_trailing_newline=True)
    environment.globals["prose"] = _prose
    environment.filters |= {
        "kind": lambda part: type(part).__name__,
        "trimmed_text": trimmed_text,
        "diff_class": lambda line: Markup(f' class="{DIFF_CLASSES[line[0]]}"') if line[:1] in DIFF_CLASSES else "",
    }
    environment.tests["open"] = _is_open
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template, Markup(style), base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def _is_open(section: ExportSection) -> bool:
    """Whether a collapsible section is expanded: if it failed or changed a file."""
    has_diff = any(isinstance(part, CodePart) and part.language == "diff" for part in section.parts)
    return section.tone in ("bad", "warn") or has_diff


def _prose(text: str) -> Markup:
    return Markup("\n".join(_blocks(trimmed_text(text))))


def _blocks(text: str) -> Iterator[str]:
    for block in prose_blocks(text):
        match block.kind:
            case "table" if rows := _table_rows(block.text):
                yield "<table>" + "".join(rows) + "</table>"
            case "code" | "table":
                label = f'<p class="language">{escape(block.language)}</p>' if block.language else ""
                yield f"{label}<pre>\n{escape(block.text)}</pre>"
            case "heading":
                yield f'<p class="heading">{_inline(block.text)}</p>'
            case _:
                for kind, group in groupby(_line_kinds(block.text), lambda pair: pair[0]):
                    yield _paragraph(kind, [line for _, line in group])


def _line_kinds(text: str) -> Iterator[tuple[LineKind, str]]:
    """Yield the lines of a paragraph with what they belong to."""
    kind: LineKind = "p"
    for line in text.split("\n"):
        if line.lstrip().startswith(">"):
            kind = "blockquote"
        elif _ITEM.fullmatch(line):
            kind = "list"
        elif kind == "blockquote" or not line.startswith("  "):
            kind = "p"
        yield kind, line


def _paragraph(kind: LineKind, lines: list[str]) -> str:
    if kind == "list":
        return _list(lines)
    texts = (line.lstrip()[1:].lstrip(" ") if kind == "blockquote" else line for line in lines)
    return f'<{kind} class="text">' + "\n".join(map(_inline, texts)) + f"</{kind}>"


def _list(lines: list[str]) -> str:
    """The items as HTML lists, nested by their indentation. A line that is no item continues the one above."""
    parts: list[str] = []
    levels: list[tuple[int, str]] = []
    """Indentation and tag of each open list."""
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item is None:
            parts.append(f"\n{_inline(line.strip())}")
            continue
        indent, number = len(item[1].expandtabs(4)), item[2][:-1]
        tag = "ol" if number else "ul"
        while levels and (indent < levels[-1][0] or (indent < levels[-1][0] + 2 and levels[-1][1] != tag)):
            parts.append(f"</li></{levels.pop()[1]}>")
        if levels and indent < levels[-1][0] + 2:
            parts.append("</li>")
        elif len(levels) < MAX_LEVELS:
            levels.append((indent, tag))
            parts.append(f'<ol start="{number}">' if number else "<ul>")
        else:
            parts.append("</li>")
        parts.append(f"<li>{_inline(item[3])}")
    return "".join([*parts, *(f"</li></{tag}>" for _, tag in reversed(levels))])


def _table_rows(text: str) -> list[str]:
    """The rows as HTML; [] if the table is malformed."""
    lines = text.split("\n")
    cells = [[cell.strip() for cell in _CELL_BORDER.split(line.strip().strip("|"))] for line in lines]
    columns = len(cells[0])
    if len(cells) < 2 or max(map(len, lines)) >= MAX_PARSED_LINE or any(len(row) != columns for row in cells):
        return []
    if not all(_TABLE_RULE.fullmatch(cell) for cell in cells[1]):
        return []
    rows = [("th", cells[0]), *(("td", row) for row in cells[2:])]
    return ["<tr>" + "".join(f"<{tag}>{_inline(cell)}</{tag}>" for cell in row) + "</tr>" for tag, row in rows]


def _inline(line: str) -> str:
    return "".join(
        f"<code>{escape(span.text)}</code>" if span.is_code else _marked_up(span.text) for span in code_spans(line)
    )


def _marked_up(text: str) -> str:
    """A text with its links and emphasis. Only http and https addresses are links, and each is shown."""
    if len(text) >= MAX_PARSED_LINE:
        return str(escape(text))
    links: list[str] = []

    def keep(match: re.Match[str]) -> str:
        label, address = match["label"], match["address"] or match["bare"].rstrip(_AFTER_ADDRESS)
        rest = "" if match["address"] else match["bare"][len(address) :]
        shown = f" ({escape(address)})" if label and label != address else ""
        links.append(f'<a href="{escape(address)}" rel="noopener noreferrer">{escape(label or address)}</a>{shown}')
        return f"\0{len(links) - 1}\0{rest}"

    marked = str(escape(_LINK.sub(keep, text.replace("\0", ""))))
    marked = _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<b>\1</b>", marked))
    return _KEPT.sub(lambda match: links[int(match[1])], marked)
