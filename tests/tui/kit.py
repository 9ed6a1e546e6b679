from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.headless import has_work
from tests.scenes import load
from tests.waiting import LONG
from tui_agent.events import Record
from tui_agent.tui.app import TuiAgentApp
from tui_agent.view.change import epoch_seconds


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
    quiet_seconds: float = 0.0,
    clock: Callable[[], float] | None = None,
    theme: str = "dark",
    later: float = 2.0,
) -> tuple[TuiAgentApp, FakeSession]:
    """An app that shows a scene, `later` seconds after its last record."""
    records = load(scene) if isinstance(scene, str) else scene
    session = FakeSession(records)
    now = (epoch_seconds(records[-1].at) if records else 0.0) + later

    async def open_session() -> FakeSession:
        return session

    app = TuiAgentApp(open_session, now=lambda: now, clock=clock or time.monotonic, quiet_seconds=quiet_seconds)
    app.theme = f"tui-agent-{theme}"
    return app, session


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Let the app work until the condition holds; a deadline far beyond what it takes."""
    deadline = time.monotonic() + LONG
    looks = 0
    while not condition():
        assert time.monotonic() < deadline, f"it never came to be; on the screen:\n{_seen(pilot.app)}"
        looks += 1
        if pilot.app._exception is not None or not pilot.app._screen_stacks[pilot.app._current_mode]:
            await pilot.pause(0.001)  # it has ended, or says what is wrong
        else:
            await asyncio.sleep(0.001 if looks < 20 else 0.01)  # what a test looks at costs more than to wait
            pilot.app.screen._on_timer_update()


def _seen(app: App[Any]) -> str:
    """What a test that waits in vain looks at."""
    rows = (strip.text.rstrip() for strip in app.screen._compositor.render_strips())
    return "\n".join([repr(app.screen), *(row for row in rows if row)])


async def taken(pilot: Pilot[int]) -> None:
    """All records of the session were handed to the widgets."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)

    def done() -> bool:
        session = app.session
        return isinstance(session, FakeSession) and app.view.seq == len(session.records) and not app._router.dirty

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


def _has_work(app: TuiAgentApp) -> bool:
    busy = any(one.is_running and one.group != "stream" for one in app.workers)
    return app._router.dirty or busy or has_work(app)


@asynccontextmanager
async def running(app: TuiAgentApp, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot
        app.exit(0)


def screen_text(app: TuiAgentApp) -> str:
    """What the terminal shows, as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
