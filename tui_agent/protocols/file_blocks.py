"""The commands that a fenced block of a shell shows: each line for itself, or a script as one (E4)."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator

import msgspec

from tui_agent.protocols.source_lines import source_lines
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "blocks")


def commands_in(body: str, language: str) -> list[str]:
    """The commands of a block, in order. What a session prints is none of them."""
    lines = [line.rstrip() for line in source_lines(textwrap.dedent(body))]
    if any(_RE.prompt.match(line) for line in lines):
        return _typed(lines)
    if language in _RE.words("sessions"):
        found = [_RE.more.sub("", line, count=1) for line in lines if line.startswith("> ")]
        return [line for line in found if line]
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if all(_is_simple(line) for line in said):
        return [line.strip() for line in said]
    script = "\n".join(lines).strip("\n")
    return [script] if said else []


def _typed(lines: list[str]) -> list[str]:
    """What stands behind the prompts; a command that is not at its end goes on behind the `>` of the next lines, or
    in them."""
    found: list[str] = []
    open_ = False
    for line in lines:
        prompt = _RE.prompt.match(line)
        if prompt is not None and not open_:
            found.append(line[prompt.end() :].strip())
        elif open_:
            found[-1] += "\n" + _RE.more.sub("", line, count=1)
        else:
            continue
        open_ = _goes_on(found[-1])
    return [one for one in found if not one.startswith("#")]


def _goes_on(command: str) -> bool:
    if command.endswith("\\"):
        return True
    here = re.search(r"(?<!<)<<(?!<)-?[ \t]*['\"]?(\w+)", command)
    if here is not None:
        return re.search(rf"^\t*{here.group(1)}$", command, re.MULTILINE) is None
    return not _is_quoted_well(command)


def _is_simple(line: str) -> bool:
    return _RE.shaped.search(line) is None and _is_quoted_well(line)


def _is_quoted_well(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


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


class FencedBlock(msgspec.Struct, frozen=True):
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
    def is_shell(self) -> bool:
        """Whether its language is that of a shell or of a session in one."""
        return self.language in _RE.words("shells")

    @property
    def is_sample(self) -> bool:
        """Whether the line above says that it shows a use, or what is printed."""
        return not self.labelled and _RE.sample.search(self.above) is not None


def fenced_blocks(text: str) -> list[FencedBlock]:
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
        if not name and not language and above and _RE.running.search(above[0]):
            language = "output"
        several = _split(body)
        if len(several) > 1:
            found += [FencedBlock(path, language, part, closed, "", True) for path, part in several]
            continue
        opening = _RE.comment.match(body.split("\n", 1)[0])
        if opening and PATH.fullmatch(opening.group(1)):
            commented = opening.group(1)
            if not name or name.rsplit("/", 1)[-1] == commented.rsplit("/", 1)[-1]:
                name, body, labelled = name or commented, body.partition("\n")[2], True
        found.append(FencedBlock(name, language, body, closed, above[0] if above else "", labelled))
    return found


def _split(body: str) -> list[tuple[str, str]]:
    """Path and text of each file of a block that shows several, each below a comment with its path."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines(keepends=True):
        head = _RE.comment.match(line.rstrip("\r\n"))
        if head is not None and not line[0].isspace() and PATH.fullmatch(head.group(1)):
            found.append((head.group(1), []))
        elif not found:
            return []
        else:
            found[-1][1].append(line)
    return [(path, "".join(lines).strip("\n") + "\n") for path, lines in found]


def fence_spans(lines: list[str]) -> list[tuple[int, int]]:
    """First line of each fenced block, and the line behind it."""
    return [(first, after) for first, after, *_ in _fences(lines)]


def _named(info: str, above: str) -> tuple[str, bool]:
    """The path in the fence's own line, else the one that the line above is made of, and True; else the one that the
    line above mentions last."""
    if (found := PATH.search(info)) is not None:
        return found.group(0), True
    bare = _RE.label.sub("", above).strip("*`:# ")
    if PATH.fullmatch(bare):
        return bare, True
    mentioned = [one for one in PATH.finditer(above) if not _RE.program.search(above[: one.start()])]
    return (mentioned[-1].group(0) if mentioned else ""), False


def _fences(lines: list[str]) -> Iterator[tuple[int, int, str, str, bool]]:
    """First line, line behind the end, what stands behind the fence, body, whether it is closed. In a block of
    Markdown a fence with a language opens a block within it."""
    at = 0
    while at < len(lines):
        opening = _RE.fence.match(lines[at].rstrip("\r\n"))
        if opening is None:
            at += 1
            continue
        mark, info, first = opening.group(1), opening.group(2).strip(), at
        end = _end(lines, at + 1, mark, nests=_is_markdown(info, lines[max(0, at - 2) : at]))
        if not info and _RE.heading.match("".join(lines[at + 1 : at + 3]).lstrip()):
            nested = _end(lines, at + 1, mark, nests=True)
            end = nested if nested < len(lines) else end
        body = "".join(lines[at + 1 : end])
        if PATH.fullmatch(body.strip()) and end + 1 < len(lines) and lines[end + 1].strip():
            info, begin = body.strip(), end + 1  # a fence around the name alone; the file follows
            if _RE.fence.match(lines[begin].rstrip("\r\n")):
                begin += 1
            end = _end(lines, begin, mark, nests=info.endswith((".md", ".markdown")))
            body = "".join(lines[begin:end])
        yield first, end + 1, info, body, end < len(lines)
        at = end + 1


def _end(lines: list[str], at: int, mark: str, *, nests: bool) -> int:
    depth = 0
    while at < len(lines):
        fence = _RE.fence.match(lines[at].rstrip("\r\n"))
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
