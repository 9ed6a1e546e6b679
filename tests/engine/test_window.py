from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.ollama import Body, FakeOllama, estimate_tokens, request_text
from tests.engine.kit import SessionDriver, run_session
from tui_agent.events import ContextCompacted, ContextMeasured, Notice, ReplyEnded
from tui_agent.mock_server.replies import ServedModel

SUMMARY = "\n".join(
    f"## {part}\nsomething of it"
    for part in ("State", "Work done", "Files", "Failed approaches", "Promises", "Remaining", "Key facts")
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = make_workspace(tmp_path / "work")
    for number in range(40):
        text = "".join(f"value_{number}_{line} = compute({line})\n" for line in range(120))
        (place / f"part{number}.py").write_text(text, encoding="utf-8")
    return place


def reads(number: int) -> Body:
    return {"tool_calls": [{"function": {"name": "read_file", "arguments": {"path": f"part{number}.py"}}}]}


def wants_summary(body: Body) -> bool:
    return "seven headings" in body["messages"][0]["content"]


def notices(watch: SessionDriver, code: str) -> list[Notice]:
    return [notice for notice in watch.of(Notice) if notice.code == code]


async def run(server: Any, workspace: Path, text: str = "look around", **flags: Any) -> SessionDriver:
    async with run_session(server, workspace, provider="ollama", flags=flags) as session:
        watch = SessionDriver(session)
        await session.send(text)
        await watch.ended()
        await session.wait()
    return watch


async def test_twenty_requests_carry_one_window_and_the_same_switches(workspace: Path) -> None:
    steps = [step(None, call("read_file", path=f"part{n}.py", end_line=3)) for n in range(19)]
    async with serve(scenario("look", *steps, "done"), strict=True) as server:
        watch = await run(server, workspace, iterations={"direct": 30})
    assert len(server.requests) == 20
    assert {request.body["options"]["num_ctx"] for request in server.requests} == {32_768}
    for name, value in (("truncate", False), ("shift", False), ("keep_alive", "30m")):
        assert all(request.body[name] == value for request in server.requests)
    assert not notices(watch, "context.truncated")


async def test_the_limit_shown_is_the_window_in_effect(workspace: Path) -> None:
    async with FakeOllama(lambda body: {"content": "hello"}, window=20_480) as server:
        watch = await run(server, workspace)
    assert watch.of(ContextMeasured)[-1].limit == 20_480
    (notice,) = notices(watch, "context.lowered")
    assert "20,480 tokens instead of 32,768" in notice.text
    assert "OLLAMA_CONTEXT_LENGTH=32768 ollama serve" in notice.text


async def test_a_small_window_is_told_with_the_exact_fix(workspace: Path) -> None:
    models = [ServedModel(name="mock-model", context_length=8_192)]
    async with serve(scenario("", "hello"), models=models) as server:
        trained = await run(server, workspace)
    async with serve(scenario("", "hello")) as server:
        chosen = await run(server, workspace, context_window=4_096)
        held = await run(server, workspace, context_window=8_192, provider="openai")
    assert "8,192 tokens" in notices(trained, "context.small")[0].text
    assert "choose a model that was trained for more" in notices(trained, "context.small")[0].text
    told = [notice.text for notice in notices(chosen, "context.small")]
    assert len(told) == 2  # little for coding work, and little beside rules and tools
    assert all("`--context-window 32768`" in text for text in told)
    assert "the server has 32,768" in notices(held, "context.small")[0].text


async def test_the_parts_of_the_window_add_up(workspace: Path) -> None:
    steps: list[dict[str, Any] | str] = [
        step(None, call("read_file", path="part1.py")),
        step(None, call("list_files", path=".")),
        "done",
    ]
    async with serve(scenario("look", *steps)) as server:
        watch = await run(server, workspace)
    measured = watch.of(ContextMeasured)[-1]
    assert measured.used is not None and not measured.estimated
    assert sum(measured.parts.values()) == measured.used
    assert set(measured.parts) == {"system", "tools", "messages", "results", "files"}
    assert min(measured.parts.values()) > 0
    assert measured.parts["files"] > measured.parts["results"]
    assert measured.used == estimate_tokens(server.requests[-1].body) + 1


async def test_a_count_that_is_left_out_is_estimated_and_marked(workspace: Path) -> None:
    async with FakeOllama(lambda body: {"content": "hello"}, count=lambda body: None) as server:
        watch = await run(server, workspace)
    measured = watch.of(ContextMeasured)[-1]
    assert measured.estimated
    assert measured.used == pytest.approx(estimate_tokens(server.bodies[-1]), rel=0.3)


# --- a server that cuts ---


async def test_a_prompt_cut_by_the_server_is_told_at_the_first_reply(workspace: Path) -> None:
    text = "Explain this log: " + "the worker took the next job and wrote what it found to disk. " * 700
    async with serve(scenario("Explain", "it is fine"), faults=["truncate"]) as server:
        watch = await run(server, workspace, text, context_window=16_384)
    assert server.requests[0].fired
    (notice,) = notices(watch, "context.truncated")
    assert notice.level == "warning"
    assert "read 8,194 of about" in notice.text
    assert watch.of(ContextMeasured)[0].truncated == 8_194


async def test_a_server_with_a_smaller_window_than_asked_for_is_caught(workspace: Path) -> None:
    text = "Explain this log: " + "the worker took the next job and wrote what it found to disk. " * 500
    async with serve(scenario("Explain", "it is fine"), faults=["truncate:window=4096"]) as server:
        watch = await run(server, workspace, text)
    assert "read 2,050 of about" in notices(watch, "context.truncated")[0].text
    assert watch.of(ContextMeasured)[-1].limit == 4_096


async def test_an_inferred_window_into_which_nothing_fits_does_not_block_the_session(workspace: Path) -> None:
    def count(body: Body) -> int:
        replies = sum(message["role"] == "assistant" for message in body["messages"])
        return 2_050 if replies == 1 else estimate_tokens(body)  # as from a server with a window of 4,096

    sentence = "the worker took the next job and wrote what it found to disk. "
    first, longer = f"Explain this log: {sentence * 110}", f"And this one: {sentence * 180}"
    async with FakeOllama(lambda body: {"content": "it is fine"}, count=count) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            ends = []
            for text in (first, "And then?", longer, longer):
                await session.send(text)
                ends.append((await watch.ended()).outcome)
    assert [one.limit for one in watch.of(ContextMeasured)] == [32_768, 4_096, 32_768]
    assert ends == ["done", "done", "limit", "done"]


@pytest.mark.parametrize("server_does", ["counts", "omits", "lowers"])
async def test_honest_servers_raise_no_warning(workspace: Path, server_does: str) -> None:
    (workspace / "cjk.txt").write_text("代理在更改文件之前先读取文件。\n" * 400, encoding="utf-8")
    (workspace / "key.txt").write_text("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0MTIzNDU2Nzg5\n" * 100, encoding="utf-8")
    names = ["cjk.txt", "key.txt", *(f"part{n}.py" for n in range(6))]
    seen: list[int] = []

    def count(body: Body) -> int | None:
        whole = estimate_tokens(body)
        seen.append(whole)
        if server_does == "counts" or len(seen) == 1:
            return whole
        return None if server_does == "omits" else whole - seen[-2]

    def answer(body: Body) -> Body:
        done = sum(message["role"] == "tool" for message in body["messages"])
        if done == len(names):
            return {"content": "done"}
        return {"tool_calls": [{"function": {"name": "read_file", "arguments": {"path": names[done]}}}]}

    async with FakeOllama(answer, count=count) as server:
        watch = await run(server, workspace, context_window=65_536)
    assert len(server.bodies) == len(names) + 1
    assert [notice.code for notice in watch.of(Notice) if notice.code.startswith("context")] == []


# --- a server that refuses ---


async def test_an_overflow_is_learnt_from_compacted_and_sent_once_more(workspace: Path) -> None:
    def answer(body: Body) -> Body:
        if wants_summary(body):
            return {"content": SUMMARY}
        done = sum(message["role"] == "tool" for message in body["messages"])
        return {"content": "done"} if "something of it" in request_text(body) else reads(done)

    async with FakeOllama(answer, window=6_000, refuses=True) as server:
        server.window = None
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("Read the parts")
            await watch.until(lambda record: len(watch.of(ReplyEnded)) == 5)
            server.window = 6_000
            ended = await watch.ended()
    assert ended.outcome == "done"
    assert len(server.refused) == 1
    assert watch.of(ContextCompacted)
    assert estimate_tokens(server.bodies[-1]) < 6_000
    assert watch.of(ContextMeasured)[-1].limit == 6_000
    assert {body["options"]["num_ctx"] for body in server.bodies} == {32_768}


async def test_what_does_not_fit_is_not_sent(workspace: Path) -> None:
    text = "Explain: " + "the worker took the next job and wrote what it found to disk. " * 700
    async with serve(scenario("Explain", "fine")) as server:
        async with run_session(server, workspace, provider="ollama", flags={"context_window": 8_192}) as session:
            watch = SessionDriver(session)
            await session.send(text)
            ended = await watch.ended()
    assert not server.requests
    assert ended.outcome == "limit"
    assert "context is full" in ended.text
    assert "--context-window 32768" in ended.text


async def test_fewer_entries_of_the_plans_log_come_before_any_compaction(workspace: Path) -> None:
    entries = [
        f"### 2025-01-01 10:{number:02} - Entry {number}\n**Actions:** {f'detail{number} ' * 70}\n"
        for number in range(12)
    ]
    doc = "# Plan: Ship\n\n## Execution Log\n" + "\n".join(entries)
    models = [ServedModel(name="mock-model", context_length=8_192)]
    async with serve(scenario("hello", "Hello."), strict=True, models=models) as server:
        async with run_session(server, workspace, provider="ollama", flags={"mode": "direct"}) as session:
            await session.edit_plan(doc)
            watch = SessionDriver(session)
            await session.send("hello" + " and so on, with more" * 620)
            await watch.ended()
    assert len(server.requests) == 1  # no summary was asked for
    for request in server.requests:
        told = str(request.messages)
        assert "detail7 detail7" in told and "detail6" not in told and "Entry 6" in told
    events = watch.of(ContextCompacted)
    assert [(one.entries, one.users, one.summary) for one in events] == [(5, 0, "")]
    assert all(one.after < one.before for one in events)


@pytest.mark.parametrize("window", [4_096, 8_192])
async def test_a_prompt_cut_to_a_window_that_the_server_does_not_tell_is_noticed(window: int, workspace: Path) -> None:
    def answer(body: Body) -> Body:
        done = sum(message["role"] == "tool" for message in body["messages"])
        return {"content": "done"} if done == 10 else reads(done)

    async with FakeOllama(answer, count=lambda body: min(estimate_tokens(body), window)) as server:
        watch = await run(server, workspace, iterations={"direct": 30})
    sizes = [estimate_tokens(body) for body in server.bodies]
    (notice,) = notices(watch, "context.truncated")
    assert f"read {window:,} of about" in notice.text
    cut = [bool(one.truncated) for one in watch.of(ContextMeasured)]
    first = cut.index(True)
    assert sizes[first] > window and (first == 0 or sizes[first - 1] < 1.2 * window)
