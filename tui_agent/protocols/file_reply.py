"""Assign the fenced blocks of a reply to files and merge them (E4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tui_agent.protocols.file_blocks import PATH, FencedBlock, commands_in, fence_spans, fenced_blocks
from tui_agent.protocols.file_parts import merge_shown
from tui_agent.protocols.json_parts import load_json, load_partial_object
from tui_agent.protocols.python_source import module_name, parse_module, top_level_names
from tui_agent.protocols.removals import AllowedRemovals
from tui_agent.protocols.source_lines import char_similarity, similarity
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "targets")

MAX_REQUEST = 20_000
"""Maximum length of a request that is searched, in characters."""
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
        """`known`: path → content of the project's files; `shown`: the blocks that show files."""
        self._known = known
        self._requested = _requested_files(request, known)
        """Path as spelled in the request → the file it means."""
        self._new_files = [path for path in dict.fromkeys(self._requested.values()) if path not in known]
        self._names = {block.name.removeprefix("./") for block in shown if block.name}
        self._is_only_block = len(shown) == 1
        self._unassigned: list[tuple[str, FencedBlock]] = []

    def assign(self, block: FencedBlock, merged: Mapping[str, str]) -> str:
        """Return the file of a block; empty if that is unclear. `merged`: the files written by earlier blocks."""
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
        pending = [name for name in self._new_files if name not in merged and _has_suffix(name, suffix)]
        if target not in self._known and target not in self._new_files and len(pending) == 1:
            target = pending[0]  # the reply names the new file differently than the request
        elif self._known.get(target, "").strip() == block.body.strip() != "":
            same_name = [name for name in pending if _base_name(name) == _base_name(target)]
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
        stripped = _RE.placeholder.sub("", name)
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
            old, new = load_json(text), load_json(load_partial_object(block.body))
            if isinstance(old, dict) and isinstance(new, dict) and old.keys() & new.keys():
                return True
        return _is_similar(text, block.body)

    def _guess(self, block: FencedBlock, suffix: str, merged: Mapping[str, str]) -> str:
        """Return the file that a block without a usable name most likely shows; empty if that is unclear."""
        defined = top_level_names(block.body)
        if defined:
            files = {**self._known, **merged}.items()
            owners = [name for name, text in files if name.endswith(".py") and defined & top_level_names(text)]
            if len(owners) == 1:
                return owners[0]
        pending = [name for name in self._new_files if name not in merged and _has_suffix(name, suffix)]
        is_new_file = len(pending) == 1 and not (defined and not pending[0].endswith(".py"))
        if is_new_file and (self._is_only_block or not block.is_sample):
            return pending[0]
        same_type = [name for name in self._known if _has_suffix(name, suffix)]
        versions = [name for name in same_type if self._is_version(block, name, self._known)]
        if len(versions) == 1:
            return versions[0]
        if suffix and not pending:
            requested = [name for name in same_type if name in self._requested.values()]
            candidates = requested if len(requested) == 1 else same_type
            if len(candidates) == 1 and (candidates == requested or (suffix == "py" and defined)):
                self._unassigned.append((candidates[0], block))
        return ""


def _requested_files(request: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the paths mentioned in a request as spelled, each with the file it means: an exact match, else the only
    file whose path ends like that, unless a new file is requested."""
    requested: dict[str, str] = {}
    for match in PATH.finditer(request):
        name = match.group(0).removeprefix("./")
        if name in requested:
            continue
        matches = [path for path in known if _ends_with(path.lower(), name.lower()) or path.lower() == name.lower()]
        enclosing = [path for path in known if "/" in path and _ends_with(name, path)]
        is_new = _RE.new.search(request, max(0, match.start() - 60), match.start()) is not None
        candidates = matches or enclosing
        is_known = name in known or is_new or len(candidates) != 1
        requested[name] = name if is_known else candidates[0]
    return requested


def _ends_with(path: str, end: str) -> bool:
    return path.endswith(f"/{end}")


def _base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower()


def _language_suffix(language: str) -> str:
    suffix = _SUFFIXES.get(language, language)
    return suffix if suffix in _RE.words("known_suffixes") else ""


def _has_suffix(name: str, suffix: str) -> bool:
    if not suffix:
        return True
    actual = name.rsplit(".", 1)[-1].lower()
    return actual == suffix or {actual, suffix} <= {"yaml", "yml"} or "." not in name


def _is_similar(first: str, second: str) -> bool:
    return similarity(first, second) > _MIN_SIMILARITY or char_similarity(first, second) > _MIN_CHAR_SIMILARITY


def _only_uses_module(body: str, target: str, old: str) -> bool:
    """Whether a block imports the module it would be written to, so that it only shows its use."""
    tree = parse_module(body)
    module = module_name(target)
    if tree is None or top_level_names(body) & top_level_names(old):
        return False
    imported = {name for node in ast.walk(tree) for name in _imported_modules(node)}
    return not imported.isdisjoint({module, module.removeprefix("src.")})


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [name.name for name in node.names] if isinstance(node, ast.Import) else []


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
    shown = [block for block in fenced_blocks(_RE.outer_fence.sub(r"\1", text)) if block.body.strip()]
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
        result = merge_shown(target, old, body, self._allowed, closed=block.closed)
        if target in self.files and (result.problem or result.doubt):
            return  # an earlier block shows the file itself
        self._problems.pop(target, None)
        self._doubts.pop(target, None)
        if result.problem:
            self._problems[target] = result.problem
            return
        self.files[target] = result.text
        if result.doubt:
            self._doubts[target] = result.doubt

    def reply(self, commands: list[str]) -> FileReply:
        """Return the result."""
        changed = {
            path: text
            for path, text in self.files.items()
            if path not in self._known or self._known[path].strip() != text.strip()
        }
        doubts = tuple(doubt for path, doubt in self._doubts.items() if path in changed)
        return FileReply(
            changed, self.shown, () if self.shown else tuple(commands), tuple(self._problems.values()), doubts
        )


def without_files(text: str) -> str:
    """Return a reply without its fenced blocks and the lines above them that only name a file."""
    lines = text.splitlines(keepends=True)
    prose: list[str] = []
    end = 0
    for start, next_end in fence_spans(lines):
        prose += lines[end:start]
        while prose and (not prose[-1].strip() or PATH.fullmatch(prose[-1].strip().strip("*`:# "))):
            prose.pop()
        end = next_end
    prose += lines[end:]
    return re.sub(r"\n{3,}", "\n\n", "".join(line for line in prose if not _RE.echo.match(line))).strip()


def _is_output(block: FencedBlock) -> bool:
    """Whether a block shows commands or output. A shell script is a file if the reply names it as one."""
    if _RE.output.match(block.body):
        return True
    shows = block.is_shell or block.language in ("output", "text-output", "diff")
    return shows and not block.name.endswith((".sh", ".bash", ".zsh", ".patch", ".diff"))
