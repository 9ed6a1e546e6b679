"""Classify the path that a word of a command names: a root, a home, a system folder, a disk, or an ordinary path."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Sequence
from enum import Enum
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from tui_agent.common.domain import Severity
from tui_agent.shell.safe_arguments import Selection
from tui_agent.shell.syntax import Word
from tui_agent.text.patterns import read_table

_HOME = re.compile(r'^(~[A-Za-z0-9_-]*|"?\$(HOME|\{HOME\})"?)(?=/|$)')
_ONLY_VARIABLE = re.compile(r"^(?:\$(?:\w+|[@*]|\{[^}]*\}|\(.*\))|`.*`)(?:/+[*./]*|[*])?$")
_GLOB_TAIL = re.compile(r"^(?:\.?\[[^]]*\][*]?|\.?[*]+|\.\?+|\.{1,2}[*?]*|\{[^}]*\})$")
_DISK = re.compile(r"^/dev/(?!null$|zero$|full$|random$|urandom$|tty$|stdin$|stdout$|stderr$|fd/|shm(/|$)|pts/)")
_NO_FILE = re.compile(r"/dev/(null|stdout|stderr|tty|fd/\d+)|-")
_PROCESS_ROOT = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?root(?=/|$)")
_HOMES = re.compile(r"^(/root|/home/[^/]+|/Users/[^/]+)$")


severity_table = partial(read_table, __package__, "severity.json")


@cache
def names(key: str) -> frozenset[str]:
    """Return a blank-separated list of the table as a set."""
    return frozenset(severity_table()[key].split())


class ReportSeverity(Protocol):
    """Takes one finding; `always`: the command always needs approval."""

    def __call__(self, severity: Severity, reason: str, *, always: bool = False) -> None: ...


class TargetKind(Enum):
    """What a path is, the most dangerous kinds first."""

    ROOT = "the root folder"
    HOME = "a home folder"
    SYSTEM = "a system folder"
    DISK = "a device"
    UNKNOWN = "a path that depends on a variable"
    ABOVE = "the workspace itself or a folder above it"
    INSIDE_SYSTEM = "a system file"
    STARTUP = "a start-up file, or keys"
    OUTSIDE = "a path outside the workspace"
    BUILD = "a build folder"
    ORDINARY = "a path in the workspace"


CATASTROPHIC = frozenset((TargetKind.ROOT, TargetKind.HOME, TargetKind.SYSTEM, TargetKind.DISK, TargetKind.UNKNOWN))
"""Targets whose deletion is a catastrophe."""

TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/")
NEW_TEMPORARY = "/tmp/new.XXXXXXXXXX"
"""Stands for what `mktemp` makes."""


class NamedPath(NamedTuple):
    """A path that a command names."""

    path: str
    program: str
    """The program that it is named for, or `ENVIRONMENT`."""
    search: Selection | None = None
    """Set for a folder: which files below it are read."""


ENVIRONMENT = "environment"
"""In place of a program: what shows variables of the environment."""


class PathScope:
    """The folder that a command runs in; `cd` changes it."""

    def __init__(self, cwd: Path | None, roots: Sequence[Path]) -> None:
        self.folder = str(cwd) if cwd else ""
        self._is_known = bool(cwd)
        self.roots = [str(root) for root in roots]
        self.changed_paths: list[str] = []
        """Absolute paths that the command would change, as far as they are known."""
        self.targets: list[str] = []
        """The same with those in the user's home."""

        self.named: list[NamedPath] = []
        """Paths that its commands name."""
        self.temporary: list[str] = [NEW_TEMPORARY]
        """Temporary files and folders that the command line itself makes or overwrites."""
        self.writes_outside = False
        """Whether something outside the workspace may be written."""

    def is_own_temporary(self, path: str) -> bool:
        """Return whether an absolute path is a temporary file of the command line itself, or in such a folder."""
        return any(path == own or path.startswith(f"{own}/") for own in self.temporary)

    def note_temporary(self, word: Word) -> None:
        """Note a file or folder that the command writes, if it is a temporary one."""
        path = self.absolute(word.text or "")
        is_named = (word.text or "").startswith(TEMPORARY) and path.startswith(TEMPORARY)
        if (is_named or self.is_own_temporary(path)) and self.is_outside(path):
            self.temporary.append(path)

    def absolute(self, text: str) -> str:
        """Return a name as an absolute path with the home folder filled in; relative if the folder is unknown."""
        path = self._absolute(text)
        if path.startswith("~"):
            path = os.path.expanduser(path)
        path = _PROCESS_ROOT.sub("", path) or "/"
        if self.folder.startswith("/"):
            path = re.sub(r"^/proc/(self|thread-self|\d+)/cwd(?=/|$)", self.folder, path)
        return posixpath.normpath(path) if path else path

    def is_outside(self, path: str) -> bool:
        """Return whether an absolute path is outside the workspace; a relative one is if it leads up."""
        if not path.startswith("/"):
            return path.startswith(("~", "../", "$")) or path == ".."
        if not self.roots:
            return True
        return not any(path == root or path.startswith(root.rstrip("/") + "/") for root in self.roots)

    def likely_path(self, path: str) -> str:
        """Return the path with patterns replaced by protected names that they match: `.gi?` may stand for `.git`."""
        if not re.search(r"[*?[]", path):
            return path
        names_of = []
        for part in path.split("/"):
            is_hidden = re.match(r"\.|\[", part) and re.search(r"[*?[]", part)
            likely = (name for name in names("protected_names") if fnmatch.fnmatchcase(name, part)) if is_hidden else ()
            names_of.append(min(likely, default=part))
        return "/".join(names_of)

    def note_change(self, path: str) -> None:
        """Note an absolute path that the command may change."""
        if self._is_known and path.startswith("/") and path not in self.roots:
            self.changed_paths.append(self.likely_path(path))

    def change_folder(self, word: Word | None) -> None:
        """Apply `cd WORD`."""
        if word is not None and word.text == "-":
            return
        if word is not None and word.text is None:
            self.folder = "~"  # nobody knows where
            return
        self.folder = self.likely_path(self._absolute(_path_text(word))) if word else "~"

    def classify(self, word: Word) -> TargetKind:
        """Return what kind of path the word names, and note the path as changed."""
        text = _path_text(word)
        absolute = self._absolute(text)
        if _ONLY_VARIABLE.match(text):
            if _HOME.match(text):
                self.targets.append(os.path.expanduser(absolute))
            return TargetKind.UNKNOWN
        if self._is_known and absolute.startswith("/"):
            self.changed_paths.append(self.likely_path(absolute))
        if self._is_known and (target := os.path.expanduser(absolute)).startswith("/"):
            self.targets.append(target)
        path = _without_globs(absolute)
        if _DISK.match(path):
            return TargetKind.DISK
        if kind := _fixed_kind(path) or (_matched_kind(path) if word.is_pattern else None):
            return kind
        if re.search(severity_table()["startup"], path):
            return TargetKind.STARTUP
        return self._workspace_kind(path, text)

    def _workspace_kind(self, path: str, text: str) -> TargetKind:
        if path in ("", ".") or path == ".." or path.startswith("../"):
            return TargetKind.ABOVE
        if self._is_known and path.startswith("/"):
            if any(root == path or root.startswith(path.rstrip("/") + "/") for root in self.roots):
                return TargetKind.ABOVE
            if self.roots and not any(path.startswith(root.rstrip("/") + "/") for root in self.roots):
                return _outside_kind(path)
        elif path.startswith(("/", "~")):
            return _outside_kind(path)
        root = max((r for r in self.roots if path.startswith(f"{r}/")), key=len, default="")
        inner = path.removeprefix(f"{root}/").split("/") if root else posixpath.normpath(text).strip("/").split("/")
        is_build = any(fnmatch.fnmatchcase(name, pattern) for name in inner for pattern in names("build_folders"))
        return TargetKind.BUILD if is_build and (root or not text.startswith("/")) else TargetKind.ORDINARY

    def _absolute(self, text: str) -> str:
        if match := _HOME.match(text):
            below = posixpath.normpath(f"./{text[match.end() :]}")
            home = os.path.expanduser("~") if below.startswith("..") else "~"
            return posixpath.normpath(f"{home}/{below}")
        if text.startswith("~+"):
            return self._absolute(f".{text[2:]}")
        if text.startswith("~-"):
            return "~-"  # the folder before, which is not known
        if text.startswith(("/", "~")) or not self.folder:
            path = posixpath.normpath(text) if text else "."
        else:
            path = posixpath.normpath(f"{self.folder}/{text}")
        if text.startswith(("./~", "./$")) and path[:1] in ("~", "$"):
            return f"./{path}"
        return path.replace("//", "/", 1) if path.startswith("//") else path


def report_write(target: Word, scope: PathScope, report: ReportSeverity) -> None:
    """Report that a file is created or overwritten."""
    if _NO_FILE.fullmatch(target.text or ""):
        return
    match scope.classify(target):
        case TargetKind.DISK | TargetKind.ROOT:
            report(Severity.CRITICAL, f"Writes to a device: {target.source}", always=True)
        case TargetKind.INSIDE_SYSTEM | TargetKind.SYSTEM:
            scope.writes_outside = True
            report(Severity.HIGH, f"Writes to a system file: {target.source}", always=True)
        case TargetKind.STARTUP:
            report(Severity.HIGH, f"Changes a start-up file or keys: {target.source}", always=True)
        case TargetKind.OUTSIDE | TargetKind.HOME:
            scope.writes_outside = True
            scope.note_temporary(target)
            is_temporary = (target.text or "").startswith(TEMPORARY) or scope.is_own_temporary(
                scope.absolute(target.text or "")
            )
            report(Severity.MEDIUM, f"Writes outside the workspace: {target.source}", always=not is_temporary)
        case _:
            report(Severity.MEDIUM, f"Writes {target.source}")


def _fixed_kind(path: str) -> TargetKind | None:
    home = os.path.expanduser("~")
    path = _PROCESS_ROOT.sub("", path) or "/"
    if path == "/":
        return TargetKind.ROOT
    if path in ("~", home) or _HOMES.match(path) or home.startswith(f"{path.rstrip('/')}/"):
        return TargetKind.HOME
    if path in names("system"):
        return TargetKind.SYSTEM
    return None


def _matched_kind(path: str) -> TargetKind | None:
    """Return SYSTEM for patterns such as `/h*` and `/???` that match system folders."""
    if not re.match(r"/[^/]*[*?[]|/\w+/[^/]*[*?[][^/]*$", path):
        return None
    parts = path.split("/")
    folders = (name.split("/") for name in names("system") if name != "/" and "*" not in name)
    matches = any(len(folder) == len(parts) and all(map(fnmatch.fnmatchcase, folder, parts)) for folder in folders)
    return TargetKind.SYSTEM if matches else None


def _outside_kind(path: str) -> TargetKind:
    top = "/" + path.split("/")[1] if path.startswith("/") else ""
    if top in names("system") and top not in ("/home", "/root", "/Users", "/private", "/mnt", "/media", "/Volumes"):
        return TargetKind.INSIDE_SYSTEM
    return TargetKind.OUTSIDE


def _without_globs(path: str) -> str:
    """Remove trailing patterns: `/usr/*` names everything in /usr, so it counts as /usr."""
    while path not in ("", "/") and _GLOB_TAIL.match(posixpath.basename(path)):
        if posixpath.basename(path) in (".", ".."):
            break
        path = posixpath.dirname(path) or "."
    return path


def _path_text(word: Word) -> str:
    if word.text is not None:
        # a quoted `~` or `$HOME` is the name of a file
        quoted = word.text[:1] in ("~", "$") and word.source[:1] in ("'", '"', "\\")
        return f"./{word.text}" if quoted else word.text
    return word.source.replace('"', "")


_EXCLUDES = re.compile(r"^(!|-not)\n-i?(name|path|wholename)\n", re.MULTILINE)


def finds_leftovers(texts: Sequence[str]) -> bool:
    """Return whether a `find` looks only for what builds and editors leave behind, by the names that it looks for."""
    texts = list(texts)
    while match := _EXCLUDES.search("\n".join(texts)):  # narrows the search
        start = match.string.count("\n", 0, match.start())
        del texts[start : start + 3]
    if any(text in ("-o", "-or", "!", "-not", ",") for text in texts):
        return False
    if "-empty" in texts and ("-type", "d") in pairwise(texts):
        return True
    patterns = [pattern for option, pattern in pairwise(texts) if option in ("-name", "-iname")]
    leftovers = frozenset(severity_table()["leftovers"].split()) | names("build_folders")
    return bool(patterns) and all(pattern in leftovers for pattern in patterns)
