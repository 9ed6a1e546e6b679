"""How much models reason: settings, roles and choices in a session, as seen by the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.test_window import SUMMARY
from tui_agent.common import paths
from tui_agent.common.domain import Answer, UserMessage
from tui_agent.engine.context.compaction import summarize
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.events import EffortChanged, Event, ModelChanged, RunEnded
from tui_agent.frontends.session_commands import run_session_command
from tui_agent.mock_server import replies
from tui_agent.mock_server.replies import ServedModel
from tui_agent.models.connect import connect

THINKER = ServedModel(name="big:14b", context_length=65_536, capabilities=("completion", "tools", "thinking"))
PLAIN = ServedModel(name="small:1b", context_length=32_768, capabilities=("completion", "tools"))
DIRECT: dict[str, Any] = {"model": "big:14b"}


def server(*steps: Any) -> MockServer:
    return serve(scenario("hi", *(steps or ("hello",))), models=(THINKER, PLAIN))


async def hi(watch: SessionDriver) -> RunEnded:
    await watch.session.send("hi")
    return await watch.ended()


def chats(served: MockServer) -> list[dict[str, Any]]:
    return [one.body for one in served.requests if one.path.endswith(("/api/chat", "/chat/completions"))]


def thinks(served: MockServer) -> list[Any]:
    return [one.get("think", "none") for one in chats(served)]


def write_settings(text: str) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(text)


async def test_an_effort_counts_from_the_next_request_and_after_a_resume(tmp_path: Path) -> None:
    async with server() as served:
        async with run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
            watch = SessionDriver(session)
            await hi(watch)
            for level in ("off", "low", "default", "high"):
                assert session.efforts.choose(level) == ""
                await hi(watch)
            assert thinks(served) == [True, False, "low", True, "high"]
            assert [(one.effort, one.effective) for one in watch.of(EffortChanged)] == [
                ("off", "off"),
                ("low", "low"),
                ("default", ""),
                ("high", "high"),
            ]
        async with run_session(served, None, provider="ollama", resume=session.id, flags={"model": None}) as again:
            watch = SessionDriver(again)
            await hi(watch)
            assert thinks(served)[-1] == "high"
            assert watch.of(ModelChanged)[-1].effort == "high"


async def test_an_effort_counts_within_a_run(tmp_path: Path) -> None:
    writes = step(None, call("write_file", path="a.txt", content="a\n"))
    async with server(writes, "done") as served:
        async with run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:

            def answer(event: Event) -> Answer:
                assert session.efforts.choose("off") == ""
                return Answer(verdict="approve")

            await hi(SessionDriver(session, answer))
        assert thinks(served) == [True, False]


async def test_short_side_tasks_reason_only_if_the_user_says_so(tmp_path: Path) -> None:
    async with server() as served:
        flags = DIRECT | {"mode": "agent"}
        async with run_session(served, tmp_path, provider="ollama", flags=flags) as session:
            watch = SessionDriver(session)
            assert session.efforts.choose("high") == ""
            await hi(watch)
            assert thinks(served)[0] is False, "the dispatcher"
            assert set(thinks(served)[1:]) == {"high"}
            served.requests.clear()
            assert session.efforts.choose("dispatcher low") == ""
            assert session.efforts.choose("planning off") == ""
            await hi(watch)
            assert thinks(served)[:2] == ["low", False]


def report_no_reasoning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let /v1/models of the mock server report what models can do, as OpenRouter does."""
    usual = replies.model_response

    def reported(served: ServedModel, created: int) -> dict[str, Any]:
        return usual(served, created) | {"supported_parameters": ["tools"]}

    monkeypatch.setattr(replies, "model_response", reported)


@pytest.mark.parametrize("provider", ["ollama", "openai"])
@pytest.mark.parametrize("where", ["config.yaml", "models.json"])
async def test_requests_to_a_model_that_cannot_reason_stay_the_same(
    provider: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_no_reasoning(monkeypatch)
    if where == "config.yaml":
        write_settings("effort: high\nefforts:\n  dispatcher: 'off'\n")
    else:
        paths.models_file().parent.mkdir(parents=True, exist_ok=True)
        paths.models_file().write_text(json.dumps({"models": {"small:1b": {"options": {"think": "high"}}}}))
    async with server() as served:
        flags = {"model": "small:1b", "mode": "agent"}
        async with run_session(served, tmp_path, provider=provider, flags=flags) as session:
            watch = SessionDriver(session)
            await hi(watch)
            assert "can't reason" in session.efforts.choose("high")
            assert "can't reason" in session.efforts.listed()
            assert watch.of(ModelChanged)[-1].effort == ""
            assert watch.of(EffortChanged) == []
        fields = {field for one in chats(served) for field in one}
    assert fields.isdisjoint({"think", "reasoning_effort", "chat_template_kwargs"})


async def test_settings_set_the_effort_and_models_json_comes_first(tmp_path: Path) -> None:
    write_settings("effort: low\nefforts:\n  title: off\n  execution: medium\n")
    async with server() as served:
        async with run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
            watch = SessionDriver(session)
            await hi(watch)
            assert watch.of(ModelChanged)[-1].effort == "medium"
        paths.models_file().write_text(json.dumps({"models": {"big:14b": {"options": {"think": False}}}}))
        async with run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
            watch = SessionDriver(session)
            await hi(watch)
            assert watch.of(ModelChanged)[-1].effort == "off"
            session.efforts.choose("execution high")
            await hi(watch)
    assert thinks(served) == ["medium", False, "high"]


async def test_changed_settings_count_from_the_next_message(tmp_path: Path) -> None:
    async with server() as served, run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
        watch = SessionDriver(session)
        await hi(watch)
        settings = session.settings.settings.model_copy(update={"effort": "off"})
        assert await session.models.use_settings(settings) == ""
        await hi(watch)
        assert thinks(served) == [True, False]
        assert watch.of(EffortChanged) == [EffortChanged(effort="", effective="off")]


async def test_a_server_that_says_nothing_about_reasoning_gets_what_the_user_sets(tmp_path: Path) -> None:
    async with server() as served, run_session(served, tmp_path, flags={"model": "big:14b"}) as session:
        watch = SessionDriver(session)
        await hi(watch)
        for level in ("off", "high"):
            session.efforts.choose(level)
            await hi(watch)
        fields = [(one.get("chat_template_kwargs"), one.get("reasoning_effort")) for one in chats(served)]
    assert fields == [(None, None), ({"enable_thinking": False}, None), (None, "high")]


@pytest.mark.parametrize(
    ("argument", "part"),
    [
        ("hgih", "did you mean"),
        ("coder high", "role"),
        ("planning", "effort"),
        ("planning very high", "effort"),
        (" ", "/effort default|off"),
    ],
)
async def test_what_cannot_be_set_is_said(argument: str, part: str, tmp_path: Path) -> None:
    async with server() as served, run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
        watch = SessionDriver(session)
        await hi(watch)
        assert part in (await run_session_command(session, "effort", argument)).text
        assert watch.of(EffortChanged) == []


async def test_the_command_lists_and_the_key_goes_through_the_levels(tmp_path: Path) -> None:
    async with server() as served, run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
        await hi(SessionDriver(session))
        assert (await run_session_command(session, "effort", "")).text.startswith("effort default\n/effort default|off")
        assert (await run_session_command(session, "effort", "SUBAGENTS low")).text == ""
        levels = []
        for _ in range(5):
            levels.append(session.efforts.next_level)
            assert (await run_session_command(session, "effort", levels[-1])).text == ""
        assert levels == ["off", "low", "medium", "high", "default"]
        assert session.efforts.listed() == "effort default · explorer low"


async def test_the_key_goes_through_all_levels_if_models_json_sets_one(tmp_path: Path) -> None:
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text(json.dumps({"models": {"big:14b": {"options": {"think": "high"}}}}))
    async with server() as served, run_session(served, tmp_path, provider="ollama", flags=DIRECT) as session:
        watch = SessionDriver(session)
        await hi(watch)
        levels = []
        for _ in range(5):
            levels.append(session.efforts.next_level)
            assert session.efforts.choose(levels[-1]) == ""
            await hi(watch)
    assert levels == ["default", "off", "low", "medium", "high"]
    assert thinks(served) == ["high", "high", False, "low", "medium", "high"]


@pytest.mark.parametrize(
    ("provider", "effort", "expected"),
    [
        ("openai", None, {}),
        ("openai", "high", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("ollama", None, {"think": False}),
    ],
)
async def test_compaction_switches_reasoning_off_but_asks_nothing_new_of_servers_that_do_not_report_it(
    provider: Literal["openai", "ollama"], effort: str | None, expected: dict[str, Any]
) -> None:
    async with serve(scenario("", SUMMARY), models=(THINKER,)) as served:
        model = connect(provider, served.url + ("/v1" if provider == "openai" else ""))
        config = ModelConfig(model, "big:14b", 32_768, 0, 1_000, current_think=lambda: effort)
        text, by, _ = await summarize([UserMessage(text="hi")], config, 4_000, len)
        await model.aclose()
        (body,) = chats(served)
    assert (text, by) == (SUMMARY, "model")
    assert {
        name: body[name] for name in ("think", "chat_template_kwargs", "reasoning_effort") if name in body
    } == expected
