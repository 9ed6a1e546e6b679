"""Contents stored by hash in a session's folder, verified when read.

Those of edits are files, `blobs/ab/<sha256>`. Those saved before commands, which are many, are appended to one file,
`blobs/pack`, and synced together; `blobs/pack.index` has one entry per content, written after it. A crash can only tear
the ends of both; what the index names is complete.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from tui_agent.common.errors import CodedError
from tui_agent.platform.append import sync_folder
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import atomic_write, read_file, replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

FOLDER = "blobs"
MEGABYTE = 1 << 20
MAX_FILE_SIZE = 100 * MEGABYTE
"""Maximum size of one content."""
MAX_TOTAL_SIZE = 1024 * MEGABYTE
"""Maximum size of all contents of a session."""

_NAME = re.compile(r"[0-9a-f]{64}")
_ENTRY = struct.Struct(">32sQQ")
"""Hash, offset and size of a content."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class StoreError(CodedError):
    """A content can't be stored or read; `str()` is a sentence.

    `code` is `too_large`, `full`, `failed` (write error), `missing` or `damaged`.
    """


class BlobStore:
    """The contents of one session. All methods block and are thread-safe."""

    def __init__(
        self, session: Path, *, file_cap: int = MAX_FILE_SIZE, total_cap: int = MAX_TOTAL_SIZE, calls: OsCalls = OS
    ) -> None:
        """Store contents in `session`/blobs, created on first use."""
        self.folder = session / FOLDER
        self.file_cap = file_cap
        self.total_cap = total_cap
        self._calls = calls
        self._size: int | None = None
        self._durable: set[Path] = set()
        """Folders that were synced."""
        self._lock = threading.RLock()
        self._pack = Pack(self.folder, calls=calls)
        self.prunings = 0
        """How often contents were deleted."""

    @property
    def size(self) -> int:
        """Total size in bytes."""
        with self._lock:
            if self._size is None:
                self._size = sum(self._sizes().values())
            return self._size + self._pack.size

    def path_of(self, sha256: str) -> Path:
        """Return the path of a content, stored or not."""
        return self.folder / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """True if the content is stored; it is not verified."""
        with self._lock:
            return sha256 in self._pack or self.path_of(sha256).is_file()

    def refusal(self, size: int) -> str:
        """Return why a content of `size` bytes can't be stored, as a sentence, or an empty string."""
        if size > self.file_cap:
            return f"it has {size:,} bytes, and only files up to {self.file_cap:,} are kept for undo"
        if self.size + size > self.total_cap:
            return f"the {self.total_cap:,} bytes that a session may keep for undo are used up"
        return ""

    def put(self, data: bytes, *, capped: bool = True) -> str:
        """Store a content durably and return its sha256. Existing contents are not written again. Raises StoreError.

        `capped=False` ignores the limits, for content an undo is about to replace.
        """
        sha256 = sha256_of(data)
        with self._lock:
            is_stored = self.path_of(sha256).is_file()
            if self.has(sha256):
                with contextlib.suppress(StoreError):
                    self.get(sha256)
                    return sha256
            elif capped and (reason := self.refusal(len(data))):
                raise StoreError(reason, "too_large" if len(data) > self.file_cap else "full")
            size = self.size - self._pack.size
            try:
                if is_stored:  # damaged
                    atomic_write(self.path_of(sha256), data, calls=self._calls)
                else:
                    self._write_new(sha256, data)
            except (OSError, FileFault) as error:
                raise StoreError(f"its content could not be kept: {error}", "failed") from error
            self._size = size if is_stored else size + len(data)
        return sha256

    def put_all(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Store many contents with their hashes, durably, with one sync for all. Raises StoreError."""
        with self._lock:
            try:
                self._pack.add((sha256, data) for sha256, data in contents if not self.has(sha256))
            except OSError as error:
                raise StoreError(f"its content could not be kept: {error}", "failed") from error

    def _write_new(self, sha256: str, data: bytes) -> None:
        """Write a content durably, creating its folders."""
        path = Path(os.path.realpath(self.folder)) / sha256[:2] / sha256
        for folder in (path.parent.parent, path.parent):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            if folder not in self._durable:  # also if the process that created it died before syncing
                sync_folder(folder.parent)
                self._durable.add(folder)
        with contextlib.suppress(FileChangedError):  # another process stored the same content
            if not replace_file(path, data, None, mode=0o600, staged=False, calls=self._calls).durable:
                sync_folder(path.parent)

    def get(self, sha256: str) -> bytes:
        """Return a verified content. Raises StoreError `missing` or `damaged`."""
        if (packed := self._packed(sha256)) is not None:
            return packed
        try:
            file = read_file(self.path_of(sha256), follow=False)
        except FileFault as fault:
            code = "missing" if fault.code == "not_found" else "damaged"
            raise StoreError(f"the saved content {sha256[:12]}… can't be read: {fault}", code) from fault
        if file.sha256 != sha256:
            raise StoreError(
                f"the saved content {sha256[:12]}… is damaged on disk (its bytes have the hash {file.sha256[:12]}…)",
                "damaged",
            )
        return file.data

    def _packed(self, sha256: str) -> bytes | None:
        """Return a content of the pack; None if it is not there, or damaged and there is another copy."""
        with self._lock, contextlib.suppress(OSError):
            data = self._pack.read(sha256)
            if data is None or sha256_of(data) == sha256:
                return data
            if self.path_of(sha256).is_file():
                return None
        raise StoreError(f"the saved content {sha256[:12]}… is damaged on disk", "damaged")

    def prune(self, keep: Collection[str]) -> int:
        """Delete all contents except `keep`, ignoring errors, and return the number of bytes freed."""
        freed = 0
        with self._lock:
            for sha256, size in self._sizes().items():
                if sha256 not in keep:
                    with contextlib.suppress(OSError):
                        os.unlink(self.path_of(sha256))
                        freed += size
            with contextlib.suppress(OSError):
                freed += self._pack.keep_only(keep)
            self._size = None
            self.prunings += 1
        return freed

    def _sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with contextlib.suppress(OSError):
            for folder in os.scandir(self.folder):
                with contextlib.suppress(OSError):
                    for entry in os.scandir(folder.path):
                        if _NAME.fullmatch(entry.name):
                            sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return sizes


class _Place(NamedTuple):
    offset: int
    size: int


class Pack:
    """The pack of one session. Not thread-safe; methods raise OSError."""

    def __init__(self, folder: Path, *, calls: OsCalls = OS) -> None:
        """`folder` is created with the first content."""
        self._data = folder / "pack"
        self._index = folder / "pack.index"
        self._calls = calls
        self._places: dict[str, _Place] | None = None
        self._end = 0
        """Size of the contents that the index names."""
        self._entries = 0

    @property
    def size(self) -> int:
        """Bytes of all contents."""
        self._loaded()
        return self._end

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._loaded()

    def add(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Store contents with their hashes, durably as soon as this returns."""
        places = self._loaded()
        new = {sha256: data for sha256, data in contents if sha256 not in places}
        if not new:
            return
        is_new = not self._entries
        if is_new:
            self._data.parent.mkdir(mode=0o700, exist_ok=True)
        added: dict[str, _Place] = {}
        offset = self._end
        for sha256, data in new.items():
            added[sha256] = _Place(offset, len(data))
            offset += len(data)
        self._append(self._data, self._end, b"".join(new.values()))
        entries = b"".join(_ENTRY.pack(bytes.fromhex(sha256), *place) for sha256, place in added.items())
        self._append(self._index, self._entries * _ENTRY.size, entries)
        if is_new:
            sync_folder(self._data.parent)
            sync_folder(self._data.parent.parent)
        places |= added
        self._end, self._entries = offset, self._entries + len(added)

    def read(self, sha256: str) -> bytes | None:
        """Return a content, None if it is not here; it is empty or wrong if the file is damaged."""
        place = self._loaded().get(sha256)
        if place is None:
            return None
        fd = self._calls.open(self._data, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return os.pread(fd, place.size, place.offset)
        finally:
            self._calls.close(fd)

    def keep_only(self, keep: Collection[str]) -> int:
        """Rewrite the pack with these contents alone; return the number of bytes freed."""
        places = self._loaded()
        kept: list[tuple[str, bytes]] = []
        for sha256 in places:
            if sha256 in keep and (data := self.read(sha256)) is not None and sha256_of(data) == sha256:
                kept.append((sha256, data))
        if len(kept) == len(places):
            return 0
        before = self._end
        for path in (self._index, self._data):  # without its index, a pack is empty
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._places, self._end, self._entries = {}, 0, 0
        self.add(kept)
        return before - self._end

    def _append(self, path: Path, offset: int, data: bytes) -> None:
        """Write at `offset`, over what a crash may have left there, and sync."""
        fd = self._calls.open(path, _FLAGS, 0o600)
        try:
            os.ftruncate(fd, offset)
            os.lseek(fd, offset, os.SEEK_SET)
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[self._calls.write(fd, remaining) :]
            self._calls.datasync(fd)
        finally:
            self._calls.close(fd)

    def _loaded(self) -> dict[str, _Place]:
        if self._places is None:
            self._places, self._end, self._entries = {}, 0, 0
            with contextlib.suppress(OSError):
                size = self._data.stat().st_size
                data = self._index.read_bytes()
                for sha256, offset, length in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
                    if offset != self._end or offset + length > size:
                        break
                    self._places[sha256.hex()] = _Place(offset, length)
                    self._end, self._entries = offset + length, self._entries + 1
        return self._places
