"""Assign the fenced blocks of a reply to files and merge them (E4)."""

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
from tui_agent.protocols.source_lines import char_similarity, similarity
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "targets")

_SUFFIXES = {
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
"""File suffixes of languages whose name isn't the suffix itself."""
_MIN_SIMILARITY = 0.3
"""Minimum similarity by lines of a block and a file for one to be a version of the other."""
_MIN_CHAR_SIMILARITY = 0.6
"""The same for short texts, by character."""


def named_paths(text: str) -> list[str]:
    """Return the relative file paths that a text mentions, in order, each once."""
    return list(dict.fromkeys(item.group(0).removeprefix("./") for item in PATH.finditer(text)))


class BlockTargets:
    """Assigns the blocks of a reply to files."""

    def __init__(self, known: Mapping[str, str], request: str, shown: Sequence[FencedBlock]) -> None:
        """`known`: path → content; `shown`: the blocks that show files."""
        self._known = known
        self._requested = _requested_files(request, known)
        self._new_files = [path for path in dict.fromkeys(self._requested.values()) if path not in known]
        self._names = {block.name.removeprefix("./") for block in shown if block.name}
        self._is_only_block = len(shown) == 1
        self._unassigned: list[tuple[str, FencedBlock]] = []

    def assign(self, block: FencedBlock, merged: Mapping[str, str]) -> str:
        """Return the path of a block's file; empty if that is unclear. `merged`: the files made by earlier blocks."""
        target = self._assign(block, merged)
        if target.endswith(".py") and _only_uses_module(
            block.body, target, self._known.get(target, merged.get(target, ""))
        ):
            return ""
        return target

    def unassigned(self, merged: Mapping[str, str]) -> list[tuple[str, FencedBlock]]:
        """Return the unassigned blocks with the file they may belong to: new definitions go to a Python file, anything
        else only if it is all that the reply shows."""
        additions = [
            (target, block)
            for target, block in self._unassigned
            if target.endswith(".py") and target not in merged and top_level_names(block.body)
        ]
        return additions or [item for item in self._unassigned if self._is_only_block]

    def _assign(self, block: FencedBlock, merged: Mapping[str, str]) -> str:
        suffix = _language_suffix(block.language)
        if not block.name:
            return self._guess(block, suffix, merged)
        target = self._named_file(block)
        unmade = [name for name in self._new_files if name not in merged and _has_suffix(name, suffix)]
        if target not in self._known and target not in self._new_files and len(unmade) == 1:
            target = unmade[0]  # the reply calls the new file otherwise than the request
        elif self._known.get(target, "").strip() == block.body.strip() != "":
            same_name = [name for name in unmade if _base_name(name) == _base_name(target)]
            target = same_name[0] if len(same_name) == 1 and same_name[0] not in self._names else target
        if block.is_sample and target in merged and not self._is_version(block, target, merged):
            return ""
        if _has_suffix(target, suffix):
            return target
        if target in self._known and block.preceding.strip("*`:# ").endswith(block.name):
            return self._guess(block, suffix, merged) or target
        return self._guess(block, suffix, merged)

    def _named_file(self, block: FencedBlock) -> str:
        """Return the path that a block's name refers to. A name spelled out in the request never means another file."""
        name = block.name.removeprefix("./")
        if name in self._requested:
            return self._requested[name]
        if name in self._known and "/" in name:
            return name
        stripped = _RE.made_up.sub("", name)
        requested = [path for path in dict.fromkeys(self._requested.values()) if _base_name(path) == _base_name(name)]
        if len(requested) == 1 and not ({requested[0], *self._spellings(requested[0])} & self._names):
            is_near = "/" not in stripped or _ends_with(stripped, requested[0]) or _ends_with(requested[0], stripped)
            if is_near or (requested[0] in self._known and self._is_version(block, requested[0], self._known)):
                return requested[0]
        if name in self._known or stripped in self._known:
            return name if name in self._known else stripped
        matches = [item for item in self._known if _base_name(item) == _base_name(name)]
        if len(matches) == 1 and (
            "/" not in stripped or _ends_with(name, matches[0]) or self._is_version(block, matches[0], self._known)
        ):
            return matches[0]
        suffix_matches = [item for item in self._known if "/" in item and _ends_with(name, item)]
        return max(suffix_matches, key=len) if suffix_matches else stripped

    def _spellings(self, path: str) -> set[str]:
        return {name for name, requested in self._requested.items() if requested == path}

    def _is_version(self, block: FencedBlock, name: str, files: Mapping[str, str]) -> bool:
        """Whether a block shows the file or a part of it."""
        text = files.get(name, self._known.get(name, ""))
        if name.endswith(".py"):
            return bool(top_level_names(block.body) & top_level_names(text)) or _is_similar(text, block.body)
        if name.endswith(".json"):
            was, now = load_json(text), load_json(load_partial_object(block.body))
            if isinstance(was, dict) and isinstance(now, dict) and was.keys() & now.keys():
                return True
        return _is_similar(text, block.body)

    def _guess(self, block: FencedBlock, suffix: str, merged: Mapping[str, str]) -> str:
        body = block.body
        defined = top_level_names(body)
        if defined:
            all_files = {**self._known, **merged}
            defining = [
                name for name, text in all_files.items() if name.endswith(".py") and defined & top_level_names(text)
            ]
            if len(defining) == 1:
                return defining[0]
        unmade = [name for name in self._new_files if name not in merged and _has_suffix(name, suffix)]
        is_new_file = len(unmade) == 1 and not (defined and not unmade[0].endswith(".py"))
        if is_new_file and (self._is_only_block or not block.is_sample):
            return unmade[0]
        fitting = [name for name in self._known if _has_suffix(name, suffix)]
        versions = [name for name in fitting if self._is_version(block, name, self._known)]
        if len(versions) == 1:
            return versions[0]
        if suffix and not unmade:
            requested = [name for name in fitting if name in self._requested.values()]
            candidates = requested if len(requested) == 1 else fitting
            if len(candidates) == 1 and (candidates == requested or (suffix == "py" and defined)):
                self._unassigned.append((candidates[0], block))
        return ""


def _requested_files(request: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the paths mentioned in a request as spelled, each with the file it means: an exact match, else the only
    file whose path ends like that, unless a new file is requested."""
    found: dict[str, str] = {}
    for item in PATH.finditer(request):
        name = item.group(0).removeprefix("./")
        if name in found:
            continue
        matches = [path for path in known if _ends_with(path.lower(), name.lower()) or path.lower() == name.lower()]
        enclosing = [path for path in known if "/" in path and _ends_with(name, path)]
        is_new = _RE.new.search(request, max(0, item.start() - 60), item.start()) is not None
        if name in known or is_new:
            found[name] = name
        elif len(matches) == 1:
            found[name] = matches[0]
        else:
            found[name] = enclosing[0] if len(enclosing) == 1 and not matches else name
    return found


def _ends_with(path: str, end: str) -> bool:
    return path.endswith(f"/{end}")


def _base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower()


def _language_suffix(language: str) -> str:
    suffix = _SUFFIXES.get(language, language)
    return suffix if suffix in _RE.words("known_endings") else ""


def _has_suffix(name: str, suffix: str) -> bool:
    if not suffix:
        return True
    own = name.rsplit(".", 1)[-1].lower()
    return own == suffix or {own, suffix} <= {"yaml", "yml"} or "." not in name


def _is_similar(first: str, second: str) -> bool:
    return similarity(first, second) > _MIN_SIMILARITY or char_similarity(first, second) > _MIN_CHAR_SIMILARITY


def _only_uses_module(body: str, target: str, old: str) -> bool:
    """Whether a block imports the module it would be written to, so that it only shows its use."""
    tree = parse_module(body)
    module = target.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = {module, module.removeprefix("src.")}
    if tree is None or top_level_names(body) & top_level_names(old):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in names:
            return True
        if isinstance(node, ast.Import) and names & {item.name for item in node.names}:
            return True
    return False


MAX_REQUEST = 20_000
"""Maximum length of a request that is searched, in characters."""

__all__ = ["FileReply", "named_paths", "read_file_reply", "without_files"]


class FileReply(msgspec.Struct, frozen=True):
    """The changes that a reply makes to the project."""

    files: dict[str, str]
    """Path → new content of the changed files."""
    shown: int
    """Number of blocks that show files, including unchanged ones."""
    commands: tuple[str, ...] = ()
    """Commands of a reply that shows no file: single lines, or scripts."""
    problems: tuple[str, ...] = ()
    """Why shown files are not among `files`, as feedback for the model: the part can't be placed."""
    doubts: tuple[str, ...] = ()
    """What may be wrong with the files, as feedback for the model; it may be intended."""


def read_file_reply(text: str, known: Mapping[str, str], request: str, removable: Collection[str] = ()) -> FileReply:
    """Determine what the reply `text` to `request` makes of the files `known` (path → content).

    `removable`: names of definitions that it may remove. A block without a name goes to the file that it is most likely
    a version of, or to the one new file that the request mentions; a part of a file is merged into it.
    """
    shown = [block for block in fenced_blocks(_without_echo(text)) if block.body.strip()]
    changes = _ProjectChanges(known, AllowedRemovals(request[:MAX_REQUEST], removable))
    targets = BlockTargets(known, request[:MAX_REQUEST], [block for block in shown if not _is_output(block)])
    commands: list[str] = []
    for block in shown:
        if _is_output(block):
            commands += commands_in(block.body, block.language) if block.is_shell else ()
        elif target := targets.assign(block, changes.files):
            changes.merge(target, block)
    for target, block in targets.unassigned(changes.files):
        changes.merge(target, block)
    return changes.reply(commands)


class _ProjectChanges:
    """Collects the changes that a reply's blocks make to files."""

    def __init__(self, known: Mapping[str, str], allowed: AllowedRemovals) -> None:
        self._known = known
        self._allowed = allowed
        self.files: dict[str, str] = {}
        self.shown = 0
        self._problems: dict[str, str] = {}
        self._doubts: dict[str, str] = {}

    def merge(self, target: str, block: FencedBlock) -> None:
        """Merge a block into the file `target`."""
        self.shown += 1
        body = block.body if block.body.endswith("\n") else block.body + "\n"
        if target in self.files and target.endswith(".py") and parse_module(body) is None:
            return
        old = self.files.get(target, self._known.get(target))
        if old is None:
            self.files[target] = body
            return
        found = merge_shown(target, old, body, self._allowed, closed=block.closed)
        is_repeated = target in self.files
        if is_repeated and (found.problem or found.doubt):
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
        """Return the result."""
        changed = {name: after for name, after in self.files.items() if not _is_unchanged(self._known.get(name), after)}
        doubts = tuple(text for name, text in self._doubts.items() if name in changed)
        return FileReply(
            changed, self.shown, () if self.shown else tuple(commands), tuple(self._problems.values()), doubts
        )


def without_files(text: str) -> str:
    """Return a reply without its fenced blocks and the lines above them that only name a file."""
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    end = 0
    for first, after in fence_spans(lines):
        preceding_lines = lines[end:first]
        while preceding_lines and (
            not preceding_lines[-1].strip() or PATH.fullmatch(preceding_lines[-1].strip().strip("*`:# "))
        ):
            preceding_lines.pop()
        kept += preceding_lines
        end = after
    kept += lines[end:]
    kept = [line for line in kept if not _RE.echo.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip()


def _without_echo(text: str) -> str:
    """Return a reply without a fence around all repeated files, which would hide theirs."""
    return _RE.around.sub(r"\1", text)


def _is_unchanged(old: str | None, new: str) -> bool:
    return old is not None and old.strip() == new.strip()


def _is_output(block: FencedBlock) -> bool:
    """Whether a block shows commands or output. A shell script is a file if the reply names it as one."""
    if _RE.printed.match(block.body):
        return True
    shows = block.is_shell or block.language in ("output", "text-output", "diff")
    return shows and not block.name.endswith((".sh", ".bash", ".zsh", ".patch", ".diff"))
