"""Finds the files of the workspace that texts name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from functools import lru_cache
from time import monotonic
from typing import Any, Final

from widgets.links import MAX_PATH

KNOWN_SECONDS: Final = 5.0
"""Seconds for which it is not checked again whether a file exists."""
KEPT_SECONDS: Final = 60.0
"""Seconds after which the result for a name may be dropped to keep others."""
MAX_KNOWN: Final = 5_000
"""Number of names that are kept."""


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
    return path if path.startswith(resolved(folder).rstrip(os.sep) + os.sep) else ""


@lru_cache(8)
def resolved(folder: str) -> str:
    """Return a folder without symbolic links. Reads the file system, once for each folder."""
    return os.path.realpath(folder)


class FileLocator:
    """Finds the files of the workspace that texts name. It looks in a thread: a file system can be slow.

    Results are kept, as text is painted often. A name is no link until it was looked for.
    """

    def __init__(
        self,
        folder: Callable[[], str],
        run: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
        on_found: Callable[[AbstractSet[str]], object],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`run` starts a job in the background; `on_found` gets the names that lead elsewhere than was said before."""
        self._folder = folder
        self._run = run
        self._on_found = on_found
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, str]] = {}
        self._wanted: dict[tuple[str, str], None] = {}
        self._pruned_at = float("-inf")
        self._idle = asyncio.Event()
        """Set while nothing is looked for."""
        self._idle.set()

    def __call__(self, name: str) -> str:
        """Return the absolute path of a file; empty if there is none, or if that is not known yet."""
        key, now = (self._folder(), name), self._clock()
        checked_at, path = self._known.get(key, (float("-inf"), ""))
        if key[0] and now - checked_at > KNOWN_SECONDS and key not in self._wanted and self._has_room(key, now):
            self._wanted[key] = None
            if self.is_idle:
                self._idle.clear()
                self._run(self._look)
        return path

    @property
    def is_idle(self) -> bool:
        """Whether everything was looked for that was asked for."""
        return self._idle.is_set()

    async def settled(self) -> None:
        """Wait until that is so."""
        await self._idle.wait()

    def _has_room(self, key: tuple[str, str], now: float) -> bool:
        """Return whether a result can be kept. Recent ones stay, so that what is painted does not change again."""
        if key in self._known:
            return True
        if len(self._known) + len(self._wanted) >= MAX_KNOWN and now - self._pruned_at > KNOWN_SECONDS:
            self._known = {known: entry for known, entry in self._known.items() if now - entry[0] < KEPT_SECONDS}
            self._pruned_at = now
        return len(self._known) + len(self._wanted) < MAX_KNOWN

    async def _look(self) -> None:
        try:
            while self._wanted:
                keys = list(self._wanted)
                paths = await asyncio.to_thread(lambda keys: [file_in(*key) for key in keys], keys)
                now, found = self._clock(), set()
                for key, path in zip(keys, paths, strict=True):
                    if path != self._known.get(key, (now, ""))[1]:
                        found.add(key[1])
                    self._known[key] = now, path
                    del self._wanted[key]
                if found:
                    self._on_found(found)
        finally:
            self._wanted.clear()
            self._idle.set()
