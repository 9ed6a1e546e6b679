from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.doubles.plan_text import plan_text
from tui_agent.engine.plan_doc.excerpt import estimate_tokens, excerpt
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan
from tui_agent.plan.markdown import parse
from tui_agent.plan.writing import SKELETON


def logged(count: int) -> Plan:
    began = datetime(2025, 1, 1, 10, 0)
    return Plan(
        goal="Build it",
        execution_log=tuple(
            LogEntry(action=f"entry {at}", details=f"details {at}", result="✓ ok", when=began + timedelta(minutes=at))
            for at in range(count)
        ),
    )


def test_the_empty_plan_has_an_empty_excerpt() -> None:
    assert excerpt(parse(SKELETON)) == ""


def test_no_front_matter_and_no_placeholders() -> None:
    text = excerpt(parse(plan_text(Plan(goal="Build it"))))
    assert text == "# Plan: Build it\n\n**Status:** planning\n\n## Goal\nBuild it"


def test_the_last_ten_entries_are_complete_and_older_ones_one_line_each() -> None:
    text = excerpt(parse(plan_text(logged(15))))
    assert "- 2025-01-01 10:04 ✓ entry 4\n\n### 2025-01-01 10:05 - entry 5\n" in text
    assert "details 4" not in text and "details 5" in text and "details 14" in text
    assert text.index("✓ entry 0") < text.index("✓ entry 4")


def test_fewer_entries_than_the_limit_stay_complete() -> None:
    document = parse(plan_text(logged(9)))
    assert excerpt(document, entries=10) == excerpt(document, entries=9)
    assert excerpt(document, entries=10).count("###") == 9


def test_lines_of_old_entries_stay_within_the_budget() -> None:
    text = excerpt(parse(plan_text(logged(1_000))), older_tokens=100)
    head, _, remaining = text.partition("### ")
    older = [line for line in head.splitlines() if line.startswith("- ")]
    assert len(older) > 5 and sum(map(len, older)) <= 400
    assert older[-1].endswith("entry 989")
    assert f"({990 - len(older)} earlier entries: see plan_doc.md.)" in head
    assert remaining.count("### ") == 9


def test_user_sections_and_notes_are_included() -> None:
    text = plan_text(logged(2)) + "a note under the last entry\n\n## Mine\nremember this\n"
    assert "a note under the last entry\n\n## Mine\nremember this" in excerpt(parse(text))


def test_the_number_of_complete_entries_may_be_zero() -> None:
    text = excerpt(parse(plan_text(logged(3))), entries=0)
    assert "details" not in text and text.count("✓ entry") == 3


def decided(count: int) -> Plan:
    """A plan with decisions of about 56 tokens each."""
    return Plan(
        goal="Build it",
        decisions_made=tuple(
            Decision(title=f"decision {at}", rationale="It was the best of all that were looked at. " * 4)
            for at in range(count)
        ),
    )


def test_decisions_are_reduced_to_newest_in_full_older_titles_and_a_count() -> None:
    document = parse(plan_text(decided(200)))
    assert estimate_tokens(excerpt(document)) > 9_000
    text = excerpt(document, room=1_600)
    assert 1_200 < estimate_tokens(text) <= 1_650
    assert "### decision 199\n**Rationale:** It was" in text and "### decision 150" not in text
    titles = [line for line in text.splitlines() if line.startswith("- decision")]
    assert titles and int(titles[-1].split()[-1]) == 200 - text.count("### decision") - 1
    assert f"({200 - len(titles) - text.count('### decision')} earlier decisions: see plan_doc.md.)" in text


def test_a_plan_that_fits_is_not_reduced() -> None:
    document = parse(plan_text(decided(10)))
    assert excerpt(document, room=8_000) == excerpt(document)


def test_open_criteria_have_priority_over_met_ones() -> None:
    rows = [Criterion(description=f"row {at:03} holds", completed=at % 4 != 0) for at in range(200)]
    text = excerpt(parse(plan_text(Plan(goal="Build it", acceptance_criteria=tuple(rows)))), room=400)
    assert estimate_tokens(text) <= 430
    assert text.count("- [ ] row") == 50 and "[x] row 199" in text and "[x] row 001" not in text
    gone = 150 - text.count("- [x] row")
    assert f"({gone} more criteria, {gone} of them met: see plan_doc.md.)" in text


def test_every_list_gets_its_share_and_other_text_is_bounded() -> None:
    plan = replace(decided(200), execution_log=logged(100).execution_log)
    text = plan_text(plan) + "\n## Mine\n" + "my own words, many of them\n" * 2_000
    told = excerpt(parse(text), room=2_000)
    assert estimate_tokens(told) <= 2_100
    assert "details 99" in told and "### decision 199" in told and "my own words" in told
    assert "(more of this: see plan_doc.md)" in told


def test_one_more_entry_seldom_changes_the_excerpt_of_decisions() -> None:
    def before_the_log(entries: int) -> str:
        plan = replace(decided(200), execution_log=logged(entries).execution_log)
        return excerpt(parse(plan_text(plan)), room=2_000).partition("## Execution Log")[0]

    assert len({before_the_log(entries) for entries in range(1, 200)}) <= 8


@pytest.mark.parametrize("room", [0, 1, 50])
def test_tiny_budgets_are_accepted(room: int) -> None:
    assert estimate_tokens(excerpt(parse(plan_text(decided(50))), room=room)) < 120
