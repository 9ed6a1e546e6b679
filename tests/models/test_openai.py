from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.doubles.raw_server import FakeConnection
from tests.models.asking import (
    FAST_LIMITS,
    TOOL,
    ask,
    expect_info,
    make_request,
    openai_client,
    openai_server,
    raw_body,
    sse,
    stream_chunk,
)
from tui_agent.common.domain import (
    AssistantMessage,
    ModelInfo,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from tui_agent.models.base import Phase, TextFragment
from tui_agent.models.openai import ServerQuirks, openai_payload

USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}},
}


def tool(arguments: object = None, **more: object) -> dict[str, object]:
    """One entry of a delta's `tool_calls`."""
    function = {"arguments": arguments}
    if "name" in more:
        function["name"] = more.pop("name")
    return {"function": function} | more


def calling(*entries: dict[str, object]) -> dict[str, object]:
    return stream_chunk(tool_calls=list(entries))


async def answered(*events: object):
    async with openai_server(sse(*events)) as server:
        return await ask(openai_client(server))


async def test_the_straight_path():
    reply = await answered(
        stream_chunk(role="assistant", content=""),
        stream_chunk(content="Hel"),
        stream_chunk(content="lo"),
        stream_chunk("stop"),
        "[DONE]",
    )
    assert (reply.text, reply.stop) == ("Hello", "stop")
    assert reply.phases[0] == "connecting"


STREAM = [json.dumps(stream_chunk(content="Hi")), json.dumps(stream_chunk("stop"))]


@pytest.mark.parametrize(
    "body",
    [
        f": OPENROUTER PROCESSING\n\n:\n\ndata: {STREAM[0]}\n\ndata:\n\ndata: {STREAM[1]}\n\ndata: [DONE]\n\n",
        f"data:{STREAM[0]}\r\n\r\nid: 1\r\nretry: 10\r\nevent: message\r\ndata:{STREAM[1]}\r\n\r\ndata:[DONE]\r\n\r\n",
        f"data: {STREAM[0]}\r\rdata: {STREAM[1]}\r\rdata: [DONE]\r\r",
        f"data: {STREAM[0]}\n\ndata: {STREAM[1]}\n\ndata: [DONE]",
        f"data: {STREAM[0]}\n\ndata: {STREAM[1]}\n\n",
        f"data: {STREAM[0]}\n\ndata: {STREAM[1]}",
        f"\ufeffdata: {STREAM[0]}\n\ndata: {STREAM[1]}\n\ndata: [DONE]\n",
    ],
    ids=["comments", "crlf", "cr", "done-without-blank-line", "no-done", "no-blank-line", "bom"],
)
async def test_c1_framing(body):
    async with openai_server(raw_body(200, "text/event-stream", body.encode())) as server:
        reply = await ask(openai_client(server))
    assert (reply.text, reply.stop) == ("Hi", "stop")


@pytest.mark.parametrize(
    "error",
    [
        'event: error\ndata: {"error": {"message": "out of slots", "code": 500}}\n\n',
        "event: error\ndata: out of slots\n\n",
        'error: {"code": 500, "message": "out of slots"}\n\n',
        'data: {"error": {"message": "out of slots", "type": "server_error"}}\n\n',
        'data: {"error": "out of slots"}\n\ndata: [DONE]\n\n',
    ],
)
async def test_c1_errors_inside_a_200_stream(error):
    body = f"data: {STREAM[0]}\n\n{error}"
    async with openai_server(raw_body(200, "text/event-stream", body.encode())) as server:
        reply = await ask(openai_client(server))
    assert reply.text == "Hi"
    assert (reply.fault.kind, reply.fault.retryable) == ("status", False)
    assert "out of slots" in reply.fault.message


KINDS = pytest.mark.parametrize("kind", ["application/json", "text/event-stream", ""])


@KINDS
async def test_c1_an_error_as_a_json_document_instead_of_a_stream(kind):
    body = json.dumps({"error": {"message": "no such deployment"}}, indent=2).encode()
    async with openai_server(raw_body(200, kind, body, split=[1, 9])) as server:
        assert "no such deployment" in (await ask(openai_client(server))).fault.message


@KINDS
async def test_c1_a_reply_as_a_json_document_instead_of_a_stream(kind):
    message = {"role": "assistant", "content": "whole", "tool_calls": None}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    async with openai_server(raw_body(200, kind, body)) as server:
        reply = await ask(openai_client(server))
    assert (reply.text, reply.stop) == ("whole", "stop")


@KINDS
async def test_c1_a_stream_whatever_its_content_type_says(kind):
    body = f"\n\ndata: {STREAM[0]}\n\ndata: {STREAM[1]}\n\n".encode()
    async with openai_server(raw_body(200, kind, body)) as server:
        reply = await ask(openai_client(server))
    assert (reply.text, reply.stop) == ("Hi", "stop")


async def test_c2_chunks_without_choices_delta_or_content():
    reply = await answered(
        {"choices": []},
        {"id": "x"},
        {"choices": None},
        {"choices": [{"delta": None}]},
        {"choices": [None]},
        stream_chunk(role="assistant", content=None),
        stream_chunk(role="assistant", content="ok"),
        stream_chunk(role="assistant", content=None, tool_calls=None),
        stream_chunk("stop", content=None),
        "[DONE]",
    )
    assert (reply.text, reply.stop) == ("ok", "stop")


async def test_c3_usage_after_the_finish_reason():
    reply = await answered(stream_chunk(content="x"), stream_chunk("stop"), USAGE, "[DONE]")
    assert reply.usage == Usage(prompt_tokens=9, completion_tokens=3, cached_tokens=5)


async def test_c3_cumulative_usage_counts_once():
    def counted(n: int) -> dict[str, object]:
        return stream_chunk(content="x") | {"usage": {"prompt_tokens": 9, "completion_tokens": n}}

    reply = await answered(counted(1), counted(2), stream_chunk("stop") | {"usage": None}, "[DONE]")
    assert reply.usage == Usage(prompt_tokens=9, completion_tokens=2)


async def test_c3_timings_of_llama_cpp():
    timings = {"prompt_ms": 120.4, "predicted_ms": 900.0}
    reply = await answered(stream_chunk(content="x"), stream_chunk("stop") | {"timings": timings}, "[DONE]")
    assert (reply.usage.prompt_ms, reply.usage.generate_ms) == (120, 900)


@pytest.mark.parametrize(
    ("usage", "timings", "cached"),
    [
        (None, {"cache_n": 785, "prompt_n": 1}, 785),
        ({"prompt_tokens": 786, "completion_tokens": 6}, {"cache_n": 785, "prompt_n": 1}, 785),
        ({"prompt_tokens": 786, "completion_tokens": 6}, {"prompt_n": 86}, 700),
        ({"prompt_tokens": 786, "completion_tokens": 6}, {}, None),
    ],
)
async def test_c3_llama_cpp_tells_what_it_had_cached(usage, timings, cached):
    timings |= {"prompt_ms": 49.3, "predicted_n": 6, "predicted_ms": 230.1}
    last = {"choices": [], "timings": timings} | ({"usage": usage} if usage else {})
    reply = await answered(stream_chunk(content="x"), stream_chunk("stop"), last, "[DONE]")
    assert reply.usage == Usage(
        prompt_tokens=786, completion_tokens=6, cached_tokens=cached, prompt_ms=49, generate_ms=230
    )


async def test_c3_a_reply_is_timed_where_the_server_only_counts():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await asyncio.sleep(0.1)
        await connection.events(stream_chunk(content="a"))
        await asyncio.sleep(0.3)
        await connection.events(stream_chunk("stop", content="b"), USAGE, "[DONE]")
        await connection.end()

    async with openai_server(chat) as server:
        model = openai_client(server)
        first, second = await ask(model), await ask(model)
    assert first.usage.prompt_ms is None  # the model may have been loaded
    assert second.usage.prompt_ms is not None and 90 <= second.usage.prompt_ms < 2_000
    assert all(280 <= (reply.usage.generate_ms or 0) < 3_000 for reply in (first, second))


@pytest.mark.parametrize("status", [400, 422])
async def test_c3_stream_options_are_left_out_where_they_are_refused(status):
    async def chat(connection: FakeConnection) -> None:
        if "stream_options" in connection.request.json:
            connection.note("refused")
            await connection.answer(status, {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs"}]})
        else:
            await sse(stream_chunk(content="x"), stream_chunk("stop"), "[DONE]")(connection)

    async with openai_server(chat) as server:
        model = openai_client(server)
        assert (await ask(model)).text == "x"
        assert (await ask(model)).text == "x"
    assert server.log == ["refused"]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("eos", "stop"),
        ("something_new", "something_new"),
    ],
)
async def test_c4_finish_reasons(finish, stop):
    assert (await answered(stream_chunk(content="x"), stream_chunk(finish), "[DONE]")).stop == stop


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
async def test_c4_calls_tell_not_the_reason(finish):
    entry = tool('{"path": "a"}', index=0, id="c1", name="read_file")
    reply = await answered(stream_chunk(finish, tool_calls=[entry]), "[DONE]")
    assert reply.stop == "tool_calls"
    assert reply.calls[0].arguments == {"path": "a"}


@pytest.mark.parametrize("finish", [None, ""])
async def test_c4_the_end_marker_alone_is_an_end(finish):
    reply = await answered(stream_chunk(content="x"), stream_chunk(finish), "[DONE]")
    assert (reply.text, reply.stop) == ("x", "")


async def test_c4_neither_reason_nor_end_marker_is_broken():
    reply = await answered(stream_chunk(content="x"), calling(tool('{"path": "a"}', index=0, id="c", name="read_file")))
    assert (reply.text, reply.calls) == ("x", [])
    assert (reply.fault.kind, reply.fault.retryable) == ("broken", False)


A, B = {"path": "a"}, {"path": "b"}
READ = "read_file"
QUIRKS: dict[str, Any] = {
    "id and name first, then null": (
        [
            [tool("", index=0, id="c1", name=READ)],
            [tool('{"path"', index=0, id=None, name=None)],
            [tool(': "a"}', index=0, id="", name="")],
        ],
        [("c1", A)],
    ),
    "no index": ([[tool("", id="c1", name=READ)], [tool('{"path": ')], [tool('"a"}')]], [("c1", A)]),
    "whole call in one chunk": ([[tool('{"path": "a"}', index=0, id="c1", name=READ)]], [("c1", A)]),
    "two entries with one index in one chunk": (
        [[tool("", index=0, id="c1", name=READ)], [tool('{"path"', index=0), tool(': "a"}', index=0)]],
        [("c1", A)],
    ),
    "parallel calls all at index 0": (
        [
            [tool('{"path": "a"}', index=0, id="c1", name=READ)],
            [tool("", index=0, id="c2", name=READ)],
            [tool('{"path": "b"}', index=0)],
        ],
        [("c1", A), ("c2", B)],
    ),
    "parallel calls, interleaved": (
        [
            [tool("", index=0, id="c1", name=READ), tool("", index=1, id="c2", name=READ)],
            [tool('{"path"', index=1), tool('{"path"', index=0)],
            [tool(': "a"}', index=0), tool(': "b"}', index=1)],
        ],
        [("c1", A), ("c2", B)],
    ),
    "same id at several indexes": (
        [
            [tool("", index=0, id="c1", name=READ)],
            [tool('{"path": ', index=1, id="c1")],
            [tool('"a"}', index=2, id="c1")],
        ],
        [("c1", A)],
    ),
    "id and name repeated in every chunk": (
        [
            [tool('{"path"', index=0, id="c1", name=READ)],
            [tool(': "a"', index=0, id="c1", name=READ)],
            [tool("}", index=0, id="c1", name=READ)],
        ],
        [("c1", A)],
    ),
    "arguments null, empty, then an object": (
        [[tool(None, index=0, id="c1", name=READ)], [tool("", index=0)], [tool({"path": "a"}, index=0)]],
        [("c1", A)],
    ),
    "no id at all": ([[tool('{"path": "a"}', index=0, name=READ)]], [(None, A)]),
    "no id and no index, two whole calls": (
        [[tool('{"path": "a"}', name=READ), tool('{"path": "b"}', name=READ)]],
        [(None, A), (None, B)],
    ),
    "one id for two calls": (
        [[tool('{"path": "a"}', index=0, id="c1", name=READ)], [tool('{"path": "b"}', index=1, id="c1", name=READ)]],
        [("c1", A), (None, B)],
    ),
    "gaps between indexes": (
        [[tool('{"path": "a"}', index=3, id="c1", name=READ)], [tool('{"path": "b"}', index=7, id="c2", name=READ)]],
        [("c1", A), ("c2", B)],
    ),
    "name in parts": (
        [
            [tool("", index=0, id="c1", name="read_")],
            [tool("", index=0, name="file")],
            [tool('{"path": "a"}', index=0)],
        ],
        [("c1", A)],
    ),
    "arguments in a text within a text": (
        [[tool(json.dumps('{"path": "a"}'), index=0, id="c1", name=READ)]],
        [("c1", A)],
    ),
    "rubbish between": (
        [[tool('{"path": ', index=0, id="c1", name=READ), None, 7, {}], ["x", tool('"a"}', index=0)]],
        [("c1", A)],
    ),
}


@pytest.mark.parametrize("quirk", QUIRKS)
async def test_c5_tool_call_deltas(quirk):
    chunks, wanted = QUIRKS[quirk]
    reply = await answered(*(stream_chunk(tool_calls=chunk) for chunk in chunks), stream_chunk("tool_calls"), "[DONE]")
    assert [call.arguments for call in reply.calls] == [arguments for _, arguments in wanted]
    assert {call.name for call in reply.calls} == {READ}
    assert all(call.fault is None for call in reply.calls)
    for call, (wanted_id, _) in zip(reply.calls, wanted, strict=True):
        assert call.id == wanted_id if wanted_id else call.id.startswith("call_")
    assert len({call.id for call in reply.calls}) == len(wanted)


async def test_c5_the_form_before_tool_calls():
    reply = await answered(
        stream_chunk(function_call={"name": READ, "arguments": '{"path"'}),
        stream_chunk(function_call={"arguments": ': "a"}'}),
        stream_chunk("function_call"),
    )
    assert (reply.calls[0].name, reply.calls[0].arguments) == (READ, A)


async def test_c5_a_lost_first_fragment_is_a_fault_of_the_call_not_of_the_reply():
    reply = await answered(calling(tool('"a"}', index=0, id="c1", name=READ)), stream_chunk("tool_calls"), "[DONE]")
    call = reply.calls[0]
    assert (call.arguments, call.raw) == ({}, '"a"}')
    assert call.fault is not None and "JSON" in call.fault


async def test_c5_the_arriving_call_is_shown_early_and_seldom():
    arguments = json.dumps({"path": "src/app.py", "content": "x = 1\n" * 5000})
    parts = [arguments[at : at + 4] for at in range(0, len(arguments), 4)]
    reply = await answered(
        calling(tool("", index=0, id="c1", name="write_file")),
        *(calling(tool(part, index=0)) for part in parts),
        stream_chunk("tool_calls"),
        "[DONE]",
    )
    assert reply.begun[0].name == "write_file"
    assert reply.begun[1].arguments["path"] == "src/app.py"
    assert len(reply.begun) < 15
    assert all(len(str(begun.arguments)) < 500 for begun in reply.begun)
    assert reply.calls[0].arguments["content"] == "x = 1\n" * 5000


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_c6_reasoning_fields(field):
    reply = await answered(
        stream_chunk(**{field: "think "}),
        stream_chunk(**{field: "more", "content": None}),
        stream_chunk(content="x"),
        stream_chunk("stop"),
    )
    assert (reply.thought, reply.text) == ("think more", "x")


async def test_c6_reasoning_details_and_two_names_at_once():
    details = [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.encrypted", "data": "?"}]
    both = stream_chunk(reasoning="b", reasoning_content="b", reasoning_details=[{"text": "b"}])
    reply = await answered(
        stream_chunk(reasoning_details=details), both, stream_chunk(content="x"), stream_chunk("stop")
    )
    assert (reply.thought, reply.text) == ("ab", "x")


async def test_c6_thinking_goes_back_only_to_a_server_that_demands_it():
    made = ToolCall(id="c1", name=READ, arguments=A)
    history = (
        UserMessage(text="hi"),
        AssistantMessage(text="Reading.", calls=(made,), reasoning="hm"),
        ToolMessage(call_id="c1", name=READ, text="..."),
    )

    async def chat(connection: FakeConnection) -> None:
        if "reasoning_content" not in connection.request.json["messages"][1]:
            connection.note("missed")
            message = "The reasoning_content in the thinking mode must be passed back to the API."
            await connection.answer(400, {"error": {"message": message}})
        else:
            await sse(stream_chunk(content="x"), stream_chunk("stop"))(connection)

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server), make_request(*history))).text == "x"
    assert server.log == ["missed"]
    assert server.requests[1].json["messages"][1]["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "bad thing", "type": "invalid_request_error", "code": null}}', "bad thing"),
        (b'{"error": "bad thing"}', "bad thing"),
        (b'{"detail": "bad thing"}', "bad thing"),
        (b'{"detail": [{"loc": ["body", "messages", 0], "msg": "bad thing"}]}', "body.messages.0: bad thing"),
        (b'{"message": "bad thing"}', "bad thing"),
        (b'{"object": "error", "message": "bad thing", "code": 40001}', "bad thing"),
        (b"bad thing", "bad thing"),
        (b"", "no explanation"),
    ],
)
async def test_c7_shapes_of_errors(body, words):
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(400, body)

    async with openai_server(chat) as server:
        fault = (await ask(openai_client(server))).fault
    assert (fault.kind, fault.status) == ("status", 400)
    assert words in fault.message


@pytest.mark.parametrize(
    ("status", "error", "n_ctx", "n_prompt"),
    [
        (
            400,
            {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "too big",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            },
            4096,
            9000,
        ),
        (
            400,
            {
                "code": "context_length_exceeded",
                "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9100 tokens.",
            },
            8192,
            9100,
        ),
        (
            400,
            {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"},
            4096,
            5000,
        ),
        (
            422,
            {
                "message": "Prompt contains 50000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"
            },
            32768,
            50000,
        ),
        (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}, 200000, 210000),
        (
            400,
            {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
            4096,
            5000,
        ),
        (
            400,
            {
                "message": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded "
                "with context length of only 4096 tokens, which is not enough."
            },
            4096,
            None,
        ),
    ],
)
async def test_c7_context_overflow(status, error, n_ctx, n_prompt):
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(status, {"error": error})

    async with openai_server(chat) as server:
        fault = (await ask(openai_client(server))).fault
    assert (fault.kind, fault.n_ctx, fault.n_prompt) == ("context_overflow", n_ctx, n_prompt)
    assert not fault.retryable


SERVERS: dict[str, Any] = {
    "llama.cpp": (
        {"/v1/models": {"data": [{"id": "m:7b", "meta": {"n_ctx": 8192, "n_ctx_train": 32768}}]}},
        8192,
        32768,
    ),
    "llama.cpp, older": (
        {
            "/v1/models": {"data": [{"id": "m:7b", "meta": {"n_ctx_train": 32768}}]},
            "/props": {"default_generation_settings": {"n_ctx": 4096}},
        },
        4096,
        32768,
    ),
    "vLLM": ({"/v1/models": {"data": [{"id": "other"}, {"id": "m:7b", "max_model_len": 16384}]}}, 16384, 16384),
    "LM Studio": (
        {
            "/v1/models": {"data": [{"id": "m:7b"}]},
            "/api/v0/models": {"data": [{"id": "m:7b", "loaded_context_length": 6000, "max_context_length": 131072}]},
        },
        6000,
        131072,
    ),
    "OpenRouter": ({"/v1/models": {"data": [{"id": "m:7b", "context_length": 128000}]}}, 128000, 128000),
    "llama.cpp, which tells only for how much it was trained": (
        {"/v1/models": {"data": [{"id": "m:7b", "meta": {"n_ctx_train": 32768}}]}},
        None,
        32768,
    ),
    "one that says nothing": ({}, None, None),
}


@pytest.mark.parametrize("name", SERVERS)
async def test_c8_the_real_window(name):
    answers, loaded, window = SERVERS[name]
    async with openai_server(sse()) as server:
        for path, value in answers.items():

            async def answer(connection: FakeConnection, value: object = value) -> None:
                await connection.answer(200, value)

            server.routes[path] = answer
        model = openai_client(server)
        info = expect_info(await model.describe("m:7b"))
        asked = len(server.requests)
        assert await model.describe("m:7b") == info
        assert len(server.requests) == asked
    assert (info.loaded_window, info.context_window) == (loaded, window)


async def test_llama_cpp_says_how_large_its_model_is():
    async def models(connection: FakeConnection) -> None:
        meta = {"n_ctx": 4096, "size": 1_111_370_240, "n_params": 1_777_088_000}
        await connection.answer(200, {"data": [{"id": "m:7b", "meta": meta}]})

    async with openai_server(sse()) as server:
        server.routes["/v1/models"] = models
        info = expect_info(await openai_client(server).describe("m:7b"))
    assert (info.size, info.parameters) == (1_111_370_240, 1.777088)


@pytest.mark.parametrize(
    ("entry", "capabilities"),
    [
        ({}, None),
        ({"capabilities": ["completion"]}, None),
        ({"capabilities": ["tool_use"]}, ("completion", "tools")),
        ({"supported_parameters": ["tools", "reasoning"]}, ("completion", "tools", "thinking")),
        ({"supported_parameters": ["temperature"]}, ("completion",)),
    ],
)
async def test_c8_capabilities_are_known_only_where_the_server_says_so(entry, capabilities):
    async def models(connection: FakeConnection) -> None:
        await connection.answer(200, {"data": [{"id": "m:7b"} | entry]})

    async with openai_server(sse()) as server:
        server.routes["/v1/models"] = models
        assert expect_info(await openai_client(server).describe("m:7b")).capabilities == capabilities


async def test_c9_history_for_strict_servers():
    made = ToolCall(id="c1", name=READ, arguments={}, fault="not JSON", raw='{"path": ')
    history = (
        UserMessage(text="one"),
        SystemMessage(text="rules"),
        ProgramMessage(text="<agent_context>\nx\n</agent_context>"),
        AssistantMessage(text=""),
        AssistantMessage(text="", calls=(made,), reasoning="hm"),
        ToolMessage(call_id="c1", name=READ, text=""),
        AssistantMessage(text="Done."),
        UserMessage(text="two"),
    )
    async with openai_server(sse(stream_chunk("stop"))) as server:
        await ask(openai_client(server), make_request(*history, tools=(TOOL,)))
    sent = server.requests[0].json
    assert sent["messages"] == [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "one\n\n<agent_context>\nx\n</agent_context>"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": READ, "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "(no output)"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "two"},
    ]
    assert set(sent) == {"model", "messages", "stream", "stream_options", "tools"}


@pytest.mark.parametrize(
    ("refused", "more", "instead"),
    [
        ("temperature", {"temperature": 0.2}, None),
        ("reasoning_effort", {"think": "low"}, None),
        ("chat_template_kwargs", {"think": False}, None),
        ("response_format", {"format": "json"}, None),
        ("max_tokens", {"max_tokens": 100}, "max_completion_tokens"),
    ],
)
async def test_c9_a_refused_field_is_left_out_once_and_for_all(refused, more, instead):
    async def chat(connection: FakeConnection) -> None:
        if refused in connection.request.json:
            connection.note("refused")
            message = f"Unsupported parameter: '{refused}' is not supported with this model."
            await connection.answer(400, {"error": {"message": message, "param": refused}})
        else:
            await sse(stream_chunk(content="x"), stream_chunk("stop"))(connection)

    async with openai_server(chat) as server:
        model = openai_client(server)
        for _ in range(2):
            assert (await ask(model, make_request(**more))).text == "x"
    assert server.log == ["refused"]
    assert [instead in sent.json for sent in server.requests[1:]] == [instead is not None] * 2


def known(*switches: str) -> ModelInfo:
    return ModelInfo(name="m", capabilities=("completion", "thinking"), reasoning_switches=switches)


@pytest.mark.parametrize(
    ("think", "local", "fields"),
    [
        (None, True, {}),
        (True, True, {}),
        (False, True, {"chat_template_kwargs": {"enable_thinking": False}}),
        (False, False, {"reasoning_effort": "none"}),
        ("high", True, {"reasoning_effort": "high"}),
        ("high", False, {"reasoning_effort": "high"}),
    ],
)
def test_reasoning_effort_in_requests(think, local, fields):
    body = openai_payload(make_request(think=think), ServerQuirks(), local=local)
    assert {name: body[name] for name in ("chat_template_kwargs", "reasoning_effort") if name in body} == fields


@pytest.mark.parametrize(
    ("info", "think", "fields"),
    [
        (ModelInfo(name="m", capabilities=("completion", "tools")), "high", {}),
        (ModelInfo(name="m", capabilities=("completion",)), False, {}),
        (ModelInfo(name="m", capabilities=("completion",), reasoning_switches=("enable_thinking",)), False, {}),
        (known("enable_thinking"), False, {"enable_thinking": False}),
        (known("enable_thinking"), "high", {"enable_thinking": True}),
        (known("enable_thinking"), True, {"enable_thinking": True}),
        (known("enable_thinking"), None, {}),
        (known("thinking"), False, {"thinking": False}),
        (known("thinking"), "low", {"thinking": True}),
        (known("reasoning_effort"), False, {"reasoning_effort": "low"}),
        (known("reasoning_effort"), "high", {"reasoning_effort": "high"}),
        (known("reasoning_effort"), True, {}),
        (known("enable_thinking", "reasoning_effort"), False, {"enable_thinking": False}),
        (known("enable_thinking", "reasoning_effort"), "high", {"enable_thinking": True, "reasoning_effort": "high"}),
        (known(), False, {}),
        (known(), "high", {}),
        (ModelInfo(name="gpt-oss-20b"), False, {"reasoning_effort": "low"}),
        (ModelInfo(name="m"), "high", {"reasoning_effort": "high"}),
    ],
)
def test_what_is_known_of_a_model_decides_how_reasoning_is_switched(info, think, fields):
    body = openai_payload(make_request(think=think), ServerQuirks(), local=True, llama_cpp=True, info=info)
    assert body.get("chat_template_kwargs", {}) == fields
    level = fields.get("reasoning_effort") if info.reasoning_switches is None else None
    assert body.get("reasoning_effort") == level


async def test_a_model_that_is_known_not_to_reason_gets_no_effort():
    async def models(connection: FakeConnection) -> None:
        await connection.answer(200, {"data": [{"id": "m", "supported_parameters": ["tools"]}]})

    async with openai_server(sse(stream_chunk(content="x"), stream_chunk("stop"))) as server:
        server.routes["/v1/models"] = models
        model = openai_client(server)
        for think in (False, "high"):
            await ask(model, make_request(model="m", think=think))
        await model.describe("m")
        for think in (False, "high"):
            await ask(model, make_request(model="m", think=think))
    fields = [
        set(sent.json) & {"reasoning_effort", "chat_template_kwargs"}
        for sent in server.asked_for("/v1/chat/completions")
    ]
    assert fields == [{"chat_template_kwargs"}, {"reasoning_effort"}, set(), set()]


def test_a_server_that_always_reasons_still_gets_levels():
    quirks = ServerQuirks()
    body = openai_payload(make_request(think=False), quirks)
    assert quirks.adapt(400, "Unsupported value: 'reasoning_effort' does not support 'none'.", body)
    assert "reasoning_effort" not in openai_payload(make_request(think=False), quirks)
    body = openai_payload(make_request(think="low"), quirks)
    assert body["reasoning_effort"] == "low"
    assert quirks.adapt(400, "Unsupported parameter: reasoning_effort", body)
    assert "reasoning_effort" not in openai_payload(make_request(think="low"), quirks)


async def test_c9_a_template_that_wants_no_user_after_a_tool():
    made = ToolCall(id="c1", name=READ, arguments=A)
    history = (
        UserMessage(text="hi"),
        AssistantMessage(text="Reading.", calls=(made,)),
        ToolMessage(call_id="c1", name=READ, text="..."),
        UserMessage(text="and now?"),
    )

    async def chat(connection: FakeConnection) -> None:
        roles = [message["role"] for message in connection.request.json["messages"]]
        if ("tool", "user") in pairwise(roles):
            connection.note("refused")
            await connection.answer(400, {"message": "Unexpected role 'user' after role 'tool'"})
        else:
            await sse(stream_chunk(content="x"), stream_chunk("stop"))(connection)

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server), make_request(*history))).text == "x"
    assert server.log == ["refused"]


async def test_c9_a_400_that_names_nothing_optional_is_final():
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(400, {"error": {"message": "messages: unknown role", "param": "stream_options_x"}})

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server))).fault.status == 400
    assert len(server.requests) == 1


async def test_c10_cancelling_closes_the_connection_at_once():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await connection.events(stream_chunk(content="one"))
        await connection.gone()

    clock = asyncio.get_running_loop().time
    seen = asyncio.Event()

    async def read() -> None:
        async with aclosing(openai_client(server).stream(make_request())) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextFragment):
                    seen.set()

    async with openai_server(chat) as server:
        task = asyncio.create_task(read())
        await seen.wait()
        stopped = clock()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.left.wait(), 60)
    assert server.disconnected[0] - stopped < 0.25 * 5


async def test_c11_reading_progress_is_shown():
    def read(processed: int) -> dict[str, object]:
        return stream_chunk(content=None) | {"prompt_progress": {"total": 200, "cache": 0, "processed": processed}}

    reply = await answered(read(50), read(150), read(150), stream_chunk(content="x"), stream_chunk("stop"))
    assert [(one.done, one.total) for one in reply.pieces if isinstance(one, Phase) and one.total] == [
        (50, 200),
        (150, 200),
    ]


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ({"/v1/models": {"data": [{"id": "m:7b", "owned_by": "llamacpp", "meta": {"n_ctx": 8192}}]}}, True),
        ({"/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}}, True),
        ({"/v1/models": {"data": [{"id": "m:7b", "owned_by": "vllm", "max_model_len": 8192}]}}, False),
        ({}, False),
    ],
)
async def test_c11_only_llama_cpp_is_asked_for_its_progress(answers, asked):
    async with openai_server(sse(stream_chunk("stop", content="x"), "[DONE]")) as server:
        for path, value in answers.items():

            async def answer(connection: FakeConnection, value: object = value) -> None:
                await connection.answer(200, value)

            server.routes[path] = answer
        model = openai_client(server)
        await model.describe("m:7b")
        await ask(model)
        (sent,) = server.asked_for("/v1/chat/completions")
    assert sent.json.get("return_progress", False) is asked


async def test_c11_a_slow_batch_is_waited_for_where_progress_is_told():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        progress = {"total": 200, "cache": 0, "processed": 100}
        await connection.events(stream_chunk(content=None) | {"prompt_progress": progress})
        await asyncio.sleep(0.6)
        await connection.events(stream_chunk("stop", content="x"), "[DONE]")
        await connection.end()

    async with openai_server(chat) as server:
        limits = msgspec.structs.replace(FAST_LIMITS, no_bytes=0.2)
        assert (await ask(openai_client(server, limits=limits))).text == "x"


async def test_c11_a_model_that_loads_is_waited_for():
    async def chat(connection: FakeConnection) -> None:
        if len(server.requests) < 3:
            connection.note("loading")
            await connection.answer(
                503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
            )
        else:
            await sse(stream_chunk(content="x"), stream_chunk("stop"))(connection)

    async with openai_server(chat) as server:
        reply = await ask(openai_client(server))
    assert (reply.text, server.log) == ("x", ["loading", "loading"])
    assert "loading" in reply.phases


@pytest.mark.parametrize(
    "text", ['{"path": "a', '{"path": "a",}', "{'path': 'a'}", "path=a", "[1]", "NaN", '{"a":' * 100 + "1" + "}" * 100]
)
async def test_c12_unreadable_arguments_are_kept_raw(text):
    reply = await answered(calling(tool(text, index=0, id="c1", name=READ)), stream_chunk("length"), "[DONE]")
    call = reply.calls[0]
    if text == "NaN":
        assert (call.arguments, call.fault) == ({}, None)
    else:
        assert (call.arguments, call.raw) == ({}, text)
        assert call.fault
    assert reply.stop == "length"


async def test_c12_raw_line_ends_in_arguments_are_understood():
    reply = await answered(calling(tool('{"path": "a\nb"}', index=0, id="c1", name=READ)), stream_chunk("stop"))
    assert reply.calls[0].arguments == {"path": "a\nb"}


async def test_the_token_goes_out_as_a_bearer_and_never_into_a_message():
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(401, {"error": {"message": "Incorrect API key provided: sk-canary-123."}})

    async with openai_server(chat) as server:
        reply = await ask(openai_client(server, token="sk-canary-123"))
    assert server.requests[0].headers["authorization"] == "Bearer sk-canary-123"
    assert "canary" not in repr(reply.pieces)
    assert "LLM_AUTH_TOKEN" in reply.fault.advice


async def test_names_of_models():
    async def models(connection: FakeConnection) -> None:
        await connection.answer(200, {"object": "list", "data": [{"id": "a"}, {"id": "b"}, {}]})

    async with openai_server(sse()) as server:
        server.routes["/v1/models"] = models
        assert await openai_client(server).list_models() == ("a", "b")
