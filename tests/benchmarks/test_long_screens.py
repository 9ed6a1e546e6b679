"""What is shown of much takes no longer than what is shown of little."""

from __future__ import annotations

import time

from tests.benchmarks.timing import within
from tests.doubles.plan_text import plan_text
from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_diff import colours, dialog, edit
from tests.tui.test_plan_panel import listed, visit
from tests.tui.test_tree import many
from tui_agent import events as e
from tui_agent.plan.document import Criterion, Plan
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView
from widgets.diff_lines import MAX_LINE_CHARACTERS, NO_CHANGES, WordMarks, changed_words
from widgets.diff_view import DiffView
from widgets.plan_document import read_plan
from widgets.plan_list import PlanRow, is_single_line, plan_rows


def test_five_hundred_criteria_are_laid_out_in_a_moment() -> None:
    plan = Plan(goal="g", acceptance_criteria=tuple(Criterion(description=f"number {n}") for n in range(500)))
    content = read_plan(plan_text(plan))
    with within(0.25):
        found = plan_rows(content)
        assert all(is_single_line(row, 40) for row in found if row.kind == "criterion")
    assert isinstance(found[0], PlanRow)


def test_long_or_crowded_lines_cost_next_to_nothing() -> None:
    many = [f"{number} " * 400 for number in range(40)]
    huge = "x" * (MAX_LINE_CHARACTERS + 1)
    with within(2.0):
        assert changed_words(huge, huge + "y") == NO_CHANGES
        marks = WordMarks([*many, *reversed(many)], "-" * 40 + "+" * 40)
        for place in range(80):
            marks.of(place)


async def test_five_thousand_lines_are_coloured_without_a_stall() -> None:
    app, _session = app_for(edit(5000))
    async with run_app(app, (100, 30)) as pilot:
        plain = len(colours(app))
        view = dialog(app).query_one(DiffView)
        await wait_for(pilot, lambda: bool(view._colors))
        assert len(colours(app)) > min(plain, 2)
        for key in ("pagedown", "end", "home"):
            with within(1.0):
                await pilot.press(key)
        await pilot.pause()
        assert "function_0(" in screen_text(app)


def test_growing_costs_the_same_however_much_there_is() -> None:
    def spent(calls: int) -> float:
        records, view = many(1, calls), SessionView()
        began = time.process_time()
        for record in records:
            fold_record(view, record)
        return (time.process_time() - began) / calls

    assert min(spent(8000) for _ in range(2)) < 10 * min(spent(500) for _ in range(3))


async def test_walking_through_five_hundred_criteria_paints_what_is_seen_only() -> None:
    plan = Plan(goal="all of it", acceptance_criteria=tuple(Criterion(description=f"c{n}") for n in range(500)))
    app, session = app_for(build.plan().records)
    async with run_app(app) as pilot:
        session.push(e.PlanDocChanged(text=plan_text(plan), by="user"))
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: "0/500" in screen_text(app))
        await visit(pilot, "end")
        await wait_until_idle(pilot)
        with within(2.0):
            for _ in range(20):
                listed(app).move(-5)
                for y in range(listed(app).size.height):
                    listed(app).line_at(listed(app).scroll_offset.y + y)
