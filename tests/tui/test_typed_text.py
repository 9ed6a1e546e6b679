"""A key decides only when it stands alone (A9): a sentence that is typed into any dialog is text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import FakeClock, app_for, run_app, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_grants import GRANTS
from tests.tui.test_undoing import FakeCheckpoints
from tui_agent import events as e
from tui_agent.common.domain import RunAction, Severity
from tui_agent.tui.app import TuiAgentApp
from widgets.checkpoints import CheckpointsPanel
from widgets.grants_panel import GrantsPanel
from widgets.request_view import QUIET_SECONDS

SENTENCES = ("look at what is here", "wait, that is odd", "a bad idea", "rather not", "aaaa", "extra: u b c t k x")
CRITICAL = RunAction(command="rm -rf ~/", cwd="/w", severity=Severity.CRITICAL, always_ask=True)


def type_quickly(app: TuiAgentApp, text: str, gap: float = 0.1) -> None:
    """Keys that the terminal sent `gap` seconds apart, the last one now."""
    for place, character in enumerate(text, start=1):
        key = events.Key({" ": "space", "\n": "enter"}.get(character, character), character)
        key.time -= (len(text) - place) * gap
        app.post_message(key)


class Kind(NamedTuple):
    """A dialog, and how it comes to be open."""

    scene: str = "answered"
    opens: Callable[[TuiAgentApp, FakeSession], object] = lambda app, session: None
    is_open: Callable[[TuiAgentApp], bool] = lambda app: bool(app.view.pending)


def ask(action: RunAction) -> Callable[[TuiAgentApp, FakeSession], object]:
    event = e.ApprovalRequested(id="q1", action=action, digest="d", why="ask")
    return lambda app, session: session.push(event)


def open_grants(app: TuiAgentApp, session: FakeSession) -> None:
    app.push_screen(GrantsPanel(GRANTS, session.grants.revoked.append))


def open_checkpoints(app: TuiAgentApp, session: FakeSession) -> None:
    def chosen(action: str, run: str) -> None:
        raise AssertionError(f"{action} {run}")

    app.push_screen(CheckpointsPanel(FakeCheckpoints().listed(), chosen))


KINDS = {
    "command": Kind("command_asked"),
    "critical": Kind("answered", ask(CRITICAL)),
    "edit": Kind("edit_asked"),
    "trust": Kind("trust"),
    "plan": Kind("plan_waits"),
    "summary": Kind("summary_waits"),
    "conflict": Kind("plan_conflict"),
    "grants": Kind("answered", open_grants, lambda app: isinstance(app.screen, GrantsPanel)),
    "checkpoints": Kind("answered", open_checkpoints, lambda app: isinstance(app.screen, CheckpointsPanel)),
}


async def opened(pilot: Pilot[int], kind: Kind, session: FakeSession) -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    kind.opens(app, session)
    await wait_for(pilot, lambda: kind.is_open(app))
    await wait_until_rendered(pilot)


@pytest.mark.parametrize("name", KINDS)
async def test_a_sentence_typed_into_an_open_dialog_decides_nothing_and_is_the_draft(name: str) -> None:
    clock, kind = FakeClock(), KINDS[name]
    app, session = app_for(kind.scene, quiet_seconds=QUIET_SECONDS, clock=clock)
    session.grants.grants = list(GRANTS)
    async with run_app(app) as pilot:
        await opened(pilot, kind, session)
        typed = ""
        for sentence in SENTENCES:
            clock.arm_dialogs()
            type_quickly(app, sentence)
            typed += sentence
            await wait_for(pilot, lambda: app.prompt.text == typed)  # noqa: B023  # awaited in the same round
        await wait_until_idle(pilot)
        assert session.answers == [] and session.interrupts == 0 and session.grants.revoked == []
        assert kind.is_open(app)


@pytest.mark.parametrize("name", ["command", "trust"])
async def test_a_key_that_stands_alone_is_shown_at_once_and_then_decides(name: str) -> None:
    clock = FakeClock()
    app, session = app_for(KINDS[name].scene, quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await opened(pilot, KINDS[name], session)
        clock.arm_dialogs()
        type_quickly(app, "a")
        await wait_for(pilot, lambda: getattr(app.screen, "held_key", None) is not None)
        assert session.answers == []
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert session.answers[0][1].verdict == "approve"


async def test_words_that_begin_with_the_number_of_an_option_are_the_answer() -> None:
    clock = FakeClock()
    app, session = app_for("question", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        clock.arm_dialogs()
        await wait_for(pilot, lambda: app.screen.focused is not None)
        type_quickly(app, "1 of them, not 2")
        await wait_for(pilot, lambda: getattr(app.screen.focused, "value", "") == "1 of them, not 2")
        assert session.answers == []
        clock.arm_dialogs()
        type_quickly(app, "\n")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert session.answers[0][1].text == "1 of them, not 2"
