"""A document as one HTML file: no script, nothing from elsewhere, light and dark as the reader's system is."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import groupby

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from tui_agent.export.prose import LONG, code_spans, prose_blocks
from tui_agent.export.sections import CodePart, ExportDocument, ExportSection, displayable

SIGNS = {"ok": "✓", "bad": "✗", "warn": "!", "": "·"}
LEVELS = {"user": "h2", "document": "h2", "agent": "h3", "step": "h3", "plan": "h3", "summary": "h3"}
"""Kinds of section → the tag of their headline; `p` for the others."""
ROWS = {"+": "added", "-": "removed", "\\": "note", "@": "hunk"}
"""First character of a line of a diff → its class."""
CHUNK = 64
"""Pieces of the template that are handed on at once."""

_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")
_SLANTED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*<]{1,500}?)(?<=\S)\*(?![\w*])")
_STRONG = re.compile(r"\*\*(?=\S)([^*]{1,500}?)(?<=\S)\*\*")


def html_pieces(document: ExportDocument) -> Iterator[str]:
    """The text of the file, piece by piece, to be written as UTF-8."""
    template, style, digest = _template()
    stream = template.stream(document=document, style=style, digest=digest, signs=SIGNS, levels=LEVELS)
    stream.enable_buffering(CHUNK)
    yield from stream


@cache
def _template() -> tuple[Template, Markup, str]:
    folder = resources.files("tui_agent.export")
    style = (folder / "page.css").read_text(encoding="utf-8").strip()
    environment = Environment(autoescape=True, keep_trailing_newline=True)
    environment.globals["prose"] = _prose
    environment.filters |= {
        "kind": lambda part: type(part).__name__,
        "shown": displayable,
        "row": lambda line: Markup(f' class="{ROWS[line[0]]}"') if line[:1] in ROWS else "",
    }
    environment.tests["open"] = _is_open
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template, Markup(style), base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def _is_open(section: ExportSection) -> bool:
    """Whether a folding section stands open: it went badly, or changed a file."""
    diff = any(isinstance(part, CodePart) and part.language == "diff" for part in section.parts)
    return section.tone in ("bad", "warn") or diff


def _prose(text: str) -> Markup:
    return Markup("\n".join(_blocks(displayable(text))))


def _blocks(text: str) -> Iterator[str]:
    for block in prose_blocks(text):
        match block.kind:
            case "table" if rows := _table(block.text):
                yield "<table>" + "".join(rows) + "</table>"
            case "code" | "table":
                label = f'<p class="language">{escape(block.language)}</p>' if block.language else ""
                yield f"{label}<pre>\n{escape(block.text)}</pre>"
            case "heading":
                yield f'<p class="heading">{_inline(block.text)}</p>'
            case _:
                for quoted, lines in groupby(block.text.split("\n"), lambda line: line.lstrip().startswith(">")):
                    tag = "blockquote" if quoted else "p"
                    inner = (_inline(line.lstrip()[1:].lstrip(" ") if quoted else line) for line in lines)
                    yield f'<{tag} class="text">' + "\n".join(inner) + f"</{tag}>"


def _table(text: str) -> list[str]:
    """Its rows; none where it is no table that all cells have their place in."""
    lines = text.split("\n")
    cells = [[cell.strip() for cell in _BAR.split(line.strip().strip("|"))] for line in lines]
    wide = len(cells[0])
    if len(cells) < 2 or max(map(len, lines)) >= LONG or any(len(row) != wide for row in cells):
        return []
    if not all(_RULE.fullmatch(cell) for cell in cells[1]):
        return []
    rows = [("th", cells[0]), *(("td", row) for row in cells[2:])]
    return ["<tr>" + "".join(f"<{tag}>{_inline(cell)}</{tag}>" for cell in row) + "</tr>" for tag, row in rows]


def _inline(line: str) -> str:
    return "".join(
        f"<code>{escape(span.text)}</code>" if span.code else _emphasized(str(escape(span.text)))
        for span in code_spans(line)
    )


def _emphasized(text: str) -> str:
    return _SLANTED.sub(r"<em>\1</em>", _STRONG.sub(r"<b>\1</b>", text))
