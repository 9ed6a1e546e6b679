from __future__ import annotations

from collections.abc import Callable

import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.plan_text import plan_text
from tests.doubles.session import FakeSession
from tests.nightly import crossed, sampled
from tests.scenes import build
from tests.scenes.build import PLAN
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Answer
from tui_agent.plan.document import Criterion, LogEntry, Plan
from tui_agent.plan.writing import SKELETON
from tui_agent.tui.app import TuiAgentApp
from widgets.inputs import EditField
from widgets.plan_conflict import ConflictModal
from widgets.plan_list import PlanList
from widgets.plan_panel import PlanPanel
from widgets.request_view import QUIET_SECONDS, RequestModal

STATES = ("planning", "in_progress", "blocked", "completed", "failed")


def panel(app: TuiAgentApp) -> PlanPanel:
    return app.screen_stack[0].query_one(PlanPanel)


def listed(app: TuiAgentApp) -> PlanList:
    return app.screen_stack[0].query_one(PlanList)


def field(app: TuiAgentApp) -> EditField:
    return app.screen_stack[0].query_one(EditField)


async def visit(pilot: Pilot[int], *keys: str) -> None:
    """Go to the plan; the cursor is at the goal."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await pilot.press("f3")
    await wait_for(pilot, lambda: panel(app).has_keys)
    await pilot.press(*keys)


async def edits(pilot: Pilot[int], session: FakeSession, count: int = 1) -> None:
    await wait_for(pilot, lambda: len(session.plans) >= count)
    await wait_until_rendered(pilot)


# --- what is shown ----------------------------------------------------------------------------------


async def test_it_stands_above_the_progress_and_shows_the_plan() -> None:
    app, _session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: "2/4" in screen_text(app))
        text = screen_text(app)
        for part in ("○ 2 to do", "Add --json to the export command", "✓ the parser accepts", "Log"):
            assert part in text
        assert panel(app).region.bottom <= app.screen.query_one("#tree").region.y
        assert app.prompt.has_focus


WORKED = SKELETON.replace("planning", "in_progress").replace(
    "[No actions taken yet]", "### 2026-01-05 09:34 - Fixed the counter\n**Tools:** edit_file\n**Result:** {} as told"
)
"""The plan document after work that had neither a goal nor criteria."""


@pytest.mark.parametrize(("result", "state"), [("✓", "✓ done"), ("❌", "✗ failed"), ("🔄", "◐ unfinished")])
async def test_after_the_work_it_tells_how_and_when_it_ended(result: str, state: str) -> None:
    assert "Fixed" in WORKED
    scene = build.Scene().opened().ask("fix the counter")
    app, session = app_for(build._planned(scene, WORKED.replace("{}", result)).records)
    async with run_app(app) as pilot:
        assert "● in progress" in screen_text(app)
        session.push(e.RunEnded(outcome="done", text="."), run="run1")
        await wait_until_rendered(pilot)
        text = screen_text(app)
        assert f"{state} 09:34" in text
        assert "in progress" not in text and "no goal yet" not in text
        assert "no goal set" in text
        session.push(e.UserMessageAdded(id="m2", text="and now the tests"))
        session.push(e.RunStarted(message_id="m2", mode="direct", model="m"), run="run2")
        await wait_until_rendered(pilot)
        assert "● in progress" in screen_text(app)


async def test_the_steps_of_the_running_plan_are_in_it_where_the_progress_is_not_beside_it() -> None:
    app, session = app_for("steps_running")
    session.push(e.PlanDocChanged(text=SKELETON, by="template"))
    async with run_app(app, (80, 24)) as pilot:
        await visit(pilot)
        rows = [" ".join(line.split()) for line in screen_text(app).split("\n")]
        assert "No plan yet" not in screen_text(app)
        assert "✓ 1 Read the exporter and who calls it 2.4 s" in rows
        assert "○ 3 Add the --json flag to the command line" in rows
        done = e.StepFinished(outcome="done", iterations=1, ms=9_000)
        session.push(done, node="run1.s2", run="run1")
        await wait_until_rendered(pilot)
        assert "✓ 2 Let export() write JSON" in screen_text(app)


async def test_on_a_low_screen_the_panel_shows_criteria_not_gaps() -> None:
    app, _session = app_for("plan")
    async with run_app(app, (60, 16)) as pilot:
        await pilot.press("f3")
        await wait_for(pilot, lambda: "space tick  e edit" in screen_text(app))
        text = screen_text(app)
        assert "the parser accepts the flag" in text and "tests cover both formats" in text
        assert any("space tick" in line and "esc back" in line for line in text.split("\n"))
        await pilot.resize_terminal(60, 40)
        await wait_for(pilot, lambda: "━" in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_plan_that_is_carried_out_is_in_progress_before_the_document_says_so(size: tuple[int, int]) -> None:
    app, session = app_for("steps_running")
    session.push(e.PlanDocChanged(text=SKELETON, by="template"))
    async with run_app(app, size) as pilot:
        await visit(pilot)
        assert "● in progress" in screen_text(app)
        assert "No plan yet" not in screen_text(app) and "○ planning" not in screen_text(app)


async def test_a_plan_that_waits_for_approval_is_not_in_progress() -> None:
    app, session = app_for("plan_waits")
    session.push(e.PlanDocChanged(text=SKELETON, by="template"))
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        assert "in progress" not in screen_text(app)


async def test_a_change_is_there_at_the_next_frame() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        session.push(e.PlanDocChanged(text=PLAN.replace("- [ ]", "- [x]"), by="editor"))
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: "4/4" in screen_text(app))


async def test_the_empty_template_takes_no_room_until_it_is_asked_for() -> None:
    app, session = app_for(build.empty().records)
    async with run_app(app) as pilot:
        await pilot.press("f3")
        await wait_for(pilot, lambda: "no plan" in screen_text(app))
        session.push(e.PlanDocChanged(text=SKELETON, by="template"))
        await wait_until_rendered(pilot)
        assert not panel(app).display
        await visit(pilot)
        assert "No plan yet" in screen_text(app)
        await pilot.press("e", *"ship it", "enter")
        await edits(pilot, session)
        assert "\n## Goal\nship it\n" in session.plans[0]
        await pilot.press("a", *"it ships", "enter")
        await edits(pilot, session, 2)
        assert "\n- [ ] it ships\n" in session.plans[1]
        assert "to be defined" not in session.plans[1]


async def test_below_a_hundred_columns_it_lies_over_the_transcript() -> None:
    app, _session = app_for("plan")
    async with run_app(app, (80, 24)) as pilot:
        assert not panel(app).display
        await visit(pilot)
        assert "○ the README mentions it" in screen_text(app)
        await pilot.press("f4")
        await wait_for(pilot, lambda: app.screen.query_one("#tree").has_focus)
        assert not panel(app).display
        await visit(pilot, "escape")
        await wait_for(pilot, lambda: app.prompt.has_focus)
        assert not panel(app).display
        await pilot.press(*"/plan", "enter")
        await wait_for(pilot, lambda: panel(app).has_keys)


async def test_five_hundred_criteria_are_walked_through_and_only_visible_ones_are_painted() -> None:
    plan = Plan(goal="all of it", acceptance_criteria=tuple(Criterion(description=f"c{n}") for n in range(500)))
    app, session = app_for(build.plan().records)
    async with run_app(app) as pilot:
        session.push(e.PlanDocChanged(text=plan_text(plan), by="user"))
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: "0/500" in screen_text(app))
        await visit(pilot, "end")
        await wait_until_idle(pilot)
        assert "c499" in screen_text(app)
        await pilot.press("pageup", "up")
        assert len(listed(app)._painted) < 150
        await pilot.press("home")
        await wait_until_idle(pilot)
        assert "all of it" in screen_text(app)


async def test_old_work_opens_and_closes() -> None:
    plan = Plan(goal="g", execution_log=tuple(LogEntry(action=f"step {n}", result="✓") for n in range(14)))
    app, session = app_for(build.plan().records)
    async with run_app(app) as pilot:
        session.push(e.PlanDocChanged(text=plan_text(plan), by="user"))
        await wait_until_rendered(pilot)
        await visit(pilot, "end")
        await wait_for(pilot, lambda: "▸ 4 earlier" in screen_text(app))
        await pilot.press("enter")
        await wait_for(pilot, lambda: "▾ 4 earlier" in screen_text(app))
        await pilot.press("end")
        assert "step 0" in screen_text(app)


# --- edits ------------------------------------------------------------------------------------------


async def test_space_ticks_and_unticks() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "down", "down", "space")
        await edits(pilot, session)
        assert session.plans == [PLAN.replace("- [ ] tests", "- [x] tests")]
        await wait_for(pilot, lambda: "3/4" in screen_text(app))
        await pilot.press("space")
        await edits(pilot, session, 2)
        assert session.plans[1] == PLAN


async def test_quick_edits_lose_nothing() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "space", "down", "space", "down", "space", "space", "down", "space")
        await edits(pilot, session, 5)
        assert session.plans[-1] == PLAN.replace("[x]", "[-]").replace("[ ] the README", "[x] the README").replace(
            "[-]", "[ ]"
        )


@pytest.mark.parametrize("key", ["enter", "e"])
async def test_a_text_is_edited_in_place(key: str) -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "end", "home", "down", "down", "down", "down", key)
        await wait_for(pilot, lambda: field(app).has_focus)
        await pilot.press(*", and ad?+/! u", "space", "delete")
        assert session.plans == []
        await pilot.press("enter")
        await edits(pilot, session)
        assert session.plans == [PLAN.replace("mentions it", "mentions it, and ad?+/! u")]
        assert listed(app).has_focus
        assert app.prompt.text == ""


async def test_the_session_is_told_in_which_text_an_edit_was_made() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        session.push(e.PlanDocChanged(text=PLAN, by="editor", sha256="5e55"))
        session.push(e.PlanDocChanged(text=PLAN, by="review", sha256="0ff3", pending=True))
        await wait_until_rendered(pilot)
        await visit(pilot, "down", "space")
        await edits(pilot, session)
        assert session.bases == ["5e55"]


async def test_escape_leaves_it_unchanged_and_says_so() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "e", *"xyz", "escape")
        await wait_for(pilot, lambda: "nothing changed" in screen_text(app))
        assert session.plans == []
        assert session.interrupts == 0
        assert listed(app).has_focus
        assert "xyz" not in screen_text(app)


async def test_tab_goes_to_the_note() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "end", "home", "down", "down", "down", "down", "e", "tab", *"ask Grace", "enter")
        await edits(pilot, session)
        assert session.plans == [PLAN.replace("mentions it", "mentions it *(ask Grace)*")]


@pytest.mark.parametrize("key", ["a", "+"])
async def test_a_criterion_is_added_behind_the_cursor(key: str) -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", key, *"new one", "enter")
        await edits(pilot, session)
        assert "accepts the flag\n- [ ] new one\n- [x] the output" in session.plans[0]
        await wait_for(pilot, lambda: "2/5" in screen_text(app))
        chosen = listed(app).current
        assert chosen is not None
        assert chosen.name[2] == "new one"


async def test_nothing_is_added_without_words() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "a", "space", "enter")
        await wait_for(pilot, lambda: "can't be empty" in screen_text(app))
        assert field(app).has_focus
        await pilot.press("escape")
        assert session.plans == []


async def test_delete_removes_and_u_brings_it_back() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "down", "delete")
        await edits(pilot, session)
        assert session.plans[0] == PLAN.replace("- [x] the output is valid JSON *(array, indent 2)*\n", "")
        await wait_for(pilot, lambda: "1/3" in screen_text(app))
        await pilot.press("u")
        await edits(pilot, session, 2)
        assert session.plans[1] == PLAN
        await pilot.press("u")
        await wait_for(pilot, lambda: "nothing to undo" in screen_text(app))


async def test_the_goal_is_not_removed() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "home", "delete")
        await wait_for(pilot, lambda: "not removed" in screen_text(app))
        assert session.plans == []


async def test_an_edit_meets_a_plan_that_changed_meanwhile() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "e", *"!")
        changed = PLAN.replace("- [x] the parser", "- [ ] first of all\n- [ ] the parser")
        session.push(e.PlanDocChanged(text=changed, by="editor"))
        await wait_until_rendered(pilot)
        await pilot.press("enter")
        await edits(pilot, session)
        assert session.plans == [changed.replace("accepts the flag", "accepts the flag!")]


async def test_what_is_gone_is_told_and_the_panel_shows_the_truth() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "e", *"!")
        session.push(e.PlanDocChanged(text=PLAN.replace("- [x] the parser accepts the flag\n", ""), by="editor"))
        await wait_until_rendered(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: "the plan changed in the meantime" in screen_text(app))
        assert session.plans == []
        assert "the parser accepts" not in screen_text(app)


async def test_an_edit_survives_a_resize_and_a_dialog() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "e", *" abc")
        await pilot.resize_terminal(80, 24)
        await wait_for(pilot, lambda: app.size.width == 80 and panel(app).region.width > 60)
        await pilot.press(*"d")
        await pilot.resize_terminal(140, 40)
        await wait_for(pilot, lambda: panel(app).region.width < 60)
        session.push(e.QuestionAsked(id="q9", question="Which?", options=("this", "that")))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await pilot.press("1")
        await wait_for(pilot, lambda: not isinstance(app.screen, RequestModal))
        await wait_for(pilot, lambda: field(app).has_focus)
        await pilot.press("e", "f1")
        await wait_for(pilot, lambda: len(app.screen_stack) > 1)
        await pilot.press("escape")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("f", "enter")
        await edits(pilot, session)
        assert session.plans == [PLAN.replace("accepts the flag", "accepts the flag abcdef")]


async def test_an_edit_waits_while_the_user_is_elsewhere() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "e", *" abc", "f3")
        await wait_for(pilot, lambda: app.prompt.has_focus)
        await pilot.press(*"hello")
        await visit(pilot, "enter")
        await edits(pilot, session)
        assert "accepts the flag abc\n" in session.plans[0]
        assert app.prompt.text == "hello"


async def test_a_paste_is_text() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "e")
        app.post_message(events.Paste(" one\ntwo u a"))
        await wait_for(pilot, lambda: "two u a" in field(app).text)
        await pilot.press("enter")
        await edits(pilot, session)
        assert "accepts the flag one&#10;two u a\n" in session.plans[0]


async def test_keys_that_come_faster_than_the_field_opens_are_typed_into_it() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, "down")
        for key in ("a", *"nine u", "enter", "space"):
            name = {" ": "space"}.get(key, key)
            app.post_message(events.Key(name, " " if name == "space" else key if len(key) == 1 else None))
        await edits(pilot, session, 2)
        assert "\n- [ ] nine u\n" in session.plans[0]
        assert "\n- [x] nine u\n" in session.plans[1]
        assert app.prompt.text == ""


async def test_other_letters_go_to_the_composer() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await visit(pilot, *"why")
        await wait_for(pilot, lambda: app.prompt.text == "why")
        assert session.plans == []


@pytest.mark.parametrize("keys", [("escape",), ("f3",), ("space", "f3"), ("e", "x", "f3"), tuple(" why")[1:]])
async def test_keys_that_follow_the_way_back_at_once_are_the_composers(keys: tuple[str, ...]) -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await pilot.press(*"sent")
        await visit(pilot, "down")
        for key in (*keys, "enter"):
            text = {"space": " ", "enter": "\r"}.get(key, key)
            app.post_message(events.Key(key, text if len(text) == 1 else None))
        await wait_for(pilot, lambda: bool(session.sent))
        assert session.sent[0][0] == "sent" + ("why" if keys[0] == "w" else "")
        await wait_for(pilot, lambda: app.focused is app.prompt)
        if keys[0] == "space":
            await edits(pilot, session)
        await wait_until_idle(pilot)
        assert len(session.plans) == (keys[0] == "space")


async def test_the_status_is_set_by_a_command() -> None:
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await pilot.press(*"/plan blocked", "enter")
        await edits(pilot, session)
        assert session.plans == [PLAN.replace("in_progress", "blocked")]
        await wait_for(pilot, lambda: "■ blocked" in screen_text(app))


# --- proposals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "accept"), [("ctrl+s", True), ("ctrl+d", False)])
async def test_a_proposal_is_decided_by_a_key(key: str, accept: bool) -> None:
    app, session = app_for("plan_pending")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: "4 proposed" in screen_text(app))
        await visit(pilot, key)
        await wait_for(pilot, lambda: session.settlements == [accept])
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: "proposed" not in screen_text(app))
        assert ("the changelog names the flag" in screen_text(app)) is accept


async def test_a_proposal_is_settled_elsewhere() -> None:
    app, session = app_for("plan_pending")
    async with run_app(app) as pilot:
        session.push(e.PlanDocResolved(id="p1", answer=Answer(verdict="reject", by="web")))
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: "proposed" not in screen_text(app))


async def test_letters_decide_no_proposal_and_what_is_proposed_is_not_edited() -> None:
    app, session = app_for("plan_pending")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "down", "down", "space")
        await wait_for(pilot, lambda: "only proposed" in screen_text(app))
        await pilot.press("s", "d", "y", "enter")
        await wait_until_rendered(pilot)
        assert session.settlements == []
        assert session.plans == []


async def test_the_users_own_tick_goes_to_the_saved_text() -> None:
    app, session = app_for("plan_pending")
    async with run_app(app) as pilot:
        await visit(pilot, "down", "space")
        await edits(pilot, session)
        assert session.plans == [PLAN.replace("- [x] the parser", "- [ ] the parser")]
        await wait_for(pilot, lambda: "4 proposed" in screen_text(app))


async def test_commands_decide_too() -> None:
    app, session = app_for("plan_pending")
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press(*"/plan accept", "enter")
        await wait_for(pilot, lambda: session.settlements == [True])
        await wait_until_rendered(pilot)
        await pilot.press(*"/plan discard", "enter")
        await wait_for(pilot, lambda: "no proposal" in screen_text(app))
        assert session.settlements == [True]


# --- conflicts --------------------------------------------------------------------------------------


async def listening(pilot: Pilot[int]) -> None:
    await wait_until_rendered(pilot)
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, ConflictModal) and pilot.app.screen.armed)
    await wait_until_idle(pilot)


@pytest.mark.parametrize(("key", "take"), [("o", "ours"), ("t", "theirs"), ("b", "both")])
async def test_a_conflict_is_decided(key: str, take: str) -> None:
    app, session = app_for("plan_conflict")
    async with run_app(app) as pilot:
        await listening(pilot)
        await pilot.press("enter", "space", "y", "a", key)
        await wait_for(pilot, lambda: not isinstance(app.screen, ConflictModal))
        assert session.answers == [("k1", Answer(verdict="approve", data={"take": take}))]
        await wait_until_rendered(pilot)
        assert "both changed the plan" in screen_text(app)


async def test_a_conflict_takes_no_key_before_it_listens() -> None:
    clock = FakeClock()
    app, session = app_for("plan_conflict", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, ConflictModal))
        await pilot.press(*"bot")
        assert session.answers == []
        assert app.prompt.text == "bot"
        clock.arm_dialogs()
        await pilot.press("t")
        await wait_for(pilot, lambda: len(session.answers) == 1)


async def test_a_conflict_settled_elsewhere_closes() -> None:
    app, session = app_for("plan_conflict")
    async with run_app(app) as pilot:
        await listening(pilot)
        session.push(e.PlanDocResolved(id="k1", answer=Answer(verdict="withdrawn", by="interrupt")))
        await wait_for(pilot, lambda: not isinstance(app.screen, ConflictModal))
        assert session.answers == []


# --- pictures ---------------------------------------------------------------------------------------

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x50": (200, 50)}


def at_sizes(often: str) -> pytest.MarkDecorator:
    """A picture in all sizes; in every run, in one of them."""
    return pytest.mark.parametrize("size", sampled(SIZES.values(), (SIZES[often],)), ids=SIZES)


def after(*keys: str) -> Callable[[Pilot[int]], object]:
    async def run(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await visit(pilot, *keys)
        await wait_until_idle(pilot)

    return run


@pytest.mark.parametrize(("state", "size"), crossed(STATES, SIZES))
def test_status(state: str, size: tuple[int, int], snap_compare) -> None:
    text = PLAN.replace("in_progress", state)
    if state == "planning":
        text = text.replace("[x]", "[ ]")
    if state == "completed":
        text = text.replace("[ ]", "[x]")
    records = build._planned(build.plan(), text).records
    app, _session = app_for(records)
    assert snap_compare(app, terminal_size=size, run_before=after())


@at_sizes("80x24")
def test_pending(size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for("plan_pending")
    assert snap_compare(app, terminal_size=size, run_before=after("down"))


@at_sizes("120x40")
def test_editing(size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for("plan")
    assert snap_compare(app, terminal_size=size, run_before=after("down", "down", "down", "e", *" – all"))


@at_sizes("80x24")
def test_conflict(size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for("plan_conflict")
    assert snap_compare(app, terminal_size=size, run_before=listening)


def test_light(snap_compare) -> None:
    app, _session = app_for("plan_pending", theme="light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=after("down"))


def test_beside(snap_compare) -> None:
    app, _session = app_for("plan")
    assert snap_compare(app, terminal_size=(120, 40), run_before=wait_until_rendered)


def test_empty(snap_compare) -> None:
    app, _session = app_for(build._planned(build.empty(), SKELETON, by="template").records)
    assert snap_compare(app, terminal_size=(120, 40), run_before=after())
