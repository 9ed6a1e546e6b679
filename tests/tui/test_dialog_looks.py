from __future__ import annotations

import pytest

from tests.tui.dialog_states import STATES, comer


@pytest.mark.parametrize("look", ["light", "high-contrast", "no-colour"])
@pytest.mark.parametrize("name", STATES)
def test_state(name: str, look: str, snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    if look == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app, session = STATES[name].make("dark" if look == "no-colour" else look)
    size = (120, 40) if "beside" in name else (80, 24)
    assert snap_compare(app, terminal_size=size, run_before=comer(STATES[name], session))
