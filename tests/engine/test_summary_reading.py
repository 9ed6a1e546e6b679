from __future__ import annotations

import datetime as dt
import json

import pytest

from tui_agent.common.workplan import CriterionChange, Summary
from tui_agent.engine.plan_doc.memory import with_summary
from tui_agent.engine.workflow.summary import RunFacts, parse_summary, summary_from_facts
from tui_agent.plan.document import Criterion, Plan, PlanStatus

FACTS = RunFacts(request="Add --json", outcome="done", tools=("read_file", "edit_file"), files=("a.py",))
NOW = dt.datetime(2026, 1, 7, 14, 30, 59)
SEED = {
    "log_entry": {"action": "Added --json", "details": "parser, tests", "result": "works", "tools_used": ["hammer"]},
    "acceptance_criteria_updates": [{"description": "flag exists", "completed": True}],
    "decisions_made": [{"title": "json", "rationale": "simple", "alternatives": ["ndjson"]}, "keep it small"],
}


def test_the_seed_form_is_read_and_names_only_tools_that_ran() -> None:
    summary = parse_summary(f"Here you are:\n```json\n{json.dumps(SEED)}\n```", FACTS)
    assert (summary.action, summary.details, summary.result) == ("Added --json", "parser, tests", "✓ works")
    assert summary.tools == FACTS.tools
    assert summary.criteria == (CriterionChange(description="flag exists"),)
    assert [one.title for one in summary.decisions_made] == ["json", "keep it small"]


@pytest.mark.parametrize("text", ["", "all done", '{"log_entry": {}}', '{"log_entry": "x"}', '{"action": ""}'])
def test_a_reply_without_an_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_summary(text, FACTS)


@pytest.mark.parametrize(
    ("outcome", "met", "mark"),
    [("done", None, "✓"), ("done", True, "✓"), ("done", False, "❌"), ("failed", None, "❌"), ("limit", None, "🔄")],
)
def test_without_a_model_the_facts_speak(outcome: str, met: bool | None, mark: str) -> None:
    facts = RunFacts(request="Add --json", outcome=outcome, files=("a.py",), check_met=met, closing="bye")
    summary = summary_from_facts(facts)
    assert summary.action == "Add --json"
    assert summary.result.startswith(mark)
    assert "a.py" in summary.details


def test_an_accepted_summary_becomes_one_entry_with_its_ticks() -> None:
    plan = Plan(acceptance_criteria=(Criterion(description="Flag exists."), Criterion(description="tests")))
    summary = Summary(
        action="did",
        result="✓",
        criteria=(CriterionChange(description="flag  exists"), CriterionChange(description="new one", completed=False)),
    )
    after = with_summary(plan, summary, NOW)
    assert [(row.description, row.completed) for row in after.acceptance_criteria] == [
        ("Flag exists.", True),
        ("tests", False),
        ("new one", False),
    ]
    assert after.status is PlanStatus.IN_PROGRESS
    assert after.execution_log[-1].when == NOW.replace(second=0)
    assert plan.execution_log == ()


def test_when_all_criteria_are_met_the_plan_is_completed() -> None:
    plan = Plan(acceptance_criteria=(Criterion(description="a"),))
    assert (
        with_summary(plan, Summary(action="x", criteria=(CriterionChange(description="a"),)), NOW).status == "completed"
    )
