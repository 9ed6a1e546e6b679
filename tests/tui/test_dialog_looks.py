from __future__ import annotations

import pytest

from tests.nightly import crossed
from tests.tui.dialog_states import STATES, comer

LOOKS = {look: look for look in ("light", "high-contrast", "no-colour")}


@pytest.mark.parametrize(("name", "look"), crossed(list(STATES), LOOKS, whole=("hunks",), every=3))
def test_state(name: str, look: str, snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    if look == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app, session = STATES[name].make("dark" if look == "no-colour" else look)
    size = (120, 40) if "beside" in name else (80, 24)
    assert snap_compare(app, terminal_size=size, run_before=comer(STATES[name], session))
