"""The first model: chosen, downloaded and used from the screen for a missing one (L2)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.doubles.file_server import FakeFile
from tests.doubles.gguf import gguf_bytes, write_gguf
from tests.doubles.mock import scenario, serve
from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tests.models.recordings import VLLM, played
from tests.tui.kit import app_for, screen_text, wait_for, wait_until_idle
from tui_agent.common import paths
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.models.local import library
from tui_agent.models.local.memory import Memory
from tui_agent.models.local.parts import incomplete_files
from tui_agent.tui.app import TuiAgentApp
from widgets.first_run import DownloadView, FirstRun, ModelOption

NOBODY = "http://127.0.0.1:9"
CONTENT = gguf_bytes(data=4_000_000)
FILE = "qwen2.5-coder-7b-instruct-q4_k_m"
REPOSITORY = "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with 8 GB of memory on which the engine is installed and no server runs."""
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", NOBODY)
    dialog = "tui_agent.tui.server_dialog"
    monkeypatch.setattr(f"{dialog}.read_memory", lambda: Memory(total=8 * 10**9, available=8 * 10**9))
    monkeypatch.setattr(f"{dialog}.free_space", lambda: 50 * 10**9)
    monkeypatch.setattr(f"{dialog}.engine_installed", lambda: True)
    (tmp_path / "work").mkdir()
    paths.ensure_private_dir(paths.models_dir())
    yield


def current(pilot: Pilot[int]) -> TuiAgentApp:
    assert isinstance(pilot.app, TuiAgentApp)
    return pilot.app


def dialog(pilot: Pilot[int]) -> FirstRun:
    assert isinstance(pilot.app.screen, FirstRun)
    return pilot.app.screen


def shown(pilot: Pilot[int]) -> str:
    return " ".join(screen_text(current(pilot)).replace("│", " ").split())


async def reads(pilot: Pilot[int], *texts: str) -> None:
    await wait_for(pilot, lambda: all(text in shown(pilot) for text in texts))


@asynccontextmanager
async def without_model(
    tmp_path: Path, size: tuple[int, int] = (100, 40), url: str = NOBODY, model: str = ""
) -> AsyncIterator[Pilot[int]]:
    """The app with a session that has no model, showing what can be chosen."""
    flags = {"mode": "direct"} | ({"model": model} if model else {"base_url": url})
    options = SessionOptions(workspace=tmp_path / "work", flags=flags, trust=True, attended=True)
    app = TuiAgentApp(partial(open_session, options), quiet_seconds=0)
    async with app.run_test(size=size) as pilot:
        try:
            await wait_for(
                pilot, lambda: isinstance(app.screen, FirstRun) and app.screen.armed and bool(app.screen.choices)
            )
            await wait_until_idle(pilot)
            yield pilot
        finally:
            app.exit(0)
            if app.session is not None:
                await app.session.close()


@asynccontextmanager
async def hub(monkeypatch: pytest.MonkeyPatch, file: FakeFile) -> AsyncIterator[FakeRawServer]:
    """A server with the repository of the first suggestion."""

    async def tree(connection: FakeConnection) -> None:
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        await connection.answer(200, [{"path": f"{FILE}.gguf", "size": len(CONTENT), "lfs": {"oid": sha256}}])

    routes: dict[str, Script] = {
        f"/api/models/{REPOSITORY}/tree/main": tree,
        f"/{REPOSITORY}/resolve/main/{FILE}.gguf": file,
    }
    async with FakeRawServer(routes) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def config() -> str:
    file = paths.config_file()
    return file.read_text() if file.exists() else ""


async def test_models_here_and_those_that_fit_are_offered(tmp_path: Path) -> None:
    write_gguf(paths.models_dir() / "small.gguf")
    async with without_model(tmp_path) as pilot:
        assert [(one.kind, one.name) for one in dialog(pilot).choices] == [
            ("file", "small"), ("get", "qwen2.5-coder-7b"), ("get", "qwen3-4b-instruct"), ("get", "qwen2.5-coder-1.5b")
        ]  # fmt: skip
        text = shown(pilot)
        assert "small 1.2 kB, here" in text and "Get Qwen2.5-Coder 7B Instruct 4.7 GB, Apache-2.0" in text
        assert "enter connect, or retry" in text
        await pilot.press("down", "down")
        await reads(pilot, "▸ Get Qwen2.5-Coder 7B", "Functions, tests and fixes", "enter download it")
        await pilot.press("up")
        await reads(pilot, "▸ small", "enter use it")


async def test_a_model_that_is_here_already_is_not_offered_again(tmp_path: Path) -> None:
    write_gguf(paths.models_dir() / f"{FILE}.gguf")
    async with without_model(tmp_path) as pilot:
        assert [one.name for one in dialog(pilot).choices] == [FILE, "qwen3-4b-instruct", "qwen2.5-coder-1.5b"]


async def test_typing_goes_to_the_field_and_selects_nothing(tmp_path: Path) -> None:
    async with without_model(tmp_path) as pilot:
        await pilot.press("down")
        await reads(pilot, "▸ Get")
        await pilot.press("x")
        await wait_for(pilot, lambda: dialog(pilot).fields["url"].value == f"{NOBODY}x")
        await reads(pilot, "enter connect, or retry")
        assert "▸" not in shown(pilot)


async def test_a_model_on_this_machine_is_used_at_once_and_saved(tmp_path: Path) -> None:
    write_gguf(paths.models_dir() / "small.gguf")
    async with without_model(tmp_path) as pilot:
        await pilot.press("down", "enter")
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, FirstRun))
        await wait_for(pilot, lambda: current(pilot).view.model == "small")
        await wait_for(pilot, lambda: "model: small" in config())
        assert "provider: local" in config()


async def test_a_server_that_was_found_is_connected(tmp_path: Path) -> None:
    async with serve(scenario("hi", "hello"), models=("here",)) as server:
        paths.config_file().write_text(f"servers:\n  desk: {{base_url: '{server.url}', provider: ollama}}\n")
        async with without_model(tmp_path) as pilot:
            await reads(pilot, f"desk at {server.url}", "Get Qwen2.5-Coder 7B")
            await pilot.press("down")
            await reads(pilot, "▸ desk", "enter connect")
            await pilot.press("enter")
            await wait_for(pilot, lambda: current(pilot).view.model == "here")
            await reads(pilot, "saved as your server in config.yaml")
            assert f"\nbase_url: {server.url}" in config()


async def test_a_download_is_asked_about_shown_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FakeFile(CONTENT, hold=asyncio.Event())
    async with hub(monkeypatch, file), without_model(tmp_path) as pilot:
        await pilot.press("down", "enter")
        await reads(pilot, "Download Qwen2.5-Coder 7B Instruct?", "50 GB are free", "license Apache-2.0", "esc back")
        assert file.ranges_asked == []
        await pilot.press("escape")
        await reads(pilot, "Get Qwen2.5-Coder 7B")
        await pilot.press("enter")
        await reads(pilot, "enter download")
        await pilot.press("enter")
        await reads(pilot, "Downloading Qwen2.5-Coder 7B Instruct", "of 4.0 MB", "%", "esc continue in the background")
        assert library.local_files() == []
        assert file.hold is not None
        file.hold.set()
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, FirstRun))
        await wait_for(pilot, lambda: current(pilot).view.model == FILE)
        await wait_for(pilot, lambda: f"model: {FILE}" in config())
    assert [one.name for one in library.local_files()] == [FILE]


async def test_a_download_continues_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FakeFile(CONTENT, hold=asyncio.Event())
    async with hub(monkeypatch, file), without_model(tmp_path) as pilot:
        await pilot.press("down", "enter")
        await reads(pilot, "enter download")
        await pilot.press("enter")
        await reads(pilot, "of 4.0 MB")
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, FirstRun))
        await reads(pilot, "the download continues")
        await pilot.press("f8")
        await wait_for(pilot, lambda: isinstance(pilot.app.screen, FirstRun))
        await reads(pilot, "Downloading Qwen2.5-Coder 7B Instruct")
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(pilot.app.screen, FirstRun))
        assert file.hold is not None
        file.hold.set()
        await wait_for(pilot, lambda: current(pilot).view.model == FILE)
        await wait_for(pilot, lambda: current(pilot).download is None)
        await reads(pilot, "answers from the next message")
        assert len(file.ranges_asked) == 1


async def test_quitting_keeps_the_part_and_the_next_start_offers_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FakeFile(CONTENT, hold=asyncio.Event())
    async with hub(monkeypatch, file):
        async with without_model(tmp_path) as pilot:
            await pilot.press("down", "enter")
            await reads(pilot, "enter download")
            await pilot.press("enter")
            part = library.parts_dir() / f"{FILE}.gguf" / f"{FILE}.gguf"
            await wait_for(pilot, lambda: part.exists() and part.stat().st_size > 0)
            await pilot.press("ctrl+c", "ctrl+c")
            await wait_for(pilot, lambda: pilot.app.return_value == 0)
        ((state, size),) = incomplete_files()
        assert state.source == "qwen2.5-coder-7b" and 0 < size < len(CONTENT)
        async with without_model(tmp_path) as pilot:
            await reads(pilot, "Continue with Qwen2.5-Coder 7B Instruct", "% of 4.0 MB")


async def test_a_failed_download_is_explained(tmp_path: Path) -> None:
    async with without_model(tmp_path) as pilot:
        await pilot.press("down", "enter")
        await reads(pilot, "enter download")
        await pilot.press("enter")
        await reads(pilot, "Check your network", "Get Qwen2.5-Coder 7B")
        assert current(pilot).download is None


async def test_without_the_engine_the_words_to_type_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_agent.tui.server_dialog.engine_installed", lambda: False)
    write_gguf(paths.models_dir() / "small.gguf")
    async with hub(monkeypatch, FakeFile(CONTENT)), without_model(tmp_path) as pilot:
        await pilot.press("down", "enter")
        await reads(pilot, "not installed", "$ pip install 'tui-agent[local]'")
        await pilot.press("down", "enter")
        await reads(pilot, "enter download", "pip install 'tui-agent[local]'")
        await pilot.press("enter")
        await reads(pilot, f"{FILE} is downloaded.", "pip install 'tui-agent[local]'")
    assert [one.name for one in library.local_files()] == [FILE, "small"]


async def test_a_running_ollama_without_models_gets_one(tmp_path: Path) -> None:
    names: list[str] = []

    async def tags(connection: FakeConnection) -> None:
        await connection.answer(200, {"models": [{"name": name} for name in names]})

    async def show(connection: FakeConnection) -> None:
        await connection.answer(200, {"capabilities": ["completion", "tools"]})

    async def loaded(connection: FakeConnection) -> None:
        await connection.answer(200, {"models": []})

    async def pull(connection: FakeConnection) -> None:
        await connection.head(200, chunked=True)
        names.append(connection.request.json["model"])
        await connection.lines(
            {"status": "pulling", "digest": "a", "total": 10, "completed": 10}, {"status": "success"}
        )
        await connection.end()

    routes: dict[str, Any] = {"/api/tags": tags, "/api/show": show, "/api/ps": loaded, "/api/pull": pull}
    async with FakeRawServer(routes) as server, without_model(tmp_path, url=server.url) as pilot:
        await pilot.press("down", "enter")
        await reads(pilot, "with Ollama?", "enter download")
        await pilot.press("enter")
        await wait_for(pilot, lambda: current(pilot).view.model == "qwen2.5-coder:7b")
        assert names == ["qwen2.5-coder:7b"]


async def test_on_a_low_screen_list_and_fields_take_turns(tmp_path: Path) -> None:
    async with without_model(tmp_path, (60, 16)) as pilot:
        assert "Get Qwen2.5-Coder 7B" in shown(pilot) and "URL" not in shown(pilot)
        assert "twice: quit" in shown(pilot)
        await pilot.press("tab")
        await reads(pilot, "URL")
        assert "Get Qwen" not in shown(pilot) and "twice: quit" in shown(pilot)
        await pilot.press("down")
        await reads(pilot, "▸ Get Qwen2.5-Coder 7B")
        assert "URL" not in shown(pilot)
        await pilot.press("x")
        await wait_for(pilot, lambda: dialog(pilot).fields["url"].value.endswith("x"))
        await reads(pilot, "URL")


# --- looks ----------------------------------------------------------------------------------

CHOICES = (
    ModelOption("server", "http://localhost:1234/v1", "LM Studio at http://localhost:1234", "3 models"),
    ModelOption("file", "small", "qwen2.5-coder-1.5b-instruct-q4_k_m", "1.1 GB, here"),
    ModelOption(
        "get", "a", "Get Qwen2.5-Coder 7B Instruct", "4.7 GB, Apache-2.0", "Functions, tests and fixes in a few files."
    ),
    ModelOption("get", "b", "Continue with Qwen3 4B Instruct 2507", "42% of 2.5 GB", "Questions and small changes."),
    ModelOption(
        "get", "c", "Get Qwen2.5-Coder 1.5B Instruct", "1.1 GB, Apache-2.0", "Small edits in one file at a time."
    ),
)
QUESTION = (
    "Download Qwen2.5-Coder 7B Instruct?",
    "4.7 GB, license Apache-2.0; it takes about 6.4 GB of memory. 50 GB are free on the disk.",
    "Functions, tests and fixes in a few files; slow without a graphics card.",
)
DOWNLOAD = DownloadView("Downloading Qwen2.5-Coder 7B Instruct", 0.42, "2.0 GB of 4.7 GB, 12 MB/s, 4 min left")


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("part", ["choices", "question", "download"])
def test_ways_to_a_model(part: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for("no_server")

    async def arrange(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: isinstance(app.screen, FirstRun) and app.screen.armed)
        screen = dialog(pilot)
        screen.commands = ()
        screen.show_choices(CHOICES)
        await pilot.press("down", "down", "down")
        if part == "question":
            screen.ask(QUESTION)
        elif part == "download":
            screen.show_download(DOWNLOAD)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=arrange)


async def test_a_server_that_was_found_is_offered_and_used_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUI_AGENT_FIND_SERVERS", "true")
    monkeypatch.setenv("LLM_AUTH_TOKEN", "for-another-server")
    async with played(VLLM, "models", "version", "chat") as server:
        monkeypatch.setattr("tui_agent.models.discovery.LOCAL_SERVERS", [("openai", f"{server.url}/v1")])
        async with without_model(tmp_path) as pilot:
            await reads(pilot, f"vllm at {server.url}/v1")
            await pilot.press("down")
            await reads(pilot, "▸ vllm")
            await pilot.press("enter")
            await wait_for(pilot, lambda: not isinstance(current(pilot).screen, FirstRun))
            await wait_for(pilot, lambda: current(pilot).view.model == "tiny")
            await wait_for(pilot, lambda: f"base_url: {server.url}/v1" in config())
        assert all("authorization" not in request.headers for request in server.requests)


async def test_the_list_of_models_leads_to_the_ways_to_another_one(tmp_path: Path) -> None:
    async with serve(scenario("hi", "hello"), models=("here",)) as server:
        flags = {"mode": "direct", "base_url": server.url, "provider": "ollama"}
        options = SessionOptions(workspace=tmp_path / "work", flags=flags, trust=True, attended=True)
        app = TuiAgentApp(partial(open_session, options), quiet_seconds=0)
        async with app.run_test(size=(100, 40)) as pilot:
            await wait_for(pilot, lambda: app.view.model == "here")
            await pilot.press("f8")
            await reads(pilot, "here", "F2 get a model")
            await pilot.press("f2")
            await reads(pilot, "Get a model", "Download a model, use a file", "Get Qwen2.5-Coder 7B", "esc back")
            assert "demo" not in shown(pilot)
            await wait_for(pilot, lambda: dialog(pilot).armed)
            await pilot.press("f2")  # the demo would end the session
            await wait_until_idle(pilot)
            assert app.return_value is None and isinstance(app.screen, FirstRun)
            await pilot.press("escape")
            await wait_for(pilot, lambda: not isinstance(app.screen, FirstRun))
            assert app.view.model == "here"
            app.exit(0)


# --- the list and the fields ----------------------------------------------------------------


async def test_tab_from_a_selected_row_goes_to_the_address_and_enter_connects(tmp_path: Path) -> None:
    async with serve(scenario("hi", "hello"), models=("here",)) as server, without_model(tmp_path) as pilot:
        await pilot.press("down")
        await reads(pilot, "▸ Get")
        await pilot.press("tab")
        await wait_for(pilot, lambda: "▸" not in shown(pilot))
        fields = dialog(pilot).fields
        assert fields["url"].has_focus
        await reads(pilot, "enter connect, or retry", "tab next field")
        await pilot.press("up")
        await reads(pilot, "▸ Get Qwen2.5-Coder 1.5B", "enter download it")
        await pilot.press("tab", "ctrl+u", *server.url)
        assert (fields["url"].value, fields["key"].value) == (server.url, "")
        await pilot.press("enter")
        await wait_for(pilot, lambda: current(pilot).view.model == "here")


async def test_tab_from_a_selected_row_shows_the_fields_of_a_low_screen(tmp_path: Path) -> None:
    async with without_model(tmp_path, (60, 16)) as pilot:
        await pilot.press("down")
        await reads(pilot, "▸ Get")
        await pilot.press("tab")
        await wait_for(pilot, lambda: dialog(pilot).fields["url"].has_focus)
        await reads(pilot, "URL", "tab next field")
        assert "▸" not in shown(pilot)
        await pilot.press("tab")
        await wait_for(pilot, lambda: dialog(pilot).fields["key"].has_focus)
        await pilot.press("down")
        await reads(pilot, "▸ Get")
        await pilot.press("shift+tab")
        await wait_for(pilot, lambda: dialog(pilot).fields["model"].has_focus)


# --- a file that is not there, and the same server once more --------------------------------


async def test_a_file_that_is_not_there_leads_to_the_list_and_an_empty_address(tmp_path: Path) -> None:
    async with serve(scenario("hi", "hello"), models=("here",)) as server:
        write_gguf(paths.models_dir() / "small.gguf")
        paths.config_file().write_text(f"servers:\n  desk: {{base_url: '{server.url}', provider: ollama}}\n")
        async with without_model(tmp_path, model=str(tmp_path / "wrong.gguf")) as pilot:
            await reads(pilot, f"desk at {server.url}", "small 1.2 kB, here", "Get Qwen2.5-Coder 7B", "no model")
            fields = dialog(pilot).fields
            assert fields["url"].value == "" and fields["url"].has_focus
            await reads(pilot, "http://localhost:11434, or https://…/v1")
            await pilot.press("enter")
            await reads(pilot, "tried again")
            await reads(pilot, f"desk at {server.url}", "small 1.2 kB, here", "Get Qwen2.5-Coder 7B", "no model")
            assert not dialog(pilot).models
            await pilot.press(*server.url, "enter")
            await wait_for(pilot, lambda: current(pilot).view.model == "here")


async def test_a_file_that_is_not_there_is_noticed_at_the_start_without_any_other(tmp_path: Path) -> None:
    async with without_model(tmp_path, model=str(tmp_path / "wrong.gguf")) as pilot:
        await reads(pilot, "wrong.gguf", "Get Qwen2.5-Coder 7B")
        assert dialog(pilot).fields["url"].value == ""


async def test_asking_the_same_server_once_more_is_shown(tmp_path: Path) -> None:
    async with without_model(tmp_path) as pilot:
        for _ in range(2):
            await pilot.press("enter")
            await reads(pilot, "tried again: the result is the same", "connection refused")
            await pilot.press("x", "backspace")
            await wait_for(pilot, lambda: "tried again" not in shown(pilot))


async def test_it_is_shown_which_server_is_asked_until_it_answers(tmp_path: Path) -> None:
    answers = asyncio.Event()

    async def tags(connection: FakeConnection) -> None:
        await answers.wait()
        await connection.answer(500, {})

    async with without_model(tmp_path) as pilot, FakeRawServer({"/api/tags": tags}) as server:
        await pilot.press("ctrl+u", *server.url, "enter")
        await reads(pilot, f"Asking {server.url} …")
        answers.set()
        await wait_for(pilot, lambda: "Asking" not in shown(pilot))
