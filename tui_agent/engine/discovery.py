"""What kind of project a folder holds, found out once a session, in trusted folders only (H3, A8)."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter, deque
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.platform.beneath import open_folder
from tui_agent.platform.git import Git, branch_of
from tui_agent.text import marked_hidden
from tui_agent.tools.ignoring import Ignoring
from tui_agent.tools.lines import shown_name

ENTRIES = 20_000
"""Entries of a folder that are looked at when languages are counted."""
SECONDS = 0.4
"""For counting; the folders above come first."""
LOOKS = 256
"""Entries between two looks at the clock: a small project is counted whole however busy the machine is."""
GIT_SECONDS = 2.0
"""For git; without an answer until then its status is left out."""
DEPTH = 12
NAMES = 8
"""Names of project files, documents and changed files that are told."""
LANGUAGES = 5
FULL, SMALL = 900, 360
"""Characters of what the model is told, about 250 and 100 tokens; the second in windows of at most SMALL_WINDOW."""
SMALL_WINDOW = 8_192


class Found(msgspec.Struct, frozen=True):
    """What was found in one folder, as it was when the session began."""

    projects: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    languages: tuple[tuple[str, int], ...] = ()
    """Name and number of files, the most frequent first."""
    counted_all: bool = True
    branch: str = ""
    changed: int | None = None
    """Changed files; None where git gave no answer."""
    untracked: int = 0
    names: tuple[str, ...] = ()
    """Some of the changed files."""

    def told(self, room: int) -> str:
        """All of it in `room` characters, whole lines only; empty where nothing was found."""
        lines = [
            f"Project files: {', '.join(self.projects)}." if self.projects else "",
            self._languages(),
            f"Documents: {', '.join(self.documents)}." if self.documents else "",
        ]
        kept: list[str] = []
        for line in filter(None, lines):
            if sum(map(len, kept)) + len(kept) + len(line) <= room:
                kept.append(line)
        left = room - sum(map(len, kept)) - len(kept)
        git = next((line for line in (self._git(True), self._git(False)) if len(line) <= left), "")
        return "\n".join(filter(None, [*kept, git]))

    def _languages(self) -> str:
        if not self.languages:
            return ""
        more = "" if self.counted_all else " or more"
        counts = ", ".join(
            f"{name} {number:,}{more} file{'s' if number > 1 or more else ''}"
            for name, number in self.languages
        )
        return f"Languages: {counts}."

    def _git(self, named: bool) -> str:
        if not self.branch:
            return ""
        branch = f"Git branch {self.branch}"
        if self.changed is None:
            return f"{branch}."
        if not self.changed and not self.untracked:
            return f"{branch}, nothing changed since the last commit."
        parts = [f"{self.changed:,} changed"] if self.changed else []
        parts += [f"{self.untracked:,} untracked"] if self.untracked else []
        names = f": {', '.join(self.names)}" if self.names and named else ""
        more = ", …" if names and self.changed > len(self.names) else ""
        return f"{branch}, {' and '.join(parts)} when the session began{names}{more}."


async def discover(folder: Path, roots: tuple[Path, ...]) -> Found:
    """What is in `folder`, one of `roots`. Takes at most about GIT_SECONDS; never raises but for cancellation.

    The folder must be trusted: git is asked, in a way in which it runs nothing of the repository (R-05).
    """
    stop = threading.Event()
    try:
        looked, status = await asyncio.gather(
            asyncio.to_thread(_looked, folder, stop), _status(Git(folder, roots), folder)
        )
    finally:
        stop.set()
    found: Found = msgspec.structs.replace(looked, **status)
    return found


def text_for(found: tuple[tuple[str, Found], ...], window: int | None) -> str:
    """What the system message says of the folders, each with its name where there are several; may be empty."""
    room = (SMALL if window is not None and window <= SMALL_WINDOW else FULL) // max(1, len(found))
    parts = [(name, one.told(room)) for name, one in found]
    told = [f"In {name}:\n{text}" if len(found) > 1 else text for name, text in parts if text]
    return marked_hidden("\n".join(told))


# --- by file --------------------------------------------------------------------------------


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("tui_agent.engine").joinpath("discovery.json").read_bytes())
    return table


@cache
def _language_of() -> dict[str, str]:
    return {ending: name for name, endings in _table()["languages"].items() for ending in endings}


def _looked(folder: Path, stop: threading.Event) -> Found:
    try:
        names = {entry.name for _, entry in zip(range(ENTRIES), os.scandir(folder), strict=False)}
    except OSError:
        return Found()
    counts, counted_all = _counted(folder, stop)
    common = counts.most_common(LANGUAGES)
    least = common[0][1] // 50 if common else 0
    return Found(
        projects=tuple(name for name in _table()["projects"] if name in names)[:NAMES],
        documents=tuple(name for name in _table()["documents"] if name in names)[:NAMES],
        languages=tuple((name, number) for name, number in common if number > least),
        counted_all=counted_all,
        branch=shown_name(branch_of(folder) or "")[:80],
    )


def _counted(folder: Path, stop: threading.Event) -> tuple[Counter[str], bool]:
    """Files by language, and whether all were seen: breadth first, so that a limit leaves out what lies deepest."""
    counts: Counter[str] = Counter()
    until, left = time.monotonic() + SECONDS, ENTRIES
    queue = deque([(folder, Ignoring.at(folder, folder))])
    skipped, language_of = frozenset(_table()["skipped"]), _language_of()
    while queue:
        where, rules = queue.popleft()
        parts = where.relative_to(folder).parts
        try:
            with open_folder(where) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    left -= 1
                    late = left % LOOKS == 0 and time.monotonic() > until
                    if left < 0 or late or stop.is_set():
                        return counts, False
                    name = entry.name
                    if name.startswith(".") or entry.is_symlink():
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    language = language_of.get(name.rpartition(".")[2])
                    near = name not in skipped and len(parts) < DEPTH
                    wanted = near if is_folder else language is not None
                    if not wanted or rules.ignores((*parts, name), is_folder):
                        continue
                    if is_folder:
                        queue.append((where / name, rules.below(where / name)))
                    elif language is not None:
                        counts[language] += 1
        except OSError:
            continue
    return counts, True


# --- by git ---------------------------------------------------------------------------------


async def _status(git: Git, folder: Path) -> dict[str, Any]:
    """The fields of Found that git knows."""
    if await asyncio.to_thread(branch_of, folder) is None:
        return {}
    said = await git.ask(
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--",
        ".",
        seconds=GIT_SECONDS,
    )
    if said is None:
        return {}
    rows = [row.decode("utf-8", "surrogateescape") for row in said.split(b"\0") if row]
    changed = [row[3:] for row in rows if not row.startswith(("??", "!!"))]
    return {
        "changed": len(changed),
        "untracked": sum(row.startswith("??") for row in rows),
        "names": tuple(shown_name(name)[:80] for name in changed[:NAMES]),
    }
