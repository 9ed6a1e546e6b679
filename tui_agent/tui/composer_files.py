"""The composer's files: a draft per session and a history per workspace, unmasked and private (0600).

What is typed before a session is open is saved per workspace and process.

All functions block. None of them raises if a file can't be read or written: both are a convenience.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tui_agent.common import paths
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.locks import start_time
from tui_agent.text import clean
from tui_agent.tui.outbox import ComposerState
from widgets.composer_history import MAX_ENTRIES, DraftText

STATE_FILE = "composer.json"
EARLY = "starting"
"""Folder of the files with what was typed before a session was ready."""
UNREADABLE_FILE = "composer-unread.json"
"""An unreadable state file is renamed to this, so that it is not overwritten."""
EDITOR_PREFIX = f"prompt-{os.getpid()}-"
"""Prefix of the files that this process opens in an editor, in the session's folder."""
MAX_STATE_BYTES = 64_000_000
MAX_HISTORY_BYTES = 6_000_000
"""Only the end of a longer history is read; a file of twice the size is cut."""
MAX_EDITOR_BYTES = 16_000_000
MAX_ENTRY_BYTES = 4_000_000
"""Longer messages are not saved in the history."""

FILE_ERRORS = (OSError, ValueError, FileFault, paths.HomeNotFoundError)
"""Errors of reading and writing; text that is not UTF-8 is a ValueError."""


def session_folder(session: str) -> Path | None:
    """Return the folder of a session, or None if it does not exist."""
    with contextlib.suppress(*FILE_ERRORS):
        folder = paths.sessions_dir() / Path(session).name
        if folder.is_dir():
            return folder
    return None


def _early_file(workspace: str) -> Path:
    """Return this process's file for text typed before the session is ready. Raises HomeNotFoundError."""
    pid = os.getpid()
    return paths.data_dir() / EARLY / f"{_key(workspace)}.{pid}.{start_time(pid)}.json"


def write_early(workspace: str, state: ComposerState) -> bool:
    """Save what was typed before the session is ready; if nothing was, delete the file. Returns False on failure."""
    try:
        path = _early_file(workspace)
        if not state.empty:
            paths.ensure_private_dir(path.parent)
        _write(path, state)
    except FILE_ERRORS:
        return False
    return True


def find_abandoned(workspace: str) -> list[tuple[Path, ComposerState]]:
    """Return path and content of the files that dead processes wrote with `write_early`, oldest first."""
    found: list[tuple[float, Path, ComposerState]] = []
    with contextlib.suppress(*FILE_ERRORS):
        for path in (paths.data_dir() / EARLY).glob(f"{_key(workspace)}.*.json") if workspace else ():
            pid, started = path.name.split(".")[1:3]
            if not pid.isdigit() or start_time(int(pid)) == started:
                continue
            with contextlib.suppress(*FILE_ERRORS):
                state = msgspec.json.decode(path.read_bytes(), type=ComposerState)
                found.append((path.stat().st_mtime, path, state))
    return [(path, state) for _time, path, state in sorted(found, key=lambda one: one[:2])]


def remove_files(files: Iterable[Path]) -> None:
    """Delete files; one that can't be deleted stays."""
    for path in files:
        with contextlib.suppress(OSError):
            path.unlink()


def read_composer_state(session: str) -> ComposerState:
    """Return the saved state of a session's composer, or an empty one; an unreadable file is renamed."""
    folder = session_folder(session)
    if folder is None:
        return ComposerState()
    path = folder / STATE_FILE
    try:
        if path.stat().st_size <= MAX_STATE_BYTES:
            return msgspec.json.decode(path.read_bytes(), type=ComposerState)
    except FileNotFoundError:
        return ComposerState()
    except FILE_ERRORS:
        pass
    with contextlib.suppress(*FILE_ERRORS):
        path.replace(folder / UNREADABLE_FILE)
    return ComposerState()


def write_state(session: str, state: ComposerState) -> bool:
    """Replace the saved state atomically, or delete it if `state` is empty. Returns False on failure."""
    folder = session_folder(session)
    if folder is None:
        return True  # no session on disk that could be resumed
    try:
        _write(folder / STATE_FILE, state)
    except FILE_ERRORS:
        return False
    return True


def _write(path: Path, state: ComposerState) -> None:
    from tui_agent.platform.files import atomic_write

    if state.empty:
        path.unlink(missing_ok=True)
    else:
        atomic_write(path, msgspec.json.encode(state))


def find_editor_files(session: str) -> list[tuple[Path, str]]:
    """Return path and text of the files that were open in an editor when an earlier process died."""
    folder = session_folder(session)
    files: list[tuple[Path, str]] = []
    with contextlib.suppress(*FILE_ERRORS):
        for path in sorted(folder.glob("prompt-*.md")) if folder is not None else ():
            if not path.name.startswith(EDITOR_PREFIX) and (text := read_editor_file(path)) is not None:
                files.append((path, text))
    return files


def remove_editor_files(files: Iterable[tuple[Path, str]]) -> None:
    """Delete editor files whose text is in the history now."""
    for path, text in files:
        if fits_history(text):
            with contextlib.suppress(OSError):
                path.unlink()


def fits_history(text: str) -> bool:
    """Return True if a history entry can certainly hold the text, however it is encoded."""
    return len(text) <= MAX_ENTRY_BYTES // 5


def read_editor_file(path: Path) -> str | None:
    """Return the cleaned text of an editor file, or None if it can't be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return clean(file.read(MAX_EDITOR_BYTES).decode("utf-8", "replace"))
    return None


def history_file(workspace: str) -> Path:
    """Return the history file of a workspace; its name does not reveal the path. Raises HomeNotFoundError."""
    return paths.data_dir() / "history" / f"{_key(workspace)}.jsonl"


def _key(workspace: str) -> str:
    return hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def append_history(workspace: str, entries: Sequence[DraftText]) -> bool:
    """Append to a workspace's history; several processes may do so at once. Returns False on failure."""
    from tui_agent.platform.append import Appender

    lines = [line for entry in entries if len(line := msgspec.json.encode(entry) + b"\n") <= MAX_ENTRY_BYTES]
    try:
        path = history_file(workspace)
        paths.ensure_private_dir(path.parent)
        with contextlib.closing(Appender(path)) as appender:
            appender.append(lines)
    except FILE_ERRORS:
        return False
    return True


def read_history(workspace: str) -> list[DraftText]:
    """Return the newest `MAX_ENTRIES` of a workspace's history, oldest first, without damaged lines."""
    from tui_agent.platform.files import atomic_write

    entries: list[DraftText] = []
    with contextlib.suppress(*FILE_ERRORS):
        path = history_file(workspace)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_HISTORY_BYTES))
            data = file.read(MAX_HISTORY_BYTES)
        for line in data.split(b"\n")[-MAX_ENTRIES - 1 :]:
            with contextlib.suppress(ValueError):
                entries.append(msgspec.json.decode(line, type=DraftText))
        if size > 2 * MAX_HISTORY_BYTES:
            atomic_write(path, b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    return entries
