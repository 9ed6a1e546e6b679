from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from tests.doubles.plan_text import plan_text
from tests.scenes.build import PLAN
from tests.widgets.kit import INK
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan
from tui_agent.plan.markdown import parse
from tui_agent.plan.state import STATES, plan_state
from tui_agent.plan.writing import SKELETON
from tui_agent.tui.plans import PlanEditError, edited_plan
from tui_agent.view.items import PlanView, SessionView
from widgets.plan_document import Edit, FieldEdit, ListEdit, apply_edit, inverse_edit, read_plan
from widgets.plan_list import (
    MAX_DONE,
    MAX_ROW_LINES,
    RECENT_ENTRIES,
    Kind,
    is_single_line,
    plan_head_lines,
    plan_row_lines,
    plan_rows,
)
from widgets.styled_text import width_of

START = datetime(2026, 1, 5, 9, 0)


def shown(text: str, width: int = 60, *, proposal: str | None = None, expanded: tuple[Kind, ...] = ()) -> list[str]:
    found = plan_rows(read_plan(text, proposal, text), expanded=expanded)
    return [line.text.rstrip() for row in found for line in plan_row_lines(row, width, INK)]


def logged(count: int) -> str:
    entries = tuple(
        LogEntry(action=f"step {n}", result="✓ fine", when=START + timedelta(minutes=n)) for n in range(count)
    )
    return plan_text(Plan(goal="g", execution_log=entries))


def test_everything_in_it_is_shown() -> None:
    assert shown(PLAN) == [
        "Add --json to the export command",
        "",
        "✓ the parser accepts the flag",
        "✓ the output is valid JSON  array, indent 2",
        "○ tests cover both formats, the empty table and rows that",
        "  hold Unicode",
        "○ the README mentions it",
        "",
        "Decisions",
        "• One array over NDJSON — every reader of the old export",
        "  loads the whole file anyway",
        "× A --format option — three spellings for two formats",
        "",
        "Log",
        "✓ Wrote the JSON writer                                09:34",
        "✗ Ran the tests                                        09:21",
        "  test_unicode fails: the file is written as latin-1",
        "✓ Read the exporter                                    09:10",
        "✓ Looked for callers of export()                       4 Jan",
        "",
        "Notes of mine",
        "Ask Grace about the encoding before the release.",
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("planning", "○ planning"),
        ("in_progress", "○ 2 to do"),
        ("blocked", "■ blocked"),
        ("completed", "✓ completed 09:34"),
        ("failed", "✗ failed"),
    ],
)
def test_every_status_has_a_symbol_and_a_word(status: str, words: str) -> None:
    content = read_plan(PLAN.replace("in_progress", status))
    state = plan_state(content.plan, datetime(2026, 1, 5, 12).timestamp())
    lines = [line.text for line in plan_head_lines(content, state, 40, INK)]
    assert words in lines[0]
    assert lines[0].endswith("2/4")
    assert lines[1] == "━" * 40


def test_the_empty_template_says_so_and_offers_a_goal() -> None:
    content = read_plan(SKELETON)
    assert content.empty
    assert shown(SKELETON) == ["No plan yet.", "no goal yet"]


def test_an_unreadable_text_says_why() -> None:
    assert "can't be read as a plan" in shown("just some words", 80)[0]


def test_what_is_proposed_stands_beside_what_is_there() -> None:
    wanted = PLAN.replace("- [ ] tests", "- [x] tests").replace("- [ ] the README mentions it", "- [ ] a man page")
    lines = shown(PLAN, proposal=wanted)
    assert "~ ✓ tests cover both formats, the empty table and rows that" in lines
    assert "− ○ the README mentions it" in lines
    assert "+ ○ a man page" in lines
    assert lines.index("− ○ the README mentions it") < lines.index("+ ○ a man page")
    content = read_plan(PLAN, wanted, PLAN)
    assert content.change_count == 3
    assert "3 proposed" in plan_head_lines(content, STATES["planning"], 60, INK)[2].text


def test_a_proposed_goal_is_marked() -> None:
    assert "~ Add --csv too" in shown(
        PLAN, proposal=PLAN.replace("\nAdd --json to the export command", "\nAdd --csv too")
    )


def test_an_edit_of_the_users_is_no_part_of_an_older_proposal() -> None:
    ground = PLAN
    proposal = PLAN.replace("- [ ] tests", "- [x] tests")
    text = PLAN.replace("- [ ] the README mentions it", "- [x] the README mentions it")
    content = read_plan(text, proposal, ground)
    assert content.change_count == 1
    assert [one.completed for one in content.plan.acceptance_criteria] == [True] * 4


def test_old_work_is_collapsed() -> None:
    lines = shown(logged(RECENT_ENTRIES + 5))
    assert lines[-1] == "▸ 5 earlier"
    assert sum("step" in line for line in lines) == RECENT_ENTRIES
    lines = shown(logged(RECENT_ENTRIES + 5), expanded=("older",))
    assert "▾ 5 earlier" in lines
    assert lines[-1].startswith("✓ step 0")


def finished(done: int, open_: int = 1) -> str:
    criteria = [Criterion(description=f"c{n}", completed=n < done) for n in range(done + open_)]
    return plan_text(Plan(goal="g", acceptance_criteria=tuple(criteria)))


def test_what_is_finished_is_collapsed_once_there_is_much_of_it() -> None:
    assert shown(finished(MAX_DONE))[2:] == [*(f"✓ c{n}" for n in range(MAX_DONE)), f"○ c{MAX_DONE}"]
    much = MAX_DONE + 1
    names = " · ".join(f"c{n}" for n in range(much))
    assert shown(finished(much))[2:] == [f"▸ {much} done · {names}", f"○ c{much}"]
    lines = shown(finished(much), expanded=("done",))
    assert lines[2:] == [f"▾ {much} done", *(f"✓ c{n}" for n in range(much)), f"○ c{much}"]
    assert all(len(one) <= 30 for one in shown(finished(400), 30))


@pytest.mark.parametrize("width", [1, 2, 5, 31, 80])
def test_no_line_is_wider_than_there_is_room(width: int) -> None:
    long = "日本語 " * 300 + "x" * 500
    plan = Plan(
        goal=long,
        acceptance_criteria=(Criterion(description=long, notes=long), Criterion(description="👩‍👩‍👧" * 30)),
        decisions_made=(Decision(title=long, rationale=long),),
        execution_log=(LogEntry(action=long, result="❌ " + long, when=START),),
    )
    for row in plan_rows(read_plan(plan_text(plan))):
        lines = plan_row_lines(row, width, INK)
        assert 1 <= len(lines) <= MAX_ROW_LINES
        if width >= 12:
            assert all(width_of((s.text, INK.text) for s in line.segments) <= width for line in lines)


def test_rows_that_are_not_painted_to_know_their_height_take_one_line() -> None:
    for row in plan_rows(read_plan(PLAN, PLAN.replace("- [ ] tests", "- [x] tests"), PLAN)):
        for width in range(1, 80):
            assert not is_single_line(row, width) or len(plan_row_lines(row, width, INK)) == 1


def test_control_characters_and_markup_are_only_text() -> None:
    lines = shown(PLAN.replace("the parser accepts", "[red]\x1b]52;c;x\x07[@click=app.quit]"), 80)
    assert "✓ [red]]52;c;x[@click=app.quit] the flag" in lines


# --- edits ------------------------------------------------------------------------------------------


def criteria(text: str) -> tuple[Criterion, ...]:
    return parse(text).plan.acceptance_criteria


def tick(text: str, at: int) -> ListEdit:
    old = criteria(text)[at]
    return ListEdit("acceptance_criteria", at, old, msgspec.structs.replace(old, completed=not old.completed))


def test_a_tick_changes_one_character() -> None:
    assert edited_plan(PLAN, tick(PLAN, 2)) == PLAN.replace("- [ ] tests", "- [x] tests")
    odd = PLAN.replace("- [ ] tests", "* [ ] tests").replace("\n", "\r\n")
    assert edited_plan(odd, tick(odd, 2)) == odd.replace("* [ ] tests", "* [x] tests")


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (
            ListEdit("acceptance_criteria", 3, criteria(PLAN)[3], Criterion(description="the man page, too")),
            "- [ ] the README mentions it",
            "- [ ] the man page, too",
        ),
        (
            ListEdit("acceptance_criteria", 4, None, Criterion(description="## odd - [x]\nnew")),
            "- [ ] the README mentions it\n",
            "- [ ] the README mentions it\n- [ ] ## odd - [x]&#10;new\n",
        ),
        (ListEdit("acceptance_criteria", 0, criteria(PLAN)[0], None), "- [x] the parser accepts the flag\n", ""),
        (FieldEdit("status", "in_progress", "blocked"), "in_progress", "blocked"),
    ],
)
def test_everything_else_stays_byte_for_byte(edit: Edit, before: str, after: str) -> None:
    assert edited_plan(PLAN, edit) == PLAN.replace(before, after)


def test_an_edit_finds_its_value_in_a_newer_text() -> None:
    edit = tick(PLAN, 2)
    newer = PLAN.replace("- [x] the parser", "- [ ] first of all\n- [x] the parser")
    assert edited_plan(newer, edit) == newer.replace("- [ ] tests", "- [x] tests")
    old = criteria(PLAN)[3]
    reworded = ListEdit("acceptance_criteria", 3, old, msgspec.structs.replace(old, notes="ask Grace"))
    ticked = PLAN.replace("- [ ] the README", "- [x] the README")
    assert "- [x] the README mentions it *(ask Grace)*" in edited_plan(ticked, reworded)


def test_what_is_gone_is_not_edited() -> None:
    gone = PLAN.replace("- [ ] the README mentions it\n", "")
    with pytest.raises(PlanEditError, match="the plan changed in the meantime"):
        edited_plan(gone, tick(PLAN, 3))
    with pytest.raises(PlanEditError):
        edited_plan(PLAN.replace("Add --json to", "Add --csv to"), FieldEdit("goal", parse(PLAN).plan.goal, "x"))
    with pytest.raises(PlanEditError, match="can't be read"):
        edited_plan("no plan", FieldEdit("goal", "", "x"))


def test_what_became_another_thing_is_not_removed() -> None:
    edit = ListEdit("acceptance_criteria", 3, criteria(PLAN)[3], None)
    with pytest.raises(PlanEditError):
        edited_plan(PLAN.replace("- [ ] the README", "- [x] the README"), edit)


@pytest.mark.parametrize("at", range(4))
def test_undoing_gives_the_plan_back(at: int) -> None:
    old = criteria(PLAN)[at]
    plan = parse(PLAN).plan
    for edit in (tick(PLAN, at), ListEdit("acceptance_criteria", at, old, None)):
        changed = apply_edit(plan, edit)
        assert changed is not None
        assert changed != plan
        assert apply_edit(changed, inverse_edit(edit)) == plan
        assert parse(edited_plan(edited_plan(PLAN, edit), inverse_edit(edit))).plan == plan


def test_the_fold_keeps_texts_and_reads_none() -> None:
    from tests.scenes import build
    from tui_agent.view.fold import fold_record

    view = SessionView()
    records = build.plan_pending().records
    for record in records:
        fold_record(view, record)
    assert view.plan.text == PLAN
    assert view.plan.changed_by == "summary"
    assert view.plan.proposal is not None
    assert view.plan.proposal_base == PLAN
    assert PlanView() == SessionView().plan
