"""Where tracebacks go: a private file of bounded size, secrets masked, nothing on the screen (rule of AGENTS.md)."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tui_agent.text import Mask, clean

SIZE = 2 << 20
"""Bytes of the file before it is put aside; one older file is kept."""


def keep_debug_log(path: Path, mask: Mask, *, verbose: bool = False) -> None:
    """Send the program's warnings and tracebacks to `path`; calling it again replaces the mask. Never raises."""
    root = logging.getLogger("tui_agent")
    root.propagate = False
    root.setLevel(logging.DEBUG if verbose else logging.WARNING)
    for old in root.handlers:
        old.close()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        handler: logging.Handler = RotatingFileHandler(
            path, maxBytes=SIZE, backupCount=1, encoding="utf-8", errors="replace", delay=True
        )
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(_Masked(mask))
    root.handlers = [handler]
    logging.raiseExceptions = False


class _Masked(logging.Formatter):
    def __init__(self, mask: Mask) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask.mask(clean(super().format(record)))
