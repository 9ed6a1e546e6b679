"""A document as one HTML file: no script, nothing from elsewhere, light and dark as the reader's system is (R-33)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib import resources
from itertools import groupby

from tui_agent.domain import Diff
from tui_agent.export.content import Change, Code, Document, Facts, Fold, Part, Prose, Section, Text
from tui_agent.export.prose import LONG, blocks, spans

SIGNS = {"ok": "✓", "bad": "✗", "warn": "!", "": "·"}
FOLDED = frozenset(("tool", "shell", "notice"))
"""Kinds of section that fold; the ones that went badly or changed a file are open."""
LISTED = 3
"""Messages from which on there is a table of them."""

_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")
_SLANTED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*<]{1,500}?)(?<=\S)\*(?![\w*])")
_STRONG = re.compile(r"\*\*(?=\S)([^*]{1,500}?)(?<=\S)\*\*")


def html(document: Document) -> str:
    """The text of the file, to be written as UTF-8."""
    return "".join(pieces(document))


def pieces(document: Document) -> Iterator[str]:
    """The same, piece by piece."""
    style = _style()
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    title = _text(document.title)
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        '<meta name="robots" content="noindex">',
        f"<title>{title}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{title}</h1>",
        _facts(document.facts),
        "</header>",
    ]
    for line in (*head, *_contents(document), "<main>"):
        yield line + "\n"
    for line in _sections(document):
        yield line + "\n"
    yield "</main>\n</body>\n</html>\n"


@cache
def _style() -> str:
    return (resources.files("tui_agent.export") / "page.css").read_text(encoding="utf-8").strip()


def _contents(document: Document) -> Iterator[str]:
    if len(document.messages) < LISTED:
        return
    yield "<nav><details><summary>Messages</summary><ol>"
    for number, words in enumerate(document.messages, 1):
        yield f'<li><a href="#m{number}">{_text(words)}</a></li>'
    yield "</ol></details></nav>"


def _sections(document: Document) -> Iterator[str]:
    users = 0
    for section in document.sections:
        users += section.kind == "user"
        anchor = f' id="m{users}"' if section.kind == "user" else ""
        tone = f" {section.tone}" if section.tone else ""
        yield f'<section class="{section.kind}{tone}"{anchor}>'
        yield from _section(section)
        yield "</section>"


def _section(section: Section) -> Iterator[str]:
    sign = f'<span class="sign">{SIGNS[section.tone]}</span> ' if section.kind in _SIGNED else ""
    subject = f" <code>{_text(section.subject)}</code>" if section.subject else ""
    note = f' <span class="note">{_text(section.note)}</span>' if section.note else ""
    head = f"{sign}<b>{_text(section.title)}</b>{subject}{note}"
    if section.kind in FOLDED and section.parts:
        open_now = section.tone in ("bad", "warn") or any(isinstance(part, Change) for part in section.parts)
        yield f"<details{' open' if open_now else ''}><summary>{head}</summary>"
        yield from _parts(section.parts)
        yield "</details>"
        return
    level = "h2" if section.kind in ("user", "document") else "h3" if section.kind in _HEADED else "p"
    yield f"<{level}>{head}</{level}>"
    yield from _parts(section.parts)


_SIGNED = frozenset(("tool", "shell", "notice", "end", "request", "step", "plan", "summary"))
_HEADED = frozenset(("agent", "step", "plan", "summary"))


def _parts(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    match part:
        case Prose(text):
            yield from _prose(text)
        case Text(text):
            yield f'<p class="text">{_text(text)}</p>'
        case Code(text):
            yield f"<pre>\n{_text(text)}</pre>"
        case Change(diff):
            yield from _change(diff)
        case Facts(rows):
            yield _facts(rows)
        case Fold(title, inner):
            yield f"<details><summary>{_text(title)}</summary>"
            yield from _parts(inner)
            yield "</details>"


def _facts(rows: tuple[tuple[str, str], ...]) -> str:
    return (
        "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in rows) + "</dl>"
    )


def _prose(text: str) -> Iterator[str]:
    for block in blocks(text):
        match block.kind:
            case "table" if rows := _table(block.text):
                yield "<table>" + "".join(rows) + "</table>"
            case "code" | "table":
                label = f'<p class="language">{_text(block.language)}</p>' if block.language else ""
                yield f"{label}<pre>\n{_text(block.text)}</pre>"
            case "heading":
                yield f'<p class="heading">{_inline(block.text)}</p>'
            case _:
                for quoted, lines in groupby(
                    block.text.split("\n"), lambda line: line.lstrip().startswith(">")
                ):
                    tag = "blockquote" if quoted else "p"
                    shown = (_inline(line.lstrip()[1:].lstrip(" ") if quoted else line) for line in lines)
                    yield f'<{tag} class="text">' + "\n".join(shown) + f"</{tag}>"


def _table(text: str) -> list[str]:
    """Its rows; none where it is no table that all cells have their place in."""
    lines = text.split("\n")
    cells = [[cell.strip() for cell in _BAR.split(line.strip().strip("|"))] for line in lines]
    wide = len(cells[0])
    if len(cells) < 2 or max(map(len, lines)) >= LONG or any(len(row) != wide for row in cells):
        return []
    if not all(_RULE.fullmatch(cell) for cell in cells[1]):
        return []
    told = [("th", cells[0]), *(("td", row) for row in cells[2:])]
    return [
        "<tr>" + "".join(f"<{tag}>{_inline(cell)}</{tag}>" for cell in row) + "</tr>" for tag, row in told
    ]


def _inline(line: str) -> str:
    return "".join(
        f"<code>{_text(span.text)}</code>" if span.code else _emphasized(_text(span.text))
        for span in spans(line)
    )


def _emphasized(text: str) -> str:
    return _SLANTED.sub(r"<em>\1</em>", _STRONG.sub(r"<b>\1</b>", text))


def _change(diff: Diff) -> Iterator[str]:
    note = f' <span class="note">{_text(diff.note)}</span>' if diff.note else ""
    count = f'<span class="added">+{diff.added}</span> <span class="removed">−{diff.removed}</span>'
    yield f'<p class="change">{_text(diff.kind)} <code>{_text(diff.path)}</code> {count}{note}</p>'
    if diff.hunks:
        yield '<pre class="diff">' + "".join(_rows(diff)) + "</pre>"


_ROWS = {"+": "added", "-": "removed", "\\": "note"}


def _rows(diff: Diff) -> Iterator[str]:
    for hunk in diff.hunks:
        where = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        yield f'<span class="hunk">{where}</span>\n'
        for line in hunk.lines:
            kind = _ROWS.get(line[:1])
            attribute = f' class="{kind}"' if kind else ""
            yield f"<span{attribute}>{_text(line.rstrip(chr(10)))}</span>\n"


def _text(text: str) -> str:
    return escape(text, quote=True)
