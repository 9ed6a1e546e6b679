from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.nightly import crossed, sampled
from tests.scenes.workflow import SUMMARY
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Answer, TrustAction, action_digest
from tui_agent.common.paths import sessions_dir
from tui_agent.common.workplan import DecisionNote, Summary
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.edit_drafts import REQUEST_FILE
from widgets.request_view import QUIET_SECONDS, RequestModal
from widgets.summary_editor import SummaryEditor, Ticks


def editor(app: TuiAgentApp) -> SummaryEditor:
    widget = app.dialogs.dock.panel
    assert isinstance(widget, SummaryEditor)
    return widget


async def shown(pilot: Pilot[int], *, armed: bool = True) -> SummaryEditor:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await wait_for(pilot, lambda: app.dialogs.dock.panel is not None and app.dialogs.dock.panel.is_mounted)
    await wait_until_idle(pilot)
    if armed:
        await wait_for(pilot, lambda: editor(app).armed)
    return editor(app)


def kept(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def taken(answer: Answer) -> Summary:
    assert answer.data is not None
    return msgspec.convert(answer.data["summary"], Summary)


async def test_ctrl_s_accepts_it_as_it_is() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: app.dialogs.dock.panel is None)
        assert session.answers == [("s1", Answer(verdict="approve"))]
        await wait_until_rendered(pilot)
        assert "Summary accepted" in screen_text(app)
        assert app.prompt.has_focus


async def test_every_field_is_reached_by_tab_and_edited() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("tab", "end", *" twice", "tab", "end", *" More.", "tab", "end", *"!")
        await pilot.press("tab", "down", "down", "space", "tab", "ctrl+end", "enter", *"+ two spaces - as in black")
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: session.answers != [])
        found = taken(session.answers[0][1])
        assert found.action == SUMMARY.action + " twice"
        assert found.details == SUMMARY.details + " More."
        assert found.result == SUMMARY.result + "!"
        assert [one.completed for one in found.criteria] == [True, True, True, True]
        assert found.decisions_made == (
            *SUMMARY.decisions_made,
            DecisionNote(title="two spaces", rationale="as in black"),
        )
        assert found.decisions_rejected == SUMMARY.decisions_rejected
        assert found.tools == SUMMARY.tools
        await wait_until_rendered(pilot)
        assert "Summary accepted · edited" in screen_text(app)


async def test_it_is_accepted_once_all_of_it_was_in_sight() -> None:
    app, session = app_for("answered")
    long = msgspec.structs.replace(SUMMARY, details="\n".join(f"detail {number}" for number in range(12)))
    async with run_app(app, (80, 24)) as pilot:
        session.push(e.SummaryProposed(id="s9", summary=long, by="model"))
        await shown(pilot)
        await wait_until_rendered(pilot)
        assert "show the rest" in screen_text(app)
        for presses in range(20):
            await pilot.press("ctrl+s")
            await wait_until_idle(pilot)
            if not presses:
                assert session.answers == [] and "not seen yet" in screen_text(app)
            if session.answers:
                break
        assert session.answers == [("s9", Answer(verdict="approve"))]


async def test_end_and_page_keys_show_the_rest_of_it() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app, (80, 20)) as pilot:
        await shown(pilot)
        await wait_until_rendered(pilot)
        assert "show the rest" in screen_text(app)
        for key in ["pagedown"] * 8 + ["end"]:
            await pilot.press(key)
            await wait_until_idle(pilot)
        assert "show the rest" not in screen_text(app)
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: session.answers != [])


async def test_a_dialog_has_the_place_of_the_summary_until_it_is_answered() -> None:
    app, session = app_for("summary_waits")
    action = TrustAction(folder="/home/ada/exporter")
    async with run_app(app, (80, 24)) as pilot:
        await shown(pilot)
        session.push(e.ApprovalRequested(id="t9", action=action, digest=action_digest(action), why=""))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen._is_fitted)
        await wait_for(pilot, lambda: "added to the plan" not in screen_text(app))
        assert "Trust this folder?" in screen_text(app)
        await pilot.press("r")
        await wait_for(pilot, lambda: not isinstance(app.screen, RequestModal))
        await wait_until_rendered(pilot)
        assert "added to the plan" in screen_text(app) and editor(app).has_focus


async def test_ctrl_d_asks_and_a_second_one_discards() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("ctrl+d")
        assert session.answers == []
        assert "again to discard" in screen_text(app)
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: session.answers != [])
        assert session.answers == [("s1", Answer(verdict="reject"))]
        await wait_until_rendered(pilot)
        assert "Summary discarded" in screen_text(app)


@pytest.mark.parametrize(
    ("key", "first"), crossed(["escape", "tab", "x", "enter"], {"0": (), "1": ("tab",), "2": ("tab", "tab")}, whole=())
)
async def test_any_other_key_takes_the_question_back(key: str, first: tuple[str, ...]) -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press(*first, "ctrl+d", key)
        await wait_until_idle(pilot)
        await pilot.press("ctrl+d")
        await wait_until_idle(pilot)
        assert session.answers == []


async def test_a_key_that_is_held_down_does_not_discard() -> None:
    clock = FakeClock()
    app, session = app_for("summary_waits", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await shown(pilot, armed=False)
        clock.now += 1
        for _repeat in range(30):
            await pilot.press("ctrl+d")
            clock.now += 0.03
        assert session.answers == []
        clock.now += 1
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: session.answers != [])


@pytest.mark.parametrize("place", sampled(range(6), 2))
async def test_letters_never_accept_or_discard(place: int) -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press(*(["tab"] * place), *"dads yYnrA 1", "escape", "escape")
        await wait_until_idle(pilot)
        assert session.answers == []
        assert session.sent == []
        assert app.dialogs.dock.panel is not None


async def test_letters_outside_of_the_fields_belong_to_the_composer() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press(*"and the docs?")
        assert app.prompt.text == "and the docs?"
        assert widget.summary() == SUMMARY
        assert session.answers == []


async def test_escape_leaves_the_field_then_the_summary_and_only_then_stops() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("tab", "escape")
        assert widget.has_focus
        assert session.interrupts == 0
        await pilot.press("escape")
        assert app.prompt.has_focus
        assert session.interrupts == 0
        await pilot.press("escape")
        await wait_for(pilot, lambda: session.interrupts == 1)
        assert session.answers == []


async def test_the_end_is_shown_once_the_summary_is_accepted() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app, (80, 24)) as pilot:
        await shown(pilot)
        app.transcript.scroll_home(animate=False)
        await wait_for(pilot, lambda: not app.transcript.following)
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: "not seen yet" not in screen_text(app))
        await wait_until_idle(pilot)
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: bool(session.answers))
        await wait_for(pilot, lambda: app.transcript.following)


async def test_shift_tab_goes_back_and_does_not_change_the_approval_mode() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("tab", "tab", "shift+tab")
        assert widget.query_one("#action", Input).has_focus
        assert session.modes == []
        await pilot.press("shift+tab")
        assert widget.has_focus


async def test_tab_goes_on_to_the_composer_and_back() -> None:
    app, _session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press(*["tab"] * 6)
        assert app.prompt.has_focus
        await pilot.press("tab")
        assert widget.has_focus


async def test_ticks_move_and_tick_by_keyboard() -> None:
    app, _session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("tab", "tab", "tab", "tab", "space", "down", "x", "up", "up")
        assert [one.completed for one in widget.query_one(Ticks).criteria] == [False, False, False, True]
        assert widget.query_one("#result", Input).has_focus


@pytest.mark.parametrize(
    ("text", "made", "rejected"),
    [
        ("", (), ()),
        ("+\n-\n  \n", (), ()),
        ("plain — why", (DecisionNote(title="plain", rationale="why"),), ()),
        ("-no", (), (DecisionNote(title="no"),)),
    ],
)
async def test_decisions_are_lines(text: str, made: Any, rejected: Any) -> None:
    app, _session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        widget.query_one("#decisions", TextArea).text = text
        await wait_until_idle(pilot)
        assert (widget.summary().decisions_made, widget.summary().decisions_rejected) == (made, rejected)


async def test_an_edit_survives_a_resize_and_a_dialog() -> None:
    app, session = app_for("summary_waits")
    async with run_app(app) as pilot:
        widget = await shown(pilot)
        await pilot.press("tab", "end", *" twice")
        for size in ((80, 24), (50, 16), (200, 50)):
            await pilot.resize_terminal(*size)
            await wait_until_idle(pilot)
        session.push(e.QuestionAsked(id="q7", question="Array or lines?", options=("one", "two")))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await pilot.press("1")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press(*" more")
        assert widget.summary().action == SUMMARY.action + " twice more"


async def test_an_edit_survives_a_crash_and_is_gone_once_it_is_decided() -> None:
    app, session = app_for("summary_waits")
    folder = sessions_dir() / session.id
    folder.mkdir(parents=True)
    async with run_app(app) as pilot:
        await shown(pilot)
        await pilot.press("tab", "end", *" twice", "tab", "tab", "tab", "space")
        await wait_for(pilot, lambda: kept(folder / REQUEST_FILE).count('"completed":false') == 3)

    again, other = app_for("summary_again")  # the same summary under another number
    async with run_app(again) as pilot:
        widget = await shown(pilot)
        assert widget.summary().action == SUMMARY.action + " twice"
        assert not widget.summary().criteria[0].completed
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: other.answers != [])
        assert taken(other.answers[0][1]).action == SUMMARY.action + " twice"
        await wait_for(pilot, lambda: not (folder / REQUEST_FILE).exists())


async def test_a_summary_that_nobody_decided_is_offered_again() -> None:
    app, session = app_for("summary_again")
    async with run_app(app) as pilot:
        await shown(pilot)
        assert "written by the program" in screen_text(app)
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: session.answers == [("s1", Answer(verdict="approve"))])
        await wait_until_rendered(pilot)
        assert "Summary accepted" in screen_text(app)


async def test_without_criteria_and_decisions_it_is_as_good() -> None:
    app, session = app_for("steps_recovered")
    async with run_app(app) as pilot:
        session.push(e.SummaryProposed(id="s9", summary=Summary(action="Looked")), run="run1")
        widget = await shown(pilot)
        assert not widget.query(Ticks)
        await pilot.press("tab", "tab", "tab", "tab", *"+ so", "ctrl+s")
        await wait_for(pilot, lambda: session.answers != [])
        assert taken(session.answers[0][1]).decisions_made == (DecisionNote(title="so"),)


async def test_hostile_text_is_only_text() -> None:
    text = "[@click=app.quit]x[/] \u202e \x1b[2J"
    app, session = app_for("steps_recovered")
    async with run_app(app) as pilot:
        offered = Summary(action=text, details=text, decisions_made=(DecisionNote(title=text),))
        session.push(e.SummaryProposed(id="s9", summary=offered), run="run1")
        await shown(pilot)
        shown_text = screen_text(app)
        assert "[@click=app.quit]x[/]" in shown_text
        assert "\x1b" not in shown_text
