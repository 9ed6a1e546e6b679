"""`/stats`: opens the dashboard and reads its numbers from the journals in a thread (S4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from tui_agent.common.paths import HomeNotFoundError, data_dir
from tui_agent.tui.base_app import BaseApp
from widgets.dashboard import Dashboard

if TYPE_CHECKING:
    from tui_agent.stats.reading import StatsResult

READ_SECONDS, PAUSE_SECONDS = 0.01, 0.002
"""The thread reads and pauses in turns, so that the event loop gets the interpreter."""
REPORT_EVERY = 50
"""Sessions between two progress reports."""


def show_statistics(app: BaseApp, _: str) -> None:
    """Open the dashboard and fill it in the background."""
    stop = threading.Event()

    def read() -> None:
        app.work(_fill, app, panel, stop, expected=(HomeNotFoundError,))

    panel = Dashboard(on_reload=read, on_close=stop.set)
    app.push_screen(panel)
    read()


async def _fill(app: BaseApp, panel: Dashboard, stop: threading.Event) -> None:
    def on_progress(done: int, total: int) -> None:
        if done % REPORT_EVERY == 0:
            app.call_later(panel.advance, done, total)

    stats = await asyncio.to_thread(_gather, on_progress, stop)
    if not stop.is_set():
        panel.show(stats.tally, notes(stats))


def _gather(on_progress: Callable[[int, int], None], stop: threading.Event) -> StatsResult:
    from tui_agent.stats.reading import gather_stats

    turn_started = monotonic()

    def pause_or_stop() -> bool:
        nonlocal turn_started
        if monotonic() - turn_started < READ_SECONDS:
            return stop.is_set()
        stopped = stop.wait(PAUSE_SECONDS)
        turn_started = monotonic()
        return stopped

    return gather_stats(data_dir(), on_progress=on_progress, is_cancelled=pause_or_stop)


def notes(stats: StatsResult) -> list[str]:
    """Return sentences about sessions and records that the numbers don't include."""
    sentences = []
    if stats.skipped:
        count = len(stats.skipped)
        subject = "1 session is" if count == 1 else f"{count:,} sessions are"
        sentences.append(f"{subject} left out: the journal can't be read. `tui-agent stats` lists them.")
    if stats.damaged:
        count = stats.tally.damaged
        subject = "1 record is" if count == 1 else f"{count:,} records are"
        sentences.append(f"{subject} damaged and not counted. `tui-agent stats` lists the sessions.")
    return sentences
