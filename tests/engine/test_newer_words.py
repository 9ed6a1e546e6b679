from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import classified_as, plan_reply, plan_step, step_reply, summarized
from tui_agent.common.domain import Answer
from tui_agent.events import Notice, SummaryProposed

WRITE = step_reply("Write", step("", call("write_file", path="report.md", content="All is well.\n")), "Written.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work", tests=False)


CRITERIA = "# Plan: Ship\n\n## Acceptance Criteria\n- [ ] crit X\n- [ ] crit Y *(old)*\n- [ ] crit Z\n"
TICKS = {
    "acceptance_criteria_updates": [
        {"description": f"crit {one}", "completed": True, "notes": f"agent note {one}"} for one in "XYZ"
    ],
    "decisions_made": [{"title": "Markdown"}],
}


async def accepted_after(
    workspace: Path, edit: Any, answer: Answer, update: dict[str, Any]
) -> tuple[SessionDriver, str]:
    """What becomes of the plan when somebody saves it while the summary waits: `edit` makes the new text."""

    write = [classified_as(), plan_reply(plan_step("Write")), summarized("Wrote it", **update), WRITE]
    async with serve(*write, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            assert await session.edit_plan(CRITERIA)

            def at_dialog(event: Any) -> Answer:
                if isinstance(event, SummaryProposed):
                    doc = session.folder / "plan_doc.md"
                    doc.write_text(edit(doc.read_text("utf-8")), encoding="utf-8")
                    return answer
                return Answer(verdict="approve")

            watch = SessionDriver(session, at_dialog)
            await session.send("write the report")
            await watch.ended()
            await session.wait()
            return watch, (session.folder / "plan_doc.md").read_text("utf-8")


async def test_what_the_user_saves_while_the_summary_waits_stays_as_they_wrote_it(workspace: Path) -> None:
    def edit(text: str) -> str:
        text = text.replace("- [ ] crit Z", "- [ ] crit Z *(my own note)*")
        return text.replace("- [ ] crit Y *(old)*", "- [x] crit Y *(mine)*")

    watch, doc = await accepted_after(workspace, edit, Answer(verdict="approve"), TICKS)
    assert "- [x] crit X *(agent note X)*" in doc
    assert "- [x] crit Y *(mine)*" in doc and "- [ ] crit Z *(my own note)*" in doc
    assert "Wrote it" in doc and "### Markdown" in doc and "status: in_progress" in doc
    (told,) = [one.text for one in watch.of(Notice) if one.code == "plan_doc.kept"]
    assert told.endswith("left out: crit Y, crit Z.")


async def test_what_the_user_removes_rewords_or_adds_while_the_summary_waits_stays(workspace: Path) -> None:
    def edit(text: str) -> str:
        text = text.replace("- [ ] crit Y *(old)*\n", "").replace("crit Z", "crit Z, on all systems")
        return text.replace("status: in_progress", "status: blocked").replace("planning", "blocked") + "- [ ] crit W\n"

    watch, doc = await accepted_after(workspace, edit, Answer(verdict="approve"), TICKS)
    assert "crit Y" not in doc and "- [ ] crit Z, on all systems\n" in doc and "- [ ] crit W" in doc
    assert "- [x] crit X" in doc and "status: blocked" in doc
    assert [one.code for one in watch.of(Notice)].count("plan_doc.kept") == 1


async def test_what_the_user_says_in_the_dialog_itself_is_newer_than_their_save(workspace: Path) -> None:
    offered = {"action": "Wrote it", "details": "As asked.", "result": "✓ it works", "tools": ["write_file"]}
    mine = [{"description": "crit Z", "completed": True, "notes": "seen by me"}]
    answer = Answer(verdict="approve", data={"summary": {**offered, "criteria": mine}})
    _, doc = await accepted_after(
        workspace, lambda text: text.replace("crit Z", "crit Z *(my own note)*"), answer, TICKS
    )
    assert "- [x] crit Z *(seen by me)*" in doc and "- [ ] crit X" in doc


async def test_what_the_user_writes_after_a_proposal_stays_as_they_wrote_it(workspace: Path) -> None:
    tick = step("", call("update_plan", criteria_met=["crit X", "crit Z"]))
    async with serve(scenario("look", tick, "Proposed."), strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "plan"}) as session:
            assert await session.edit_plan(CRITERIA)
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
            await session.edit_plan(CRITERIA.replace("crit Z", "crit Z *(not yet)*"))
            assert await session.settle_plan(True)
            doc = (session.folder / "plan_doc.md").read_text("utf-8")
    assert "- [x] crit X" in doc and "- [ ] crit Z *(not yet)*" in doc
