from __future__ import annotations

from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import FolderTrustState, TrustAction, action_digest
from tui_agent.tui.app import TuiAgentApp
from widgets.trust_panel import TrustPanel

FOLDERS = [
    FolderTrustState(
        folder="/home/ada/exporter",
        trusted=True,
        since="2026-01-05T09:00:00+00:00",
        through="/home/ada",
        contents=("AGENTS.md: rules that the model follows", ".git: the model gets branch and changed files"),
    ),
    FolderTrustState(folder="/home/ada", trusted=False, risks=("This is your home folder.",)),
]


def with_folders() -> tuple[TuiAgentApp, FakeSession]:
    app, session = app_for("answered")
    session.trust.folders = list(FOLDERS)
    return app, session


async def opened(pilot: Pilot[int]) -> None:
    await pilot.press(*"/trust", "enter")
    await wait_for(pilot, lambda: isinstance(pilot.app.screen, TrustPanel))
    await pilot.pause()


async def test_it_shows_what_trust_allows_and_since_when() -> None:
    app, _session = with_folders()
    async with run_app(app) as pilot:
        await opened(pilot)
        text = screen_text(app)
        for part in ("trusted since 2026-01-05", "through /home/ada", "• AGENTS.md", "not trusted", "your home folder"):
            assert part in text


async def test_trust_is_revoked_and_given_by_their_keys_alone() -> None:
    app, session = with_folders()
    async with run_app(app) as pilot:
        await opened(pilot)
        await pilot.press("t", "a", "y")
        assert session.trust.done == []
        await pilot.press("x")
        await wait_for(pilot, lambda: session.trust.done == [("revoke", "/home/ada/exporter")])
        await opened(pilot)
        await pilot.press("down", "x", "t")
        await wait_for(pilot, lambda: session.trust.done[1:] == [("ask", "/home/ada")])


def test_picture(snap_compare) -> None:
    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await opened(pilot)

    assert snap_compare(with_folders()[0], terminal_size=(80, 24), run_before=show)


async def test_the_question_about_an_unsafe_folder_begins_with_no() -> None:
    app, session = app_for("answered")
    action = TrustAction(folder="/home/ada", risks=("This is your home folder.",))
    async with run_app(app) as pilot:
        session.push(e.ApprovalRequested(id="t9", action=action, digest=action_digest(action), why=""))
        await wait_for(pilot, lambda: "This is your home folder." in screen_text(app))
        text = screen_text(app)
        assert "Nothing in it is read and followed yet" in text and "asked about on their own" in text
        assert text.index("don't trust it") < text.index("trust it all the same")


async def test_the_key_never_leaves_read_only_in_a_folder_that_is_not_trusted() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        session.push(e.TrustChanged(trusted=False))
        session.push(e.ModeChanged(mode="direct", approval_mode="read-only"))
        await wait_for(pilot, lambda: not app.view.trusted and app.view.approval_mode == "read-only")
        await pilot.press("shift+tab")
        await wait_for(pilot, lambda: "not trusted · /trust trusts it" in screen_text(app))
        assert session.modes == []
        await pilot.press(*"/approvals ask", "enter")
        await wait_for(pilot, lambda: session.modes == [(None, "ask")])
        await wait_for(pilot, lambda: "ask: this folder is still not trusted" in screen_text(app))
