from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.real_model.ollama_protocol import Reply, chat_request, join_lines
from benchmarks.real_model.ollama_server import OllamaServer
from benchmarks.real_model.relay import Relay, serving_in_thread
from tests.doubles.llama import USAGE, FakeLlama, stream_chunk
from tests.models.asking import FAST_LIMITS, TOOL, ask, expect_info, make_request
from tui_agent.common.domain import AssistantMessage, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from tui_agent.models.base import Model
from tui_agent.models.connect import connect


@contextmanager
def ollama(server: FakeLlama) -> Iterator[tuple[Model, str, Relay]]:
    """Yield a client of the Ollama server, its address, and the relay behind it."""
    with serving_in_thread(server):
        relay = Relay(server.url)
        with serving_in_thread(relay):
            ollama_server = OllamaServer(relay.url, "m:7b")
            with serving_in_thread(ollama_server):
                yield (
                    connect("ollama", ollama_server.url, limits=FAST_LIMITS, env={}, retries=False),
                    ollama_server.url,
                    relay,
                )


def post(url: str, body: dict[str, Any]) -> Any:
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as reply:
        return json.load(reply)


# --- requests -------------------------------------------------------------------------------


def test_options_get_the_names_of_the_other_protocol():
    options = {"num_ctx": 8192, "num_predict": 99, "temperature": 0, "seed": 7, "stop": ["x"], "mirostat": 1}
    body = chat_request({"model": "m", "messages": [], "options": options, "keep_alive": "5m", "think": False})
    assert body == {
        "model": "m",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 99,
        "temperature": 0,
        "seed": 7,
        "stop": ["x"],
    }
    assert "max_tokens" not in chat_request({"options": {"num_predict": -1}})


def test_a_format_becomes_a_response_format():
    schema = {"type": "object"}
    assert chat_request({"format": "json"})["response_format"] == {"type": "json_object"}
    assert chat_request({"format": schema})["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": schema},
    }
    assert "response_format" not in chat_request({"format": ""})


def test_calls_and_results_without_ids_are_paired_in_their_order():
    calls = [{"function": {"name": name, "arguments": {"path": name}}} for name in ("a", "b")]
    body = chat_request(
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "", "tool_calls": calls},
                {"role": "tool", "content": "1", "tool_name": "a"},
                {"role": "tool", "content": "2", "tool_name": "b"},
            ]
        }
    )["messages"]
    names = [call["id"] for call in body[1]["tool_calls"]]
    assert len(set(names)) == 2
    assert [message["tool_call_id"] for message in body[2:]] == names
    assert body[1]["tool_calls"][0]["function"] == {"name": "a", "arguments": '{"path": "a"}'}


# --- replies --------------------------------------------------------------------------------


def reply_lines(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    reply = Reply("m")
    return [line for chunk in chunks for line in reply.lines(chunk)] + list(reply.ending(5))


def test_text_comes_as_it_comes_and_the_last_line_counts():
    *text, last = reply_lines(
        stream_chunk(role="assistant", content=None), stream_chunk(content="Hel"), stream_chunk(content="lo"), USAGE
    )
    assert [line["message"]["content"] for line in text] == ["Hel", "lo"]
    assert not any(line["done"] for line in text)
    assert last["done"] and last["done_reason"] == "stop"
    assert (last["prompt_eval_count"], last["eval_count"]) == (31, 4)
    assert (last["prompt_eval_duration"], last["eval_duration"]) == (2_500_000, 10_000_000)
    assert last["total_duration"] == 5


def test_the_pieces_of_a_call_become_one_call_with_an_object():
    pieces = [
        {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"path":'}},
        {"index": 1, "id": "c2", "function": {"name": "list_files", "arguments": ""}},
        {"index": 0, "function": {"arguments": ' "a.py"}'}},
    ]
    *lines, last = reply_lines(*(stream_chunk(tool_calls=[piece]) for piece in pieces), stream_chunk("tool_calls"))
    (line,) = lines
    assert line["message"]["tool_calls"] == [
        {"id": "c1", "function": {"index": 0, "name": "read_file", "arguments": {"path": "a.py"}}},
        {"id": "c2", "function": {"index": 1, "name": "list_files", "arguments": {}}},
    ]
    assert last["done_reason"] == "stop"


def test_a_call_that_was_cut_is_text():
    piece = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": '{"pa'}}
    line, last = reply_lines(stream_chunk(tool_calls=[piece]), stream_chunk("length"))
    assert line["message"] == {"role": "assistant", "content": 'read_file {"pa'}
    assert last["done_reason"] == "length"


def test_many_lines_make_one_answer():
    answer = join_lines(
        reply_lines(stream_chunk(reasoning_content="Hm. "), stream_chunk(content="a"), stream_chunk(content="b"), USAGE)
    )
    assert answer["message"] == {"role": "assistant", "content": "ab", "thinking": "Hm. "}
    assert answer["done"] and answer["eval_count"] == 4


# --- with the product's client --------------------------------------------------------------


async def test_the_client_reads_text_and_counts_and_the_relay_counts_the_same():
    with ollama(FakeLlama([stream_chunk(content="Hel"), stream_chunk(content="lo"), stream_chunk("stop"), USAGE])) as (
        model,
        _,
        relay,
    ):
        reply = await ask(model)
        await model.aclose()
        relay.wait_for_exchanges()
    assert (reply.text, reply.stop) == ("Hello", "stop")
    expected = Usage(prompt_tokens=31, completion_tokens=4, load_ms=0, prompt_ms=2, generate_ms=10)
    assert reply.usage == expected
    assert [(call.prompt, call.cached, call.written) for call in relay.calls] == [(31, 24, 4)]


async def test_the_client_gets_its_calls_and_sends_them_back():
    piece = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
    server = FakeLlama(
        [stream_chunk(tool_calls=[piece]), stream_chunk("tool_calls"), USAGE], [stream_chunk(content="done"), USAGE]
    )
    call = ToolCall(id="c1", name="read_file", arguments={"path": "a.py"})
    with ollama(server) as (model, _, _relay):
        reply = await ask(model, make_request(SystemMessage(text="rules"), UserMessage(text="go"), tools=(TOOL,)))
        assert [(each.name, each.arguments) for each in reply.calls] == [(call.name, call.arguments)]
        assert reply.stop == "tool_calls"
        history = (
            UserMessage(text="go"),
            AssistantMessage(calls=(call,)),
            ToolMessage(call_id="c1", name="read_file", text="1"),
        )
        assert (await ask(model, make_request(*history, tools=(TOOL,)))).text == "done"
        await model.aclose()
    first, second = server.bodies
    assert first["tools"][0]["function"]["name"] == "read_file"
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert second["messages"][1]["tool_calls"][0]["id"] == second["messages"][2]["tool_call_id"] == "c1"


async def test_the_client_learns_window_and_abilities():
    with ollama(FakeLlama([USAGE])) as (model, _, _relay):
        info = expect_info(await model.describe("m:7b"))
        names = await model.list_models()
        built = expect_info(await model.describe("m:7b")).build
        await model.aclose()
    assert (info.context_window, info.loaded_window) == (16_384, 16_384)
    assert info.capabilities == ("completion", "tools")
    assert names == ("m:7b",)
    assert built == "1.8B · Q4_K_Medium · 1.1 GB"


async def test_a_refusal_is_told_in_the_servers_words():
    with ollama(FakeLlama("the request exceeds the available context size")) as (model, _, relay):
        fault = (await ask(model)).fault
        await model.aclose()
        relay.wait_for_exchanges()
    assert fault.status == 400
    assert relay.calls == []


async def test_an_error_in_the_middle_is_one_for_the_client():
    with ollama(FakeLlama([stream_chunk(content="Hel"), {"error": {"message": "out of memory"}}])) as (
        model,
        _,
        _relay,
    ):
        reply = await ask(model)
        await model.aclose()
    assert "out of memory" in reply.fault.message


# --- without one ----------------------------------------------------------------------------


def test_a_model_without_tools_says_so():
    with ollama(FakeLlama([USAGE], template="{{ messages }}")) as (_, url, _relay):
        assert post(f"{url}/api/show", {"model": "m:7b"})["capabilities"] == ["completion"]


def test_a_window_that_is_asked_for_is_in_effect_up_to_the_servers():
    with ollama(FakeLlama([stream_chunk(content="x"), USAGE])) as (_, url, _relay):
        for requested, effective in ((4096, 4096), (99_999, 16_384)):
            body = {"model": "m:7b", "messages": [], "stream": False, "options": {"num_ctx": requested}}
            assert post(f"{url}/api/chat", body)["message"]["content"] == "x"
            with urllib.request.urlopen(f"{url}/api/ps", timeout=10) as reply:
                assert json.load(reply)["models"][0]["context_length"] == effective


@pytest.mark.parametrize(("path", "model"), [("/api/chat", "other"), ("/api/show", "other"), ("/api/pull", "m:7b")])
def test_what_is_not_there_is_not_found(path, model):
    with ollama(FakeLlama([USAGE])) as (_, url, _relay), pytest.raises(urllib.error.HTTPError) as caught:
        post(url + path, {"model": model})
    assert caught.value.code == 404
    assert json.load(caught.value)["error"]
