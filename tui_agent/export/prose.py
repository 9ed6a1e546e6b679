"""Parses the Markdown of models as far as an export needs: fenced code, headings, tables; the rest is paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
MAX_PARSED_LINE = 2_000
"""Characters of a line; longer lines are not parsed."""


class ProseBlock(NamedTuple):
    """Consecutive lines of one kind."""

    kind: Literal["paragraph", "code", "heading", "table"]
    text: str
    language: str = ""


class Span(NamedTuple):
    """A part of a line; code without its backticks."""

    text: str
    is_code: bool = False


def prose_blocks(text: str) -> Iterator[ProseBlock]:
    """Split a text into blocks; an unclosed fence extends to the end."""
    pending: list[str] = []
    fence = language = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                yield ProseBlock("code", "\n".join(pending), language)
                pending, fence = [], ""
            else:
                pending.append(line)
        elif match:
            yield from _text_blocks(pending)
            pending, fence, language = [], match[1], match[2].strip()
        else:
            pending.append(line)
    if fence:
        yield ProseBlock("code", "\n".join(pending), language)
    else:
        yield from _text_blocks(pending)


def _text_blocks(lines: list[str]) -> Iterator[ProseBlock]:
    for kind, group in groupby(lines, _line_kind):
        if kind == "heading":
            yield from (ProseBlock("heading", _HEADING.sub(r"\1", line)) for line in group)
        elif kind != "blank":
            yield ProseBlock(kind, "\n".join(group))


def _line_kind(line: str) -> Literal["blank", "heading", "table", "paragraph"]:
    if not line.strip():
        return "blank"
    if len(line) < MAX_PARSED_LINE and _HEADING.match(line):
        return "heading"
    return "table" if line.lstrip().startswith("|") else "paragraph"


def code_spans(line: str) -> Iterator[Span]:
    """Split a line into spans: code is between two runs of backticks of the same length."""
    if len(line) >= MAX_PARSED_LINE or "`" not in line:
        yield Span(line)
        return
    position = 0
    for match in _CODE.finditer(line):
        if match.start() > position:
            yield Span(line[position : match.start()])
        yield Span(match[2], is_code=True)
        position = match.end()
    if position < len(line):
        yield Span(line[position:])
