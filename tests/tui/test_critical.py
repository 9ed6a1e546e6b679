"""A critical command is told apart, counted, and approved by a word only; what was not in sight is not approved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.edits import approval_records, edit_action, edit_app, long_texts
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Grant, Harm, RunAction, Scope, Severity
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.edit_modal import EditModal
from widgets.request_view import QUIET_SECONDS

WIPE = RunAction(
    command="rm -rf ~/",
    cwd="/home/ada/exporter",
    severity=Severity.CRITICAL,
    reasons=("Deletes a home folder: ~/",),
    always_ask=True,
)
HARM = Harm(targets=("/home/ada",), files=12_000, bytes=3_400_000_000, complete=False, word="ada")
GRANT = Grant(kind="run", pattern="rm -rf ~/", scope=Scope.SESSION)


def ask(session: FakeSession, action: RunAction = WIPE, harm: Harm | None = HARM) -> None:
    session.push(
        e.ApprovalRequested(id="q1", action=action, digest="d", why="always asks", grants=(GRANT,), harm=harm),
        node="c1",
        run="run1",
    )


def dialog(app: TuiAgentApp) -> ApprovalModal:
    assert isinstance(app.screen, ApprovalModal)
    return app.screen


async def ready(pilot: Pilot[int], seen: Callable[[], bool] = lambda: True) -> None:
    app = pilot.app
    await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal) and app.screen.armed and seen())
    await wait_until_idle(pilot)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
async def test_the_dialog_says_what_is_lost_and_puts_rejecting_first(size: tuple[int, int]) -> None:
    app, session = app_for("answered")
    async with run_app(app, size) as pilot:
        ask(session)
        await ready(pilot)
        text = screen_text(app)
        assert "CRITICAL" in text and "at least 12,000 files, 3.4 GB" in text and "Not sandboxed" in text
        assert "for this session" not in text
        if size != (60, 16):
            assert text.index("reject, with a reason") < text.index("approve, by typing a word")


async def test_one_key_approves_nothing_and_the_word_does() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        ask(session)
        await ready(pilot, lambda: not dialog(app).unseen())
        for key in ("s", "A", "space"):
            await pilot.press(key)
        await pilot.press("a")
        await wait_for(pilot, lambda: dialog(app).typing_word and dialog(app).focused is dialog(app).word)
        assert 'Type "ada" to run this command.' in screen_text(app)
        for wrong in ("", "adam", "yes"):
            dialog(app).word.value = ""
            await pilot.press(*wrong, "enter")
            await wait_until_idle(pilot)
            assert dialog(app).word.value == wrong
            assert 'not the word. Type "ada" exactly to run this command.' in screen_text(app)
        assert session.answers == []
        dialog(app).word.value = ""
        await pilot.press(*"ada", "enter")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert (session.answers[0][1].verdict, session.answers[0][1].scope) == ("approve", Scope.ONCE)


async def test_enter_opens_the_reason_for_rejecting() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        ask(session)
        await ready(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: dialog(app).focused is dialog(app).reason)
        await pilot.press(*"no", "enter")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert (session.answers[0][1].verdict, session.answers[0][1].text) == ("reject", "no")


async def test_at_60_by_16_changed_lines_are_in_sight_and_the_key_says_what_is_missing() -> None:
    app, session = edit_app()
    async with run_app(app, (60, 16)) as pilot:
        await ready(pilot)
        assert '"""Exports rows' in screen_text(app)
        await pilot.press("a")
        await wait_until_idle(pilot)
        assert session.answers == [] and "changed lines not seen yet" in screen_text(app)


async def test_a_jump_to_the_end_does_not_count_as_having_seen_the_rest() -> None:
    app, session = edit_app(edit_action(*long_texts(40)))
    async with run_app(app, (80, 24)) as pilot:
        await ready(pilot)
        assert isinstance(app.screen, EditModal)
        modal = app.screen
        await pilot.press("end")
        await wait_until_idle(pilot)
        await pilot.press("a")
        await wait_until_idle(pilot)
        assert session.answers == [] and modal.unseen()
        await pilot.press("home")
        await wait_until_idle(pilot)
        while modal.unseen():
            await pilot.press("pagedown")
            await wait_until_idle(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: len(session.answers) == 1)


async def test_the_part_that_was_seen_can_be_accepted_alone() -> None:
    app, session = edit_app()
    async with run_app(app, (60, 16)) as pilot:
        await ready(pilot)
        assert isinstance(app.screen, EditModal)
        modal = app.screen
        while modal.body.unseen({0}):
            await pilot.press("down")
            await wait_until_idle(pilot)
        assert modal.unseen()
        await pilot.press("o", "a")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert session.answers[0][1].data == {"hunks": [0], "edits": {}}


async def test_a_huge_diff_can_be_approved_unread_by_a_word() -> None:
    app, session = edit_app(edit_action(*long_texts(1_400)))
    async with run_app(app, (80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: dialog(app).focused is dialog(app).word)
        assert session.answers == []
        await pilot.press(*"unread", "enter")
        await wait_for(pilot, lambda: len(session.answers) == 1)


async def test_all_of_a_long_command_must_have_been_in_sight() -> None:
    script = RunAction(command="\n".join(f"echo {number}" for number in range(100)), cwd="/w")
    app, session = app_for("answered")
    async with run_app(app, (80, 24)) as pilot:
        ask(session, script, None)
        await ready(pilot)
        await pilot.press("end")
        await wait_until_idle(pilot)
        await pilot.press("a")
        await wait_until_idle(pilot)
        assert session.answers == [] and "lines not seen yet" in screen_text(app)


async def test_a_run_whose_critical_command_was_rejected_does_not_say_done() -> None:
    app, session = app_for("command_asked")
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        request = next(iter(app.view.pending.values()))
        request.harm, request.action = HARM, WIPE
        assert request.node
        await ready(pilot)
        await pilot.press("r")
        await wait_for(pilot, lambda: dialog(app).focused is dialog(app).reason)
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        session.push(e.ApprovalAnswered(id=request.id, answer=session.answers[0][1]), node=request.node)
        session.push(e.RunEnded(outcome="done", text="", tool_calls=1), run=app.view.run)
        await wait_for(pilot, lambda: "was rejected and did not run" in screen_text(app))
        assert "Done" not in screen_text(app)


@pytest.mark.parametrize("size", [(60, 16), (80, 24)], ids=str)
async def test_the_key_for_approving_shows_what_was_not_seen_until_nothing_is_left(size: tuple[int, int]) -> None:
    """Of commands and edits, also after a burst of page keys, and of rows that are higher than the dialog."""
    script = RunAction(command="\n".join(f"echo {number} " + "x" * 90 for number in range(20)), cwd="/w")
    wide = edit_action(None, "one\n" + "y" * 2_000 + "\nthree\n")
    for action in (script, edit_action(*long_texts(40)), wide):
        app, session = app_for(approval_records(action))
        async with run_app(app, size) as pilot:
            await ready(pilot)
            assert "show the rest" in screen_text(app) and "not seen yet" in screen_text(app)
            await pilot.press(*["pagedown"] * 12)
            await wait_until_idle(pilot)
            for _press in range(200):
                if not dialog(app).unseen():
                    break
                await pilot.press("a")
                await wait_until_idle(pilot)
                assert session.answers == [] and app.prompt.text == ""
            await pilot.press("a")
            await wait_for(pilot, lambda: len(session.answers) == 1)  # noqa: B023  # awaited in the same round


async def test_a_key_pressed_twice_does_not_approve_what_the_first_press_showed() -> None:
    clock = FakeClock()
    app, session = app_for(approval_records(edit_action(*long_texts(12))), quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app, (80, 24)) as pilot:
        clock.arm_dialogs()
        await ready(pilot)
        while dialog(app).unseen():
            dialog(app).process_key(events.Key("a", "a"))
            await wait_until_idle(pilot)
        clock.now += QUIET_SECONDS / 2
        dialog(app).process_key(events.Key("a", "a"))
        assert session.answers == [] and app.prompt.text == ""
        clock.now += QUIET_SECONDS
        dialog(app).process_key(events.Key("a", "a"))
        await wait_for(pilot, lambda: len(session.answers) == 1)
