"""Contents by their hash, `blobs/ab/<sha256>` in a session's folder: written once, checked on reading."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Collection
from pathlib import Path

from tui_agent.common.errors import CodedError
from tui_agent.platform.append import sync_folder
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import atomic_write, read_file, replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

FOLDER = "blobs"
MEGABYTE = 1 << 20
FILE_CAP = 100 * MEGABYTE
"""Bytes of one content that is kept."""
TOTAL_CAP = 1024 * MEGABYTE
"""Bytes that one session keeps."""

_NAME = re.compile(r"[0-9a-f]{64}")


class StoreError(CodedError):
    """A content can't be kept or given back; `str()` is a sentence.

    `code` is `too_large`, `full`, `failed` (writing did not work), `missing` or `damaged`.
    """


class BlobStore:
    """The contents of one session. All methods block; any thread may use them."""

    def __init__(
        self, session: Path, *, file_cap: int = FILE_CAP, total_cap: int = TOTAL_CAP, calls: OsCalls = OS
    ) -> None:
        """Keeps under `session`/blobs; nothing is made before the first content."""
        self.folder = session / FOLDER
        self.file_cap = file_cap
        self.total_cap = total_cap
        self._calls = calls
        self._size: int | None = None
        self._durable: set[Path] = set()
        """Folders whose names were made durable."""
        self._alone = threading.RLock()

    @property
    def size(self) -> int:
        """Bytes kept."""
        if self._size is None:
            self._size = sum(self._sizes().values())
        return self._size

    def place(self, sha256: str) -> Path:
        """Where a content lies, or would lie."""
        return self.folder / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Whether there is a content under this name; its bytes are not looked at."""
        return self.place(sha256).is_file()

    def refusal(self, size: int) -> str:
        """Why a content of `size` bytes can't be kept, as a sentence; empty when it can."""
        if size > self.file_cap:
            return f"it has {size:,} bytes, and only files up to {self.file_cap:,} are kept for undo"
        if self.size + size > self.total_cap:
            return f"the {self.total_cap:,} bytes that a session may keep for undo are used up"
        return ""

    def put(self, data: bytes, *, capped: bool = True) -> str:
        """Keep a content, durably; its sha256. What is there already is not written again. Raises StoreError.

        Without `capped` the limits don't hold: for what an undo is about to replace.
        """
        with self._alone:
            return self._put(data, capped)

    def _put(self, data: bytes, capped: bool) -> str:
        sha256 = sha256_of(data)
        if self.has(sha256):
            with contextlib.suppress(StoreError):
                self.get(sha256)
                return sha256
            return self._mend(sha256, data)
        if capped and (why := self.refusal(len(data))):
            raise StoreError(why, "too_large" if len(data) > self.file_cap else "full")
        size = self.size
        try:
            place = self._folders(sha256)
            with contextlib.suppress(FileChangedError):  # another one put the same there
                if not replace_file(place, data, None, mode=0o600, calls=self._calls).durable:
                    sync_folder(place.parent)
        except (OSError, FileFault) as error:
            raise StoreError(f"its content could not be kept: {error}", "failed") from error
        self._size = size + len(data)
        return sha256

    def get(self, sha256: str) -> bytes:
        """The content. Raises StoreError `missing` or `damaged`: what is given back always has this hash."""
        try:
            found = read_file(self.place(sha256), follow=False)
        except FileFault as fault:
            code = "missing" if fault.code == "not_found" else "damaged"
            raise StoreError(f"the saved content {sha256[:12]}… can't be read: {fault}", code) from fault
        if found.sha256 != sha256:
            raise StoreError(
                f"the saved content {sha256[:12]}… is damaged on disk (its bytes have the hash {found.sha256[:12]}…)",
                "damaged",
            )
        return found.data

    def prune(self, keep: Collection[str]) -> int:
        """Delete all contents but these; the bytes that became free. What can't be deleted stays."""
        freed = 0
        with self._alone:
            for sha256, size in self._sizes().items():
                if sha256 not in keep:
                    with contextlib.suppress(OSError):
                        os.unlink(self.place(sha256))
                        freed += size
            self._size = None
        return freed

    def _mend(self, sha256: str, data: bytes) -> str:
        """A damaged content for which the right bytes are at hand."""
        try:
            atomic_write(self.place(sha256), data, calls=self._calls)
        except (OSError, FileFault) as error:
            raise StoreError(f"its content could not be kept: {error}", "failed") from error
        return sha256

    def _folders(self, sha256: str) -> Path:
        """The place for a content, its folders made and durable."""
        place = Path(os.path.realpath(self.folder)) / sha256[:2] / sha256
        for folder in (place.parent.parent, place.parent):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            if folder not in self._durable:  # also when another process made it and died before it could
                sync_folder(folder.parent)
                self._durable.add(folder)
        return place

    def _sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        with contextlib.suppress(OSError):
            for folder in os.scandir(self.folder):
                with contextlib.suppress(OSError):
                    for entry in os.scandir(folder.path):
                        if _NAME.fullmatch(entry.name):
                            found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found
