"""Reading what models write as far as a document needs: fenced code, headings and tables; the rest is paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$")
_TICKS = re.compile(r"`+")
LONG = 2_000
"""Characters of a line from which on nothing is looked for in it."""


class ProseBlock(NamedTuple):
    """A run of lines of one kind."""

    kind: Literal["paragraph", "code", "heading", "table"]
    text: str
    language: str = ""


class Span(NamedTuple):
    """A piece of a line; code without its backticks."""

    text: str
    code: bool = False


def prose_blocks(text: str) -> Iterator[ProseBlock]:
    """The blocks of a text, in order; a fence without an end goes to the end."""
    lines_so_far: list[str] = []
    fence = language = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                yield ProseBlock("code", "\n".join(lines_so_far), language)
                lines_so_far, fence = [], ""
            else:
                lines_so_far.append(line)
        elif found:
            yield from _plain(lines_so_far)
            lines_so_far, fence, language = [], found[1], found[2].strip()
        else:
            lines_so_far.append(line)
    if fence:
        yield ProseBlock("code", "\n".join(lines_so_far), language)
    else:
        yield from _plain(lines_so_far)


def _plain(lines: list[str]) -> Iterator[ProseBlock]:
    run: list[str] = []
    kind: Literal["paragraph", "table"] = "paragraph"
    for line in lines:
        heading = _HEADING.match(line) if len(line) < LONG else None
        this: Literal["paragraph", "table"] = "table" if line.lstrip().startswith("|") else "paragraph"
        if run and (heading or not line.strip() or this != kind):
            yield ProseBlock(kind, "\n".join(run))
            run = []
        if heading:
            yield ProseBlock("heading", heading[1])
        elif line.strip():
            kind = this
            run.append(line)
    if run:
        yield ProseBlock(kind, "\n".join(run))


def code_spans(line: str) -> Iterator[Span]:
    """The pieces of a line: code is what stands between two equal runs of backticks."""
    if len(line) >= LONG or "`" not in line:
        yield Span(line)
        return
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(line)]
    done = index = 0
    while index < len(runs):
        begin, end = runs[index]
        close = next((n for n in range(index + 1, len(runs)) if runs[n][1] - runs[n][0] == end - begin), None)
        if close is None:
            index += 1
            continue
        if begin > done:
            yield Span(line[done:begin])
        yield Span(line[end : runs[close][0]], code=True)
        done, index = runs[close][1], close + 1
    if done < len(line):
        yield Span(line[done:])
