"""The composer's files: a draft in the session's folder, a history for each workspace. Exact, and private (0600).

All functions block. A file that can't be read or written is a comfort less, never a failure.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tui_agent import paths
from tui_agent.platform.file_faults import FileFault
from tui_agent.tui.outbox import Kept
from widgets.drafting import ENTRIES, Written

FILE = "composer.json"
LARGEST = 64_000_000
"""Bytes of a draft that are read."""
PAST_BYTES = 6_000_000
"""Bytes of a history that are read; a file of twice the size is cut down to them."""
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
    """What stood in the composer of this session; nothing when nothing is known."""
    folder = session_folder(session)
    if folder is not None:
        with contextlib.suppress(*TROUBLE):
            path = folder / FILE
            if path.stat().st_size <= LARGEST:
                return msgspec.json.decode(path.read_bytes(), type=Kept)
    return Kept()


def write_kept(session: str, kept: Kept) -> None:
    """Replace it, whole or not at all; nothing to keep takes the file away."""
    from tui_agent.platform.files import atomic_write

    folder = session_folder(session)
    if folder is None:
        return
    with contextlib.suppress(*TROUBLE):
        if kept.empty:
            (folder / FILE).unlink(missing_ok=True)
        else:
            atomic_write(folder / FILE, msgspec.json.encode(kept))


def past_file(workspace: str) -> Path:
    """The history of a workspace, named so that nothing of its path shows. Raises NoHome."""
    name = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return paths.data_dir() / "history" / f"{name}.jsonl"


def append_past(workspace: str, new: Sequence[Written]) -> None:
    """Add to a workspace's history; two processes may do so at once."""
    from tui_agent.platform.append import Appender

    with contextlib.suppress(*TROUBLE):
        path = past_file(workspace)
        paths.ensure_private_dir(path.parent)
        lines = [line for one in new if len(line := msgspec.json.encode(one) + b"\n") <= ENTRY_BYTES]
        appender = Appender(path)
        try:
            appender.append(lines)
        finally:
            appender.close()


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
