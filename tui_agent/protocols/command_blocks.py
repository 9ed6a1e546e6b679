"""The commands that a fenced block of a shell shows: each line for itself, or a script as one (E4)."""

from __future__ import annotations

import re
import shlex
import textwrap

from tui_agent.protocols.source_lines import lines_of

SHELLS = frozenset(
    {"sh", "bash", "console", "shell", "shell-session", "zsh", "cmd", "powershell", "terminal"}
)
_SESSIONS = frozenset({"console", "shell-session", "terminal"})
"""Languages of blocks that show what is typed and what is printed."""
_PROMPT = re.compile(
    r"[ \t]*(?:\([\w.-]+\)[ \t]+)?(?:[\w.-]+@[\w.-]+[:\w~/.-]*)?"
    r"(?:\$|PS[^>\n]{0,80}>|[A-Z]:\\[^>\n]{0,80}>)[ \t]+(?=\S)"
)
_MORE = re.compile(r"[ \t]*>[ \t]?")
_SHAPED = re.compile(
    r"<<|[\\|({]$|&&$|^[ \t]+\S|^(?:if|for|while|until|case|select|function|do|done|then|else|elif|fi|esac|\{|\})\b"
    r"|^[\w-]+[ \t]*\(\)|^[{}]|^(?:cd|pushd|popd|export|source|\.|set|unset|alias|trap|umask|declare|local|read)[ \t]"
    r"|^[A-Za-z_]\w*=\S*[ \t]*(?:$|;)|^#!"
)
"""What a line has that means something to those behind it."""


def commands_in(body: str, language: str) -> list[str]:
    """The commands of a block, in order. What a session prints is none of them."""
    lines = [line.rstrip() for line in lines_of(textwrap.dedent(body))]
    if any(_PROMPT.match(line) for line in lines):
        return _typed(lines)
    if language in _SESSIONS:
        found = [_MORE.sub("", line, count=1) for line in lines if line.startswith("> ")]
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
        prompt = _PROMPT.match(line)
        if prompt is not None and not open_:
            found.append(line[prompt.end() :].strip())
        elif open_:
            found[-1] += "\n" + _MORE.sub("", line, count=1)
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
    return _SHAPED.search(line) is None and _is_quoted_well(line)


def _is_quoted_well(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True
