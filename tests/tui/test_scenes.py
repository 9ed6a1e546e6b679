from __future__ import annotations

from itertools import count

import pytest
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.nightly import SCREEN_FORMATS, ScreenFormat, crossed, sampled
from tests.scenes import FOLDER, build, load, names
from tests.tui.kit import (
    app_for,
    run_app,
    screen_text,
    wait_for,
    wait_for_records,
    wait_until_idle,
    wait_until_rendered,
)
from tui_agent.common.domain import ApprovalMode
from tui_agent.tui.app import TuiAgentApp
from widgets.request_view import RequestModal

POSTERS = ("empty", "answered", "edit_asked", "command_asked", "tests_ok", "question")
ELSEWHERE = (
    "stages",
    "no_server",
    *(make.__name__ for make in build.PLANS),
    *build.WORKFLOW,
    *build.WINDOWS,
    *build.SUBAGENTS,
)
"""Scenes whose snapshots are those of another module."""
STATES = tuple(name for name in build.SCENES if name not in (*POSTERS, *ELSEWHERE))


def test_scenes_are_what_the_builder_writes() -> None:
    assert names() == sorted(build.SCENES)
    for name, make in build.SCENES.items():
        assert (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8") == build.lines(make()), name


async def shown(pilot: Pilot[int]) -> None:
    await wait_until_rendered(pilot)
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    if app.view.pending:
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_until_idle(pilot)


@pytest.mark.parametrize(("scene", "look"), crossed(POSTERS, SCREEN_FORMATS, whole=("edit_asked", "command_asked")))
def test_poster(scene: str, look: ScreenFormat, snap_compare) -> None:
    size, theme = look
    app, _session = app_for(scene, theme=theme)
    assert snap_compare(app, terminal_size=size, run_before=shown)


@pytest.mark.parametrize("scene", STATES)
def test_state(scene: str, snap_compare) -> None:
    app, _session = app_for(scene)
    assert snap_compare(app, terminal_size=(100, 30), run_before=shown)


@pytest.mark.parametrize("scene", ["edit_asked", "command_hostile", "answered"])
def test_small(scene: str, snap_compare) -> None:
    app, _session = app_for(scene)
    assert snap_compare(app, terminal_size=(60, 20), run_before=shown)


def test_starting(snap_compare) -> None:
    async def never() -> FakeSession:
        import asyncio

        await asyncio.Event().wait()
        raise AssertionError

    assert snap_compare(TuiAgentApp(never), terminal_size=(80, 24))


@pytest.mark.parametrize(
    ("name", "scene", "keys"),
    [
        ("details", "tests_ok", ("ctrl+o",)),
        ("scrolled-up", "tests_ok", ("pageup",)),
        ("draft", "streaming", (*"and then", "ctrl+j", *"write a test")),
        ("quit-armed", "answered", ("ctrl+c",)),
        ("reason", "edit_asked", ("r", *"too clever")),
        ("end-of-diff", "edit_asked", ("end",)),
        ("own-answer", "question", tuple("lines please")),
    ],
)
def test_after_keys(name: str, scene: str, keys: tuple[str, ...], snap_compare) -> None:
    app, _session = app_for(scene)

    async def press(pilot: Pilot[int]) -> None:
        await shown(pilot)
        await pilot.press(*keys)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=press)


@pytest.mark.parametrize("scene", sampled(sorted(build.SCENES), POSTERS))
async def test_live_and_replayed_screens_are_equal(scene: str) -> None:
    replayed, _session = app_for(scene)
    async with run_app(replayed, (90, 30)):
        expected = screen_text(replayed)

    records = load(scene)
    live, session = app_for(scene, clock=map(float, count()).__next__)  # every look at it, a second is gone
    session.records = []
    async with live.run_test(size=(90, 30)) as pilot:
        for record in records:
            session.records.append(record)
            session.wake()
            await wait_for_records(pilot)
        await wait_until_rendered(pilot)
        assert screen_text(live) == expected
        live.exit(0)


async def test_the_first_paint_does_not_wait_for_the_session() -> None:
    import asyncio

    gate = asyncio.Event()
    session = FakeSession(load("answered"))

    async def slow() -> FakeSession:
        await gate.wait()
        return session

    app = TuiAgentApp(slow)
    async with app.run_test() as pilot:
        assert "starting" in screen_text(app)
        await pilot.press(*"hello", "enter")
        gate.set()
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: session.sent == [("hello", False)])
        assert "starting" not in screen_text(app)
        app.exit(0)


async def test_every_size_is_survived() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app) as pilot:
        for size in ((1, 1), (2, 2), (10, 3), (500, 200), (40, 10), (80, 24)):
            await pilot.resize_terminal(*size)
            await wait_until_idle(pilot)
        assert "three tests pass" in screen_text(app)


async def test_the_approval_mode_is_always_visible() -> None:
    for mode in ApprovalMode:
        app, session = app_for(build.empty().records)
        async with run_app(app, (60, 16)) as pilot:
            while app.view.approval_mode != mode:
                asked = len(session.modes)
                await pilot.press("shift+tab")
                await wait_until_rendered(pilot)
                assert len(session.modes) == asked + 1
            await wait_until_rendered(pilot)
            assert mode.value in screen_text(app).split("\n")[0]
