"""Files that can be mentioned: listed by ripgrep where there is one, packed, and searched (H7, T4).

A hundred thousand names are searched in a moment: short ones near the top stand first, so that a search may stop as
soon as it has enough. What blocks belongs into a thread; it pauses often, since a thread that computes keeps the event
loop waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

import tui_agent
from tui_agent.platform.safe_open import open_folder
from tui_agent.tools.gitignore import GitIgnore, sorted_entries
from tui_agent.tools.search_workspace import RIPGREP_OPTIONS, find_ripgrep

if TYPE_CHECKING:
    from tui_agent.safety.roots import Roots

LARGEST = 500_000
"""Names that are kept."""
CHUNK = 512
"""Names that are searched in one go."""
ENOUGH = 300
"""Names of a better kind that make looking for a worse one needless."""
MOST = 1_500
"""Names of one kind that are compared with each other."""
SHOWN = 100
"""Names of an answer."""
TELLING = 0.04
"""Seconds after which an answer that is not complete yet is told."""
BUSY = 0.001
"""Seconds of work after which the thread pauses …"""
PAUSE = 0.0002
"""… for so many, at the least."""

UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What can't stand in a message as the name of a file."""

_EDGE = frozenset("/_-. ()[]{}+@#,=~")


class SearchStopped(Exception):
    """Nobody waits for the answer any more."""


class TimeSlice:
    """Lets the event loop have its turn while a thread computes. Raises Stopped once `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._since = time.perf_counter()

    def take(self) -> None:
        """Call it about once for every tenth of a millisecond of work."""
        if self._stop.is_set():
            raise SearchStopped
        if time.perf_counter() - self._since > BUSY:
            time.sleep(PAUSE)
            self._since = time.perf_counter()


class _Chunk:
    __slots__ = ("lower", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = "\n".join(names)
        self.lower = "\n/" + "\n/".join(names).lower() + "\n"
        """Each name between a line feed with a slash and the next line feed."""


class Index:
    """Packed names; folders end in a slash."""

    def __init__(self, chunks: Sequence[_Chunk], count: int) -> None:
        self._chunks = chunks
        self.count = count

    def search(
        self,
        query: str,
        recent: Sequence[str],
        stop: threading.Event,
        tell: Callable[[list[str]], object] = lambda _found: None,
    ) -> list[str]:
        """At most SHOWN names that fit, the best first; `recent` ones before equals. `tell` gets what is there already
        whenever that took a while. Raises Stopped."""
        breath = TimeSlice(stop)
        wanted = query.lower().removeprefix("./")
        if wanted.startswith(("/", "~", "../")):
            return []  # that is elsewhere
        latest = {name: place for place, name in enumerate(recent)}
        if not wanted:
            first = [name for chunk in self._chunks[:1] for name in chunk.names.split("\n")]
            return list(dict.fromkeys((*recent, *first)))[:SHOWN]
        order = _Order(query, latest)
        found = {name: order(name) for name in recent if _has(wanted, name.lower())}
        told = time.perf_counter()
        for pattern, needed in _patterns(wanted):
            most = len(found) + MOST
            for names in self._hits(pattern, needed, breath):
                found |= {name: order(name) for name in names if name not in found}
                if len(found) >= most:
                    break
                if time.perf_counter() - told > TELLING:
                    tell(_best(found))
                    told = time.perf_counter()
            if len(found) >= ENOUGH:
                break
        return _best(found)

    def _hits(self, pattern: re.Pattern[str], needed: str, breath: TimeSlice) -> Iterator[list[str]]:
        """The names of a chunk that fit, chunk by chunk where there are any; `needed` is in all of them."""
        for chunk in self._chunks:
            breath.take()
            if needed not in chunk.lower:
                continue
            hits = pattern.finditer(chunk.lower)
            if (hit := next(hits, None)) is None:
                continue
            names, found, at, number = chunk.names.split("\n"), [], 0, 0
            while hit is not None:
                # The hit may begin with the line feed before its name.
                number += chunk.lower.count("\n", at, hit.start() + 1)
                at = hit.start() + 1
                found.append(names[number - 1])
                hit = next(hits, None)
            yield found


def _patterns(wanted: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """Patterns, each with what all that fits it holds, from the best kind of fit to the least: at the beginning of the
    last name, within it, anywhere, letters in their order. None of them can go back over what it read, so that the
    worst query costs as much as any other."""
    text = re.escape(wanted)
    yield re.compile(f"/{text}[^/\n]*+/?(?=\n)"), f"/{wanted}"
    yield re.compile(f"{text}[^/\n]*+/?(?=\n)"), wanted
    yield re.compile(text), wanted
    if len(wanted) > 1:
        scattered = "".join(f"[^{re.escape(one)}\n]*+{re.escape(one)}" for one in wanted)
        yield re.compile(f"\n{scattered}"), wanted[-1]


def _has(wanted: str, lower: str) -> bool:
    letters = iter(lower)
    return all(one in letters for one in wanted)


def _best(found: dict[str, float]) -> list[str]:
    return sorted(found, key=lambda name: (-found[name], name))[:SHOWN]


class _Order:
    """How well a name fits a query; more is better."""

    def __init__(self, query: str, latest: dict[str, int]) -> None:
        self._query = query
        self._wanted = query.lower().removeprefix("./")
        self._latest = latest

    def __call__(self, name: str) -> float:
        lower, wanted = name.lower(), self._wanted
        shape = name if len(name) == len(lower) else lower
        bare = lower[:-1] if lower.endswith("/") else lower
        base = bare.rfind("/") + 1
        if lower == wanted:
            score = 3_000.0
        elif lower.startswith(wanted) and "/" in wanted:
            score = 1_500.0
        elif (place := bare.find(wanted, base)) >= 0:
            score = 600.0 + (400 if place == base else 200 if _edge(shape, place) else 0)
            score += 200 if PurePosixPath(bare[base:]).stem == wanted or bare[base:] == wanted else 0
        elif (place := lower.find(wanted)) >= 0:
            score = 300.0 + (100 if _edge(shape, place) else 0)
        else:
            score = _scattered(shape, lower, wanted, base)
        score += 20 if self._query in name else 0
        place = self._latest.get(name, -1)
        score += 250 - min(place, 50) if place >= 0 else 0
        return score - len(name) / 4 - 4 * name.count("/")


def _edge(name: str, place: int) -> bool:
    """True where a word begins."""
    if place == 0 or name[place - 1] in _EDGE:
        return True
    return name[place : place + 1].isupper() and not name[place - 1].isupper()


def _scattered(name: str, lower: str, wanted: str, base: int) -> float:
    """Letters in their order: better within the last name, at beginnings of words, side by side."""
    for start in (base, 0):
        score, at, before = (150.0 if start else 0.0), start, -2
        for one in wanted:
            place = lower.find(one, at)
            if place < 0:
                break
            if place != before + 1 and not _edge(name, place):
                later = place
                while later >= 0 and not _edge(name, later):  # a word that begins with it counts more
                    later = lower.find(one, later + 1)
                if later >= 0 and _has(wanted[wanted.index(one) + 1 :], lower[later + 1 :]):
                    place = later
            score += 30 if _edge(name, place) else 0
            score += 15 if place == before + 1 else 0
            before, at = place, place + 1
        else:
            return score
    return 0.0


class Builder:
    """Takes in names of files as they come and packs them, with the folders that they lie in."""

    def __init__(self, stop: threading.Event) -> None:
        self._breath = TimeSlice(stop)
        self._kinds: dict[tuple[int, int], list[str]] = {}
        """Depth and about the length → names."""
        self._folders: set[str] = set()
        self.count = 0

    @property
    def full(self) -> bool:
        """No more are kept."""
        return self.count >= LARGEST

    def add(self, names: Iterable[str]) -> None:
        """Files, relative to the workspace. Raises Stopped."""
        kinds, folders = self._kinds, self._folders
        for number, name in enumerate(names):
            if not number % 64:
                self._breath.take()
            if self.full:
                return
            if UNWRITABLE.search(name) is not None:
                continue  # it can't be mentioned
            depth = name.count("/")
            kinds.setdefault((depth, len(name) // 4), []).append(name)
            self.count += 1
            folder = name[: name.rfind("/") + 1]
            while folder and folder not in folders:
                folders.add(folder)
                depth = folder.count("/") - 1
                kinds.setdefault((depth, len(folder) // 4), []).append(folder)
                self.count += 1
                folder = folder[: folder.rfind("/", 0, -1) + 1]

    def add_folder(self, name: str) -> None:
        """A folder, with its slash, also when nothing lies in it."""
        if name not in self._folders:
            self._folders.add(name)
            self._kinds.setdefault((0, len(name) // 4), []).append(name)
            self.count += 1

    def index(self) -> Index:
        """All that came until now, packed. Raises Stopped."""
        chunks: list[_Chunk] = []
        waiting: list[str] = []
        for kind in sorted(self._kinds):
            self._breath.take()
            names = self._kinds[kind]
            names.sort()
            waiting += names
            while len(waiting) >= CHUNK:
                self._breath.take()
                chunks.append(_Chunk(waiting[:CHUNK]))
                del waiting[:CHUNK]
        if waiting:
            chunks.append(_Chunk(waiting))
        return Index(chunks, self.count)


SECONDS = 60.0
"""After which a listing is ended; what was found until then counts."""


class Listing:
    """One listing of several folders. Reading blocks; `stop` may be called from any thread."""

    def __init__(self, folders: tuple[Path, ...], *, program: Path | None = None) -> None:
        """`program`: ripgrep; it is looked for otherwise."""
        self._folders = folders
        self._program = program or find_ripgrep(folders)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self.late = False
        """It was ended before it was complete."""

    def names(self, folder: Path) -> Iterator[list[str]]:
        """The files of one of the folders, relative to it, some at a time."""
        found = False
        if self._program is not None:
            for names in self._run([str(self._program), *RIPGREP_OPTIONS, "--files", "--null", "--", "."], folder):
                found = True
                yield names
        if not found and not self._stopped:
            home = str(Path(tui_agent.__file__).parent.parent)
            load = "from tui_agent.mentions.search import print_files; print_files()"
            code = f"import sys; sys.path.insert(0, {home!r}); {load}"
            yield from self._run([sys.executable, "-I", "-c", code, str(folder)], folder)

    def _run(self, argv: list[str], folder: Path) -> Iterator[list[str]]:
        """What a program prints, cut at its NULs. One that can't be run prints nothing."""
        with self._lock:
            if self._stopped:
                return
            try:
                self._child = child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=folder,
                    env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                    start_new_session=True,
                )
            except OSError:
                return
        watch = threading.Timer(SECONDS, self._end_late)
        watch.daemon = True
        watch.start()
        try:
            assert child.stdout is not None
            rest = b""
            while piece := os.read(child.stdout.fileno(), 1 << 15):
                *whole, rest = (rest + piece).split(b"\0")
                if whole:
                    names = [one.decode("utf-8", "surrogateescape") for one in whole]
                    yield [one.removeprefix("./") for one in names]
        finally:
            watch.cancel()
            self._kill()
            child.stdout.close()  # type: ignore[union-attr]  # it was asked for
            child.wait()

    def _end_late(self) -> None:
        self.late = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it now."""
        with self._lock:
            self._stopped = True
        self._kill()


DEPTH = 100


def print_files() -> int:
    """Exit code 0."""
    root = Path(sys.argv[1])
    out = sys.stdout.buffer
    try:
        for name in files(root):
            out.write(os.fsencode(name) + b"\0")
        out.flush()
    except BrokenPipeError:
        os._exit(0)
    return 0


def files(root: Path) -> Iterator[str]:
    """Files beneath `root`, the upper ones first; links are left out, and folders that can't be read."""
    waiting = deque([("", GitIgnore.at(root, root), 0)])
    while waiting:
        prefix, rules, depth = waiting.popleft()
        try:
            with open_folder(root / prefix) as fd:
                entries = [
                    (one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False))
                    for one in sorted_entries(fd)
                ]
        except OSError:
            continue
        parts = tuple(prefix.split("/")[:-1])
        for name, is_folder, is_file in entries:
            if not (is_folder or is_file) or rules.ignores((*parts, name), is_folder):
                continue
            if not is_folder:
                yield prefix + name
            elif depth < DEPTH:
                waiting.append((f"{prefix}{name}/", rules.below(root / prefix / name), depth + 1))


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
        loop = asyncio.get_running_loop()
        recent = self._names_of_recent()

        def told(names: list[str], whole: bool = False) -> None:
            if stop.is_set():
                return
            listing = not self._made
            found = Found(
                query=query, names=tuple(names), whole=whole and not listing, listing=listing, note=self._note
            )
            tell(found)

        def early(names: list[str]) -> None:
            loop.call_soon_threadsafe(told, names)

        try:
            told(await asyncio.to_thread(index.search, query, recent, stop, early), whole=True)
        except SearchStopped:
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
        old = time.monotonic() - self._made > max(FRESH, 10 * self._took)
        if self._listing is None and (self._index is None or old):
            self._do(self._list())

    async def _list(self) -> None:
        loop = asyncio.get_running_loop()
        self._listing = listing = Listing(self._roots.folders)
        first = self._index is None

        def early(index: Index) -> None:
            if first and self._listing is listing:
                loop.call_soon_threadsafe(self._take, index)

        begun = time.monotonic()
        try:
            index = await asyncio.to_thread(self._read, listing, early)
        except OSError as error:  # no thread, no memory for a program
            log.warning("files could not be listed: %s", error)
            index, self._note = self._index or Index((), 0), "the files can't be listed"
        finally:
            self._listing = None
        if index is not None and not self._closed:
            self._made, self._took = time.monotonic(), time.monotonic() - begun
            self._take(index)

    def _take(self, index: Index) -> None:
        if not self._closed:
            self._index = index
            self._search()

    def _read(self, listing: Listing, early: Callable[[Index], object]) -> Index | None:
        """All files of all roots. Blocks."""
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
        except SearchStopped:
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
