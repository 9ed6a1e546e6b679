"""The numbers in words: what `tui-agent stats` prints and the dashboard draws is the same (S4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tui_agent.common import speed
from tui_agent.stats.numbers import Counts, Numbers, Tally, mean, percent, ranked, seconds, share, short

PERCENTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
GOAL = 0.10
"""Share of runs in which the user has to step in: less is good (S4)."""
FAILURES = {"model": "server", "reply": "reply", "tool": "tool", "step": "step"}
"""Where a failure lies, as its key begins → as it is called."""


class Fact(NamedTuple):
    """One number with what it is made of."""

    name: str
    value: str
    note: str = ""
    share: float | None = None
    """For a bar; None where a bar says nothing."""
    good: bool | None = None
    """Whether it is as it should be; None where nobody says how it should be."""


class Table(NamedTuple):
    """Numbers that are compared, the most wanted columns first."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def runs(numbers: Numbers) -> list[Fact]:
    """How runs end, and what they take."""
    others = {name: count for name, count in numbers.outcomes.items() if name != "done"}
    hands = numbers.hands_on_rate
    stepped = counts_text(numbers.interventions)
    return [
        _share("first attempt", numbers.first_try, numbers.runs),
        _share("done", numbers.done, numbers.runs)._replace(note=counts_text(others)),
        Fact(
            "interventions",
            percent(hands),
            f"{stepped}{'; ' if stepped else ''}the goal is below 10%",
            hands,
            None if hands is None else hands < GOAL,
        ),
        Fact("iterations", mean(numbers.mean_iterations), "per run"),
        Fact("tool calls", mean(share(numbers.tool_calls, numbers.runs)), "per run"),
        Fact("time", seconds(share(numbers.ms, numbers.runs)), "per run"),
    ]


def planning(numbers: Numbers) -> list[Fact]:
    """How long plans take, and what becomes of them."""
    facts = [
        Fact(name, seconds(numbers.planning.percentile(part)), "to plan" if name == "p50" else "")
        for name, part in PERCENTILES
    ]
    return [
        *facts,
        Fact("steps", mean(numbers.mean_steps), f"per plan, {numbers.carried:,} executed"),
        _share("fallback", numbers.fallbacks, numbers.plans - numbers.cache_hits),
        _share("from cache", numbers.cache_hits, numbers.plans),
    ]


def verification(numbers: Numbers) -> list[Fact]:
    """What checks found, and what was tried after a failure."""
    facts = [_share("passed", sum(numbers.met.values()), numbers.checks)]
    for judge in sorted(numbers.met.keys() | numbers.unmet.keys()):
        good, bad = numbers.met.get(judge, 0), numbers.unmet.get(judge, 0)
        facts.append(_share(f"by {judge}", good, good + bad))
    recovered = sum(numbers.recoveries.values())
    facts.append(Fact("recoveries", f"{recovered:,}", _recovered(numbers.recoveries)))
    return facts


def failures(numbers: Numbers) -> list[Fact]:
    """By kind, the most frequent first; with the share of the most frequent one."""
    rows = ranked(numbers.failures)
    most = rows[0][1] if rows else 1
    return [Fact(failure(key), f"{count:,}", "", count / most) for key, count in rows]


def stages(numbers: Numbers) -> list[Fact]:
    """Tokens by stage, the dearest first; with the share of all."""
    sums = {name: one.prompt + one.completion for name, one in numbers.tokens.items()}
    whole = sum(sums.values())
    facts = []
    for name, count in ranked(sums):
        one = numbers.tokens[name]
        parts = [f"{short(one.prompt)} in", f"{short(one.completion)} out", _replies(one.replies)]
        parts += [f"{short(one.cached)} cached"] if one.cached else []
        parts += [f"{one.uncounted:,} not counted"] if one.uncounted else []
        facts.append(Fact(name, short(count), " · ".join(parts), share(count, whole)))
    return facts


def speeds(numbers: Numbers) -> list[Fact]:
    """How fast servers read and wrote, and what they still had; nothing that none of them told."""
    whole, facts = numbers.all_tokens, []
    if (rate := whole.reading_rate) is not None:
        note = f"{short(whole.read)} tokens in {seconds(whole.read_ms)}"
        facts.append(Fact("reading", speed.format_rate(rate), note))
    if (rate := whole.writing_rate) is not None:
        note = f"{short(whole.written)} tokens in {seconds(whole.write_ms)}"
        facts.append(Fact("writing", speed.format_rate(rate), note))
    if (rate := whole.cached_rate) is not None:
        note = f"{short(whole.cached)} of {short(whole.known)} tokens, by the server's cache"
        facts.append(Fact("not read again", percent(rate), note, rate))
    return facts


def model_table(tally: Tally) -> Table:
    """Models, the most used first."""
    rows = [
        (name, *_compared(tally.models[name]))
        for name, _ in ranked({name: one.runs for name, one in tally.models.items()})
    ]
    return Table("Models", ("model", *COMPARED), rows)


def prompt_table(tally: Tally) -> Table:
    """Versions of the prompts that changed, each prompt's most used first."""
    rows = []
    for name, versions in tally.compared.items():
        for version, _ in ranked({version: one.runs for version, one in versions.items()}):
            rows.append((f"{name} {version}", *_compared(versions[version])))
    return Table("Prompt versions", ("prompt", *COMPARED), rows)


COMPARED = ("runs", "1st try", "done", "iterations", "plan p95", "fallback", "checks", "misread")


def _compared(one: Numbers) -> tuple[str, ...]:
    return (
        f"{one.runs:,}",
        percent(one.first_try_rate),
        percent(share(one.done, one.runs)),
        mean(one.mean_iterations),
        seconds(one.planning.percentile(0.95)),
        percent(one.fallback_rate),
        percent(one.verified_rate),
        mean(share(one.parse_errors, one.runs)),
    )


def span(tally: Tally) -> str:
    """The days from the first run to the last."""
    days = sorted(tally.days)
    if not days:
        return ""
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts in a line, the most frequent first."""
    return " · ".join(f"{name} {count:,}" for name, count in ranked(counts))


def failure(key: str) -> str:
    """The kind of a failure in words."""
    where, _, what = key.partition(".")
    return f"{FAILURES[where]} · {what.replace('_', ' ')}" if where in FAILURES else key


# --- JSON -----------------------------------------------------------------------------------


def as_json(tally: Tally) -> dict[str, Any]:
    """All of it as plain data. Rates are between 0 and 1, null where nothing was counted; times are ms."""
    days = {date: msgspec.to_builtins(tally.days[date]) for date in sorted(tally.days)}
    return {
        "sessions": tally.sessions,
        "damaged_records": tally.damaged,
        **numbers_as_json(tally.whole),
        "models": {name: numbers_as_json(one) for name, one in sorted(tally.models.items())},
        "prompts": {
            name: {version: numbers_as_json(one) for version, one in sorted(versions.items())}
            for name, versions in sorted(tally.prompts.items())
        },
        "days": {date: {"runs": 0, "first_try": 0, "tokens": 0, **day} for date, day in days.items()},
    }


def numbers_as_json(one: Numbers) -> dict[str, Any]:
    """The counts of one group, and the rates that follow from them."""
    tokens = {
        name: {field: getattr(stage, field) for field in stage.__struct_fields__}
        for name, stage in sorted(one.tokens.items())
    }
    whole = one.all_tokens
    return {
        "runs": one.runs,
        "outcomes": _sorted(one.outcomes),
        "first_attempt": {"count": one.first_try, "rate": one.first_try_rate},
        "interventions": {"runs": one.hands_on, "rate": one.hands_on_rate, "kinds": _sorted(one.interventions)},
        "mean": {
            "steps": one.mean_steps,
            "iterations": one.mean_iterations,
            "tool_calls": share(one.tool_calls, one.runs),
            "ms": share(one.ms, one.runs),
        },
        "totals": {"steps": one.plan_steps, "iterations": one.iterations, "tool_calls": one.tool_calls, "ms": one.ms},
        "planning": {
            "plans": one.plans,
            "carried_out": one.carried,
            "measured": one.planning.count,
            **{f"{name}_ms": one.planning.percentile(part) for name, part in PERCENTILES},
            "fallbacks": one.fallbacks,
            "fallback_rate": one.fallback_rate,
            "cache_hits": one.cache_hits,
            "cache_rate": one.cache_rate,
        },
        "verification": {
            "met": _sorted(one.met),
            "unmet": _sorted(one.unmet),
            "rate": one.verified_rate,
            "recoveries": _sorted(one.recoveries),
        },
        "parse_errors": one.parse_errors,
        "retries": one.retries,
        "failures": _sorted(one.failures),
        "speed": {
            "read_per_second": whole.reading_rate,
            "written_per_second": whole.writing_rate,
            "cached_rate": whole.cached_rate,
        },
        "tokens": tokens,
    }  # fmt: skip


def _sorted(counts: Counts) -> Counts:
    return dict(sorted(counts.items()))


# --- parts ----------------------------------------------------------------------------------


def _share(name: str, part: int, whole: int) -> Fact:
    rate = share(part, whole)
    return Fact(name, percent(rate), f"{part:,} of {whole:,}" if whole else "", rate)


def _replies(count: int) -> str:
    return f"{count:,} {'reply' if count == 1 else 'replies'}"


def _recovered(counts: Counts) -> str:
    words = {"fallback": "by the step's fallback", "recovery": "by a new plan"}
    return " · ".join(f"{count:,} {words.get(name, name)}" for name, count in ranked(counts))


def fact_sections(tally: Tally) -> Iterator[tuple[str, list[Fact]]]:
    """All facts by section; those without any are left out."""
    whole = tally.whole
    found = (
        ("Runs", runs(whole)),
        ("Planning", planning(whole) if whole.plans or whole.carried else []),
        ("Verification", verification(whole) if whole.checks or whole.recoveries else []),
        ("Failures", failures(whole)),
        ("Tokens by stage", stages(whole)),
        ("Speed of the server", speeds(whole)),
    )
    yield from ((name, facts) for name, facts in found if facts)
