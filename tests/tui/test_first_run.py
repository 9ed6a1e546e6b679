from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.mock import MockServer, scenario, serve
from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.doubles.session import FakeSession
from tests.nightly import screen_formats
from tests.scenes import build
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.exit_codes import RESTART_AS_DEMO
from tui_agent.tui.server_dialog import ServerDialog
from widgets.first_run import FirstRun
from widgets.request_view import QUIET_SECONDS, RequestModal

KEY = "abc-not-a-known-form-0815"
NOBODY = "http://127.0.0.1:9"


def dialog_app(pilot: Pilot[int]) -> TuiAgentApp:
    assert isinstance(pilot.app, TuiAgentApp)
    return pilot.app


def first_run(app: TuiAgentApp) -> FirstRun:
    assert isinstance(app.screen, FirstRun)
    return app.screen


def open_one(app: TuiAgentApp) -> bool:
    return isinstance(app.screen, FirstRun) and app.screen.armed


async def test_it_says_what_was_tried_and_how_to_go_on() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await wait_until_idle(pilot)
        text = screen_text(app)
        for part in (
            *("Tried http://localhost:11434", "ollama serve", "URL", "Key", "Model", "enter connect, or retry"),
            *("F2 demo: a scripted model", "esc continue without a model", "ctrl+c twice: quit"),
        ):
            assert part in text


@pytest.mark.parametrize("size", [(120, 40), (60, 20)])
async def test_why_there_is_no_model_is_said_once(size: tuple[int, int]) -> None:
    app, _session = app_for("no_server")
    async with run_app(app, size) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await wait_until_idle(pilot)
        assert "No server answers" in screen_text(app) and screen_text(app).count("No server answers") == 1
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
        await wait_until_idle(pilot)
        assert "No model yet · F8 connects one" in screen_text(app)
        await pilot.press("ctrl+o")
        await wait_for(pilot, lambda: "No server answers" in screen_text(app))


async def test_f2_goes_to_the_demo_and_a_message_never_does() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("d")
        await pilot.press(*"o the red thing")
        await wait_until_idle(pilot)
        assert app.return_value is None
        assert first_run(app).fields["url"].value + app.prompt.text == "do the red thing"
        await pilot.press("f2")
        await wait_for(pilot, lambda: app.return_value == RESTART_AS_DEMO)


async def test_enter_looks_again_and_says_so_when_there_is_still_none() -> None:
    app, session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.looks == 1 and not isinstance(app.screen, FirstRun))
        session.push(session.records[-1].event)
        await wait_for(pilot, lambda: open_one(app))


async def test_ctrl_c_twice_quits() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("ctrl+c", "ctrl+c")
        await wait_for(pilot, lambda: app.return_value == 0)


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


async def test_it_comes_back_after_a_request() -> None:
    app, session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        session.push(next(one.event for one in build.trust().records if one.event.type == "approval.asked"))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await pilot.press("a")
        await wait_for(pilot, lambda: open_one(app))
        await wait_until_idle(pilot)
        assert "No server answers" in screen_text(app)


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


def server(*models: str, **options: Any) -> MockServer:
    return serve(scenario("hi", "hello there"), models=models, **options)


@asynccontextmanager
async def real_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_seconds: float = 0, **flags: str
) -> AsyncIterator[Pilot[int]]:
    """The app with a session of the engine, and a settings file of its own."""
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    options = SessionOptions(workspace=tmp_path / "work", flags={"mode": "direct", **flags}, trust=True, attended=True)
    app = TuiAgentApp(partial(open_session, options), quiet_seconds=quiet_seconds)
    async with app.run_test(size=(100, 40)) as pilot:
        try:
            await wait_for(pilot, lambda: open_one(app) and first_run(app).is_typing)
            yield pilot
        finally:
            app.exit(0)
            if app.session is not None:
                await app.session.close()


async def test_a_wrong_address_is_corrected_in_the_dialog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server("here", "there") as served, real_app(tmp_path, monkeypatch, base_url=NOBODY) as pilot:
        app, url = dialog_app(pilot), served.url
        fields = first_run(app).fields
        assert fields["url"].value == NOBODY and fields["url"].has_focus
        await pilot.press("ctrl+u", *url.removeprefix("http://"), "enter")
        await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
        await wait_for(pilot, lambda: "answers" in screen_text(app))
        await pilot.press(*"hi", "enter")
        await wait_for(pilot, lambda: "hello there" in screen_text(app))
        config = (tmp_path / "home" / "config.yaml").read_text()
        assert f"base_url: {url}" in config


async def test_an_address_without_v1_is_found_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"object": "list", "data": [{"id": "gpt-here"}]}

    async def answer(connection: FakeConnection) -> None:
        await connection.answer(200, models)

    async with (
        FakeRawServer({"/v1/models": answer}) as served,
        real_app(tmp_path, monkeypatch, base_url=NOBODY) as pilot,
    ):
        app = dialog_app(pilot)
        await pilot.press("ctrl+u", *served.url, "enter")
        await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
        await wait_for(pilot, lambda: app.view.model == "gpt-here")
        config = tmp_path / "home" / "config.yaml"
        await wait_for(pilot, config.exists)
        assert f"base_url: {served.url}/v1" in config.read_text()


@pytest.mark.parametrize("configured", [True, False])
async def test_a_server_that_wants_a_key_is_asked_for_it_and_it_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    monkeypatch.delenv("LLM_AUTH_TOKEN", raising=False)
    async with server("here", token=KEY) as served:
        async with real_app(tmp_path, monkeypatch, base_url=f"{served.url}/v1" if configured else NOBODY) as pilot:
            app = dialog_app(pilot)
            if not configured:
                await pilot.press("ctrl+u", *served.url, "enter")
            await wait_for(pilot, lambda: first_run(app).fields["key"].has_focus)
            await wait_until_idle(pilot)
            assert first_run(app).commands == ()
            await pilot.press(*"wrong", "enter")
            await wait_for(pilot, lambda: "was not accepted" in first_run(app).explanation)
            await pilot.press("ctrl+u", *KEY)
            await wait_until_idle(pilot)
            assert KEY not in screen_text(app) and "•" * len(KEY) in screen_text(app)
            await pilot.press("enter")
            await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
            await wait_for(pilot, lambda: "LLM_AUTH_TOKEN keeps it" in screen_text(app))
            await pilot.press(*"hi", "enter")
            await wait_for(pilot, lambda: "hello there" in screen_text(app))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


async def test_a_model_that_is_missing_is_chosen_from_those_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server("qwen2.5-coder:7b", "zephyr:7b") as served:
        async with real_app(tmp_path, monkeypatch, base_url=served.url, model="qwen2.5-codr:7b") as pilot:
            app = dialog_app(pilot)
            assert first_run(app).fields["model"].has_focus
            await wait_for(pilot, lambda: len(first_run(app).models) == 2)
            assert "did you mean `qwen2.5-coder:7b`?" in first_run(app).explanation
            await pilot.press("down", "down", "enter")
            await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
            await wait_for(pilot, lambda: app.view.model == "zephyr:7b")


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

    async def open_fake() -> FakeSession:
        return session

    app = TuiAgentApp(open_fake, draft="Find the bug.", hint="Enter starts the demo")
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until_rendered(pilot)
        assert "Enter starts the demo" in screen_text(app)
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.sent == [("Find the bug.", False)])
        await wait_until_rendered(pilot)
        assert "Enter starts" not in screen_text(app)
        app.exit(0)


@pytest.mark.parametrize(
    ("provider", "model", "label"), [("scripted", "scripted", "scripted"), ("ollama", "q:7b", "q:7b · ollama")]
)
async def test_a_model_is_named_once(provider: str, model: str, label: str) -> None:
    app, _session = app_for(build.Scene().opened(model=model, provider=provider).records)
    async with run_app(app) as pilot:
        await wait_until_idle(pilot)
        assert re.search(rf"model +{label} *\n", screen_text(app))


async def test_a_session_without_a_model_says_so() -> None:
    app, _session = app_for("no_server")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("escape")
        await wait_for(pilot, lambda: "none yet" in screen_text(app))


async def test_a_key_that_is_typed_at_once_with_enter_stays_in_the_dialog_and_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_AUTH_TOKEN", raising=False)
    async with server("here", token=KEY) as served:
        async with real_app(tmp_path, monkeypatch, quiet_seconds=QUIET_SECONDS, base_url=f"{served.url}/v1") as pilot:
            app = dialog_app(pilot)
            await wait_for(pilot, lambda: first_run(app).fields["key"].has_focus)
            assert "the field Key below" in first_run(app).explanation
            for character in f"{KEY}\n":
                app.post_message(events.Key("enter" if character == "\n" else character, character))
            await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun) or "goes to your" in screen_text(app))
            await wait_for(pilot, lambda: "LLM_AUTH_TOKEN keeps it" in screen_text(app))
            assert app.prompt.text == ""


async def test_only_the_default_address_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with real_app(tmp_path, monkeypatch, base_url=NOBODY) as pilot:
        assert "(the default)" not in first_run(dialog_app(pilot)).explanation


async def test_a_session_with_messages_is_not_given_up_for_the_demo() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        await app.push_screen(ServerDialog(app, "Connect to another server.", quiet_seconds=0))
        await wait_for(pilot, lambda: open_one(app))
        await pilot.press("f2")
        await wait_until_idle(pilot)
        assert app.return_value is None and isinstance(app.screen, FirstRun)
        assert "demo" not in screen_text(app)


async def test_after_a_resize_the_text_starts_at_its_beginning() -> None:
    app, _session = app_for("no_server")
    async with run_app(app, (60, 16)) as pilot:
        await wait_for(pilot, lambda: open_one(app))
        await wait_until_idle(pilot)
        body = first_run(app).body
        first_run(app).show_problem(f"{first_run(app).explanation} {'Many words follow. ' * 60}", "url")
        await wait_until_idle(pilot)
        await pilot.press("down", "down")
        await wait_for(pilot, lambda: body.scroll_offset.y > 0)
        await pilot.resize_terminal(80, 24)
        await wait_until_idle(pilot)
        assert body.scroll_offset.y == 0
        assert "No server answers" in screen_text(app)
