"""AGENTS.md files: the user's own, those of the folders that the agent works in, and those of the folders below (H1,
R29.1). Whoever asks makes sure that a folder is trusted (A8)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tui_agent.text import marked_hidden

AGENTS_FILE = "AGENTS.md"
AGENTS_CAP = 16_000
"""Characters taken from one of them."""
NESTED_CAP = 8_000
"""Characters taken from one of a folder below."""

Stamp = tuple[int, int, int]


class Ground(msgspec.Struct, frozen=True):
    """A trusted folder of the workspace."""

    folder: Path
    name: str = ""
    """What its paths begin with; empty where there is only one."""
    above: tuple[Path, ...] = ()
    """Trusted folders above it up to the top of its repository, the topmost first."""

    def shown(self, path: Path) -> str:
        """The path as user and model know it."""
        shown = os.path.relpath(path, self.folder)
        return f"{self.name}/{shown}" if self.name else shown


class AgentFile(msgspec.Struct, frozen=True):
    """One of them, as it was read."""

    path: Path
    source: str
    """What it is called: `the user`, `AGENTS.md`, `src/api/AGENTS.md`."""
    text: str = ""
    warning: str = ""
    """Why it was not used, or not as a whole."""
    stamp: Stamp | None = None
    """Time, size and inode; None where there is none."""

    @property
    def told(self) -> str:
        """What the model gets."""
        return f"Rules from {self.source}:\n{self.text}"


def gather(home_file: Path, grounds: Sequence[Ground]) -> tuple[AgentFile, ...]:
    """The user's file, then those of each folder from the top of its repository down. Absent ones are among them, so
    that their coming is noticed. Does file IO."""
    found = [read_agent_file(home_file, "the user", None)]
    for ground in grounds:
        for folder in (*ground.above, ground.folder):
            path = folder / AGENTS_FILE
            if path != home_file and all(path != one.path for one in found):
                found.append(read_agent_file(path, ground.shown(path), folder))
    return tuple(found)


def unchanged(found: Sequence[AgentFile]) -> bool:
    """True while all files are as they were when they were read. Does file IO."""
    return all(stamp_of(one.path) == one.stamp for one in found)


def read_agent_file(path: Path, source: str, within: Path | None, cap: int = AGENTS_CAP) -> AgentFile:
    """One file, at most `cap` characters of it; one that leads out of `within` is not used. Does file IO."""
    stamp = stamp_of(path)
    try:
        if stamp is None or not path.is_file():
            return AgentFile(path, source, stamp=stamp)
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            return AgentFile(path, source, "", f"{path} was not used: it leads out of the folder.", stamp)
        with path.open("rb") as file:
            data = file.read(4 * cap)
        text = marked_hidden(data.decode("utf-8", "strict" if len(data) < 4 * cap else "ignore")).strip()
    except (OSError, UnicodeDecodeError) as error:
        return AgentFile(path, source, "", f"{path} was not used: {error}.", stamp)
    warning = ""
    if len(text) > cap:
        warning = f"{path} is longer than {cap:,} characters; the rest was left out."
        text = text[:cap]
    return AgentFile(path, source, text, warning, stamp)


def stamp_of(path: Path) -> Stamp | None:
    """What changes when a file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def above_in_repository(folder: Path) -> tuple[Path, ...]:
    """The folders above `folder` up to the one with `.git`, the topmost first; none where no repository is around it,
    or where it is one itself. Does file IO."""
    if os.path.lexists(folder / ".git"):
        return ()
    passed: list[Path] = []
    for above in folder.parents:
        passed.append(above)
        if os.path.lexists(above / ".git"):
            return tuple(reversed(passed))
    return ()
