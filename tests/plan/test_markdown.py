from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.plan.document import Criterion, Plan, PlanStatus
from tui_agent.plan.layout import front_matter
from tui_agent.plan.markdown import parse
from tui_agent.plan.writing import rewrite
from tui_agent.settings.tree import parse_tree


def criteria(*lines: str) -> tuple[Criterion, ...]:
    return parse("\n".join(["## Acceptance Criteria", *lines])).plan.acceptance_criteria


@pytest.mark.parametrize("box", ["[x]", "[X]", "[✓]", "[✔]", "[✔️]", "[ x ]", "[✅]"])
def test_ticked_boxes(box: str) -> None:
    assert criteria(f"- {box} done") == (Criterion(description="done", completed=True),)


@pytest.mark.parametrize("box", ["[ ]", "[-]", "[]", "[~]", "[>]", "[ ]  "])
@pytest.mark.parametrize("bullet", ["- ", "* ", "+ ", "1. ", "  - ", "-", ""])
def test_open_boxes(box: str, bullet: str) -> None:
    assert criteria(f"{bullet}{box} open") == (Criterion(description="open"),)


def test_links_and_plain_bullets_among_boxes_are_notes() -> None:
    assert criteria("- [ ] one", "- [a](b)", "- remember", "  words") == (Criterion(description="one"),)
    assert [item.description for item in criteria("- one", "- two")] == ["one", "two"]


def test_boxes_in_a_multi_line_comment_are_ignored() -> None:
    assert criteria("- [ ] one", "<!--", "- [x] hidden", "-->", "- [ ] two", "<!-- open", "- [ ] three") == (
        Criterion(description="one"),
        Criterion(description="two"),
        Criterion(description="three"),
    )


def test_front_matter_may_begin_with_a_comment() -> None:
    document = parse("---\n# mine\nstatus: completed # done\nversion: 2\n---\n# Plan: U\n")
    assert (document.plan.status, document.plan.version) == (PlanStatus.COMPLETED, 2)


def test_stars_and_brackets_in_a_description() -> None:
    assert criteria("- [x] *bold* (sic) a*b *(n (m))*") == (
        Criterion(description="*bold* (sic) a*b", completed=True, notes="n (m)"),
    )


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("**Status:** in progress", PlanStatus.IN_PROGRESS),
        ("**status**: In-Progress", PlanStatus.IN_PROGRESS),
        ("__Status:__ ✅ Completed (since Monday)", PlanStatus.COMPLETED),
        ("- **Status:** FAILED", PlanStatus.FAILED),
        ("**Status:** who knows", PlanStatus.PLANNING),
    ],
)
def test_status_wordings(line: str, status: PlanStatus) -> None:
    assert parse(f"# Plan: x\n\n{line}\n").plan.status is status


def test_lists_are_split_at_commas_outside_brackets() -> None:
    (entry,) = parse("## Execution Log\n### 2025-01-01 10:00 - x\n**Tools:** a (b, c), d\n").plan.execution_log
    assert entry.tools == ("a (b, c)", "d")


@pytest.mark.parametrize(
    ("head", "when", "action"),
    [
        ("2025-01-01 10:00 - a - b", datetime(2025, 1, 1, 10), "a - b"),
        ("2025-01-01T10:00:59 — a", datetime(2025, 1, 1, 10), "a"),
        ("2025-01-01 9:05: a", datetime(2025, 1, 1, 9, 5), "a"),
        ("2025-01-01 - a", datetime(2025, 1, 1), "a"),
        ("2025-13-01 10:00 - a", None, "2025-13-01 10:00 - a"),
        ("just a", None, "just a"),
    ],
)
def test_times_of_log_entries(head: str, when: datetime | None, action: str) -> None:
    (entry,) = parse(f"## Execution Log\n### {head}\n**Result:** ✓\n").plan.execution_log
    assert (entry.when, entry.action) == (when, action)


def test_a_value_may_begin_on_the_line_after_its_name() -> None:
    text = "## Execution Log\n### 2025-01-01 10:00 - x\n**Actions:**\n- did this\n- did that\n\nnote\n**Tools:**\n- a, b\n- c\n"
    (entry,) = parse(text).plan.execution_log
    assert (entry.details, entry.tools) == ("- did this\n- did that", ("a, b", "c"))


def test_line_ends_byte_order_mark_comments_and_unknown_keys_are_preserved() -> None:
    text = "\ufeff---\r\nstatus: blocked # why\r\nowner: me\r\nversion: 3\r\n---\r\n\r\n# Plan: T\r\n\r\n## Goal\r\nT\r\n\r\n## Mine\r\nx"
    document = parse(text)
    after = rewrite(Plan(status=PlanStatus.FAILED, goal="T2", version=4, updated_at=9), document)
    assert after.text == text.replace("blocked", "failed").replace("T\r", "T2\r").replace(
        "version: 3", "version: 4"
    ).replace("version: 4\r\n", "version: 4\r\nupdatedAt: 9\r\n")


def test_sections_are_appended_to_a_text_of_notes() -> None:
    plan = Plan(goal="g", acceptance_criteria=(Criterion(description="c"),))
    after = rewrite(plan, parse("my words\n"))
    assert after.text == "my words\n\n## Goal\ng\n\n## Acceptance Criteria\n- [ ] c\n"


def test_number_formats_in_the_front_matter() -> None:
    plan = parse('---\ncreatedAt: "5"\nupdated_at: 1970-01-01T00:00:01Z\nversion: many\n---\n# Plan: x').plan
    assert (plan.created_at, plan.updated_at, plan.version) == (5, 1000, 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["status", "createdAt", "a-b", "_x", "yes", "1"]),
            st.sampled_from(["planning", "in_progress", "0", "007", "1795337162015", "1_0", "yes", "on", "y"])
            | st.sampled_from(["null", "true", "none", "12e3", "0x1f", "1:30", "~", "Word", "a b", ""]),
        ),
        max_size=4,
    )
)
def test_simple_front_matter_is_parsed_like_yaml(pairs: list[tuple[str, str]]) -> None:
    body = [f"{key}: {value}" for key, value in pairs]
    front = front_matter(["---", *body, "---"])
    tree, problems = parse_tree("plan_doc.md", "\n".join(body))
    assert front is not None
    if tree is not None:
        assert (front.values, list(front.values)) == (tree.values, list(tree.values))
        assert [type(value) for value in front.values.values()] == [type(value) for value in tree.values.values()]
        assert front.places == {where[0]: line for where, line in tree.lines.items()}
    else:
        assert front.problem.endswith(problems[0].message)
