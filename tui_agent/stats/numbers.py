"""The numbers of a run, of a session or of all sessions: counts that can be added up in any order (S4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

import msgspec

from tui_agent.common import speed
from tui_agent.common.domain import Usage

Counts = dict[str, int]

DIGITS = 3
"""Significant digits to which a time is kept: what is remembered of any number of them stays small."""
FEW = 200
"""Keys of one table that are kept apart; what is left goes to `other`."""
OTHER = "other"
UNLIMITED = ("kept", "days")
"""Tables whose number of keys is bounded by what they are."""
T = TypeVar("T")


class Sums(msgspec.Struct, omit_defaults=True):
    """Fields that add up: numbers, tables of them, and other sums."""

    def add(self, other: Self) -> None:
        """All of another one."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(theirs, Sums):
                mine.add(theirs)
            elif isinstance(theirs, dict):
                _add_table(mine, theirs, limited=name not in UNLIMITED)
            elif theirs:
                setattr(self, name, mine + theirs)


def _add_table(mine: dict[Any, Any], theirs: Mapping[Any, Any], *, limited: bool = True) -> None:
    for key, value in theirs.items():
        if isinstance(value, Sums):
            table_entry(mine, key, type(value), limited=limited).add(value)
        elif isinstance(value, dict):
            _add_table(table_entry(mine, key, dict), value)
        elif limited:
            count_up(mine, key, value)
        else:
            mine[key] = mine.get(key, 0) + value


def table_entry(table: dict[str, T], key: str, kind: type[T], *, limited: bool = True) -> T:
    """The entry under `key`, made if need be; that under `other` when there are too many keys already."""
    if limited and key not in table and len(table) >= FEW:
        key = OTHER
    return table.setdefault(key, kind())


class Times(Sums, omit_defaults=True):
    """How long something took, as often as it happened: milliseconds to three digits → how often."""

    kept: dict[int, int] = {}

    def note(self, ms: int) -> None:
        """One more."""
        ms = rounded(ms)
        self.kept[ms] = self.kept.get(ms, 0) + 1

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.kept.values())

    def percentile(self, share: float) -> int | None:
        """The time in ms that `share` of them do not exceed (nearest rank); None when there are none."""
        count, seen = self.count, 0
        rank = max(1, -(-round(share * 1e9) * count // 10**9))
        for ms in sorted(self.kept):
            seen += self.kept[ms]
            if seen >= rank:
                return ms
        return None


class Tokens(Sums, omit_defaults=True):
    """What one stage asked of models."""

    replies: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """Of the prompt: what the server still had."""
    uncounted: int = 0
    """Replies of which the server told no count."""
    known: int = 0
    """Of the prompts: tokens of those of which the server told what it still had."""
    read: int = 0
    """Tokens of prompts that were read in `read_ms`, where both are known."""
    read_ms: int = 0
    written: int = 0
    """Tokens of replies that were written in `write_ms`, where both are known."""
    write_ms: int = 0

    def note(self, usage: Usage) -> None:
        """One more reply."""
        self.replies += 1
        self.prompt += speed.total_prompt_tokens(usage) or 0
        self.completion += usage.completion_tokens or 0
        self.cached += usage.cached_tokens or 0
        self.uncounted += usage.prompt_tokens is None and usage.completion_tokens is None
        if (read := speed.evaluated_tokens(usage)) is not None:
            self.known += speed.total_prompt_tokens(usage) or 0
            if speed.prompt_rate(usage):
                self.read += read
                self.read_ms += usage.prompt_ms or 0
        if speed.generation_rate(usage):
            self.written += usage.completion_tokens or 0
            self.write_ms += usage.generate_ms or 0

    @property
    def cached_rate(self) -> float | None:
        """Share of the prompts that the server still had, where it tells."""
        return share(self.cached, self.known)

    @property
    def reading_rate(self) -> float | None:
        """Tokens of a prompt read in a second."""
        return share(1_000 * self.read, self.read_ms)

    @property
    def writing_rate(self) -> float | None:
        """Tokens written in a second."""
        return share(1_000 * self.written, self.write_ms)


class Numbers(Sums, omit_defaults=True):
    """What is counted. Every field is a sum, so that numbers of parts add up to those of the whole."""

    runs: int = 0
    outcomes: Counts = {}
    """As in `run.ended`; `unfinished` is a run whose end is not in the journal."""
    first_try: int = 0
    """Runs that were done without a recovery, an unmet check, or a rejection by the user."""
    hands_on: int = 0
    """Runs in which the user stepped in: an edit, a rejection, an answer or an interrupt."""
    iterations: int = 0
    tool_calls: int = 0
    ms: int = 0
    plans: int = 0
    """Plans for a whole request that a model was asked for or that came from the cache."""
    plan_steps: int = 0
    """Steps of the plans that were carried out."""
    carried: int = 0
    """How many those plans are."""
    fallbacks: int = 0
    """Plans that were asked for and of which none could be used."""
    cache_hits: int = 0
    planning: Times = msgspec.field(default_factory=Times)
    """Of plans that a model was asked for."""
    met: Counts = {}
    """Verifications that found what was expected, by who judged: `facts`, `model`, `command`."""
    unmet: Counts = {}
    recoveries: Counts = {}
    """`fallback` and `recovery`."""
    parse_errors: int = 0
    retries: int = 0
    failures: Counts = {}
    """`model.<fault>`, `reply.<what was wrong>`, `tool.<code>`, `step.<error class>`."""
    interventions: Counts = {}
    """`edit`, `rejection`, `answer`, `interrupt`."""
    tokens: dict[str, Tokens] = {}
    """By stage: `dispatcher`, `planning`, `execution`, `summary`, …"""

    def slim(self) -> Numbers:
        """What versions of a prompt are compared by, without the long tables."""
        return msgspec.structs.replace(self, failures={}, interventions={}, recoveries={}, tokens={})

    # --- rates ---

    @property
    def done(self) -> int:
        """Runs that ended as done."""
        return self.outcomes.get("done", 0)

    @property
    def first_try_rate(self) -> float | None:
        """Share of the runs that succeeded at the first attempt."""
        return share(self.first_try, self.runs)

    @property
    def hands_on_rate(self) -> float | None:
        """Share of the runs in which the user stepped in; the goal is below 10%."""
        return share(self.hands_on, self.runs)

    @property
    def mean_steps(self) -> float | None:
        """Steps of a plan that was carried out."""
        return share(self.plan_steps, self.carried)

    @property
    def mean_iterations(self) -> float | None:
        """Rounds of the model for one message."""
        return share(self.iterations, self.runs)

    @property
    def fallback_rate(self) -> float | None:
        """Share of the plans asked for of which none could be used."""
        return share(self.fallbacks, self.plans - self.cache_hits)

    @property
    def cache_rate(self) -> float | None:
        """Share of the plans that were known already."""
        return share(self.cache_hits, self.plans)

    @property
    def checks(self) -> int:
        """Verifications there were."""
        return sum(self.met.values()) + sum(self.unmet.values())

    @property
    def verified_rate(self) -> float | None:
        """Share of the verifications that found what was expected."""
        return share(sum(self.met.values()), self.checks)

    @property
    def all_tokens(self) -> Tokens:
        """Those of all stages."""
        whole = Tokens()
        for tokens in self.tokens.values():
            whole.add(tokens)
        return whole


class Day(Sums, omit_defaults=True):
    """One day."""

    runs: int = 0
    first_try: int = 0
    tokens: int = 0


class Tally(Sums, omit_defaults=True):
    """Numbers of one session or of all of them, with the tables that compare."""

    sessions: int = 0
    whole: Numbers = msgspec.field(default_factory=Numbers)
    models: dict[str, Numbers] = {}
    """By the model that did the work."""
    prompts: dict[str, dict[str, Numbers]] = {}
    """Prompt → version → the runs whose requests were made of it."""
    days: dict[str, Day] = {}
    """By ISO date, in the journal's own time zone."""
    damaged: int = 0
    """Records that could not be read."""

    @property
    def compared(self) -> dict[str, dict[str, Numbers]]:
        """The prompts of which there is more than one version."""
        return {name: versions for name, versions in sorted(self.prompts.items()) if len(versions) > 1}


# --- words ----------------------------------------------------------------------------------


def percent(rate: float | None) -> str:
    """A rate in words; a dash where nothing was counted."""
    return "–" if rate is None else f"{100 * rate:.0f}%"


def seconds(ms: float | None) -> str:
    """A time in words, such as `1.2 s`; a dash where nothing was measured."""
    if ms is None:
        return "–"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    return f"{ms / 1_000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"


def mean(number: float | None) -> str:
    """A mean in words."""
    return "–" if number is None else f"{number:.1f}"


def short(count: int) -> str:
    """A count in few characters, such as `1.2M`."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return str(count)


# --- parts ----------------------------------------------------------------------------------


def rounded(ms: int) -> int:
    """`ms` to three significant digits, never less than 0."""
    ms = max(0, ms)
    unit: int = 10 ** max(0, len(str(ms)) - DIGITS)
    return (ms + unit // 2) // unit * unit


def share(part: float, whole: float) -> float | None:
    """`part` of `whole`; None where there is no whole."""
    return part / whole if whole else None


def count_up(counts: Counts, key: str, by: int = 1) -> None:
    """Count under `key`, or under `other` when there are too many keys already."""
    if key not in counts and len(counts) >= FEW:
        key = OTHER
    counts[key] = counts.get(key, 0) + by


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first; equal ones by name."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
