"""Results files as a Markdown table: a row for each way of working."""

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
    """All rows of a results file. Raises OSError, or ValueError with the line that can't be read."""
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                rows.append(msgspec.json.decode(line, type=Row))
            except msgspec.MsgspecError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return rows


def table(rows: Iterable[Row]) -> str:
    """A row for each configuration, in the order in which they come."""
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
        f"{_number(_each_round(rows, lambda row: row.done))} of {len({row.job for row in rows})}",
        _number(_each_round(rows, lambda row: row.hollow)),
        _number(_each_round(rows, lambda row: row.wrong)),
        _number(median(row.calls for row in rows)),
        f"{median(row.evaluated_tokens for row in rows):,.0f}",
        "–" if share is None else f"{share:.0%}",
        f"{median(row.written_tokens for row in rows):,.0f}",
        f"{median(row.seconds for row in rows):.0f}",
        max(row.date for row in rows),
        rows[0].commit or "–",
    )


def _each_round(rows: Sequence[Row], holds: Callable[[Row], bool]) -> float:
    """In how many jobs it holds, where a job that was repeated counts with its share."""
    by_job: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        by_job[row.job].append(holds(row))
    return sum(mean(found) for found in by_job.values())


def cached_share(rows: Sequence[Row]) -> float | None:
    """Of all prompt tokens after each job's first request, from 0 to 1; None without any."""
    parts = [
        (row.prompt_tokens - row.first_prompt_tokens, row.later_cached_share)
        for row in rows
        if row.later_cached_share is not None
    ]
    read = sum(tokens for tokens, _ in parts)
    return sum(tokens * share for tokens, share in parts) / read if read else None


def _label(row: Row) -> str:
    words = [row.provider, f"strategy {row.strategy}", f"{row.mode} mode"] if row.mode else []
    return ", ".join([row.agent, *words])


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
