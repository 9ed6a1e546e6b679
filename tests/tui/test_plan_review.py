from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from textual import events
from textual.pilot import Pilot

from tests.nightly import sampled
from tests.scenes import load
from tests.scenes.workflow import PLAN, UNSURE
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Answer
from tui_agent.common.paths import sessions_dir
from tui_agent.common.workplan import InstructionPlan
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.edit_drafts import REQUEST_FILE
from widgets.plan_review import PlanReview
from widgets.request_view import QUIET_SECONDS, SAVE_DELAY, RequestModal


def review(app: TuiAgentApp) -> PlanReview:
    widget = app.dialogs.dock.panel
    assert isinstance(widget, PlanReview)
    return widget


async def shown(pilot: Pilot[int], *, armed: bool = True) -> PlanReview:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await wait_for(pilot, lambda: app.dialogs.dock.panel is not None and app.dialogs.dock.panel.is_mounted)
    await wait_until_idle(pilot)
    if armed:
        await wait_for(pilot, lambda: review(app).armed)
    return review(app)


def taken(data: dict[str, Any] | None) -> InstructionPlan:
    assert data is not None
    return msgspec.convert(data["plan"], InstructionPlan)


async def test_a_approves_the_plan_as_it_is() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: app.dialogs.dock.panel is None)
        assert session.answers == [("p1", Answer(verdict="approve"))]
        await wait_until_rendered(pilot)
        assert "Plan approved · 4 steps" in screen_text(app)
        assert app.prompt.has_focus


@pytest.mark.parametrize("key", ["space", "enter", "y", "ctrl+s", "ctrl+d", "A", "9", "d", "delete"])
async def test_no_other_key_decides(key: str) -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press(key)
        await wait_until_idle(pilot)
        assert session.answers == []
        assert review(app).state == "review"


async def test_all_of_the_plan_is_said() -> None:
    app, _session = app_for("plan_unsure")
    async with run_app(app, (120, 50)) as pilot:
        await shown(pilot)
        text = screen_text(app)
        for part in (
            UNSURE.approach,
            "needs     the service answers",
            "2 Call the service with Accept: application/json",
            "run_terminal_command  essential  unsure 45%",
            "expect    one JSON array",
            "if not    convert the table to JSON here",
            "1 Convert rows to JSON in export()  when no service is wanted  80%",
            "confidence 45%",
        ):
            assert part in text


async def test_a_number_picks_another_way() -> None:
    app, session = app_for("plan_unsure")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("3")
        assert session.answers == []
        await pilot.press("2")
        await wait_for(pilot, lambda: session.answers != [])
        assert session.answers == [("p1", Answer(verdict="approve", data={"alternative": 1}))]
        await wait_until_rendered(pilot)
        assert "Alternative chosen · Pipe the table through jq" in screen_text(app)


async def test_a_rejection_carries_its_reason() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("r", *"a bad idea", "enter")
        await wait_for(pilot, lambda: session.answers != [])
        assert session.answers == [("p1", Answer(verdict="reject", text="a bad idea"))]
        await wait_until_rendered(pilot)
        assert "Plan rejected: a bad idea" in screen_text(app)


async def test_escape_leaves_the_reason_and_then_stops_the_run() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("r", *"ae", "escape")
        assert (session.answers, session.interrupts) == ([], 0)
        await wait_for(pilot, lambda: review(app).armed)
        await pilot.press("escape")
        await wait_for(pilot, lambda: session.interrupts == 1)
        assert session.answers == []


async def test_a_step_is_reworded_in_place_and_letters_only_type() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e", "down", "down", "down", "enter", *" a r d 1", "enter")
        assert session.answers == []
        assert widget.editor.plan.steps[1].description == PLAN.steps[1].description + " a r d 1"
        await pilot.press("escape")
        await wait_for(pilot, lambda: widget.armed)
        assert "edited" in screen_text(app)
        await pilot.press("a")
        await wait_for(pilot, lambda: session.answers != [])
        plan = taken(session.answers[0][1].data)
        assert plan.steps[1].description.endswith(" a r d 1")
        assert plan.steps[0] == PLAN.steps[0]


async def test_expected_fallback_and_check_are_edited_too() -> None:
    app, _session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e", "down", "enter", *"!", "tab", *"ask", "enter", "end", "enter", *" -x", "escape")
        plan = widget.editor.plan
        assert plan.steps[0].expected == PLAN.steps[0].expected + "!"
        assert plan.steps[0].fallback == "ask"
        assert plan.check.command == PLAN.check.command + " -x"


@pytest.mark.parametrize("key", ["J", "alt+down"])
async def test_steps_change_their_order_and_their_numbers(key: str) -> None:
    app, _session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e", key)
        steps = widget.editor.plan.steps
        assert [one.description for one in steps[:2]] == [PLAN.steps[1].description, PLAN.steps[0].description]
        assert [one.number for one in steps] == [1, 2, 3, 4]
        await pilot.press("K", "K")
        assert widget.editor.plan == PLAN


@pytest.mark.parametrize("key", ["d", "delete"])
async def test_a_step_is_dropped_but_not_the_last_one(key: str) -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e", key)
        assert [one.description for one in widget.editor.plan.steps] == [one.description for one in PLAN.steps[1:]]
        await pilot.press(key, key, key, key)
        assert len(widget.editor.plan.steps) == 1
        assert session.answers == []


async def test_edits_are_undone_one_by_one() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e")
        assert "u undo" not in screen_text(app)
        await pilot.press("d", "+", *"look twice", "enter", "J", "+", "escape")
        await wait_until_idle(pilot)
        assert "u undo" in screen_text(app)
        await pilot.press("u")
        assert [one.description for one in widget.editor.plan.steps][1] == "look twice"
        await pilot.press("u")
        assert [one.description for one in widget.editor.plan.steps] == [one.description for one in PLAN.steps[1:]]
        await pilot.press("u", "u", "u")
        await wait_until_idle(pilot)
        assert widget.editor.plan == PLAN and "edited" not in screen_text(app) and "u undo" not in screen_text(app)
        assert session.answers == [] and app.prompt.text == ""


async def test_a_step_is_added_and_an_empty_one_is_none() -> None:
    app, _session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e", "+", *"look twice", "enter")
        assert [one.description for one in widget.editor.plan.steps][1] == "look twice"
        await pilot.press("+", "escape")
        assert len(widget.editor.plan.steps) == 5
        assert widget.state == "list"


async def test_keys_that_come_faster_than_the_field_opens_are_typed_into_it() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        for key in ("e", "+", *"lookatit", "enter", "+", "escape"):
            name = {"+": "plus"}.get(key, key)
            app.post_message(events.Key(name, key if len(key) == 1 else None))
        await wait_for(pilot, lambda: len(widget.editor.plan.steps) == 5 and widget.state == "list")
        assert widget.editor.plan.steps[1].description == "lookatit"
        assert (session.answers, session.interrupts) == ([], 0)
        assert app.prompt.text == ""


async def test_what_is_typed_ahead_goes_into_the_draft_and_decides_nothing() -> None:
    clock = FakeClock()
    app, session = app_for("plan_waits", quiet_seconds=QUIET_SECONDS, clock=clock)
    typed = "a rare 1\n" * 4
    async with run_app(app) as pilot:
        await shown(pilot, armed=False)
        for character in typed:
            clock.now += 0.1
            await pilot.press({"\n": "enter", " ": "space"}.get(character, character))
        assert session.answers == []
        assert session.sent == []
        assert app.prompt.text == typed
        clock.arm_dialogs()
        await pilot.press("a")
        await wait_for(pilot, lambda: session.answers != [])


async def test_after_editing_it_is_still_for_a_while() -> None:
    clock = FakeClock()
    app, session = app_for("plan_waits", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await shown(pilot, armed=False)
        clock.arm_dialogs()
        await pilot.press("e", "enter", "x", "escape", "escape", "a")
        assert session.answers == []
        clock.arm_dialogs()
        await pilot.press("a")
        await wait_for(pilot, lambda: session.answers != [])


async def test_a_paste_never_decides() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        widget.post_message(events.Paste("a\n1\n"))
        await wait_for(pilot, lambda: bool(app.prompt.text))
        assert session.answers == []


async def test_the_composer_stays_in_reach() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("tab", *"are")
        assert app.prompt.text == "are"
        assert session.answers == []
        await wait_for(pilot, lambda: "tab switch to it" in screen_text(app))
        await pilot.press("tab")
        await wait_for(pilot, lambda: widget.has_focus and widget.armed)
        await pilot.press("a")
        await wait_for(pilot, lambda: session.answers != [])


async def test_an_edit_survives_a_resize_and_a_dialog() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("e", "enter", *" twice")
        for size in ((80, 24), (60, 20), (200, 50)):
            await pilot.resize_terminal(*size)
            await wait_until_idle(pilot)
        assert "Read the exporter and who calls it twice" in screen_text(app)
        session.push(e.QuestionAsked(id="q7", question="Array or lines?", options=("one", "two")))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await pilot.press("1")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press(*" more", "enter")
        assert widget.editor.plan.steps[0].description.endswith("twice more")
        assert [key for key, _answer in session.answers] == ["q7"]


async def test_an_edit_survives_a_crash() -> None:
    app, session = app_for("plan_waits")
    folder = sessions_dir() / session.id
    folder.mkdir(parents=True)
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("e", "enter", *" twice")
        kept = folder / REQUEST_FILE
        await wait_for(pilot, lambda: kept.exists() and " twice" in kept.read_text(encoding="utf-8"))
    assert SAVE_DELAY < 1

    again, other = app_for("plan_waits")
    async with run_app(again) as pilot:
        widget = await shown(pilot)
        assert widget.editor.plan.steps[0].description.endswith(" twice")
        await pilot.press("a")
        await wait_for(pilot, lambda: other.answers != [])
        assert taken(other.answers[0][1].data).steps[0].description.endswith(" twice")
        await wait_for(pilot, lambda: not (folder / REQUEST_FILE).exists())


async def test_half_a_character_in_a_plan_does_not_lose_its_draft() -> None:
    *records, last = load("plan_waits")
    assert isinstance(last.event, e.PlanProposed)
    steps = (replace(PLAN.steps[0], description="Read \udfff"), *PLAN.steps[1:])
    odd = replace(last, event=replace(last.event, plan=replace(PLAN, steps=steps)))
    for app, session in (app_for([*records, odd]), app_for([*records, odd])):
        (sessions_dir() / session.id).mkdir(parents=True, exist_ok=True)
        async with run_app(app) as pilot:
            widget = await shown(pilot)
            steps = widget.editor.plan.steps
            await pilot.press("e", "enter", *" twice")
            app.exit(0)
    assert steps[0].description.endswith(" twice")


@pytest.mark.parametrize("edits", [True, False])
async def test_what_was_typed_last_is_kept_when_the_program_ends_at_once(edits: bool) -> None:
    app, session = app_for("plan_waits")
    folder = sessions_dir() / session.id
    folder.mkdir(parents=True)
    async with run_app(app) as pilot:
        await shown(pilot)
        if edits:
            await pilot.press("e", "enter", *" twice")
        app.exit(0)
        kept = (folder / REQUEST_FILE).read_text(encoding="utf-8") if (folder / REQUEST_FILE).exists() else ""
        assert (" twice" in kept) is edits and (kept != "") is edits


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "p1", "draft": {"plan": 3}}', '{"id": "p1"}'])
async def test_a_draft_that_makes_no_sense_is_none(text: str) -> None:
    app, session = app_for("plan_waits")
    folder = sessions_dir() / session.id
    folder.mkdir(parents=True)
    (folder / REQUEST_FILE).write_text(text, encoding="utf-8")
    async with run_app(app) as pilot:
        assert (await shown(pilot)).editor.plan == PLAN


async def test_the_draft_of_another_plan_is_not_taken() -> None:
    app, session = app_for("plan_unsure")
    folder = sessions_dir() / session.id
    folder.mkdir(parents=True)
    kept = {"id": "p0", "of": {}, "draft": {"plan": msgspec.to_builtins(PLAN)}}
    (folder / REQUEST_FILE).write_text(json.dumps(kept), encoding="utf-8")
    async with run_app(app) as pilot:
        assert (await shown(pilot)).editor.plan == UNSURE


async def test_it_closes_when_somebody_else_decides() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        session.push(e.PlanReviewed(id="p1", answer=Answer(verdict="approve", by="web"), plan=PLAN))
        await wait_for(pilot, lambda: app.dialogs.dock.panel is None)
        assert session.answers == []
        assert app.prompt.has_focus


async def test_two_plans_are_asked_one_after_the_other() -> None:
    app, session = app_for(load("plan_waits"))
    async with run_app(app) as pilot:
        first = await shown(pilot)
        session.push(e.PlanProposed(id="p2", plan=UNSURE, asks=True), run="run1", node="s-planning")
        await wait_until_rendered(pilot)
        assert review(app) is first
        await pilot.press("a")
        await wait_for(pilot, lambda: app.dialogs.dock.panel not in (None, first))
        widget = await shown(pilot)
        assert widget.request.id == "p2"
        await pilot.press("1")
        await wait_for(pilot, lambda: [key for key, _answer in session.answers] == ["p1", "p2"])


async def test_a_plan_that_was_not_in_sight_is_shown_before_it_can_be_approved() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app, (80, 16)) as pilot:
        panel = app.dialogs.dock.panel
        assert panel is not None and panel.unseen() > 0
        await pilot.press("a")
        await wait_until_idle(pilot)
        assert session.answers == [] and "more lines: end shows them" in screen_text(app)
        while panel.unseen():
            await pilot.press("a")
            await wait_until_idle(pilot)
        assert session.answers == []
        await pilot.press("a")
        await wait_for(pilot, lambda: [answer.verdict for _id, answer in session.answers] == ["approve"])


@pytest.mark.parametrize("size", sampled([(60, 16), (40, 10), (60, 12), (80, 24)], [(40, 10), (80, 24)]))
@pytest.mark.parametrize("scene", ["plan_waits", "plan_unsure"])
async def test_the_keys_and_the_field_for_the_reason_are_visible_on_any_screen(
    scene: str, size: tuple[int, int]
) -> None:
    app, session = app_for(scene)
    async with run_app(app, size) as pilot:
        widget = await shown(pilot)
        assert "r reject" in screen_text(app)
        assert size[0] < 80 or "esc stops the run" in screen_text(app)
        await pilot.press("r")
        await wait_for(pilot, lambda: "why not?" in screen_text(app))
        await pilot.press(*"a bad idea")
        await wait_for(pilot, lambda: "a bad idea" in screen_text(app))
        assert widget.region.contains_region(widget._reason.region)
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.answers == [("p1", Answer(verdict="reject", text="a bad idea"))])


async def test_it_says_how_many_lines_are_left_and_the_key_that_shows_them() -> None:
    app, session = app_for("plan_waits")
    async with run_app(app, (80, 24)) as pilot:
        widget = await shown(pilot)
        await pilot.press("a")
        await wait_for(
            pilot,
            lambda: (
                f"↓ {widget._body.lines_below} more lines: end shows them" in screen_text(app)
                or widget._body.lines_below == 0
            ),
        )
        assert session.answers == []
