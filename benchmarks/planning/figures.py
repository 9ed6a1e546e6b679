"""The figures of a suite, beside their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.planning.running import Outcome

Figure = float | None
"""None where there is nothing to count."""


class Row(NamedTuple):
    """One figure."""

    name: str
    figure: Callable[[Sequence[Outcome]], Figure]
    goal: float | None = None
    at_least: bool = True
    share: bool = True
    about: str = ""

    def met(self, figure: Figure) -> bool | None:
        """None where there is no target or nothing to count."""
        if figure is None or self.goal is None:
            return None
        return figure >= self.goal if self.at_least else figure <= self.goal


def _part(chosen: Sequence[object], of: Sequence[object]) -> Figure:
    return len(chosen) / len(of) if of else None


def _mean(values: Sequence[int]) -> Figure:
    return sum(values) / len(values) if values else None


def _recovered(all_: Sequence[Outcome]) -> Figure:
    stumbled = [one for one in all_ if one.stumbled]
    return _part([one for one in stumbled if one.done], stumbled)


def _plans(all_: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in all_ if one.planned]


def _checked(all_: Sequence[Outcome]) -> Figure:
    checks = sum(one.checks for one in all_)
    return sum(one.checks_met for one in all_) / checks if checks else None


def _late(values: Sequence[int]) -> Figure:
    """The 95th percentile in seconds."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))] / 1000 if values else None


ROWS = (
    Row(
        "first-attempt success",
        lambda a: _part([o for o in a if o.done and not o.stumbled], a),
        0.8,
        about="done, and no call and no step failed on the way",
    ),
    Row(
        "rounds, one-step tasks",
        lambda a: _mean([o.rounds for o in a if o.simple]),
        2,
        False,
        False,
        about="mean number of replies that did something",
    ),
    Row(
        "replies, one-step tasks",
        lambda a: _mean([o.replies for o in a if o.simple]),
        share=False,
        about="the same with the closing words",
    ),
    Row(
        "recovery needed",
        lambda a: _part([o for o in a if o.stumbled], a),
        0.2,
        False,
        about="a call or a step failed on the way",
    ),
    Row("recovered", _recovered, about="of those, done in the end"),
    Row("stuck", lambda a: _part([o for o in a if not o.done], a), 0.05, False, about="not done in the end"),
    Row(
        "false successes",
        lambda a: _part([o for o in a if o.ended == "done" and not o.right], a),
        about="ended as done, and the files are not as asked",
    ),
    Row(
        "planning fallback",
        lambda a: _part([o for o in _plans(a) if o.plan_fallback], _plans(a)),
        0.15,
        False,
        about="no usable plan came",
    ),
    Row("verification passed", _checked, 0.9, about="checks of plans that were met"),
    Row(
        "interventions",
        lambda a: _part([o for o in a if o.asked], a),
        0.1,
        False,
        about="somebody had to decide, accepting summaries left out",
    ),
    Row(
        "cache hits",
        lambda a: _part([o for o in a if o.cached], [o for o in _plans(a) if o.may_cache]),
        0.6,
        about="of the plans",
    ),
    Row(
        "planning, p95 seconds",
        lambda a: _late([o.plan_ms for o in _plans(a) if not o.cached]),
        3,
        False,
        False,
        about="until the plan was there",
    ),
)


def figures(outcomes: Sequence[Outcome]) -> dict[str, Figure]:
    """Name → figure."""
    return {row.name: row.figure(outcomes) for row in ROWS}


def shown(figure: Figure, row: Row) -> str:
    """A figure as it is printed."""
    if figure is None:
        return "—"
    return f"{100 * figure:.1f}%" if row.share else f"{figure:.2f}"


def goal(row: Row) -> str:
    """The target as it is printed; empty where there is none."""
    if row.goal is None:
        return ""
    number = f"{100 * row.goal:g}%" if row.share else f"{row.goal:g}"
    return ("≥ " if row.at_least else "≤ ") + number


def rows(by_mode: Mapping[str, Sequence[Outcome]]) -> list[tuple[str, ...]]:
    """The table's lines: name, target, a figure and a sign for each mode, what it means."""
    made = []
    for row in ROWS:
        cells = [row.name, goal(row)]
        for outcomes in by_mode.values():
            figure = row.figure(outcomes)
            met = row.met(figure)
            cells += [shown(figure, row), "" if met is None else "met" if met else "missed"]
        made.append((*cells, row.about))
    return made


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """The targets that are not met, in words."""
    found = figures(outcomes)
    return [
        f"{row.name}: {shown(found[row.name], row)}, wanted {goal(row)}"
        for row in ROWS
        if row.met(found[row.name]) is False
    ]


def better(planned: Sequence[Outcome], direct: Sequence[Outcome]) -> list[str]:
    """What of «planning beats no planning» does not hold, in words."""
    ours, theirs = figures(planned), figures(direct)
    faults = []
    for name in ("first-attempt success", "recovered"):
        mine, other = ours[name], theirs[name]
        if other is not None and (1.0 if mine is None else mine) <= other:
            faults.append(f"{name} is not better with planning ({mine} against {other})")
    return faults
