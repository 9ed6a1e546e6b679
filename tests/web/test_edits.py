from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import AnsweredPageSession
from tests.doubles.planted import SHAPED
from tests.engine.staging import do, in_step, planned, sorted_as, summed_up
from tests.engine.test_partial_edits import NEW, OLD
from tests.tui.edits import asked, editing
from tests.web.kit import Served, Stream, faced, served
from tui_agent.common.workplan import Check, CriterionChange, DecisionNote, InstructionPlan, PlanStep, Summary
from tui_agent.events import PlanDocChanged, PlanProposed, SummaryProposed
from tui_agent.frontends.web.edits import AnswerEdit, answer_data
from tui_agent.platform.files import sha256_of
from tui_agent.text import SecretMask

SECRET = SHAPED["github"]
SUMMARY = Summary(
    action="Did it",
    details=f"with {SECRET} and " + "very " * 20_000,
    result="✓ works",
    tools=("read_file",),
    criteria=(CriterionChange(description="one"), CriterionChange(description="two", notes="n")),
    decisions_made=(DecisionNote(title="A", rationale="why", alternatives=("x",)), DecisionNote(title="B")),
    decisions_rejected=(DecisionNote(title="C"),),
    goal="g",
)
PLAN = InstructionPlan(
    approach="so",
    steps=(
        PlanStep(number=1, description=f"use {SECRET}", tool="read_file", arguments={"path": "a"}, expected="e"),
        PlanStep(number=2, description="second", critical=True, fallback="f"),
    ),
    check=Check(command="true", criteria="fine"),
)


async def ready(page: Served, *names: str) -> None:
    async with page.events() as stream:
        for name in names:
            await stream.until(name)


async def test_only_what_was_touched_is_another_thing_than_was_offered() -> None:
    door = AnsweredPageSession(SummaryProposed(id="s", summary=SUMMARY), PlanProposed(id="p", plan=PLAN, asks=True))
    async with faced(door) as page:
        await page.enter()
        await ready(page, "summary.offered", "plan.proposed")
        edit: dict[str, Any] = {
            "action": "Did\x1b[31m it\n all",
            "ticks": [False, True],
            "decisions": [
                {"origin": 2, "rejected": False},
                {"origin": 0, "rejected": True, "title": "A, after all"},
                {"title": "new", "rationale": "because"},
            ],
        }
        done = await page.post("/answer", id="s", verdict="approve", data={"summary": edit})
        assert done.status_code == 200, done.text
        given = (door.given[-1].data or {})["summary"]
        assert given["action"] == "Did it all" and given["details"] == SUMMARY.details
        assert [one["completed"] for one in given["criteria"]] == [False, True]
        assert [one["title"] for one in given["decisions_made"]] == ["C", "new"]
        (rejected,) = given["decisions_rejected"]
        assert rejected == {"title": "A, after all", "rationale": "why", "alternatives": ("x",)}

        steps = [{"description": "first of all"}, {"origin": 1, "fallback": ""}, {"origin": 0, "expected": "E"}]
        done = await page.post("/answer", id="p", verdict="approve", data={"plan": {"steps": steps, "check": "false"}})
        assert done.status_code == 200, done.text
        given = (door.given[-1].data or {})["plan"]
        assert [(one["number"], one["description"]) for one in given["steps"]] == [
            (1, "first of all"),
            (2, "second"),
            (3, PLAN.steps[0].description),
        ]
        assert given["steps"][2]["arguments"] == {"path": "a"} and given["steps"][2]["expected"] == "E"
        assert given["check"] == {"command": "false", "criteria": "fine"}

        # What comes to the same is no edit.
        for id, data in (
            ("s", {"summary": {"action": "Did it"}}),
            ("p", {"plan": {"steps": [{"origin": 0}, {"origin": 1}]}}),
        ):
            assert (await page.post("/answer", id=id, verdict="approve", data=data)).status_code == 200
            assert door.given[-1].data is None


async def test_what_a_page_does_not_see_stays_in_what_is_edited_there() -> None:
    other = SHAPED["github"][:-4] + "wxyz"
    note = DecisionNote(title=f"{SECRET} not {other}", rationale=f"as {SECRET} as {SECRET}")
    summary = replace(SUMMARY, decisions_made=(note,))
    door = AnsweredPageSession(SummaryProposed(id="s", summary=summary), PlanProposed(id="p", plan=PLAN, asks=True))
    async with faced(door) as page:
        await page.enter()
        async with page.events() as stream:
            shown = (await asked_for(stream, "summary.offered"))["summary"]
            step = (await asked_for(stream, "plan.proposed"))["plan"]["steps"][0]
        (seen,) = shown["decisions_made"]
        assert "more characters" in shown["details"] and SECRET not in str((shown, step))

        async def given(id: str, **data: Any) -> Any:
            done = await page.post("/answer", id=id, verdict="approve", data=data)
            assert done.status_code == 200, done.text
            return door.given[-1].data

        decision = {"origin": 0, "title": "so " + seen["title"], "rationale": seen["rationale"][3:]}
        edit = {"details": shown["details"].replace("with", "By") + " End.", "decisions": [decision]}
        got = (await given("s", summary=edit))["summary"]
        assert got["details"] == SUMMARY.details.replace("with", "By").rstrip() + "  End."
        (kept,) = got["decisions_made"]
        assert (kept["title"], kept["rationale"]) == ("so " + note.title, note.rationale[3:])
        steps = [{"origin": 0, "description": step["description"] + " now"}]
        assert (await given("p", plan={"steps": steps}))["plan"]["steps"][0]["description"] == f"use {SECRET} now"

        # Which one is meant must be known.
        one = {"origin": 0, "title": seen["title"].partition(" not")[0]}
        refused = await page.post("/answer", id="s", verdict="approve", data={"summary": {"decisions": [one]}})
        assert refused.status_code == 400 and "hidden secrets" in refused.json()["error"]
        got = await given("s", summary={"details": "all new", "decisions": [{"title": seen["title"]}]})
        assert got["summary"]["details"] == "all new" and SECRET not in str(got["summary"]["decisions_made"])


LONG: list[tuple[str, Any, str]] = [
    ("s", {"summary": {"action": "x" * 4_712}}, "“Action” has 4,712 characters; shorten it to 4,000 at most"),
    ("s", {"summary": {"details": "x" * 64_001}}, "“Details” has 64,001 characters; shorten it to 64,000 at most"),
    ("s", {"summary": {"decisions": [{"origin": 0}, {"title": "ü" * 4_001}]}}, "“Decision 2” has 4,001 characters"),
    ("p", {"plan": {"steps": [{"origin": 1}, {"origin": 0, "expected": "x" * 5_000}]}}, "“Expected of step 2” has 5,000"),
    ("p", {"plan": {"steps": [{"origin": 1}], "check": "x" * 5_000}}, "“Check” has 5,000 characters"),
]  # fmt: skip


async def test_a_text_that_is_too_long_is_named_with_its_length() -> None:
    door = AnsweredPageSession(SummaryProposed(id="s", summary=SUMMARY), PlanProposed(id="p", plan=PLAN, asks=True))
    async with faced(door) as page:
        await page.enter()
        await ready(page, "summary.offered", "plan.proposed")
        for id, data, why in LONG:
            refused = await page.post("/answer", id=id, verdict="approve", data=data)
            assert refused.status_code == 400 and why in refused.json()["error"], refused.text
        refused = await page.post("/plan/edit", text="x" * 600_000, base="0")
        assert refused.status_code == 400 and "would have 600,000 characters" in refused.json()["error"]
        done = await page.post("/answer", id="s", verdict="approve", data={"summary": {"action": "x" * 4_000}})
        assert done.status_code == 200 and len(door.given) == 1


TWO = [{"origin": 0}, {"origin": 1}]
REFUSED: list[tuple[str, Any]] = [
    ("s", {"summary": {"action": "  "}}),
    ("s", {"summary": {"action": 7}}),
    ("s", {"summary": {"action": "x" * 5_000}}),
    ("s", {"summary": {"details": "x" * 70_000}}),
    ("s", {"summary": {"tools": ["write_file"]}}),
    ("s", {"summary": {"ticks": [True]}}),
    ("s", {"summary": {"decisions": [{"origin": 3}]}}),
    ("s", {"summary": {"decisions": [{"origin": 1}, {"origin": 1}]}}),
    ("s", {"summary": {"decisions": [{"title": ""}]}}),
    ("s", {"summary": {"decisions": [{"title": "x"}] * 300}}),
    ("s", {"plan": {"steps": TWO}}),
    ("s", {"hunks": [0]}),
    ("p", {"plan": {"steps": []}}),
    ("p", {"plan": {"steps": [{"origin": 0, "tool": "run_terminal_command"}]}}),
    ("p", {"plan": {"steps": [{"origin": 0, "arguments": {}}]}}),
    ("p", {"plan": {"steps": [{"origin": -1}]}}),
    ("p", {"plan": {"steps": [*TWO, {"origin": 1}]}}),
    ("p", {"plan": {"steps": [*TWO, {"description": " "}]}}),
    ("p", {"plan": {"steps": TWO}, "alternative": 0}),
    ("p", {"alternative": 0}),
    ("q1", {"hunks": []}),
    ("q1", {"hunks": [2]}),
    ("q1", {"hunks": [0, "1"]}),
    ("q1", {"hunks": [0], "edits": {"1": "x"}}),
    ("q1", {"content": "x"}),
    ("q1", ["hunks"]),
]


async def test_what_does_not_fit_is_refused_and_decides_nothing() -> None:
    door = AnsweredPageSession(records=asked(editing()))
    door.tell(SummaryProposed(id="s", summary=SUMMARY), PlanProposed(id="p", plan=PLAN, asks=True))
    async with faced(door) as page:
        await page.enter()
        await ready(page, "approval.asked", "summary.offered", "plan.proposed")
        for id, data in REFUSED:
            refused = await page.post("/answer", id=id, verdict="approve", data=data)
            assert refused.status_code == 400 and refused.json()["error"], (id, data, refused.text)
        for id, data in (("s", {"summary": {"action": "x"}}), ("q1", {"hunks": [0]})):
            assert (await page.post("/answer", id=id, verdict="reject", data=data)).status_code == 400
            gone = await page.post("/answer", id="other", verdict="approve", data=data)
            assert gone.status_code == 409
        assert not door.given
    with pytest.raises(ValueError, match="as a whole"):
        whole = asked(editing(splittable=False))[-1].event
        answer_data(whole, AnswerEdit(hunks=[0]), SecretMask({}))  # type: ignore[arg-type]  # the request that the scene ends with


async def test_the_chosen_parts_of_an_edit_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(OLD)
    talk = scenario(
        "go", step("", call("read_file", path="a.txt"), call("write_file", path="a.txt", content=NEW)), "done"
    )
    async with serve(talk) as server, served(server, tmp_path) as page:
        await page.enter()
        async with page.chat("go") as stream:
            request = (await stream.until("approval.asked")).data["data"]
            assert (
                await page.post("/answer", id=request["id"], verdict="approve", data={"hunks": [3]})
            ).status_code == 400
            done = await page.post("/answer", id=request["id"], verdict="approve", data={"hunks": [0, 2]})
            assert done.status_code == 200, done.text
            await stream.rest()
    assert (tmp_path / "a.txt").read_text() == OLD.replace("line 2\n", "line two\n").replace("line 28\n", "")


async def asked_for(stream: Stream, name: str) -> Any:
    return (await stream.until(name)).data["data"]


async def test_a_plan_and_its_summary_are_edited_on_the_way_to_memory(tmp_path: Path) -> None:
    talk = [
        sorted_as(),
        planned(do("Look around"), do("Write it", "write_file")),
        in_step("Look closely", step("", call("write_file", path="seen.md", content="all\n")), "I looked."),
        summed_up(decisions_made=[{"title": "Markdown", "rationale": "plain"}]),
    ]
    async with serve(*talk) as server, served(server, tmp_path, flags={"mode": "agent"}) as page:
        await page.enter()
        async with page.chat("write the report") as stream:
            plan = await asked_for(stream, "plan.proposed")
            steps = [{"origin": 0, "description": "Look closely"}]
            done = await page.post("/answer", id=plan["id"], verdict="approve", data={"plan": {"steps": steps}})
            assert done.status_code == 200, done.text
            reviewed = await asked_for(stream, "plan.reviewed")
            assert reviewed["edited"] and [one["description"] for one in reviewed["plan"]["steps"]] == ["Look closely"]
            leave = await asked_for(stream, "approval.asked")
            assert (await page.post("/answer", id=leave["id"], verdict="approve")).status_code == 200
            offered = await asked_for(stream, "summary.offered")
            edit = {"result": "🔄 only looked", "decisions": [{"origin": 0, "title": "Plain text"}]}
            done = await page.post("/answer", id=offered["id"], verdict="approve", data={"summary": edit})
            assert done.status_code == 200, done.text
            assert (await asked_for(stream, "summary.settled"))["outcome"] == "edited"
            await stream.rest()
        doc = (page.session.folder / "plan_doc.md").read_text("utf-8")
    assert "🔄 only looked" in doc and "Plain text" in doc and "plain" in doc and "Markdown" not in doc


async def test_the_plan_document_is_edited_merged_and_its_conflicts_are_asked(tmp_path: Path) -> None:
    async with serve() as server, served(server, tmp_path) as page:
        await page.enter()
        async with page.events() as stream:
            await stream.until("plan_doc.changed")
            begun = (await page.post("/plan/text")).json()
            mine = begun["text"].replace("[User will provide goal]", "Mine")
            assert mine != begun["text"]
            assert (await page.post("/plan/edit", text=mine, base=begun["base"])).json() == {"status": "ok"}
            await stream.until("plan_doc.changed", by="user")
            # An edit of the old text: what differs is merged, what both changed is asked, and nothing is lost.
            theirs = begun["text"].replace("[User will provide goal]", "Theirs")
            saving = asyncio.create_task(page.post("/plan/edit", text=theirs, base=begun["base"]))
            conflict = await asked_for(stream, "plan_doc.conflict")
            assert not saving.done() and {"Mine", "Theirs"} == {conflict["ours"], conflict["theirs"]}
            done = await page.post("/answer", id=conflict["id"], verdict="approve", data={"take": "ours"})
            assert done.status_code == 200
            assert (await saving).json() == {"status": "merged"}
            await stream.until("plan_doc.changed", by="user")
            now = (await page.post("/plan/text")).json()
            assert "## Goal\nTheirs" in now["text"] and now["base"] != begun["base"]
            refused = await page.post("/plan/edit", text=mine, base="0" * 64)
            assert refused.status_code == 409
            assert "old version" in (await stream.until("notice", code="plan_doc.refused")).data["data"]["text"]
            for body in ({"text": mine}, {"text": mine, "base": ""}, {"text": "x" * 600_000, "base": "0"}):
                assert (await page.post("/plan/edit", **body)).status_code == 400
        assert "Theirs" in (page.session.folder / "plan_doc.md").read_text("utf-8")


async def test_the_text_of_the_plan_is_given_exactly_and_secrets_only_when_asked_for() -> None:
    text = f"# Plan\r\n\r\n## Goal\r\nuse {SECRET}\r\n"
    sha256 = sha256_of(text.encode())
    door = AnsweredPageSession()
    async with faced(door) as page:
        await page.enter()
        assert (await page.post("/plan/text")).status_code == 409
        door.tell(PlanDocChanged(text=text, by="editor", sha256=sha256))
        door.tell(PlanDocChanged(text="a proposal", by="review", sha256="1", pending=True))
        async with page.events() as stream:
            shown = await asked_for(stream, "plan_doc.changed")
            await stream.until("plan_doc.changed", pending=True)
        assert SECRET not in shown["text"]
        assert (await page.post("/plan/text")).json() == {"hides": True}
        assert (await page.post("/plan/text", exact=True)).json() == {"text": text, "base": sha256}
        typed = text.replace("\r\n", "\n") + "more\n"
        await page.post("/plan/edit", text=typed, base=sha256)
        await page.post("/plan/edit", text=typed, base="elsewhere")
        assert door.done[-2:] == [("edit", text + "more\r\n", sha256), ("edit", typed, "elsewhere")]
