"""`/stats`: the dashboard; its numbers are read from the journals in a thread (S4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from tui_agent.common.paths import NoHome, data_dir
from tui_agent.tui.base_app import BaseApp
from widgets.dashboard import Dashboard

if TYPE_CHECKING:
    from tui_agent.stats.reading import Gathered

TURN, BREATH = 0.01, 0.002
"""Seconds for which the thread reads, and for which it then lets others go."""
TOLD = 50
"""Sessions between two progress reports."""


def show_statistics(app: BaseApp, _: str) -> None:
    """Open the dashboard; the numbers come when they are there."""
    stop = threading.Event()

    def read() -> None:
        app.work(_fill, app, panel, stop, expected=(NoHome,))

    panel = Dashboard(again=read, left=stop.set)
    app.push_screen(panel)
    read()


async def _fill(app: BaseApp, panel: Dashboard, stop: threading.Event) -> None:
    def tell(done: int, of: int) -> None:
        if done % TOLD == 0:
            app.call_later(panel.advance, done, of)

    found = await asyncio.to_thread(_gather, tell, stop)
    if not stop.is_set():
        panel.show(found.tally, notes(found))


def _gather(tell: Callable[[int, int], None], stop: threading.Event) -> Gathered:
    from tui_agent.stats.reading import gather_stats

    breath = monotonic()

    def stopped() -> bool:
        nonlocal breath
        if monotonic() - breath < TURN:
            return stop.is_set()
        gone = stop.wait(BREATH)
        breath = monotonic()
        return gone

    return gather_stats(data_dir(), tell=tell, stop=stopped)


def notes(found: Gathered) -> list[str]:
    """What is missing in the numbers, in words."""
    said = []
    if found.skipped:
        count = len(found.skipped)
        some = "1 session is" if count == 1 else f"{count:,} sessions are"
        said.append(f"{some} left out: the journal can't be read. `tui-agent stats` lists them.")
    if found.damaged:
        count = found.tally.damaged
        some = "1 record is" if count == 1 else f"{count:,} records are"
        said.append(f"{some} damaged and not counted. `tui-agent stats` lists the sessions.")
    return said
