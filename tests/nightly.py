"""Selects the cases of a large set that run every time; the others are marked `nightly`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest

POSTERS = ("empty", "answered", "edit_asked", "command_asked", "tests_ok", "question", "plan_waits", "summary_waits")
"""Scenes that are tested in every size and theme."""


ScreenFormat = tuple[tuple[int, int], str]
"""Size and theme of a screenshot."""
SCREEN_FORMATS: dict[str, ScreenFormat] = {
    f"{columns}x{lines}-{theme}": ((columns, lines), theme)
    for columns, lines in ((80, 24), (120, 40))
    for theme in ("dark", "light")
}


def screen_formats() -> list[Any]:
    """Return pairs of size and theme: each size and each theme once in every run, the other pairs nightly."""
    often = ("80x24-dark", "120x40-light")
    nightly = pytest.mark.nightly
    return [
        pytest.param(*look, id=name, marks=() if name in often else nightly) for name, look in SCREEN_FORMATS.items()
    ]


def sampled(values: Iterable[Any], wanted: Collection[Any] | int) -> list[Any]:
    """Return all values; those in `wanted`, or that many evenly spread ones, run every time, the others nightly."""
    cases = list(values)
    if isinstance(wanted, int):
        wanted = [cases[number * len(cases) // wanted] for number in range(wanted)]
    return [case if case in wanted else pytest.param(case, marks=pytest.mark.nightly) for case in cases]


def repetitions(often: int, nightly: int) -> list[Any]:
    """Return the number of repetitions in every run and in nightly runs."""
    return [often, pytest.param(nightly, marks=pytest.mark.nightly)]


def crossed(
    rows: Sequence[str], columns: Mapping[str, Any], *, whole: Collection[str] = POSTERS, every: int = 1
) -> list[Any]:
    """Return the product of rows and columns. Rows in `whole` run with all columns every time, every `every`-th other row
    with one column in turn; the remaining cases are nightly."""
    cases = []
    for number, row in enumerate(rows):
        for index, (name, column) in enumerate(columns.items()):
            often = row in whole or (number % every == 0 and index == number // every % len(columns))
            marks = () if often else (pytest.mark.nightly,)
            cases.append(pytest.param(row, column, id=f"{row}-{name}", marks=marks))
    return cases
