"""The statistics as text, for `tui-agent stats` and the dashboard (S4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tui_agent.common import speed
from tui_agent.events.run import outcome_word
from tui_agent.stats.numbers import (
    Counts,
    Numbers,
    Tally,
    format_count,
    format_elapsed,
    format_mean,
    format_percent,
    ranked,
    share,
)

PERCENTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
GOAL = 0.10
"""Goal for the share of runs with interventions; lower is better (S4)."""
FAILURES = {"model": "server", "reply": "reply", "tool": "tool", "step": "step"}
"""Prefix of a failure key → displayed name."""


class Fact(NamedTuple):
    """A displayed number with an explanation."""

    name: str
    value: str
    note: str = ""
    share: float | None = None
    """Length of the bar; None for no bar."""
    goal_met: bool | None = None
    """None without a goal."""


class Table(NamedTuple):
    """A table for comparison, most important columns first."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def _run_facts(numbers: Numbers) -> list[Fact]:
    """Facts about outcomes and effort."""
    other_outcomes = {outcome_word(name): count for name, count in numbers.outcomes.items() if name != "done"}
    rate = numbers.intervention_rate
    kinds = format_counts({"stop" if kind == "interrupt" else kind: n for kind, n in numbers.interventions.items()})
    return [
        _share("first attempt", numbers.first_try, numbers.runs),
        _share("done", numbers.done, numbers.runs)._replace(note=format_counts(other_outcomes)),
        Fact(
            "interventions",
            format_percent(rate),
            f"{kinds}{'; ' if kinds else ''}target: below 10%",
            rate,
            None if rate is None else rate < GOAL,
        ),
        Fact("iterations", format_mean(numbers.mean_iterations), "per run"),
        Fact("tool calls", format_mean(share(numbers.tool_calls, numbers.runs)), "per run"),
        Fact("time", format_elapsed(share(numbers.ms, numbers.runs)), "per run"),
    ]


def _planning_facts(numbers: Numbers) -> list[Fact]:
    """Facts about plans."""
    facts = [
        Fact(name, format_elapsed(numbers.planning.percentile(part)), "to plan" if name == "p50" else "")
        for name, part in PERCENTILES
    ]
    return [
        *facts,
        Fact("steps", format_mean(numbers.mean_steps), f"per plan, {numbers.executed_plans:,} executed"),
        _share("fallback", numbers.fallbacks, numbers.plans - numbers.cache_hits),
        _share("from cache", numbers.cache_hits, numbers.plans),
    ]


def _verification_facts(numbers: Numbers) -> list[Fact]:
    """Facts about verifications and recoveries."""
    facts = [_share("passed", sum(numbers.met.values()), numbers.checks)]
    for verifier in sorted(numbers.met.keys() | numbers.unmet.keys()):
        met, unmet = numbers.met.get(verifier, 0), numbers.unmet.get(verifier, 0)
        facts.append(_share(f"by {verifier}", met, met + unmet))
    labels = {"fallback": "by the step's fallback", "recovery": "by a new plan"}
    note = " · ".join(f"{count:,} {labels.get(kind, kind)}" for kind, count in ranked(numbers.recoveries))
    return [*facts, Fact("recoveries", f"{sum(numbers.recoveries.values()):,}", note)]


def _failure_facts(numbers: Numbers) -> list[Fact]:
    """Failures by kind, most frequent first, with bars relative to it."""
    rows = ranked(numbers.failures)
    most = rows[0][1] if rows else 1
    return [Fact(format_failure(key), f"{count:,}", "", count / most) for key, count in rows]


def _stage_facts(numbers: Numbers) -> list[Fact]:
    """Tokens by stage, largest first, with the share of all."""
    sums = {name: tokens.prompt + tokens.completion for name, tokens in numbers.tokens.items()}
    total = sum(sums.values())
    facts = []
    for name, count in ranked(sums):
        tokens = numbers.tokens[name]
        replies = f"{tokens.replies:,} {'reply' if tokens.replies == 1 else 'replies'}"
        parts = [f"{format_count(tokens.prompt)} in", f"{format_count(tokens.completion)} out", replies]
        parts += [f"{format_count(tokens.cached)} cached"] if tokens.cached else []
        parts += [f"{tokens.uncounted:,} not counted"] if tokens.uncounted else []
        facts.append(Fact(name, format_count(count), " · ".join(parts), share(count, total)))
    return facts


def _speed_facts(numbers: Numbers) -> list[Fact]:
    """Server speed and cache use, as far as reported."""
    total, facts = numbers.all_tokens, []
    for name, rate, count, ms in (
        ("reading", total.reading_rate, total.read, total.read_ms),
        ("writing", total.writing_rate, total.written, total.write_ms),
    ):
        if rate is not None:
            note = f"{format_count(count)} tokens in {format_elapsed(ms)}"
            facts.append(Fact(name, speed.format_rate(rate), note))
    if (rate := total.cached_rate) is not None:
        note = f"{format_count(total.cached)} of {format_count(total.known)} tokens, by the server's cache"
        facts.append(Fact("not read again", format_percent(rate), note, rate))
    return facts


COMPARISON_COLUMNS = ("runs", "1st try", "done", "iterations", "plan p95", "fallback", "checks", "misread")


def comparison_tables(tally: Tally) -> tuple[Table, Table]:
    """Return the tables of models and of prompts with several versions, most used first."""
    prompts = [
        row
        for name, versions in sorted(tally.prompts.items())
        if len(versions) > 1
        for row in _comparison_rows(versions, f"{name} ")
    ]
    return (
        Table("Models", ("model", *COMPARISON_COLUMNS), _comparison_rows(tally.models)),
        Table("Prompt versions", ("prompt", *COMPARISON_COLUMNS), prompts),
    )


def _comparison_rows(groups: Mapping[str, Numbers], prefix: str = "") -> list[tuple[str, ...]]:
    return [
        (
            prefix + name,
            f"{numbers.runs:,}",
            format_percent(numbers.first_try_rate),
            format_percent(share(numbers.done, numbers.runs)),
            format_mean(numbers.mean_iterations),
            format_elapsed(numbers.planning.percentile(0.95)),
            format_percent(numbers.fallback_rate),
            format_percent(numbers.verified_rate),
            format_mean(share(numbers.parse_errors, numbers.runs)),
        )
        for name, numbers in sorted(groups.items(), key=lambda group: (-group[1].runs, group[0]))
    ]


def format_date_range(tally: Tally) -> str:
    """Return the range of days from the first run to the last."""
    days = sorted(tally.days)
    if not days:
        return ""
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def format_counts(counts: Mapping[str, int]) -> str:
    """Format counts on one line, most frequent first."""
    return " · ".join(f"{name} {count:,}" for name, count in ranked(counts))


def format_failure(key: str) -> str:
    """Format the kind of a failure."""
    source, _, kind = key.partition(".")
    return f"{FAILURES[source]} · {kind.replace('_', ' ')}" if source in FAILURES else key


# --- JSON -----------------------------------------------------------------------------------


def as_json(tally: Tally) -> dict[str, Any]:
    """Return everything as plain data: rates are 0 to 1 or null, durations in ms."""
    return {
        "sessions": tally.sessions,
        "damaged_records": tally.damaged,
        **numbers_as_json(tally.total),
        "models": {name: numbers_as_json(numbers) for name, numbers in sorted(tally.models.items())},
        "prompts": {
            name: {version: numbers_as_json(numbers) for version, numbers in sorted(versions.items())}
            for name, versions in sorted(tally.prompts.items())
        },
        "days": {date: msgspec.structs.asdict(day) for date, day in sorted(tally.days.items())},
    }


def numbers_as_json(numbers: Numbers) -> dict[str, Any]:
    """Return the counts and rates of one group."""
    total = numbers.all_tokens
    return {
        "runs": numbers.runs,
        "outcomes": _sorted(numbers.outcomes),
        "first_attempt": {"count": numbers.first_try, "rate": numbers.first_try_rate},
        "interventions": {
            "runs": numbers.intervened,
            "rate": numbers.intervention_rate,
            "kinds": _sorted(numbers.interventions),
        },
        "mean": {
            "steps": numbers.mean_steps,
            "iterations": numbers.mean_iterations,
            "tool_calls": share(numbers.tool_calls, numbers.runs),
            "ms": share(numbers.ms, numbers.runs),
        },
        "totals": {
            "steps": numbers.plan_steps,
            "iterations": numbers.iterations,
            "tool_calls": numbers.tool_calls,
            "ms": numbers.ms,
        },
        "planning": {
            "plans": numbers.plans,
            "carried_out": numbers.executed_plans,
            "measured": numbers.planning.count,
            **{f"{name}_ms": numbers.planning.percentile(part) for name, part in PERCENTILES},
            "fallbacks": numbers.fallbacks,
            "fallback_rate": numbers.fallback_rate,
            "cache_hits": numbers.cache_hits,
            "cache_rate": share(numbers.cache_hits, numbers.plans),
        },
        "verification": {
            "met": _sorted(numbers.met),
            "unmet": _sorted(numbers.unmet),
            "rate": numbers.verified_rate,
            "recoveries": _sorted(numbers.recoveries),
        },
        "parse_errors": numbers.parse_errors,
        "retries": numbers.retries,
        "failures": _sorted(numbers.failures),
        "speed": {
            "read_per_second": total.reading_rate,
            "written_per_second": total.writing_rate,
            "cached_rate": total.cached_rate,
        },
        "tokens": {name: msgspec.structs.asdict(tokens) for name, tokens in sorted(numbers.tokens.items())},
    }


def _sorted(counts: Counts) -> Counts:
    return dict(sorted(counts.items()))


# --- parts ----------------------------------------------------------------------------------


def _share(name: str, part: int, total: int) -> Fact:
    rate = share(part, total)
    return Fact(name, format_percent(rate), f"{part:,} of {total:,}" if total else "", rate)


def fact_sections(tally: Tally) -> Iterator[tuple[str, list[Fact]]]:
    """Yield the non-empty sections of facts."""
    total = tally.total
    sections = (
        ("Runs", _run_facts(total)),
        ("Planning", _planning_facts(total) if total.plans or total.executed_plans else []),
        ("Verification", _verification_facts(total) if total.checks or total.recoveries else []),
        ("Failures", _failure_facts(total)),
        ("Tokens by stage", _stage_facts(total)),
        ("Speed of the server", _speed_facts(total)),
    )
    yield from ((name, facts) for name, facts in sections if facts)
