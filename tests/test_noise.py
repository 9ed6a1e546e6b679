from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.noise.__main__ import main
from benchmarks.noise.families import FAMILIES
from benchmarks.noise.model import Noise, NoiseError, NoisyModel
from tests.doubles.mock import MockServer, call, scenario, scenarios, step
from tui_agent.common.domain import program_text
from tui_agent.mock_server.replies import ResponderReply
from tui_agent.models.scenarios import convert_scenarios

TASK = "mend the adder"
REPORT = "Mended and tested."
READ = call("read_file", path="adder.py")
EDIT = call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")
RUN = call("run_terminal_command", command="python3 check.py")
JOB = convert_scenarios(
    scenarios(scenario(TASK, step("I look.", READ), step("", EDIT), step("", RUN) | {"proof": "passed"}, REPORT))
)
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {}}}]
FEEDBACK = {
    "unknown_tool": "There is no such tool. The tools are: read_file, edit_file, run_terminal_command.",
    "wrong_field": "The arguments are path, old_string and new_string.",
    "wrong_type": "The arguments path, old_string and new_string must be text.",
    "prose": "You called no tool. Call one now.",
    "repeat": "This was done already; here is the earlier result again.",
    "cut_off": "Your reply was cut off at its limit.",
    "duplicate": "The same call twice was run once.",
    "empty": "Your reply was empty.",
    "thinking_only": "You were thinking, but no call came.",
    "babble": "You said the same line over and over and made no call.",
}
SHAPE = "Your call could not be read: its arguments are not valid JSON."


def noisy(family: str | None = None, *, rate: float = 1.0, seed: int = 0) -> NoisyModel:
    families = (family,) if family else tuple(FAMILIES)
    return NoisyModel(JOB, Noise(rate=rate, seed=seed, families=families))


def request(*more: dict[str, Any], system: str = "Rules.", tools: bool = True, **body: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": TASK}, *more]
    return {"model": "m", "messages": messages, **({"tools": TOOLS} if tools else {}), **body}


def asked(name: str, call_id: str = "c1", **given: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(given)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]}


def result(text: str, call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def told(text: str, kind: str = "feedback") -> dict[str, Any]:
    return {"role": "user", "content": program_text(kind, text)}


def read() -> Iterator[dict[str, Any]]:
    yield asked("read_file", path="adder.py")
    yield result("1 return a - b")


def shown(spoken: ResponderReply) -> tuple[Any, ...]:
    response = spoken.choice.step.response
    calls = tuple((one.name, one.raw) for one in spoken.choice.calls)
    return response.content, response.thinking, calls, spoken.fault


def names(spoken: ResponderReply) -> list[str]:
    return [one.name for one in spoken.choice.calls]


def struck_once(family: str, *more: dict[str, Any]) -> NoisyModel:
    """A noisy model whose first reply is spoilt while the one after a cure is right."""
    for seed in range(200):
        model = noisy(family, rate=0.5, seed=seed)
        again = () if FAMILIES[family].is_transient else (told(FEEDBACK.get(family, SHAPE)),)
        if model.answer(request(*more)).family and not model.answer(request(*more, *again)).family:
            return noisy(family, rate=0.5, seed=seed)
    raise AssertionError("no seed does that")


# --- the right model ------------------------------------------------------------------------


def test_without_noise_the_work_is_done_step_by_step():
    model = noisy(rate=0.0)
    assert names(model.answer(request())) == ["read_file"]
    assert names(model.answer(request(*read()))) == ["edit_file"]
    edited = asked("edit_file", **EDIT["arguments"]), result("Edited.")
    assert names(model.answer(request(*read(), *edited))) == ["run_terminal_command"]
    ran = asked("run_terminal_command", **RUN["arguments"]), result("exit code 0\nall checks passed")
    assert shown(model.answer(request(*read(), *edited, *ran)))[0] == REPORT


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([asked("read_file", path="adder.py"), result("Error: not found")], id="failed"),
        pytest.param([asked("read_file", path="other.py"), result("x = 1")], id="another file"),
        pytest.param([asked("edit_file", **EDIT["arguments"]), result("Edited.")], id="another step"),
        pytest.param([asked("open_it", path="adder.py"), result('{"success": false}')], id="refused"),
    ],
)
def test_a_step_is_not_done_by_another_result(history: list[dict[str, Any]]):
    assert names(noisy(rate=0.0).answer(request(*history))) == ["read_file"]


@pytest.mark.parametrize("name,given", [("view", {"path": "adder.py"}), ("read_file", {"file": ["adder.py"]})])
def test_a_step_is_done_by_a_call_that_the_agent_understood(name: str, given: dict[str, Any]):
    history = asked(name, **given), result("1 return a - b")
    assert names(noisy(rate=0.0).answer(request(*history))) == ["edit_file"]


def test_a_step_with_proof_is_done_only_by_it():
    history = (
        *read(),
        *(asked("edit_file", **EDIT["arguments"]), result("Edited.")),
        *(asked("run_terminal_command", **RUN["arguments"]), result("exit code 0\nnothing ran")),
    )
    assert names(noisy(rate=0.0).answer(request(*history))) == ["run_terminal_command"]


@pytest.mark.parametrize(
    "system,said",
    [
        (
            'Answer with {"tool_calls": […]}.',
            '{"tool_calls": [{"name": "read_file", "parameters": {"path": "adder.py"}}]}',
        ),
        (
            "Calls stand in <tool_call>…</tool_call>.",
            'I look.\n<tool_call>{"name": "read_file", "arguments": {"path": "adder.py"}}</tool_call>',
        ),
    ],
)
def test_calls_are_written_where_the_request_wants_text(system: str, said: str):
    model = noisy(rate=0.0)
    spoken = model.answer(request(system=system, tools=False))
    assert shown(spoken)[:3] == (said, "", ())
    done = json.dumps({"tool_result": {"tool": "read_file", "success": True, "data": "1 return a - b"}})
    history = {"role": "assistant", "content": said}, told(done, "results")
    assert "edit_file" in shown(model.answer(request(*history, system=system, tools=False)))[0]
    tagged = '<tool_result>{"tool": "read_file", "success": true}\n1 return a - b\n</tool_result>'
    history = {"role": "assistant", "content": said}, told(tagged, "control")
    assert "edit_file" in shown(model.answer(request(*history, system=system, tools=False)))[0]
    failed = json.dumps({"tool_result": {"tool": "read_file", "success": False, "error": "gone"}})
    history = {"role": "assistant", "content": said}, told(failed, "results")
    assert shown(model.answer(request(*history, system=system, tools=False)))[0] == said


def test_without_tools_the_model_claims_nothing():
    spoken = noisy(rate=0.0).answer(request(tools=False))
    assert "not done" in shown(spoken)[0]


# --- noise ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fault_stays_until_the_model_is_told(family: str):
    before = list(read())
    model = struck_once(family, *before)
    right = shown(noisy(rate=0.0).answer(request(*before)))
    first = model.answer(request(*before))
    assert first.family == family
    assert shown(first) != right
    second = model.answer(request(*before))
    if FAMILIES[family].is_transient:
        assert shown(second) == right
        return
    assert shown(second) == shown(first)
    told_nothing = model.answer(request(*before, told("Hm."), told('{"note": "a tool call"}', "control")))
    assert shown(told_nothing) == shown(first)
    assert shown(model.answer(request(*before, told(FEEDBACK.get(family, SHAPE))))) == right


@pytest.mark.parametrize("family", ["unknown_tool", "wrong_field"])
def test_a_failed_result_is_feedback_too(family: str):
    model = struck_once(family)
    failed = asked("nonsense"), result("Error: the tools are read_file (path), edit_file (old_string).")
    assert names(model.answer(request(*failed))) == ["read_file"]
    assert model.answer(request(*failed)).family == ""


def test_feedback_joined_to_the_task_counts():
    model = struck_once("empty")
    body = request()
    body["messages"][-1]["content"] += "\n\n" + program_text("feedback", FEEDBACK["empty"])
    assert model.answer(body).family == ""


def test_words_of_another_agent_in_the_users_role_are_feedback():
    model = struck_once("prose")
    said = {"role": "assistant", "content": "I will read it."}, {"role": "user", "content": "Call a tool."}
    assert model.answer(request(*said)).family == ""


@pytest.mark.parametrize("system", ['Say {"response": …} or {"tool_calls": […]}.', "Use <tool_call>."])
def test_a_reply_that_was_cut_off_goes_on_where_it_stopped(system: str):
    def ask(model: NoisyModel, *more: dict[str, Any]) -> str:
        return str(shown(model.answer(request(*more, system=system, tools=False)))[0])

    whole, model = ask(noisy(rate=0.0)), noisy("cut_off")
    assert model.answer(request(system=system, tools=False)).choice.step.response.finish_reason == "length"
    first = ask(model)
    said = {"role": "assistant", "content": first}, told("Continue where you left off.")
    assert first + ask(model, *said) == whole
    assert ask(struck_once("cut_off"), told("Your reply was cut off; send less.")) == whole


def test_the_rate_is_kept_and_the_seed_decides():
    def met(seed: int) -> list[str]:
        many = [scenario(f"task {number};", step("", READ), REPORT) for number in range(600)]
        model = NoisyModel(convert_scenarios(scenarios(*many)), Noise(rate=0.3, seed=seed))
        return [
            model.answer({"messages": [{"role": "user", "content": f"task {n};"}], "tools": TOOLS}).family
            for n in range(600)
        ]

    first = met(1)
    assert 0.24 < sum(map(bool, first)) / 600 < 0.36
    assert set(first) - {""} == set(FAMILIES) - {"repeat"}
    assert met(1) == first
    assert met(2) != first


@pytest.mark.parametrize("wrong", [{"rate": 1.5}, {"rate": 0.1, "families": ("boom",)}, {"rate": 0.1, "families": ()}])
def test_impossible_noise_is_refused(wrong: dict[str, Any]):
    with pytest.raises(NoiseError):
        Noise(**wrong)


def test_the_command_names_what_is_wrong_with_its_noise(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["--noise", "0.5", "--families", "boom"]) == 2
    assert "no family of noise is called boom; there are cut_json, " in capsys.readouterr().err
    assert main(["--noise", "2"]) == 2
    assert "benchmarks.noise: " in capsys.readouterr().err


# --- on the wire ----------------------------------------------------------------------------


async def post(server: MockServer, api: str, stream: bool, patience: float = 60) -> tuple[int, str]:
    path = "/v1/chat/completions" if api == "openai" else "/api/chat"
    timeout = httpx.Timeout(60, read=patience)
    async with httpx.AsyncClient(base_url=server.url, timeout=timeout, verify=False) as http:
        reply = await http.post(path, json=request(*read(), stream=stream))
        return reply.status_code, reply.text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["openai", "ollama"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_every_family_reaches_the_wire(family: str, api: str, stream: bool):
    async with MockServer(NoisyModel(JOB, Noise(rate=0.0))) as server:
        right = await post(server, api, stream)
    assert "edit_file" in right[1]
    async with MockServer(noisy(family)) as server:
        try:
            status, text = await post(server, api, stream, 0.5 if FAMILIES[family].is_transient else 60)
        except httpx.HTTPError:
            assert FAMILIES[family].is_transient
            status, text = 0, ""
        exchange = await server.wait_for_request()
        await exchange.finished.wait()
    assert exchange.noise == family
    assert exchange.fired == (exchange.fault is not None)
    assert (status, text) != right
    if family == "tool_parse":
        assert status == 500
        assert "error" in json.loads(text)
    if family == "unknown_tool":
        assert '"edit_file"' not in text
