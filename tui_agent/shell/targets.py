"""Where a word of a command points: at a root, a home, a system folder, a disk, or somewhere ordinary."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Sequence
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from tui_agent.common.domain import Severity
from tui_agent.common.tables import read_table
from tui_agent.shell.syntax import Word

_HOME = re.compile(r'^(~[A-Za-z0-9_-]*|"?\$(HOME|\{HOME\})"?)(?=/|$)')
_BARE_VARIABLE = re.compile(r"^(?:\$(?:\w+|[@*]|\{[^}]*\}|\(.*\))|`.*`)(?:/+[*./]*|[*])?$")
_GLOB_TAIL = re.compile(r"^(?:\.?\[[^]]*\][*]?|\.?[*]+|\.\?+|\.{1,2}[*?]*|\{[^}]*\})$")
_DISK = re.compile(r"^/dev/(?!null$|zero$|full$|random$|urandom$|tty$|stdin$|stdout$|stderr$|fd/|shm(/|$)|pts/)")
_NOWHERE = re.compile(r"/dev/(null|stdout|stderr|tty|fd/\d+)|-")
_FOREIGN_ROOT = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?root(?=/|$)")
_HOMES = re.compile(r"^(/root|/home/[^/]+|/Users/[^/]+)$")


target_table = partial(read_table, __file__, "severity.json")


@cache
def names(key: str) -> frozenset[str]:
    """A blank-separated list of the table."""
    return frozenset(target_table()[key].split())


class ReportSeverity(Protocol):
    """Takes one finding."""

    def __call__(self, severity: Severity, reason: str, *, always: bool = False) -> None: ...


class TargetKind(Enum):
    """What a path is, from the worst to the best."""

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


WIPES = frozenset((TargetKind.ROOT, TargetKind.HOME, TargetKind.SYSTEM, TargetKind.DISK, TargetKind.UNKNOWN))
"""Deleting there is a catastrophe."""

TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/")


class PathScope:
    """Where a command stands while it is read; `cd` moves it."""

    def __init__(self, cwd: Path | None, roots: Sequence[Path]) -> None:
        self.folder = str(cwd) if cwd else ""
        self._known = bool(cwd)
        self._roots = [str(root) for root in roots]
        self._start = self.folder
        self.touched: list[str] = []
        """Absolute paths that a command would change, as far as they can be told."""

    def move(self, word: Word | None) -> None:
        """`cd WORD`."""
        self.folder = self._absolute(_shown(word)) if word else "~"

    def spot(self, word: Word) -> TargetKind:
        """What the word names."""
        text = _shown(word)
        if _BARE_VARIABLE.match(text):
            return TargetKind.UNKNOWN
        if self._known and (whole := self._absolute(text)).startswith("/"):
            self.touched.append(whole)
        path = _without_globs(self._absolute(text))
        if _DISK.match(path):
            return TargetKind.DISK
        if fixed := _fixed(path) or (_matched(path) if word.pattern else None):
            return fixed
        if re.search(target_table()["startup"], path):
            return TargetKind.STARTUP
        return self._relative(path, text)

    def _relative(self, path: str, text: str) -> TargetKind:
        if path in ("", ".") or path == ".." or path.startswith("../"):
            return TargetKind.ABOVE
        if self._known and path.startswith("/"):
            if any(root == path or root.startswith(path.rstrip("/") + "/") for root in self._roots):
                return TargetKind.ABOVE
            inside = any(path.startswith(root.rstrip("/") + "/") for root in self._roots)
            if not inside and self._roots:
                return self._outside(path)
        elif path.startswith(("/", "~")):
            return self._outside(path)
        names_ = names("build_folders")
        first = posixpath.normpath(text).strip("/").split("/")
        built = any(fnmatch.fnmatchcase(part, pattern) for part in first[-1:] for pattern in names_)
        return TargetKind.BUILD if built and not text.startswith("/") else TargetKind.ORDINARY

    @staticmethod
    def _outside(path: str) -> TargetKind:
        top = "/" + path.split("/")[1] if path.startswith("/") else ""
        if top in names("system") and top not in ("/home", "/root", "/Users", "/private", "/mnt", "/media", "/Volumes"):
            return TargetKind.INSIDE_SYSTEM
        return TargetKind.OUTSIDE

    def _absolute(self, text: str) -> str:
        if found := _HOME.match(text):
            return posixpath.normpath("~/" + text[found.end() :])
        if text.startswith(("/", "~")) or not self.folder:
            path = posixpath.normpath(text) if text else "."
        else:
            path = posixpath.normpath(f"{self.folder}/{text}")
        if text.startswith(("./~", "./$")) and path[:1] in ("~", "$"):
            return f"./{path}"
        return path.replace("//", "/", 1) if path.startswith("//") else path


def writes(target: Word, ground: PathScope, say: ReportSeverity) -> None:
    """A file is created or overwritten."""
    if _NOWHERE.fullmatch(target.text or ""):
        return
    match ground.spot(target):
        case TargetKind.DISK | TargetKind.ROOT:
            say(Severity.CRITICAL, f"Writes to a device: {target.source}", always=True)
        case TargetKind.INSIDE_SYSTEM | TargetKind.SYSTEM:
            say(Severity.HIGH, f"Writes to a system file: {target.source}", always=True)
        case TargetKind.STARTUP:
            say(Severity.HIGH, f"Changes a start-up file or keys: {target.source}", always=True)
        case TargetKind.OUTSIDE | TargetKind.HOME:
            harmless = (target.text or "").startswith(TEMPORARY)
            say(Severity.MEDIUM, f"Writes outside the workspace: {target.source}", always=not harmless)
        case _:
            say(Severity.MEDIUM, f"Writes {target.source}")


def _fixed(path: str) -> TargetKind | None:
    home = os.path.expanduser("~")
    path = _FOREIGN_ROOT.sub("", path) or "/"
    if path == "/":
        return TargetKind.ROOT
    if path in ("~", home) or _HOMES.match(path):
        return TargetKind.HOME
    if path in names("system"):
        return TargetKind.SYSTEM
    return None


def _matched(path: str) -> TargetKind | None:
    """`/h*` and `/???` name system folders as well."""
    if not re.match(r"/[^/]*[*?[]|/\w+/[^/]*[*?[][^/]*$", path):
        return None
    parts = path.split("/")
    same = (name.split("/") for name in names("system") if name != "/" and "*" not in name)
    fits = any(len(one) == len(parts) and all(map(fnmatch.fnmatchcase, one, parts)) for one in same)
    return TargetKind.SYSTEM if fits else None


def _without_globs(path: str) -> str:
    """`/usr/*` names all that is in /usr, so it counts as /usr."""
    while path not in ("", "/") and _GLOB_TAIL.match(posixpath.basename(path)):
        if posixpath.basename(path) in (".", ".."):
            break
        path = posixpath.dirname(path) or "."
    return path


def _shown(word: Word | None) -> str:
    if word is None:
        return ""
    if word.text is not None:
        # a quoted `~` or `$HOME` is the name of a file
        quoted = word.text[:1] in ("~", "$") and word.source[:1] in ("'", '"', "\\")
        return f"./{word.text}" if quoted else word.text
    return word.source.replace('"', "")
