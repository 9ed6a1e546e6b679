"""Completion of `@` mentions: file names are listed, packed into an index, and searched (H7, T4).

Everything that blocks runs in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.errors import SearchStopped

if TYPE_CHECKING:
    from tui_agent.mentions.files import Index, IndexBuilder, Listing
    from tui_agent.safety.roots import Roots

log = logging.getLogger(__name__)

MAX_AGE = 10.0
"""Age of the index in seconds after which the next query rebuilds it in the background."""
FIRST_INDEX = 2_000
"""Names after which a first index becomes searchable; then at four times as many, and so on."""
MAX_USED = 50
"""Maximum number of chosen names that rank higher."""


class MentionMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a query, perhaps incomplete."""

    query: str
    names: tuple[str, ...]
    """Names as written after the `@`, best first; folders end in a slash."""
    complete: bool
    """No better matches will follow."""
    listing: bool = False
    """Files are still being listed."""
    note: str = ""
    """Why matches may be missing."""


OnMatches = Callable[[MentionMatches], object]


class Mentions:
    """Answers queries, of which a new one replaces the previous. Use it on the event loop."""

    def __init__(self, roots: Roots, recent: Callable[[], Iterable[Path]] = tuple) -> None:
        """`recent` returns recently used files, latest first."""
        self._roots = roots
        self._recent = recent
        self._used: list[str] = []
        self._index: Index | None = None
        self._completed_at = 0.0
        """Monotonic time at which the index was complete; 0 before."""
        self._duration = 0.0
        self._note = ""
        self._listing: Listing | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._indexed = asyncio.Event()
        """There is a complete index."""
        self._query: tuple[str, OnMatches] | None = None
        self._stop_search = threading.Event()
        self._stop = threading.Event()
        self._closed = False

    # --- queries ---

    def find(self, query: str, on_matches: OnMatches) -> None:
        """Search for `query`; `on_matches` is called with partial and complete results, on the event loop."""
        if self._closed:
            return
        self._query = (query, on_matches)
        self._refresh()
        self._search()

    async def search(self, query: str, wait_seconds: float) -> MentionMatches:
        """Search for `query` besides that of `find`. Waits `wait_seconds` at most for the list of files."""
        if not self._closed:
            self._refresh()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await self._indexed.wait()
        names: Sequence[str] = ()
        if self._index is not None:
            with contextlib.suppress(SearchStopped):
                names = await asyncio.to_thread(self._index.search, query, self._recent_names(), self._stop)
        listing = not self._completed_at
        return MentionMatches(query=query, names=tuple(names), complete=not listing, listing=listing, note=self._note)

    def cancel(self) -> None:
        """Cancel the query."""
        self._query = None
        self._stop_search.set()

    def use(self, name: str) -> None:
        """Record that the user chose a name; it ranks higher from now on."""
        self._used = [name, *(used for used in self._used if used != name)][:MAX_USED]

    def _search(self) -> None:
        self._stop_search.set()
        self._stop_search = stop = threading.Event()
        if self._index is not None and self._query is not None:
            query, on_matches = self._query
            self._start(self._answer(self._index, query, on_matches, stop))

    async def _answer(self, index: Index, query: str, on_matches: OnMatches, stop: threading.Event) -> None:
        loop = asyncio.get_running_loop()
        recent = self._recent_names()

        def report(names: list[str], complete: bool = False) -> None:
            if stop.is_set():
                return
            listing = not self._completed_at
            matches = MentionMatches(
                query=query, names=tuple(names), complete=complete and not listing, listing=listing, note=self._note
            )
            on_matches(matches)

        def report_partial(names: list[str]) -> None:
            loop.call_soon_threadsafe(report, names)

        try:
            report(await asyncio.to_thread(index.search, query, recent, stop, report_partial), complete=True)
        except SearchStopped:
            return

    def _recent_names(self) -> list[str]:
        names = list(self._used)
        for path in self._recent():
            if len(names) >= 2 * MAX_USED:
                break
            if any(path.is_relative_to(folder) for folder in self._roots.folders):
                names.append(self._roots.display(path))
        return list(dict.fromkeys(names))

    # --- the index ---

    def _refresh(self) -> None:
        is_old = time.monotonic() - self._completed_at > max(MAX_AGE, 10 * self._duration)
        if self._listing is None and (self._index is None or is_old):
            self._start(self._build_index())

    async def _build_index(self) -> None:
        loop = asyncio.get_running_loop()
        from tui_agent.mentions.files import Index, IndexBuilder, Listing  # slow to import, and needed late

        self._listing = listing = Listing(self._roots.folders)
        is_first = self._index is None

        def on_partial(index: Index) -> None:
            if is_first and self._listing is listing:
                loop.call_soon_threadsafe(self._set_index, index)

        started = time.monotonic()
        try:
            index = await asyncio.to_thread(self._list_files, listing, IndexBuilder(self._stop), on_partial)
        except OSError as error:  # out of threads or memory
            log.warning("files could not be listed: %s", error)
            index, self._note = self._index or Index((), 0), "the files can't be listed"
        finally:
            self._listing = None
        if index is not None and not self._closed:
            self._completed_at, self._duration = time.monotonic(), time.monotonic() - started
            self._set_index(index)
            self._indexed.set()

    def _set_index(self, index: Index) -> None:
        if not self._closed:
            self._index = index
            self._search()

    def _list_files(
        self, listing: Listing, builder: IndexBuilder, on_partial: Callable[[Index], object]
    ) -> Index | None:
        """List the files of all roots. Blocks."""
        due = FIRST_INDEX
        has_several_roots = len(self._roots.folders) > 1
        try:
            for name, folder in zip(self._roots.names, self._roots.folders, strict=True):
                prefix = f"{name}/" if has_several_roots else ""
                if has_several_roots:
                    builder.add_folder(prefix)
                for names in listing.names(folder):
                    builder.add([prefix + name for name in names] if has_several_roots else names)
                    if builder.count >= due:
                        due *= 4
                        on_partial(builder.index())
                    if builder.is_full:
                        break
            self._note = ""
            if builder.is_full:
                self._note = f"only {builder.count:,} of the files are listed"
            elif listing.timed_out:
                self._note = "there was no time to list all files"
            return builder.index()
        except SearchStopped:
            return None
        finally:
            listing.stop()

    # --- tasks ---

    def _start(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def close(self) -> None:
        """End all searches, and wait for the end of the listing's process."""
        self._closed = True
        self._stop.set()
        self._indexed.set()
        self.cancel()
        if self._listing is not None:
            self._listing.stop()
        if self._jobs:
            await asyncio.wait(tuple(self._jobs))
