"""An output of 100 MB in the pager: `python -m tests.benchmarks.pager`; exits with 1 when over its bar."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from textual import events

from tests.benchmarks.mentions import stalls
from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, wait_until_rendered
from tests.tui.test_pager import NAME, pager, ran
from tui_agent.tui.app import TuiAgentApp

SIZE = 100_000_000
BARS = {"open at the end, ms": 100.0, "a page, ms": 50.0, "search through all, ms": 2_000.0, "memory, MB": 150.0}


def resident() -> float:
    """Megabytes that the process has in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


async def shown(app: TuiAgentApp, began: float) -> float:
    """Milliseconds until no move is going on and there are lines."""
    from widgets.output_pager import OutputPager

    while not (isinstance(app.screen, OutputPager) and app.screen._body.lines and not app.screen._moving):  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0)
    return (perf_counter() - began) * 1000


async def pressed(app: TuiAgentApp, key: str) -> float:
    """Milliseconds from a key to its lines. Not by the pilot, who waits until the processor has nothing to do."""
    began = perf_counter()
    app.screen.post_message(events.Key(key, None))
    await asyncio.sleep(0)
    return await shown(app, began)


async def measure(file: Path) -> dict[str, float]:
    """All figures."""
    app, session = app_for("answered")
    assert isinstance(session, FakeSession)
    figures: dict[str, float] = {}
    async with app.run_test(size=(120, 40)) as pilot:
        ran(session, "small", "x\n", result="small")
        await wait_until_rendered(pilot)
        await pilot.press("f7")  # what is loaded for the first one
        await pilot.press("q")
        ran(session, "make", "x\n", file=str(file), result="[… many lines left out …]")
        await wait_until_rendered(pilot)
        before = resident()
        times = []
        for _ in range(5):
            began = perf_counter()
            app.action_command("output")
            times.append(await shown(app, began))
            await pilot.press("q")
        figures["open at the end, ms"] = statistics.median(times)
        app.action_command("output")
        await shown(app, began)
        late: list[float] = []
        watch = asyncio.create_task(stalls(late))
        while pager(app).window.lines is None:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)
        figures["a page, ms"] = max([await pressed(app, key) for key in ("pageup", "home", "pagedown", "end") * 5])
        await pressed(app, "home")
        pager(app).needle = "nowhere"
        figures["search through all, ms"] = await pressed(app, "n")
        watch.cancel()
        figures["memory, MB"] = resident() - before
        print(f"{pager(app).window.lines:,} lines; longest stall {max(late) * 1000:.1f} ms")
        app.exit(0)
    return figures


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / NAME
        with file.open("wb") as out:
            for number in range(SIZE // 100 // 1000):
                out.writelines(b"\x1b[32mok\x1b[0m %-89d\n" % (number * 1000 + one) for one in range(1000))
        figures = asyncio.run(measure(file))
    for name, bar in BARS.items():
        print(f"{name}: {figures[name]:.1f} (bar {bar:g})")
    return int(any(figures[name] > bar for name, bar in BARS.items()))


if __name__ == "__main__":
    sys.exit(main())
