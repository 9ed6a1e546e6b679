"""The files protocol: a reply shows whole files, or whole definitions of one, in fenced blocks (E4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from tui_agent.protocols.command_blocks import SHELLS, commands_in
from tui_agent.protocols.file_blocks import PATH, Block, blocks, spans
from tui_agent.protocols.file_parts import placed
from tui_agent.protocols.file_targets import Targets, named_paths
from tui_agent.protocols.leave import Leave
from tui_agent.protocols.python_source import parsed

_OUTPUT = SHELLS | {"output", "text-output", "diff"}
READ = 20_000
"""Characters of a request that are read."""
_PRINTED = re.compile(r"\s*(?:\$ |>>> |Traceback \(most)")
_ECHO = re.compile(r"\s*</?agent_\w+>\s*$|\s*The files of my project:\s*$")
"""A line that the model repeats from what it was shown."""
_AROUND = re.compile(
    r"\A((?:(?![ \t]*```).*\n)*)[ \t]*```\w*[ \t]*\n(?=\s*(?:<agent_files>|The files of my project:)\s*$)",
    re.MULTILINE,
)

__all__ = ["FileReply", "named_paths", "read", "without_files"]


class FileReply(msgspec.Struct, frozen=True):
    """What a reply makes of the project."""

    files: dict[str, str]
    """Path → new content, of the files that become another by it."""
    shown: int
    """Blocks that show files, those among them that change nothing."""
    commands: tuple[str, ...] = ()
    """Commands that it shows, where it shows no file: each a line, or a script of several."""
    problems: tuple[str, ...] = ()
    """Why files that it shows are not among `files`, for the model: it shows a part that can't be placed."""
    doubts: tuple[str, ...] = ()
    """What may be wrong with those that are, for the model; it may be meant so."""


def read(text: str, known: Mapping[str, str], request: str, going: Collection[str] = ()) -> FileReply:
    """What the reply `text` to `request` makes of the files `known` (path → content).

    `going`: names of definitions that may vanish by it.

    A block without a name goes to the file that it is most likely a version of, or to the one new file that the request
    names; a part of a file goes to its place in it.
    """
    shown = [block for block in blocks(_without_echo(text)) if block.body.strip()]
    made = _Made(known, Leave(request[:READ], going))
    targets = Targets(known, request[:READ], [block for block in shown if not _is_output(block)])
    commands: list[str] = []
    for block in shown:
        if _is_output(block):
            commands += commands_in(block.body, block.language) if block.language in SHELLS else ()
        elif target := targets.of(block, made.files):
            made.show(target, block)
    for target, block in targets.left(made.files):
        made.show(target, block)
    return made.reply(commands)


class _Made:
    """What the blocks of a reply make of the files, one after the other."""

    def __init__(self, known: Mapping[str, str], leave: Leave) -> None:
        self._known = known
        self._leave = leave
        self.files: dict[str, str] = {}
        self.shown = 0
        self._problems: dict[str, str] = {}
        self._doubts: dict[str, str] = {}

    def show(self, target: str, block: Block) -> None:
        """A block for the file `target`."""
        self.shown += 1
        body = block.body if block.body.endswith("\n") else block.body + "\n"
        if target in self.files and target.endswith(".py") and parsed(body) is None:
            return
        old = self.files.get(target, self._known.get(target))
        if old is None:
            self.files[target] = body
            return
        found = placed(target, old, body, self._leave, closed=block.closed)
        again = target in self.files
        if again and (found.problem or found.doubt):
            return  # the file itself was shown above it
        self._problems.pop(target, None)
        self._doubts.pop(target, None)
        if found.problem:
            self._problems[target] = found.problem
            return
        self.files[target] = found.text
        if found.doubt:
            self._doubts[target] = found.doubt

    def reply(self, commands: list[str]) -> FileReply:
        """All in all."""
        changed = {
            name: after for name, after in self.files.items() if not _same(self._known.get(name), after)
        }
        doubts = tuple(text for name, text in self._doubts.items() if name in changed)
        return FileReply(
            changed,
            self.shown,
            () if self.shown else tuple(commands),
            tuple(self._problems.values()),
            doubts,
        )


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


def _without_echo(text: str) -> str:
    """A reply without a fence around all the files that it repeats: within it none of theirs would be seen."""
    return _AROUND.sub(r"\1", text)


def _same(old: str | None, new: str) -> bool:
    return old is not None and old.strip() == new.strip()


def _is_output(block: Block) -> bool:
    """Whether a block shows commands or what they print. A shell script is a file where the reply names it as one."""
    if _PRINTED.match(block.body):
        return True
    return block.language in _OUTPUT and not block.name.endswith((".sh", ".bash", ".zsh", ".patch", ".diff"))
