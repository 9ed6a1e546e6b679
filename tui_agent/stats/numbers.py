"""Statistics of a run, a session or all sessions, as counts that can be added up in any order (S4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

import msgspec

from tui_agent.common import speed
from tui_agent.common.domain import Usage

Counts = dict[str, int]

SIGNIFICANT_DIGITS = 3
"""Significant digits of durations, which bounds the number of distinct values."""
MAX_KEYS = 200
"""Maximum number of keys per table; the rest is counted as `other`."""
OTHER = "other"
UNLIMITED = ("counts", "days")
"""Tables whose keys are bounded by their nature."""
T = TypeVar("T")


class Sums(msgspec.Struct, omit_defaults=True):
    """Base of structs whose fields add up: numbers, tables of numbers, and other sums."""

    def add(self, other: Self) -> None:
        """Add all fields of another instance."""
        for name in self.__struct_fields__:
            own, added = getattr(self, name), getattr(other, name)
            if isinstance(added, Sums):
                own.add(added)
            elif isinstance(added, dict):
                _add_table(own, added, limited=name not in UNLIMITED)
            elif added:
                setattr(self, name, own + added)


def _add_table(own: dict[Any, Any], added: Mapping[Any, Any], *, limited: bool = True) -> None:
    for key, value in added.items():
        if isinstance(value, Sums):
            table_entry(own, key, type(value), limited=limited).add(value)
        elif isinstance(value, dict):
            _add_table(table_entry(own, key, dict), value)
        elif limited:
            count_up(own, key, value)
        else:
            own[key] = own.get(key, 0) + value


def table_entry(table: dict[str, T], key: str, kind: type[T], *, limited: bool = True) -> T:
    """Return the entry of `key`, created if necessary, or that of `other` if the table is full."""
    if limited and key not in table and len(table) >= MAX_KEYS:
        key = OTHER
    return table.setdefault(key, kind())


class Times(Sums, omit_defaults=True):
    """A histogram of durations: milliseconds (3 digits) → number of occurrences."""

    counts: dict[int, int] = {}

    def record(self, ms: int) -> None:
        """Count a duration."""
        ms = round_duration(ms)
        self.counts[ms] = self.counts.get(ms, 0) + 1

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts.values())

    def percentile(self, share: float) -> int | None:
        """Return the duration in ms not exceeded by this share (nearest rank), or None without data."""
        count, cumulative = self.count, 0
        rank = max(1, -(-round(share * 1e9) * count // 10**9))
        for ms in sorted(self.counts):
            cumulative += self.counts[ms]
            if cumulative >= rank:
                return ms
        return None


class Tokens(Sums, omit_defaults=True):
    """Token usage of a stage."""

    replies: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """Prompt tokens from the server's cache."""
    uncounted: int = 0
    """Replies without token counts."""
    known: int = 0
    """Prompt tokens of replies for which the server reported cached tokens."""
    read: int = 0
    """Prompt tokens evaluated in `read_ms`, if both are known."""
    read_ms: int = 0
    written: int = 0
    """Completion tokens generated in `write_ms`, if both are known."""
    write_ms: int = 0

    def record(self, usage: Usage) -> None:
        """Count the usage of a reply."""
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
        """Cached share of the prompts, where reported."""
        return share(self.cached, self.known)

    @property
    def reading_rate(self) -> float | None:
        """Prompt tokens evaluated per second."""
        return share(1_000 * self.read, self.read_ms)

    @property
    def writing_rate(self) -> float | None:
        """Tokens generated per second."""
        return share(1_000 * self.written, self.write_ms)


class Numbers(Sums, omit_defaults=True):
    """The counted facts. Every field is a sum, so that the numbers of parts add up to the total."""

    runs: int = 0
    outcomes: Counts = {}
    """As in `run.ended`; `unfinished` is a run without an end in the journal."""
    first_try: int = 0
    """Runs that succeeded without a recovery, a failed verification, or a rejection by the user."""
    intervened: int = msgspec.field(default=0, name="hands_on")
    """Runs with an intervention: an edit, a rejection, an answer or an interrupt."""
    iterations: int = 0
    tool_calls: int = 0
    ms: int = 0
    plans: int = 0
    """Plans for a whole request, from a model or the cache."""
    plan_steps: int = 0
    """Steps of executed plans."""
    executed_plans: int = 0
    fallbacks: int = 0
    """Plan requests without a usable plan."""
    cache_hits: int = 0
    planning: Times = msgspec.field(default_factory=Times)
    """Durations of plan requests."""
    met: Counts = {}
    """Successful verifications by verifier: `facts`, `model`, `command`."""
    unmet: Counts = {}
    recoveries: Counts = {}
    """`fallback` and `recovery`."""
    parse_errors: int = 0
    retries: int = 0
    failures: Counts = {}
    """`model.<fault>`, `reply.<kind>`, `tool.<code>`, `step.<error class>`."""
    interventions: Counts = {}
    """`edit`, `rejection`, `answer`, `interrupt`."""
    tokens: dict[str, Tokens] = {}
    """By stage: `dispatcher`, `planning`, `execution`, `summary`, …"""

    # --- rates ---

    @property
    def done(self) -> int:
        """Runs that ended as done."""
        return self.outcomes.get("done", 0)

    @property
    def first_try_rate(self) -> float | None:
        """Share of runs that succeeded at the first attempt."""
        return share(self.first_try, self.runs)

    @property
    def intervention_rate(self) -> float | None:
        """Share of runs with an intervention; the goal is below 10%."""
        return share(self.intervened, self.runs)

    @property
    def mean_steps(self) -> float | None:
        """Steps per executed plan."""
        return share(self.plan_steps, self.executed_plans)

    @property
    def mean_iterations(self) -> float | None:
        """Iterations per run."""
        return share(self.iterations, self.runs)

    @property
    def fallback_rate(self) -> float | None:
        """Share of plan requests without a usable plan."""
        return share(self.fallbacks, self.plans - self.cache_hits)

    @property
    def checks(self) -> int:
        """Number of verifications."""
        return sum(self.met.values()) + sum(self.unmet.values())

    @property
    def verified_rate(self) -> float | None:
        """Share of successful verifications."""
        return share(sum(self.met.values()), self.checks)

    @property
    def all_tokens(self) -> Tokens:
        """Token usage of all stages."""
        total = Tokens()
        for tokens in self.tokens.values():
            total.add(tokens)
        return total


class Day(Sums, omit_defaults=True):
    """Statistics of one day."""

    runs: int = 0
    first_try: int = 0
    tokens: int = 0


class Tally(Sums, omit_defaults=True):
    """Statistics of one session or all sessions, with tables for comparison."""

    sessions: int = 0
    total: Numbers = msgspec.field(default_factory=Numbers)
    models: dict[str, Numbers] = {}
    """By session model."""
    prompts: dict[str, dict[str, Numbers]] = {}
    """Prompt → version → runs that used it."""
    days: dict[str, Day] = {}
    """By ISO date in the journal's time zone."""
    damaged: int = 0
    """Unreadable records."""


# --- formatting ----------------------------------------------------------------------------------


def format_percent(rate: float | None) -> str:
    """Format a rate; a dash without data."""
    return "–" if rate is None else f"{100 * rate:.0f}%"


def format_elapsed(ms: float | None) -> str:
    """Format a duration, such as `1.2 s`; a dash without data."""
    if ms is None:
        return "–"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    return f"{ms / 1_000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"


def format_mean(number: float | None) -> str:
    """Format a mean; a dash without data."""
    return "–" if number is None else f"{number:.1f}"


def format_count(count: int) -> str:
    """Format a count briefly, such as `1.2M`."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return str(count)


# --- helpers ----------------------------------------------------------------------------------


def round_duration(ms: int) -> int:
    """Round to three significant digits, at least 0."""
    ms = max(0, ms)
    unit: int = 10 ** max(0, len(str(ms)) - SIGNIFICANT_DIGITS)
    return (ms + unit // 2) // unit * unit


def share(part: float, total: float) -> float | None:
    """Return `part / total`, or None if `total` is 0."""
    return part / total if total else None


def count_up(counts: Counts, key: str, by: int = 1) -> None:
    """Count `key`, or `other` if the table is full."""
    if key not in counts and len(counts) >= MAX_KEYS:
        key = OTHER
    counts[key] = counts.get(key, 0) + by


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Sort by count descending, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
