"""Nothing of a dialog is painted before every part has its place, and only then the quiet period begins (A9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.nightly import sampled
from tests.tui.dialog_states import STATES
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle
from tui_agent.tui.app import TuiAgentApp
from widgets.request_view import QUIET_SECONDS, RequestModal

NAMES = (
    "command",
    "command-secret",
    "hunks",
    "long",
    "new-file",
    "trust",
    "question",
    "conflict",
    "reading",
    "hostile",
)
BORDERS = "╭╔"


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was painted of dialogs, oldest first."""
    painted: list[str] = []
    display = TuiAgentApp._display

    def keep(app: TuiAgentApp, screen: Any, renderable: Any) -> None:
        if isinstance(screen, RequestModal):
            painted.append(screen_text(app))
        display(app, screen, renderable)

    monkeypatch.setattr(TuiAgentApp, "_display", keep)
    return painted


@pytest.mark.parametrize("size", sampled([(60, 16), (80, 24), (120, 40)], [(60, 16), (120, 40)]), ids=str)
async def test_the_first_frame_of_a_dialog_is_complete_and_does_not_change(
    size: tuple[int, int], frames: list[str]
) -> None:
    for name in NAMES:
        frames.clear()
        app, _session = STATES[name].make("dark")
        async with run_app(app, size) as pilot:
            await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)  # noqa: B023
            await wait_until_idle(pilot)
            shown = [
                frame
                for frame in frames
                if any(frame.lstrip(" \n").startswith(edge) or f"\n{edge}" in frame for edge in BORDERS)
            ]
            assert shown, name
            shown = [frame[min(map(frame.find, filter(frame.__contains__, BORDERS))) :] for frame in shown]
            if name == "question":  # its field has the focus once keys are accepted
                shown = [frame.replace("▏", " ") for frame in shown]
            assert len(set(shown)) == 1, f"{name} {size}\n" + "\n---\n".join(dict.fromkeys(shown))


async def test_the_quiet_period_begins_with_the_first_complete_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the layout takes, nothing that was pressed meanwhile decides."""
    clock = FakeClock()
    fit = RequestModal.fit
    display = TuiAgentApp._display
    painted_at: list[float] = []

    def slow_fit(modal: RequestModal) -> None:
        clock.now += 1.0
        fit(modal)

    def keep(app: TuiAgentApp, screen: Any, renderable: Any) -> None:
        if isinstance(screen, RequestModal) and "$ python -m pytest" in screen_text(app):
            painted_at.append(clock.now)
        display(app, screen, renderable)

    monkeypatch.setattr(RequestModal, "fit", slow_fit)
    monkeypatch.setattr(TuiAgentApp, "_display", keep)
    app, session = app_for("command_asked", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app, (80, 24)) as pilot:
        await wait_for(pilot, lambda: bool(painted_at))
        assert isinstance(app.screen, RequestModal)
        assert app.screen._quiet_since >= painted_at[0]
        await pilot.press("a")
        await wait_until_idle(pilot)
        assert session.answers == []
