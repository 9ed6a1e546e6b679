"""The statistics as text, for `tui-agent stats` and the dashboard (S4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tui_agent.common import speed
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
    good: bool | None = None
    """Whether the goal is met; None without a goal."""


class Table(NamedTuple):
    """A table for comparison, most important columns first."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def runs(numbers: Numbers) -> list[Fact]:
    """Facts about outcomes and effort."""
    other_outcomes = {name: count for name, count in numbers.outcomes.items() if name != "done"}
    rate = numbers.hands_on_rate
    kinds = format_counts(numbers.interventions)
    return [
        _share("first attempt", numbers.first_try, numbers.runs),
        _share("done", numbers.done, numbers.runs)._replace(note=format_counts(other_outcomes)),
        Fact(
            "interventions",
            format_percent(rate),
            f"{kinds}{'; ' if kinds else ''}the goal is below 10%",
            rate,
            None if rate is None else rate < GOAL,
        ),
        Fact("iterations", format_mean(numbers.mean_iterations), "per run"),
        Fact("tool calls", format_mean(share(numbers.tool_calls, numbers.runs)), "per run"),
        Fact("time", format_elapsed(share(numbers.ms, numbers.runs)), "per run"),
    ]


def planning(numbers: Numbers) -> list[Fact]:
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


def verification(numbers: Numbers) -> list[Fact]:
    """Facts about verifications and recoveries."""
    facts = [_share("passed", sum(numbers.met.values()), numbers.checks)]
    for judge in sorted(numbers.met.keys() | numbers.unmet.keys()):
        good, bad = numbers.met.get(judge, 0), numbers.unmet.get(judge, 0)
        facts.append(_share(f"by {judge}", good, good + bad))
    recovered = sum(numbers.recoveries.values())
    facts.append(Fact("recoveries", f"{recovered:,}", _format_recoveries(numbers.recoveries)))
    return facts


def failures(numbers: Numbers) -> list[Fact]:
    """Failures by kind, most frequent first, with bars relative to it."""
    rows = ranked(numbers.failures)
    most = rows[0][1] if rows else 1
    return [Fact(format_failure(key), f"{count:,}", "", count / most) for key, count in rows]


def stages(numbers: Numbers) -> list[Fact]:
    """Tokens by stage, largest first, with the share of all."""
    sums = {name: tokens.prompt + tokens.completion for name, tokens in numbers.tokens.items()}
    total = sum(sums.values())
    facts = []
    for name, count in ranked(sums):
        tokens = numbers.tokens[name]
        parts = [f"{format_count(tokens.prompt)} in", f"{format_count(tokens.completion)} out"]
        parts.append(_format_replies(tokens.replies))
        parts += [f"{format_count(tokens.cached)} cached"] if tokens.cached else []
        parts += [f"{tokens.uncounted:,} not counted"] if tokens.uncounted else []
        facts.append(Fact(name, format_count(count), " · ".join(parts), share(count, total)))
    return facts


def speeds(numbers: Numbers) -> list[Fact]:
    """Server speed and cache use, as far as reported."""
    total, facts = numbers.all_tokens, []
    if (rate := total.reading_rate) is not None:
        note = f"{format_count(total.read)} tokens in {format_elapsed(total.read_ms)}"
        facts.append(Fact("reading", speed.format_rate(rate), note))
    if (rate := total.writing_rate) is not None:
        note = f"{format_count(total.written)} tokens in {format_elapsed(total.write_ms)}"
        facts.append(Fact("writing", speed.format_rate(rate), note))
    if (rate := total.cached_rate) is not None:
        note = f"{format_count(total.cached)} of {format_count(total.known)} tokens, by the server's cache"
        facts.append(Fact("not read again", format_percent(rate), note, rate))
    return facts


def model_table(tally: Tally) -> Table:
    """Models, most used first."""
    rows = [
        (name, *_comparison_cells(tally.models[name]))
        for name, _ in ranked({name: numbers.runs for name, numbers in tally.models.items()})
    ]
    return Table("Models", ("model", *COMPARISON_COLUMNS), rows)


def prompt_table(tally: Tally) -> Table:
    """Versions of prompts with several versions, most used first."""
    rows = []
    for name, versions in tally.compared.items():
        for version, _ in ranked({version: numbers.runs for version, numbers in versions.items()}):
            rows.append((f"{name} {version}", *_comparison_cells(versions[version])))
    return Table("Prompt versions", ("prompt", *COMPARISON_COLUMNS), rows)


COMPARISON_COLUMNS = ("runs", "1st try", "done", "iterations", "plan p95", "fallback", "checks", "misread")


def _comparison_cells(numbers: Numbers) -> tuple[str, ...]:
    return (
        f"{numbers.runs:,}",
        format_percent(numbers.first_try_rate),
        format_percent(share(numbers.done, numbers.runs)),
        format_mean(numbers.mean_iterations),
        format_elapsed(numbers.planning.percentile(0.95)),
        format_percent(numbers.fallback_rate),
        format_percent(numbers.verified_rate),
        format_mean(share(numbers.parse_errors, numbers.runs)),
    )


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
    days = {date: msgspec.to_builtins(tally.days[date]) for date in sorted(tally.days)}
    return {
        "sessions": tally.sessions,
        "damaged_records": tally.damaged,
        **numbers_as_json(tally.total),
        "models": {name: numbers_as_json(numbers) for name, numbers in sorted(tally.models.items())},
        "prompts": {
            name: {version: numbers_as_json(numbers) for version, numbers in sorted(versions.items())}
            for name, versions in sorted(tally.prompts.items())
        },
        "days": {date: {"runs": 0, "first_try": 0, "tokens": 0, **day} for date, day in days.items()},
    }


def numbers_as_json(numbers: Numbers) -> dict[str, Any]:
    """Return the counts and rates of one group."""
    tokens = {
        name: {field: getattr(stage, field) for field in stage.__struct_fields__}
        for name, stage in sorted(numbers.tokens.items())
    }
    total = numbers.all_tokens
    return {
        "runs": numbers.runs,
        "outcomes": _sorted(numbers.outcomes),
        "first_attempt": {"count": numbers.first_try, "rate": numbers.first_try_rate},
        "interventions": {
            "runs": numbers.hands_on,
            "rate": numbers.hands_on_rate,
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
        "planning": _planning_as_json(numbers),
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
        "tokens": tokens,
    }


def _planning_as_json(numbers: Numbers) -> dict[str, Any]:
    return {
        "plans": numbers.plans,
        "carried_out": numbers.executed_plans,
        "measured": numbers.planning.count,
        **{f"{name}_ms": numbers.planning.percentile(part) for name, part in PERCENTILES},
        "fallbacks": numbers.fallbacks,
        "fallback_rate": numbers.fallback_rate,
        "cache_hits": numbers.cache_hits,
        "cache_rate": numbers.cache_rate,
    }


def _sorted(counts: Counts) -> Counts:
    return dict(sorted(counts.items()))


# --- parts ----------------------------------------------------------------------------------


def _share(name: str, part: int, total: int) -> Fact:
    rate = share(part, total)
    return Fact(name, format_percent(rate), f"{part:,} of {total:,}" if total else "", rate)


def _format_replies(count: int) -> str:
    return f"{count:,} {'reply' if count == 1 else 'replies'}"


def _format_recoveries(counts: Counts) -> str:
    words = {"fallback": "by the step's fallback", "recovery": "by a new plan"}
    return " · ".join(f"{count:,} {words.get(name, name)}" for name, count in ranked(counts))


def fact_sections(tally: Tally) -> Iterator[tuple[str, list[Fact]]]:
    """Yield the non-empty sections of facts."""
    total = tally.total
    sections = (
        ("Runs", runs(total)),
        ("Planning", planning(total) if total.plans or total.executed_plans else []),
        ("Verification", verification(total) if total.checks or total.recoveries else []),
        ("Failures", failures(total)),
        ("Tokens by stage", stages(total)),
        ("Speed of the server", speeds(total)),
    )
    yield from ((name, facts) for name, facts in sections if facts)
