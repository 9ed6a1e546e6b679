"""Completion of `@` mentions: file names listed by ripgrep, packed into an index, and searched (H7, T4).

Short names near the top come first in the index, so a search can stop early. Everything that blocks runs in threads,
which pause often, since a computing thread holds up the event loop.
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

MAX_NAMES = 500_000
"""Maximum names in the index."""
CHUNK_NAMES = 512
"""Names searched at a time."""
SUFFICIENT = 300
"""Matches after which worse kinds of match are not searched."""
MAX_MATCHES = 1_500
"""Maximum matches of one kind that are ranked."""
MAX_RESULTS = 100
"""Maximum names in a result."""
PARTIAL_INTERVAL = 0.04
"""Seconds between partial results."""
TIME_SLICE = 0.001
"""Seconds of work after which a thread pauses."""
PAUSE = 0.0002
"""Seconds of such a pause."""

UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that can't be part of a mention."""

_SEPARATORS = frozenset("/_-. ()[]{}+@#,=~")


class SearchStopped(Exception):
    """The search was cancelled."""


class TimeSlice:
    """Pauses a computing thread regularly, so that the event loop can run. Raises SearchStopped once `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._since = time.perf_counter()

    def check(self) -> None:
        """Call it about every tenth of a millisecond of work."""
        if self._stop.is_set():
            raise SearchStopped
        if time.perf_counter() - self._since > TIME_SLICE:
            time.sleep(PAUSE)
            self._since = time.perf_counter()


class _Chunk:
    __slots__ = ("lower", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = "\n".join(names)
        self.lower = "\n/" + "\n/".join(names).lower() + "\n"
        """The lower-case names, each preceded by a line feed and a slash, and followed by a line feed."""


class Index:
    """An index of file names; folders end in a slash."""

    def __init__(self, chunks: Sequence[_Chunk], count: int) -> None:
        self._chunks = chunks
        self.count = count

    def search(
        self,
        query: str,
        recent: Sequence[str],
        stop: threading.Event,
        on_partial: Callable[[list[str]], object] = lambda names: None,
    ) -> list[str]:
        """Return the best MAX_RESULTS matches, preferring `recent` names.

        `on_partial` receives intermediate results of a long search. Raises SearchStopped.
        """
        time_slice = TimeSlice(stop)
        wanted = query.lower().removeprefix("./")
        if wanted.startswith(("/", "~", "../")):
            return []  # outside the workspace
        latest = {name: place for place, name in enumerate(recent)}
        if not wanted:
            first = [name for chunk in self._chunks[:1] for name in chunk.names.split("\n")]
            return list(dict.fromkeys((*recent, *first)))[:MAX_RESULTS]
        score_of = _Score(query, latest)
        scores = {name: score_of(name) for name in recent if _has_letters(wanted, name.lower())}
        reported = time.perf_counter()
        for pattern, needed in _patterns(wanted):
            limit = len(scores) + MAX_MATCHES
            for names in self._matches(pattern, needed, time_slice):
                scores |= {name: score_of(name) for name in names if name not in scores}
                if len(scores) >= limit:
                    break
                if time.perf_counter() - reported > PARTIAL_INTERVAL:
                    on_partial(_best(scores))
                    reported = time.perf_counter()
            if len(scores) >= SUFFICIENT:
                break
        return _best(scores)

    def _matches(self, pattern: re.Pattern[str], needed: str, time_slice: TimeSlice) -> Iterator[list[str]]:
        """Yield the matches of each chunk that has any; every match contains `needed`."""
        for chunk in self._chunks:
            time_slice.check()
            if needed not in chunk.lower:
                continue
            hits = pattern.finditer(chunk.lower)
            if (hit := next(hits, None)) is None:
                continue
            names, matches, at, number = chunk.names.split("\n"), [], 0, 0
            while hit is not None:
                # A hit may begin with the line feed before its name.
                number += chunk.lower.count("\n", at, hit.start() + 1)
                at = hit.start() + 1
                matches.append(names[number - 1])
                hit = next(hits, None)
            yield matches


def _patterns(wanted: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield (pattern, required text) from the best kind of match to the worst.

    At the start of the last component, within it, anywhere, scattered letters. None of the patterns backtracks, so all
    queries have about the same cost.
    """
    text = re.escape(wanted)
    yield re.compile(f"/{text}[^/\n]*+/?(?=\n)"), f"/{wanted}"
    yield re.compile(f"{text}[^/\n]*+/?(?=\n)"), wanted
    yield re.compile(text), wanted
    if len(wanted) > 1:
        scattered = "".join(f"[^{re.escape(letter)}\n]*+{re.escape(letter)}" for letter in wanted)
        yield re.compile(f"\n{scattered}"), wanted[-1]


def _has_letters(wanted: str, lower: str) -> bool:
    letters = iter(lower)
    return all(letter in letters for letter in wanted)


def _best(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))[:MAX_RESULTS]


class _Score:
    """Scores how well a name matches a query; higher is better."""

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
            score = 600.0 + (400 if place == base else 200 if _is_word_start(shape, place) else 0)
            score += 200 if PurePosixPath(bare[base:]).stem == wanted or bare[base:] == wanted else 0
        elif (place := lower.find(wanted)) >= 0:
            score = 300.0 + (100 if _is_word_start(shape, place) else 0)
        else:
            score = _score_scattered(shape, lower, wanted, base)
        score += 20 if self._query in name else 0
        place = self._latest.get(name, -1)
        score += 250 - min(place, 50) if place >= 0 else 0
        return score - len(name) / 4 - 4 * name.count("/")


def _is_word_start(name: str, place: int) -> bool:
    """Return True if a word begins at this index."""
    if place == 0 or name[place - 1] in _SEPARATORS:
        return True
    return name[place : place + 1].isupper() and not name[place - 1].isupper()


def _score_scattered(name: str, lower: str, wanted: str, base: int) -> float:
    """Score scattered letters: better in the last component, at word starts, and side by side."""
    for start in (base, 0):
        score, at, before = (150.0 if start else 0.0), start, -2
        for letter in wanted:
            place = lower.find(letter, at)
            if place < 0:
                break
            if place != before + 1 and not _is_word_start(name, place):
                later = place
                while later >= 0 and not _is_word_start(name, later):  # prefer the start of a word
                    later = lower.find(letter, later + 1)
                if later >= 0 and _has_letters(wanted[wanted.index(letter) + 1 :], lower[later + 1 :]):
                    place = later
            score += 30 if _is_word_start(name, place) else 0
            score += 15 if place == before + 1 else 0
            before, at = place, place + 1
        else:
            return score
    return 0.0


class Builder:
    """Builds an index of file names and their folders."""

    def __init__(self, stop: threading.Event) -> None:
        self._time_slice = TimeSlice(stop)
        self._kinds: dict[tuple[int, int], list[str]] = {}
        """(Depth, length class) → names."""
        self._folders: set[str] = set()
        self.count = 0

    @property
    def full(self) -> bool:
        """True if the index has its maximum size."""
        return self.count >= MAX_NAMES

    def add(self, names: Iterable[str]) -> None:
        """Add files, relative to the workspace. Raises SearchStopped."""
        kinds, folders = self._kinds, self._folders
        for number, name in enumerate(names):
            if not number % 64:
                self._time_slice.check()
            if self.full:
                return
            if UNWRITABLE.search(name) is not None:
                continue
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
        """Add a folder with its slash, even if it is empty."""
        if name not in self._folders:
            self._folders.add(name)
            self._kinds.setdefault((0, len(name) // 4), []).append(name)
            self.count += 1

    def index(self) -> Index:
        """Return an index of all names added so far. Raises SearchStopped."""
        chunks: list[_Chunk] = []
        pending: list[str] = []
        for kind in sorted(self._kinds):
            self._time_slice.check()
            names = self._kinds[kind]
            names.sort()
            pending += names
            while len(pending) >= CHUNK_NAMES:
                self._time_slice.check()
                chunks.append(_Chunk(pending[:CHUNK_NAMES]))
                del pending[:CHUNK_NAMES]
        if pending:
            chunks.append(_Chunk(pending))
        return Index(chunks, self.count)


LISTING_TIMEOUT = 60.0
"""Seconds after which a listing is ended; the names found so far are used."""


class Listing:
    """Lists the files of several folders. Blocks; `stop` may be called from any thread."""

    def __init__(self, folders: tuple[Path, ...], *, program: Path | None = None) -> None:
        """`program` is the path of ripgrep; found automatically by default."""
        self._folders = folders
        self._program = program or find_ripgrep(folders)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self.timed_out = False

    def names(self, folder: Path) -> Iterator[list[str]]:
        """Yield the files of one of the folders in batches, relative to it."""
        has_names = False
        if self._program is not None:
            for names in self._run([str(self._program), *RIPGREP_OPTIONS, "--files", "--null", "--", "."], folder):
                has_names = True
                yield names
        if not has_names and not self._stopped:
            home = str(Path(tui_agent.__file__).parent.parent)
            load = "from tui_agent.mentions.search import print_files; print_files()"
            code = f"import sys; sys.path.insert(0, {home!r}); {load}"
            yield from self._run([sys.executable, "-I", "-c", code, str(folder)], folder)

    def _run(self, argv: list[str], folder: Path) -> Iterator[list[str]]:
        """Yield the NUL-terminated names that a program prints; nothing if it can't be run."""
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
        timer = threading.Timer(LISTING_TIMEOUT, self._on_timeout)
        timer.daemon = True
        timer.start()
        try:
            assert child.stdout is not None
            rest = b""
            while data := os.read(child.stdout.fileno(), 1 << 15):
                *complete, rest = (rest + data).split(b"\0")
                if complete:
                    yield [name.decode("utf-8", "surrogateescape").removeprefix("./") for name in complete]
        finally:
            timer.cancel()
            self._kill()
            child.stdout.close()  # type: ignore[union-attr]  # it is a pipe
            child.wait()

    def _on_timeout(self) -> None:
        self.timed_out = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the listing."""
        with self._lock:
            self._stopped = True
        self._kill()


MAX_DEPTH = 100


def print_files() -> int:
    """Print the files of the folder `argv[1]` (the fallback without ripgrep); return the exit code."""
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
    """Yield the files below `root`, breadth first, without links and unreadable folders."""
    queue = deque([("", GitIgnore.at(root, root), 0)])
    while queue:
        prefix, rules, depth = queue.popleft()
        try:
            with open_folder(root / prefix) as fd:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                    for entry in sorted_entries(fd)
                ]
        except OSError:
            continue
        parts = tuple(prefix.split("/")[:-1])
        for name, is_folder, is_file in entries:
            if not (is_folder or is_file) or rules.ignores((*parts, name), is_folder):
                continue
            if not is_folder:
                yield prefix + name
            elif depth < MAX_DEPTH:
                queue.append((f"{prefix}{name}/", rules.below(root / prefix / name), depth + 1))


log = logging.getLogger(__name__)

MAX_AGE = 10.0
"""Age of the index in seconds after which the next query rebuilds it in the background."""
FIRST_INDEX = 2_000
"""Names after which a first index becomes searchable; then at four times as many, and so on."""
MAX_USED = 50
"""Used names that are remembered."""


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
        self._listing = listing = Listing(self._roots.folders)
        is_first = self._index is None

        def on_partial(index: Index) -> None:
            if is_first and self._listing is listing:
                loop.call_soon_threadsafe(self._set_index, index)

        started = time.monotonic()
        try:
            index = await asyncio.to_thread(self._list_files, listing, on_partial)
        except OSError as error:  # out of threads or memory
            log.warning("files could not be listed: %s", error)
            index, self._note = self._index or Index((), 0), "the files can't be listed"
        finally:
            self._listing = None
        if index is not None and not self._closed:
            self._completed_at, self._duration = time.monotonic(), time.monotonic() - started
            self._set_index(index)

    def _set_index(self, index: Index) -> None:
        if not self._closed:
            self._index = index
            self._search()

    def _list_files(self, listing: Listing, on_partial: Callable[[Index], object]) -> Index | None:
        """List the files of all roots. Blocks."""
        builder, due = Builder(self._stop), FIRST_INDEX
        several = len(self._roots.folders) > 1
        try:
            for name, folder in zip(self._roots.names, self._roots.folders, strict=True):
                prefix = f"{name}/" if several else ""
                if several:
                    builder.add_folder(prefix)
                for names in listing.names(folder):
                    builder.add([prefix + name for name in names] if several else names)
                    if builder.count >= due:
                        due *= 4
                        on_partial(builder.index())
                    if builder.full:
                        break
            self._note = ""
            if builder.full:
                self._note = f"only {MAX_NAMES:,} of the files are listed"
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
        self.cancel()
        if self._listing is not None:
            self._listing.stop()
        if self._jobs:
            await asyncio.wait(tuple(self._jobs))
