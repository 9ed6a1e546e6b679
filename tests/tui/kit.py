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
from tests.waiting import TIMEOUT
from tui_agent.events import Record
from tui_agent.tui.app import TuiAgentApp
from tui_agent.view.change import epoch_seconds


class FakeClock:
    """A monotonic clock that only moves when a test advances it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def arm_dialogs(self) -> None:
        """Advance past the delay before dialogs accept keys, with a margin for keys that arrive late."""
        self.now += 60


def app_for(
    scene: str | list[Record] = "empty",
    *,
    quiet_seconds: float = 0.0,
    clock: Callable[[], float] | None = None,
    theme: str = "dark",
    later: float = 2.0,
) -> tuple[TuiAgentApp, FakeSession]:
    """Return an app that shows a scene, `later` seconds after its last record, and its session."""
    records = load(scene) if isinstance(scene, str) else scene
    session = FakeSession(records)
    now = (epoch_seconds(records[-1].at) if records else 0.0) + later

    async def open_session() -> FakeSession:
        return session

    app = TuiAgentApp(open_session, now=lambda: now, clock=clock or time.monotonic, quiet_seconds=quiet_seconds)
    app.theme = f"tui-agent-{theme}"
    return app, session


async def wait_for(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Run the app until the condition holds, or fail after TIMEOUT seconds."""
    deadline = time.monotonic() + TIMEOUT
    checks = 0
    while not condition():
        assert time.monotonic() < deadline, f"it never came to be; on the screen:\n{_screen_dump(pilot.app)}"
        checks += 1
        if pilot.app._exception is not None or not pilot.app._screen_stacks[pilot.app._current_mode]:
            await pilot.pause(0.001)  # it has ended, or says what is wrong
        else:
            await asyncio.sleep(0.001 if checks < 20 else 0.01)  # what a test looks at costs more than to wait
            pilot.app.screen._on_timer_update()


def _screen_dump(app: App[Any]) -> str:
    """What a test that waits in vain looks at."""
    rows = (strip.text.rstrip() for strip in app.screen._compositor.render_strips())
    return "\n".join([repr(app.screen), *(row for row in rows if row)])


async def wait_for_records(pilot: Pilot[int]) -> None:
    """Wait until all records of the session have reached the widgets."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)

    def done() -> bool:
        session = app.session
        return isinstance(session, FakeSession) and app.view.seq == len(session.records) and not app._router.dirty

    await wait_for(pilot, done)


async def wait_until_rendered(pilot: Pilot[int]) -> None:
    """Wait until all records of the session are painted."""
    await wait_for_records(pilot)
    await wait_until_idle(pilot)


async def wait_until_idle(pilot: Pilot[int]) -> None:
    """What one layout asks of the next has been done, and so has what widgets do in threads. However slow or quick the
    machine is: it is not the time that is asked, but whether anything is left to do."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    idle_checks = 0

    def is_idle() -> bool:
        nonlocal idle_checks
        idle_checks = 0 if _has_work(app) else idle_checks + 1
        return idle_checks >= IDLE_CHECKS

    await wait_for(pilot, is_idle)


IDLE_CHECKS = 4
"""Looks in a row at which nothing is left to do: a callback may ask for another one."""


def _has_work(app: TuiAgentApp) -> bool:
    busy = any(one.is_running and one.group != "stream" for one in app.workers)
    return app._router.dirty or busy or has_work(app)


@asynccontextmanager
async def run_app(app: TuiAgentApp, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await wait_until_rendered(pilot)
        yield pilot
        app.exit(0)


async def read_through(pilot: Pilot[int]) -> None:
    """Page through the approval that is open until all of it was in sight."""
    screen: Any = pilot.app.screen
    await pilot.press("home")
    await wait_until_idle(pilot)
    while screen.unseen():
        await pilot.press("pagedown")
        await wait_until_idle(pilot)


def screen_text(app: TuiAgentApp) -> str:
    """What the terminal shows, as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
