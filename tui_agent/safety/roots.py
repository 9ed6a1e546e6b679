"""Which files are protected, sensitive, or hold credentials: tables of globs, matched against resolved paths.

Last match wins; true is safe. Patterns begin with `**/`, so they hold in every folder and for absolute paths.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from tui_agent.common import paths
from tui_agent.common.domain import Target
from tui_agent.common.errors import CodedError
from tui_agent.common.tables import read_table
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.safety import globs
from tui_agent.text import make_visible

Patterns: TypeAlias = tuple[tuple[str, bool], ...]


safety_table = partial(read_table, __file__, "tables.toml")


def _asking(name: str) -> Patterns:
    """A list of that table, as patterns that ask."""
    return tuple((glob, False) for glob in safety_table()[name])


LINKS = 40
"""Symbolic links that one path may pass, as the kernel has it."""

_PATH_BYTES, _NAME_BYTES = 4096, 255
_GIT_FILE = 1 << 20
"""Bytes of a `.git` file; git takes no larger one either."""


class PathError(CodedError):
    """This is no path to go by. `code` is `empty`, `nul`, `encoding`, `too_long`, `loop` or `ambiguous`."""


class Roots:
    """The workspace's folders, and how paths look from them.

    `folders` are the roots, the first one is where relative paths start; `scratch` counts as inside. `sensitive` and
    `protected` are the user's own patterns; they come after the built-in ones.
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
        """What the folders are called, each name once (T6)."""
        self.scratch: Path | None = _real(scratch) if scratch else None
        self._own = _own_folders()
        self._sensitive = globs.GlobList((*_asking("sensitive"), *(sensitive or {}).items()))
        self._protected = globs.GlobList((glob, False) for glob in protected)

    def resolve(self, path: str) -> Target:
        """Where `path` leads. A relative one begins in the root whose name it begins with, else in the first root, or
        in the only other one that has it.

        Raises PathError. Asks the file system, but opens nothing and reads no file but a `.git` link.
        """
        _check(path)
        start = self._absolute(path)
        end, passed = follow(start)
        inside = self._holder(end)
        flags = [self._flags(one) for one in passed]
        return Target(
            path=Path(end),
            display=self._display(end, inside),
            outside=inside is None,
            protected=any(protected for protected, _, _ in flags) or self._is_git_data(end),
            sensitive=any(sensitive for _, sensitive, _ in flags),
            credentials=any(credentials for _, _, credentials in flags),
        )

    def holds_credentials(self, path: str | Path) -> bool:
        """True when reading `path` asks (A2), also for what can't be a path at all."""
        try:
            return self.resolve(str(path)).credentials
        except PathError:
            return True

    def protects(self, path: str) -> bool:
        """True for what is protected by the names in an absolute, resolved `path`."""
        holder = self._holder(path)
        inner = path if holder is None else os.path.relpath(path, holder)
        return _protected().ask(path) or self._protected.ask(inner) or self._is_own(path, holder)

    def guards(self, path: str | Path) -> bool:
        """True when a change of `path`, wherever it leads, is always asked for, also for what is no path."""
        try:
            return self.resolve(str(path)).protected
        except PathError:
            return True

    def display(self, path: Path) -> str:
        """What user and model are shown for an absolute, resolved `path`."""
        return self._display(str(path), self._holder(str(path)))

    def _absolute(self, path: str) -> str:
        if path.startswith("~"):
            expanded = _expand_home(path)
            if expanded is not None:
                return expanded
        if path.startswith("/"):
            return path
        plain = f"{self.folders[0]}/{path}"
        first, _, rest = path.removeprefix("./").partition("/")
        if len(self.folders) > 1:
            if first in self.names:
                return f"{self.folders[self.names.index(first)]}/{rest}"
            return plain if first in ("", ".", "..") else self._in_one_of(path, plain)
        if first == self.names[0] and not os.path.lexists(f"{self.folders[0]}/{first}"):
            # The folder's own name in front, as models write it: taken off where that leads to something.
            inner = f"{self.folders[0]}/{rest}"
            return inner if os.path.lexists(inner) else plain
        return plain

    def _in_one_of(self, path: str, plain: str) -> str:
        """A path that does not begin with a root's name: in the first root, or in the only other one that has it."""
        if os.path.lexists(plain):
            return plain
        having = [at for at, root in enumerate(self.folders) if os.path.lexists(f"{root}/{path}")]
        if len(having) > 1:
            shown = ", ".join(f"{self.names[at]}/{path}" for at in having)
            raise PathError(
                f"Several folders have it: {shown}. Begin the path with the name of the folder.", "ambiguous"
            )
        return f"{self.folders[having[0]]}/{path}" if having else plain

    def _holder(self, path: str) -> Path | None:
        """The innermost root (or the scratch folder) that `path` is in."""
        at = Path(path)
        around = [
            folder for folder in (*self.folders, *([self.scratch] if self.scratch else ())) if _within(at, folder)
        ]
        return max(around, key=lambda folder: len(folder.parts), default=None)

    def _is_own(self, path: str, holder: Path | None) -> bool:
        """True for our settings and sessions, but not for a root that was put there on purpose (a demonstration)."""
        return any(_within(Path(path), own) and not (holder is not None and _within(holder, own)) for own in self._own)

    def _display(self, path: str, holder: Path | None) -> str:
        shown = path
        if holder is not None and holder != self.scratch:
            shown = os.path.relpath(path, holder)
            if len(self.folders) > 1:
                name = self.names[self.folders.index(holder)]
                shown = name if shown == "." else f"{name}/{shown}"
        return make_visible(shown.replace("\n", "␊").replace("\t", "␉"), lookalikes=False)

    def _flags(self, path: str) -> tuple[bool, bool, bool]:
        """Protected, sensitive, credentials: by the names in an absolute `path`."""
        holder = self._holder(path)
        inner = path if holder is None else os.path.relpath(path, holder)
        whole = inner if holder is not None and holder == self.scratch else path
        protected = _protected().ask(whole) or self._protected.ask(inner) or self._is_own(path, holder)
        return protected, self._sensitive.ask(inner), credentials_at(whole)

    def _is_git_data(self, path: str) -> bool:
        """True inside a repository's data, wherever it lies: behind a `.git` link or file, or in a bare repository."""
        for above in (path, *map(str, Path(path).parents)):
            if _is_bare(above):
                return True
        return any(_within(Path(path), data) for folder in self._around(path) for data in _git_data(folder))

    def _around(self, path: str) -> Iterable[str]:
        """The folders that may have a `.git` for `path`: its own, those above, and the roots."""
        return dict.fromkeys((*map(str, Path(path).parents), *map(str, self.folders)))


@cache
def _protected() -> globs.GlobList:
    return globs.GlobList(_asking("protected"))


@cache
def _credentials() -> globs.GlobList:
    return globs.GlobList((*_asking("credentials"), *((glob, True) for glob in safety_table()["no_credentials"])))


def credentials_at(path: str) -> bool:
    """Whether a file of this resolved path is known to hold secrets: reading it asks (A2)."""
    return _credentials().ask(path)


def follow(path: str) -> tuple[str, list[str]]:
    """The real path of absolute `path`, and all paths that were passed on the way, the real one among them.

    What does not exist is taken as it stands, `..` included. Raises PathError for a loop of links.
    """
    waiting = [name for name in reversed(path.split("/")) if name not in ("", ".")]
    passed = [path]
    real: list[str] = []
    links = 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            if real:
                real.pop()
            continue
        here = "/" + "/".join((*real, name))
        target = _link(here)
        if target is None:
            real.append(name)
            continue
        links += 1
        if links > LINKS:
            raise PathError("This path goes round in a circle of symbolic links.", "loop")
        passed.append("/".join((here, *reversed(waiting))))
        if target.startswith("/"):
            real = []
        waiting += [one for one in reversed(target.split("/")) if one not in ("", ".")]
    end = "/" + "/".join(real)
    return end, [*passed, end]


def _check(path: str) -> None:
    if not path or path.isspace():
        raise PathError("The path is empty.", "empty")
    if "\0" in path:
        raise PathError("A path can't hold a NUL character.", "nul")
    try:
        names = path.encode("utf-8", "surrogateescape").split(b"/")
    except UnicodeEncodeError:
        raise PathError("The path holds a character that no file name can have.", "encoding") from None
    if sum(map(len, names)) + len(names) > _PATH_BYTES or max(map(len, names)) > _NAME_BYTES:
        raise PathError(
            f"The path is too long: {_PATH_BYTES - 1:,} bytes are the limit, and {_NAME_BYTES} for one name.",
            "too_long",
        )


def _link(path: str) -> str | None:
    """Where a symbolic link points; None for everything else, also what can't be looked at."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def _expand_home(path: str) -> str | None:
    """`~/x` and `~user/x` as absolute paths; None when there is no such user, as in the shell."""
    name, slash, rest = path[1:].partition("/")
    try:
        home = str(paths.home_dir()) if not name else pwd.getpwnam(name).pw_dir
    except (KeyError, paths.HomeNotFoundError):
        return None
    return f"{home}{slash}{rest}"


def _real(folder: Path) -> Path:
    return Path(follow(os.path.abspath(folder))[0])


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
    """Where our own settings, sessions and trust lie."""
    try:
        return tuple(dict.fromkeys(_real(folder) for folder in (paths.config_dir(), paths.data_dir())))
    except (paths.HomeNotFoundError, PathError):
        return ()


def _within(path: Path, folder: Path) -> bool:
    return path.parts[: len(folder.parts)] == folder.parts


def _is_bare(folder: str) -> bool:
    """True for a folder that git takes for a repository without a work tree: its config runs programs."""
    return os.path.isfile(f"{folder}/HEAD") and os.path.isdir(f"{folder}/objects") and os.path.isdir(f"{folder}/refs")


def _git_data(folder: str) -> Iterable[Path]:
    """Where the `.git` of `folder` leads: a linked folder, or those that a worktree's or submodule's file names."""
    link = f"{folder}/.git"
    try:
        if not os.path.lexists(link):
            return
        real = follow(link)[0]
        yield Path(real)
        named = _line_of(real)
        if named is None or not named.startswith("gitdir:"):
            return
        data = follow(os.path.join(folder, named.removeprefix("gitdir:").strip()))[0]
        yield Path(data)
        shared = _line_of(f"{data}/commondir")
        if shared:
            yield Path(follow(os.path.join(data, shared))[0])
    except PathError:
        return


def _line_of(file: str) -> str | None:
    """The text of a small regular file, its path resolved; None when it is none."""
    try:
        data = read_file(Path(file), _GIT_FILE, follow=False).data
    except FileFault:
        return None
    return data[:_PATH_BYTES].decode("utf-8", "surrogateescape").replace("\0", "").strip()
