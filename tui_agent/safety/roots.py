"""The folders of the workspace, and which files are protected, sensitive or contain credentials.

Files are classified by lists of globs for resolved paths; the last match wins. The globs begin with `**/`, so that they
hold in every folder and for absolute paths.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from tui_agent.common import paths
from tui_agent.common.domain import Target
from tui_agent.common.errors import CodedError
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.platform.safe_open import follow_links
from tui_agent.safety import globs, tables
from tui_agent.text import visible_name


def _approval_patterns(patterns: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """Return globs as patterns that need approval."""
    return tuple((glob, False) for glob in patterns)


_MAX_PATH, _MAX_NAME = 4096, 255
_MAX_GIT_FILE = 1 << 20
"""Bytes of a `.git` file, as in git."""


class PathError(CodedError):
    """An invalid path. `code` is `empty`, `nul`, `encoding`, `too_long`, `loop` or `ambiguous`."""


class Roots:
    """The folders of the workspace.

    Relative paths start in the first one; `scratch` counts as inside. `sensitive` and `protected` are patterns of the
    user, which are added to the built-in ones.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        scratch: Path | None = None,
        sensitive: Mapping[str, bool] | None = None,
        protected: Iterable[str] = (),
    ) -> None:
        if not folders:
            raise ValueError("a workspace has at least one folder")
        self.folders: tuple[Path, ...] = tuple(dict.fromkeys(_real(folder) for folder in folders))
        self.names: tuple[str, ...] = _names(self.folders)
        """Unique names of the folders (T6)."""
        self.scratch: Path | None = _real(scratch) if scratch else None
        self._own_folders = _own_folders()
        self.set_patterns(sensitive or {}, protected)

    def missing_folder(self, path: Path) -> Path | None:
        """Return the folder of the workspace that `path` is in, if it no longer exists; otherwise None."""
        folder = max(
            (one for one in self.folders if path.is_relative_to(one)), key=lambda one: len(one.parts), default=None
        )
        return None if folder is None or folder.is_dir() else folder

    def set_patterns(self, sensitive: Mapping[str, bool], protected: Iterable[str]) -> None:
        """Replace the user's patterns."""
        self._sensitive = globs.GlobList((*_approval_patterns(tables.SENSITIVE), *sensitive.items()))
        self._protected = globs.GlobList((glob, False) for glob in protected)

    def resolve(self, path: str) -> Target:
        """Resolve a path.

        A relative one starts in the root whose name it begins with, or else in the first root, or in the only other one
        that contains it. Does file IO, but reads only `.git` files. Raises PathError.
        """
        _check(path)
        real, visited = _follow_links(self._absolute(path))
        root = self._root_of(real)
        flags = [self._flags(location) for location in visited]
        return Target(
            path=Path(real),
            display=self._display(real, root),
            outside=root is None,
            protected=any(protected for protected, _, _ in flags) or self._is_git_data(real),
            sensitive=any(sensitive for _, sensitive, _ in flags),
            credentials=any(credentials for _, _, credentials in flags),
        )

    def holds_credentials(self, path: str | Path) -> bool:
        """Return whether reading `path` needs approval (A2); True also for an invalid path."""
        try:
            _check(str(path))
            _, visited = _follow_links(self._absolute(str(path)))
        except PathError:
            return True
        return any(map(self.names_credentials, visited))

    def names_credentials(self, path: str) -> bool:
        """Return whether an absolute path, in which no link is followed, is that of a file with credentials (A2)."""
        # in the scratch folder, the names above it mean nothing
        is_scratch = self.scratch is not None and self._root_of(path) == self.scratch
        return credentials_at(os.path.relpath(path, self.scratch) if is_scratch else path)

    def protects(self, path: str) -> bool:
        """Return whether an absolute, resolved path is protected by the names in it."""
        return self._matches_protected(path, path)

    def is_protected(self, path: str | Path) -> bool:
        """Return whether a change of `path`, with links followed, always needs approval; True for an invalid path."""
        try:
            return self.resolve(str(path)).protected
        except PathError:
            return True

    def display(self, path: Path) -> str:
        """Return an absolute, resolved path as it is shown to user and model."""
        return self._display(str(path), self._root_of(str(path)))

    def _absolute(self, path: str) -> str:
        if path.startswith("~"):
            expanded = _expand_home(path)
            if expanded is not None:
                return expanded
        if path.startswith("/"):
            return path
        default = f"{self.folders[0]}/{path}"
        first, _, remainder = path.removeprefix("./").partition("/")
        if len(self.folders) > 1:
            if first in self.names:
                return f"{self.folders[self.names.index(first)]}/{remainder}"
            return default if first in ("", ".", "..") else self._in_any_root(path, default)
        if first == self.names[0] and not os.path.lexists(f"{self.folders[0]}/{first}"):
            # Models write the name of the folder in front: remove it if that leads to something.
            inner = f"{self.folders[0]}/{remainder}"
            return inner if os.path.lexists(inner) else default
        return default

    def _in_any_root(self, path: str, default: str) -> str:
        """Find a path without a root's name in the first root, or in the only other one that contains it."""
        if os.path.lexists(default):
            return default
        matches = [index for index, root in enumerate(self.folders) if os.path.lexists(f"{root}/{path}")]
        if len(matches) > 1:
            listed = ", ".join(f"{self.names[index]}/{path}" for index in matches)
            raise PathError(
                f"Several folders have it: {listed}. Begin the path with the name of the folder.", "ambiguous"
            )
        return f"{self.folders[matches[0]]}/{path}" if matches else default

    def _root_of(self, path: str) -> Path | None:
        """Return the innermost root, or the scratch folder, that contains `path`."""
        folders = (*self.folders, *([self.scratch] if self.scratch else ()))
        containing = [folder for folder in folders if _is_within(Path(path), folder)]
        return max(containing, key=lambda folder: len(folder.parts), default=None)

    def _is_own(self, path: str, root: Path | None) -> bool:
        """Return whether the path is in our settings or sessions, but not in a root there (the demo workspace)."""
        return any(
            _is_within(Path(path), own) and not (root is not None and _is_within(root, own))
            for own in self._own_folders
        )

    def _display(self, path: str, root: Path | None) -> str:
        display = path
        if root is not None and root != self.scratch:
            display = os.path.relpath(path, root)
            if len(self.folders) > 1:
                name = self.names[self.folders.index(root)]
                display = name if display == "." else f"{name}/{display}"
        return visible_name(display, lookalikes=False)

    def _flags(self, path: str) -> tuple[bool, bool, bool]:
        """Return whether an absolute path is protected, sensitive, or contains credentials, by the names in it."""
        root = self._root_of(path)
        inner = path if root is None else os.path.relpath(path, root)
        matched = inner if root is not None and root == self.scratch else path
        return self._matches_protected(path, matched), self._sensitive.needs_approval(inner), credentials_at(matched)

    def _matches_protected(self, path: str, matched: str) -> bool:
        """Match the built-in patterns against `matched`, the user's against the path below its root."""
        root = self._root_of(path)
        inner = path if root is None else os.path.relpath(path, root)
        return _protected().needs_approval(matched) or self._protected.needs_approval(inner) or self._is_own(path, root)

    def _is_git_data(self, path: str) -> bool:
        """Return whether the path is in a repository's data: behind a `.git` link or file, or in a bare repository."""
        parents = list(map(str, Path(path).parents))
        if any(map(is_bare_repository, (path, *parents))):
            return True
        folders = dict.fromkeys((*parents, *map(str, self.folders)))
        return any(_is_within(Path(path), data) for folder in folders for data in _git_data(folder))


@cache
def _protected() -> globs.GlobList:
    return globs.GlobList(_approval_patterns(tables.PROTECTED))


@cache
def _credentials() -> globs.GlobList:
    return globs.GlobList((*_approval_patterns(tables.CREDENTIALS), *((glob, True) for glob in tables.NO_CREDENTIALS)))


@lru_cache(maxsize=1 << 14)
def credentials_at(path: str) -> bool:
    """Return whether a file with this resolved path contains credentials, so that reading it needs approval (A2)."""
    return _credentials().needs_approval(path)


def _follow_links(path: str) -> tuple[str, list[str]]:
    """Follow the links of an absolute path as `safe_open.follow_links`. Raises PathError."""
    try:
        return follow_links(path)
    except OSError as error:
        raise PathError("This path goes round in a circle of symbolic links.", "loop") from error


def _check(path: str) -> None:
    if not path or path.isspace():
        raise PathError("The path is empty.", "empty")
    if "\0" in path:
        raise PathError("A path can't hold a NUL character.", "nul")
    try:
        names = path.encode("utf-8", "surrogateescape").split(b"/")
    except UnicodeEncodeError:
        raise PathError("The path holds a character that no file name can have.", "encoding") from None
    if sum(map(len, names)) + len(names) > _MAX_PATH or max(map(len, names)) > _MAX_NAME:
        raise PathError(
            f"The path is too long: {_MAX_PATH - 1:,} bytes are the limit, and {_MAX_NAME} for one name.", "too_long"
        )


def _expand_home(path: str) -> str | None:
    """Return `~/x` or `~user/x` as an absolute path; None if there is no such user."""
    name, slash, remainder = path[1:].partition("/")
    try:
        home = str(paths.home_dir()) if not name else pwd.getpwnam(name).pw_dir
    except (KeyError, paths.HomeNotFoundError):
        return None
    return f"{home}{slash}{remainder}"


def _real(folder: Path) -> Path:
    return Path(_follow_links(os.path.abspath(folder))[0])


def _names(folders: Sequence[Path]) -> tuple[str, ...]:
    names: list[str] = []
    for folder in folders:
        base = name = folder.name or "root"
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return tuple(names)


def _own_folders() -> tuple[Path, ...]:
    """Return the folders of our settings, sessions and decisions."""
    try:
        return tuple(dict.fromkeys(_real(folder) for folder in (paths.config_dir(), paths.data_dir())))
    except (paths.HomeNotFoundError, PathError):
        return ()


def _is_within(path: Path, folder: Path) -> bool:
    return path.parts[: len(folder.parts)] == folder.parts


def is_bare_repository(folder: str) -> bool:
    """Return whether git would use the folder as a bare repository, whose settings can run programs."""
    return os.path.isfile(f"{folder}/HEAD") and os.path.isdir(f"{folder}/objects") and os.path.isdir(f"{folder}/refs")


def _git_data(folder: str) -> Iterable[Path]:
    """Yield where the `.git` of `folder` leads: a linked folder, or those that its file names (worktree, submodule)."""
    link = f"{folder}/.git"
    try:
        if not os.path.lexists(link):
            return
        real = _follow_links(link)[0]
        yield Path(real)
        line = _read_line(real)
        if line is None or not line.startswith("gitdir:"):
            return
        data = _follow_links(os.path.join(folder, line.removeprefix("gitdir:").strip()))[0]
        yield Path(data)
        shared = _read_line(f"{data}/commondir")
        if shared:
            yield Path(_follow_links(os.path.join(data, shared))[0])
    except PathError:
        return


def _read_line(file: str) -> str | None:
    """Return the text of a small regular file with a resolved path, or None."""
    try:
        data = read_file(Path(file), _MAX_GIT_FILE, follow=False).data
    except FileFault:
        return None
    return data[:_MAX_PATH].decode("utf-8", "surrogateescape").replace("\0", "").strip()
