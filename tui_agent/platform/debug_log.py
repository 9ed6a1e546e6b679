"""Where tracebacks go: a private file of bounded size, secrets masked, nothing on the screen (rule of AGENTS.md)."""

from __future__ import annotations

import logging
from pathlib import Path

from tui_agent.text import SecretMask, clean

SIZE = 2 << 20
"""Bytes of the file before it is put aside; one older file is kept."""


def start_debug_log(path: Path, mask: SecretMask, *, verbose: bool = False) -> None:
    """Send the program's warnings and tracebacks to `path`; calling it again replaces the mask. Never raises."""
    root = logging.getLogger("tui_agent")
    root.propagate = False
    root.setLevel(logging.DEBUG if verbose else logging.WARNING)
    for old in root.handlers:
        old.close()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        handler: logging.Handler = _Bounded(path)
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(_Masked(mask))
    root.handlers = [handler]
    logging.raiseExceptions = False


def mask_in_use() -> SecretMask:
    """What the debug log hides at the moment, for crash texts that are written past it."""
    formatters = (handler.formatter for handler in logging.getLogger("tui_agent").handlers)
    return next((one.mask for one in formatters if isinstance(one, _Masked)), SecretMask({}))


class _Bounded(logging.Handler):
    """Opens the file with the first thing to say: what bounds it takes half a megabyte of memory."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file: logging.Handler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._file is None:
            from logging.handlers import RotatingFileHandler

            self._file = RotatingFileHandler(
                self._path, maxBytes=SIZE, backupCount=1, encoding="utf-8", errors="replace", delay=True
            )
        self._file.setFormatter(self.formatter)
        self._file.emit(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


class _Masked(logging.Formatter):
    def __init__(self, mask: SecretMask) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self.mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self.mask.mask(clean(super().format(record)))
