"""Files and folders that a message can name behind an `@`: found while one types, however many there are (H7).

Nothing is read before the first question, and only names are: an untrusted folder is listed like any other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tui_agent.engine.mention_files import Listing
    from tui_agent.engine.mention_index import Index
    from tui_agent.safety.roots import Roots

log = logging.getLogger(__name__)

FRESH = 10.0
"""Seconds for which a list counts as what is on the disk; it is made anew behind the next question after that."""
FIRST = 2_000
"""Files after which what was found until then can be searched; and again at twice as many, and so on."""
USED = 50
"""Names that are remembered as used."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or a part of it."""

    query: str
    names: tuple[str, ...]
    """As they are written behind the `@`; folders end in a slash. The best first."""
    whole: bool
    """Nothing better is coming."""
    listing: bool = False
    """Files are still being listed."""
    note: str = ""
    """Why something may be missing."""


Tell = Callable[[Found], object]


class Mentions:
    """Answers one question at a time; a new one takes the place of the one before. Belongs to the event loop."""

    def __init__(self, roots: Roots, recent: Callable[[], Iterable[Path]] = tuple) -> None:
        """`recent`: files that were worked with, the latest first."""
        self._roots = roots
        self._recent = recent
        self._used: list[str] = []
        self._index: Index | None = None
        self._made = 0.0
        """When the list was complete."""
        self._took = 0.0
        self._note = ""
        self._listing: Listing | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._asked: tuple[str, Tell] | None = None
        self._stop_search = threading.Event()
        self._stop = threading.Event()
        self._closed = False

    # --- questions ---

    def find(self, query: str, tell: Tell) -> None:
        """Look for `query` and `tell` what is found, on the event loop: at once what there is, at last all of it."""
        if self._closed:
            return
        self._asked = (query, tell)
        self._refresh()
        self._search()

    def end(self) -> None:
        """Nobody waits for an answer any more."""
        self._asked = None
        self._stop_search.set()

    def use(self, name: str) -> None:
        """This one was taken: it is offered first next time."""
        self._used = [name, *(one for one in self._used if one != name)][:USED]

    def _search(self) -> None:
        self._stop_search.set()
        self._stop_search = stop = threading.Event()
        if self._index is not None and self._asked is not None:
            query, tell = self._asked
            self._do(self._answer(self._index, query, tell, stop))

    async def _answer(self, index: Index, query: str, tell: Tell, stop: threading.Event) -> None:
        from tui_agent.engine.mention_index import Stopped

        loop = asyncio.get_running_loop()
        recent = self._names_of_recent()

        def told(names: list[str], whole: bool = False) -> None:
            if stop.is_set():
                return
            listing = not self._made
            found = Found(
                query=query,
                names=tuple(names),
                whole=whole and not listing,
                listing=listing,
                note=self._note,
            )
            tell(found)

        def early(names: list[str]) -> None:
            loop.call_soon_threadsafe(told, names)

        try:
            told(await asyncio.to_thread(index.search, query, recent, stop, early), whole=True)
        except Stopped:
            return

    def _names_of_recent(self) -> list[str]:
        names = list(self._used)
        for path in self._recent():
            if len(names) >= 2 * USED:
                break
            if any(path.is_relative_to(folder) for folder in self._roots.folders):
                names.append(self._roots.display(path))
        return list(dict.fromkeys(names))

    # --- the list ---

    def _refresh(self) -> None:
        if self._listing is None and (
            self._index is None or monotonic() - self._made > max(FRESH, 10 * self._took)
        ):
            self._do(self._list())

    async def _list(self) -> None:
        from tui_agent.engine.mention_files import Listing
        from tui_agent.engine.mention_index import Index

        loop = asyncio.get_running_loop()
        self._listing = listing = Listing(self._roots.folders)
        first = self._index is None

        def early(index: Index) -> None:
            if first and self._listing is listing:
                loop.call_soon_threadsafe(self._take, index)

        begun = monotonic()
        try:
            index = await asyncio.to_thread(self._read, listing, early)
        except OSError as error:  # no thread, no memory for a program
            log.warning("files could not be listed: %s", error)
            index, self._note = self._index or Index((), 0), "the files can't be listed"
        finally:
            self._listing = None
        if index is not None and not self._closed:
            self._made, self._took = monotonic(), monotonic() - begun
            self._take(index)

    def _take(self, index: Index) -> None:
        if not self._closed:
            self._index = index
            self._search()

    def _read(self, listing: Listing, early: Callable[[Index], object]) -> Index | None:
        """All files of all roots. Blocks."""
        from tui_agent.engine.mention_index import LARGEST, Builder, Stopped

        builder, due = Builder(self._stop), FIRST
        several = len(self._roots.folders) > 1
        try:
            for name, folder in zip(self._roots.names, self._roots.folders, strict=True):
                prefix = f"{name}/" if several else ""
                if several:
                    builder.add_folder(prefix)
                for names in listing.names(folder):
                    builder.add([prefix + one for one in names] if several else names)
                    if builder.count >= due:
                        due *= 4
                        early(builder.index())
                    if builder.full:
                        break
            self._note = ""
            if builder.full:
                self._note = f"only {LARGEST:,} of the files are listed"
            elif listing.late:
                self._note = "there was no time to list all files"
            return builder.index()
        except Stopped:
            return None
        finally:
            listing.stop()

    # --- the end ---

    def _do(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def close(self) -> None:
        """End the listing, and wait until its program is gone."""
        self._closed = True
        self._stop.set()
        self.end()
        if self._listing is not None:
            self._listing.stop()
        if self._jobs:
            await asyncio.wait(tuple(self._jobs))
