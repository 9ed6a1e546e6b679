"""The figures of a suite and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.planning.running import Outcome

Figure = float | None
"""None if there is nothing to count."""


class Row(NamedTuple):
    """One figure."""

    name: str
    figure: Callable[[Sequence[Outcome]], Figure]
    target: float | None = None
    is_minimum: bool = True
    is_share: bool = True
    description: str = ""

    def is_met(self, figure: Figure) -> bool | None:
        """Whether the target is met; None if there is no target or nothing to count."""
        if figure is None or self.target is None:
            return None
        return figure >= self.target if self.is_minimum else figure <= self.target


def _share(chosen: Sequence[object], of: Sequence[object]) -> Figure:
    return len(chosen) / len(of) if of else None


def _mean(values: Sequence[int]) -> Figure:
    return sum(values) / len(values) if values else None


def _recovered(outcomes: Sequence[Outcome]) -> Figure:
    stumbled = [outcome for outcome in outcomes if outcome.stumbled]
    return _share([outcome for outcome in stumbled if outcome.done], stumbled)


def _with_plan(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.planned]


def _checks_passed(outcomes: Sequence[Outcome]) -> Figure:
    checks = sum(outcome.checks for outcome in outcomes)
    return sum(outcome.checks_met for outcome in outcomes) / checks if checks else None


def _p95_seconds(values: Sequence[int]) -> Figure:
    """The 95th percentile in seconds."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))] / 1000 if values else None


ROWS = (
    Row(
        "first-attempt success",
        lambda outcomes: _share([outcome for outcome in outcomes if outcome.done and not outcome.stumbled], outcomes),
        0.8,
        description="done, and no call or step failed",
    ),
    Row(
        "rounds, one-step tasks",
        lambda outcomes: _mean([outcome.rounds for outcome in outcomes if outcome.simple]),
        2,
        False,
        False,
        description="mean number of replies with tool calls",
    ),
    Row(
        "replies, one-step tasks",
        lambda outcomes: _mean([outcome.replies for outcome in outcomes if outcome.simple]),
        is_share=False,
        description="the same including the final reply",
    ),
    Row(
        "recovery needed",
        lambda outcomes: _share([outcome for outcome in outcomes if outcome.stumbled], outcomes),
        0.2,
        False,
        description="a call or step failed",
    ),
    Row("recovered", _recovered, description="of those, finally done"),
    Row(
        "stuck",
        lambda outcomes: _share([outcome for outcome in outcomes if not outcome.done], outcomes),
        0.05,
        False,
        description="finally not done",
    ),
    Row(
        "false successes",
        lambda outcomes: _share(
            [outcome for outcome in outcomes if outcome.ended == "done" and not outcome.right], outcomes
        ),
        description="reported as done, but the files are not as expected",
    ),
    Row(
        "planning fallback",
        lambda outcomes: _share(
            [outcome for outcome in _with_plan(outcomes) if outcome.plan_fallback], _with_plan(outcomes)
        ),
        0.15,
        False,
        description="no usable plan was produced",
    ),
    Row("verification passed", _checks_passed, 0.9, description="share of the plans' checks"),
    Row(
        "interventions",
        lambda outcomes: _share([outcome for outcome in outcomes if outcome.asked], outcomes),
        0.1,
        False,
        description="tasks with requests to the user, except summaries",
    ),
    Row(
        "cache hits",
        lambda outcomes: _share(
            [outcome for outcome in outcomes if outcome.cached],
            [outcome for outcome in _with_plan(outcomes) if outcome.may_cache],
        ),
        0.6,
        description="of the plans",
    ),
    Row(
        "planning, p95 seconds",
        lambda outcomes: _p95_seconds([outcome.plan_ms for outcome in _with_plan(outcomes) if not outcome.cached]),
        3,
        False,
        False,
        description="until the plan was ready",
    ),
)


def figures(outcomes: Sequence[Outcome]) -> dict[str, Figure]:
    """Name → figure."""
    return {row.name: row.figure(outcomes) for row in ROWS}


def format_figure(figure: Figure, row: Row) -> str:
    """A figure as it is printed."""
    if figure is None:
        return "—"
    return f"{100 * figure:.1f}%" if row.is_share else f"{figure:.2f}"


def format_target(row: Row) -> str:
    """The target as it is printed, or ""."""
    if row.target is None:
        return ""
    number = f"{100 * row.target:g}%" if row.is_share else f"{row.target:g}"
    return ("≥ " if row.is_minimum else "≤ ") + number


def table_rows(by_mode: Mapping[str, Sequence[Outcome]]) -> list[tuple[str, ...]]:
    """The rows of the table: name, target, figure and verdict for each mode, description."""
    lines = []
    for row in ROWS:
        cells = [row.name, format_target(row)]
        for outcomes in by_mode.values():
            figure = row.figure(outcomes)
            is_met = row.is_met(figure)
            cells += [format_figure(figure, row), "" if is_met is None else "met" if is_met else "missed"]
        lines.append((*cells, row.description))
    return lines


def missed_goals(outcomes: Sequence[Outcome]) -> list[str]:
    """Describe the targets that were missed."""
    values = figures(outcomes)
    return [
        f"{row.name}: {format_figure(values[row.name], row)}, wanted {format_target(row)}"
        for row in ROWS
        if row.is_met(values[row.name]) is False
    ]


def disadvantages(planned: Sequence[Outcome], direct: Sequence[Outcome]) -> list[str]:
    """Describe the figures in which planning is not better than working without it."""
    with_planning, without = figures(planned), figures(direct)
    faults = []
    for name in ("first-attempt success", "recovered"):
        own, other = with_planning[name], without[name]
        if other is not None and (1.0 if own is None else own) <= other:
            faults.append(f"{name} is not better with planning ({own} against {other})")
    return faults
