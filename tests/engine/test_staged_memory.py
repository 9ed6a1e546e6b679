from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import environment, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import (
    SUMMARY,
    classified_as,
    plan_reply,
    plan_step,
    requests_of_role,
    run_agent,
    side_reply,
    step_reply,
    summarized,
)
from tests.nightly import repetitions
from tui_agent.common.domain import Answer
from tui_agent.events import Notice, PlanDocChanged, SummaryProposed, SummaryReviewed, ToolFinished
from tui_agent.mock_server.replies import ServedModel

TASK = "write the report"
WRITE = step_reply("Write", step("", call("write_file", path="report.md", content="All is well.\n")), "Written.")
PROPOSE = step_reply(
    "Propose",
    step("", call("initialize_plan", goal="A good report", acceptance_criteria=["It is written", "It is read"])),
    step("", call("update_plan", criteria_met=["It is written"], decisions_made=[{"title": "Markdown"}])),
    "Proposed.",
)
DISCARD = Answer(verdict="reject")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work", tests=False)


def at_summary(answer: Answer | None) -> Any:
    return lambda event: answer if isinstance(event, SummaryProposed) else Answer(verdict="approve")


def writing(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [classified_as(), plan_reply(plan_step("Propose"), plan_step("Write")), *more, PROPOSE, WRITE]


async def test_a_discarded_summary_changes_nothing_and_drops_what_was_proposed(workspace: Path) -> None:
    async with serve(*writing(summarized()), strict=True) as server:
        watch, ended, doc = await run_agent(server, workspace, TASK, at_summary(DISCARD))
    assert (workspace / "report.md").exists()
    assert ended.outcome == "done"
    assert "[Goal to be defined]" in doc and "[No actions taken yet]" in doc
    pending = [one.pending for one in watch.of(PlanDocChanged)]
    assert pending == [False, True, True, False]
    assert "A good report" not in watch.of(PlanDocChanged)[-1].text
    assert watch.of(SummaryReviewed)[0].outcome == "discarded"


async def test_proposals_count_in_the_run_stand_last_and_are_written_with_the_summary(workspace: Path) -> None:
    update = {"acceptance_criteria_updates": [{"description": "It is read", "completed": True}]}
    async with serve(*writing(summarized("Wrote the report", **update)), strict=True) as server:
        _, _, doc = await run_agent(server, workspace, TASK)
    assert "A good report" in doc and "- [x] It is written" in doc and "- [x] It is read" in doc
    assert "Markdown" in doc and "Wrote the report" in doc and "status: completed" in doc
    requests = [one.messages for one in requests_of_role(server, "execution")]
    assert "Goal: A good report" in requests[1][-1]["content"]
    assert all("A good report" not in str(messages[0]) for messages in requests)
    heads = {str(messages[0]["content"]) for messages in requests}
    assert len(heads) == 1  # the prefix of the run's requests stays byte-identical


async def test_the_user_settles_a_proposal_by_itself(workspace: Path) -> None:
    talk = scenario("look", step("", call("update_plan", goal="From plan mode", status="blocked")), "Proposed.")
    async with serve(talk, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            doc = session.folder / "plan_doc.md"
            for accept in (False, True):
                await session.send("look")
                await watch.ended()
                before = doc.read_bytes()
                assert b"From plan mode" not in before
                assert await session.settle_plan(accept)
                assert (doc.read_bytes() != before) is accept
            assert not await session.settle_plan(True)
            assert "From plan mode" in doc.read_text("utf-8") and "status: blocked" in doc.read_text("utf-8")


async def test_a_proposal_holds_for_the_plan_as_the_user_has_edited_it_meanwhile(workspace: Path) -> None:
    talk = scenario("look", step("", call("update_plan", criteria_added=["Ours"])), "Proposed.")
    async with serve(talk, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
            await session.edit_plan("# Plan: Mine\n\n## Acceptance Criteria\n- [ ] Theirs\n")
            assert await session.settle_plan(True)
            doc = (session.folder / "plan_doc.md").read_text("utf-8")
    assert "Mine" in doc and doc.index("Theirs") < doc.index("Ours")


async def test_a_criterion_that_is_not_there_cannot_be_met(workspace: Path) -> None:
    talk = scenario("look", step("", call("update_plan", criteria_met=["Unheard of"])), "So it is.")
    async with serve(talk, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
    (finished,) = watch.of(ToolFinished)
    assert finished.result.code == "not_found" and "none yet" in finished.text


async def test_without_a_user_the_summary_waits_for_the_next_interactive_start(workspace: Path) -> None:
    flags = {"approval_mode": "auto", "plan_auto_approve": True}
    async with serve(*writing(summarized("Wrote it")), strict=True) as server:
        async with run_session(server, workspace, attended=False, flags={"mode": "agent", **flags}) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.ended()
            folder = session.folder
        assert watch.of(SummaryReviewed)[0].outcome == "pending"
        assert "Wrote it" not in (folder / "plan_doc.md").read_text("utf-8")
        async with run_session(server, None, resume=folder.name) as again:
            watch = SessionDriver(again)
            settled = await watch.until_event(SummaryReviewed)
        # The session is closed at once: what was accepted is written first.
        assert settled.outcome == "accepted" and settled.summary.action == "Wrote it"
        assert "Wrote it" in (folder / "plan_doc.md").read_text("utf-8")
        async with run_session(server, None, resume=folder.name) as third:
            watch = SessionDriver(third)
            await third.set_modes(mode="chat")
            await watch.until(lambda record: record.event.type == "mode.changed")
        assert not watch.of(SummaryProposed)


async def test_the_flag_accepts_the_summary_without_a_user(workspace: Path) -> None:
    async with serve(*writing(summarized("Wrote it")), strict=True) as server:
        flags = {"approval_mode": "auto"}
        watch, _, doc = await run_agent(
            server, workspace, TASK, attended=False, accept_summary=True, accept_plan=True, flags=flags
        )
    assert watch.of(SummaryReviewed)[0].outcome == "accepted" and "Wrote it" in doc


async def test_a_summary_model_that_fails_is_replaced_by_the_facts(workspace: Path) -> None:
    async with serve(*writing(side_reply(SUMMARY, "I had a lovely time.")), strict=True) as server:
        watch, _, doc = await run_agent(server, workspace, TASK)
    (offered,) = watch.of(SummaryProposed)
    assert offered.by == "program" and offered.summary.action == TASK
    assert "report.md" in doc and "write_file" in doc


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.engine.kit import SessionDriver
from tui_agent.common.domain import Answer
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.events import SummaryProposed

async def main(url, workspace):
    flags = {"provider": "openai", "base_url": url, "model": "mock-model", "mode": "agent"}
    session = await open_session(SessionOptions(workspace=Path(workspace), flags=flags, trust=True))
    watch = SessionDriver(session, lambda event: None if isinstance(event, SummaryProposed) else Answer(verdict="approve"))
    await session.send("write the report")
    await watch.until_event(SummaryProposed)
    print(session.folder, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_crash_before_the_decision_leaves_the_document_as_it_was(workspace: Path, tmp_path: Path) -> None:
    async with serve(*writing(summarized("Wrote it")), strict=True) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CHILD,
            server.url + "/v1",
            str(workspace),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": environment(tmp_path)["PYTHONPATH"]},
        )
        assert child.stdout is not None
        folder = Path((await child.stdout.readline()).decode().strip())
        child.send_signal(signal.SIGKILL)
        assert await child.wait() == -signal.SIGKILL
        doc = (folder / "plan_doc.md").read_text("utf-8")
        assert "A good report" not in doc and "Wrote it" not in doc and "[Goal to be defined]" in doc
        assert '"A good report' in (folder / "events.jsonl").read_text("utf-8").replace("Goal: A", '"A')
        async with run_session(server, None, resume=folder.name) as again:
            watch = SessionDriver(again, lambda event: None)
            offered = await watch.until_event(SummaryProposed)
            shown = watch.of(PlanDocChanged)
            assert "Wrote it" not in (folder / "plan_doc.md").read_text("utf-8")
    assert offered.summary.action == "Wrote it"
    assert not [one for one in shown if "A good report" in one.text]


def tokens(request: Any) -> int:
    return len(json.dumps([request.messages, request.body.get("tools")])) // 4


@pytest.mark.parametrize("turns", repetitions(20, 60))
async def test_many_requests_with_accepted_summaries_do_not_grow(workspace: Path, turns: int) -> None:
    for number in range(5):
        (workspace / f"part{number}.txt").write_text(f"{number:04} of the text\n" * 250)
    reads = [call("read_file", path=f"part{number}.txt") for number in range(5)]
    work = step_reply("Read", step("I read.", *reads), "All five parts were read; nothing in them needs a change.")
    async with serve(
        classified_as("mixed", "moderate", needs_write=False),
        plan_reply(plan_step("Read all parts")),
        side_reply(SUMMARY, {"log_entry": ENTRY}),
        work,
    ) as server:
        flags = {"mode": "agent", "plan_auto_approve": True, "plan_cache": False}
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            for turn in range(turns):
                await session.send(f"please go through the parts, time {turn:02}")
                await watch.ended()
            await session.wait()
            doc = (session.folder / "plan_doc.md").read_text("utf-8")
    assert doc.count("Read the five parts") == turns
    assert len([one for one in watch.of(ToolFinished) if len(one.text) > 4_000]) == 5 * turns
    first = [one for one in requests_of_role(server, "execution") if not _results(one)]
    assert len(first) == turns
    assert tokens(first[-1]) <= 1.1 * tokens(first[9])
    users = [str(m["content"]) for m in first[-1].messages if m["role"] == "user"]
    assert [f"time {turn}" for turn in range(turns - 5, turns)] == [
        u[u.index("time") : u.index("time") + 7] for u in users
    ]


@pytest.mark.parametrize("turns", repetitions(15, 60))
@pytest.mark.parametrize("mode", ["agent", "direct"])
async def test_two_hundred_decisions_in_a_small_window_neither_grow_nor_stop_the_work(
    workspace: Path, mode: str, turns: int
) -> None:
    for number in range(5):
        (workspace / f"part{number}.txt").write_text(f"{number:04} of the text\n" * 250)
    reads = [call("read_file", path=f"part{number}.txt") for number in range(5)]
    closing = "All five parts were read; nothing in them needs a change."
    work = scenario("go through", step("", *reads), closing)
    decisions = "\n".join(
        f"### Decision {number}\n**Rationale:** {'It was the best of all that were looked at. ' * 4}\n"
        for number in range(200)
    )
    sums_up = {**scenario("", COMPACTED, when={"system": "seven headings"}), "name": "sums up"}
    async with serve(
        classified_as("mixed", "simple", needs_write=False),
        side_reply(SUMMARY, {"log_entry": ENTRY}),
        sums_up,
        work,
        models=[ServedModel(name="mock-model", context_length=8_192)],
    ) as server:
        flags = {"mode": mode, "plan_auto_approve": True, "plan_cache": False}
        async with run_session(server, workspace, flags=flags, provider="ollama") as session:
            watch = SessionDriver(session)
            assert await session.edit_plan(f"# Plan: Ship it\n\n## Decisions Made\n{decisions}")
            sent: list[list[Any]] = []
            for turn in range(turns):
                before = len(server.requests)
                await session.send(f"please go through the parts, time {turn:02}")
                ended = await watch.ended()
                assert ended.outcome == "done", ended.text
                sent.append(server.requests[before:])
    assert len([one for one in watch.of(ToolFinished) if len(one.text) > 4_000]) == 5 * turns
    sizes = [[tokens(one) for one in turn] for turn in sent]
    assert sum(sizes[-1]) <= 1.1 * sum(sizes[9]), sizes
    texts = [json.dumps(one.messages) for turn in sent for one in turn if one.body.get("tools")]
    assert all("Decision 199\\n**Rationale" in text and "see plan_doc.md" in text for text in texts)
    if mode == "direct":
        assert len({re.findall(r"# The plan document.*?\"", text)[0] for text in texts}) == 1


COMPACTED = "\n".join(
    f"## {part}\nnone"
    for part in ("State", "Work done", "Files", "Failed approaches", "Promises", "Remaining", "Key facts")
)
ENTRY = {
    "action": "Read the five parts",
    "details": "All five parts were read from beginning to end. None of them needs a change, since the numbering holds "
    "throughout; the third one repeats a line that the second has as well, which is meant to be so.",
    "result": "✓ Nothing was changed, nothing is left to do",
}


def _results(request: Any) -> bool:
    """Whether the current run has tool results already."""
    return any(message["role"] == "tool" for message in request.messages)


async def test_what_was_accepted_while_the_plan_could_not_be_written_is_written_once_it_can(workspace: Path) -> None:
    flags = {"mode": "agent"}
    served = serve(*writing(summarized()), strict=True)
    async with served as server, run_session(server, workspace, flags=flags) as session:
        doc = session.folder / "plan_doc.md"

        def answer(event: Any) -> Answer:
            if isinstance(event, SummaryProposed) and len(watch.of(SummaryProposed)) == 1:
                doc.unlink()
                doc.mkdir()
            return Answer(verdict="approve")

        watch = SessionDriver(session, answer)
        for told in (1, 2):
            await session.send(TASK)
            await watch.ended()
            assert [one.code for one in watch.of(Notice)].count("plan_doc.owed") == told
        assert doc.is_dir() and not [one for one in watch.of(PlanDocChanged) if one.by == "summary"]
        doc.rmdir()
        await watch.until_event(PlanDocChanged, by="summary")
        assert doc.read_text("utf-8").count(" - Did it\n") == 2
        await session.send(TASK)
        await watch.ended()
        assert doc.read_text("utf-8").count(" - Did it\n") == 3
