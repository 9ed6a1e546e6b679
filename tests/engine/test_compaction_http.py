from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.doubles.ollama import Body, FakeOllama, estimate_tokens, request_text
from tests.engine.kit import SessionDriver, run_session
from tests.engine.test_window import SUMMARY, notices, reads, wants_summary, workspace
from tui_agent.engine.context.window_notices import COMPACTION_SCHEDULED, NOTHING_TO_COMPACT
from tui_agent.engine.core.history import History
from tui_agent.engine.session import Session
from tui_agent.events import ContextCompacted, ProgramMessageAdded, Record, ReplyEnded, ReplyStarted, RunEnded

__all__ = ["workspace"]

pytestmark = pytest.mark.timeout(240)

Protocol = Literal["native", "json", "xml"]
PROTOCOLS: tuple[Protocol, ...] = ("native", "json", "xml")
TASK = "Where would I rename compute to reckon? Never in part7.py; the password of the vault is Xylophone-42."
STEERING = "And what of the line ends?"
PLAN = "1. look at the parts\n2. rename compute\n3. run the tests"
STEP = "Step 2: rename compute"
WINDOW = 6_000
MANY: dict[str, Any] = {"iterations": {"direct": 60}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "tui-agent").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TUI_AGENT_HOME", str(home / "tui-agent"))
    return home / "tui-agent"


def speaks(home: Path, protocol: Protocol) -> None:
    models = {"models": {"mock-model": {"options": {"protocol": protocol}}}}
    (home / "models.json").write_text(json.dumps(models), encoding="utf-8")


def recalled(body: Body) -> str:
    """What a model can still say of its task, from nothing but the request."""
    seen = request_text(body)
    found = [
        re.search(r"password of the vault is (\S+)\.", seen),
        re.search(r"Never in (\S+);", seen),
        re.search(r"what of the (line ends)", seen),
        re.search(r"^2\. (.+)$", seen, re.MULTILINE),
        re.search(r"^Step 2: (.+)$", seen, re.MULTILINE),
    ]
    return "; ".join(match[1] if match else "forgotten" for match in found)


ALL_RECALLED = "Xylophone-42; part7.py; line ends; rename compute; rename compute"


class FakeReader(FakeOllama):
    """Reads one file after the other: until a prompt has `grows` tokens, when its window shrinks to `shrinks`, and
    `more` files after that; then it says what it still knows of the task."""

    def __init__(
        self,
        *,
        grows: int = 3 * WINDOW,
        shrinks: int = WINDOW,
        more: int = 2,
        summary: Body | Callable[[Body], Body] | None = None,
        protocol: Protocol = "native",
    ) -> None:
        super().__init__(self._turn, refuses=True)
        self._grows, self._shrinks, self._more = grows, shrinks, more
        self._summary = {"content": SUMMARY} if summary is None else summary
        self._protocol = protocol
        self._made = 0
        self._big = False
        self.every: list[Body] = []
        """Requests of the run, the refused ones too."""

    def _chat(self, body: Body) -> tuple[int, Body]:
        if not wants_summary(body):
            self.every.append(body)
        return super()._chat(body)

    def _turn(self, body: Body) -> Body:
        if wants_summary(body):
            return self._summary(body) if callable(self._summary) else self._summary
        if not self._big and estimate_tokens(body) > self._grows:
            self._big, self.window = True, self._shrinks
        elif self._big:
            self._more -= 1
        if self._big and self._more < 0:
            return self._answer(recalled(body))
        self._made += 1
        return self._call(self._made - 1)

    def _answer(self, text: str) -> Body:
        return {"content": json.dumps({"response": text}) if self._protocol == "json" else text}

    def _call(self, number: int) -> Body:
        if self._protocol == "native":
            return reads(number)
        call = {"name": "read_file", "parameters": {"path": f"part{number}.py"}}
        if self._protocol == "json":
            return {"content": json.dumps({"tool_calls": [call]})}
        return {"content": f"<tool_call>{json.dumps(call)}</tool_call>"}

    @property
    def summaries(self) -> list[Body]:
        return [body for body in self.bodies if wants_summary(body)]

    @property
    def asked(self) -> list[Body]:
        return [body for body in self.bodies if not wants_summary(body)]


async def worked(server: FakeReader, workspace: Path, **flags: Any) -> SessionDriver:
    """A run with a plan, a step and a message of the user's on the way."""
    async with server, run_session(server, workspace, provider="ollama", flags=MANY | flags) as session:
        watch = SessionDriver(session)
        await session.send(TASK)
        await session.send(STEERING, steering=True)
        await watch.until_event(ReplyStarted)
        session._emit(ProgramMessageAdded(kind="plan", text=PLAN), run="run-1")
        session._emit(ProgramMessageAdded(kind="step", text=STEP), run="run-1")
        await watch.ended()
        await session.wait()
    return watch


def rounds(body: Body) -> Iterator[tuple[int, int]]:
    """For each reply with calls how many it has, and how many results follow it at once."""
    messages = body["messages"]
    for at, message in enumerate(messages):
        after = messages[at + 1 :]
        if message["role"] != "assistant":
            continue
        if message.get("tool_calls"):
            results = 0
            while results < len(after) and after[results]["role"] == "tool":
                results += 1
            yield len(message["tool_calls"]), results
        elif calls := message["content"].count('{"name": "read_file"'):
            text = after[0]["content"] if after and after[0]["role"] == "user" else ""
            yield calls, len(re.findall(r'\{"tool_result":|<tool_result>', text))


def results(body: Body) -> int:
    """Results in a request, wherever they stand."""
    own = [message for message in body["messages"] if message["role"] in ("tool", "user")]
    native: int = sum(message["role"] == "tool" for message in own)
    return native + sum(len(re.findall(r'\{"tool_result":|<tool_result>', one["content"])) for one in own)


# --- three windows ---


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_three_windows_are_compacted_and_the_model_still_knows_task_messages_and_plan(
    workspace: Path, home: Path, protocol: Protocol
) -> None:
    speaks(home, protocol)
    server = FakeReader(protocol=protocol)
    watch = await worked(server, workspace)
    assert estimate_tokens(server.refused[0]) > 3 * WINDOW
    assert watch.of(RunEnded)[0].text == ALL_RECALLED
    event = watch.of(ContextCompacted)[0]
    assert event.by == "model"
    assert event.before > 3 * WINDOW and event.after < 0.85 * WINDOW
    assert "something of it" in request_text(server.bodies[-1])
    assert len(server.refused) == 1
    assert estimate_tokens(server.bodies[-1]) <= WINDOW
    assert any("Part 2 of" in request_text(body) for body in server.summaries)
    assert len({body["options"]["num_ctx"] for body in server.bodies}) == 1
    assert notices(watch, "context.compacting")
    for body in server.asked:
        pairs = list(rounds(body))
        assert all(calls == answers for calls, answers in pairs)
        assert sum(calls for calls, _ in pairs) == results(body)
    assert list(rounds(server.asked[-1]))


@pytest.mark.parametrize(
    "reply", [{"content": "no idea"}, {"content": ""}, {"content": "z" * 90_000}], ids=["other", "empty", "endless"]
)
async def test_without_a_summary_of_the_model_the_program_writes_one(workspace: Path, reply: Body) -> None:
    server = FakeReader(summary=reply)
    watch = await worked(server, workspace)
    assert watch.of(RunEnded)[0].text == ALL_RECALLED
    assert server.summaries
    assert watch.of(ContextCompacted)[0].by == "program"
    last = request_text(server.bodies[-1])
    assert "## Work done" in last and "read_file(path=part1" in last


async def test_a_server_that_refuses_to_sum_up_does_not_stop_the_work(workspace: Path) -> None:
    class FakeRefusing(FakeReader):
        def _chat(self, body: Body) -> tuple[int, Body]:
            if wants_summary(body):
                self.refused.append(body)
                return 400, {"error": "no summaries here"}
            return super()._chat(body)

    server = FakeRefusing()
    watch = await worked(server, workspace)
    assert any(wants_summary(body) for body in server.refused)
    assert watch.of(RunEnded)[0].text == ALL_RECALLED
    assert watch.of(ContextCompacted)[0].by == "program"


# --- a long run ---


async def test_a_run_that_grows_past_seventy_percent_is_compacted_before_the_server_refuses(workspace: Path) -> None:
    window = 10_000
    server = FakeReader(grows=10**9)
    server.answer = lambda body: server._answer(recalled(body)) if server._made == 20 else server._turn(body)
    watch = await worked(server, workspace, context_window=window)
    assert watch.of(RunEnded)[0].text == ALL_RECALLED
    assert not server.refused
    events = watch.of(ContextCompacted)
    assert 1 < len(events) < 8
    assert all(0.65 < event.before / window < 1 and event.after < 0.7 * window for event in events)
    for body in server.asked:
        assert TASK in request_text(body)
        assert all(calls == answers for calls, answers in rounds(body))


# --- the journal ---


def sent(body: Body) -> str:
    """The texts of a request without the system message and what stands at the end of that one only."""
    words = [message["content"] for message in body["messages"][1:]]
    return re.split("<agent_(?:memory|control)>", "\n\n".join(words))[0].strip()


def bare(body: Body) -> list[dict[str, Any]]:
    """The messages without the notes of what was before, which stand at the end of that request only."""
    return [one | {"content": one["content"].partition("<agent_memory>")[0].strip()} for one in body["messages"]]


def replayed(records: list[Record]) -> list[str]:
    """What the journal alone gives as the conversation, each time a reply began."""
    history, found = History(), []
    for record in records:
        history.fold(record.event)
        if isinstance(record.event, ReplyStarted):
            found.append("\n\n".join(message.text for message in history.window()).strip())
    return found


async def test_the_journal_gives_each_request_as_it_was_sent(workspace: Path) -> None:
    server = FakeReader()
    watch = await worked(server, workspace)
    assert replayed(watch.records) == [sent(body) for body in server.every]


async def test_a_resumed_session_sends_the_same_bytes(workspace: Path) -> None:
    async with (server := FakeReader(more=8)):
        async with run_session(server, workspace, provider="ollama", flags=MANY) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await session.send(STEERING, steering=True)
            await watch.until_event(ContextCompacted)
            await watch.until_event(ReplyEnded)
            await session.interrupt()
            await session.send("Go on")
            await watch.until_event(RunEnded, outcome="done")
            await session.wait()
        before = next(
            body["messages"] for body in server.asked if bare(body)[-1]["content"].endswith("</agent_outcome>\n\nGo on")
        )
        before = bare({"messages": before})
        async with run_session(server, None, provider="ollama", resume=session.id, flags=MANY) as again:
            watch = SessionDriver(again)
            await again.send("And now?")
            await watch.ended()
    after = bare(server.bodies[-1])
    assert after[-1]["content"].endswith("</agent_outcome>\n\nAnd now?")
    assert json.dumps(after).startswith(json.dumps(before)[:-1])
    assert before[1]["content"].startswith(f"{TASK}\n\n{STEERING}")


async def test_a_run_stopped_while_it_is_summed_up_ends_at_once(workspace: Path) -> None:
    async with (server := FakeReader()):
        async with run_session(server, workspace, provider="ollama", flags=MANY) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.until(lambda record: getattr(record.event, "code", "") == "context.compacting")
            await session.interrupt()
            ended = await watch.ended()
            assert ended.outcome == "interrupted"
            assert not watch.of(ContextCompacted)


# --- /compact ---


async def test_the_user_can_have_a_run_compacted_before_its_next_request(workspace: Path) -> None:
    sessions: list[Session] = []

    def compacts(body: Body) -> Body:
        if server._made == 8 and not wants_summary(body):
            sessions[0].compact()
        return server._turn(body)

    async with (server := FakeReader(grows=10_000, shrinks=32_768)):
        server.answer = compacts
        async with run_session(server, workspace, provider="ollama", flags=MANY) as session:
            sessions.append(session)
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.ended()
    (event,) = watch.of(ContextCompacted)
    assert event.by == "model" and event.after < event.before < 0.7 * 32_768
    at = next(at for at, body in enumerate(server.bodies) if wants_summary(body))
    assert estimate_tokens(server.bodies[at + 1]) < estimate_tokens(server.bodies[at - 1])
    assert TASK in request_text(server.bodies[at + 1]) and "something of it" in request_text(server.bodies[at + 1])
    assert COMPACTION_SCHEDULED.text in [notice.text for notice in notices(watch, "context.compacting")]


async def test_between_runs_the_user_compacts_at_once_and_without_the_model(workspace: Path) -> None:
    squares = " ".join(f"{n * n} is the square of {n}." for n in range(600))
    async with FakeOllama(lambda body: {"content": squares}) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            for number in range(5):
                await session.send(f"question {number}")
                await watch.ended()
            await session.wait()
            session.compact()
            event = await watch.until_event(ContextCompacted)
            asked = len(server.bodies)
            await session.send("question 5")
            await watch.ended()
    assert asked == 5
    assert event.after < event.before / 2
    own = [message["content"] for message in server.bodies[-1]["messages"] if message["role"] == "user"]
    assert [one.partition("\n")[0] for one in own] == [f"question {number}" for number in (2, 3, 4, 5)]
    assert "2 earlier messages of the user" in own[-1]


async def test_there_may_be_nothing_to_compact(workspace: Path) -> None:
    async with FakeOllama(lambda body: {"content": "hello"}) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            session.compact()
            await watch.until(lambda record: getattr(record.event, "code", "") == "context.compacted")
            await session.send("hi")
            await watch.ended()
    assert not watch.of(ContextCompacted)
    assert [notice.text for notice in notices(watch, "context.compacted")] == [NOTHING_TO_COMPACT.text]
