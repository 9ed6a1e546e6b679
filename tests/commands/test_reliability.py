from __future__ import annotations

from typing import Any

import pytest

from tests.commands.asking import CommandResult, run_command
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tui_agent.commands.probing import FAILURE_KINDS, call_tasks
from tui_agent.tools.registry import default_tools

CAPSYS = pytest.CaptureFixture[str]
FIRST = "Read the file src/app.py"


async def measure(capsys: CAPSYS, server: MockServer, *argv: str, n: int = 1) -> CommandResult:
    flags = ("--base-url", server.url, "-n", str(n), "--json")
    return await run_command(capsys, "reliability", *flags, *argv)


def correct_call(task: Any) -> dict[str, Any]:
    arguments = {
        "write_file": {"content": "x"},
        "edit_file": {"search": task.before, "replace": task.after},
        "list_files": {"path": "."},
    }
    return call(task.tool, **{**arguments.get(task.tool, {}), **task.values})


def test_the_tasks_are_about_our_own_tools() -> None:
    names = default_tools().names
    assert len(call_tasks()) >= 10
    assert all(task.tool in names for task in call_tasks())


async def test_a_good_model_is_fit_for_work(capsys: CAPSYS) -> None:
    scenarios = [scenario(task.text[:40], step(None, correct_call(task))) for task in call_tasks()]
    async with serve(*scenarios) as server:
        result = await measure(capsys, server, "m", "--protocols", "native", n=len(call_tasks()))
        temperatures = {request.body["options"]["temperature"] for request in server.requests}
        windows = {request.body["options"]["num_ctx"] for request in server.requests}
    cells = result.data["cells"]
    assert [(cell["temperature"], cell["valid"]) for cell in cells] == [(t, len(call_tasks())) for t in (0, 0.3, 0.7)]
    assert result.code == 0
    assert temperatures == {0, 0.3, 0.7} and len(windows) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (step(None, call("teleport", path="src/app.py")), "unknown_tool"),
        (step(None, call("read_file", wing=3)), "bad_arguments"),
        (step(None, call("list_files")), "wrong_tool"),
        (step(None, call("read_file", path="src/other.py")), "wrong_values"),
        (step("You may open it in an editor."), "prose"),
        (step(""), "empty"),
        (step(None, thinking="hm"), "thinking_only"),
        (step("Once upon a", finish_reason="length"), "truncated"),
        (
            step("x", fault={"kind": "status", "status": 500, "body": {"error": "error parsing tool call: raw='{'"}}),
            "server",
        ),
        (step("x", fault={"kind": "status", "status": 400, "body": {"error": "no"}}), "refused"),
        (step("x", fault={"kind": "drop"}), "broken"),
        (step("x", delay=60), "timeout"),
    ],
)
async def test_each_kind_of_failure_has_its_name(capsys: CAPSYS, reply: dict[str, Any], kind: str) -> None:
    async with serve(scenario(FIRST, reply)) as server:
        argv = ("m", "--protocols", "native", "--temperatures", "0", "--timeout", "1")
        result = await measure(capsys, server, *argv)
    assert result.data["cells"][0]["failures"] == {kind: 1}, result.data["cells"][0]["attempts"]
    assert kind in FAILURE_KINDS
    assert result.code == 1


async def test_a_call_in_plain_text_counts_and_is_marked(capsys: CAPSYS) -> None:
    text = '```json\n{"name": "read_file", "arguments": {"path": "src/app.py"}}\n```'
    async with serve(scenario(FIRST, text)) as server:
        result = await measure(capsys, server, "m", "--temperatures", "0", "--protocols", "native")
    cell = result.data["cells"][0]
    assert (cell["valid"], cell["recovered"]) == (1, 1)


async def test_each_protocol_asks_in_its_own_form(capsys: CAPSYS) -> None:
    async with serve(scenario(FIRST, "no")) as server:
        await measure(capsys, server, "m", "--temperatures", "0")
        native, as_json, xml, files = (request.body for request in server.requests)
    assert native["tools"] and "format" not in native
    assert as_json["format"] and "tools" not in as_json
    assert "tools" not in xml and "<tool_call>" in xml["messages"][0]["content"]
    assert "tools" not in files and "format" not in files
    assert any("<agent_files>" in message["content"] for message in files["messages"])


async def test_the_table_is_for_people(capsys: CAPSYS) -> None:
    async with serve(scenario(FIRST, "no")) as server:
        result = await run_command(
            capsys, "reliability", "m", "--base-url", server.url, "--n", "1", "--temperatures", "0.5"
        )
    lines = result.out.splitlines()
    assert result.code == 1
    assert lines[2].split() == ["strategy", "temp", "valid", "in", "text", "median", "failures"]
    assert lines[3].split()[:3] == ["native", "0.5", "0%"]
    assert "prose 1" in lines[3] and "below the goal of 95%" in result.out
    assert "\x1b" not in result.out


async def test_openai_servers_and_the_scripted_model_are_measured_too(capsys: CAPSYS) -> None:
    async with serve(scenario(FIRST, step(None, call("read_file", path="src/app.py")))) as server:
        argv = ("--provider", "openai", "--base-url", f"{server.url}/v1", "-n", "1", "--json")
        assert (await run_command(capsys, "reliability", "m", *argv)).code == 0
    result = await run_command(
        capsys, "reliability", "--provider", "scripted", "-n", "1", "--temperatures", "0", "--json"
    )
    assert result.data["model"] == "scripted"


async def test_an_absent_server_is_told_at_once(capsys: CAPSYS) -> None:
    result = await run_command(capsys, "reliability", "m", "--base-url", "http://127.0.0.1:9", "--json")
    assert result.code == 4
    assert "127.0.0.1:9" in result.err and not result.out


async def test_a_server_that_refuses_is_not_asked_for_ever(capsys: CAPSYS) -> None:
    refusal = step("x", fault={"kind": "status", "status": 400, "body": {"error": "no"}})
    async with serve(scenario("", refusal)) as server:
        argv = ("m", "--protocols", "native", "--temperatures", "0")
        result = await measure(capsys, server, *argv, n=50)
        assert len(server.requests) == 3
    assert result.data["cells"][0]["replies"] == 3


@pytest.mark.parametrize(
    "argv",
    [("-n", "0"), ("--temperatures", "hot"), ("--temperatures", "9"), ("--protocols", "smoke"), ("--timeout", "-1")],
)
async def test_wrong_usage_is_said(capsys: CAPSYS, argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as exit_:
        await run_command(capsys, "reliability", "m", *argv)
    assert exit_.value.code == 2
