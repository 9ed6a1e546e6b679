"""What a paste of a megabyte costs: `python -m tests.benchmarks.paste`; exits with 1 when something is over
its bar. Reading it is the work of the terminal's own thread and holds the loop up by the interpreter's lock only."""

from __future__ import annotations

import asyncio
import sys
import threading
from time import perf_counter

from textual import events
from textual.pilot import Pilot

from tests.tui.kit import app_for, wait_until_idle, wait_until_rendered
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.paste import GRACE, PasteGuard

SIZE = 1_000_000
READ = 65_536
BARS = {"stall": 200.0, "next key": 50.0}
"""Milliseconds."""
PASTES = {
    "many lines": "some words in a line\n" * (SIZE // 21),
    "one line": "x" * SIZE,
    "with escapes": "\x1b[31mred\x1b[0m and plain\r\n" * (SIZE // 25),
    "torn": "torn words\n" * (SIZE // 11),
}


def read(app: TuiAgentApp, text: str, torn: bool) -> None:
    """As the terminal's thread does it."""
    parser = PasteGuard()
    whole = f"\x1b[200~{text}" + ("" if torn else "\x1b[201~")
    for at in range(0, len(whole), READ):
        for message in parser.feed(whole[at : at + READ]):
            app._driver.process_message(message)  # type: ignore[union-attr]  # it is running
    threading.Event().wait(GRACE * 2)
    for message in parser.feed("") if torn else parser.tick():
        if isinstance(message, events.Paste):
            app._driver.process_message(message)  # type: ignore[union-attr]  # it is running


async def stall(job: asyncio.Future[None], app: TuiAgentApp) -> float:
    """The longest turn of the loop until the paste is shown."""
    longest, last = 0.0, perf_counter()
    while not job.done() or not app.prompt.text:
        await asyncio.sleep(0)
        now = perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1000


async def measure(name: str) -> dict[str, float]:
    """The figures of one paste."""
    app, _session = app_for("answered")
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until_rendered(pilot)
        text = PASTES[name]
        job = asyncio.ensure_future(asyncio.to_thread(read, app, text, name == "torn"))
        figures = {"stall": await stall(job, app)}
        await wait_until_idle(pilot)
        figures["next key"] = await key(pilot, app)
        app.exit(0)
    return figures


async def key(pilot: Pilot[int], app: TuiAgentApp) -> float:
    """From a key to the screen that shows it."""
    worst = 0.0
    for _press in range(20):
        began = perf_counter()
        app.prompt._replace_via_keyboard("x", *app.prompt.selection)
        app.screen._on_timer_update()
        await asyncio.sleep(0)
        worst = max(worst, (perf_counter() - began) * 1000)
    return worst


def main() -> int:
    """Print the figures; 1 when one is over its bar."""
    over = False
    for name in PASTES:
        for what, value in asyncio.run(measure(name)).items():
            over = over or value > BARS[what]
            print(f"{name:<14}{what:<10}{value:8.1f} ms  (bar {BARS[what]:.0f})")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
