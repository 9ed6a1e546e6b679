"""Replies that could not be used, kept as they came in the session's folder, with secrets masked (W16)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write
from tui_agent.text import SecretMask

SIZE = 256 * 1024
"""Characters that are kept of one."""
COUNT = 200
"""Replies that one process keeps."""

log = logging.getLogger(__name__)


class RawReplies:
    """Writes them; what can't be written is no loss for the work."""

    def __init__(self, folder: Path, mask: SecretMask) -> None:
        self._folder = folder
        self._mask = mask
        self._kept = 0

    async def keep(self, name: str, text: str) -> str:
        """The name of the file that holds `text` now; empty when there is none."""
        if not text or self._kept >= COUNT:
            return ""
        self._kept += 1
        path = self._folder / f"rejected-{name}.txt"
        data = self._mask.mask(text)[:SIZE].encode("utf-8", "backslashreplace")
        try:
            await asyncio.to_thread(atomic_write, path, data)
        except (OSError, FileFault) as error:
            log.warning("%s was not saved: %s", path.name, error)
            return ""
        return path.name
