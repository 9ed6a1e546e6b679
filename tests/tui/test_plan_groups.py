from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.doubles.plan_text import plan_text
from tests.doubles.session import FakeSession
from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.plan.document import Criterion, LogEntry, Plan, PlanStatus
from tui_agent.tui.app import TuiAgentApp
from widgets.plan_list import PlanList
from widgets.plan_panel import PlanPanel

WORK = (
    "the parser accepts the flag",
    "the output is valid JSON",
    "tests cover both formats",
    "the README mentions it",
    "the man page mentions it",
    "old exports still load",
    "rows that hold Unicode are kept",
    "an empty table is an empty array",
)


def worked(done: int, open_: int = 2, status: PlanStatus = PlanStatus.IN_PROGRESS) -> str:
    """A plan with `done` criteria that are done and `open_` that are not, and a long log."""
    criteria = [Criterion(description=WORK[n] if n < len(WORK) else f"c{n}", completed=True) for n in range(done)]
    criteria += [Criterion(description=f"still to do {n}") for n in range(open_)]
    log = tuple(LogEntry(action=f"step {n}", result="✓") for n in range(14))
    goal = "Add --json to the export command"
    return plan_text(Plan(goal=goal, status=status, acceptance_criteria=tuple(criteria), execution_log=log))


def of(text: str) -> tuple[TuiAgentApp, FakeSession]:
    return app_for(build._planned(build.plan(), text).records)


def listed(app: TuiAgentApp) -> PlanList:
    return app.screen_stack[0].query_one(PlanList)


async def visit(pilot: Pilot[int], *keys: str) -> None:
    await pilot.press("f3")
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await wait_for(pilot, lambda: app.query_one(PlanPanel).has_keys)
    await pilot.press(*keys)
    await wait_until_rendered(pilot)


async def test_few_that_are_done_stand_among_the_others() -> None:
    app, _session = of(worked(5))
    async with run_app(app):
        assert "5 done" not in screen_text(app)
        assert "✓ the man page mentions it" in screen_text(app)


@pytest.mark.parametrize("key", ["space", "enter"])
async def test_many_that_are_done_are_one_line_that_a_key_opens_and_closes(key: str) -> None:
    app, session = of(worked(8))
    async with run_app(app) as pilot:
        assert "▸ 8 done · the parser accepts" in screen_text(app)
        assert "✓ the output" not in screen_text(app)
        assert "○ still to do 0" in screen_text(app)
        await visit(pilot, "down")
        assert "space expand" in screen_text(app)
        await pilot.press(key)
        await wait_for(pilot, lambda: "▾ 8 done" in screen_text(app))
        assert "✓ the output" in screen_text(app)
        await wait_until_idle(pilot)
        assert "space collapse" in screen_text(app)
        await pilot.press(key)
        await wait_for(pilot, lambda: "▸ 8 done" in screen_text(app))
        assert session.plans == []


async def test_what_is_ticked_stays_in_sight_until_the_user_leaves() -> None:
    app, session = of(worked(8))
    async with run_app(app) as pilot:
        await visit(pilot, "down", "down", "space")
        await wait_for(pilot, lambda: len(session.plans) == 1)
        await wait_until_rendered(pilot)
        assert "✓ still to do 0" in screen_text(app)
        await pilot.press("space")
        await wait_for(pilot, lambda: len(session.plans) == 2)
        await pilot.press("space")
        await wait_for(pilot, lambda: len(session.plans) == 3)
        await wait_until_rendered(pilot)
        assert "▸ 8 done" in screen_text(app)
        await pilot.press("escape")
        await wait_for(pilot, lambda: "▸ 9 done" in screen_text(app))
        assert "✓ still to do 0" not in screen_text(app)


async def test_one_of_the_collapsed_can_be_unticked() -> None:
    app, session = of(worked(8))
    async with run_app(app) as pilot:
        await visit(pilot, "down", "space", "down", "down", "space")
        await wait_for(pilot, lambda: len(session.plans) == 1)
        assert session.plans == [worked(8).replace(f"[x] {WORK[1]}", f"[ ] {WORK[1]}")]


async def test_what_is_proposed_is_never_collapsed() -> None:
    app, session = of(worked(8))
    async with run_app(app) as pilot:
        wanted = worked(8).replace("[ ] still to do 1", "[x] still to do 1")
        session.push(e.PlanDocChanged(text=wanted, by="review", pending=True))
        await wait_until_rendered(pilot)
        assert "~ ✓ still to do 1" in screen_text(app)
        assert "▸ 8 done" in screen_text(app)


async def test_five_hundred_that_are_done_are_one_line_and_scroll_once_open() -> None:
    app, _session = of(worked(500, 1))
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: "▸ 500 done" in screen_text(app))
        await visit(pilot, "down", "space")
        assert len(listed(app).rows) > 500
        await pilot.press("pagedown", "pagedown")
        await wait_until_rendered(pilot)
        assert "✓ c20" in screen_text(app)
        assert len(listed(app)._painted) < 150
        await pilot.press("home", "down", "space")
        await wait_until_rendered(pilot)
        assert "▸ 500 done" in screen_text(app)
        assert len(listed(app).rows) < 30


# --- pictures ---------------------------------------------------------------------------------------

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])


def after(*keys: str) -> Callable[[Pilot[int]], object]:
    async def run(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await visit(pilot, *keys)

    return run


@SIZES
def test_collapsed(size: tuple[int, int], snap_compare) -> None:
    app, _session = of(worked(8))
    assert snap_compare(app, terminal_size=size, run_before=after("down"))


@SIZES
def test_expanded(size: tuple[int, int], snap_compare) -> None:
    app, _session = of(worked(8))
    assert snap_compare(app, terminal_size=size, run_before=after("down", "space"))


def test_all_done(snap_compare) -> None:
    app, _session = of(worked(8, 0, PlanStatus.COMPLETED))
    assert snap_compare(app, terminal_size=(120, 40), run_before=wait_until_rendered)
