"""Keys and tokens that are used from the screen for a missing model go to the server they are for (L3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.engine.test_several_servers import recorder
from tests.tui.kit import screen_text, wait_for
from tui_agent.common import paths
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.engine.session import Session
from tui_agent.models.local.memory import Memory
from tui_agent.models.local.sources import suggest
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.server_dialog import ModelDownload, ServerDialog
from widgets.first_run import FirstRun, ServerValues

KEY = "typed-not-a-known-form-0815"
MEMORY = Memory(total=8 * 10**9, available=8 * 10**9)
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "home"))
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "work").mkdir()


def options(tmp_path: Path) -> SessionOptions:
    return SessionOptions(workspace=tmp_path / "work", flags={"mode": "direct"}, trust=True, attended=True)


@asynccontextmanager
async def opened(tmp_path: Path, settings: str) -> AsyncIterator[tuple[Pilot[int], TuiAgentApp]]:
    paths.config_file().write_text(settings)
    app = TuiAgentApp(partial(open_session, options(tmp_path)), quiet_seconds=0)
    async with app.run_test(size=(100, 40)) as pilot:
        try:
            await wait_for(pilot, lambda: app.session is not None)
            yield pilot, app
        finally:
            app.exit(0)
            if app.session is not None:
                await app.session.close()


async def show(pilot: Pilot[int], app: TuiAgentApp) -> ServerDialog:
    dialog = ServerDialog(app, "Connect to another server.")
    await app.push_screen(dialog)
    return dialog


async def connect(pilot: Pilot[int], app: TuiAgentApp, values: ServerValues) -> None:
    """Press Enter with these values in the fields."""
    dialog = await show(pilot, app)
    dialog.connect(values)
    await wait_for(pilot, lambda: app.screen is not dialog)


def session_of(app: TuiAgentApp) -> Session:
    assert isinstance(app.session, Session)
    return app.session


def tokens(server: FakeRawServer, since: int = 0) -> set[str | None]:
    return {request.headers.get("authorization") for request in server.requests[since:]}


def config() -> str:
    return paths.config_file().read_text()


async def choose_first(pilot: Pilot[int], app: TuiAgentApp, url: str) -> None:
    """Choose the server with this address from the list of the screen for a missing model."""
    await wait_for(pilot, lambda: isinstance(app.screen, FirstRun) and app.screen.armed and bool(app.screen.choices))
    await wait_for(pilot, lambda: f"at {url}" in screen_text(app))
    await pilot.press("down")
    await wait_for(pilot, lambda: any("▸" in one and url in one for one in screen_text(app).splitlines()))
    await pilot.press("enter")
    await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))


@pytest.mark.parametrize("by_variable", [True, False])
async def test_a_key_typed_for_a_chosen_server_goes_there_and_the_session_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    async with recorder("one") as first, recorder("two") as second:
        settings = f"servers:\n  office: {{base_url: {second.url}/v1}}\n"
        if by_variable:
            monkeypatch.setenv("LLM_BASE_URL", f"{first.url}/v1")
        else:
            settings += f"base_url: {first.url}/v1\n"
        async with opened(tmp_path, settings) as (pilot, app):
            models = session_of(app).models
            assert await models.choose("execution", "office:two") == ""
            await connect(pilot, app, ServerValues(f"{second.url}/v1", KEY, ""))
            assert models.endpoint == f"{second.url}/v1"
            assert KEY not in session_of(app).mask.mask(f"the key is {KEY}.")
            assert config() == settings
            await models.listed()
            assert f"Bearer {KEY}" in tokens(second)
            assert tokens(first) == {None}


async def test_a_server_of_the_settings_gets_the_key_that_is_typed_for_its_address(tmp_path: Path) -> None:
    async with recorder("one") as first, recorder("two") as second:
        settings = f"base_url: {first.url}/v1\nservers:\n  office: {{base_url: {second.url}/v1}}\n"
        async with opened(tmp_path, settings) as (pilot, app):
            models = session_of(app).models
            await models.servers()
            await connect(pilot, app, ServerValues(f"{second.url}/v1", KEY, "two"))
            assert tokens(second) >= {f"Bearer {KEY}"} and f"Bearer {KEY}" not in tokens(first)
            await wait_for(pilot, lambda: f"base_url: {second.url}/v1" in config().split("servers")[0])
            await wait_for(pilot, lambda: app.preferences.loaded.settings.token_env == "")  # type: ignore[union-attr]
            loaded = app.preferences.loaded
            assert loaded is not None
            since = len(second.requests)  # another setting keeps server and key
            assert await models.use_settings(loaded.settings.model_copy(update={"temperature": 0.25})) == ""
            await models.listed()
            assert f"Bearer {KEY}" in tokens(second, since)


async def test_the_server_of_the_settings_is_connected_again_by_its_address(tmp_path: Path) -> None:
    async with recorder("one") as first, recorder("two") as second:
        settings = f"base_url: {first.url}/v1\nservers:\n  office: {{base_url: {second.url}/v1}}\n"
        async with opened(tmp_path, settings) as (pilot, app):
            models = session_of(app).models
            assert await models.choose("execution", "office:two") == ""
            await connect(pilot, app, ServerValues(f"{first.url}/v1", "", ""))
            await wait_for(pilot, lambda: app.view.model == "one")
            assert models.endpoint == f"{first.url}/v1"


@pytest.mark.parametrize("named", [True, False])
async def test_the_token_of_the_server_before_is_never_sent_to_a_chosen_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.setenv("WORK_TOKEN", "work-secret-0815")
    monkeypatch.setenv("LLM_AUTH_TOKEN", "general-secret-0816")
    token = tmp_path / "token"
    token.write_text("file-secret-0817\n")
    token.chmod(0o600)
    async with recorder("two") as second:
        settings = f"provider: openai\nbase_url: {NOBODY}/v1\ntoken_env: WORK_TOKEN\ntoken_file: {token}\n"
        if named:
            settings += f"servers:\n  box: {{base_url: {second.url}/v1}}\n"
        else:
            monkeypatch.setenv("TUI_AGENT_FIND_SERVERS", "true")
            monkeypatch.setattr("tui_agent.models.discovery.LOCAL_SERVERS", [("openai", f"{second.url}/v1")])
        async with opened(tmp_path, settings) as (pilot, app):
            await choose_first(pilot, app, second.url)
            await wait_for(pilot, lambda: f"base_url: {second.url}/v1" in config().split("servers")[0])
            assert 'token_env: ""' in config() or "token_env: ''" in config()
            loaded = app.preferences.loaded
            assert loaded is not None
            await session_of(app).models.use_settings(loaded.settings.model_copy(update={"temperature": 0.25}))
        session = await open_session(options(tmp_path))
        await session.models.window()
        assert session.models.endpoint == f"{second.url}/v1"
        await session.models.servers(fresh=True)
        await session.close()
        assert tokens(second) == {None}


async def test_a_named_server_keeps_its_token_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOX_TOKEN", "box-secret-0815")
    async with recorder("two") as second:
        settings = f"provider: openai\nbase_url: {NOBODY}/v1\nservers:\n"
        settings += f"  box: {{base_url: {second.url}/v1, token_env: BOX_TOKEN}}\n"
        async with opened(tmp_path, settings) as (pilot, app):
            await choose_first(pilot, app, second.url)
            await wait_for(pilot, lambda: "\ntoken_env: BOX_TOKEN\n" in config())
        session = await open_session(options(tmp_path))
        await session.models.window()
        await session.close()
        assert tokens(second) == {"Bearer box-secret-0815"}


async def test_a_failed_choice_is_reported_after_the_screen_was_closed(tmp_path: Path) -> None:
    is_chosen, asked, released = False, asyncio.Event(), asyncio.Event()

    async def models(connection: FakeConnection) -> None:
        if is_chosen:
            asked.set()
            await released.wait()
            await connection.answer(403, {"error": {"message": "not for you"}})
            return
        await connection.answer(200, {"object": "list", "data": [{"id": "two"}]})

    async with recorder("one") as first, FakeRawServer({"/v1/models": models}) as second:
        settings = f"base_url: {first.url}/v1\nservers:\n  box: {{base_url: {second.url}/v1}}\n"
        async with opened(tmp_path, settings) as (pilot, app):
            dialog = await show(pilot, app)
            await wait_for(pilot, lambda: any(option.kind == "server" for option in dialog.choices))
            await session_of(app).models.servers(fresh=True)
            is_chosen = True
            dialog.choose(dialog.choices[0])
            await wait_for(pilot, asked.is_set)
            dialog.dismiss()
            await wait_for(pilot, lambda: app.screen is not dialog)
            released.set()
            await wait_for(pilot, lambda: "answered 403" in screen_text(app))


async def test_a_variable_for_another_server_brings_its_token_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_AUTH_TOKEN", "general-secret-0816")
    async with recorder("one") as first, recorder("two") as second:
        paths.config_file().write_text(f"provider: openai\nbase_url: {second.url}/v1\ntoken_env: ''\n")
        for server, expected in ((second, None), (first, "Bearer general-secret-0816")):
            session = await open_session(options(tmp_path))
            await session.models.window()
            await session.close()
            assert tokens(server) == {expected}
            monkeypatch.setenv("LLM_BASE_URL", f"{first.url}/v1")


async def test_a_download_with_ollama_carries_the_token_of_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_AUTH_TOKEN", "general-secret-0816")
    monkeypatch.setenv("BOX_TOKEN", "box-secret-0815")
    monkeypatch.setattr("tui_agent.tui.server_dialog.is_local", lambda host: False)

    async def tags(connection: FakeConnection) -> None:
        await connection.answer(200, {"models": []})

    async def pull(connection: FakeConnection) -> None:
        await connection.answer(500, {"error": "no room"})

    async with FakeRawServer({"/api/tags": tags, "/api/pull": pull}) as server:
        settings = f"provider: ollama\nbase_url: {server.url}\ntoken_env: BOX_TOKEN\n"
        async with opened(tmp_path, settings) as (pilot, app):
            await wait_for(pilot, lambda: isinstance(app.screen, FirstRun) and "Get " in screen_text(app))
            download = ModelDownload(app, session_of(app).models, suggest(MEMORY)[0], with_ollama=True)
            await download.run()
            pulled = [request for request in server.requests if request.path == "/api/pull"]
            assert {request.headers.get("authorization") for request in pulled} == {"Bearer box-secret-0815"}
