from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.scenes import build, load
from tests.scenes.workflow import PLAN, SUMMARY, steps_recovered
from tui_agent import events as e
from tui_agent import frontends
from tui_agent.common.domain import Answer
from tui_agent.frontends.plain import PlainText
from tui_agent.text import SecretMask
from tui_agent.view.fold import fold_record
from tui_agent.view.items import EndItem, NoticeItem, ReplyItem, RequestItem, SessionView, StepItem
from tui_agent.view.run_steps import REPLY_PURPOSES


def view_of(scene: str) -> SessionView:
    view = SessionView()
    for one in load(scene):
        fold_record(view, one)
    return view


def items(view: SessionView, kind: type) -> list[Any]:
    return [one for one in view.items if isinstance(one, kind)]


def test_a_plan_that_asks_waits_and_one_that_does_not_is_only_told() -> None:
    view = view_of("plan_waits")
    assert list(view.pending) == ["p1"]
    assert (view.status.phase, view.status.detail) == ("waiting", "the plan")
    told = view_of("steps_recovered")
    assert told.pending == {}
    again = told.requests["p2"].proposal
    assert again is not None
    assert again.recovery
    assert told.requests["p2"].answer is not None


def test_what_was_decided_about_a_plan_is_kept() -> None:
    request = view_of("plan_rejected").requests["p1"]
    assert request.answer is not None
    assert request.answer.text == "use the csv module's dialects instead"
    assert request.plan_review is not None
    assert request.plan_review.plan == PLAN


def test_steps_hold_expected_and_actual_and_what_was_tried() -> None:
    steps: list[StepItem] = items(view_of("steps_recovered"), StepItem)
    assert [(one.step.number, one.outcome) for one in steps] == [
        (1, "done"),
        (2, "done"),
        (3, "done"),
        (4, "failed"),
        (5, "done"),
        (0, "done"),
    ]
    assert [one.met for one in steps[1].verifications] == [False, True]
    assert [(one.by, after) for after, one in steps[1].recoveries] == [("fallback", 1)]
    assert [one.by for _after, one in steps[3].recoveries] == ["recovery"]
    assert steps[-1].verifications[0].command == PLAN.check.command


def test_the_tree_nests_stage_step_and_call() -> None:
    view = view_of("steps_recovered")
    tree = view.tree
    step = tree.nodes[tree.indexes["run1.s2"]]
    assert (step.kind, step.status, step.title) == ("step", "ok", PLAN.steps[1].description)
    assert tree.nodes[step.parent].id == "s-execution"
    replies = [tree.nodes[one] for one in step.children]
    assert {one.kind for one in replies} == {"reply"}
    calls = [tree.nodes[one] for reply in replies for one in reply.children]
    assert [one.kind for one in calls] == ["call", "call"]
    assert tree.nodes[tree.indexes["run1.s4"]].status == "failed"


def test_the_stage_that_waits_says_so_until_it_is_decided() -> None:
    view = view_of("summary_waits")
    stage = view.tree.nodes[view.tree.indexes["s-summary"]]
    assert stage.pending_requests == 1
    settled = view_of("summary_accepted")
    assert settled.tree.nodes[settled.tree.indexes["s-summary"]].pending_requests == 0


def test_replies_apart_from_the_conversation_have_no_text_and_end_no_run() -> None:
    view = view_of("summary_accepted")
    apart = [one for one in items(view, ReplyItem) if one.role]
    assert [one.role for one in apart] == ["dispatcher", "planning", "planning", "summary"]
    assert all(not one.text.size for one in apart)
    end = items(view, EndItem)[-1]
    assert end.already_shown


def test_the_status_names_what_a_reply_is_for() -> None:
    status = view_of("plan_planning").status
    assert (status.phase, status.detail) == ("thinking", "· planning")


def test_the_page_and_the_screen_call_what_a_reply_is_for_the_same() -> None:
    script = Path(frontends.__file__).parent / "web" / "static" / "main.js"
    (table,) = re.findall(r"^const ROLES = \{ (.*) \};$", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: said.lower() for name, said in re.findall(r'(\w+): "([^"]*)"', table)} == REPLY_PURPOSES
    view = SessionView()
    for seq, (role, purpose) in enumerate((("planning", "mending"), ("later", ""), ("title", "")), 1):
        started = e.ReplyStarted(model="m", iteration=0, messages=1, estimate=1, role=role, purpose=purpose)
        fold_record(view, e.Record(seq=seq, at="2026-01-01T00:00:00Z", run="run1", node=role, event=started))
    assert [one.purpose for one in items(view, ReplyItem)] == [
        REPLY_PURPOSES["mending"],
        "later",
        REPLY_PURPOSES["title"],
    ]
    assert view.reply_phase == ("connecting", "· naming the session")


def test_a_refused_completion_is_a_notice() -> None:
    notice = items(view_of("completion_refused"), NoticeItem)[-1]
    assert notice.text.startswith("Not done yet: the request needs a change")


@pytest.mark.parametrize("outcome", ["accepted", "discarded"])
def test_a_settled_summary_is_kept(outcome: str) -> None:
    settled = view_of(f"summary_{outcome}").requests["s1"].summary_review
    assert settled is not None
    assert (settled.outcome, settled.summary) == (outcome, SUMMARY)


def test_a_summary_offered_again_waits_again_and_the_first_offer_stays() -> None:
    view = view_of("summary_again")
    assert list(view.pending) == ["s1"]
    outcomes = [
        one.summary_review and one.summary_review.outcome for one in items(view, RequestItem) if one.summary is not None
    ]
    assert outcomes == ["pending", None]


def test_what_was_open_when_the_session_died_is_open_no_more() -> None:
    for scene in ("plan_waits", "summary_waits", "steps_running"):
        view = view_of(scene)
        fold_record(view, e.Record(seq=view.seq + 1, at="", event=e.SessionRecovered()))
        assert view.pending == {}
        assert all(one.outcome for one in items(view, StepItem))
        assert not any(node.pending_requests or node.status == "running" for node in view.tree.nodes)


def test_a_run_that_ends_within_a_step_interrupts_it() -> None:
    view = view_of("steps_running")
    fold_record(view, e.Record(seq=view.seq + 1, at="", event=e.RunEnded(outcome="interrupted"), run="run1"))
    assert items(view, StepItem)[-1].outcome == "interrupted"


def test_events_of_steps_without_a_beginning_change_nothing() -> None:
    view = SessionView()
    for number, event in enumerate(
        (
            e.StepVerified(met=True, expected="", actual="", by="facts"),
            e.StepRecoveryStarted(by="fallback"),
            e.StepFinished(outcome="done"),
            e.PlanReviewed(id="p", answer=Answer(verdict="approve"), plan=PLAN),
            e.SummaryReviewed(id="s", outcome="accepted", summary=SUMMARY),
        ),
        start=1,
    ):
        fold_record(view, e.Record(seq=number, at="", event=event, node="x"))
    assert view.items == []


def plain(records: list[e.Record]) -> str:
    out = io.StringIO()
    text = PlainText(out, SecretMask({}))
    for one in records:
        text.show(one)
    return out.getvalue()


def test_plain_lines_tell_the_whole_cycle() -> None:
    text = plain(load("summary_accepted"))
    for part in (
        "Approach: Give export() a JSON branch",
        '  2. Let export() write JSON when fmt is "json"',
        "  Check: python -m pytest -q tests/test_export.py",
        "── Step 2 of 4: Let export() write JSON",
        "  ✗ Outcome: not met, by facts. Expected: src/export.py imports json and handles the format. Actual: src/",
        "Next: write a new module src/json_export.py and call it",
        "Next: make the folder first",
        "── Check: python -m pytest",
        "  Action: Added --json to the export command",
        "  - [ ] the README mentions it",
        "  ✓ Summary accepted",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("scene", "line"),
    [
        ("plan_rejected", "  ✗ Plan rejected: use the csv module's dialects instead"),
        ("summary_discarded", "  ✗ Summary discarded"),
        ("completion_refused", "  … Not done yet: the request needs a change"),
    ],
)
def test_plain_lines_of_decisions(scene: str, line: str) -> None:
    assert line in plain(load(scene))


def test_plain_lines_are_clean() -> None:
    story = steps_recovered()
    hostile = PLAN.steps[0].__class__(number=9, description="a\x1b[2Jb\nc")
    story.step(hostile, 9)
    assert "── Step 9 of 9: ab c" in plain(story.records)


def test_every_scene_of_the_workflow_is_a_scene() -> None:
    assert set(build.WORKFLOW) <= set(build.SCENES)
