from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import AnsweredPageSession
from tests.doubles.planted import BY_FORMAT
from tests.engine.staging import classified_as, plan_reply, plan_step, step_reply, summarized
from tests.engine.test_partial_edits import NEW, OLD
from tests.tui.edits import approval_records, edit_action
from tests.web.kit import PageClient, Stream, serve_fake_session, serve_session
from tui_agent.common.workplan import Check, CriterionChange, DecisionNote, InstructionPlan, PlanStep, Summary
from tui_agent.events import PlanDocChanged, PlanProposed, SummaryProposed
from tui_agent.frontends.web.edits import AnswerEdit, answer_data
from tui_agent.platform.files import sha256_of
from tui_agent.text import SecretMask

SECRET = BY_FORMAT["github"]
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


async def wait_for_events(page: PageClient, *names: str) -> dict[str, Any]:
    """Return the data of the first event of each name."""
    async with page.events() as stream:
        return {name: await asked_for(stream, name) for name in names}


def summary_values(summary: Any, **changes: Any) -> dict[str, Any]:
    """The values of a summary's form, given the data of the summary as the page shows it."""
    decisions = [
        {"origin": origin, "rejected": origin >= len(summary["decisions_made"]), "title": note["title"]}
        | {"rationale": note["rationale"]}
        for origin, note in enumerate([*summary["decisions_made"], *summary["decisions_rejected"]])
    ]
    ticks = [criterion["completed"] for criterion in summary["criteria"]]
    return {key: summary[key] for key in ("action", "details", "result")} | {
        "ticks": ticks,
        "decisions": decisions,
        **changes,
    }


def plan_values(plan: Any, **changes: Any) -> dict[str, Any]:
    """The values of a plan's form, given the data of the plan as the page shows it."""
    steps = [
        {"origin": origin} | {key: step[key] for key in ("description", "expected", "fallback")}
        for origin, step in enumerate(plan["steps"])
    ]
    return {"steps": steps, "check": plan["check"]["command"], **changes}


async def test_unchanged_values_are_no_edit_and_changed_ones_are_applied() -> None:
    session = AnsweredPageSession(SummaryProposed(id="s", summary=SUMMARY), PlanProposed(id="p", plan=PLAN, asks=True))
    async with serve_fake_session(session) as page:
        await page.enter()
        shown = await wait_for_events(page, "summary.offered", "plan.proposed")
        summary, plan = shown["summary.offered"]["summary"], shown["plan.proposed"]["plan"]
        edit = summary_values(
            summary,
            action="Did\x1b[31m it\n all",
            ticks=[False, True],
            decisions=[
                {"origin": 2, "rejected": False, "title": "C"},
                {"origin": 0, "rejected": True, "title": "A, after all", "rationale": "why"},
                {"title": "new", "rationale": "because"},
            ],
        )
        done = await page.post("/answer", id="s", verdict="approve", data={"summary": edit})
        assert done.status_code == 200, done.text
        data = (session.received[-1].data or {})["summary"]
        assert data["action"] == "Did it all" and data["details"] == SUMMARY.details
        assert [criterion["completed"] for criterion in data["criteria"]] == [False, True]
        assert [note["title"] for note in data["decisions_made"]] == ["C", "new"]
        (rejected,) = data["decisions_rejected"]
        assert rejected == {"title": "A, after all", "rationale": "why", "alternatives": ("x",)}

        first, second = plan_values(plan)["steps"]
        steps = [
            {"description": "first of all"},
            second | {"fallback": ""},
            first | {"expected": "E"},
            {"description": "dropped", "removed": True},
        ]
        values = plan_values(plan, steps=steps, check="false")
        done = await page.post("/answer", id="p", verdict="approve", data={"plan": values})
        assert done.status_code == 200, done.text
        data = (session.received[-1].data or {})["plan"]
        assert [(step["number"], step["description"]) for step in data["steps"]] == [
            (1, "first of all"),
            (2, "second"),
            (3, PLAN.steps[0].description),
        ]
        assert data["steps"][2]["arguments"] == {"path": "a"} and data["steps"][2]["expected"] == "E"
        assert data["check"] == {"command": "false", "criteria": "fine"}

        for id, data in (("s", {"summary": summary_values(summary)}), ("p", {"plan": plan_values(plan)})):
            assert (await page.post("/answer", id=id, verdict="approve", data=data)).status_code == 200
            assert session.received[-1].data is None


async def test_text_that_a_page_does_not_show_is_kept_when_it_is_edited() -> None:
    other = BY_FORMAT["github"][:-4] + "wxyz"
    note = DecisionNote(title=f"{SECRET} not {other}", rationale=f"as {SECRET} as {SECRET}")
    summary = replace(SUMMARY, decisions_made=(note,))
    session = AnsweredPageSession(SummaryProposed(id="s", summary=summary), PlanProposed(id="p", plan=PLAN, asks=True))
    async with serve_fake_session(session) as page:
        await page.enter()
        events = await wait_for_events(page, "summary.offered", "plan.proposed")
        shown, plan = events["summary.offered"]["summary"], events["plan.proposed"]["plan"]
        (decision,) = shown["decisions_made"]
        assert "more characters" in shown["details"] and SECRET not in str((shown, plan))

        async def approved(id: str, **data: Any) -> Any:
            done = await page.post("/answer", id=id, verdict="approve", data=data)
            assert done.status_code == 200, done.text
            return session.received[-1].data

        edited = {"origin": 0, "title": "so " + decision["title"], "rationale": decision["rationale"][3:]}
        details = shown["details"].replace("with", "By") + " End."
        result = (await approved("s", summary=summary_values(shown, details=details, decisions=[edited])))["summary"]
        assert result["details"] == SUMMARY.details.replace("with", "By").rstrip() + "  End."
        (made,) = result["decisions_made"]
        assert (made["title"], made["rationale"]) == ("so " + note.title, note.rationale[3:])
        steps = [{"origin": 0, "description": plan["steps"][0]["description"] + " now"}]
        data = await approved("p", plan=plan_values(plan, steps=steps))
        assert data["plan"]["steps"][0]["description"] == f"use {SECRET} now"

        # It must be clear which secret is meant.
        ambiguous = {"origin": 0, "title": decision["title"].partition(" not")[0]}
        values = summary_values(shown, decisions=[ambiguous])
        refused = await page.post("/answer", id="s", verdict="approve", data={"summary": values})
        assert refused.status_code == 400 and "hidden secrets" in refused.json()["error"]
        values = summary_values(shown, details="all new", decisions=[{"title": decision["title"]}])
        result = (await approved("s", summary=values))["summary"]
        assert result["details"] == "all new" and SECRET not in str(result["decisions_made"])


SHORT = Summary(
    action="Did it",
    details="with care",
    criteria=SUMMARY.criteria,
    decisions_made=SUMMARY.decisions_made,
    decisions_rejected=SUMMARY.decisions_rejected,
)
LONG: list[tuple[str, Any, str]] = [
    ("s", {"action": "x" * 4_712}, "“Action” has 4,712 characters; shorten it to 4,000 at most"),
    ("s", {"details": "x" * 64_001}, "“Details” has 64,001 characters; shorten it to 64,000 at most"),
    ("s", {"decisions": [{"title": "A"}, {"title": "ü" * 4_001}]}, "“Decision 2” has 4,001 characters"),
    ("p", {"steps": [{"description": "a"}, {"description": "b", "expected": "x" * 5_000}]}, "“Expected of step 2” has 5,000"),
    ("p", {"check": "x" * 5_000}, "“Check” has 5,000 characters"),
]  # fmt: skip


def edit_of(id: str, changes: Any) -> dict[str, Any]:
    """An edit of SHORT or PLAN."""
    if id == "s":
        return {"summary": summary_values(msgspec.to_builtins(SHORT), **changes)}
    return {"plan": plan_values(msgspec.to_builtins(PLAN), **changes)}


async def test_a_text_that_is_too_long_is_named_with_its_length() -> None:
    session = AnsweredPageSession(SummaryProposed(id="s", summary=SHORT), PlanProposed(id="p", plan=PLAN, asks=True))
    async with serve_fake_session(session) as page:
        await page.enter()
        await wait_for_events(page, "summary.offered", "plan.proposed")
        for id, changes, error in LONG:
            refused = await page.post("/answer", id=id, verdict="approve", data=edit_of(id, changes))
            assert refused.status_code == 400 and error in refused.json()["error"], refused.text
        refused = await page.post("/plan/edit", text="x" * 600_000, base="0")
        assert refused.status_code == 400 and "would have 600,000 characters" in refused.json()["error"]
        edit = edit_of("s", {"action": "x" * 4_000})
        done = await page.post("/answer", id="s", verdict="approve", data=edit)
        assert done.status_code == 200 and len(session.received) == 1


STEP = {"origin": 0, "description": "d"}
INVALID_EDITS: list[tuple[str, Any]] = [
    ("s", {"action": "  "}),
    ("s", {"action": 7}),
    ("s", {"tools": ["write_file"]}),
    ("s", {"ticks": [True]}),
    ("s", {"decisions": [{"origin": 3, "title": "x"}]}),
    ("s", {"decisions": [{"title": ""}]}),
    ("s", {"decisions": [{"title": "x"}] * 300}),
    ("p", {"steps": []}),
    ("p", {"steps": [STEP | {"removed": True}]}),
    ("p", {"steps": [STEP | {"tool": "run_terminal_command"}]}),
    ("p", {"steps": [STEP | {"arguments": {}}]}),
    ("p", {"steps": [STEP | {"origin": -1}]}),
    ("p", {"steps": [STEP | {"origin": 2}]}),
    ("p", {"steps": [STEP, {"description": " "}]}),
]
INVALID_DATA: list[tuple[str, Any]] = [
    ("s", edit_of("p", {})),
    ("s", {"summary": {"action": "x"}}),
    ("s", {"hunks": [0]}),
    ("p", {**edit_of("p", {}), "alternative": 0}),
    ("p", {"alternative": 0}),
    ("q1", {"hunks": []}),
    ("q1", {"hunks": [2]}),
    ("q1", {"hunks": [0, "1"]}),
    ("q1", {"hunks": [0], "edits": {"1": "x"}}),
    ("q1", {"content": "x"}),
    ("q1", ["hunks"]),
]


async def test_an_invalid_edit_is_refused_and_decides_nothing() -> None:
    session = AnsweredPageSession(records=approval_records(edit_action()))
    session.tell(SummaryProposed(id="s", summary=SHORT), PlanProposed(id="p", plan=PLAN, asks=True))
    async with serve_fake_session(session) as page:
        await page.enter()
        await wait_for_events(page, "approval.asked", "summary.offered", "plan.proposed")
        edits = [(id, edit_of(id, changes)) for id, changes in INVALID_EDITS]
        for id, data in (*edits, *INVALID_DATA):
            refused = await page.post("/answer", id=id, verdict="approve", data=data)
            assert refused.status_code == 400 and refused.json()["error"], (id, data, refused.text)
        for id, data in (("s", edit_of("s", {"action": "x"})), ("q1", {"hunks": [0]})):
            assert (await page.post("/answer", id=id, verdict="reject", data=data)).status_code == 400
            unknown = await page.post("/answer", id="other", verdict="approve", data=data)
            assert unknown.status_code == 409
        assert not session.received
    with pytest.raises(ValueError, match="as a whole"):
        whole = approval_records(edit_action(splittable=False))[-1].event
        answer_data(whole, AnswerEdit(hunks=[0]), SecretMask({}))  # type: ignore[arg-type]  # the request that the scene ends with


async def test_the_chosen_parts_of_an_edit_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(OLD)
    talk = scenario(
        "go", step("", call("read_file", path="a.txt"), call("write_file", path="a.txt", content=NEW)), "done"
    )
    async with serve(talk) as server, serve_session(server, tmp_path) as page:
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
        classified_as(),
        plan_reply(plan_step("Look around"), plan_step("Write it", "write_file")),
        step_reply("Look closely", step("", call("write_file", path="seen.md", content="all\n")), "I looked."),
        summarized(decisions_made=[{"title": "Markdown", "rationale": "plain"}]),
    ]
    async with serve(*talk) as server, serve_session(server, tmp_path, flags={"mode": "agent"}) as page:
        await page.enter()
        async with page.chat("write the report") as stream:
            plan = await asked_for(stream, "plan.proposed")
            values = plan_values(plan["plan"], steps=[{"origin": 0, "description": "Look closely"}])
            done = await page.post("/answer", id=plan["id"], verdict="approve", data={"plan": values})
            assert done.status_code == 200, done.text
            reviewed = await asked_for(stream, "plan.reviewed")
            assert reviewed["edited"] and [each["description"] for each in reviewed["plan"]["steps"]] == [
                "Look closely"
            ]
            request = await asked_for(stream, "approval.asked")
            assert (await page.post("/answer", id=request["id"], verdict="approve")).status_code == 200
            offered = await asked_for(stream, "summary.offered")
            decision = {"origin": 0, "title": "Plain text", "rationale": "plain"}
            edit = summary_values(offered["summary"], result="🔄 only looked", decisions=[decision])
            done = await page.post("/answer", id=offered["id"], verdict="approve", data={"summary": edit})
            assert done.status_code == 200, done.text
            assert (await asked_for(stream, "summary.settled"))["outcome"] == "edited"
            await stream.rest()
        doc = (page.session.folder / "plan_doc.md").read_text("utf-8")
    assert "🔄 only looked" in doc and "Plain text" in doc and "plain" in doc and "Markdown" not in doc


async def test_the_plan_document_is_edited_merged_and_its_conflicts_are_asked(tmp_path: Path) -> None:
    async with serve() as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.events() as stream:
            await stream.until("plan_doc.changed")
            original = (await page.post("/plan/text")).json()
            edited = original["text"].replace("[User will provide goal]", "Mine")
            assert edited != original["text"]
            assert (await page.post("/plan/edit", text=edited, base=original["base"])).json() == {"status": "ok"}
            await stream.until("plan_doc.changed", by="user")
            # An edit of the old text: what differs is merged, what both changed is asked, and nothing is lost.
            other_edit = original["text"].replace("[User will provide goal]", "Theirs")
            saving = asyncio.create_task(page.post("/plan/edit", text=other_edit, base=original["base"]))
            conflict = await asked_for(stream, "plan_doc.conflict")
            assert not saving.done() and {"Mine", "Theirs"} == {conflict["ours"], conflict["theirs"]}
            done = await page.post("/answer", id=conflict["id"], verdict="approve", data={"take": "ours"})
            assert done.status_code == 200
            assert (await saving).json() == {"status": "merged"}
            await stream.until("plan_doc.changed", by="user")
            now = (await page.post("/plan/text")).json()
            assert "## Goal\nTheirs" in now["text"] and now["base"] != original["base"]
            refused = await page.post("/plan/edit", text=edited, base="0" * 64)
            assert refused.status_code == 409
            assert "old version" in (await stream.until("notice", code="plan_doc.refused")).data["data"]["text"]
            for body in ({"text": edited}, {"text": edited, "base": ""}, {"text": "x" * 600_000, "base": "0"}):
                assert (await page.post("/plan/edit", **body)).status_code == 400
        assert "Theirs" in (page.session.folder / "plan_doc.md").read_text("utf-8")


async def test_the_text_of_the_plan_is_given_exactly_and_secrets_only_when_asked_for() -> None:
    text = f"# Plan\r\n\r\n## Goal\r\nuse {SECRET}\r\n"
    sha256 = sha256_of(text.encode())
    session = AnsweredPageSession()
    async with serve_fake_session(session) as page:
        await page.enter()
        assert (await page.post("/plan/text")).status_code == 409
        session.tell(PlanDocChanged(text=text, by="editor", sha256=sha256))
        session.tell(PlanDocChanged(text="a proposal", by="review", sha256="1", pending=True))
        async with page.events() as stream:
            shown = await asked_for(stream, "plan_doc.changed")
            await stream.until("plan_doc.changed", pending=True)
        assert SECRET not in shown["text"]
        assert (await page.post("/plan/text")).json() == {"hides_secrets": True}
        assert (await page.post("/plan/text", exact=True)).json() == {"text": text, "base": sha256}
        typed = text.replace("\r\n", "\n") + "more\n"
        await page.post("/plan/edit", text=typed, base=sha256)
        await page.post("/plan/edit", text=typed, base="elsewhere")
        assert session.done[-2:] == [("edit", text + "more\r\n", sha256), ("edit", typed, "elsewhere")]
