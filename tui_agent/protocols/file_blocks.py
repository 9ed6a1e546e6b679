"""Fenced blocks of a reply, each with the file that it is meant for (E4)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_DOTTED = (
    r"\.(?:[a-z][\w-]*(?:rc|ignore|config|attributes|modules|format|cfg)|env|envrc|flake8|python-version|tool-versions"
    r"|pre-commit-config|gitlab-ci|travis|mailmap|htaccess|rubocop|profile|bash_profile|netrc|gitkeep)(?:\.\w+)?"
)
"""Names of the files that begin with a dot: any other such word is a value or an ending."""
PATH = re.compile(
    r"(?<![\w./*-])(?:\.{0,2}/)?(?:\.?[\w-]+/)*"
    rf"(?:[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{{0,5}}|{_DOTTED}|Makefile|Dockerfile)(?![\w/])"
)
"""A relative path of a file, as it stands in prose."""
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)$")
_HEADING = re.compile(r"#{1,6} \S|.+\n={3,}|---\n")
"""How Markdown begins; a comment of a program is no harm here, since its fences must match, too."""
_PROGRAM = re.compile(r"(?:python3?|node|bash|sh|pytest|go|cargo|npm|-m)\s+`?$")
"""What stands before a path that is run, not shown."""
_LABEL = re.compile(r"^(?:#+|[-*\d.]+)?\s*\**(?:(?:file ?name|file)\b)?[:\s]*", re.IGNORECASE)
_COMMENT = re.compile(r"\s*(?:#|//|<!--|/\*|--)\s*(\S+?)\s*(?:-->|\*/)?\s*$")
_RUNNING = re.compile(
    r"\b(?:run|output|usage|command|terminal|example|response|prints?|result)\b", re.IGNORECASE
)
_SAMPLE = re.compile(
    r"\b(?:usage|example|output|response|prints?|results?|returns?|demo)\b|\bcan (?:now )?(?:be )?(?:use|call|try|test)"
    r"|\b(?:how to|to) (?:use|call|try|test)\b|\b(?:should|will|would) (?:see|look|get|be)\b",
    re.IGNORECASE,
)
"""What a line above a block says that shows how something is used, or what comes out of it."""


class Block(msgspec.Struct, frozen=True):
    """One fenced block."""

    name: str
    """The file that the reply names for it; empty where it names none."""
    language: str
    """The first word behind the fence, in lower case."""
    body: str
    closed: bool
    """False when the reply ends inside it."""
    above: str = ""
    """The line above it."""
    labelled: bool = False
    """The name stands by itself: on the line above, behind the fence, or in a comment on the first line."""

    @property
    def is_sample(self) -> bool:
        """Whether the line above says that it shows a use, or what is printed."""
        return not self.labelled and _SAMPLE.search(self.above) is not None


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a reply, in order."""
    found = []
    lines = text.splitlines(keepends=True)
    end = 0
    for first, after, info, shown, closed in _fences(lines):
        body = shown
        above = [line.strip() for line in lines[end:first] if line.strip()][-1:]
        end = after
        language = info.split()[0].lower() if info else ""
        name, labelled = _named(info, above[0] if above else "")
        if not name and not language and above and _RUNNING.search(above[0]):
            language = "output"
        several = _split(body)
        if len(several) > 1:
            found += [Block(path, language, part, closed, "", True) for path, part in several]
            continue
        opening = _COMMENT.match(body.split("\n", 1)[0])
        if opening and PATH.fullmatch(opening.group(1)):
            commented = opening.group(1)
            if not name or name.rsplit("/", 1)[-1] == commented.rsplit("/", 1)[-1]:
                name, body, labelled = name or commented, body.partition("\n")[2], True
        found.append(Block(name, language, body, closed, above[0] if above else "", labelled))
    return found


def _split(body: str) -> list[tuple[str, str]]:
    """Path and text of each file of a block that shows several, each below a comment with its path."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines(keepends=True):
        head = _COMMENT.match(line.rstrip("\r\n"))
        if head is not None and not line[0].isspace() and PATH.fullmatch(head.group(1)):
            found.append((head.group(1), []))
        elif not found:
            return []
        else:
            found[-1][1].append(line)
    return [(path, "".join(lines).strip("\n") + "\n") for path, lines in found]


def spans(lines: list[str]) -> list[tuple[int, int]]:
    """First line of each fenced block, and the line behind it."""
    return [(first, after) for first, after, *_ in _fences(lines)]


def _named(info: str, above: str) -> tuple[str, bool]:
    """The path in the fence's own line, else the one that the line above is made of, and True; else the one that the
    line above mentions last."""
    if (found := PATH.search(info)) is not None:
        return found.group(0), True
    bare = _LABEL.sub("", above).strip("*`:# ")
    if PATH.fullmatch(bare):
        return bare, True
    mentioned = [one for one in PATH.finditer(above) if not _PROGRAM.search(above[: one.start()])]
    return (mentioned[-1].group(0) if mentioned else ""), False


def _fences(lines: list[str]) -> Iterator[tuple[int, int, str, str, bool]]:
    """First line, line behind the end, what stands behind the fence, body, whether it is closed. In a block of
    Markdown a fence with a language opens a block within it."""
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at].rstrip("\r\n"))
        if opening is None:
            at += 1
            continue
        mark, info, first = opening.group(1), opening.group(2).strip(), at
        end = _end(lines, at + 1, mark, nests=_is_markdown(info, lines[max(0, at - 2) : at]))
        if not info and _HEADING.match("".join(lines[at + 1 : at + 3]).lstrip()):
            nested = _end(lines, at + 1, mark, nests=True)
            end = nested if nested < len(lines) else end
        body = "".join(lines[at + 1 : end])
        if PATH.fullmatch(body.strip()) and end + 1 < len(lines) and lines[end + 1].strip():
            info, begin = body.strip(), end + 1  # a fence around the name alone; the file follows
            if _FENCE.match(lines[begin].rstrip("\r\n")):
                begin += 1
            end = _end(lines, begin, mark, nests=info.endswith((".md", ".markdown")))
            body = "".join(lines[begin:end])
        yield first, end + 1, info, body, end < len(lines)
        at = end + 1


def _end(lines: list[str], at: int, mark: str, *, nests: bool) -> int:
    depth = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at].rstrip("\r\n"))
        if fence is not None and fence.group(1).startswith(mark):
            if fence.group(2).strip():
                depth += nests
            elif depth:
                depth -= 1
            else:
                return at
        at += 1
    return at


def _is_markdown(info: str, above: list[str]) -> bool:
    language = info.split()[0].lower() if info else ""
    if language:
        return language in ("markdown", "md") or info.endswith((".md", ".markdown"))
    return re.search(r"\.(?:md|markdown)\b", "".join(above), re.IGNORECASE) is not None
