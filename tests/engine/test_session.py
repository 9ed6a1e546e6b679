from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import BROKEN, TASK, job_scenario, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common import paths
from tui_agent.common.domain import Answer, EditAction, RunAction, Scope, TrustAction
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalExecuted,
    ApprovalRequested,
    Event,
    FileChanged,
    Notice,
    QuestionAsked,
    ReplyPhase,
    ReplyStarted,
    RunEnded,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UserShellCommand,
)
from tui_agent.view.change import epoch_seconds

APPROVE = Answer(verdict="approve")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def sent(server: MockServer, request: int = -1) -> list[dict[str, Any]]:
    return server.requests[request].messages


def results(server: MockServer) -> list[str]:
    return [str(message["content"]) for message in sent(server) if message["role"] == "tool"]


def edit(**more: Any) -> dict[str, Any]:
    return call("edit_file", path="adder.py", old_string="a - b", new_string="a + b", **more)


async def test_reading_calls_of_one_reply_run_side_by_side_and_answer_in_order(workspace: Path) -> None:
    reads = step("", call("read_file", path="adder.py"), call("read_file", path="test_adder.py"), call("list_files"))
    async with serve(scenario("look", reads, "?", "?", "seen"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
    types = [r.event.type for r in watch.records if r.event.type in ("tool.started", "tool.finished")]
    assert types[:3] == ["tool.started"] * 3
    first, second, third = results(server)
    assert "def add" in first
    assert "unittest" in second
    assert "adder.py" in third


async def test_the_reason_of_a_rejection_reaches_the_model(workspace: Path) -> None:
    no = Answer(verdict="reject", text="use subtraction on purpose")
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, lambda event: no)
        await session.send(TASK)
        await watch.ended()
    assert (workspace / "adder.py").read_text("utf-8") == BROKEN
    assert any("use subtraction on purpose" in text for text in results(server))
    assert not watch.of(ApprovalExecuted)


async def test_an_approval_shows_the_diff_and_is_bound_to_it(workspace: Path) -> None:
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send(TASK)
        await watch.ended()
    asked = next(event for event in watch.of(ApprovalRequested) if isinstance(event.action, EditAction))
    assert isinstance(asked.action, EditAction)
    assert (asked.action.diff.added, asked.action.diff.removed) == (1, 1)
    (executed,) = [event for event in watch.of(ApprovalExecuted) if event.id == asked.id]
    assert executed.digest == asked.digest
    (changed,) = watch.of(FileChanged)
    assert (changed.change.before, changed.change.after) == (asked.action.before, asked.action.after)


async def test_leave_for_the_session_asks_once(workspace: Path) -> None:
    (workspace / "test_adder.py").unlink()
    again = call("edit_file", path="adder.py", old_string="a + b", new_string="b + a")
    twice = scenario("twice", step("", edit()), step("", again), "both done")
    grant = Answer(verdict="approve", scope=Scope.SESSION)
    async with serve(twice, strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, lambda event: grant)
            await session.send("twice")
            await watch.ended()
            assert len(watch.of(ApprovalRequested)) == 1
            resume = session.id
        (workspace / "adder.py").write_text(BROKEN)
        async with run_session(server, workspace, resume=resume) as session:
            watch = SessionDriver(session, lambda event: None)
            await session.send("twice")
            await watch.ended()
            assert not watch.of(ApprovalRequested)
            assert all(event.answer.by != "user" for event in watch.of(ApprovalAnswered))


async def test_leave_for_always_is_kept_by_the_user_and_not_in_the_folder(workspace: Path) -> None:
    (workspace / "test_adder.py").unlink()
    grant = Answer(verdict="approve", scope=Scope.ALWAYS)
    before = sorted(path.name for path in workspace.iterdir())
    async with serve(scenario("mend", step("", edit()), "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, lambda event: grant)
            await session.send("mend")
            await watch.ended()
        (workspace / "adder.py").write_text(BROKEN)
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, lambda event: None)
            await session.send("mend")
            await watch.ended()
            assert not watch.of(ApprovalRequested)
    assert sorted(path.name for path in workspace.iterdir()) == before
    assert paths.grants_file().stat().st_mode & 0o777 == 0o600


async def test_the_first_answer_wins(workspace: Path) -> None:
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.send(TASK)
        asked = await watch.until_event(ApprovalRequested)
        assert session.answer(asked.id, Answer(verdict="reject"))
        assert not session.answer(asked.id, APPROVE)
        assert not session.answer("a-unknown", APPROVE)
        answered = await watch.until_event(ApprovalAnswered, id=asked.id)
        assert answered.answer.verdict == "reject"


async def test_trust_is_asked_first_and_nothing_is_read_before(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULES OF THE FOLDER")
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session, lambda event: None)
            asked = await watch.until_event(ApprovalRequested)
            assert isinstance(asked.action, TrustAction)
            assert any("AGENTS.md" in found for found in asked.action.contents)
            await session.send("hi")
            assert not server.requests
            session.answer(asked.id, APPROVE)
            await watch.ended()
        assert "RULES OF THE FOLDER" in sent(server)[0]["content"]
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session, lambda event: None)
            await session.send("hi")
            await watch.ended()
            assert not watch.of(ApprovalRequested)


async def test_settings_of_a_folder_that_was_just_trusted_are_announced(workspace: Path) -> None:
    settings = paths.workspace_settings_file(workspace)
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("tools_off: [write_file]\n")
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session)
            await session.send("hi")
            await watch.ended()
    assert "trust.settings" in [notice.code for notice in watch.of(Notice)]


async def test_without_trust_the_session_only_reads(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULES OF THE FOLDER")
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace, trust=False) as session:
        watch = SessionDriver(session, lambda event: Answer(verdict="reject"))
        await watch.until_event(ApprovalRequested)
        await session.send(TASK)
        await watch.ended()
    assert "RULES OF THE FOLDER" not in sent(server)[0]["content"]
    assert (workspace / "adder.py").read_text("utf-8") == BROKEN


async def test_a_resumed_session_sends_what_it_would_have_sent(workspace: Path) -> None:
    talk = scenario("how are you", "well, thank you")

    async def last_request(server: MockServer, pause: bool) -> str:
        async with run_session(server, make_workspace(workspace)) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.ended()
            if not pause:
                await session.send("how are you")
                await watch.ended()
            resume = session.id
        if pause:
            async with run_session(server, workspace, resume=resume) as session:
                watch = SessionDriver(session)
                await session.send("how are you")
                await watch.ended()
        return json.dumps(sent(server))

    async with serve(job_scenario(), talk, strict=True) as server:
        assert await last_request(server, pause=False) == await last_request(server, pause=True)


async def test_a_run_without_a_word_gets_a_closing_summary(workspace: Path) -> None:
    silent = scenario("mute", step("", call("read_file", path="adder.py")), step(""))
    async with serve(silent, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("mute")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert "1 tool call" in ended.text
    assert "tools" not in server.requests[-1].body


async def test_a_call_that_the_server_could_not_parse_goes_back_to_the_model(workspace: Path) -> None:
    bad = {"kind": "error", "body": 'error parsing tool call: raw=\'{"path": "a\', err=unexpected end'}
    broken = scenario("broken", step("all good", fault={**bad, "times": 1}))
    async with serve(broken, strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("broken")
            ended = await watch.ended()
    assert server.requests[0].fired
    assert ended.outcome == "done"
    assert "could not be read" in json.dumps(sent(server))


async def test_a_full_context_stops_before_anything_is_cut(workspace: Path) -> None:
    async with serve(scenario("big", "?"), strict=True) as server:
        async with run_session(server, workspace, flags={"context_window": 2048}) as session:
            watch = SessionDriver(session)
            await session.send("big " + "word " * 4_000)
            ended = await watch.ended()
    assert ended.outcome == "limit"
    assert "context is full" in ended.text
    assert not server.requests


async def test_one_window_for_all_requests_of_a_session(workspace: Path) -> None:
    async with serve(job_scenario(), scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            for text in (TASK, "hi", "hi"):
                await session.send(text)
                await watch.ended()
            resume = session.id
        async with run_session(server, workspace, provider="ollama", resume=resume) as session:
            watch = SessionDriver(session)
            await session.send("hi")
            await watch.ended()
    windows = {exchange.body["options"]["num_ctx"] for exchange in server.requests}
    assert len(windows) == 1
    assert {exchange.body["keep_alive"] for exchange in server.requests} == {"30m"}


async def test_the_first_request_is_small_and_the_next_ones_share_its_beginning(workspace: Path) -> None:
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send(TASK)
        await watch.ended()
    first = server.requests[0].body
    size = len(json.dumps(first["messages"])) + len(json.dumps(first["tools"]))
    assert (size - len(TASK)) / 4 <= 1_500
    for before, after in zip(server.requests, server.requests[1:], strict=False):
        kept = [one for one in before.messages if "<agent_control>" not in str(one["content"])]
        assert len(before.messages) - len(kept) == (before is not server.requests[0])
        assert json.dumps(after.messages[: len(kept)]) == json.dumps(kept)
        assert after.body["tools"] == before.body["tools"]
    sizes = [len(json.dumps([one.body["messages"], one.body["tools"]])) for one in server.requests]
    assert sum(sizes) / 4 <= 6_000


async def test_a_question_of_the_model_is_answered_by_the_user(workspace: Path) -> None:
    asks = scenario("choose", step("", call("ask_user", question="Which one?", options=["red", "blue"])), "ok")

    def answer(event: Event) -> Answer | None:
        return Answer(verdict="reply", text="blue") if isinstance(event, QuestionAsked) else APPROVE

    async with serve(asks, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, answer)
        await session.send("choose")
        await watch.ended()
    assert "blue" in results(server)[0]


async def test_nobody_is_asked_where_nobody_is(workspace: Path) -> None:
    asks = scenario("choose", step("", call("ask_user", question="Which one?")), "ok")
    async with serve(asks, strict=True) as server, run_session(server, workspace, attended=False) as session:
        watch = SessionDriver(session)
        await session.send("choose")
        await watch.ended()
    assert "No user is present" in results(server)[0]


async def test_waiting_for_the_user_is_no_time_of_the_call(workspace: Path) -> None:
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.send(TASK)
        asked = await watch.until_event(ApprovalRequested)
        await session.run_shell("sleep 0.6")
        session.answer(asked.id, APPROVE)
        done = await watch.until_event(ToolFinished, name="edit_file")
    assert done.result.success
    came = {record.event.type: epoch_seconds(record.at) for record in reversed(watch.records)}  # the first of each
    finished = next(record for record in watch.records if record.event == done)
    took = epoch_seconds(finished.at) - came["user.said"]
    waited = came["approval.answered"] - came["approval.asked"]
    assert waited >= 0.6
    assert done.ms <= 1000 * (took - waited) + 5  # each is cut to whole milliseconds


async def test_the_shell_keeps_folder_and_variables_between_commands(workspace: Path) -> None:
    (workspace / "deep").mkdir()
    commands = ["cd deep && export COLOUR=green", "echo $COLOUR in $PWD"]
    steps = [step("", call("run_terminal_command", command=command)) for command in commands]
    async with serve(scenario("shell", *steps, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("shell")
            await watch.ended()
    assert f"green in {workspace / 'deep'}" in results(server)[1]
    asked = [event.action for event in watch.of(ApprovalRequested)]
    assert isinstance(asked[1], RunAction)
    assert asked[1].cwd == str(workspace / "deep")


async def test_what_a_command_leaves_running_is_told_to_the_user_once(workspace: Path) -> None:
    commands = ["sleep 309 & echo up", "true | echo"]
    steps = [step("", call("run_terminal_command", command=command)) for command in commands]
    async with serve(scenario("start", *steps, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("start")
            left = await watch.until_event(Notice, code="command.left")
            pid = int(left.text.partition("!kill ")[2].split("`")[0])
            assert left.text.startswith("Still running: sleep 309.") and Path(f"/proc/{pid}").exists()
            await watch.ended()
            assert [one.code for one in watch.of(Notice)].count("command.left") == 1


async def test_a_reading_command_runs_unasked_and_is_journaled_with_its_rule(workspace: Path) -> None:
    async with serve(scenario("ls", step("", call("run_terminal_command", command="ls")), "ok"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, lambda event: None)
            await session.send("ls")
            await watch.ended()
    assert not watch.of(ApprovalRequested)
    (answered,) = watch.of(ApprovalAnswered)
    assert answered.answer.by != "user"
    assert "adder.py" in results(server)[0]


async def test_output_of_a_command_is_seen_while_it_runs(workspace: Path) -> None:
    slow = call("run_terminal_command", command="echo early; read -t 0.3 <> <(:); echo late")
    async with serve(scenario("slow", step("", slow), "ok"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("slow")
            live = await watch.until_event(ToolOutput)
            assert "early" in live.text
            assert not watch.of(ToolFinished)
            await watch.ended()


async def test_a_command_of_the_users_own_runs_at_once(workspace: Path) -> None:
    async with serve(strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.run_shell("echo hello; exit 3")
        ran = await watch.until_event(UserShellCommand)
    assert (ran.output.strip(), ran.exit_code) == ("hello", 3)
    assert not server.requests


async def test_phases_name_what_is_being_written(workspace: Path) -> None:
    async with serve(job_scenario(), pace=0.002, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send(TASK)
        await watch.ended()
    details = [event.detail for event in watch.of(ReplyPhase)]
    assert "edit_file adder.py" in details


async def test_an_unknown_tool_and_bad_arguments_are_named_to_the_model(workspace: Path) -> None:
    wrong = scenario(
        "wrong", step("", call("reed_file", path="adder.py")), step("", call("read_file", start_line="many")), "sorry"
    )
    async with serve(wrong, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("wrong")
        await watch.ended()
    unknown, bad = results(server)
    assert "read_file" in unknown
    assert "path" in bad
    assert "start_line" in bad


async def test_a_defect_of_the_server_ends_the_run_and_not_the_session(workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True, faults=["status:status=400,times=1"]) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("hi")
            assert (await watch.ended()).outcome == "failed"
            await session.send("hi")
            assert (await watch.ended()).outcome == "done"


async def test_bad_rules_are_told_and_do_no_harm(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_bytes(b"\xff\xfe\x00bad")
    async with serve(scenario("hi", "hello"), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("hi")
        assert (await watch.ended()).outcome == "done"
    assert any("AGENTS.md" in event.text for event in watch.of(Notice))


async def test_every_request_is_announced_before_it_is_sent(workspace: Path) -> None:
    async with serve(job_scenario(), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send(TASK)
        await watch.ended()
        assert len(watch.of(ReplyStarted)) == len(server.requests)
        order = [
            r.event.type for r in watch.records if isinstance(r.event, ToolStarted | ApprovalExecuted | FileChanged)
        ]
        assert order.index("approval.executed") < order.index("file.changed") or order.index("tool.started") == 0
        assert watch.of(RunEnded)[0].tool_calls == 3
