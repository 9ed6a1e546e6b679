"""Markdown export. Messages keep lists and code, but can't add headings, links, images or HTML."""

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
    trimmed_text,
)

SYMBOLS = {"ok": "✓ ", "bad": "✗ ", "warn": "! ", "": ""}
HEADINGS = {"user": "##", "agent": "###", "plan": "###", "step": "###", "summary": "###", "document": "##"}
"""Kind of section → heading mark; the others start with a bold line."""
MIN_FENCE = 3

_TICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+.#-]{1,20}")
_SPECIAL = re.compile(r"[\\`<]|&(?=[#A-Za-z])|(?<=\])[\[(:]|~{3,}")
"""Starts of code spans, HTML, character references, links, images and fences."""
_EMPHASIS = re.compile(r"\*|(?<!\w)_|_(?!\w)")
_MARKS = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]*)*"
_HEADING = re.compile(rf"^({_MARKS})(#{{1,6}}(?=\s|$)|[=-](?=[ \t=-]*$))")
"""A heading or its underline, possibly in a list or quote."""
_LIST = re.compile(r"^([ \t]*)([-+](?=\s|$)|>|\d{1,9}(?=[.)](?:\s|$)))")


def markdown_pieces(document: ExportDocument) -> Iterator[str]:
    """Yield the text of the file in pieces."""
    yield f"# {escaped_text(document.title)}\n\n"
    for name, value in document.facts:
        yield f"- {name}: {code_span(value)}\n"
    for section in document.sections:
        yield "\n" + "\n".join(_section(section)).rstrip("\n") + "\n"


def _section(section: ExportSection) -> Iterator[str]:
    head = SYMBOLS[section.tone] + escaped_text(trimmed_text(section.title))
    subject = f" {code_span(trimmed_text(section.subject))}" if section.subject else ""
    note = f" · {escaped_text(section.note)}" if section.note else ""
    if level := HEADINGS.get(section.kind):
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
            yield from _prose(trimmed_text(text), "  \n" if breaks else "\n")
        case TextPart(text):
            yield escaped_text(trimmed_text(text)).replace("\n", "  \n")
        case FoldedPart(title, parts):
            yield f"<details><summary>{escape(title)}</summary>"
            for inner in parts:
                yield ""
                yield from _part(inner)
            yield ""
            yield "</details>"
        case _:
            yield from fenced_code(trimmed_text(part.text), part.language)


def _prose(text: str, line_end: str) -> Iterator[str]:
    for number, block in enumerate(prose_blocks(text)):
        if number:
            yield ""
        match block.kind:
            case "code":
                if block.language and not _LANGUAGE.fullmatch(block.language):
                    yield escaped_text(block.language)
                    yield ""
                yield from fenced_code(block.text, block.language)
            case "heading":
                yield f"**{_inline(block.text).replace('**', '')}**"
            case _:
                yield line_end.join(_inline(line) for line in block.text.split("\n"))


def _inline(line: str) -> str:
    """Escape a line except for code, emphasis, and a list or quote mark at its start."""
    indent = line[: len(line) - len(line.lstrip())]
    quote = "> " if line.lstrip().startswith(">") else ""
    body = line.lstrip()[1:].lstrip() if quote else line.lstrip()
    escaped = "".join(
        code_span(span.text)
        if span.is_code and "|" not in span.text
        else _escape(f"`{span.text}`" if span.is_code else span.text)
        for span in code_spans(body)
    )
    return indent.expandtabs(4)[:12] + quote + _HEADING.sub(r"\1\\\2", escaped)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def escaped_text(text: str) -> str:
    """Escape all markup."""
    return "\n".join(_escape_line(line) for line in text.split("\n"))


def _escape_line(line: str) -> str:
    line = _EMPHASIS.sub(r"\\\g<0>", _escape(line).strip())
    line = _HEADING.sub(r"\1\\\2", line)
    return _LIST.sub(lambda match: match[1] + (match[2] + "\\" if match[2].isdigit() else "\\" + match[2]), line)


def code_span(text: str) -> str:
    """A code span on one line, delimited according to the backticks in it."""
    text = " ".join(text.split("\n"))
    if not text.strip():
        return "` `"
    ticks = "`" * (_longest_backticks(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced_code(text: str, language: str = "") -> Iterator[str]:
    """A code block between fences longer than any run of backticks in it."""
    fence = "`" * max(MIN_FENCE, _longest_backticks(text) + 1)
    yield fence + (language if _LANGUAGE.fullmatch(language) else "")
    yield from text.split("\n")
    yield fence


def _longest_backticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
