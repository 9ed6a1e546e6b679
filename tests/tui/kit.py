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
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await pilot.pause()


async def settled(pilot: Pilot[int]) -> None:
    """All records of the session are on the screen."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)

    def done() -> bool:
        session = app.session
        return isinstance(session, FakeSession) and app.view.seq == len(session.records) and not app.unpainted

    await until(pilot, done)
    await pilot.pause()


@asynccontextmanager
async def running(app: TuiAgentApp, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot
        app.exit(0)


def screen_text(app: TuiAgentApp) -> str:
    """What the terminal shows, as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
