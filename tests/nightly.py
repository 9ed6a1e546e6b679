"""Which members of a large set of cases run every time; the others are marked `nightly`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest

POSTERS = ("empty", "answered", "edit_asked", "command_asked", "tests_ok", "question", "plan_waits", "summary_waits")
"""The scenes that are looked at in every size and theme."""


Look = tuple[tuple[int, int], str]
"""Size and theme of a picture."""
LOOKS: dict[str, Look] = {
    f"{columns}x{lines}-{theme}": ((columns, lines), theme)
    for columns, lines in ((80, 24), (120, 40))
    for theme in ("dark", "light")
}


def looks() -> list[Any]:
    """(size, theme): each size and each theme once in every run, the other pairs nightly."""
    often = ("80x24-dark", "120x40-light")
    nightly = pytest.mark.nightly
    return [pytest.param(*look, id=name, marks=() if name in often else nightly) for name, look in LOOKS.items()]


def sampled(values: Iterable[Any], wanted: Collection[Any] | int) -> list[Any]:
    """The wanted values, or so many of them spread over all, in every run; the others nightly."""
    every = list(values)
    if isinstance(wanted, int):
        wanted = [every[number * len(every) // wanted] for number in range(wanted)]
    return [one if one in wanted else pytest.param(one, marks=pytest.mark.nightly) for one in every]


def rounds(often: int, nightly: int) -> list[Any]:
    """How many times something is tried: so often in every run, and so often nightly."""
    return [often, pytest.param(nightly, marks=pytest.mark.nightly)]


def crossed(
    rows: Sequence[str], columns: Mapping[str, Any], *, whole: Collection[str] = POSTERS, every: int = 1
) -> list[Any]:
    """(row, column) for every row with every column. Rows in `whole` meet all columns in every run, each `every`-th of the
    others meets one, in turn, so that every column meets many rows; the rest is nightly."""
    cases = []
    for number, row in enumerate(rows):
        for place, (name, column) in enumerate(columns.items()):
            kept = row in whole or (number % every == 0 and place == number // every % len(columns))
            marks = () if kept else (pytest.mark.nightly,)
            cases.append(pytest.param(row, column, id=f"{row}-{name}", marks=marks))
    return cases
