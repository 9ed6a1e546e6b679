"""Every dialog that asks for consent, in every state, for pictures of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.scenes import build
from tests.tui.edits import NEW, OLD, TOKEN, approval_records, edit_action, edit_app, long_texts
from tests.tui.kit import FakeClock, app_for, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Grant, Harm, ReadAction, RunAction, Severity, TrustAction
from tui_agent.text import SecretMask
from tui_agent.tui.app import TuiAgentApp
from widgets.request_view import QUIET_SECONDS, RequestModal

MASK = SecretMask({"GITHUB_TOKEN": TOKEN})
SECRET = edit_action(OLD, NEW.replace('"json":', f'"{TOKEN}":'))
READING = ReadAction(path="/home/ada/.aws/credentials", display="~/.aws/credentials", outside=True, credentials=True)
WITH_SECRET = RunAction(
    command=f"curl -H 'Authorization: Bearer {TOKEN}' https://api.example.org/repos",
    cwd="/home/ada/exporter",
    severity=Severity.HIGH,
    reasons=("reaches another machine",),
    always_ask=True,
)
Made = tuple[TuiAgentApp, FakeSession]


class State(NamedTuple):
    """How to come to it."""

    make: Callable[[str], Made]
    """Theme → app."""
    keys: tuple[str, ...] = ()
    void: bool = False
    armed: bool = True


def _edit(*arguments: object, **more: object) -> Callable[[str], Made]:
    return lambda theme: edit_app(*arguments, theme=theme, **more)  # type: ignore[arg-type]  # its own


def _scene(name: str) -> Callable[[str], Made]:
    return lambda theme: app_for(name, theme=theme)


def _masked(theme: str) -> Made:
    app, session = app_for(approval_records(WITH_SECRET), theme=theme)
    session.mask = MASK
    return app, session


def _granted(theme: str) -> Made:
    app, session = app_for("answered", theme=theme)
    session.grants.grants = [*build.TEST_GRANTS, Grant(kind="edit", pattern="src/*.py")]
    return app, session


def _critical(theme: str) -> Made:
    wipe = RunAction(
        command="rm -rf src tests docs && git push --force origin main",
        cwd="/home/ada/exporter",
        severity=Severity.CRITICAL,
        reasons=(
            "Deletes 3 folders of the workspace: src, tests, docs",
            "Overwrites the history of a remote repository",
        ),
        always_ask=True,
    )
    folders = tuple(f"/home/ada/exporter/{name}" for name in ("src", "tests", "docs"))
    harm = Harm(targets=folders, files=12_000, bytes=3_400_000_000, complete=False, word="run it")
    app, session = app_for("answered", theme=theme)
    session.push(e.ApprovalRequested(id="q1", action=wipe, digest="d", why="Critical commands always ask", harm=harm))
    return app, session


def _choices(theme: str) -> Made:
    text = "src/export.py: it has changed since. What should be done with it?\n+indent = 2"
    options = ("Leave it unchanged", "Revert the agent's change, keep the rest", "Restore it anyway")
    app, session = app_for("answered", theme=theme)
    session.push(e.QuestionAsked(id="q1", question=text, options=options, otherwise="leaves the file unchanged"))
    return app, session


UNSAFE = TrustAction(
    folder="/home/ada", contents=("AGENTS.md: rules that the model follows",), risks=("This is your home folder.",)
)
STATES: dict[str, State] = {
    "hunks": State(_edit()),
    "waits": State(lambda theme: edit_app(theme=theme, quiet_seconds=QUIET_SECONDS, clock=FakeClock()), armed=False),
    "second-hunk": State(_edit(), ("n",)),
    "left-out": State(_edit(), ("x",)),
    "all-left-out": State(_edit(), ("x", "n", "x")),
    "beside": State(_edit(), ("v",)),
    "beside-left-out": State(_edit(), ("v", "n", "x")),
    "typing": State(_edit(), ("n", "e", *"# new", "enter")),
    "edited": State(_edit(), ("n", "e", *"# new", "enter", "ctrl+s")),
    "void": State(_edit(), void=True),
    "reason": State(_edit(), ("r", *"too clever")),
    "new-file": State(_edit(edit_action(None, NEW))),
    "long": State(_edit(edit_action(*long_texts(400)))),
    "secret": State(_edit(SECRET, mask=MASK)),
    "secret-shown": State(_edit(SECRET, mask=MASK), ("u",)),
    "command": State(_scene("command_asked")),
    "critical": State(_critical),
    "critical-word": State(_critical, (*["pagedown"] * 3, "a", *"run")),
    "unread": State(_edit(edit_action(*long_texts(1_400))), ("a",)),
    "hostile": State(_scene("command_hostile")),
    "command-secret": State(_masked),
    "reading": State(lambda theme: app_for(approval_records(READING), theme=theme)),
    "trust": State(_scene("trust")),
    "trust-unsafe": State(lambda theme: app_for(approval_records(UNSAFE), theme=theme)),
    "question": State(_scene("question")),
    "choices": State(_choices),
    "conflict": State(_scene("plan_conflict")),
    "grants": State(_granted, (*"/grants", "enter", "down")),
}


def comer(state: State, session: FakeSession) -> Callable[[Pilot[int]], object]:
    """What brings the app into its state."""

    async def come(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        app = pilot.app
        assert isinstance(app, TuiAgentApp)
        if app.view.pending and state.armed:
            await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        if state.void:
            session.push(e.ApprovalVoided(id="q1", reason="changed on disk"))
            await wait_until_rendered(pilot)
        for key in state.keys:
            await pilot.press(key)
            if key == "e":
                await wait_until_idle(pilot)
        await wait_until_idle(pilot)

    return come
