from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.doubles.mock import MockServer, call, scenario, serve, step

if TYPE_CHECKING:
    import openai

JOB = scenario(
    "fix it",
    step(
        "I'll read it — “first”.",
        call("read_file", path="a.py", note="ünïcode line"),
        call("list_files", path="."),
        thinking="Let me think about it for a while.",
    ),
    "Both done.",
    "Done.",
)
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "read_file", "description": "Read.", "parameters": {"type": "object", "properties": {}}},
    }
]


def client(server: MockServer, path: str = "/v1") -> openai.AsyncOpenAI:
    import openai  # as much to load as all tests together

    return openai.AsyncOpenAI(base_url=server.url + path, api_key="none", max_retries=0)


async def test_openai_package_streams_text_calls_and_usage():
    async with serve(JOB, strict=True) as server, client(server) as api:
        text, thought, reasons, usage = "", "", [], None
        calls: dict[int, dict[str, str]] = {}
        stream = await api.chat.completions.create(
            model="any",
            messages=[{"role": "user", "content": "please fix it"}],
            tools=TOOLS,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            assert chunk.id.startswith("mock-")
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thought += getattr(choice.delta, "reasoning_content", None) or ""
                reasons += [choice.finish_reason] if choice.finish_reason else []
                for delta in choice.delta.tool_calls or []:
                    made = calls.setdefault(delta.index, {"id": "", "name": "", "arguments": "", "deltas": ""})
                    assert delta.function is not None
                    made["id"] += delta.id or ""
                    made["name"] += delta.function.name or ""
                    made["arguments"] += delta.function.arguments or ""
                    made["deltas"] += "."
    assert text == "I'll read it — “first”."
    assert thought == "Let me think about it for a while."
    assert reasons == ["tool_calls"]
    assert [made["name"] for made in calls.values()] == ["read_file", "list_files"]
    assert json.loads(calls[0]["arguments"]) == {"path": "a.py", "note": "ünïcode line"}
    assert len(calls[0]["deltas"]) > 2
    assert calls[0]["id"] != calls[1]["id"]
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens >= len(text) // 4


async def test_openai_package_reads_a_whole_reply_without_v1():
    async with serve(JOB, strict=True) as server, client(server, "") as api:
        reply = await api.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "please fix it"}], tools=TOOLS
        )
        message = reply.choices[0].message
        assert reply.choices[0].finish_reason == "tool_calls"
        assert message.content == "I'll read it — “first”."
        assert message.tool_calls is not None
        results: list[Any] = [{"role": "tool", "tool_call_id": made.id, "content": "ok"} for made in message.tool_calls]
        final = await api.chat.completions.create(
            model="any",
            messages=[
                {"role": "user", "content": "please fix it"},
                message.model_dump(include={"role", "content", "tool_calls"}),  # type: ignore[list-item]  # a dict of the right shape
                *results,
            ],
            tools=TOOLS,
        )
        assert final.choices[0].message.content == "Done."
        assert final.choices[0].finish_reason == "stop"
        assert [one.step for one in server.requests] == [0, 2]


async def test_openai_package_lists_models():
    async with serve(models=["small", "large"]) as server, client(server) as api:
        assert [model.id async for model in api.models.list()] == ["small", "large"]
        assert (await api.models.retrieve("large")).id == "large"


async def test_ollama_package_streams_text_calls_and_counts():
    import ollama

    async with serve(JOB, strict=True) as server:
        api = ollama.AsyncClient(host=server.url)
        text, thought, last = "", "", None
        calls: list[Any] = []
        async for part in await api.chat(
            model="any", messages=[{"role": "user", "content": "please fix it"}], tools=TOOLS, stream=True, think=True
        ):
            text += part.message.content or ""
            thought += part.message.thinking or ""
            calls += part.message.tool_calls or []
            last = part
    assert text == "I'll read it — “first”."
    assert thought == "Let me think about it for a while."
    assert [made.function.name for made in calls] == ["read_file", "list_files"]
    assert calls[0].function.arguments == {"path": "a.py", "note": "ünïcode line"}
    assert last is not None
    assert (last.done, last.done_reason) == (True, "stop")
    assert last.eval_count
    assert last.prompt_eval_count


async def test_ollama_package_reads_a_whole_reply_and_asks_about_models():
    import ollama

    async with serve(JOB, strict=True, models=["coder:7b"]) as server:
        api = ollama.AsyncClient(host=server.url)
        reply = await api.chat(
            model="coder:7b",
            messages=[{"role": "user", "content": "please fix it"}],
            tools=TOOLS,
            options={"num_ctx": 8192},
        )
        assert reply.message.content == "I'll read it — “first”."
        assert reply.message.tool_calls is not None
        final = await api.chat(
            model="coder:7b",
            messages=[
                {"role": "user", "content": "please fix it"},
                reply.message,
                {"role": "tool", "tool_name": "read_file", "content": "a"},
                {"role": "tool", "tool_name": "list_files", "content": "b"},
            ],
            tools=TOOLS,
        )
        assert final.message.content == "Done."
        assert (await api.list()).models[0].model == "coder:7b"
        shown = await api.show("coder:7b")
        assert shown.capabilities == ["completion", "tools", "thinking"]
        assert (await api.ps()).models[0].context_length == 4096


async def test_seed_file_works_unchanged_over_http(tmp_path: Path):
    seed = Path(__file__).with_name("seed_001.json")
    said: list[str] = []
    async with MockServer(seed, strict=True) as server, client(server, "") as api:
        messages: list[Any] = [{"role": "user", "content": "make a hello world script"}]
        while True:
            reply = await api.chat.completions.create(model="mock-model", messages=messages, tools=TOOLS)
            message = reply.choices[0].message
            said.append(message.content or "")
            messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
            if not message.tool_calls:
                break
            results = [{"role": "tool", "tool_call_id": made.id, "content": "OK"} for made in message.tool_calls]
            messages += results
        assert [made["tool_calls"][0]["function"]["name"] for made in messages if made.get("tool_calls")] == [
            "write_file",
            "bash",
        ]
        assert said[-1] == "Done! The script works correctly and outputs 'Hello, World!'"
        chat = await api.chat.completions.create(
            model="mock-model", messages=[{"role": "user", "content": "so, how are you?"}]
        )
        assert chat.choices[0].message.content == "I'm doing well, thank you for asking!"
        other = await api.chat.completions.create(
            model="mock-model", messages=[{"role": "user", "content": "what's up"}]
        )
        assert other.choices[0].message.content == ("I'm a mock server. I only understand specific test scenarios.")
