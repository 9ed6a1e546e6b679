from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.ollama import FakeOllama, estimate_tokens
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer
from tui_agent.common.workplan import Summary
from tui_agent.engine.core.state import EngineState
from tui_agent.events import (
    Event,
    Notice,
    PlanDocChanged,
    PlanDocConflict,
    PlanDocResolved,
    QuestionAnswered,
    QuestionAsked,
    SummaryProposed,
    SummaryReviewed,
)
from tui_agent.platform.files import sha256_of
from tui_agent.storage.journal import read_records

PLAN = "# Plan: Ship\n\n## Goal\nShip\n\n## Acceptance Criteria\n- [ ] one\n- [ ] two\n\n## Mine\nmy note\n"
PROPOSE = scenario("look", step("", call("update_plan", criteria_added=["Proposed"])), "Proposed it.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def hash_of(text: str) -> str:
    return sha256_of(text.encode())


def edited(path: Path, old: str, new: str) -> str:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new))
    return path.read_text("utf-8")


# --- edits ---


async def test_an_edit_of_an_older_text_is_merged_with_later_changes(workspace: Path) -> None:
    async with serve(strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        doc = session.folder / "plan_doc.md"
        assert await session.edit_plan(PLAN)
        base = (await watch.until_event(PlanDocChanged, by="user")).text
        edited(doc, "- [ ] two", "- [x] two\n- [ ] three")
        await watch.until_event(PlanDocChanged, by="editor")
        assert await session.edit_plan(base.replace("- [ ] one", "- [x] one"), hash_of(base))
        text = doc.read_text("utf-8")
        assert "- [x] one\n- [x] two\n- [ ] three\n" in text and "my note" in text
        assert not await session.edit_plan(base, hash_of("never told"))
        refused = await watch.until_event(Notice, code="plan_doc.refused")
        assert "old version" in refused.text and doc.read_text("utf-8") == text


async def test_a_value_changed_by_two_edits_is_asked_about(workspace: Path) -> None:
    async with serve(strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, lambda event: Answer(verdict="approve", data={"take": "both"}))
        doc = session.folder / "plan_doc.md"
        assert await session.edit_plan(PLAN)
        base = (await watch.until_event(PlanDocChanged, by="user")).text
        edited(doc, "## Goal\nShip", "## Goal\nTheirs")
        await watch.until_event(PlanDocChanged, by="editor")
        expected = base.replace("## Goal\nShip", "## Goal\nOurs")
        editing = asyncio.create_task(session.edit_plan(expected, hash_of(base)))
        conflict = await watch.until_event(PlanDocConflict)
        assert (conflict.ours, conflict.theirs) == ("Ours", "Theirs")
        assert await editing
        assert "Theirs\nOurs" in doc.read_text("utf-8")


async def test_notes_in_an_edit_of_the_newest_text_are_written_verbatim(workspace: Path) -> None:
    async with serve(strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        assert await session.edit_plan(PLAN)
        base = (await watch.until_event(PlanDocChanged, by="user")).text
        mine = base.replace("my note", "my\tother note ✎  ")
        assert await session.edit_plan(mine, hash_of(base))
        text = (session.folder / "plan_doc.md").read_text("utf-8")
    assert text.partition("# Plan")[2] == mine.partition("# Plan")[2]


async def test_a_smaller_actual_window_also_limits_the_document(workspace: Path) -> None:
    decisions = "".join(f"### Decision {item}\n**Rationale:** {'Since it fits. ' * 20}\n\n" for item in range(200))
    server = FakeOllama(lambda body: {"role": "assistant", "content": "Hello."}, window=6_144, refuses=True)
    async with server, run_session(server, workspace, provider="ollama") as session:
        assert await session.edit_plan(f"# Plan: Ship\n\n## Decisions Made\n{decisions}")
        watch = SessionDriver(session)
        await session.send("hello")
        assert (await watch.ended()).outcome == "done"
    assert server.refused and "Decision 199\n**Rationale" in server.bodies[-1]["messages"][1]["content"]
    assert estimate_tokens(server.bodies[-1]) < 6_144


# --- proposals ---


async def test_an_external_change_is_reported_while_a_proposal_is_pending(workspace: Path) -> None:
    async with serve(PROPOSE, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            await session.edit_plan(PLAN)
            await session.send("look")
            await watch.ended()
            edited(session.folder / "plan_doc.md", "- [ ] one", "- [x] one")
            saved = await watch.until_event(PlanDocChanged, by="editor")
            proposal = await watch.until_event(PlanDocChanged)
    assert not saved.pending and "- [x] one" in saved.text and "Proposed" not in saved.text
    assert proposal.pending and "- [x] one" in proposal.text and "Proposed" in proposal.text


async def test_an_unseen_proposal_is_not_accepted(workspace: Path) -> None:
    async with serve(PROPOSE, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
            shown = watch.of(PlanDocChanged)[-1]
            assert shown.pending
            assert not await session.settle_plan(True, "another")
            assert await session.settle_plan(True, hash_of(shown.text))
            settled = await watch.until_event(PlanDocResolved)
            text = (session.folder / "plan_doc.md").read_text("utf-8")
    assert settled.answer.verdict == "approve" and "Proposed" in text


@pytest.mark.parametrize("accept", [True, False])
async def test_a_pending_proposal_survives_a_resume(workspace: Path, accept: bool) -> None:
    async with serve(PROPOSE, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            await session.edit_plan(PLAN)
            await session.send("look")
            await watch.ended()
            shown = watch.of(PlanDocChanged)[-1]
            name = session.folder.name
        async with run_session(server, None, resume=name) as again:
            assert "Proposed" in again.memory.proposals()
            watch = SessionDriver(again)
            assert await again.settle_plan(accept, hash_of(shown.text))
            assert (await watch.until_event(PlanDocResolved)).answer.verdict == ("approve" if accept else "reject")
            text = (again.folder / "plan_doc.md").read_text("utf-8")
            assert ("- [ ] Proposed" in text) is accept and "my note" in text and "- [ ] two" in text
        async with run_session(server, None, resume=name) as third:
            assert not third.memory.pending
            assert not await third.settle_plan(True)


async def test_a_proposal_for_a_changed_plan_is_dropped_with_a_notice(workspace: Path) -> None:
    async with serve(PROPOSE, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
            path = session.folder
        (path / "plan_doc.md").write_text(PLAN)
        async with run_session(server, None, resume=path.name) as again:
            watch = SessionDriver(again)
            assert (await watch.until_event(PlanDocResolved)).answer.verdict == "withdrawn"
            assert "the pending proposal was dropped" in watch.of(Notice)[-1].text
            assert not again.memory.pending
        async with run_session(server, None, resume=path.name) as third:
            assert not third.memory.pending
            told = [record.event for record in read_records(path / "events.jsonl")]
    assert sum(isinstance(event, PlanDocResolved) for event in told) == 1


# --- texts that were kept aside ---


@pytest.mark.parametrize("reply", ["Merge it", "Leave it"])
async def test_a_saved_copy_is_reported_and_offered_for_merging(workspace: Path, reply: str) -> None:
    async with serve(strict=True) as server, run_session(server, workspace) as session:
        doc = session.folder / "plan_doc.md"

        def answer(event: Event) -> Answer | None:
            if not isinstance(event, QuestionAsked):
                return None
            assert event.otherwise  # a choice without a field for another answer
            return Answer(verdict="reply", text=reply)

        watch = SessionDriver(session, answer)
        assert await session.edit_plan(PLAN)
        with doc.open("r+b") as editor:
            old = editor.read().decode()
            assert await session.edit_plan(doc.read_text("utf-8").replace("- [ ] two", "- [x] two"))
            editor.seek(0)
            editor.write(old.replace("- [ ] one\n", "- [ ] one\n- [ ] late\n").encode())
        assert await session.edit_plan(doc.read_text("utf-8").replace("## Goal\nShip", "## Goal\nShip it"))
        notice = await watch.until_event(Notice, code="plan_doc.aside")
        await watch.until_event(QuestionAnswered)
        (place,) = session.folder.glob("plan_doc.aside-*.md")
        assert str(place) in notice.text and "late" in place.read_text("utf-8")
        if reply == "Merge it":
            await watch.until_event(PlanDocChanged, by="merge")
        text = doc.read_text("utf-8")
    assert ("- [ ] late" in text) is (reply == "Merge it")
    assert "- [x] two" in text and "Ship it" in text


async def test_a_conflicting_saved_copy_is_merged_after_a_question(workspace: Path) -> None:
    async with serve(strict=True) as server, run_session(server, workspace) as session:
        doc = session.folder / "plan_doc.md"

        def answer(event: Event) -> Answer:
            if isinstance(event, QuestionAsked):
                return Answer(verdict="reply", text="Merge it")
            return Answer(verdict="approve", data={"take": "ours"})

        watch = SessionDriver(session, answer)
        assert await session.edit_plan(PLAN)
        with doc.open("r+b") as editor:
            old = editor.read().decode()
            assert await session.edit_plan(doc.read_text("utf-8").replace("## Goal\nShip", "## Goal\nShip now"))
            editor.seek(0)
            editor.write(old.replace("## Goal\nShip", "## Goal\nShip later").encode())
        assert await session.edit_plan(doc.read_text("utf-8").replace("- [ ] two", "- [x] two"))
        conflict = await watch.until_event(PlanDocConflict)
        await watch.until_event(PlanDocChanged, by="merge")
        text = doc.read_text("utf-8")
    assert conflict.where.startswith("plan_doc.aside-") and conflict.ours == "Ship later"
    assert "## Goal\nShip later" in text and "- [x] two" in text


@pytest.mark.parametrize("reply", ["Merge it", "Leave it"])
async def test_a_saved_copy_is_offered_on_each_start_until_decided(workspace: Path, reply: str) -> None:
    def later(event: Event) -> Answer | None:
        return Answer(verdict="reply", text=reply) if isinstance(event, QuestionAsked) else None

    async with serve(strict=True) as server:
        async with run_session(server, workspace) as session:
            path, doc = session.folder, session.folder / "plan_doc.md"
            watch = SessionDriver(session, lambda event: None)
            assert await session.edit_plan(PLAN)
            with doc.open("r+b") as editor:
                old = editor.read().decode()
                assert await session.edit_plan(doc.read_text("utf-8").replace("- [ ] two\n", ""))
                editor.seek(0)
                editor.write(old.replace("- [ ] one\n", "- [ ] one\n- [ ] late\n").encode())
            assert await session.edit_plan(doc.read_text("utf-8").replace("## Goal\nShip", "## Goal\nShip it"))
            await watch.until_event(QuestionAsked)
        (place,) = path.glob("plan_doc.aside-*.md")
        async with run_session(server, None, resume=path.name) as second:
            watch = SessionDriver(second, later)
            asked = await watch.until_event(QuestionAsked)
            assert asked.about == place.name and str(place) in asked.question
            if reply == "Merge it":
                await watch.until_event(PlanDocChanged, by="merge")
            else:
                await watch.until_event(QuestionAnswered)
        text = doc.read_text("utf-8")
        assert ("- [ ] late" in text) is (reply == "Merge it")
        assert "two" not in text and "Ship it" in text  # what was deleted since stays deleted
        another = place.with_name("plan_doc.aside-99990101-000000-other.md")
        another.write_text(place.read_text("utf-8").replace("late", "later"), "utf-8")
        async with run_session(server, None, resume=path.name) as third:
            watch = SessionDriver(third)
            assert (await watch.until_event(QuestionAsked)).about == another.name


# --- summaries that wait ---


def test_an_accepted_summary_waits_until_it_is_written_and_is_not_replaced() -> None:
    state = EngineState()
    item, two = Summary(action="one"), Summary(action="two")
    for key, summary in (("a", item), ("b", two)):
        state.fold(SummaryProposed(id=key, summary=summary))
        state.fold(SummaryReviewed(id=key, outcome="pending", summary=summary))
    state.fold(SummaryProposed(id="c", summary=item))
    assert [row["action"] for row in state.summaries.values()] == ["two", "one"]
    state.fold(SummaryReviewed(id="c", outcome="edited", summary=Summary(action="mine")))
    state = EngineState.restore(state.export())
    assert [row["action"] for row in state.summaries.values()] == ["two", "mine"]
    state.fold(PlanDocChanged(text="", by="summary"))
    state.fold(SummaryReviewed(id="b", outcome="discarded", summary=two))
    assert not state.summaries
