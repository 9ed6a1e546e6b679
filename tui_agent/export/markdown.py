"""A document as markdown. What was said keeps its lists and code, but can't add headings, links, pictures or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from tui_agent.export.prose import code_spans, prose_blocks
from tui_agent.export.sections import (
    ExportDocument,
    ExportSection,
    FoldedPart,
    ProsePart,
    SectionPart,
    TextPart,
    displayable,
)

SIGNS = {"ok": "✓ ", "bad": "✗ ", "warn": "! ", "": ""}
HEADED = {"user": "##", "agent": "###", "plan": "###", "step": "###", "summary": "###", "document": "##"}
"""Kinds of section with a heading of their own; the others begin with a line in bold."""
FENCE = 3

_TICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.#-]{1,20}")
_SPECIAL = re.compile(r"[\\`<]|&(?=[#A-Za-z])|(?<=\])[\[(:]|~{3,}")
"""What would begin a span of code, HTML, a character by its name, a link or picture, or another fence."""
_EMPHASIS = re.compile(r"\*|(?<!\w)_|_(?!\w)")
_MARKS = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]*)*"
_HEADING = re.compile(rf"^({_MARKS})(#{{1,6}}(?=\s|$)|[=-](?=[ \t=-]*$))")
"""A heading, or the line under one, be it in a list or quote."""
_LIST = re.compile(r"^([ \t]*)([-+](?=\s|$)|>|\d{1,9}(?=[.)](?:\s|$)))")


def markdown_pieces(document: ExportDocument) -> Iterator[str]:
    """The text of the file, piece by piece, to be written as UTF-8."""
    yield f"# {escaped_text(document.title)}\n\n"
    for name, value in document.facts:
        yield f"- {name}: {code_span(value)}\n"
    for section in document.sections:
        yield "\n" + "\n".join(_section(section)).rstrip("\n") + "\n"


def _section(section: ExportSection) -> Iterator[str]:
    head = SIGNS[section.tone] + escaped_text(displayable(section.title))
    subject = f" {code_span(displayable(section.subject))}" if section.subject else ""
    note = f" · {escaped_text(section.note)}" if section.note else ""
    if level := HEADED.get(section.kind):
        yield f"{level} {head}{subject}{note}"
    elif section.kind == "notice":
        yield head if section.tone else f"· {head}"
    else:
        yield f"**{head}**{subject}{note}"
    for part in section.parts:
        yield ""
        yield from _part(part)


def _part(part: SectionPart) -> Iterator[str]:
    match part:
        case ProsePart(text, breaks):
            yield from _prose(displayable(text), "  \n" if breaks else "\n")
        case TextPart(text):
            yield escaped_text(displayable(text)).replace("\n", "  \n")
        case FoldedPart(title, parts):
            yield f"<details><summary>{escape(title)}</summary>"
            for one in parts:
                yield ""
                yield from _part(one)
            yield ""
            yield "</details>"
        case _:
            yield from fenced_code(displayable(part.text), part.language)


def _prose(text: str, end: str) -> Iterator[str]:
    first = True
    for block in prose_blocks(text):
        if not first:
            yield ""
        first = False
        match block.kind:
            case "code":
                if block.language and not _LANGUAGE.fullmatch(block.language):
                    yield escaped_text(block.language)
                    yield ""
                yield from fenced_code(block.text, block.language)
            case "heading":
                yield f"**{_inline(block.text).replace('**', '')}**"
            case _:
                yield end.join(_inline(line) for line in block.text.split("\n"))


def _inline(line: str) -> str:
    """A line with its code and emphasis, in which nothing else is markup but lists and quotes at its beginning."""
    indent = line[: len(line) - len(line.lstrip())]
    quote = "> " if line.lstrip().startswith(">") else ""
    body = line.lstrip()[1:].lstrip() if quote else line.lstrip()
    done = "".join(
        code_span(span.text) if span.code and "|" not in span.text else _escaped(_with_backticks(span.text, span.code))
        for span in code_spans(body)
    )
    done = _HEADING.sub(r"\1\\\2", done)
    return indent.expandtabs(4)[:12] + quote + done


def _with_backticks(text: str, is_code: bool) -> str:
    return f"`{text}`" if is_code else text


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def escaped_text(text: str) -> str:
    """Text in which nothing is markup."""
    return "\n".join(_plain(line) for line in text.split("\n"))


def _plain(line: str) -> str:
    line = _EMPHASIS.sub(lambda found: "\\" + found[0], _escaped(line).strip())
    line = _HEADING.sub(r"\1\\\2", line)
    return _LIST.sub(lambda found: found[1] + (found[2] + "\\" if found[2].isdigit() else "\\" + found[2]), line)


def code_span(text: str) -> str:
    """A span of code on one line, whatever backticks it holds."""
    text = " ".join(text.split("\n"))
    if not text.strip():
        return "` `"
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced_code(text: str, language: str = "") -> Iterator[str]:
    """A block of code between fences that are longer than any run of backticks in it."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(FENCE, longest + 1)
    yield fence + (language if _LANGUAGE.fullmatch(language) else "")
    yield from text.split("\n")
    yield fence
