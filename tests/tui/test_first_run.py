from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.nightly import screen_formats
from tests.scenes import build
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.exit_codes import RESTART_AS_DEMO
from widgets.first_run import FirstRun
from widgets.request_view import QUIET_SECONDS, RequestModal


def open_one(app: TuiAgentApp) -> bool:
    return isinstance(app.screen, FirstRun) and app.screen.armed


async def test_it_says_what_was_tried_and_how_to_start_a_model() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await wait_until_idle(pilot)
        text = screen_text(app)
        for part in ("Tried http://localhost:11434", "ollama serve", "LLM_BASE_URL=", "demo: a scripted model"):
            assert part in text


async def test_d_goes_to_the_demo() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("d")
        await wait_for(pilot, lambda: app.return_value == RESTART_AS_DEMO)


async def test_r_looks_again_and_says_so_when_there_is_still_none() -> None:
    app, session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("r")
        await wait_for(pilot, lambda: session.looks == 1 and not isinstance(app.screen, FirstRun))
        session.push(session.records[-1].event)
        await wait_for(pilot, lambda: open_one(app))


async def test_escape_goes_on() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
        assert app.is_running


async def test_what_was_typed_ahead_chooses_nothing() -> None:
    clock = FakeClock()
    app, session = app_for("no_server", clock=clock, quiet_seconds=QUIET_SECONDS)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, FirstRun))
        await pilot.press(*"drd")
        await wait_for(pilot, lambda: app.prompt.text == "drd")
        assert session.looks == 0
        assert app.is_running


async def test_a_request_comes_first() -> None:
    records = build.trust().records
    app, session = app_for(records)
    async with run_app(app) as pilot:
        session.push(build.no_server().records[-1].event)
        await wait_until_rendered(pilot)
        assert not isinstance(app.screen, FirstRun)
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await pilot.press("a")
        await wait_for(pilot, lambda: open_one(app))


async def test_after_a_message_it_is_a_notice_only() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        session.push(build.no_server().records[-1].event)
        await wait_until_rendered(pilot)
        await wait_until_idle(pilot)
        assert not isinstance(app.screen, FirstRun)


@pytest.mark.parametrize(("size", "theme"), screen_formats())
def test_no_server(size: tuple[int, int], theme: str, snap_compare) -> None:
    app, _session = app_for("no_server", theme=theme)

    async def shown(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: open_one(app))
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=shown)


async def test_a_demo_starts_with_its_task_in_the_composer() -> None:
    _app, session = app_for("empty")

    async def open_session() -> FakeSession:
        return session

    app = TuiAgentApp(open_session, draft="Find the bug.", hint="Enter starts the demo")
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until_rendered(pilot)
        assert "Enter starts the demo" in screen_text(app)
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.sent == [("Find the bug.", False)])
        await wait_until_rendered(pilot)
        assert "Enter starts" not in screen_text(app)
        app.exit(0)
