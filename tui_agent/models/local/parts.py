"""Incomplete downloads: a folder for each model, with its files and what is known of them (L2)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.models.local import library
from tui_agent.models.local.library import LocalFile
from tui_agent.models.local.progress import DownloadFailed, Meter
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file
from tui_agent.platform.locks import FileLock, InUse

_P = ParamSpec("_P")
_T = TypeVar("_T")

_BLOCK = 8 << 20
"""Bytes that are hashed at once, in a thread."""


async def in_thread(function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """Run a function in a thread. If this is cancelled, it ends first: nothing writes to a file after that."""
    running = asyncio.create_task(asyncio.to_thread(function, *args, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # nobody waits for it any more
        raise


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
    """One incomplete file in the folder of its model, which no other process downloads.

    All methods but `verify` block: they are for threads.
    """

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

    def save(self, state: PartState) -> None:
        """Store what is known. Raises DownloadFailed."""
        if state != self.state or not self._state_path.exists():
            try:
                atomic_write(self._state_path, msgspec.json.encode(state))
            except FileFault as error:
                raise DownloadFailed(f"The download can't be saved: {error}.", "failed") from error
        self.state = state

    def truncate(self, length: int) -> None:
        """Discard what follows `length` bytes. Raises OSError."""
        if self.size > length:
            os.truncate(self.path, length)

    def delete(self) -> None:
        """Delete the file and what is known of it."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.forget()

    def forget(self) -> None:
        """Delete what is known of the file."""
        with contextlib.suppress(OSError):
            self._state_path.unlink()
        self.state = PartState(name=self.name)

    @property
    def is_moved(self) -> bool:
        """Whether the file is complete and in the folder of models already: what is left of it here has no use."""
        target = paths.models_dir() / self.name
        try:
            if not self.state.verified or target.stat().st_size != self.state.size:
                return False
            return not self.path.exists() or self.path.samefile(target)
        except OSError:
            return False

    def check_space(self, missing: int) -> None:
        """Raise DownloadFailed if the disk has no room for `missing` more bytes."""
        if problem := library.space_problem(self.name, missing):
            raise DownloadFailed(problem, "no_space")

    async def verify(self, meter: Meter) -> None:
        """Check size and hash. A wrong file is deleted.

        Raises DownloadFailed.
        """
        state = self.state
        if state.verified and self.size == state.size:
            return
        size = self.size
        if state.size is not None and size != state.size:
            await self._reject(f"it has {size:,} bytes instead of {state.size:,}")
        if state.sha256 and (actual := await _hash(self.path, meter)) != state.sha256:
            await self._reject(f"its SHA-256 is {actual[:12]}… instead of {state.sha256[:12]}…")
        await in_thread(self.save, msgspec.structs.replace(state, size=size, verified=True))

    async def _reject(self, why: str) -> NoReturn:
        await in_thread(self.delete)
        raise DownloadFailed(f"{self.name} was deleted: {why}. Try again, or use another source.", "wrong")

    def move(self, folder: Path) -> None:
        """Move the complete file into `folder`; what is known of it stays. Raises FileExistsError or OSError."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        library.move_new(self.path, folder / self.name)


async def _hash(path: Path, meter: Meter) -> str:
    digest, done = hashlib.sha256(), 0

    def add(file: int) -> int:
        block = os.pread(file, _BLOCK, done)
        digest.update(block)
        return len(block)

    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        await in_thread(os.fsync, file)
        while count := await in_thread(add, file):
            done += count
            meter.report(done, "checking")
    finally:
        os.close(file)
    return digest.hexdigest()


async def is_in_folder(
    wanted: PartState, origin: str, meter: Meter, *, first: str = "", was_moved: bool = False
) -> bool:
    """Return whether this file is in the folder of models already; `first` is the first file of its model.

    It is if the index names its hash or its origin, if this download has moved it there before, or if it has the hash.
    Raises DownloadFailed if the name is that of another file.
    """
    path = paths.models_dir() / wanted.name
    if not os.path.lexists(path):
        return False
    entry = await in_thread(_listed, path.with_name(first or wanted.name))
    has_size = path.exists() and wanted.size in (None, path.stat().st_size)
    if not has_size:
        same = False
    elif wanted.sha256 and entry is not None and entry.sha256:
        same = wanted.sha256 == entry.sha256
    elif was_moved or (entry is not None and entry.origin == origin):
        same = True
    else:
        same = bool(wanted.sha256) and await _hash(path, meter) == wanted.sha256
    if not same:
        raise another_model(wanted.name)
    return True


def _listed(path: Path) -> LocalFile | None:
    return next((file for file in library.local_files() if file.path == path), None)


def another_model(file: str) -> DownloadFailed:
    """Return the error for a model whose name is taken in the folder of models."""
    name, _, _ = library.split_name(file)
    return DownloadFailed(
        f"There already is another model {name} in {paths.models_dir()}. Remove it with `tui-agent models remove "
        f"{name}`, or rename its file, then try again.",
        "failed",
    )


async def publish(parts: Sequence[Part], folder: Path) -> Path:
    """Check the complete files of a model together and move them into `folder`; return the first.

    Never replaces a file. Raises DownloadFailed, after deleting files that are not a model, or OSError.
    """
    from tui_agent.models.local.gguf import GgufError, read_gguf

    if all(part.path.exists() for part in parts):  # else some have been checked and moved before
        try:
            await in_thread(read_gguf, parts[0].path)
        except GgufError as error:
            for part in parts:
                await in_thread(part.delete)
            raise DownloadFailed(f"{error} What was downloaded is deleted.", "wrong") from error
    for part in parts:
        if part.path.exists():
            try:
                await in_thread(part.move, folder)
            except FileExistsError:
                raise another_model(part.name) from None
    for part in parts:  # only now: until all are moved, it says which file in the folder belongs to this model
        await in_thread(part.forget)
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
    """Return the incomplete downloads with the bytes that are there; delete what complete ones have left.

    Blocks briefly.
    """
    library.remove_abandoned_copies()
    found = []
    for folder in _part_folders():
        parts = _parts_in(folder)
        missing = [part for part in parts if not part.is_moved]
        found += [(part.state, part.size) for part in missing]
        if parts and not missing:
            for part in parts:
                part.delete()
            with contextlib.suppress(OSError):
                folder.rmdir()
    return found


def _part_folders() -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(path for path in library.parts_dir().iterdir() if path.is_dir())
    return []


def _parts_in(folder: Path) -> list[Part]:
    states = [read_part_state(path) for path in sorted(folder.glob("*.json"))]
    return [Part(folder, state.name) for state in states if state is not None]


def find_incomplete(name: str) -> tuple[Path, int] | None:
    """Return the folder of the incomplete download of a model, and the bytes in it; None if there is none."""
    wanted = library.split_name(name)[0].lower()
    for folder in _part_folders():
        names = [folder.name, *(part.name for part in _parts_in(folder))]
        if any(library.split_name(one)[0].lower() == wanted for one in names):
            files = [path for path in folder.rglob("*") if path.is_file()]
            if files:
                return folder, sum(path.stat().st_size for path in files)
    return None


def discard_incomplete(folder: Path) -> None:
    """Delete an incomplete download that `find_incomplete` has found. Blocks. Raises DownloadFailed."""
    try:
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            shutil.rmtree(folder)
    except InUse as error:
        by = f"process {error.holder.pid}" if error.holder else "another process"
        raise DownloadFailed(f"{folder.name} is being downloaded by {by}. Stop it first.", "in_use") from None
    except OSError as error:
        raise DownloadFailed(f"{folder} can't be deleted: {error.strerror or error}.", "failed") from error
