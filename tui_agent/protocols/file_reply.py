"""Which file a fenced block of a reply is meant for (E4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tui_agent.protocols.file_blocks import PATH, FencedBlock, commands_in, fence_spans, fenced_blocks
from tui_agent.protocols.file_parts import merge_shown
from tui_agent.protocols.json_parts import load_json, load_partial_object
from tui_agent.protocols.python_source import parse_module, top_level_names
from tui_agent.protocols.removals import AllowedRemovals
from tui_agent.protocols.source_lines import likeness, likeness_of_short
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "targets")

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
_LIKE = 0.3
"""How alike a block and a file must be at least for the one to be a version of the other."""
_ALIKE = 0.6
"""The same for short texts, compared by character."""


def named_paths(text: str) -> list[str]:
    """Relative paths of files that a text names, in order, each once."""
    return list(dict.fromkeys(one.group(0).removeprefix("./") for one in PATH.finditer(text)))


class Targets:
    """The files that the blocks of one reply are meant for."""

    def __init__(self, known: Mapping[str, str], request: str, shown: Sequence[FencedBlock]) -> None:
        """`known`: path → content; `shown`: the blocks that show files."""
        self._known = known
        self._named = _wanted(request, known)
        self._new = [path for path in dict.fromkeys(self._named.values()) if path not in known]
        self._spelled = {block.name.removeprefix("./") for block in shown if block.name}
        self._alone = len(shown) == 1
        self._left: list[tuple[str, FencedBlock]] = []

    def of(self, block: FencedBlock, got: Mapping[str, str]) -> str:
        """The path of the file that a block is meant for; empty where that can't be told. `got`: what the blocks
        before it made."""
        target = self._of(block, got)
        if target.endswith(".py") and _uses(block.body, target, self._known.get(target, got.get(target, ""))):
            return ""
        return target

    def left(self, got: Mapping[str, str]) -> list[tuple[str, FencedBlock]]:
        """The blocks that fit no file by what they show, with the one that they may be meant for: new definitions go to
        a Python file, anything else only where it is all that the reply shows."""
        adding = [
            (target, block)
            for target, block in self._left
            if target.endswith(".py") and target not in got and top_level_names(block.body)
        ]
        return adding or [one for one in self._left if self._alone]

    def _of(self, block: FencedBlock, got: Mapping[str, str]) -> str:
        ending = _ending(block.language)
        if not block.name:
            return self._guessed(block, ending, got)
        target = self._meant(block)
        fresh = [name for name in self._new if name not in got and _fits(name, ending)]
        if target not in self._known and target not in self._new and len(fresh) == 1:
            target = fresh[0]  # the reply calls the new file otherwise than the request
        elif self._known.get(target, "").strip() == block.body.strip() != "":
            moved = [name for name in fresh if _base(name) == _base(target)]
            target = moved[0] if len(moved) == 1 and moved[0] not in self._spelled else target
        if block.is_sample and target in got and not self._is_version(block, target, got):
            return ""
        if _fits(target, ending):
            return target
        if target in self._known and block.above.strip("*`:# ").endswith(block.name):
            return self._guessed(block, ending, got) or target
        return self._guessed(block, ending, got)

    def _meant(self, block: FencedBlock) -> str:
        """The path of the file that a reply calls by a name. What the request spells out is never another file."""
        name = block.name.removeprefix("./")
        if name in self._named:
            return self._named[name]
        if name in self._known and "/" in name:
            return name
        bare = _RE.made_up.sub("", name)
        asked = [path for path in dict.fromkeys(self._named.values()) if _base(path) == _base(name)]
        if len(asked) == 1 and not ({asked[0], *self._spellings(asked[0])} & self._spelled):
            near = "/" not in bare or _ends(bare, asked[0]) or _ends(asked[0], bare)
            if near or (asked[0] in self._known and self._is_version(block, asked[0], self._known)):
                return asked[0]
        if name in self._known or bare in self._known:
            return name if name in self._known else bare
        same = [one for one in self._known if _base(one) == _base(name)]
        if len(same) == 1 and (
            "/" not in bare or _ends(name, same[0]) or self._is_version(block, same[0], self._known)
        ):
            return same[0]
        ends = [one for one in self._known if "/" in one and _ends(name, one)]
        return max(ends, key=len) if ends else bare

    def _spellings(self, path: str) -> set[str]:
        return {name for name, meant in self._named.items() if meant == path}

    def _is_version(self, block: FencedBlock, name: str, files: Mapping[str, str]) -> bool:
        """Whether a block shows the file, or a part of it."""
        text = files.get(name, self._known.get(name, ""))
        if name.endswith(".py"):
            return bool(top_level_names(block.body) & top_level_names(text)) or _like(text, block.body)
        if name.endswith(".json"):
            was, now = load_json(text), load_json(load_partial_object(block.body))
            if isinstance(was, dict) and isinstance(now, dict) and was.keys() & now.keys():
                return True
        return _like(text, block.body)

    def _guessed(self, block: FencedBlock, ending: str, got: Mapping[str, str]) -> str:
        body = block.body
        defined = top_level_names(body)
        if defined:
            every = {**self._known, **got}
            fit = [name for name, text in every.items() if name.endswith(".py") and defined & top_level_names(text)]
            if len(fit) == 1:
                return fit[0]
        fresh = [name for name in self._new if name not in got and _fits(name, ending)]
        meant = len(fresh) == 1 and not (defined and not fresh[0].endswith(".py"))
        if meant and (self._alone or not block.is_sample):
            return fresh[0]
        fitting = [name for name in self._known if _fits(name, ending)]
        like = [name for name in fitting if self._is_version(block, name, self._known)]
        if len(like) == 1:
            return like[0]
        if ending and not fresh:
            named = [name for name in fitting if name in self._named.values()]
            only = named if len(named) == 1 else fitting
            if len(only) == 1 and (only == named or (ending == "py" and defined)):
                self._left.append((only[0], block))
        return ""


def _wanted(request: str, known: Mapping[str, str]) -> dict[str, str]:
    """The paths that a request names, each as it spells it, and the file that it means: the one that is called so, else
    the only one whose path ends so, unless a new file is asked for."""
    found: dict[str, str] = {}
    for one in PATH.finditer(request):
        name = one.group(0).removeprefix("./")
        if name in found:
            continue
        same = [path for path in known if _ends(path.lower(), name.lower()) or path.lower() == name.lower()]
        outer = [path for path in known if "/" in path and _ends(name, path)]
        is_new = _RE.new.search(request, max(0, one.start() - 60), one.start()) is not None
        if name in known or is_new:
            found[name] = name
        elif len(same) == 1:
            found[name] = same[0]
        else:
            found[name] = outer[0] if len(outer) == 1 and not same else name
    return found


def _ends(path: str, end: str) -> bool:
    return path.endswith(f"/{end}")


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower()


def _ending(language: str) -> str:
    ending = _ENDINGS.get(language, language)
    return ending if ending in _RE.words("known_endings") else ""


def _fits(name: str, ending: str) -> bool:
    if not ending:
        return True
    own = name.rsplit(".", 1)[-1].lower()
    return own == ending or {own, ending} <= {"yaml", "yml"} or "." not in name


def _like(one: str, other: str) -> bool:
    return likeness(one, other) > _LIKE or likeness_of_short(one, other) > _ALIKE


def _uses(body: str, target: str, old: str) -> bool:
    """Whether a block imports the module that it would be written to: it shows a use of it."""
    tree = parse_module(body)
    module = target.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = {module, module.removeprefix("src.")}
    if tree is None or top_level_names(body) & top_level_names(old):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in names:
            return True
        if isinstance(node, ast.Import) and names & {one.name for one in node.names}:
            return True
    return False


READ = 20_000
"""Characters of a request that are read."""

__all__ = ["FileReply", "named_paths", "read_file_reply", "without_files"]


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


def read_file_reply(text: str, known: Mapping[str, str], request: str, going: Collection[str] = ()) -> FileReply:
    """What the reply `text` to `request` makes of the files `known` (path → content).

    `going`: names of definitions that may vanish by it.

    A block without a name goes to the file that it is most likely a version of, or to the one new file that the request
    names; a part of a file goes to its place in it.
    """
    shown = [block for block in fenced_blocks(_without_echo(text)) if block.body.strip()]
    made = _ProjectChanges(known, AllowedRemovals(request[:READ], going))
    targets = Targets(known, request[:READ], [block for block in shown if not _is_output(block)])
    commands: list[str] = []
    for block in shown:
        if _is_output(block):
            commands += commands_in(block.body, block.language) if block.is_shell else ()
        elif target := targets.of(block, made.files):
            made.show(target, block)
    for target, block in targets.left(made.files):
        made.show(target, block)
    return made.reply(commands)


class _ProjectChanges:
    """What the blocks of a reply make of the files, one after the other."""

    def __init__(self, known: Mapping[str, str], allowed: AllowedRemovals) -> None:
        self._known = known
        self._allowed = allowed
        self.files: dict[str, str] = {}
        self.shown = 0
        self._problems: dict[str, str] = {}
        self._doubts: dict[str, str] = {}

    def show(self, target: str, block: FencedBlock) -> None:
        """A block for the file `target`."""
        self.shown += 1
        body = block.body if block.body.endswith("\n") else block.body + "\n"
        if target in self.files and target.endswith(".py") and parse_module(body) is None:
            return
        old = self.files.get(target, self._known.get(target))
        if old is None:
            self.files[target] = body
            return
        found = merge_shown(target, old, body, self._allowed, closed=block.closed)
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
        changed = {name: after for name, after in self.files.items() if not _same(self._known.get(name), after)}
        doubts = tuple(text for name, text in self._doubts.items() if name in changed)
        return FileReply(
            changed, self.shown, () if self.shown else tuple(commands), tuple(self._problems.values()), doubts
        )


def without_files(text: str) -> str:
    """A reply without its fenced blocks and the lines that only name a file above them."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    end = 0
    for first, after in fence_spans(lines):
        before = lines[end:first]
        while before and (not before[-1].strip() or PATH.fullmatch(before[-1].strip().strip("*`:# "))):
            before.pop()
        kept += before
        end = after
    kept += lines[end:]
    kept = [line for line in kept if not _RE.echo.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip()


def _without_echo(text: str) -> str:
    """A reply without a fence around all the files that it repeats: within it none of theirs would be seen."""
    return _RE.around.sub(r"\1", text)


def _same(old: str | None, new: str) -> bool:
    return old is not None and old.strip() == new.strip()


def _is_output(block: FencedBlock) -> bool:
    """Whether a block shows commands or what they print. A shell script is a file where the reply names it as one."""
    if _RE.printed.match(block.body):
        return True
    shows = block.is_shell or block.language in ("output", "text-output", "diff")
    return shows and not block.name.endswith((".sh", ".bash", ".zsh", ".patch", ".diff"))
