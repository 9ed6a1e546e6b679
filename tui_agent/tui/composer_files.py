"""The composer's files: a draft in the session's folder, a history for each workspace. Exact, and private (0600).

All functions block. A file that can't be read or written is a comfort less, never a failure.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from threading import Lock

import msgspec

from tui_agent import paths
from tui_agent.platform.file_faults import FileFault
from tui_agent.text import clean
from tui_agent.tui.outbox import Kept
from widgets.drafting import ENTRIES, Written

FILE = "composer.json"
UNREAD = "composer-unread.json"
"""One that could not be read: kept out of the way of the next."""
LENT = f"prompt-{os.getpid()}-"
"""How the files begin that this process lends to an editor, in the session's folder."""
LARGEST = 64_000_000
"""Bytes of a draft that are read."""
PAST_BYTES = 6_000_000
"""Bytes of a history that are read; a file of twice the size is cut down to them."""
LENT_BYTES = 16_000_000
"""Bytes of a text that are taken back from an editor."""
ENTRY_BYTES = 4_000_000
"""A longer message is in the history of its own process only."""

TROUBLE = (OSError, ValueError, FileFault, paths.NoHome)
"""What can go wrong with a file of ours; a text that is no UTF-8 is a ValueError."""


def session_folder(session: str) -> Path | None:
    """Where a session lies; None when there is no such folder."""
    with contextlib.suppress(*TROUBLE):
        folder = paths.sessions_dir() / Path(session).name
        if folder.is_dir():
            return folder
    return None


def read_kept(session: str) -> Kept:
    """What stood in the composer of this session; nothing when nothing is known. A file that can't be read is UNREAD
    afterwards, so that nothing is written over it."""
    folder = session_folder(session)
    if folder is None:
        return Kept()
    path = folder / FILE
    try:
        if path.stat().st_size <= LARGEST:
            return msgspec.json.decode(path.read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept()
    except TROUBLE:
        pass
    with contextlib.suppress(*TROUBLE):
        path.replace(folder / UNREAD)
    return Kept()


def write_kept(session: str, kept: Kept) -> bool:
    """Replace it, whole or not at all; nothing to keep takes the file away. False when that failed."""
    from tui_agent.platform.files import atomic_write

    folder = session_folder(session)
    if folder is None:
        return True  # there is no session on disk that could be resumed
    try:
        if kept.empty:
            (folder / FILE).unlink(missing_ok=True)
        else:
            atomic_write(folder / FILE, msgspec.json.encode(kept))
    except TROUBLE:
        return False
    return True


def left_by_editors(session: str) -> list[tuple[Path, str]]:
    """Files that an earlier process had lent to an editor when it died, with what was saved in them."""
    folder = session_folder(session)
    found: list[tuple[Path, str]] = []
    with contextlib.suppress(*TROUBLE):
        for path in sorted(folder.glob("prompt-*.md")) if folder is not None else ():
            if not path.name.startswith(LENT) and (text := read_lent(path)) is not None:
                found.append((path, text))
    return found


def forget_lent(left: Iterable[tuple[Path, str]]) -> None:
    """Those are in the history now, but for what is too long for it."""
    for path, text in left:
        if fits(text):
            with contextlib.suppress(OSError):
                path.unlink()


def fits(text: str) -> bool:
    """True when an entry of the history can hold it for certain."""
    return len(text) <= ENTRY_BYTES // 5


def read_lent(path: Path) -> str | None:
    """What an editor left in a file; None when it can't be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return clean(file.read(LENT_BYTES).decode("utf-8", "replace"))
    return None


class Desk:
    """What one composer has on disk. Threads of several speeds may write: one at a time, none over a later one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = count(1)
        self._written = 0
        self._new: list[Written] = []

    def number(self) -> int:
        """Of something to keep, told when it is looked at: a greater one is newer."""
        return next(self._numbers)

    def keep(self, session: str, kept: Kept, number: int) -> bool:
        """Write the draft unless a newer one was. False when that failed. Blocks."""
        with self._lock:
            if number < self._written:
                return True
            self._written = number
            return write_kept(session, kept)

    def remember(self, new: Iterable[Written]) -> None:
        """These belong into the history as soon as `append` is called."""
        self._new += new

    def append(self, workspace: str) -> bool:
        """Write what is new into the workspace's history; what fails stays for the next time. Blocks."""
        with self._lock:
            new = [*self._new]
            if new and not append_past(workspace, new):
                del self._new[:-ENTRIES]
                return False
            del self._new[: len(new)]
            return True


def past_file(workspace: str) -> Path:
    """The history of a workspace, named so that nothing of its path shows. Raises NoHome."""
    name = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return paths.data_dir() / "history" / f"{name}.jsonl"


def append_past(workspace: str, new: Sequence[Written]) -> bool:
    """Add to a workspace's history; two processes may do so at once. False when that failed."""
    from tui_agent.platform.append import Appender

    try:
        path = past_file(workspace)
        paths.ensure_private_dir(path.parent)
        lines = [line for one in new if len(line := msgspec.json.encode(one) + b"\n") <= ENTRY_BYTES]
        appender = Appender(path)
        try:
            appender.append(lines)
        finally:
            appender.close()
    except TROUBLE:
        return False
    return True


def read_past(workspace: str) -> list[Written]:
    """The newest ENTRIES of a workspace's history, oldest first. A line that is damaged is left out."""
    with contextlib.suppress(*TROUBLE):
        path = past_file(workspace)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - PAST_BYTES))
            data = file.read(PAST_BYTES)
        lines = data.split(b"\n")
        found = [one for line in lines[-ENTRIES - 1 :] if (one := _entry(line)) is not None]
        if size > 2 * PAST_BYTES:
            _cut(path, found)
        return found
    return []


def _entry(line: bytes) -> Written | None:
    with contextlib.suppress(ValueError):
        return msgspec.json.decode(line, type=Written)
    return None


def _cut(path: Path, found: Sequence[Written]) -> None:
    from tui_agent.platform.files import atomic_write

    atomic_write(path, b"".join(msgspec.json.encode(one) + b"\n" for one in found))
