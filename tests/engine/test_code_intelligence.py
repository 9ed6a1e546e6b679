from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import FeedbackResponder, MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import (
    classified_as,
    plan_reply,
    plan_step,
    requests_of_role,
    run_agent,
    step_reply,
    summarized,
)
from tests.lsp.kit import received, server_command
from tui_agent.common.domain import Answer, TrustAction
from tui_agent.engine.host.code_intelligence import CodeIntelligence
from tui_agent.events import (
    ApprovalRequested,
    CompletionRefused,
    DiagnosticsReported,
    Event,
    Notice,
    ProgramMessageAdded,
    ToolFinished,
)
from tui_agent.platform import supervisor
from tui_agent.safety.roots import Roots
from tui_agent.settings import Settings

GOOD, BAD = "x = 1\n", "x = 1  # WRONG\n"
CODE_TOOLS = {
    "get_diagnostics",
    "get_document_symbols",
    "find_definition",
    "find_references",
    "find_implementations",
    "find_symbol",
    "get_hover_info",
    "get_call_hierarchy",
    "get_type_hierarchy",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "a.py").write_text(GOOD)
    (folder / "old.py").write_text("y = 1  # WRONG long ago\n")
    return folder


def served(tmp_path: Path, *modes: str, seconds: float = 60.0, **more: Any) -> dict[str, Any]:
    """Flags under which the fake server serves Python."""
    return {
        "language_servers_on": True,
        "language_servers": {"python": server_command(tmp_path, *modes)},
        "timeouts.diagnostics": seconds,
        "approval_mode": "auto-edit",
        **more,
    }


def write(text: str, path: str = "a.py") -> dict[str, Any]:
    return call("write_file", path=path, content=text)


def results(server: MockServer) -> list[str]:
    messages = server.requests[-1].messages
    return [str(one["content"]) for one in messages if one["role"] == "tool"]


def offered(server: MockServer, request: int = 0) -> set[str]:
    return {one["function"]["name"] for one in server.requests[request].body["tools"]}


def pids(tmp_path: Path) -> list[int]:
    return [start[1] for start in received(tmp_path, "start")]


async def worked(
    server: MockServer, workspace: Path, flags: dict[str, Any], text: str = "do it", **more: Any
) -> SessionDriver:
    async with run_session(server, workspace, flags=flags, **more) as session:
        watch = SessionDriver(session)
        await session.send(text)
        await watch.ended()
        await session.wait()
    return watch


async def test_a_write_that_breaks_a_file_is_told_fixed_and_accepted(workspace: Path, tmp_path: Path) -> None:
    story = scenario(
        "do it",
        step("", call("read_file", path="a.py")),
        step("", write(BAD)),
        step("", write(GOOD + "y = 2\n")),
        "Done. [TASK_COMPLETE]",
    )
    async with serve(story, strict=True) as server:
        watch = await worked(server, workspace, served(tmp_path))
    _, broken, mended = results(server)
    assert "[Diagnostics] 1 error in a.py:\n→ 1: error (new): wrong: x = 1 # WRONG [W1]" in broken
    assert "Diagnostics" not in mended
    (found,) = watch.of(DiagnosticsReported)
    assert (found.display, found.found[0].line, found.found[0].new) == ("a.py", 1, True)
    assert not watch.of(CompletionRefused)
    assert pids(tmp_path)[0] not in supervisor.process_table()


@pytest.mark.parametrize("claim", ["All done. [TASK_COMPLETE]", "All done."])
async def test_a_false_claim_is_refused_once_and_then_mended(workspace: Path, tmp_path: Path, claim: str) -> None:
    story = scenario(
        "do it",
        step("", call("read_file", path="a.py")),
        step("", write(BAD)),
        claim,
        step("", write(GOOD)),
        "Now it is done.",
    )
    async with MockServer(FeedbackResponder(story), strict=True) as server:
        watch = await worked(server, workspace, served(tmp_path))
    (refused,) = watch.of(CompletionRefused)
    assert refused.why == "1 error in changed files: a.py"
    told = [str(one["content"]) for one in server.requests[3].messages if one["role"] == "user"]
    assert any("This is not done yet" in text and "→ 1: error (new): wrong" in text for text in told)
    assert (workspace / "a.py").read_text("utf-8") == GOOD
    assert len(server.requests) == 5


async def test_a_claim_is_refused_only_once(workspace: Path, tmp_path: Path) -> None:
    story = scenario("do it", step("", write(BAD, "new.py")), "Done.", "It is meant so.")
    async with MockServer(FeedbackResponder(story), strict=True) as server:
        watch = await worked(server, workspace, served(tmp_path))
    assert len(watch.of(CompletionRefused)) == 1
    assert len(server.requests) == 3


async def test_the_gate_finds_what_the_write_could_not_wait_for(workspace: Path, tmp_path: Path) -> None:
    story = scenario("do it", step("", write(BAD, "new.py")), "Done.", step("", write(GOOD, "new.py")), "Done.")
    async with MockServer(FeedbackResponder(story), strict=True) as server:
        watch = await worked(server, workspace, served(tmp_path, seconds=0.001))
    assert not any("Diagnostics" in text for text in results(server))
    assert len(watch.of(CompletionRefused)) == 1


async def test_errors_that_were_there_before_are_told_apart_and_refuse_nothing(workspace: Path, tmp_path: Path) -> None:
    edit = {"path": "old.py", "old_string": "y = 1", "new_string": "z = 0\ny = 1"}
    again = {"path": "old.py", "old_string": "z = 0", "new_string": "z = 0  # WRONG too"}
    story = (
        scenario("do it", step("", call("edit_file", **edit)), "Done."),
        scenario("go on", step("", call("edit_file", **again)), "Done."),
    )
    async with serve(*story, strict=True) as server:
        async with run_session(server, workspace, flags=served(tmp_path)) as session:
            watch = SessionDriver(session)
            for text in ("do it", "go on"):
                await session.send(text)
                await watch.ended()
    first, second = watch.of(DiagnosticsReported)
    assert [one.new for one in first.found] == [False]
    assert sorted(one.new for one in second.found) == [False, True]
    told = [one.text for one in watch.of(ToolFinished)]
    assert "1 error in old.py, 0 of them new" in told[0]
    assert "2 errors in old.py, 1 of them new:\n→ 1: error (new)" in told[1]
    assert [one.why for one in watch.of(CompletionRefused)] == ["1 error in changed files: old.py"]


async def test_nothing_is_refused_where_the_user_refused_or_is_asked(workspace: Path, tmp_path: Path) -> None:
    asks = scenario("ask", step("", write(BAD, "n.py")), "Shall I go on with the other file?")
    no = scenario("no", step("", write(BAD, "n2.py")), step("", write(GOOD, "n3.py")), "Done then.")

    def answer(event: Event) -> Answer | None:
        wanted = isinstance(event, ApprovalRequested) and "n3" not in str(event.action)
        return Answer(verdict="approve" if wanted else "reject")

    async with serve(asks, no, strict=True) as server:
        flags = served(tmp_path, approval_mode="ask")
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session, answer)
            for text in ("ask", "no"):
                await session.send(text)
                await watch.ended()
    assert len(watch.of(DiagnosticsReported)) == 2
    assert not watch.of(CompletionRefused)


async def test_in_a_plan_the_whole_work_is_judged_and_mended(workspace: Path, tmp_path: Path) -> None:
    given = (
        classified_as(),
        plan_reply(plan_step("Break it"), plan_step("Look at it")),
        step_reply("Break it", step("", write(BAD, "new.py")), "Broken."),
        step_reply("Look at it", step("", call("read_file", path="new.py")), "Seen. [TASK_COMPLETE]"),
        summarized(),
        scenario("", step("", write(GOOD, "new.py")), "Mended."),
    )
    async with serve(*given, strict=True) as server:
        flags = served(tmp_path, plan_auto_approve=True)
        watch, ended, _ = await run_agent(server, workspace, "do it", flags=flags)
    assert len(watch.of(CompletionRefused)) == 1
    assert ended.outcome == "done"
    assert ended.text == "Mended."
    assert (workspace / "new.py").read_text("utf-8") == GOOD
    steps = [str(one.messages) for one in requests_of_role(server, "execution")]
    assert sum("This is not done yet" in text for text in steps) == 2  # after the last step only


# --- where there is no server, or a bad one ---


async def test_the_tools_are_offered_where_a_server_can_be_had(workspace: Path, tmp_path: Path) -> None:
    story = scenario("hi", "hello")
    for flags, there in (
        (served(tmp_path), True),
        (served(tmp_path, language_servers_on=False), False),
        (served(tmp_path, language_servers={"python": ("no-such-server",), "go": server_command(tmp_path)}), False),
    ):
        async with serve(story) as server:
            await worked(server, workspace, flags, "hi")
        assert (offered(server) >= CODE_TOOLS) is there
        assert bool(offered(server) & CODE_TOOLS) is there
    assert pids(tmp_path) == []  # nothing was started for that


async def test_nothing_is_started_before_the_folder_is_trusted(workspace: Path, tmp_path: Path) -> None:
    story = scenario("do it", step("", call("get_diagnostics", path="a.py")), "ok")
    no = Answer(verdict="reject")
    for answer, there in ((no, False), (Answer(verdict="approve"), True)):
        async with serve(story) as server:
            async with run_session(server, workspace, flags=served(tmp_path), trust=False) as session:
                watch = SessionDriver(session, lambda event, answer=answer: answer)  # type: ignore[misc]  # bound here
                await session.send("do it")
                await watch.ended()
        asked = [one for one in watch.of(ApprovalRequested) if isinstance(one.action, TrustAction)]
        assert asked
        assert bool(pids(tmp_path)) is there
        assert (offered(server) >= CODE_TOOLS) is there


@pytest.mark.parametrize("mode", ["hang-initialize", "dies", "flood"])
async def test_a_server_that_fails_is_told_as_a_result_and_the_work_goes_on(
    workspace: Path, tmp_path: Path, mode: str
) -> None:
    question = call("find_definition", path="a.py", symbol="x")
    story = scenario("do it", step("", question), step("", write(BAD, "new.py")), "Done.")
    async with serve(story, strict=True) as server:
        flags = served(tmp_path, mode, seconds=0.5 if mode == "hang-initialize" else 60.0)
        async with run_session(server, workspace, flags=flags) as session:
            session._environment.code._limits = limits(start=2.0 if mode == "hang-initialize" else 60.0)
            watch = SessionDriver(session)
            await session.send("do it")
            ended = await watch.ended()
    found, written = watch.of(ToolFinished)
    assert found.result.success
    assert found.text.startswith("Not available: ")
    assert found.text.endswith("Use search_workspace and read_file instead.")
    assert written.result.success
    assert ended.outcome == "done"
    warnings = [one.text for one in watch.of(Notice) if one.code == "code.server" and one.level == "warning"]
    assert len(warnings) == (mode != "flood")
    assert not any(pid in supervisor.process_table() for pid in pids(tmp_path))


async def test_after_close_nothing_looks_at_a_file_any_more(workspace: Path, tmp_path: Path) -> None:
    settings = Settings(language_servers={"python": server_command(tmp_path)})
    code = CodeIntelligence(settings, Roots((workspace,)), lambda notice: None, allowed=lambda: True)
    code.expect(workspace / "a.py", GOOD.encode())
    (baseline,) = code._baselines.values()
    await asyncio.sleep(0)
    assert not baseline.done()
    await code.close()
    assert baseline.done()


def limits(start: float) -> Any:
    from tui_agent.lsp.server import ServerLimits

    return ServerLimits(start=start, request=60.0, backoff=0.0, shutdown=0.5)


# --- a real one ---


@pytest.mark.needs("basedpyright-langserver")
async def test_with_a_real_server_a_false_claim_is_refused_and_mended(workspace: Path) -> None:
    broken = "from a import x\n\nprint(x.nothing)\nprint(undefined_name)\n"
    story = scenario(
        "do it",
        step("", write(broken, "b.py")),
        "Done. [TASK_COMPLETE]",
        step("", write("from a import x\n\nprint(x)\n", "b.py")),
        "Done.",
    )
    flags = {"language_servers_on": True, "timeouts.diagnostics": 60.0, "approval_mode": "auto-edit"}
    async with MockServer(FeedbackResponder(story), strict=True) as server:
        watch = await worked(server, workspace, flags)
    broken_result, mended = results(server)
    assert "[Diagnostics] " in broken_result
    assert '→ 4: error (new): "undefined_name" is not defined [reportUndefinedVariable]' in broken_result
    assert "Diagnostics" not in mended
    assert len(watch.of(CompletionRefused)) == 1
    assert json.dumps([one.text for one in watch.of(ProgramMessageAdded)]).count("not done yet") == 1
