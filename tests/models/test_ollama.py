from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import msgspec
import pytest

from tests.doubles.raw_server import FakeConnection
from tests.models.asking import (
    DONE,
    FAST_LIMITS,
    TOOL,
    ask,
    expect_info,
    make_request,
    ndjson,
    ollama_client,
    ollama_line,
    ollama_server,
    raw_body,
)
from tui_agent.common.domain import (
    AssistantMessage,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from tui_agent.models.base import TextFragment


def call(name: str, arguments: object, **more: object) -> dict[str, object]:
    return {"function": {"name": name, "arguments": arguments}} | more


async def test_the_straight_path():
    final = ollama_line(done=True, done_reason="stop", prompt_eval_count=11, eval_count=4)
    async with ollama_server(ndjson(ollama_line("Hel"), ollama_line("lo"), final)) as server:
        reply = await ask(ollama_client(server))
    assert (reply.text, reply.stop) == ("Hello", "stop")
    assert reply.phases[0] == "connecting"
    assert reply.usage == Usage(prompt_tokens=11, completion_tokens=4)


async def test_o1_lines_end_at_line_feed_only_and_characters_may_be_torn():
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg 👩‍👩‍👧"
    line = json.dumps(ollama_line(text), ensure_ascii=False).replace("\\u000b", "\x0b").encode()
    body = line + b"\n" + json.dumps(DONE).encode() + b"\n"
    async with ollama_server(raw_body(200, "application/x-ndjson", body, split=range(1, len(body)))) as server:
        reply = await ask(ollama_client(server))
    assert (reply.text, reply.stop) == (text, "stop")


@pytest.mark.parametrize(("reason", "stop"), [("stop", "stop"), ("length", "length"), ("", ""), (None, "")])
async def test_o2_done_reasons(reason, stop):
    async with ollama_server(ndjson(ollama_line("x"), ollama_line(done=True, done_reason=reason))) as server:
        assert (await ask(ollama_client(server))).stop == stop


async def test_o2_a_reply_that_only_loads_the_model_is_no_reply():
    async with ollama_server(ndjson(ollama_line(done=True, done_reason="load"))) as server:
        assert (await ask(ollama_client(server))).fault.kind == "protocol"


async def test_o2_calls_tell_not_the_reason():
    async with ollama_server(ndjson(ollama_line(tool_calls=[call("read_file", {})]), DONE)) as server:
        assert (await ask(ollama_client(server))).stop == "tool_calls"


async def test_o3_nanoseconds_become_milliseconds_and_what_is_missing_is_unknown():
    full = ollama_line(
        done=True,
        load_duration=1_500_000_000,
        prompt_eval_count=26,
        prompt_eval_cached_count=20,
        prompt_eval_duration=130_079_000,
        eval_count=259,
        eval_duration=4_232_710_000,
    )
    async with ollama_server(ndjson(full)) as server:
        assert (await ask(ollama_client(server))).usage == Usage(
            prompt_tokens=26, completion_tokens=259, cached_tokens=20, load_ms=1500, prompt_ms=130, generate_ms=4233
        )
    async with ollama_server(ndjson(ollama_line(done=True, prompt_eval_count=0, eval_count=-3))) as server:
        assert (await ask(ollama_client(server))).usage == Usage()


async def test_o4_error_line_inside_a_200_stream():
    async with ollama_server(ndjson(ollama_line("part"), {"error": "model runner has unexpectedly stopped"})) as server:
        reply = await ask(ollama_client(server))
    assert reply.text == "part"
    assert reply.fault.kind == "status"
    assert "model runner has unexpectedly stopped" in reply.fault.message
    assert not reply.fault.retryable


async def test_o4_error_under_another_key():
    line = {"error parsing tool call": "raw='{\"a\": ', err=unexpected end of JSON input"}
    async with ollama_server(ndjson(ollama_line("part"), line)) as server:
        reply = await ask(ollama_client(server))
    assert reply.fault.kind == "model_output"
    assert "raw=" in reply.fault.message


async def test_o4_error_before_the_first_byte():
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(400, {"error": "invalid options: num_ctx"})

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server))).fault
    assert (fault.status, fault.retryable) == (400, False)
    assert "invalid options: num_ctx" in fault.message


async def test_o12_keep_alive_and_the_window_are_the_same_in_every_request():
    async with ollama_server(ndjson(ollama_line("x"), DONE)) as server:
        model = ollama_client(server)
        for text in ("one", "two"):
            await ask(model, make_request(UserMessage(text=text), num_ctx=16384, temperature=0.2))
    first, second = (sent.json for sent in server.asked_for("/api/chat"))
    assert first["keep_alive"] == "30m"
    assert (first["truncate"], first["shift"]) == (False, False)
    assert first["options"] == {"num_ctx": 16384, "temperature": 0.2}
    assert first | {"messages": []} == second | {"messages": []}


async def test_o13_a_stream_that_just_ends_is_broken():
    async with ollama_server(ndjson(ollama_line("so so so "), ollama_line("so so so"))) as server:
        reply = await ask(ollama_client(server))
    assert reply.text == "so so so so so so"
    assert (reply.fault.kind, reply.fault.retryable) == ("broken", False)


async def test_o14_arguments_are_objects_both_ways_and_ids_are_made_where_missing():
    calls = [call("read_file", {"path": "a"}), call("read_file", {"path": "b"}, id="call_x")]
    history = (
        UserMessage(text="hi"),
        AssistantMessage(text="", calls=(ToolCall(id="call_x", name="read_file", arguments={"path": "z"}),)),
        ToolMessage(call_id="call_x", name="read_file", text="zzz"),
    )
    async with ollama_server(ndjson(ollama_line(tool_calls=calls), DONE)) as server:
        reply = await ask(ollama_client(server), make_request(*history, tools=(TOOL,)))
    assert [made.arguments for made in reply.calls] == [{"path": "a"}, {"path": "b"}]
    ids = [made.id for made in reply.calls]
    assert all(made.startswith("call_") for made in ids)
    assert len({*ids, "call_x"}) == 3  # an id that the history has is not given out again
    sent = server.asked_for("/api/chat")[0].json
    assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"path": "z"}
    assert sent["tools"][0]["function"]["name"] == "read_file"


async def test_o15_calls_in_several_chunks_and_in_the_last_one_are_all_kept():
    lines = (
        ollama_line(thinking="hm", tool_calls=[call("a", {})]),
        ollama_line(tool_calls=[call("b", {})]),
        ollama_line(tool_calls=[call("c", {}), call("d", {})], done=True, done_reason="stop"),
    )
    async with ollama_server(ndjson(*lines)) as server:
        reply = await ask(ollama_client(server))
    assert [made.name for made in reply.calls] == ["a", "b", "c", "d"]
    assert (reply.thought, reply.text, reply.stop) == ("hm", "", "tool_calls")


async def test_o16_results_name_their_tool_and_thinking_goes_back_with_its_calls_only():
    made = ToolCall(id="call_1", name="read_file", arguments={"path": "a"})
    history = (
        SystemMessage(text="rules"),
        UserMessage(text="hi"),
        AssistantMessage(text="Hello", reasoning="alone"),
        ProgramMessage(text="<agent_feedback>\ngo on\n</agent_feedback>"),
        AssistantMessage(text="", calls=(made,), reasoning="with a call"),
        ToolMessage(call_id="call_1", name="read_file", text="content"),
    )
    async with ollama_server(ndjson(ollama_line("x"), DONE)) as server:
        await ask(ollama_client(server), make_request(*history))
    assert server.asked_for("/api/chat")[0].json["messages"] == [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "<agent_feedback>\ngo on\n</agent_feedback>"},
        {
            "role": "assistant",
            "content": "",
            "thinking": "with a call",
            "tool_calls": [{"id": "call_1", "function": {"index": 0, "name": "read_file", "arguments": {"path": "a"}}}],
        },
        {"role": "tool", "content": "content", "tool_name": "read_file", "tool_call_id": "call_1"},
    ]


async def test_o17_a_model_without_tools_is_a_clear_refusal():
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(400, {"error": "registry.ollama.ai/library/m:7b does not support tools"})

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server), make_request(tools=(TOOL,)))).fault
    assert (fault.kind, fault.status, fault.retryable) == ("status", 400, False)
    assert "does not support tools" in fault.message
    assert "m:7b has no native tool calls" in fault.advice


async def test_o17_missing_capabilities_are_unknown_not_none():
    async with ollama_server(ndjson(DONE), details={}) as server:
        info = expect_info(await ollama_client(server).describe("m:7b"))
    assert info.capabilities is None


@pytest.mark.parametrize("mid_stream", [False, True])
async def test_o18_output_that_the_server_cannot_parse_is_no_reason_to_retry(mid_stream):
    error = {"error": 'error parsing tool call: raw=\'{"path": "a\nb"\', err=invalid character'}

    async def chat(connection: FakeConnection) -> None:
        if mid_stream:
            await ndjson(ollama_line("x"), error)(connection)
        else:
            await connection.answer(500, error)

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, retries=True))
    assert reply.fault.kind == "model_output"
    assert "raw='{" in reply.fault.message
    assert len(server.asked_for("/api/chat")) == 1


@pytest.mark.parametrize(
    ("capabilities", "wanted", "sent"),
    [
        (["completion", "thinking"], None, True),
        (["completion", "thinking"], False, False),
        (["completion", "thinking"], "low", "low"),
        (["completion", "tools"], None, None),
        (["completion", "tools"], True, None),
        (None, None, None),
    ],
)
async def test_o19_think_is_sent_only_where_the_capability_says_so(capabilities, wanted, sent):
    show = {"details": {}} | ({"capabilities": capabilities} if capabilities else {})
    async with ollama_server(ndjson(ollama_line("x"), DONE), **show) as server:
        await ask(ollama_client(server), make_request(think=wanted))
    assert server.asked_for("/api/chat")[0].json.get("think") == sent


@pytest.mark.parametrize(("wanted", "sent"), [(False, "low"), ("high", "high"), (None, True)])
async def test_o19_gpt_oss_always_reasons_and_knows_levels_only(wanted, sent):
    async with ollama_server(ndjson(ollama_line("x"), DONE), capabilities=["thinking"]) as server:
        await ask(ollama_client(server), make_request(model="gpt-oss:20b", think=wanted))
    assert server.asked_for("/api/chat")[0].json["think"] == sent


async def test_o19_think_is_dropped_on_its_400_and_that_is_remembered():
    async def chat(connection: FakeConnection) -> None:
        if "think" in connection.request.json:
            connection.note("refused think")
            await connection.answer(400, {"error": '"m:7b" does not support thinking'})
        else:
            await ndjson(ollama_line("fine"), DONE)(connection)

    async with ollama_server(chat, capabilities=["thinking"]) as server:
        model = ollama_client(server)
        assert (await ask(model)).text == "fine"
        assert (await ask(model)).text == "fine"
    assert server.log == ["refused think"]
    assert ["think" in sent.json for sent in server.asked_for("/api/chat")] == [True, False, False]


async def test_o20_thinking_comes_apart_and_tags_in_the_text_are_left_to_their_reader():
    lines = (
        ollama_line(thinking="first "),
        ollama_line(thinking="second"),
        ollama_line("<think>old</think>answer"),
        DONE,
    )
    async with ollama_server(ndjson(*lines)) as server:
        reply = await ask(ollama_client(server))
    assert (reply.thought, reply.text) == ("first second", "<think>old</think>answer")


async def test_o22_what_show_tags_ps_and_version_say():
    async with ollama_server(
        ndjson(DONE),
        capabilities=["completion", "tools"],
        model_info={"general.architecture": "qwen3", "qwen3.context_length": 40960},
        parameters="num_ctx 8192",
    ) as server:

        async def ps(connection: FakeConnection) -> None:
            await connection.answer(200, {"models": [{"name": "m:latest", "context_length": 16384}]})

        async def tags(connection: FakeConnection) -> None:
            await connection.answer(200, {"models": [{"name": "m:latest"}, {"model": "n:1b"}, 7, {}]})

        async def version(connection: FakeConnection) -> None:
            await connection.answer(200, {"version": "0.12.10"})

        server.routes |= {"/api/ps": ps, "/api/tags": tags, "/api/version": version}
        model = ollama_client(server)
        info = expect_info(await model.describe("m"))
        again = await model.describe("m")
        names = await model.list_models()
        assert await model.version() == "0.12.10"  # type: ignore[attr-defined] # Ollama's own
    assert (info.capabilities, info.context_window, info.loaded_window) == (("completion", "tools"), 40960, 16384)
    assert again == info
    assert len(server.asked_for("/api/show")) == 1
    assert server.requests[0].json == {"model": "m"}
    assert names == ("m:latest", "n:1b")


async def test_o22_what_a_model_takes_in_memory():
    facts = {
        "general.architecture": "qwen3",
        "qwen3.block_count": 4,
        "qwen3.attention.head_count": 16,
        "qwen3.attention.head_count_kv": [4, 0, 4, 4],
        "qwen3.attention.key_length": 128,
        "qwen3.attention.value_length": 64,
        "qwen3.embedding_length": 2048,
        "tokenizer.ggml.tokens": None,
    }
    async with ollama_server(ndjson(DONE), model_info=facts) as server:
        entry = {"name": "m:latest", "size": 6_000_000_000, "size_vram": 3_000_000_000}
        running: list[object] = [entry]

        async def ps(connection: FakeConnection) -> None:
            await connection.answer(200, {"models": running})

        async def tags(connection: FakeConnection) -> None:
            await connection.answer(200, {"models": [{"name": "m:latest", "size": 4_700_000_000}]})

        server.routes |= {"/api/ps": ps, "/api/tags": tags}
        model = ollama_client(server)
        await model.list_models()
        info = expect_info(await model.describe("m:latest"))
        running.clear()
        unloaded = expect_info(await model.describe("m:latest"))
    assert (info.loaded, info.size, info.memory, info.graphics_memory) == (
        True, 4_700_000_000, 6_000_000_000, 3_000_000_000,
    )  # fmt: skip
    assert info.cache_bytes == 3 * 4 * (128 + 64) * 2
    assert (unloaded.loaded, unloaded.memory, unloaded.graphics_memory) == (False, None, None)


@pytest.mark.parametrize(
    "facts",
    [
        {"general.architecture": 7},
        {"general.architecture": "q", "q.block_count": "4"},
        {"general.architecture": "q", "q.block_count": 4, "q.attention.head_count": ["a", None]},
        {"general.architecture": "q", "q.block_count": 2, "q.attention.head_count": [8, "a"], "q.embedding_length": 64},
        {"general.architecture": "q", "q.block_count": 2, "q.attention.head_count": [None, 3]},
        {"general.architecture": "q", "q.block_count": 2, "q.attention.head_count_kv": [[1], {}]},
        {"general.architecture": "q", "q.block_count": 1e300, "q.attention.head_count": -1},
        {"general.architecture": "q", "q.block_count": 2, "q.attention.head_count": None, "q.embedding_length": 0},
    ],
)
async def test_o22_strange_facts_are_unknown(facts):
    async with ollama_server(ndjson(DONE), model_info=facts) as server:
        assert expect_info(await ollama_client(server).describe("m")).cache_bytes is None


@pytest.mark.parametrize(
    ("status", "error", "retryable", "advice"),
    [
        (404, {"error": "model 'm:7b' not found"}, False, "ollama pull m:7b"),
        (401, {"error": "unauthorized", "signin_url": "https://ollama.com/connect?k=1"}, False, "ollama signin"),
        (403, {"error": "cloud is disabled"}, False, "may not use"),
        (429, {"error": "too many requests"}, True, ""),
        (499, {"error": "request cancelled"}, False, ""),
        (500, {"error": "llama runner process has terminated"}, True, ""),
        (500, {"error": "model requires more system memory (9.1 GiB) than is available"}, False, "smaller"),
        (502, {"error": "upstream"}, True, ""),
        (503, {"error": "server busy, please try again.  maximum pending requests exceeded"}, True, ""),
    ],
)
async def test_o23_status_codes(status, error, retryable, advice):
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(status, error)

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server))).fault
    assert (fault.status, fault.retryable) == (status, retryable)
    assert error["error"].split()[0] in fault.message
    assert advice in fault.advice


async def test_o24_closing_the_iterator_closes_the_connection_at_once():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(ollama_line("one"))
        await connection.gone()

    clock = asyncio.get_running_loop().time
    async with ollama_server(chat) as server:
        async with aclosing(ollama_client(server).stream(make_request())) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextFragment):
                    break
            stopped = clock()
        await asyncio.wait_for(server.left.wait(), 60)
    assert server.disconnected[0] - stopped < 0.25 * 5


@pytest.mark.parametrize("history", [(UserMessage(text=""),), (AssistantMessage(text=""),)])
async def test_o25_an_empty_list_of_messages_is_never_sent(history):
    async with ollama_server(ndjson(DONE)) as server:
        assert (await ask(ollama_client(server), make_request(*history))).fault.kind == "protocol"
    assert server.asked_for("/api/chat") == []


async def test_o25_the_body_is_json():
    async with ollama_server(ndjson(ollama_line("x"), DONE)) as server:
        await ask(ollama_client(server))
    assert server.asked_for("/api/chat")[0].headers["content-type"] == "application/json"
    assert server.asked_for("/api/chat")[0].headers["accept-encoding"] == "identity"


async def test_o26_an_old_server_without_show_ps_and_version_still_answers():
    async with ollama_server(ndjson(ollama_line("x"), ollama_line(done=True))) as server:
        model = ollama_client(server)
        reply = await ask(model, make_request(num_ctx=8192))
        assert (await model.version()).status == 404  # type: ignore[attr-defined] # Ollama's own
    assert (reply.text, reply.stop) == ("x", "")
    assert "think" not in server.asked_for("/api/chat")[0].json


@pytest.mark.parametrize("loaded", [False, True])
async def test_a_silent_server_is_asked_whether_it_loads_or_reads(loaded):
    asked = asyncio.Event()

    async def ps(connection: FakeConnection) -> None:
        await connection.answer(200, {"models": [{"name": "m:7b", "context_length": 4096}] if loaded else []})
        asked.set()

    async def chat(connection: FakeConnection) -> None:
        await asked.wait()
        await asyncio.sleep(0.1)  # the answer to /api/ps must reach the client first
        await ndjson(ollama_line("x"), DONE)(connection)

    async with ollama_server(chat) as server:
        server.routes["/api/ps"] = ps
        reply = await ask(ollama_client(server))
    assert reply.phases[-1] == ("reading" if loaded else "loading")
    assert reply.text == "x"


@pytest.mark.parametrize("alive", [True, False])
async def test_silence_while_a_whole_call_is_held_back_is_borne_if_the_server_is_alive(alive):
    limits = msgspec.structs.replace(FAST_LIMITS, no_bytes=0.2)
    asked = asyncio.Event()

    async def ps(connection: FakeConnection) -> None:
        await connection.answer(200, {"models": [{"name": "m:7b"}] if alive else []})
        asked.set()

    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(ollama_line("I will write it."))
        await asked.wait()
        if not alive:
            await connection.gone()
            return
        await connection.lines(ollama_line(tool_calls=[call("write_file", {"path": "a"})]), DONE)
        await connection.end()

    async with ollama_server(chat) as server:
        server.routes["/api/ps"] = ps
        reply = await ask(ollama_client(server, limits=limits), make_request(tools=(TOOL,)))
    assert reply.text == "I will write it."
    if alive:
        assert reply.stop == "tool_calls"
    else:
        assert reply.fault.kind == "timeout"


async def test_a_window_that_is_too_small_is_named():
    error = {
        "error": json.dumps(
            {
                "error": {
                    "code": 400,
                    "message": "request (9000 tokens) exceeds the available context size (4096 tokens)",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9000,
                    "n_ctx": 4096,
                }
            }
        )
    }

    async def chat(connection: FakeConnection) -> None:
        await connection.answer(400, error)

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server))).fault
    assert (fault.kind, fault.n_ctx, fault.n_prompt, fault.retryable) == ("context_overflow", 4096, 9000, False)


async def test_the_window_error_of_a_prompt_that_may_not_be_cut():
    text = (
        "the prompt is longer than the context length currently available to the model; shorten the prompt, "
        "adjust the context length or set truncate to true"
    )

    async def chat(connection: FakeConnection) -> None:
        await connection.answer(400, {"error": text})

    async with ollama_server(chat) as server:
        assert (await ask(ollama_client(server))).fault.kind == "context_overflow"
