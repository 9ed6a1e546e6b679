"""What 10,000 past messages cost (U1): `python -m tests.benchmarks.transcript`; exits with 1 when something is over its bar."""

from __future__ import annotations

import asyncio
import gc
import resource
import statistics
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from time import perf_counter, process_time

from textual.pilot import Pilot

from tests.scenes import build
from tests.tui.kit import app_for, wait_until_rendered
from tui_agent import events as e
from tui_agent.__main__ import COLLECT
from tui_agent.events import Record
from tui_agent.tui.app import TuiAgentApp

MESSAGES = 10_000
ANSWER = (
    "Here is what I found in `module_{0}`.\n\n- the parser takes **two** words\n- the writer takes one\n\n"
    "```python\ndef answer_{0}(value):\n    return value * {0}\n```\n\nThat is why number {0} is right."
)
BARS = {"key to frame": 16.0, "append": 20.0, "resize": 200.0, "memory": 20.0, "search turn": 16.0}


def talk(messages: int) -> list[Record]:
    """A session with so many messages, half of them the user's."""
    scene = build.Scene().opened()
    for turn in range(messages // 2):
        text, scene.run, scene.node = ANSWER.format(turn), f"run{turn}", f"r{turn}"
        scene.emit(e.UserMessageAdded(id=f"m{turn}", text=f"What about number {turn}?"), node="")
        scene.emit(e.RunStarted(message_id=f"m{turn}", mode="direct", model="m"), node="")
        scene.emit(e.ReplyStarted(model="m", iteration=1, messages=2, estimate=1400))
        scene.emit(e.TextDelta(text=text)).emit(e.ReplyEnded(text=text, ms=2400))
        scene.done(tool_calls=0)
    return scene.records


async def timed(pilot: Pilot[int], act: Callable[[], Awaitable[object] | object]) -> float:
    """Milliseconds from an act to the screen that shows it; no waiting for the frame clock."""
    app = pilot.app
    began = perf_counter()
    done = act()
    if isinstance(done, Awaitable):
        await done
    app.screen._on_timer_update()
    return (perf_counter() - began) * 1000


async def measure(messages: int) -> dict[str, float]:
    """All figures for a session with so many past messages."""
    app, session = app_for(talk(messages))
    figures: dict[str, float] = {}
    async with app.run_test(size=(120, 40)) as pilot:
        while app.view.seq < len(session.records) or app._router.dirty:
            await pilot.pause()
        assert isinstance(app, TuiAgentApp)
        transcript = app.transcript
        figures["key to frame"] = statistics.median([await timed(pilot, lambda: key(app)) for _ in range(40)])
        appended = []
        for number in range(40):
            session.push(e.UserMessageAdded(id=f"n{number}", text=f"more {number}"))
            app._router.route(session.records[-1])
            appended.append(await timed(pilot, app._router.paint))
        figures["append"] = statistics.median(appended)
        resized = []
        for width in (100, 80, 110, 90, 120):
            began = perf_counter()
            transcript._width = width - 10
            transcript._relayout()
            app.screen._on_timer_update()
            resized.append((perf_counter() - began) * 1000)
        figures["resize"] = statistics.median(resized)
        await pilot.pause()
        gc.collect()
        gc.freeze()  # as the program does
        gc.set_threshold(*COLLECT)
        began, longest = perf_counter(), 0.0
        job = asyncio.ensure_future(transcript.find("number 77"))
        while not job.done():
            turn = process_time()
            await asyncio.sleep(0)
            longest = max(longest, (process_time() - turn) * 1000)
        figures["search"], figures["search turn"] = (perf_counter() - began) * 1000, longest
        await transcript.find("")
        figures["token"] = stream(app)
        app.exit(0)
    return figures


async def key(app: TuiAgentApp) -> None:
    """A character in the composer."""
    app.prompt.insert("x")
    await asyncio.sleep(0)


def stream(app: TuiAgentApp) -> float:
    """CPU milliseconds a token, with a paint for every seventh (200 tokens/s, 30 paints/s)."""
    seq = app.view.seq

    def take(event: e.Event) -> None:
        nonlocal seq
        seq += 1
        app._router.route(Record(seq=seq, at="2026-01-06T09:00:00.000+00:00", event=event, run="b", node="rb"))

    take(e.ReplyStarted(model="m", iteration=1, messages=2, estimate=1))
    app.transcript.follow()
    text = ANSWER.format(1) * 40
    began = process_time()
    for number in range(2_000):
        take(e.TextDelta(text=text[number * 4 : number * 4 + 4]))
        if number % 7 == 0:
            app._router.paint()
            app.screen._on_timer_update()
    return (process_time() - began) / 2_000 * 1000


async def memory(messages: int) -> float:
    """Megabytes that the screen adds to the session's own data."""
    from tui_agent.view.fold import fold_record
    from tui_agent.view.items import SessionView

    records = talk(messages)
    app, session = app_for(records)
    session.records = records[:1]
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until_rendered(pilot)
        view = SessionView()
        for record in records:
            fold_record(view, record)
        gc.collect()
        tracemalloc.start()
        app.transcript.show(view.items, range(len(view.items)))
        await pilot.pause()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        app.exit(0)
    return used / 1_000_000


def main() -> int:
    """Measure and judge."""
    few, many = asyncio.run(measure(100)), asyncio.run(measure(MESSAGES))
    many["memory"] = asyncio.run(memory(MESSAGES))
    late = False
    for name, value in many.items():
        bar = BARS.get(name)
        over = bar is not None and value > bar
        late = late or over
        unit = "MB" if name == "memory" else "ms"
        told = "" if bar is None else f"   bar {bar:.0f} {unit}   {'TOO MUCH' if over else 'ok'}"
        print(f"{name:14} {value:8.2f} {unit}   with 100 messages {few.get(name, 0):8.2f}{told}")
    slope = (many["token"] - few["token"]) / (MESSAGES - 100) * 1000
    print(f"slope          {slope:+8.4f} ms a token for every 1,000 messages")
    print(f"peak RSS       {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:8.0f} MB")
    flat = slope * 10 < max(0.25 * few["token"], 0.05)
    return 1 if late or not flat else 0


if __name__ == "__main__":
    sys.exit(main())
