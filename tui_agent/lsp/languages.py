"""Which language a file is in and which commands serve it: the built-in table and the user's own entries (T3)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tui_agent.common.domain import FrozenValue
from tui_agent.common.tables import read_table
from tui_agent.platform.programs import find_program

ENTRIES = 20_000
"""Files and folders of a root that are looked at to see which languages it has."""
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist", "vendor"})


class Language(FrozenValue, frozen=True, kw_only=True):
    """A language and how it is served."""

    name: str
    title: str
    """For people."""
    suffixes: tuple[str, ...] = ()
    ids: dict[str, str] = msgspec.field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Other names that settings may use."""
    servers: tuple[tuple[str, ...], ...] = ()
    """Commands, the preferred one first."""

    def id_of(self, path: Path) -> str:
        """The protocol's name of the language of one file."""
        return self.ids.get(path.suffix.lower(), self.name)


class ServerCommand(FrozenValue, frozen=True, kw_only=True):
    """A server that can be started."""

    program: str
    """Absolute path, outside of the workspace."""
    argv: tuple[str, ...]


@functools.cache
def _table() -> tuple[Language, ...]:
    rows = read_table(__file__, "servers.toml").items()
    return tuple(msgspec.convert({"name": name, **row}, Language) for name, row in rows)


def languages(own: Mapping[str, Sequence[str]]) -> tuple[Language, ...]:
    """All languages; the command in `own` (setting `language_servers`) stands instead of the built-in ones.

    A name that the table does not know is a language of its own, whose files end with it.
    """
    named = {name.lower(): tuple(command) for name, command in own.items()}
    found = []
    for language in _table():
        wanted = [named.pop(name) for name in (language.name, *language.also) if name in named]
        found.append(msgspec.structs.replace(language, servers=(wanted[0],)) if wanted else language)
    for name, command in named.items():
        suffixes = (name if name.startswith(".") else f".{name}",)
        found.append(Language(name=name, title=name, suffixes=suffixes, servers=(command,)))
    return tuple(found)


def language_of_file(path: Path, known: Sequence[Language]) -> Language | None:
    """The language that a file's name tells; None for others."""
    suffix = path.suffix.lower()
    return next((one for one in known if suffix in one.suffixes), None)


def commands(language: Language, folders: Sequence[Path]) -> tuple[ServerCommand, ...]:
    """Servers of a language that are installed outside of `folders`. Does file IO."""
    found = []
    for name, *rest in language.servers:
        program = find_program(name, folders)
        if program is not None:
            found.append(ServerCommand(program=str(program), argv=(program.name, *rest)))
    return tuple(found)


def code_files(root: Path, suffixes: frozenset[str], entries: int = ENTRIES) -> Iterator[os.DirEntry[str]]:
    """Files below `root` that end so, folders near the top first; nothing hidden or installed. Does file IO."""
    waiting = [str(root)]
    for folder in waiting:
        try:
            with os.scandir(folder) as found:
                here = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in here:
            entries -= 1
            if entries < 0:
                return
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif os.path.splitext(entry.name)[1].lower() in suffixes and entry.is_file(follow_symlinks=False):
                yield entry
