"""A copy of an open session: for an export while saving fails, and at the end of a session that can't be saved."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from tui_agent.common import paths
from tui_agent.engine.core.stream import EventStream
from tui_agent.storage.folder import JOURNAL
from tui_agent.storage.lines import to_line

COPY_CHUNK = 1 << 20
"""Bytes copied at a time."""


class Unsaved(msgspec.Struct, frozen=True):
    """The end of a session that could not be saved in its folder."""

    problem: str
    """The reason, as a sentence."""
    copy: Path | None
    """Folder of a complete copy of the session; None if none could be written."""
    resumable: bool
    """The copy is where sessions are looked for."""

    def __str__(self) -> str:
        """Return what happened and what to do."""
        problem = f"{self.problem.rstrip('.')}."
        if self.copy is None:
            return f"This session is not saved: {problem} No copy could be written elsewhere either."
        if self.resumable:
            return f"This session was lost on disk, and was written again to {self.copy}: {problem}"
        return (
            f"This session is not saved: {problem} A complete copy is in {self.copy}; "
            f"move it to {paths.sessions_dir() / self.copy.name.removeprefix(COPY_PREFIX)} to resume it."
        )


COPY_PREFIX = "tui-agent-"
"""Beginning of the name of a copy outside the folder of the sessions."""


async def save_elsewhere(stream: EventStream, folder: Path, problem: str) -> Unsaved:
    """Write a copy of the journal to the first place that takes it: where the session was, the home folder, `/tmp`."""
    places = [] if await asyncio.to_thread(folder.exists) else [folder]
    with contextlib.suppress(paths.HomeNotFoundError):
        places.append(paths.home_dir() / f"{COPY_PREFIX}{folder.name}")
    places.append(Path(tempfile.gettempdir()) / f"{COPY_PREFIX}{folder.name}")
    for place in places:
        try:
            await asyncio.to_thread(paths.ensure_private_dir, place.parent) if place == folder else None
            await asyncio.to_thread(place.mkdir, 0o700)
        except OSError:
            continue
        try:
            await copy_journal(stream, place / JOURNAL)
        except OSError:
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
            continue
        return Unsaved(problem, place, place == folder)
    return Unsaved(problem, None, False)


async def copy_journal(stream: EventStream, path: Path) -> None:
    """Write the journal of a running session to the new file `path`, unwritten records included. Raises OSError."""
    read, unwritten = stream.journal_content()

    def copy() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            while data := read(file.tell(), COPY_CHUNK):
                file.write(data)
            file.write(b"\n")  # the last line may be torn
            file.writelines(to_line(record, 0) for record in unwritten)
            file.flush()
            os.fsync(fd)

    await asyncio.to_thread(copy)
