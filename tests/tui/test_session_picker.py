from __future__ import annotations

import shutil
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.doubles.session import FakeSession
from tests.scenes import build
from tests.tui.kit import run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.shelf import DAY, OWN_ID, other_folder, sample_sessions, saved_session, session_app
from tui_agent.common import paths
from tui_agent.storage import catalog
from tui_agent.text import file_size
from tui_agent.tui import commands
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.exit_codes import CONTINUE, ContinueIn
from tui_agent.tui.session_browser import pick_session, session_age
from widgets.approval_modal import ApprovalModal
from widgets.line_view import ListView
from widgets.session_picker import SessionPicker


def picker(app: TuiAgentApp) -> SessionPicker:
    assert isinstance(app.screen, SessionPicker)
    return app.screen


def titles(app: TuiAgentApp) -> list[str]:
    return [row.title for rows in app.screen.query(ListView) for row in rows.rows]


def chosen(app: TuiAgentApp) -> str:
    row = picker(app).current
    return row.id if row is not None else ""


async def opened(pilot: Pilot[int], command: str = "sessions") -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await pilot.press(*f"/{command}", "enter")
    await wait_for(pilot, lambda: isinstance(app.screen, SessionPicker) and app.screen.rows is not None)
    await wait_until_idle(pilot)


async def told(pilot: Pilot[int], text: str) -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await wait_for(pilot, lambda: text in " ".join(screen_text(app).split()))


async def test_titles_are_filtered_at_once_and_what_was_said_joins_them() -> None:
    app, _session, now = session_app()
    names = sample_sessions(now)
    async with run_app(app) as pilot:
        await opened(pilot, "resume csv")
        assert titles(app)[0] == "Export the table as CSV"
        await pilot.press("ctrl+u")
        await wait_until_idle(pilot)
        assert titles(app) == [
            "Explain the exporter",
            "Export the table as CSV",
            "Find out why the import crashes",
            "Review the new date parser",
            "",
        ]
        text = screen_text(app)
        for part in ("this one", "2 hours ago", "yesterday", "3 days ago", "(no messages)", "Sessions of this"):
            assert part in text
        await pilot.press("down", "down")
        await told(pilot, "› it crashes on a file from Windows")
        assert chosen(app) == names["crash"].path.name
        assert "~/work/exporter" in screen_text(app)
        assert "1.2 MB" in screen_text(app)

        await pilot.press(*"semico")
        await wait_for(pilot, lambda: titles(app) == ["Export the table as CSV"])
        await told(pilot, "quote cells that hold a semicolon")
        await pilot.press("ctrl+u", *"cs")
        await wait_for(pilot, lambda: titles(app) == ["Export the table as CSV"])
        await pilot.press("v", "tab")
        await wait_for(pilot, lambda: titles(app) == ["Export the table as CSV", "Colours of the landing page"])
        await told(pilot, "table of prices is a CSV now")
        await pilot.press("down", "tab", "tab", "end", "home", "pagedown")
        assert chosen(app) == names["site"].path.name
        assert "~/work/site" in screen_text(app)
        await pilot.press(*" zz")
        await told(pilot, "Nothing found.")
        await pilot.press("enter", "f2", "f4", "f8", "ctrl+c")
        await wait_for(pilot, lambda: not isinstance(app.screen, SessionPicker))
        assert app.return_value is None


async def test_the_chosen_one_is_gone_on_with_and_what_cannot_be_is_said() -> None:
    app, _session, now = session_app("streaming")
    names = sample_sessions(now)
    shutil.rmtree(other_folder())
    async with run_app(app) as pilot:
        await opened(pilot)
        await pilot.press("tab", *"rev", "enter")
        await told(pilot, "Another process has it open")
        await pilot.press("ctrl+u", *"col", "enter")
        await told(pilot, "Its folder is gone: ~/work/site")
        await pilot.press("ctrl+u", *"tabl", "enter")
        await told(pilot, "A run is in progress here. Enter again")
        await pilot.press("down", "up", "enter")  # another key: asked anew
        await told(pilot, "A run is in progress here. Enter again")
        assert app.return_value is None
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.return_value == CONTINUE)
        assert app.next_session == ContinueIn(names["csv"].path.name, same_folder=True)


async def test_titles_are_given_copies_made_and_sessions_deleted() -> None:
    app, session, now = session_app()
    names = sample_sessions(now)
    async with run_app(app) as pilot:
        await opened(pilot)
        await pilot.press("down", "f2", "ctrl+u", *"New", "enter")
        await wait_for(pilot, lambda: "New" in titles(app))
        assert chosen(app) == names["csv"].path.name
        assert catalog.read_entry(names["csv"].path).title == "New"
        await pilot.press("f2", "x", "escape", "f4")
        await told(pilot, "This is the fork. Enter opens it.")
        copied = chosen(app)
        assert catalog.read_entry(paths.sessions_dir() / copied).parent == names["csv"].path.name

        await pilot.press("f8")
        await told(pilot, "F8 again deletes")
        await pilot.press("left", "f8")  # another key: asked anew
        await told(pilot, "F8 again deletes")
        assert (paths.sessions_dir() / copied).exists()
        await pilot.press("f8")
        await wait_for(pilot, lambda: not (paths.sessions_dir() / copied).exists() and len(titles(app)) == 5)
        await wait_until_idle(pilot)
        await pilot.press(*"expl", "f8")
        await told(pilot, "open can't be deleted")
        await pilot.press("enter")  # the one that is on the screen
        await wait_for(pilot, lambda: not isinstance(app.screen, SessionPicker))
        assert session.closed == ""

        await pilot.press(*"/rename", "enter")
        await told(pilot, "/rename needs the new title")
        await pilot.press(*"/fork", "enter")
        await wait_for(pilot, lambda: app.return_value == CONTINUE)
        assert app.next_session is not None
        assert app.next_session.same_folder
        assert catalog.read_entry(paths.sessions_dir() / app.next_session.id).parent == OWN_ID


async def test_nothing_of_a_session_is_markup_or_control() -> None:
    app, _session, now = session_app()
    hostile = "[red]x[/] \x1b[2J\x1b]0;t\x07 \u202eabc\u200b \r\n[@click=app.exit]y[/]"
    token = "sk-ant-api03-" + "Zk3vQ9x7Lm2Np8Rt4Wy6Ub1Ds5Gh0Jf" * 2
    for number in range(20):
        saved_session(f"{hostile} {number} " + "long " * 40, (hostile, f"{hostile} {token}"), ago=DAY + number, now=now)
    async with run_app(app, (120, 30)) as pilot:
        await opened(pilot)
        await told(pilot, "[red]x[/]")
        for size in ((40, 10), (100, 12), (60, 40), (1, 1), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.press("end", "shift+up", "x", "backspace")
            await wait_until_idle(pilot)
        await told(pilot, "<U+202E>")
        text = screen_text(app)
        assert not any((ord(one) < 32 and one != "\n") or 0x7F <= ord(one) < 0xA0 for one in text)
        assert "\u202e" not in text
        assert token[:30] not in text
        await pilot.press("f2")
        assert app.screen.query_one(Input).value.isprintable()


async def test_the_first_session_is_picked_and_opened_on_the_same_screen() -> None:
    _, session, now = session_app()
    names = sample_sessions(now)
    asked: list[str] = []

    async def open_chosen(id: str) -> FakeSession:
        asked.append(id)
        return session

    app: TuiAgentApp = TuiAgentApp(lambda: pick_session(app, open_chosen, str(other_folder())), now=lambda: now)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, SessionPicker) and bool(titles(app)))
        assert titles(app) == ["Colours of the landing page"]
        await pilot.press("tab", *"crashes", "enter")
        await wait_for(pilot, lambda: app.session is session and not isinstance(app.screen, SessionPicker))
        assert asked == [names["crash"].path.name]
        app.exit(0)

    again: TuiAgentApp = TuiAgentApp(lambda: pick_session(again, open_chosen, ""), now=lambda: now)
    async with again.run_test(size=(100, 30)) as pilot:
        await wait_for(pilot, lambda: isinstance(again.screen, SessionPicker))
        await pilot.press("escape")
        await wait_for(pilot, lambda: again.return_value == 0)
    assert len(asked) == 1


async def test_a_fork_stops_the_run_only_when_that_was_said() -> None:
    app, session, now = session_app("streaming")
    sample_sessions(now)
    async with run_app(app) as pilot:
        commands.execute_command(app, "fork", "")
        await told(pilot, "/fork now stops it")
        assert session.interrupts == 0
        commands.execute_command(app, "fork", "now")
        await wait_for(pilot, lambda: app.return_value == CONTINUE)
        assert session.interrupts == 1 and session.stopped_at_once


async def test_a_request_closes_the_picker() -> None:
    app, session, now = session_app()
    sample_sessions(now)
    request = next(one.event for one in build.trust().records if one.event.type == "approval.asked")
    async with run_app(app) as pilot:
        await opened(pilot)
        session.push(request)
        await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal))


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3600, "1 hour ago"),
        (7200, "2 hours ago"),
        (DAY, "yesterday"),
        (13 * DAY, "13 days ago"),
        (20 * DAY, "13 May"),
        (200 * DAY, "14 Nov 2025"),
    ],
)
def test_ages(passed: float, words: str) -> None:
    now = 1780401600.0  # 2026-06-02
    assert session_age(now - passed, now) == words


def test_sizes() -> None:
    assert [file_size(one) for one in (0, 999, 1000, 12_340, 999_600, 25_000_000, 3 * 10**12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12 kB",
        "1.0 MB",
        "25 MB",
        "3000 GB",
    ]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
def test_pictures(size: tuple[int, int], snap_compare: Any) -> None:
    app, _session, now = session_app()
    names = sample_sessions(now)

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await opened(pilot)
        await pilot.press("tab", *"csv")
        await wait_for(pilot, lambda: len(titles(app)) == 2)
        await pilot.press("ctrl+u")
        await wait_until_idle(pilot)
        await pilot.press("down")
        await wait_for(pilot, lambda: chosen(app) == names["csv"].path.name)
        await told(pilot, "updated the guide")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)
