"""Formats results files as a Markdown table with a row for each configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import TypeAlias

import msgspec

from benchmarks.real_model.counting import Row

Configuration: TypeAlias = tuple[str, ...]

HEAD = (
    "program",
    "done",
    "hollow",
    "wrong success",
    "calls",
    "prompt tokens evaluated",
    "cached after the first request",
    "tokens written",
    "seconds",
    "date",
    "commit",
)


def read_rows(path: Path) -> list[Row]:
    """Read a results file. Raises OSError, or ValueError with the number of an invalid line."""
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                rows.append(msgspec.json.decode(line, type=Row))
            except msgspec.MsgspecError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return rows


def table(rows: Iterable[Row]) -> str:
    """The table, with configurations in order of appearance."""
    groups: dict[Configuration, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.agent, row.strategy, row.mode, row.provider, row.model, row.commit].append(row)
    lines = [HEAD, ("---", *["--:"] * (len(HEAD) - 3), "---", "---")]
    lines += [_line(group) for group in groups.values()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(rows: Sequence[Row]) -> tuple[str, ...]:
    share = cached_share(rows)
    return (
        _label(rows[0]),
        f"{_number(_jobs_where(rows, lambda row: row.done))} of {len({row.job for row in rows})}",
        _number(_jobs_where(rows, lambda row: row.hollow)),
        _number(_jobs_where(rows, lambda row: row.wrong)),
        _number(median(row.calls for row in rows)),
        f"{median(row.evaluated_tokens for row in rows):,.0f}",
        "–" if share is None else f"{share:.0%}",
        f"{median(row.written_tokens for row in rows):,.0f}",
        f"{median(row.seconds for row in rows):.0f}",
        max(row.date for row in rows),
        rows[0].commit or "–",
    )


def _jobs_where(rows: Sequence[Row], predicate: Callable[[Row], bool]) -> float:
    """The number of jobs for which `predicate` holds; a repeated job counts by its share."""
    by_job: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        by_job[row.job].append(predicate(row))
    return sum(mean(values) for values in by_job.values())


def cached_share(rows: Sequence[Row]) -> float | None:
    """The cached share of all prompt tokens after each job's first request, from 0 to 1; None without any."""
    weighted = [
        (row.prompt_tokens - row.first_prompt_tokens, row.later_cached_share)
        for row in rows
        if row.later_cached_share is not None
    ]
    tokens = sum(tokens for tokens, _ in weighted)
    return sum(tokens * share for tokens, share in weighted) / tokens if tokens else None


def _label(row: Row) -> str:
    details = [row.provider, f"strategy {row.strategy}", f"{row.mode} mode"] if row.mode else []
    return ", ".join([row.agent, *details])


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
