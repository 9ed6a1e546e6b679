from __future__ import annotations

import asyncio
import random

import pytest
from textual import events
from textual.pilot import Pilot

from tests.nightly import sampled
from tests.scenes import build
from tests.tui.kit import FakeClock, app_for, run_app, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.inputs import LineInput
from widgets.request_view import QUIET_SECONDS, RequestModal

NAMES = {"\n": "enter", " ": "space"}


def press(app: TuiAgentApp, character: str) -> None:
    """As the terminal's thread does it: into the app's queue, without waiting."""
    name = NAMES.get(character, character)
    app.post_message(events.Key(name, "\r" if character == "\n" else character))


async def quiet(pilot: Pilot[int]) -> None:
    for _round in range(5):
        await wait_until_idle(pilot)


def typed(seed: int) -> str:
    dice = random.Random(seed)
    return "".join(dice.choice("yaAsr1 \n\nqwe") for _key in range(100))


@pytest.mark.parametrize("seed", sampled(range(6), 2))
@pytest.mark.parametrize("kind", ["approval", "question"])
async def test_a_hundred_keys_into_an_opening_dialog_decide_nothing_and_keep_their_order(kind: str, seed: int) -> None:
    clock = FakeClock()
    app, session = app_for("streaming", quiet_seconds=QUIET_SECONDS, clock=clock)
    text = typed(seed)
    dice = random.Random(seed)

    async def send(text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        session.sent.append((text, steering))
        return "m"  # the run goes on, so no record comes of it yet

    session.send = send  # type: ignore[method-assign]  # what the engine does with a queued message
    opens = dice.randrange(100)
    async with run_app(app) as pilot:
        for place, character in enumerate(text):
            if place == opens:
                if kind == "approval":
                    session.push(e.ApprovalRequested(id="q1", action=build.TESTS, digest="d", why="ask"))
                else:
                    session.push(e.QuestionAsked(id="q1", question="Which?", options=("a", "y")))
            press(app, character)
            if dice.random() < 0.3:
                clock.now += 0.03  # faster than a dialog trusts
                await wait_until_idle(pilot)
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal))
        await quiet(pilot)
        assert session.answers == []
        assert session.interrupts == 0
        assert isinstance(app.screen, RequestModal)
        sent = "".join(text for text, _steering in session.sent)
        # what Enter sent before the dialog was there, then the draft; Enter leaves no mark in what was sent
        assert (sent + app.prompt.text).replace("\n", "") == text.replace("\n", "")
        clock.arm_dialogs()
        await pilot.press("r" if kind == "approval" else "ctrl+d")
        if kind == "approval":
            await wait_for(pilot, lambda: isinstance(app.focused, LineInput))
            await pilot.press("enter")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert session.answers[0][1].verdict == "reject"


async def test_a_key_that_waited_while_the_program_was_busy_was_pressed_too_early() -> None:
    clock = FakeClock()
    app, session = app_for("command_asked", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        clock.now += 2 * QUIET_SECONDS
        late = events.Key("a", "a")
        late.time -= 1.5 * QUIET_SECONDS
        app.post_message(late)
        await wait_for(pilot, lambda: app.prompt.text == "a")
        assert session.answers == []
        clock.arm_dialogs()
        await pilot.press("a")
        await wait_for(pilot, lambda: len(session.answers) == 1)


@pytest.mark.parametrize("scene", ["command_asked", "plan_waits"])
async def test_who_comes_back_to_the_screen_answers_nothing_with_what_is_typed_at_once(scene: str) -> None:
    clock = FakeClock()
    app, session = app_for(scene, quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        clock.arm_dialogs()
        app.app_resume_signal.publish(app)  # as after `fg`, or when a browser shows the screen
        await quiet(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: app.prompt.text == "a")
        assert session.answers == []
        clock.arm_dialogs()
        await pilot.press("a")
        await wait_for(pilot, lambda: len(session.answers) == 1)


async def test_a_key_that_is_held_down_never_answers() -> None:
    clock = FakeClock()
    app, session = app_for("command_asked", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        for _repeat in range(100):
            press(app, "a")
            clock.now += 0.033
            await wait_until_idle(pilot)
        assert session.answers == []
        assert app.prompt.text == "a" * 100


async def test_the_mouse_never_answers_by_a_button_that_goes_up() -> None:
    app, session = app_for("command_asked")
    async with run_app(app) as pilot:
        for row in range(0, 40, 3):
            for column in (5, 30, 60):
                await pilot.mouse_up(offset=(column, row))
        assert session.answers == []
        assert isinstance(app.screen, RequestModal)


@pytest.mark.parametrize("scene", ["command_asked", "edit_asked", "trust"])
async def test_a_paste_never_answers_and_goes_to_the_draft(scene: str) -> None:
    app, session = app_for(scene)
    async with run_app(app) as pilot:
        app.post_message(events.Paste("a\ny\n1\n\x1b[13u"))
        await wait_for(pilot, lambda: "a\ny\n1\n" in app.prompt.text)
        await quiet(pilot)
        assert session.answers == []
        assert isinstance(app.screen, RequestModal)


@pytest.mark.parametrize("seed", sampled(range(4), 1))
@pytest.mark.parametrize("scene", ["command_asked", "edit_asked"])
async def test_a_reason_that_is_typed_on_at_once_is_the_reason_and_approves_nothing(scene: str, seed: int) -> None:
    reason = "as it was: A sad reason a s A"
    dice = random.Random(seed)
    app, session = app_for(scene)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal) and app.screen._acts("a"))
        for character in f"r{reason}\n":
            press(app, character)
            for _turn in range(dice.choice((0, 0, 0, 1, 2, 5)) if seed else 0):
                await asyncio.sleep(0)
        await wait_for(pilot, lambda: len(session.answers) == 1)
        await quiet(pilot)
        ((_request, answer),) = session.answers
        assert (answer.verdict, answer.text) == ("reject", reason)
