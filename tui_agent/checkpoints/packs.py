"""Many contents stored at once: appended to one file and synced together, with an index of their hashes.

`blobs/pack` holds the contents, `blobs/pack.index` one entry per content, written after it. A crash can only tear the
ends of both; what the index names is complete.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from tui_agent.platform.append import sync_folder
from tui_agent.platform.files import sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

_ENTRY = struct.Struct(">32sQQ")
"""Hash, offset and size of a content."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


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
