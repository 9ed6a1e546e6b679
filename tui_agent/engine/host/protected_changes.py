"""Which protected files a command created, changed or deleted, by comparing two snapshots (A2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from tui_agent.engine.context.project import AGENTS_FILE
from tui_agent.events import FileState
from tui_agent.safety import tables
from tui_agent.safety.globs import GlobList
from tui_agent.safety.roots import Roots, is_bare_repository

if TYPE_CHECKING:
    from tui_agent.checkpoints.snapshot import Snapshot
    from tui_agent.checkpoints.survey import Differences

CLOCK_STEP = 20_000_000
"""Nanoseconds by which the times of a file system may lag behind the clock."""
Kind: TypeAlias = Literal["create", "modify", "delete"]
MAX_CONFIG_SIZE = 64 * 1024
"""Bytes of git settings that are read for paths that they name."""
_GIT_PATHS = re.compile(r"^\s*(hooksPath|path|attributesFile)\s*=\s*\"?([^\"\n]+?)\"?\s*$", re.MULTILINE | re.I)


class ProtectedChange(msgspec.Struct, frozen=True):
    """A protected file, or the topmost protected folder, that a command changed."""

    path: str
    kind: Kind
    before: FileState
    unknown: str = ""
    """Why the earlier content is not known, as a clause."""


class ProtectedNames:
    """Recognizes the protected paths of a workspace, also those that protected links and git's settings lead to."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._obeyed = GlobList((glob, False) for glob in tables.OBEYED)
        self._cache: dict[str, bool] = {}

    def __contains__(self, path: str) -> bool:
        found = self._cache.get(path)
        if found is None:
            found = self._roots.protects(path) or self._obeyed.needs_approval(path)
            self._cache[path] = found
        return found

    def has_folder(self, path: str) -> bool:
        """Return whether a folder, or everything in it, is protected."""
        return path in self or self._roots.protects(f"{path}/x")

    def link_targets(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return paths that protected links and git's settings lead to, as prefixes. Does file IO."""
        targets: set[str] = set()
        folders = tuple(f"{folder}/" for folder in map(str, self._roots.folders))
        for path, known in snapshot.files.items():
            if known.state.kind == "link" and (path in self or self._roots.protects(f"{path}/x")):
                targets.add(os.path.realpath(path))
        for path in snapshot.survey.git:
            if path.endswith("/.git/config"):
                targets.update(_named_paths(path))
        return tuple(sorted(target for target in targets if target.startswith(folders)))


def _named_paths(config: str) -> Iterator[str]:
    try:
        with open(config, encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_CONFIG_SIZE)
    except OSError:
        return
    git = os.path.dirname(config)
    for key, name in _GIT_PATHS.findall(text):
        base = os.path.dirname(git) if key.lower() == "hookspath" else git
        yield os.path.realpath(os.path.join(base, name))


def is_obeyed(path: str) -> bool:
    """Return whether this program obeys the file: rules for the agent, or settings of a workspace."""
    names = path.split("/")
    return names[-1] == AGENTS_FILE or any(name.startswith(OWN_NAME) for name in names)


def find_changes(
    before: Snapshot, after: Snapshot, found: Differences, names: ProtectedNames, link_targets: Iterable[str]
) -> tuple[ProtectedChange, ...]:
    """Return the protected changes among `found`, topmost first. `link_targets` is from before. Does file IO."""
    targets = tuple(link_targets)

    def is_protected(path: str) -> bool:
        if os.path.basename(path) == "git-rebase-todo":
            return _runs_commands(path)
        return path in names or any(path == target or path.startswith(f"{target}/") for target in targets)

    folders = _new_folders(before, after)
    repositories = _bare_repositories(found.created)
    tops = {path: ProtectedChange(path, "create", ABSENT_STATE) for path in _tops(folders, names, repositories)}
    for path in found.created:
        if not _is_below(path, tops) and (is_protected(path) or os.path.dirname(path) in repositories):
            tops[path] = ProtectedChange(path, "create", ABSENT_STATE)
    for path in found.changed:
        if is_protected(path):
            tops[path] = _change(path, "modify", before)
    for path in found.deleted:
        if is_protected(path) and not _is_in_lost_repository(path):
            tops.pop(path, None)
            tops[path] = _change(path, "delete", before)
    return tuple(tops.values())


def _runs_commands(todo: str) -> bool:
    """Return whether the steps of an unfinished rebase include shell commands."""
    try:
        with open(todo, encoding="utf-8", errors="replace") as file:
            return bool(re.search(r"^[ \t]*(?:x|exec)\b", file.read(MAX_CONFIG_SIZE), re.MULTILINE))
    except OSError:
        return False


ABSENT_STATE = FileState(kind="absent")
OWN_NAME = ".tui-agent"


def _change(path: str, kind: Kind, before: Snapshot) -> ProtectedChange:
    known = before.files.get(path)
    if known is None:
        return ProtectedChange(path, kind, ABSENT_STATE)
    is_known = known.state.sha256 and known.state.kind in ("file", "link")
    problem = known.problem or ("" if is_known else "its earlier content is not known")
    return ProtectedChange(path, kind, known.state, problem)


def _new_folders(before: Snapshot, after: Snapshot) -> list[str]:
    """Return folders that are new, outermost first."""
    new = after.survey.folders - before.survey.folders
    if not (before.survey.complete and after.survey.complete):
        new = {folder for folder in new if _change_time(folder) >= before.survey.since - CLOCK_STEP}
    return sorted(new)


def _change_time(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _tops(folders: Iterable[str], names: ProtectedNames, repositories: set[str]) -> Iterator[str]:
    last = ""
    for folder in folders:
        if last and folder.startswith(f"{last}/"):
            continue
        if names.has_folder(folder) or folder in repositories:
            last = folder
            yield folder


def _is_below(path: str, tops: Mapping[str, ProtectedChange]) -> bool:
    folder = os.path.dirname(path)
    while len(folder) > 1:
        if folder in tops:
            return True
        folder = os.path.dirname(folder)
    return False


def _bare_repositories(created: Iterable[str]) -> set[str]:
    """Return folders that git takes for repositories since a file `HEAD` was created."""
    folders = {os.path.dirname(path) for path in created if os.path.basename(path) in ("HEAD", "config")}
    return {folder for folder in folders if os.path.basename(folder) != ".git" and is_bare_repository(folder)}


def _is_in_lost_repository(path: str) -> bool:
    """Return whether a file is in a `.git` that is gone: single settings would not bring it back."""
    head, separator, _ = path.partition("/.git/")
    return bool(separator) and not os.path.isdir(f"{head}/.git")
