from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.nightly import crossed
from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent.tui.app import TuiAgentApp

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x50": (200, 50)}


async def shown(pilot: Pilot[int]) -> None:
    await wait_until_rendered(pilot)
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    docking = app.dialogs.dock
    if any(one.proposal or one.summary for one in app.view.pending.values()):
        await wait_for(pilot, lambda: docking.panel is not None and docking.panel.is_mounted)
        await wait_until_idle(pilot)
        await wait_for(pilot, lambda: docking.panel is not None and docking.panel.armed)
        await wait_until_idle(pilot)


@pytest.mark.parametrize(("scene", "size"), crossed(build.WORKFLOW, SIZES, whole=("plan_waits",)))
def test_scene(scene: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for(scene)
    assert snap_compare(app, terminal_size=size, run_before=shown)


KEYS = {
    "rows": ("plan_waits", ("e", "down", "down", "down")),
    "field": ("plan_waits", ("e", "down", "down", "down", "enter", *" too")),
    "edited": ("plan_waits", ("e", "J", "escape")),
    "reason": ("plan_unsure", ("r", *"not like that")),
    "typing": ("summary_waits", ("tab", "tab", *" And the README.")),
    "ticks": ("summary_waits", ("tab", "tab", "tab", "tab", "down", "space")),
    "sure": ("summary_waits", ("ctrl+d",)),
    "details": ("steps_recovered", ("ctrl+o",)),
}


@pytest.mark.parametrize(("name", "size"), crossed(list(KEYS), SIZES))
def test_after_keys(name: str, size: tuple[int, int], snap_compare) -> None:
    scene, keys = KEYS[name]
    app, _session = app_for(scene)

    async def press(pilot: Pilot[int]) -> None:
        await shown(pilot)
        await pilot.press(*keys)
        await wait_until_idle(pilot)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=press)


@pytest.mark.parametrize("scene", ["plan_unsure", "summary_waits"])
def test_in_the_light(scene: str, snap_compare) -> None:
    app, _session = app_for(scene, theme="light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=shown)


async def test_the_check_of_the_program_is_marked_as_such() -> None:
    app, _session = app_for("steps_recovered")
    async with run_app(app, (120, 40)) as pilot:
        await wait_until_rendered(pilot)
        assert any("Check: " in row and "run by the program" in row for row in screen_text(app).split("\n"))
