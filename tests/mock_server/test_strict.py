from __future__ import annotations

import copy
from typing import Any

import httpx
import pytest

from tests.doubles.mock import scenario, serve
from tui_agent.mock_server.faults import Api, strict_fault

SYSTEM = {"role": "system", "content": "rules"}
USER = {"role": "user", "content": "do"}


def made(*ids: str, api: Api = "openai", content: str | None = "", arguments: Any = None) -> dict[str, Any]:
    given = arguments if arguments is not None else ("{}" if api == "openai" else {})
    calls = [{"id": one, "type": "function", "function": {"name": "read", "arguments": given}} for one in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r", **more}


BOTH: list[Api] = ["openai", "ollama"]


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize("content", ["I read.", ""])
def test_good_conversations_pass(api: Api, content: str):
    good = [
        SYSTEM,
        USER,
        made("a", "b", api=api, content=content),
        result("b"),
        result("a", tool_name="read"),
        {"role": "user", "content": "<agent_control>{}</agent_control>"},
        made("c", api=api),
        result("c", content=""),
        {"role": "assistant", "content": "done"},
        USER,
    ]
    before = copy.deepcopy(good)
    assert strict_fault(good, api) is None
    assert strict_fault(good[1:], api) is None
    assert good == before


def test_ollama_needs_no_ids():
    call = {"function": {"name": "read", "arguments": {"path": "a"}}}
    results = [{"role": "tool", "tool_name": "read", "content": "r"} for _ in range(2)]
    messages = [USER, {"role": "assistant", "tool_calls": [call, call]}, *results]
    assert strict_fault(messages, "ollama") is None
    assert "tool_call_ids did not have response messages: read" in str(strict_fault(messages[:-1], "ollama"))


@pytest.mark.parametrize("api", BOTH)
@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "too short"),
        (None, "expected an array"),
        ("hello", "expected an array"),
        ([USER, "x"], "expected an array of objects"),
        ([USER, USER], "must alternate"),
        ([USER, SYSTEM], "System message must be at the beginning"),
        ([SYSTEM, SYSTEM, USER], "System message must be at the beginning"),
        ([{"role": "assistant", "content": "x"}], "must start with a user message"),
        ([SYSTEM, {"role": "assistant", "content": "x"}], "must start with a user message"),
        ([{"role": "user", "content": ""}], "non-empty content"),
        ([{"role": "user", "content": None}], "<nil>"),
        ([{"role": "user"}], "<nil>"),
        ([{"role": "user", "content": 3}], "expected a string or an array"),
        ([{"role": "system", "content": " "}, USER], "non-empty content"),
        ([{"role": "narrator", "content": "x"}], "Supported values"),
        ([USER, {"role": "assistant", "content": ""}], "either content or tool_calls"),
        ([USER, {"role": "assistant", "content": None}], "either content or tool_calls"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": []}], "tool_calls"),
        ([USER, result("a")], "must be a response to a preceding message"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": "x"}], "tool_calls': expected an array"),
        ([USER, {"role": "assistant", "content": "", "tool_calls": [{}]}], "function.name"),
    ],
)
def test_what_both_refuse(api: Api, messages: Any, why: str):
    assert why in str(strict_fault(messages, api))


@pytest.mark.parametrize("api", BOTH)
def test_each_call_needs_exactly_one_result(api: Api):
    call = made("a", "b", api=api)
    assert "a, b" in str(strict_fault([USER, call], api))
    assert "messages: b" in str(strict_fault([USER, call, result("a"), USER], api))
    assert "not found" in str(strict_fault([USER, call, result("a"), result("a")], api))
    assert "preceding" in str(strict_fault([USER, call, result("a"), result("b"), result("b")], api))
    assert "not found" in str(strict_fault([USER, call, result("x")], api))
    assert "its call is of" in str(strict_fault([USER, call, result("a", tool_name="write")], api))
    assert "Duplicate" in str(strict_fault([USER, made("a", "a", api=api), result("a"), result("a")], api))


@pytest.mark.parametrize("arguments", ["", "{'a': 1}", '{"a": ', "[1]", "null", {"a": 1}])
def test_openai_arguments_must_be_a_json_object_as_text(arguments: Any):
    fault = strict_fault([USER, made("a", arguments=arguments), result("a")], "openai")
    assert "arguments" in str(fault)


@pytest.mark.parametrize("arguments", ['{"a": 1}', [1]])
def test_ollama_arguments_must_be_an_object(arguments: Any):
    fault = strict_fault([USER, made("a", api="ollama", arguments=arguments), result("a")], "ollama")
    assert "cannot unmarshal" in str(fault)


def test_openai_needs_ids_and_types():
    call = made("a")
    del call["tool_calls"][0]["type"]
    assert "type" in str(strict_fault([USER, call, result("a")], "openai"))
    assert ".id'" in str(strict_fault([USER, made(""), result("a")], "openai"))
    assert "tool_call_id" in str(strict_fault([USER, made("a"), {"role": "tool", "content": ""}], "openai"))


@pytest.mark.parametrize(("api", "path"), [("openai", "/chat/completions"), ("ollama", "/api/chat")])
async def test_strict_server_answers_400_and_a_lenient_one_replies(api: str, path: str):
    body = {"model": "m", "messages": [USER, USER], "stream": False}
    async with serve(scenario("do", "fine"), strict=True) as server, httpx.AsyncClient(base_url=server.url) as client:
        reply = await client.post(path, json=body)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert "must alternate" in (error if api == "ollama" else error["message"])
        assert server.requests[0].scenario is None
        server.strict = False
        assert "fine" in (await client.post(path, json=body)).text
