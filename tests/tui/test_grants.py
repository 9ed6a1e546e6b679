from __future__ import annotations

from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_rendered
from tui_agent.common.domain import Grant, Scope
from tui_agent.tui.app import TuiAgentApp
from widgets.grants_panel import GrantsPanel

GRANTS = [
    Grant(kind="run", pattern="python -m pytest -q", cwd="/home/ada/exporter"),
    Grant(kind="edit", pattern="src/*.py", scope=Scope.ALWAYS),
    Grant(kind="read", pattern="/etc/hosts\u202e\x1b[2J"),
    Grant(kind="run", pattern="make", cwd="/w", env_changes=("PATH=/tmp/bin:$PATH",)),
]


def granted() -> tuple[TuiAgentApp, FakeSession]:
    app, session = app_for("answered")
    session.grants.grants = list(GRANTS)
    return app, session


async def opened(pilot: Pilot[int]) -> None:
    await pilot.press(*"/grants", "enter")
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, GrantsPanel))
    await pilot.pause()


async def test_every_rule_is_listed_exactly() -> None:
    app, _session = granted()
    async with run_app(app) as pilot:
        await opened(pilot)
        text = screen_text(app)
        for part in (
            "for this session  run python -m pytest -q in /home/ada/exporter",
            "always            edit src/*.py",
            "read /etc/hosts<U+202E><U+001B>[2J",
            "run make in /w with PATH=/tmp/bin:$PATH",
        ):
            assert part in text


async def test_x_takes_the_chosen_rule_back() -> None:
    app, session = granted()
    async with run_app(app) as pilot:
        await opened(pilot)
        await pilot.press("down", "x")
        await wait_for(pilot, lambda: session.grants.revoked == [GRANTS[1]])
        assert "src/*.py" not in screen_text(app)
        await pilot.press("down", "down", "down", "x", "x", "x", "x")
        await wait_for(pilot, lambda: len(session.grants.revoked) == 4)
        await pilot.pause()
        assert "No saved permissions" in screen_text(app)
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(app.screen, GrantsPanel))


async def test_typing_on_takes_nothing_back() -> None:
    app, session = granted()
    async with run_app(app) as pilot:
        await opened(pilot)
        await pilot.press(*"abc yes", "space")
        await pilot.pause()
        assert session.grants.revoked == []


def test_pictures(snap_compare) -> None:
    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await opened(pilot)
        await pilot.press("down")
        await pilot.pause()

    assert snap_compare(granted()[0], terminal_size=(80, 24), run_before=show)


def test_picture_of_none(snap_compare) -> None:
    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await opened(pilot)

    assert snap_compare(app_for("answered")[0], terminal_size=(60, 20), run_before=show)
