"""The languages of files and the commands of their servers: the built-in table and the user's settings (T3)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tui_agent.common.domain import FrozenValue
from tui_agent.platform.programs import find_program
from tui_agent.text.patterns import read_table

MAX_ENTRIES = 20_000
"""Files and folders of a root that are searched for code."""
_EXCLUDED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist", "vendor"})


class Language(FrozenValue, frozen=True, kw_only=True):
    """A language with the commands of its servers."""

    name: str
    title: str
    """Display name."""
    suffixes: tuple[str, ...] = ()
    ids: dict[str, str] = msgspec.field(default_factory=dict)
    """The protocol's language ids of some suffixes, where they differ from `name`."""
    aliases: tuple[str, ...] = ()
    """Other names that are accepted in settings."""
    servers: tuple[tuple[str, ...], ...] = ()
    """Commands, the preferred one first."""

    def id_of(self, path: Path) -> str:
        """Return the protocol's language id of a file."""
        return self.ids.get(path.suffix.lower(), self.name)


class ServerCommand(FrozenValue, frozen=True, kw_only=True):
    """A server that can be started."""

    program: str
    """Absolute path outside of the workspace."""
    argv: tuple[str, ...]


@functools.cache
def _table() -> tuple[Language, ...]:
    rows = read_table(__package__, "servers.toml").items()
    return tuple(msgspec.convert({"name": name, **row}, Language) for name, row in rows)


def languages(user_commands: Mapping[str, Sequence[str]]) -> tuple[Language, ...]:
    """Return all languages; `user_commands` (setting `language_servers`) replace the built-in commands.

    An unknown name is a language of its own, with the name as the suffix of its files.
    """
    commands = {name.lower(): tuple(command) for name, command in user_commands.items()}
    result = []
    for language in _table():
        own = tuple(commands.pop(name) for name in (language.name, *language.aliases) if name in commands)
        result.append(msgspec.structs.replace(language, servers=own[:1]) if own else language)
    for name, command in commands.items():
        suffixes = (name if name.startswith(".") else f".{name}",)
        result.append(Language(name=name, title=name, suffixes=suffixes, servers=(command,)))
    return tuple(result)


def language_of_file(path: Path, known: Sequence[Language]) -> Language | None:
    """Return the language of a file by its suffix."""
    suffix = path.suffix.lower()
    return next((language for language in known if suffix in language.suffixes), None)


def commands(language: Language, folders: Sequence[Path]) -> tuple[ServerCommand, ...]:
    """Return the servers of a language that are installed outside of `folders`. Does file IO."""
    return tuple(
        ServerCommand(program=str(program), argv=(program.name, *arguments))
        for name, *arguments in language.servers
        if (program := find_program(name, folders)) is not None
    )


def code_files(root: Path, suffixes: frozenset[str], max_entries: int = MAX_ENTRIES) -> Iterator[os.DirEntry[str]]:
    """Yield the files below `root` with these suffixes, top folders first, without hidden or installed ones.

    Does file IO.
    """
    folders = [str(root)]
    for folder in folders:
        try:
            with os.scandir(folder) as iterator:
                entries = sorted(iterator, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            max_entries -= 1
            if max_entries < 0:
                return
            if entry.name.startswith(".") or entry.name in _EXCLUDED:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif os.path.splitext(entry.name)[1].lower() in suffixes and entry.is_file(follow_symlinks=False):
                yield entry
