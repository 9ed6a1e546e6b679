"""The shipped demo in the real loop: what its model says of the work is what happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles.mock import MockServer
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import run_agent
from tui_agent.common.domain import Answer, EditAction, RunAction
from tui_agent.common.hunks import new_side_text
from tui_agent.events import ApprovalRequested, Event, Notice, PlanProposed, ReplyEnded, SummaryProposed
from tui_agent.frontends.demo_workspace import DEMO_TASK, create_demo_workspace
from tui_agent.models.scripted import DEMO_FILE

COUNTING = "wordcount/counting.py"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return create_demo_workspace(tmp_path / "work")


def refusing(kind: type[EditAction | RunAction]) -> Callable[[Event], Answer]:
    def answer(event: Event) -> Answer:
        no = isinstance(event, ApprovalRequested) and isinstance(event.action, kind)
        return Answer(verdict="reject" if no else "approve")

    return answer


def said(watch: SessionDriver) -> str:
    return "\n".join(one.text for one in watch.of(ReplyEnded) if not one.role)


def of_summary(watch: SessionDriver) -> str:
    found = watch.of(SummaryProposed)[-1]
    assert found.by == "model"
    one = found.summary
    return "\n".join([one.action, one.details, one.result, *(note.title for note in one.decisions_made)])


async def test_a_refused_edit_is_told_once_and_summed_up_as_refused(workspace: Path) -> None:
    before = (workspace / COUNTING).read_bytes()
    async with MockServer(DEMO_FILE) as server:
        watch, ended, doc = await run_agent(server, workspace, DEMO_TASK, refusing(EditAction))
    assert (workspace / COUNTING).read_bytes() == before
    assert ended.outcome == "refused"
    assert said(watch).count("The edit was not applied") == 1
    assert not [one for one in watch.of(Notice) if one.code.startswith("reply.")]
    assert "Do not try" not in ended.text
    assert "❌ Not fixed: the edit was rejected" in of_summary(watch)
    assert "Fixed the word counter" not in doc and "tests pass" not in doc


async def test_refused_tests_leave_an_edit_that_is_not_tested(workspace: Path) -> None:
    async with MockServer(DEMO_FILE) as server:
        watch, ended, doc = await run_agent(server, workspace, DEMO_TASK, refusing(RunAction))
    assert ".lower()" in (workspace / COUNTING).read_text(encoding="utf-8")
    assert ended.outcome == "refused"
    assert said(watch).count("The tests did not run") == 1
    assert "❌ Not tested" in of_summary(watch)
    assert "Changed the word counter" in doc and "tests pass" not in doc


async def test_tests_that_fail_are_summed_up_as_failing(workspace: Path) -> None:
    tests = workspace / "tests" / "test_wordcount.py"
    tests.write_text(tests.read_text(encoding="utf-8").replace('["wait", "what"]', '["wait"]'))
    async with MockServer(DEMO_FILE) as server:
        watch, ended, doc = await run_agent(server, workspace, DEMO_TASK)
    assert ended.outcome == "failed"
    assert "The tests fail" in said(watch)
    assert "❌ The tests fail" in of_summary(watch)
    assert "✓" not in doc
    assert len(watch.of(PlanProposed)) == 1


async def test_a_word_counter_that_is_mended_already_is_left_alone(workspace: Path) -> None:
    async with MockServer(DEMO_FILE) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            watch = SessionDriver(session)
            await session.send(DEMO_TASK)
            ended = await watch.ended()
            assert ended.outcome == "done", ended.text
            assert "✓ All tests pass" in of_summary(watch)
            await session.send(DEMO_TASK)
            ended = await watch.ended()
            # Nothing had to be changed, says the model; a fact is only that nothing was.
            assert ended.outcome == "failed" and "nothing changed" in ended.text
            summary = of_summary(watch)
            assert "✓" not in summary
    edits = [one for one in watch.of(ApprovalRequested) if isinstance(one.action, EditAction)]
    assert len(edits) == 1
    assert "already fixed" in summary and "Fixed the word counter" not in summary
    assert not [one for one in watch.of(Notice) if one.code.startswith("reply.")]


async def test_an_edit_that_the_user_rewords_is_told_as_theirs(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        if isinstance(event, ApprovalRequested) and isinstance(event.action, EditAction):
            (hunk,) = event.action.diff.hunks
            text = new_side_text(hunk).replace(".lower()", ".casefold()")
            return Answer(verdict="approve", data={"edits": {"0": text}})
        return Answer(verdict="approve")

    async with MockServer(DEMO_FILE) as server:
        watch, ended, _doc = await run_agent(server, workspace, DEMO_TASK, answer)
    assert ".casefold()" in (workspace / COUNTING).read_text(encoding="utf-8")
    assert ended.outcome == "done", ended.text
    assert "with your changes" in said(watch) and ".lower()" not in ended.text
    assert "the user changed the edit" in of_summary(watch)


@pytest.mark.parametrize("mode", ["direct", "agent", "chat", "plan"])
async def test_no_reply_to_what_the_demo_suggests_is_rejected(workspace: Path, mode: str) -> None:
    async with MockServer(DEMO_FILE) as server, run_session(server, workspace, flags={"mode": mode}) as session:
        watch = SessionDriver(session)
        for text in ("what files are here", "what can you do", "hello", "thank you", "something else"):
            await session.send(text)
            ended = await watch.ended()
            assert ended.outcome == "done", ended.text
        await session.send("help me with the word counter")
        await watch.ended()
    assert not [one for one in watch.of(Notice) if one.code.startswith("reply.")]


async def test_the_count_of_the_calls_before_a_failure_is_grammatical(workspace: Path) -> None:
    look: dict[str, object] = {
        "content": "Let me look.",
        "tool_calls": [{"name": "list_files", "arguments": {"path": "."}}],
    }
    steps = [{"response": look}, *[{"response": {"content": "I'll read it."}} for _ in range(3)]]
    script = {"scenarios": [{"name": "looks", "trigger": "", "steps": steps}]}
    async with MockServer(script) as server, run_session(server, workspace, flags={"mode": "direct"}) as session:
        watch = SessionDriver(session)
        await session.send("look")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert ended.text.endswith("1 call was run before.")
