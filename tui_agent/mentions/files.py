"""Listing the files of a workspace, and the index of their names that mentions are completed from.

Short names near the top come first in the index, so a search can stop early. Searching pauses often, since a computing
thread holds up the event loop.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

import tui_agent
from tui_agent.checkpoints.survey import SKIPPED_FOLDERS
from tui_agent.common.errors import SearchStopped
from tui_agent.tools.gitignore import list_files
from tui_agent.tools.search_workspace import RIPGREP_OPTIONS, find_ripgrep

MAX_NAMES = 500_000
"""Maximum names in the index."""
CHUNK_NAMES = 512
"""Names searched at a time."""
SUFFICIENT = 300
"""Number of matches from which worse kinds of match are not searched."""
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


class TimeSlice:
    """Pauses a computing thread regularly to let the event loop run. Raises SearchStopped once `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._since = time.perf_counter()

    def check(self) -> None:
        """Pause if it is time; to be called about every tenth of a millisecond of work."""
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
        needle = query.lower().removeprefix("./")
        if needle.startswith(("/", "~", "../")):
            return []  # outside the workspace
        if not needle:
            first = [name for chunk in self._chunks[:1] for name in chunk.names.split("\n")]
            return list(dict.fromkeys((*recent, *first)))[:MAX_RESULTS]
        score = partial(_score, query, needle, {name: rank for rank, name in enumerate(recent)})
        scores = {name: score(name) for name in recent if _has_letters(needle, name.lower())}
        reported = time.perf_counter()
        for pattern, required in _patterns(needle):
            limit = len(scores) + MAX_MATCHES
            for names in self._matches(pattern, required, time_slice):
                scores |= {name: score(name) for name in names if name not in scores}
                if len(scores) >= limit:
                    break
                if time.perf_counter() - reported > PARTIAL_INTERVAL:
                    on_partial(_best(scores))
                    reported = time.perf_counter()
            if len(scores) >= SUFFICIENT:
                break
        return _best(scores)

    def _matches(self, pattern: re.Pattern[str], required: str, time_slice: TimeSlice) -> Iterator[list[str]]:
        """Yield the matching names of each chunk that has any; every match contains `required`."""
        for chunk in self._chunks:
            time_slice.check()
            starts = [match.start() for match in pattern.finditer(chunk.lower)] if required in chunk.lower else []
            if not starts:
                continue
            names, matches, position, number = chunk.names.split("\n"), [], 0, 0
            for start in starts:
                # A match may begin with the line feed before its name.
                number += chunk.lower.count("\n", position, start + 1)
                position = start + 1
                matches.append(names[number - 1])
            yield matches


def _patterns(needle: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield (pattern, required text) from the best kind of match to the worst.

    At the start of the last component, within it, anywhere, scattered letters. None of the patterns backtracks, so all
    queries have about the same cost.
    """
    text = re.escape(needle)
    yield re.compile(f"/{text}[^/\n]*+/?(?=\n)"), f"/{needle}"
    yield re.compile(f"{text}[^/\n]*+/?(?=\n)"), needle
    yield re.compile(text), needle
    if len(needle) > 1:
        scattered = "".join(f"[^{re.escape(letter)}\n]*+{re.escape(letter)}" for letter in needle)
        yield re.compile(f"\n{scattered}"), needle[-1]


def _has_letters(needle: str, lower: str) -> bool:
    letters = iter(lower)
    return all(letter in letters for letter in needle)


def _best(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))[:MAX_RESULTS]


def _score(query: str, needle: str, ranks: dict[str, int], name: str) -> float:
    """Score how well a name matches a query; higher is better. `ranks`: recent names, the latest has rank 0."""
    lower = name.lower()
    cased = name if len(name) == len(lower) else lower
    stripped = lower.removesuffix("/")
    base = stripped.rfind("/") + 1
    if lower == needle:
        score = 3_000.0
    elif lower.startswith(needle) and "/" in needle:
        score = 1_500.0
    elif (start := stripped.find(needle, base)) >= 0:
        score = 600.0 + (400 if start == base else 200 if _is_word_start(cased, start) else 0)
        score += 200 if needle in (PurePosixPath(stripped[base:]).stem, stripped[base:]) else 0
    elif (start := lower.find(needle)) >= 0:
        score = 300.0 + (100 if _is_word_start(cased, start) else 0)
    else:
        score = _score_scattered(cased, lower, needle, base)
    score += 20 if query in name else 0
    score += 250 - min(ranks[name], 50) if name in ranks else 0
    return score - len(name) / 4 - 4 * name.count("/")


def _is_word_start(name: str, index: int) -> bool:
    if index == 0 or name[index - 1] in _SEPARATORS:
        return True
    return name[index : index + 1].isupper() and not name[index - 1].isupper()


def _score_scattered(name: str, lower: str, needle: str, base: int) -> float:
    """Score scattered letters: better in the last component, at word starts, and side by side."""
    for start in (base, 0):
        score, position, previous = (150.0 if start else 0.0), start, -2
        for number, letter in enumerate(needle, 1):
            index = lower.find(letter, position)
            if index < 0:
                break
            if index != previous + 1 and not _is_word_start(name, index):
                later = index
                while later >= 0 and not _is_word_start(name, later):  # prefer the start of a word
                    later = lower.find(letter, later + 1)
                if later >= 0 and _has_letters(needle[number:], lower[later + 1 :]):
                    index = later
            score += 30 if _is_word_start(name, index) else 0
            score += 15 if index == previous + 1 else 0
            previous, position = index, index + 1
        else:
            return score
    return 0.0


class IndexBuilder:
    """Builds an index of file names and their folders."""

    def __init__(self, stop: threading.Event) -> None:
        self._time_slice = TimeSlice(stop)
        self._groups: dict[tuple[int, int], list[str]] = {}
        """(Depth, length class) → names."""
        self._folders: set[str] = set()
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether the index has its maximum size."""
        return self.count >= MAX_NAMES

    def add(self, names: Iterable[str]) -> None:
        """Add files, relative to the workspace. Raises SearchStopped."""
        for number, name in enumerate(names):
            if not number % 64:
                self._time_slice.check()
            if self.is_full:
                return
            if UNWRITABLE.search(name) is not None:
                continue
            self._groups.setdefault((name.count("/"), len(name) // 4), []).append(name)
            self.count += 1
            folder = name[: name.rfind("/") + 1]
            while folder and folder not in self._folders:
                self.add_folder(folder)
                folder = folder[: folder.rfind("/", 0, -1) + 1]

    def add_folder(self, name: str) -> None:
        """Add a folder, whose name ends in a slash, even if it is empty."""
        if name not in self._folders:
            self._folders.add(name)
            self._groups.setdefault((name.count("/") - 1, len(name) // 4), []).append(name)
            self.count += 1

    def index(self) -> Index:
        """Return an index of all names added so far. Raises SearchStopped."""
        chunks: list[_Chunk] = []
        pending: list[str] = []
        for group in sorted(self._groups):
            self._time_slice.check()
            self._groups[group].sort()
            pending += self._groups[group]
            while len(pending) >= CHUNK_NAMES:
                self._time_slice.check()
                chunks.append(_Chunk(pending[:CHUNK_NAMES]))
                del pending[:CHUNK_NAMES]
        if pending:
            chunks.append(_Chunk(pending))
        return Index(chunks, self.count)


NEVER_MENTIONED = tuple(sorted(SKIPPED_FOLDERS))
"""Folders of programs, whose files nobody mentions; `.gitignore` excludes others."""

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
            options = [*RIPGREP_OPTIONS, *(f"--glob=!{name}" for name in NEVER_MENTIONED)]
            for names in self._run([str(self._program), *options, "--files", "--null", "--", "."], folder):
                has_names = True
                yield names
        if not has_names and not self._stopped:
            home = str(Path(tui_agent.__file__).parent.parent)
            load = "from tui_agent.mentions.files import print_files; print_files()"
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
            remainder = b""
            while data := os.read(child.stdout.fileno(), 1 << 15):
                *complete, remainder = (remainder + data).split(b"\0")
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


def print_files() -> int:
    """Print the files of the folder `argv[1]` (the fallback without ripgrep); return the exit code."""
    root = Path(sys.argv[1])
    out = sys.stdout.buffer
    try:
        for name in list_files(root, NEVER_MENTIONED):
            out.write(os.fsencode(name) + b"\0")
        out.flush()
    except BrokenPipeError:
        os._exit(0)
    return 0
