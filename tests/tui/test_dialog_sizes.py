from __future__ import annotations

import pytest

from tests.nightly import crossed
from tests.tui.dialog_states import STATES, comer

SIZES = {"60x20": (60, 20), "80x24": (80, 24), "120x40": (120, 40)}

LOW = [pytest.param(name, (60, 16), id=f"{name}-60x16") for name in ("critical", "critical-word", "hunks", "unread")]


@pytest.mark.parametrize(("name", "size"), [*crossed(list(STATES), SIZES, whole=("hunks",)), *LOW])
def test_state(name: str, size: tuple[int, int], snap_compare) -> None:
    app, session = STATES[name].make("dark")
    assert snap_compare(app, terminal_size=size, run_before=comer(STATES[name], session))
