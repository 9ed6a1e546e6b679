from __future__ import annotations

from datetime import datetime, timedelta

from tui_agent.plan.brief import brief
from tui_agent.plan.document import LogEntry, Plan
from tui_agent.plan.markdown import parse
from tui_agent.plan.writing import SKELETON, render


def logged(count: int) -> Plan:
    began = datetime(2025, 1, 1, 10, 0)
    return Plan(
        goal="Build it",
        execution_log=tuple(
            LogEntry(
                action=f"entry {at}",
                details=f"details {at}",
                result="✓ ok",
                when=began + timedelta(minutes=at),
            )
            for at in range(count)
        ),
    )


def test_the_empty_plan_says_nothing() -> None:
    assert brief(parse(SKELETON)) == ""


def test_no_front_matter_and_no_placeholders() -> None:
    text = brief(parse(render(Plan(goal="Build it"))))
    assert text == "# Plan: Build it\n\n**Status:** planning\n\n## Goal\nBuild it"


def test_the_last_ten_entries_are_whole_and_older_ones_a_line_each() -> None:
    text = brief(parse(render(logged(15))))
    assert "- 2025-01-01 10:04 ✓ entry 4\n\n### 2025-01-01 10:05 - entry 5\n" in text
    assert "details 4" not in text and "details 5" in text and "details 14" in text
    assert text.index("✓ entry 0") < text.index("✓ entry 4")


def test_fewer_entries_than_are_kept_stay_whole() -> None:
    document = parse(render(logged(9)))
    assert brief(document, entries=10) == brief(document, entries=9)
    assert brief(document, entries=10).count("###") == 9


def test_the_lines_of_old_entries_keep_to_their_budget() -> None:
    text = brief(parse(render(logged(1_000))), older_tokens=100)
    head, _, rest = text.partition("### ")
    older = [line for line in head.splitlines() if line.startswith("- ")]
    assert len(older) > 5 and sum(map(len, older)) <= 400
    assert older[-1].endswith("entry 989")
    assert f"({990 - len(older)} earlier entries stand in the file only.)" in head
    assert rest.count("### ") == 9


def test_sections_and_notes_of_the_users_are_sent() -> None:
    text = render(logged(2)) + "a note under the last entry\n\n## Mine\nremember this\n"
    assert "a note under the last entry\n\n## Mine\nremember this" in brief(parse(text))


def test_no_entries_at_all_may_be_asked_for() -> None:
    text = brief(parse(render(logged(3))), entries=0)
    assert "details" not in text and text.count("✓ entry") == 3
