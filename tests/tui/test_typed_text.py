"""A key decides only when it stands alone (A9): a sentence that is typed into any dialog is text."""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot
from textual.screen import Screen

from tests.doubles.session import FakeSession
from tests.nightly import repetitions
from tests.tui.edits import edit_action, long_texts
from tests.tui.kit import FakeClock, app_for, run_app, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_grants import GRANTS
from tests.tui.test_undoing import FakeCheckpoints
from tui_agent import events as e
from tui_agent.common.domain import (
    Action,
    FolderTrustState,
    Grant,
    Harm,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.tui.app import TuiAgentApp
from widgets.checkpoints import CheckpointsPanel
from widgets.first_run import FirstRun
from widgets.grants_panel import GrantsPanel
from widgets.inputs import LineInput
from widgets.question import QuestionModal
from widgets.queue_panel import QueuePanel
from widgets.request_view import QUIET_SECONDS, KeyGuard
from widgets.trust_panel import TrustPanel

SENTENCES = ("look at what is here", "wait, that is odd", "a bad idea", "rather not", "aaaa", "extra: u b c t k x")
SEQUENCES = 10_000
"""How many random sequences are typed into all kinds of dialogs together, nightly."""
KEYS = "aAbcdeghijknopqrstuvwxJKN123459" + string.ascii_letters + string.digits + " .,;:!?'-/()"
"""Keys that act in one dialog or another are as likely as all others together."""
CRITICAL = RunAction(command="rm -rf ~/", cwd="/w", severity=Severity.CRITICAL, always_ask=True)
READING = ReadAction(path="/etc/hosts", display="/etc/hosts", outside=True)


def type_keys(app: TuiAgentApp, text: str, gaps: Sequence[float]) -> None:
    """Keys that the terminal sent `gaps` seconds after each other, the last one now."""
    ages = list(accumulate(reversed(gaps[1:]), initial=0.0))[::-1]
    for character, age in zip(text, ages, strict=True):
        key = events.Key({" ": "space", "\n": "enter"}.get(character, character), character)
        key.time -= age
        app.post_message(key)


def type_quickly(app: TuiAgentApp, text: str, gap: float = 0.1) -> None:
    type_keys(app, text, [gap] * len(text))


def random_sequence(dice: random.Random, *, breaks: bool) -> tuple[str, list[float]]:
    """Three to twelve characters, and the seconds before each."""
    characters = [dice.choice(KEYS) for _key in range(dice.randint(3, 12))]
    if characters[0] == "-":  # moves a queued message each time it is pressed
        characters[0] = "a"
    if breaks and dice.random() < 0.3:
        characters[dice.randrange(len(characters))] = "\n"
    pace = dice.choice([(0.02, 0.02), (0.2, 0.2), (0.02, 0.2)])
    return "".join(characters), [dice.uniform(*pace) for _key in characters]


class Kind(NamedTuple):
    """A dialog, and how it comes to be open."""

    scene: str = "answered"
    opens: Callable[[TuiAgentApp, FakeSession], object] = lambda app, session: None
    is_open: Callable[[TuiAgentApp], bool] = lambda app: bool(app.view.pending)
    keys: tuple[str, ...] = ()
    """Keys that lead on from the open dialog."""
    text: Callable[[TuiAgentApp], str] = lambda app: app.prompt.text
    """Where the typed text is."""
    expected: Callable[[str], str] = lambda typed: typed
    """What of it is compared."""
    sends: bool = False
    """Whether Enter sends what was typed, as it goes to a field that was opened for it."""


def ask(action: Action, harm: Harm | None = None) -> Callable[[TuiAgentApp, FakeSession], object]:
    event = e.ApprovalRequested(id="q1", action=action, digest="d", why="ask", harm=harm, grants=GRANTS_OFFERED)
    return lambda app, session: session.push(event)


def show(make: Callable[[FakeSession], Screen[Any]]) -> Callable[[TuiAgentApp, FakeSession], object]:
    return lambda app, session: app.push_screen(make(session))


def queue_messages(app: TuiAgentApp, session: FakeSession) -> None:
    for number in range(3):
        session.push(e.MessageQueued(id=f"q{number}", text=f"message {number}"))
    app.composer.show_queue()


def shows(kind: type[Screen[Any]]) -> Callable[[TuiAgentApp], bool]:
    return lambda app: isinstance(app.screen, kind)


def field_text(app: TuiAgentApp) -> str:
    return getattr(app.screen.focused, "value", "")


def draft_and_field_text(app: TuiAgentApp) -> str:
    """What was typed before and after keys were accepted."""
    return app.prompt.text + field_text(app)


def clear(app: TuiAgentApp) -> None:
    """Delete what was typed."""
    app.prompt.text = ""
    if isinstance(app.screen.focused, LineInput):
        app.screen.focused.value = ""


def in_any_order(text: str) -> str:
    """The characters: of keys that arrive in one moment, the first ones follow the way back to the composer."""
    return "".join(sorted(text))


def never(*_: object) -> None:
    raise AssertionError("it was decided")


GRANTS_OFFERED = (
    Grant(kind="edit", pattern="src/*.py", scope=Scope.SESSION),
    Grant(kind="edit", pattern="*.py", scope=Scope.ALWAYS),
)
FOLDERS = (FolderTrustState(folder="/w", trusted=True), FolderTrustState(folder="/v", trusted=False))
KINDS = {
    "command": Kind("command_asked"),
    "critical": Kind("answered", ask(CRITICAL, Harm(targets=("/home/ada",), files=3, word="ada"))),
    "edit": Kind("edit_asked"),
    "long edit": Kind("answered", ask(edit_action(*long_texts(600)))),
    "protected file": Kind("answered", ask(msgspec.structs.replace(edit_action(), protected=True))),
    "reading": Kind("answered", ask(READING)),
    "trust": Kind("trust"),
    "unsafe trust": Kind("answered", ask(TrustAction(folder="/home/ada", risks=("This is your home folder.",)))),
    "plan": Kind("plan_waits"),
    "question": Kind("question", text=field_text, sends=True),
    "summary": Kind("summary_waits"),
    "conflict": Kind("plan_conflict"),
    "first run": Kind("no_server", is_open=shows(FirstRun), text=draft_and_field_text, sends=True),
    "grants": Kind("answered", show(lambda session: GrantsPanel(GRANTS, never)), shows(GrantsPanel)),
    "trusted folders": Kind("answered", show(lambda session: TrustPanel(FOLDERS, never)), shows(TrustPanel)),
    "checkpoints": Kind(
        "answered", show(lambda session: CheckpointsPanel(FakeCheckpoints().listed(), never)), shows(CheckpointsPanel)
    ),
    "queue": Kind("answered", queue_messages, shows(QueuePanel)),
    "progress": Kind(
        "subagents_running",
        is_open=lambda app: not app.columns.progress.has_focus or bool(app.columns.progress.stoppable),
        keys=("f4", "end", "up"),
        sends=True,
    ),
    "plan panel": Kind(
        "plan",
        is_open=lambda app: True,
        keys=("f3",),
        text=lambda app: in_any_order(app.prompt.text),
        expected=in_any_order,
        sends=True,
    ),
}


async def opened(pilot: Pilot[int], kind: Kind, session: FakeSession, clock: FakeClock) -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    kind.opens(app, session)
    await wait_for(pilot, lambda: kind.is_open(app))
    await wait_until_rendered(pilot)
    clock.arm_dialogs()


async def lead_on(pilot: Pilot[int], kind: Kind) -> None:
    if kind.keys:
        await pilot.press(*kind.keys)
        await wait_until_idle(pilot)


def decisions(app: TuiAgentApp, session: FakeSession) -> list[object]:
    """All that a key could have decided."""
    return [
        *session.answers, *session.plans, *session.settlements, *session.subagents.stopped, *session.sent, *session.modes,
        *[event for event in session.records if isinstance(event.event, e.MessageWithdrawn | e.MessageChanged | e.MessageMoved)],
        *([session.interrupts] if session.interrupts else []), *([session.looks] if session.looks else []),
        *([session.queue.sends] if session.queue.sends else []), *([app.return_value] if app.return_value else []),
    ]  # fmt: skip


async def arrives(kind: Kind, app: TuiAgentApp, text: str) -> None:
    """Wait until what was typed is where it belongs, without painting."""
    for check in range(100_000):
        if kind.text(app) == kind.expected(text):
            return
        await asyncio.sleep(0 if check < 500 else 0.001)
    raise AssertionError(f"{text!r} became {kind.text(app)!r} on {app.screen!r}")


@pytest.mark.parametrize("count", repetitions(5, -(-SEQUENCES // len(KINDS))))
@pytest.mark.parametrize("name", KINDS)
async def test_text_typed_into_an_open_dialog_decides_nothing_and_is_the_draft(name: str, count: int) -> None:
    dice = random.Random(f"{name} 17")
    clock, kind = FakeClock(), KINDS[name]
    app, session = app_for(kind.scene, quiet_seconds=QUIET_SECONDS, clock=clock)
    session.grants.grants = list(GRANTS)
    texts = [(sentence, [0.1] * len(sentence)) for sentence in SENTENCES]
    texts += [random_sequence(dice, breaks=not kind.sends) for _sequence in range(count)]
    async with run_app(app) as pilot:
        await opened(pilot, kind, session, clock)
        for text, gaps in texts:
            await lead_on(pilot, kind)
            clock.arm_dialogs()
            type_keys(app, text, gaps)
            await arrives(kind, app, text)
            assert decisions(app, session) == [] and kind.is_open(app), text
            clear(app)
        await wait_until_idle(pilot)
        assert decisions(app, session) == [] and kind.is_open(app)


@pytest.mark.parametrize("name", ["command", "trust"])
async def test_a_key_that_stands_alone_is_shown_at_once_and_then_decides(name: str) -> None:
    clock = FakeClock()
    app, session = app_for(KINDS[name].scene, quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await opened(pilot, KINDS[name], session, clock)
        type_quickly(app, "a")
        await wait_for(pilot, lambda: getattr(app.screen, "held_key", None) is not None)
        assert session.answers == []
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert session.answers[0][1].verdict == "approve"


async def test_words_that_begin_with_the_number_of_an_option_are_the_answer() -> None:
    clock = FakeClock()
    app, session = app_for("question", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, QuestionModal))
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


@pytest.mark.parametrize("scene", ["plan_waits", "summary_waits", "command_asked"])
async def test_backspace_in_a_request_corrects_the_draft(scene: str) -> None:
    app, session = app_for(scene)
    async with run_app(app, (100, 40)) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, KeyGuard) or app.dialogs.dock.panel is not None)
        await wait_until_idle(pilot)
        await pilot.press(*"hz")
        await wait_for(pilot, lambda: app.prompt.text == "hz")
        await pilot.press("backspace")
        await wait_for(pilot, lambda: app.prompt.text == "h")
        await pilot.press("backspace", "backspace")
        await wait_for(pilot, lambda: app.prompt.text == "")
        assert not session.answers
