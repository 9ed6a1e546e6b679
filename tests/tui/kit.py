from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.scenes import load
from tui_agent.events import Record
from tui_agent.tui.app import TuiAgentApp
from tui_agent.view import seconds


class Clock:
    """Monotonic time that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def rest(self) -> None:
        """So long that every dialog listens, also to a key which a busy machine brings late."""
        self.now += 60


def app_for(
    scene: str | list[Record] = "empty",
    *,
    stillness: float = 0.0,
    clock: Callable[[], float] | None = None,
    theme: str = "dark",
    later: float = 2.0,
) -> tuple[TuiAgentApp, FakeSession]:
    """An app that shows a scene, `later` seconds after its last record."""
    records = load(scene) if isinstance(scene, str) else scene
    session = FakeSession(records)
    now = (seconds(records[-1].at) if records else 0.0) + later

    async def open_session() -> FakeSession:
        return session

    app = TuiAgentApp(open_session, now=lambda: now, clock=clock or time.monotonic, stillness=stillness)
    app.theme = f"tui-agent-{theme}"
    return app, session


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Let the app work until the condition holds; a deadline far beyond what it takes."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await pilot.pause(0.001)


async def taken(pilot: Pilot[int]) -> None:
    """All records of the session were handed to the widgets."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)

    def done() -> bool:
        session = app.session
        return isinstance(session, FakeSession) and app.view.seq == len(session.records) and not app.unpainted

    await until(pilot, done)


async def settled(pilot: Pilot[int]) -> None:
    """All records of the session are on the screen."""
    await taken(pilot)
    await still(pilot)


async def still(pilot: Pilot[int]) -> None:
    """What one layout asks of the next has been done, and so has what widgets do in threads. However slow or quick the
    machine is: it is not the time that is asked, but whether anything is left to do."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    rests = 0

    def at_rest() -> bool:
        nonlocal rests
        rests = 0 if _has_work(app) else rests + 1
        return rests >= RESTS

    await until(pilot, at_rest)


RESTS = 4
"""Looks in a row at which nothing is left to do: a callback may ask for another one."""
LEFT = ("_layout_required", "_scroll_required", "_repaint_required", "_recompose_required")
"""What Textual notes of a widget that has something to do."""


def _has_work(app: TuiAgentApp) -> bool:
    if app.unpainted or any(one.is_running and one.group != "stream" for one in app.workers):
        return True
    if not (app.is_running and app._screen_stacks[app._current_mode]):
        return False  # it has ended
    screen = app.screen
    if screen._dirty_widgets or screen._callbacks:
        return True
    for node in (app, screen, *screen.walk_children()):
        if not (node.is_running and node._mounted_event.is_set()):
            return True  # its parts are not there yet
        if (
            node.message_queue_size
            or node._next_callbacks
            or any(getattr(node, name, False) for name in LEFT)
        ):
            return True
    return False


@asynccontextmanager
async def running(app: TuiAgentApp, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot
        app.exit(0)


def screen_text(app: TuiAgentApp) -> str:
    """What the terminal shows, as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
