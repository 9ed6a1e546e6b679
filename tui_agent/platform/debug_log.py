"""The debug log: tracebacks in a private file of bounded size, with masked secrets, instead of on the screen."""

from __future__ import annotations

import logging
from pathlib import Path

from tui_agent.text import SecretMask, clean, displayable

_LOGGERS = ("tui_agent", "asyncio", "py.warnings")
MAX_SIZE = 2 << 20
"""Bytes of the file before it is rotated; one older file is kept."""


def start_debug_log(path: Path, mask: SecretMask, *, verbose: bool = False) -> None:
    """Write warnings and tracebacks to `path`; another call replaces the mask. Never raises."""
    root = logging.getLogger("tui_agent")
    root.setLevel(logging.DEBUG if verbose else logging.WARNING)
    for previous in root.handlers:
        previous.close()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        handler: logging.Handler = _RotatingHandler(path)
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(_MaskingFormatter(mask))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.captureWarnings(True)
    logging.raiseExceptions = False


def keep_off_screen() -> None:
    """Until the debug log is started, print neither Python's warnings nor asyncio's messages."""
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    logging.captureWarnings(True)


def mask_in_use() -> SecretMask:
    """Return the current mask of the debug log, for crash reports that are not written to it."""
    formatters = (handler.formatter for handler in logging.getLogger("tui_agent").handlers)
    masks = (formatter.mask for formatter in formatters if isinstance(formatter, _MaskingFormatter))
    return next(masks, SecretMask({}))


class _RotatingHandler(logging.Handler):
    """Creates the rotating handler with the first record, as its import takes half a megabyte of memory."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file: logging.Handler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._file is None:
            from logging.handlers import RotatingFileHandler

            self._file = RotatingFileHandler(
                self._path, maxBytes=MAX_SIZE, backupCount=1, encoding="utf-8", errors="replace", delay=True
            )
        self._file.setFormatter(self.formatter)
        self._file.emit(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


class _MaskingFormatter(logging.Formatter):
    def __init__(self, mask: SecretMask) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self.mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return displayable(self.mask.mask(clean(super().format(record))))
