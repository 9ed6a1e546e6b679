"""The numbers of all sessions. A journal that is as it was when it was read last is not read again (S4)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file
from tui_agent.stats.numbers import Tally
from tui_agent.stats.reading import read
from tui_agent.storage.folder import JOURNAL, load_info
from tui_agent.storage.session_files import regular

KEPT = "stats-cache.jsonl"
"""In the data folder; can be deleted at any time."""
KEPT_MAX = 256 << 20
"""Bytes of it that are read at most."""
VERSION = 2
"""Of what is counted: another one makes all journals be read anew."""
_HEAD = b'{"version":%d}' % VERSION


class Kept(msgspec.Struct, array_like=True):
    """The numbers of a journal, and what it looked like when they were read."""

    name: str
    """Of the session."""
    size: int
    mtime: int
    """Nanoseconds."""
    tally: Tally


class Gathered(msgspec.Struct):
    """All numbers, and what is missing in them."""

    tally: Tally
    skipped: dict[str, str] = {}
    """Session → why it could not be read, as a sentence."""
    damaged: list[str] = []
    """Sessions in whose journals records could not be read; the others of them are counted."""
    read: int = 0
    """Journals that were read now; the numbers of the others were known."""


def gather(
    home: Path,
    workspace: Path | None = None,
    *,
    tell: Callable[[int, int], None] = lambda done, of: None,
    stop: Callable[[], bool] = lambda: False,
) -> Gathered:
    """The numbers of the sessions under `home` (`paths.data_dir()`), with `workspace` of those that work there.

    `tell` hears how many were looked at, `stop` is asked before each; what is known by then is returned. Blocks. Never
    raises for what is in the folders.
    """
    cache = _load(home / KEPT)
    fresh: dict[str, Kept] = {}
    found = Gathered(tally=Tally())
    folders = sorted(_journals(home / "sessions"))
    for number, (name, path) in enumerate(folders):
        tell(number, len(folders))
        if stop():
            fresh = {**cache, **fresh}
            break
        kept = _numbers(name, path, cache, found)
        if kept is None:
            continue
        fresh[name] = kept
        if workspace is not None and not _works_in(path.parent, workspace):
            continue
        found.tally.add(kept.tally)
        if kept.tally.damaged:
            found.damaged.append(name)
    if found.read or fresh.keys() != cache.keys():
        _save(home / KEPT, fresh)
    return found


def _numbers(name: str, path: Path, cache: dict[str, Kept], found: Gathered) -> Kept | None:
    try:
        status = os.lstat(path)
        known = cache.get(name)
        if known is not None and (known.size, known.mtime) == (status.st_size, status.st_mtime_ns):
            return known
        tally = read(path)
    except OSError as error:
        found.skipped[name] = f"{JOURNAL} can't be read: {error.strerror or error}."
        return None
    found.read += 1
    return Kept(name, status.st_size, status.st_mtime_ns, tally)


def _journals(sessions: Path) -> Iterator[tuple[str, Path]]:
    try:
        entries = list(os.scandir(sessions))
    except OSError:
        return
    for one in entries:
        journal = sessions / one.name / JOURNAL
        with contextlib.suppress(OSError):
            if one.is_dir(follow_symlinks=False) and regular(journal):
                yield one.name, journal


def _works_in(folder: Path, workspace: Path) -> bool:
    info = load_info(folder)
    return info is not None and info.workspace == os.path.realpath(workspace)


def _load(path: Path) -> dict[str, Kept]:
    """Line by line, so that no other thread waits long for its turn."""
    try:
        lines = read_file(path, KEPT_MAX).data.split(b"\n")
    except (FileFault, OSError):
        return {}
    known: dict[str, Kept] = {}
    if lines[0] != _HEAD:
        return known
    decode = msgspec.json.Decoder(Kept).decode
    for line in lines[1:]:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            kept = decode(line)
            known[kept.name] = kept
    return known


def _save(path: Path, cache: dict[str, Kept]) -> None:
    """What fails is no loss: the journals are read again then."""
    with contextlib.suppress(OSError, FileFault, UnicodeEncodeError):
        lines = [_HEAD, *(msgspec.json.encode(kept) for kept in cache.values())]
        atomic_write(path, b"\n".join(lines) + b"\n")
