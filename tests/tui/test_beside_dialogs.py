"""While a request is open, the rest of the screen stays in use, and says why a key does nothing (U4, A9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.edits import edit_action
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import RunAction, Severity
from tui_agent.tui import commands
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.blocks.tool_card import ToolCard
from widgets.context_meter import ContextPanel
from widgets.edit_modal import EditModal
from widgets.history_search import HistorySearch
from widgets.info_panels import HelpPanel
from widgets.palette import Palette
from widgets.request_view import QUIET_SECONDS, RequestModal

ACTION = RunAction(command="make release", cwd="/w", severity=Severity.MEDIUM)


@asynccontextmanager
async def asked(
    scene: str = "answered", *, size: tuple[int, int] = (120, 40), quiet: bool = False, action: object = ACTION
) -> AsyncIterator[tuple[TuiAgentApp, FakeSession, Pilot[int], FakeClock]]:
    """An app with an open request; keys are accepted at once unless `quiet`."""
    clock = FakeClock()
    app, session = app_for(scene, quiet_seconds=QUIET_SECONDS if quiet else 0.0, clock=clock)
    async with run_app(app, size) as pilot:
        for number in range(30):
            session.push(e.Notice(level="info", text=f"line number {number}"))
        session.push(e.ApprovalRequested(id="q1", action=action, digest="d", why="ask"))  # type: ignore[arg-type]
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen._is_fitted)
        await wait_until_rendered(pilot)
        yield app, session, pilot, clock


def place_of(app: TuiAgentApp, text: str) -> tuple[int, int]:
    rows = screen_text(app).split("\n")
    y = max(number for number, row in enumerate(rows) if text in row)
    return rows[y].index(text) + 1, y


async def click(app: TuiAgentApp, pilot: Pilot[int], text: str) -> None:
    await pilot.click(offset=place_of(app, text))
    await wait_until_idle(pilot)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_transcript_scrolls_under_an_approval(size: tuple[int, int]) -> None:
    async with asked(size=size) as (app, session, pilot, _clock):
        await wait_for(pilot, lambda: "line number 29" in screen_text(app))  # the end is above the dialog
        await pilot.press("ctrl+home")
        await wait_for(pilot, lambda: app.transcript.scroll_offset.y == 0)
        await wait_for(pilot, lambda: "line number 29" not in screen_text(app))
        await pilot.press("shift+pagedown")
        await wait_for(pilot, lambda: app.transcript.scroll_offset.y > 0)
        below = app.transcript.scroll_offset.y
        await pilot.press("shift+pageup")
        await wait_for(pilot, lambda: app.transcript.scroll_offset.y < below)
        await pilot.press("ctrl+end")
        await wait_for(pilot, lambda: app.transcript.end_seen and "line number 29" in screen_text(app))
        app.post_message(events.MouseScrollUp(None, 5, 3, 0, 0, 0, False, False, False))
        await wait_for(pilot, lambda: not app.transcript.end_seen)
        assert isinstance(app.screen, ApprovalModal) and session.answers == []


@pytest.mark.parametrize(
    ("key", "panel", "closes"),
    [("f1", HelpPanel, "escape"), ("ctrl+p", Palette, "escape"), ("f9", ContextPanel, "escape")],
)
async def test_panels_open_over_an_approval_and_lead_back_to_it(key: str, panel: type, closes: str) -> None:
    async with asked() as (app, session, pilot, _clock):
        dialog = app.screen
        await pilot.press(key)
        await wait_for(pilot, lambda: isinstance(app.screen, panel))
        session.push(e.Notice(level="info", text="something else"))
        await wait_until_rendered(pilot)
        assert isinstance(app.screen, panel)
        await pilot.press(closes)
        await wait_for(pilot, lambda: app.screen is dialog)
        assert session.answers == [] and not session.interrupts


@pytest.mark.parametrize("key", ["f4", "ctrl+f"])
async def test_progress_and_search_have_the_keys_and_lead_back_to_the_approval(key: str) -> None:
    async with asked() as (app, session, pilot, _clock):
        dialog = app.screen
        assert isinstance(dialog, RequestModal)
        await pilot.press(key)
        await wait_for(pilot, lambda: app.screen is app.screen_stack[0])
        await wait_until_idle(pilot)
        assert "a request waits" in screen_text(app)
        await pilot.press("down", "escape")
        await wait_for(pilot, lambda: app.screen is dialog)
        await wait_until_idle(pilot)
        assert "make release" in screen_text(app) and "a request waits" not in screen_text(app)
        assert session.answers == [] and not session.interrupts
        await wait_for(pilot, lambda: dialog.armed)
        await pilot.press("a")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        await wait_for(pilot, lambda: app.screen is app.screen_stack[0])


async def test_a_request_answered_elsewhere_does_not_come_back() -> None:
    async with asked() as (app, session, pilot, _clock):
        await pilot.press("f4")
        await wait_for(pilot, lambda: app.screen is app.screen_stack[0])
        from tui_agent.common.domain import Answer

        session.push(e.ApprovalAnswered(id="q1", answer=Answer(verdict="approve")))
        await wait_until_rendered(pilot)
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert app.screen is app.screen_stack[0] and "a request waits" not in screen_text(app)


async def test_what_was_done_in_a_dialog_is_there_when_it_comes_back() -> None:
    async with asked(action=edit_action()) as (app, _session, pilot, _clock):
        dialog = app.screen
        assert isinstance(dialog, EditModal)
        await wait_for(pilot, lambda: dialog.armed)
        await pilot.press("x")
        left = set(dialog.included)
        await pilot.press("ctrl+f")
        await wait_for(pilot, lambda: app.screen is app.screen_stack[0])
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.screen is dialog)
        await wait_until_idle(pilot)
        assert dialog.included == left != set(range(len(dialog.diff.hunks)))


async def test_choices_can_be_clicked_but_not_too_early() -> None:
    async with asked(quiet=True) as (app, session, pilot, clock):
        await click(app, pilot, "approve once")
        assert session.answers == [] and "clicked too soon" in screen_text(app)
        clock.arm_dialogs()
        await click(app, pilot, "approve once")
        await wait_for(pilot, lambda: [answer.verdict for _id, answer in session.answers] == ["approve"])


async def test_a_click_that_goes_down_elsewhere_decides_nothing() -> None:
    async with asked() as (app, session, pilot, _clock):
        await pilot.mouse_down(offset=place_of(app, "make release"))
        await pilot.mouse_up(offset=place_of(app, "approve once"))
        await wait_until_idle(pilot)
        assert session.answers == []


async def test_a_reason_is_typed_and_sent_with_the_mouse() -> None:
    async with asked() as (app, session, pilot, _clock):
        await click(app, pilot, "reject, with a reason")
        await pilot.press(*"no")
        await click(app, pilot, "rejects")
        await wait_for(pilot, lambda: [(a.verdict, a.text) for _id, a in session.answers] == [("reject", "no")])


async def test_options_of_a_question_can_be_clicked() -> None:
    app, session = app_for("question")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_until_idle(pilot)
        request = app.screen.request  # type: ignore[attr-defined]
        await pilot.press("x")
        await click(app, pilot, request.options[1])
        await wait_for(pilot, lambda: [answer.text for _id, answer in session.answers] == [request.options[1]])


@pytest.mark.parametrize(("text", "panel"), [("ctx", "ContextPanel"), ("F1", "HelpPanel")])
async def test_header_and_footer_react_to_clicks_with_and_without_an_approval(text: str, panel: str) -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await click(app, pilot, text)
        await wait_for(pilot, lambda: type(app.screen).__name__ == panel)
    if text == "ctx":
        async with asked() as (app, _session, pilot, _clock):
            await pilot.click(offset=(screen_text(app).split("\n")[0].index("ctx") + 1, 0))
            await wait_for(pilot, lambda: type(app.screen).__name__ == panel)


async def test_a_click_on_the_approval_mode_switches_it() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        row = screen_text(app).split("\n")[0]
        await pilot.click(offset=(row.index(" ask ") + 2, 0))
        await wait_for(pilot, lambda: session.modes == [(None, "auto-edit")])


async def test_typed_text_is_in_sight_while_a_dialog_is_open() -> None:
    async with asked(quiet=True) as (app, session, pilot, _clock):
        await pilot.press(*"look here")
        await wait_for(pilot, lambda: app.prompt.text == "look here")
        await wait_until_idle(pilot)
        assert "your message: look here" in screen_text(app) and session.answers == []


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("ctrl+t", "ctrl+t (steer) does nothing until you have decided"),
        ("ctrl+b", "ctrl+b has no function here"),
        ("enter", "enter decides nothing here"),
        ("s", "this can only be approved once"),
        ("u", "nothing is masked here"),
    ],
)
async def test_it_is_said_why_a_key_does_nothing(key: str, reason: str) -> None:
    async with asked() as (app, session, pilot, _clock):
        await pilot.press(key)
        await wait_for(pilot, lambda: reason in screen_text(app))
        assert session.answers == []
        await pilot.press("down")
        await wait_for(pilot, lambda: reason not in screen_text(app))


async def test_a_terminal_too_narrow_for_two_columns_says_so() -> None:
    async with asked(action=edit_action(), size=(80, 24)) as (app, _session, pilot, _clock):
        await pilot.press("v")
        await wait_for(pilot, lambda: "side by side needs" in screen_text(app) and "not 80" in screen_text(app))


@pytest.mark.parametrize(("sandboxed", "said"), [(True, "sandboxed"), (False, "no sandbox")])
async def test_a_command_says_whether_it_would_run_in_the_sandbox(sandboxed: bool, said: str) -> None:
    action = RunAction(command="make release", cwd="/w", severity=Severity.MEDIUM, sandboxed=sandboxed)
    async with asked(action=action) as (app, _session, _pilot, _clock):
        assert f"severity medium · {said}" in screen_text(app)


def _has_mode(app: TuiAgentApp, mode: str) -> bool:
    return app.view.approval_mode == mode


async def test_it_is_said_what_a_mode_changed_meanwhile_means_for_the_open_request() -> None:
    async with asked() as (app, session, pilot, _clock):
        for mode, said in (
            ("auto-edit", "counts from the next action; this one still waits"),
            ("auto", "counts from the next action"),
            ("read-only", "refuses what waits here, even if you approve it"),
        ):
            await pilot.press("shift+tab")
            await wait_for(pilot, partial(_has_mode, app, mode))
            await wait_until_idle(pilot)
            assert f"{mode} {said}" in screen_text(app)
        assert session.answers == []


async def test_the_palette_over_an_approval_lists_only_what_works_there() -> None:
    async with asked() as (app, session, pilot, _clock):
        await pilot.press("ctrl+p")
        await wait_for(pilot, lambda: isinstance(app.screen, Palette))
        assert isinstance(app.screen, Palette)
        names = {row.name for row in app.screen.rows}
        assert {"approvals", "mode", "context", "stop"} <= names
        assert names.isdisjoint({"commands", "send", "older", "clear", "undo", "quit", "steer"})
        await pilot.press(*"commands", "enter", "escape")
        await wait_until_idle(pilot)
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal))
        assert not app.prompt.text and session.answers == []


async def test_an_action_chosen_just_before_a_request_came_does_not_run_behind_it() -> None:
    async with asked() as (app, session, pilot, _clock):
        app.prompt.insert("half a message")
        commands._run_palette_row(app, "send")
        await wait_until_idle(pilot)
        assert "send does nothing until you have decided" in screen_text(app)
        assert app.prompt.text == "half a message" and session.sent == []


async def test_a_message_from_the_history_is_in_sight_over_an_approval() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"an earlier one", "ctrl+c")  # stashed
        await wait_for(pilot, lambda: not app.prompt.text)
        session.push(e.ApprovalRequested(id="q1", action=ACTION, digest="d", why="ask"))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen._is_fitted)
        dialog = app.screen
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: isinstance(app.screen, HistorySearch))
        await wait_until_idle(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is dialog and app.prompt.text == "an earlier one")
        await wait_for(pilot, lambda: "your message: an earlier one" in screen_text(app))


async def test_a_card_beside_a_dialog_can_be_clicked_after_text_was_selected_by_mouse() -> None:
    app, session = app_for("tests_ok")
    async with run_app(app) as pilot:
        session.push(e.Notice(level="info", text="words to select here"))
        await wait_until_rendered(pilot)
        x, y = place_of(app, "words to select")
        await pilot.mouse_down(offset=(x, y))
        await pilot.hover(offset=(x + 8, y))
        await pilot.mouse_up(offset=(x + 8, y))
        await pilot._post_mouse_events([events.Click], offset=(x + 8, y), button=1)  # as it follows in a terminal
        await wait_until_idle(pilot)
        assert app.transcript.selected_text
        session.push(e.ApprovalRequested(id="q1", action=ACTION, digest="d", why="ask"))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen._is_fitted)
        await wait_until_rendered(pilot)
        cards = [block for block in app.transcript.blocks if isinstance(block, ToolCard)]
        before = [block.open for block in cards]
        await pilot.click(offset=(app.transcript.region.x + 6, place_of(app, "src/export.py")[1]))
        await wait_until_idle(pilot)
        assert [block.open for block in cards] != before
