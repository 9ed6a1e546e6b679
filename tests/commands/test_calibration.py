from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.asking import CommandResult, run_command
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.commands import probing
from tui_agent.commands.calibration import best_strategy, measured_speed
from tui_agent.commands.probing import judge_file_reply, probe_project
from tui_agent.common import paths
from tui_agent.common.domain import Usage
from tui_agent.models import catalog

CAPSYS = pytest.CaptureFixture[str]
USAGE = {"prompt_tokens": 1_000, "cached_tokens": 930, "completion_tokens": 20}


def file_block(file: str, content: str) -> str:
    return f"{file}\n```\n{content}```\n"


def only_files() -> list[dict[str, Any]]:
    when = {"system": "expert programmer"}
    return [
        scenario(task.text[:40], step(file_block(task.file, task.content), usage=USAGE), when=when)
        for task in probe_project().tasks
    ]


def edits() -> list[dict[str, Any]]:
    return [
        *only_files(),
        *(
            scenario(task.text[:40], step(None, call("write_file", path=task.file, content=task.content)))
            for task in probe_project().tasks
        ),
    ]


async def quick(capsys: CAPSYS, server: MockServer, *argv: str) -> CommandResult:
    return await run_command(capsys, "reliability", "m", "--base-url", server.url, "--quick", *argv)


def saved_calibration() -> Any:
    return json.loads(paths.models_file().read_text("utf-8"))["models"]["m"]["calibration"]


async def test_a_model_that_is_of_use_with_files_only_is_calibrated_so(capsys: CAPSYS) -> None:
    async with serve(*only_files(), models=["m"]) as server:
        result = await quick(capsys, server)
        assert len(server.requests) == 6  # no strategy after `files` could be preferred
        assert {request.body["options"]["temperature"] for request in server.requests} == {0}
    assert "Strategy: files (native 0%, json 0%, files 100%)" in result.out
    assert "93% of the prompt from the cache" in result.out
    assert str(paths.models_file()) in " ".join(result.out.split())
    saved = saved_calibration()
    assert saved["strategy"] == "files" and saved["scores"]["files"] == 1 and saved["cachedShare"] == 0.93
    read = catalog.read_catalog(paths.models_file())
    assert read.catalog is not None and not read.problems
    assert read.catalog.entry("m").calibration.strategy == "files"
    assert result.code == 0


async def test_a_call_that_makes_the_same_change_counts_as_much(capsys: CAPSYS) -> None:
    async with serve(*edits(), models=["m"]) as server:
        result = await quick(capsys, server, "--json", "--strategies", "native,files")
    assert result.data["calibration"]["strategy"] == "native"
    assert [cell["valid"] for cell in result.data["cells"]] == [2]
    assert result.data["kept"] and saved_calibration()["strategy"] == "native"


async def test_a_probe_asks_as_a_session_does(capsys: CAPSYS, tmp_path: Path) -> None:
    for name, content in probe_project().files.items():
        (tmp_path / name).write_text(content)
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text('{"models": {"m": {"options": {"strategy": "files"}}}}')
    async with serve(*only_files(), models=["m"]) as server:
        await quick(capsys, server, "--strategies", "files")
        probes = [request.messages for request in server.requests]
        async with run_session(server, tmp_path, provider="ollama", flags={"model": "m"}) as session:
            watch = SessionDriver(session)
            await session.send(probe_project().tasks[1].text)
            await watch.ended()
        request = server.requests[len(probes)].messages
    words = [sorted(str(message["content"]).split()) for message in (probes[1][0], request[0])]
    assert words[0] == words[1]
    assert probes[1][1:] == request[1:]


async def test_a_strategy_that_fails_twice_is_asked_no_more(capsys: CAPSYS) -> None:
    async with serve(*only_files(), models=["m"]) as server:
        result = await quick(capsys, server, "-n", "4", "--json")
    assert [cell["replies"] for cell in result.data["cells"]] == [2, 2, 4]
    assert result.data["kept"]


async def test_models_json_stays_as_it_was_where_nothing_may_be_kept(capsys: CAPSYS) -> None:
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text(original := '{"models": {"m": {"prompt": "Be brief."}}}')
    async with serve(*only_files(), models=["m"]) as server:
        result = await quick(capsys, server, "--no-save")
        assert "Not saved in models.json: --no-save." in result.out
        assert paths.models_file().read_text() == original
        paths.models_file().write_text(broken := '{"models": ')
        result = await quick(capsys, server, "--json")
    assert str(paths.models_file()) in result.data["not_kept"] and not result.data["kept"]
    assert paths.models_file().read_text() == broken


async def test_a_model_of_no_use_is_not_calibrated(capsys: CAPSYS) -> None:
    async with serve(scenario("", "I can't."), models=["m"]) as server:
        result = await quick(capsys, server)
    assert "none works" in result.out and "no strategy worked" in result.out
    assert result.code == 1 and not paths.models_file().exists()


@pytest.mark.parametrize(
    ("scores", "small", "strategy"),
    [
        ({"native": 0.96, "json": 1.0, "files": 1.0}, False, "native"),
        ({"native": 0.5, "json": 0.97, "files": 1.0}, False, "json"),
        ({"native": 0.5, "files": 0.96, "xml": 1.0}, False, "files"),
        ({"native": 1.0, "files": 1.0}, True, "files"),
        ({"native": 1.0, "files": 0.5}, True, "native"),
        ({"native": 0.0, "files": 0.0}, False, None),
        ({}, False, None),
    ],
)
def test_the_best_strategy(scores: dict[str, float], small: bool, strategy: str | None) -> None:
    assert best_strategy(scores, small) == strategy


def test_the_first_prompt_says_nothing_of_the_cache() -> None:
    first = Usage(prompt_tokens=1_000, cached_tokens=0, completion_tokens=50, generate_ms=5_000)
    later = Usage(prompt_tokens=1_000, cached_tokens=900, completion_tokens=50, generate_ms=5_000)
    assert measured_speed([[first, later]]) == (10, 0.9)
    assert measured_speed([[Usage(completion_tokens=9)]]) == (None, None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (file_block("shop.py", probe_project().tasks[0].content), ""),
        ("shop.py\n```python\ndef difference(a, b):\n    return a - b\n```", ""),
        (file_block("shop.py", probe_project().files["shop.py"]), "wrong_file"),
        (file_block("shop.py", probe_project().files["shop.py"].replace("a + b", "b - a")), "wrong_content"),
        (file_block("settings.json", "{}\n"), "wrong_file"),
        ("Subtract b from a.", "prose"),
    ],
)
def test_a_reply_with_files_is_right_or_says_what_is_wrong(text: str, kind: str) -> None:
    assert judge_file_reply(text, probe_project().tasks[0])[0] == kind


def test_the_layout_of_json_does_not_matter() -> None:
    task = next(task for task in probe_project().tasks if task.file == "settings.json")
    assert judge_file_reply(file_block(task.file, json.dumps(json.loads(task.content)) + "\n"), task) == ("", "")
    assert probing.comparable_content("a.json", "{") == "{"
