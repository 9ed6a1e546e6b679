from __future__ import annotations

import pytest

from tests.tui.dialog_states import STATES, comer


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=["60x20", "80x24", "120x40"])
@pytest.mark.parametrize("name", STATES)
def test_state(name: str, size: tuple[int, int], snap_compare) -> None:
    app, session = STATES[name].make("dark")
    assert snap_compare(app, terminal_size=size, run_before=comer(STATES[name], session))
