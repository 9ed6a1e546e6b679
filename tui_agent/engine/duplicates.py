"""Calls that say nothing new: the same call in the same world (W13), and runs that go round in circles (R10.1)."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Hashable

import msgspec

from tui_agent.domain import ToolResult
from tui_agent.engine.verification import error_class

ANSWERED_FOR = 2
"""Iterations for which a call is answered with its earlier result."""
PASSING = frozenset(
    ("timeout", "interrupted", "unsaved", "defect", "changed", "other", "failed", "unreachable", "limit")
)
"""Kinds of failure that another try may not meet again, those of sub-agents among them (T5)."""
UNAVAILABLE = "unavailable"
"""Code of a result that says that nothing can be told at the moment: only time may change that."""
PASSING_CLASSES = frozenset({"timeout", "network", "busy"})
"""As above, told by what a program wrote: see `verification.error_class`."""
SAME_NOTE, SAME_STOP = 3, 5
"""Identical results in a row until the model is told, and until the user is asked."""
TURNS_NOTE, TURNS_STOP = 4, 6
"""Calls of an A/B/A/B row until the same."""
STALE_NOTE, STALE_STOP = 3, 6
"""Rounds in a row that brought nothing that was not known already, until the same."""

Key = tuple[str, str]
"""Tool and normalised arguments."""


class World(msgspec.Struct, frozen=True):
    """What a call's outcome may depend on; equal when it can't have changed."""

    acts: int
    """How often anything was written or run, or the user said something."""
    writes: int
    """How often a file was written."""
    leave: tuple[str, str]
    """Mode and approval mode."""
    file: Hashable
    """Size and times of the file that the call names."""


class Earlier(msgspec.Struct, frozen=True):
    """A call that was carried out."""

    iteration: int
    world: World
    result: ToolResult
    text: str


class Signatures:
    """The calls of the last rounds with what came out; older ones are forgotten."""

    def __init__(self) -> None:
        self._known: dict[Key, Earlier] = {}
        self._iteration = 0

    def next_round(self) -> None:
        """Another reply is carried out."""
        self._iteration += 1
        oldest = self._iteration - ANSWERED_FOR
        self._known = {key: one for key, one in self._known.items() if one.iteration >= oldest}

    def remember(self, key: Key, world: World, result: ToolResult, text: str) -> None:
        """Note a call that was just carried out, with the world as it left it."""
        if result.success:
            passing = result.code == UNAVAILABLE
        else:
            passing = result.code in PASSING or error_class(result) in PASSING_CLASSES
        if not passing:
            self._known[key] = Earlier(self._iteration, world, result, text)

    def earlier(self, key: Key, world: World, *, reads: bool, writes: bool) -> Earlier | None:
        """The result that still holds for this call, if there is one.

        Within one reply a write is never done twice, and a command is run again only after a file was written.
        """
        known = self._known.get(key)
        if known is None or known.world.file != world.file or known.world.leave != world.leave:
            return None
        if known.iteration == self._iteration and not reads:
            return known if writes or known.world.writes == world.writes else None
        return known if known.world.acts == world.acts else None


class Repeats:
    """Counts what was really carried out, to notice a run that goes round in circles."""

    def __init__(self) -> None:
        self._row: deque[tuple[Key, str]] = deque(maxlen=max(SAME_STOP, TURNS_STOP))
        self._seen: set[tuple[Key, str]] = set()
        self._told: set[str] = set()
        self._stale = 0
        self._news = False

    def reset(self) -> None:
        """The user said something: what was is no loop any more."""
        self._row.clear()
        self._seen.clear()
        self._told.clear()
        self._stale = 0

    def add(self, key: Key, text: str) -> None:
        """A call was carried out and gave `text`."""
        pair = (key, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        self._news = self._news or pair not in self._seen
        self._seen.add(pair)
        self._row.append(pair)

    def end_round(self) -> tuple[str, str]:
        """What to tell the model, and why to stop and ask the user; each empty when there is no reason."""
        self._stale = 0 if self._news else self._stale + 1
        self._news = False
        note, stop = "", ""
        for words, count, first, last in (
            (f"{self._last()} gave the same result", self._same(), SAME_NOTE, SAME_STOP),
            (f"{self._last(2)} take turns with the same results", self._turns(), TURNS_NOTE, TURNS_STOP),
            ("the last rounds brought nothing new", self._stale, STALE_NOTE, STALE_STOP),
        ):
            what = f"{words} ({count} times in a row)"
            if count >= last:
                stop = stop or what
            elif count >= first and words not in self._told:
                self._told.add(words)
                note = note or what
        return note, stop

    def _last(self, count: int = 1) -> str:
        names = dict.fromkeys(key[0] for key, _ in list(self._row)[-count:])
        return " and ".join(names) or "the last call"

    def _same(self) -> int:
        row = list(self._row)
        count = 0
        while count < len(row) and row[-1 - count] == row[-1]:
            count += 1
        return count

    def _turns(self) -> int:
        row = list(self._row)
        if len(row) < 2 or row[-1] == row[-2]:
            return 0
        count = 0
        while count < len(row) and row[-1 - count] == row[-1 - count % 2]:
            count += 1
        return count
