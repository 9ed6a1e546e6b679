"""Parse the fenced blocks of a reply, and the commands in shell blocks (E4)."""

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
    """Return the commands of a block, in order, without the output of a session."""
    lines = [line.rstrip() for line in source_lines(textwrap.dedent(body))]
    if any(_RE.prompt.match(line) for line in lines):
        return _session_commands(lines)
    if language in _RE.words("sessions"):
        return [line[2:] for line in lines if line.startswith("> ")]
    content = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if any(_RE.script_line.search(line) or not _has_balanced_quotes(line) for line in content):
        return ["\n".join(lines).strip("\n")]
    return [line.strip() for line in content]


def _session_commands(lines: list[str]) -> list[str]:
    """Return the text after prompts. An incomplete command continues after the `>` of the next lines, or on them."""
    commands: list[str] = []
    is_open = False
    for line in lines:
        prompt = _RE.prompt.match(line)
        if is_open:
            commands[-1] += "\n" + _RE.continuation.sub("", line, count=1)
        elif prompt is not None:
            commands.append(line[prompt.end() :].strip())
        else:
            continue
        is_open = _is_incomplete(commands[-1])
    return [command for command in commands if not command.startswith("#")]


def _is_incomplete(command: str) -> bool:
    if command.endswith("\\"):
        return True
    heredoc = re.search(r"(?<!<)<<(?!<)-?[ \t]*['\"]?(\w+)", command)
    if heredoc is not None:
        return re.search(rf"^\t*{heredoc.group(1)}$", command, re.MULTILINE) is None
    return not _has_balanced_quotes(command)


def _has_balanced_quotes(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


_DOTTED = (
    r"\.(?:[a-z][\w-]*(?:rc|ignore|config|attributes|modules|format|cfg)|env|envrc|flake8|python-version|tool-versions"
    r"|pre-commit-config|gitlab-ci|travis|mailmap|htaccess|rubocop|profile|bash_profile|netrc|gitkeep)(?:\.\w+)?"
)
"""Names of dotfiles; any other word with a leading dot is a value or a suffix."""
PATH = re.compile(
    r"(?<![\w./*-])(?:\.{0,2}/)?(?:\.?[\w-]+/)*"
    rf"(?:[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{{0,5}}|{_DOTTED}|Makefile|Dockerfile)(?![\w/])"
)
"""A relative file path within prose."""


class FencedBlock(msgspec.Struct, frozen=True):
    """A fenced block."""

    name: str
    """The file named for it; empty if there is none."""
    language: str
    """The first word after the fence, in lower case."""
    body: str
    closed: bool
    """False if the reply ends inside the block."""
    preceding: str = ""
    """The preceding line."""
    labelled: bool = False
    """The name stands alone: on the preceding line, after the fence, or in a comment on the first line."""

    @property
    def is_shell(self) -> bool:
        """Whether its language is a shell, or a session in one."""
        return self.language in _RE.words("shells")

    @property
    def is_sample(self) -> bool:
        """Whether the preceding line announces sample usage or output."""
        return not self.labelled and _RE.sample.search(self.preceding) is not None


def fenced_blocks(text: str) -> list[FencedBlock]:
    """Return the fenced blocks of a reply, in order."""
    blocks = []
    lines = text.splitlines(keepends=True)
    previous_end = 0
    for start, end, info, body, closed in _iter_fences(lines):
        preceding = next((line.strip() for line in reversed(lines[previous_end:start]) if line.strip()), "")
        previous_end = end
        language = info.split()[0].lower() if info else ""
        name, labelled = _block_name(info, preceding)
        if not name and not language and _RE.output_label.search(preceding):
            language = "output"
        files = _split_files(body)
        if len(files) > 1:
            blocks += [FencedBlock(path, language, part, closed, "", True) for path, part in files]
            continue
        first_line, _, following = body.partition("\n")
        comment = _RE.comment.match(first_line)
        path = comment.group(1) if comment and PATH.fullmatch(comment.group(1)) else ""
        if path and (not name or name.rsplit("/", 1)[-1] == path.rsplit("/", 1)[-1]):
            blocks.append(FencedBlock(name or path, language, following, closed, preceding, True))
        else:
            blocks.append(FencedBlock(name, language, body, closed, preceding, labelled))
    return blocks


def _split_files(body: str) -> list[tuple[str, str]]:
    """Return (path, text) of each file in a block that shows several, each below a comment with its path."""
    files: list[tuple[str, list[str]]] = []
    for line in body.splitlines(keepends=True):
        comment = _RE.comment.match(line.rstrip("\r\n"))
        if comment is not None and not line[0].isspace() and PATH.fullmatch(comment.group(1)):
            files.append((comment.group(1), []))
        elif not files:
            return []
        else:
            files[-1][1].append(line)
    return [(path, "".join(lines).strip("\n") + "\n") for path, lines in files]


def fence_spans(lines: list[str]) -> list[tuple[int, int]]:
    """Return the first line of each fenced block, and the line after it."""
    return [(start, end) for start, end, *_ in _iter_fences(lines)]


def _block_name(info: str, preceding: str) -> tuple[str, bool]:
    """Return the path in the fence's own line or alone on the preceding line, with True; else the one that line
    mentions last, with False."""
    if (path := PATH.search(info)) is not None:
        return path.group(0), True
    stripped = _RE.label.sub("", preceding).strip("*`:# ")
    if PATH.fullmatch(stripped):
        return stripped, True
    mentions = [item for item in PATH.finditer(preceding) if not _RE.program.search(preceding[: item.start()])]
    return (mentions[-1].group(0) if mentions else ""), False


def _iter_fences(lines: list[str]) -> Iterator[tuple[int, int, str, str, bool]]:
    """Yield first line, line after the end, info string, body, whether it is closed. In a Markdown block, a fence with
    a language opens a nested block."""
    end = -1
    for start, line in enumerate(lines):
        opening = _RE.fence.match(line.rstrip("\r\n")) if start > end else None
        if opening is None:
            continue
        mark, info, begin = opening.group(1), opening.group(2).strip(), start + 1
        end = _fence_end(lines, begin, mark, is_nesting=_is_markdown(info, lines[max(0, start - 2) : start]))
        if not info and _RE.heading.match("".join(lines[begin : begin + 2]).lstrip()):
            nested = _fence_end(lines, begin, mark, is_nesting=True)
            end = nested if nested < len(lines) else end
        name = "".join(lines[begin:end]).strip()
        if PATH.fullmatch(name) and end + 1 < len(lines) and lines[end + 1].strip():
            info, begin = name, end + 1  # a fence around the name alone; the file follows
            if _RE.fence.match(lines[begin].rstrip("\r\n")):
                begin += 1
            end = _fence_end(lines, begin, mark, is_nesting=info.endswith((".md", ".markdown")))
        yield start, end + 1, info, "".join(lines[begin:end]), end < len(lines)


def _fence_end(lines: list[str], begin: int, mark: str, *, is_nesting: bool) -> int:
    """Return the line that closes a fence whose content begins at `begin`, or the number of lines."""
    depth = 0
    for number in range(begin, len(lines)):
        fence = _RE.fence.match(lines[number].rstrip("\r\n"))
        if fence is not None and fence.group(1).startswith(mark):
            if fence.group(2).strip():
                depth += is_nesting
            elif depth:
                depth -= 1
            else:
                return number
    return len(lines)


def _is_markdown(info: str, preceding: list[str]) -> bool:
    language = info.split()[0].lower() if info else ""
    if language:
        return language in ("markdown", "md") or info.endswith((".md", ".markdown"))
    return re.search(r"\.(?:md|markdown)\b", "".join(preceding), re.IGNORECASE) is not None
