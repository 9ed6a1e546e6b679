"""The ground that a session stands on: its folders are there, and their disks have room (D03, E14)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_agent.events import Notice

LOW = 16 << 20
"""Bytes free on a disk below which it is said."""


class Footing:
    """Looks at `folders`; tells once of each that is gone, and of each disk that is nearly full."""

    def __init__(self, folders: Sequence[Path], tell: Callable[[Notice], object]) -> None:
        self._folders = tuple(folders)
        self._tell = tell
        self._told: set[str] = set()

    async def look(self) -> None:
        """Look now, off the event loop. Raises nothing."""
        found = await asyncio.to_thread(_troubles, self._folders)
        for text, notice in found.items():
            if text not in self._told:
                self._tell(notice)
        self._told = set(found)


def _troubles(folders: Sequence[Path]) -> dict[str, Notice]:
    """What is wrong, by what tells it from other trouble."""
    found: dict[str, Notice] = {}
    for folder in folders:
        try:
            device, room = os.stat(folder).st_dev, os.statvfs(folder)
        except OSError as error:
            text = f"The folder {folder} can't be reached: {error.strerror}. Nothing can be read or written there."
            found[f"gone {folder}"] = Notice(level="error", text=text, code="folder.gone")
            continue
        free = room.f_bavail * room.f_frsize
        if free < LOW:
            left = f"{free / (1 << 20):,.1f} MiB are free"
            text = f"The disk of {folder} is nearly full: {left}. What is written next may not be kept."
            found.setdefault(f"full {device}", Notice(level="warning", text=text, code="disk.full"))
    return found
