from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tests.models import seed_models
from tui_agent.common import paths
from tui_agent.common.domain import ModelInfo
from tui_agent.engine.models.live_catalog import INVALID, RELOADED
from tui_agent.events import Notice
from tui_agent.mock_server.replies import ServedModel
from tui_agent.models import catalog


def write(**models: Any) -> None:
    rules = models.pop("selectionRules", {})
    file = paths.models_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps({"models": models, "selectionRules": rules}, indent=1))
    draft.replace(file)


def server(*models: ServedModel | str, **more: Any) -> MockServer:
    return serve(scenario("hi", "hello"), models=models or ("mock-model",), **more)


async def asked(served: MockServer, workspace: Path, *, times: int = 1, **flags: Any) -> list[dict[str, Any]]:
    """The payloads of `times` messages to a session."""
    async with run_session(served, workspace, provider="ollama", flags=flags) as session:
        watch = SessionDriver(session)
        for _ in range(times):
            await session.send("hi")
            assert (ended := await watch.ended()).outcome == "done", ended
    return [request.body for request in served.requests]


def notices(watch: SessionDriver, code: str) -> list[str]:
    return [notice.text for notice in watch.of(Notice) if notice.code == code]


async def test_the_first_run_writes_a_file_with_what_the_server_has(tmp_path: Path) -> None:
    async with server(ServedModel(name="gemma3:4b", context_length=131_072)) as served:
        await asked(served, tmp_path, model="gemma3:4b")
    found = catalog.read_catalog(paths.models_file()).catalog
    assert found is not None
    assert list(found.models)[-1] == "gemma3:4b" and len(found.models) == 4
    assert found.rules.default == "gemma3:4b"


async def test_the_file_is_made_once_a_server_is_there(tmp_path: Path) -> None:
    gone = server("gemma3:4b")
    async with gone:
        pass
    async with run_session(gone, tmp_path, provider="ollama") as session:
        watch = SessionDriver(session)
        await session.send("hi")
        assert (await watch.ended()).outcome == "unreachable"
    assert not paths.models_file().exists()
    async with server("gemma3:4b") as served:
        await asked(served, tmp_path, model="gemma3:4b")
    assert "gemma3:4b" in paths.models_file().read_text("utf-8")


@pytest.mark.parametrize("served", [(), (ModelInfo(name="qwen2.5-coder:7b"),)])
async def test_a_file_that_is_there_is_never_written_over(served: tuple[ModelInfo, ...], tmp_path: Path) -> None:
    catalog.create_models_file(paths.models_file(), served)
    before = paths.models_file().read_bytes()
    async with server("gemma3:4b") as other:
        await asked(other, tmp_path, model="gemma3:4b")
    assert paths.models_file().read_bytes() == before


async def test_the_default_of_the_file_is_the_sessions_model(tmp_path: Path) -> None:
    write(b={}, selectionRules={"default": "b"})
    async with server("a-coder", "b") as served:
        assert (await asked(served, tmp_path, model=None))[0]["model"] == "b"


async def test_a_default_that_the_server_lacks_is_told_once(tmp_path: Path) -> None:
    paths.models_file().parent.mkdir(parents=True)
    paths.models_file().write_text(seed_models.TEXT)
    async with server("llama3.1:8b") as served:
        async with run_session(served, tmp_path, provider="ollama", flags={"model": None}) as session:
            watch = SessionDriver(session)
            for _ in range(2):
                await session.send("hi")
                await watch.ended()
        assert served.requests[0].body["model"] == "llama3.1:8b"
    (said,) = notices(watch, "models.missing")
    assert "qwen2.5-coder:7b" in said


async def test_the_options_of_the_model_go_to_the_server(tmp_path: Path) -> None:
    options = {"num_ctx": 20_000, "temperature": 0.7, "num_predict": 333, "think": False, "keep_alive": "-1"}
    write(**{"mock-model": {"contextWindow": 30_000, "prompt": "Speak like a pirate.", "options": options}})
    async with server() as served:
        (payload,) = await asked(served, tmp_path)
    assert payload["options"] == {"num_ctx": 20_000, "temperature": 0.7, "num_predict": 333}
    assert (payload["think"], payload["keep_alive"]) == (False, -1)
    assert "pirate" in payload["messages"][0]["content"]


async def test_the_window_of_the_file_counts_and_a_flag_counts_more(tmp_path: Path) -> None:
    write(**{"mock-model": {"contextWindow": 24_000}})
    async with server() as served:
        assert (await asked(served, tmp_path))[0]["options"]["num_ctx"] == 24_000
        assert (await asked(served, tmp_path, context_window=18_000))[1]["options"]["num_ctx"] == 18_000


async def test_a_changed_file_holds_from_the_next_message_on_and_the_window_stays(tmp_path: Path) -> None:
    write(**{"mock-model": {"contextWindow": 24_000, "options": {"temperature": 0.7}}})
    async with server() as served, run_session(served, tmp_path, provider="ollama", attended=True) as session:
        watch = SessionDriver(session)
        await session.send("hi")
        await watch.ended()
        write(**{"mock-model": {"contextWindow": 8_000, "options": {"temperature": 0.9}}})
        await watch.until_event(Notice, code=RELOADED)
        await session.send("hi")
        await watch.ended()
        sent = [request.body["options"] for request in served.requests]
    assert [one["temperature"] for one in sent] == [0.7, 0.9]
    assert {one["num_ctx"] for one in sent} == {24_000}


async def test_a_bad_change_is_named_and_the_last_good_file_counts(tmp_path: Path) -> None:
    write(**{"mock-model": {"options": {"temperature": 0.7}}})
    async with server() as served, run_session(served, tmp_path, provider="ollama", attended=True) as session:
        watch = SessionDriver(session)
        await session.send("hi")
        await watch.ended()
        write(**{"mock-model": {"contextWindow": "big"}})
        told = await watch.until_event(Notice, code=INVALID)
        assert "models.json, line 4: models.mock-model.contextWindow: must be a whole number" in told.text
        assert "the previous content is used" in told.text
        await session.send("hi")
        await watch.ended()
        assert served.requests[1].body["options"]["temperature"] == 0.7
        write(**{"mock-model": {"options": {"temperature": 0.4}}})
        await watch.until_event(Notice, code=RELOADED)


async def test_a_file_that_is_bad_from_the_start_stops_nobody(tmp_path: Path) -> None:
    paths.models_file().parent.mkdir(parents=True)
    paths.models_file().write_text('{"models": {')
    async with server() as served, run_session(served, tmp_path, provider="ollama") as session:
        watch = SessionDriver(session)
        await session.send("hi")
        assert (ended := await watch.ended()).outcome == "done", ended
    (said,) = notices(watch, INVALID)
    assert "line 1: is not valid JSON: unexpected end of file" in said
    assert "the built-in list is used" in said
    assert paths.models_file().read_text("utf-8") == '{"models": {'
