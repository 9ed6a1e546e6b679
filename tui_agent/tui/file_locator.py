"""Finds the files of the workspace that texts name."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import Final

from widgets.links import MAX_PATH

KNOWN_SECONDS: Final = 5.0
"""Seconds for which it is not checked again whether a file exists."""
MAX_KNOWN: Final = 2_000
"""Number of checked names that are kept."""


def file_in(folder: str, name: str) -> str:
    """Return the absolute path of the file that a name means in a folder; empty if it is none or outside of it.

    Reads the file system.
    """
    if not folder or not name or len(name) > MAX_PATH or "\0" in name:
        return ""
    named = os.path.join(folder, os.path.expanduser(name) if name.startswith("~/") else name)
    if not os.path.isfile(named):  # most names are none: one system call tells
        return ""
    path = os.path.realpath(named)
    return path if path.startswith(_resolved(folder).rstrip(os.sep) + os.sep) else ""


@lru_cache(8)
def _resolved(folder: str) -> str:
    return os.path.realpath(folder)


class FileLocator:
    """Finds the files of the workspace that texts name. Results are kept for a moment, as text is painted often."""

    def __init__(self, folder: Callable[[], str], *, clock: Callable[[], float] = monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, str]] = {}

    def __call__(self, name: str) -> str:
        """Return the absolute path of a file; empty if there is none."""
        key, now = (self._folder(), name), self._clock()
        checked_at, path = self._known.get(key, (float("-inf"), ""))
        if now - checked_at > KNOWN_SECONDS:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            path = file_in(*key)
            self._known[key] = now, path
        return path
