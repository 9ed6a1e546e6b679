"""The files protocol: a reply shows whole files, or whole definitions of one, in fenced blocks (E4)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

import msgspec

from tui_agent.protocols.file_blocks import PATH, Block, blocks, spans
from tui_agent.protocols.python_source import merged, parsed, top_level

SHELLS = frozenset(
    {"sh", "bash", "console", "shell", "shell-session", "zsh", "cmd", "powershell", "terminal"}
)
_OUTPUT = SHELLS | {"output", "text-output", "diff"}
_PRINTED = re.compile(r"\s*(?:\$ |>>> |Traceback \(most)")
_ECHO = re.compile(r"\s*</?agent_\w+>\s*$|\s*The files of my project:\s*$")
"""A line that the model repeats from what it was shown."""
_ENDINGS = {
    "python": "py",
    "python3": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "rust": "rs",
    "ruby": "rb",
    "yml": "yaml",
    "html": "html",
}
"""The ending of a language's files, where it isn't the language's own name."""
_KNOWN_ENDINGS = frozenset(
    (
        "py",
        "js",
        "ts",
        "jsx",
        "tsx",
        "json",
        "yaml",
        "toml",
        "md",
        "html",
        "css",
        "go",
        "rs",
        "rb",
        "java",
        "c",
    )
)
_LIKE = 0.3
"""How alike a block and a file must be at least for the one to be a version of the other."""


class FileReply(msgspec.Struct, frozen=True):
    """What a reply makes of the project."""

    files: dict[str, str]
    """Path → new content, of the files that become another by it."""
    shown: int
    """Blocks that show files, those among them that change nothing."""
    commands: tuple[str, ...] = ()
    """Command lines that it shows, where it shows no file."""


def read(text: str, known: Mapping[str, str], request: str, going: Collection[str] = ()) -> FileReply:
    """What the reply `text` to `request` makes of the files `known` (path → content).

    `going`: names of definitions that may vanish by it.

    A block without a name goes to the file that it is most likely a version of, or to the one new file that the request
    names; a block with a part of a Python file replaces that part.
    """
    new = [one for one in named_paths(request) if known_as(one, known) not in known]
    got: dict[str, str] = {}
    shown = 0
    commands: list[str] = []
    for block in blocks(text):
        if not block.body.strip():
            continue
        if _is_output(block):
            if block.language in SHELLS:
                commands += _command_lines(block.body)
            continue
        target = _target(block, known, new, got)
        if not target:
            continue
        shown += 1
        body = block.body if block.body.endswith("\n") else block.body + "\n"
        old = got.get(target, known.get(target))
        if target in got and target.endswith(".py") and parsed(body) is None:
            continue
        got[target] = _content(target, old, body, going)
    changed = {name: after for name, after in got.items() if not _same(known.get(name), after)}
    return FileReply(changed, shown, () if shown else tuple(commands))


def without_files(text: str) -> str:
    """A reply without its fenced blocks and the lines that only name a file above them."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    end = 0
    for first, after in spans(lines):
        before = lines[end:first]
        while before and (not before[-1].strip() or PATH.fullmatch(before[-1].strip().strip("*`:# "))):
            before.pop()
        kept += before
        end = after
    kept += lines[end:]
    kept = [line for line in kept if not _ECHO.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip()


def named_paths(text: str) -> list[str]:
    """Relative paths of files that a text names, in order, each once."""
    return list(dict.fromkeys(one.group(0).removeprefix("./") for one in PATH.finditer(text)))


def known_as(name: str, known: Mapping[str, str]) -> str:
    """The path under which a file is known that a reply calls `name`; `name` without made-up folders if it is not."""
    name = name.removeprefix("./")
    if name in known:
        return name
    base = name.rsplit("/", 1)[-1].lower()
    same = [one for one in known if one.rsplit("/", 1)[-1].lower() == base]
    if len(same) == 1:
        return same[0]
    ends = [one for one in known if name.endswith(f"/{one}")]
    if ends:
        return max(ends, key=len)
    return re.sub(r"^(?:(?:path|to|of|the|your|project)/)+", "", name)


def _same(old: str | None, new: str) -> bool:
    return old is not None and old.strip() == new.strip()


def _is_output(block: Block) -> bool:
    """Whether a block shows commands or what they print. A shell script is a file where the reply names it as one."""
    if _PRINTED.match(block.body):
        return True
    return block.language in _OUTPUT and not block.name.endswith((".sh", ".bash", ".zsh", ".patch", ".diff"))


def _command_lines(body: str) -> list[str]:
    lines = [line.strip().removeprefix("$ ") for line in body.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _content(target: str, old: str | None, body: str, going: Collection[str]) -> str:
    if old is None:
        return body
    if target.endswith(".py"):
        return merged(old, body, going)
    return _appended(old, body) if target.endswith(".md") else body


def _appended(old: str, body: str) -> str:
    """A Markdown file with the section that a block adds, where the block shows nothing of what is there."""
    there = {line.strip() for line in old.splitlines() if line.strip()}
    given = [line.strip() for line in body.splitlines() if line.strip()]
    if given and given[0].startswith("##") and not there & set(given):
        return f"{old.rstrip()}\n\n{body}"
    return body


def _ending(language: str) -> str:
    ending = _ENDINGS.get(language, language)
    return ending if ending in _KNOWN_ENDINGS else ""


def _fits(name: str, ending: str) -> bool:
    if not ending:
        return True
    own = name.rsplit(".", 1)[-1].lower()
    return own == ending or {own, ending} <= {"yaml", "yml"} or "." not in name


def _target(block: Block, known: Mapping[str, str], new: list[str], got: Mapping[str, str]) -> str:
    """The path of the file that a block is meant for; empty where that can't be told."""
    ending = _ending(block.language)
    if block.name:
        target = known_as(block.name, known)
        fresh = [name for name in new if name not in got and _fits(name, ending)]
        if target not in known and target not in new and len(fresh) == 1:
            target = fresh[0]  # the reply calls the new file otherwise than the request
        if _fits(target, ending):
            return target
        if target in known and block.above.strip("*`:# ").endswith(block.name):
            return _guessed(block.body, ending, known, new, got) or target
    return _guessed(block.body, ending, known, new, got)


def _guessed(body: str, ending: str, known: Mapping[str, str], new: list[str], got: Mapping[str, str]) -> str:
    defined = top_level(body)
    if defined:
        every = {**known, **got}
        fit = [name for name, text in every.items() if name.endswith(".py") and defined & top_level(text)]
        if len(fit) == 1:
            return fit[0]
    fresh = [name for name in new if name not in got and _fits(name, ending)]
    if len(fresh) == 1 and not (defined and not fresh[0].endswith(".py")):
        return fresh[0]
    fitting = [name for name in known if _fits(name, ending)]
    like = [
        name
        for name in fitting
        if difflib.SequenceMatcher(None, known[name].splitlines(), body.splitlines()).ratio() > _LIKE
    ]
    if len(like) == 1:
        return like[0]
    return fitting[0] if len(fitting) == 1 and not fresh else ""
