"""Saves rejected replies verbatim in the session's folder, with secrets masked (W16)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write
from tui_agent.text import SecretMask

MAX_SIZE = 256 * 1024
"""Characters saved of one reply."""
MAX_COUNT = 200
"""Replies saved by one process."""

log = logging.getLogger(__name__)


class RawReplies:
    """Saves rejected replies; errors are only logged."""

    def __init__(self, folder: Path, mask: SecretMask) -> None:
        self._folder = folder
        self._mask = mask
        self._count = 0

    async def save(self, name: str, text: str) -> str:
        """Save `text` and return the file's name, or an empty string if it was not saved."""
        if not text or self._count >= MAX_COUNT:
            return ""
        self._count += 1
        path = self._folder / f"rejected-{name}.txt"
        data = self._mask.mask(text)[:MAX_SIZE].encode("utf-8", "backslashreplace")
        try:
            await asyncio.to_thread(atomic_write, path, data)
        except (OSError, FileFault) as error:
            log.warning("%s was not saved: %s", path.name, error)
            return ""
        return path.name
