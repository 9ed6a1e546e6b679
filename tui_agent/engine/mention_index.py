"""Names of files and folders, packed so that a hundred thousand are searched in a moment (H7).

Short names near the top stand first, so that a search may stop as soon as it has enough. Everything here blocks and
belongs into a thread; it pauses often, since a thread that computes keeps the event loop waiting.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

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


class Stopped(Exception):
    """Nobody waits for the answer any more."""


class Breath:
    """Lets the event loop have its turn while a thread computes. Raises Stopped once `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._since = time.perf_counter()

    def take(self) -> None:
        """Call it about once for every tenth of a millisecond of work."""
        if self._stop.is_set():
            raise Stopped
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
        breath = Breath(stop)
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

    def _hits(self, pattern: re.Pattern[str], needed: str, breath: Breath) -> Iterator[list[str]]:
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
        self._breath = Breath(stop)
        self._kinds: dict[tuple[int, int], list[str]] = {}
        """Depth and about the length → names."""
        self._folders: set[str] = set()
        self.count = 0
        self.left_out = 0
        """Names that can't be mentioned."""

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
                self.left_out += 1
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
