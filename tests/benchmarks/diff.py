"""What a diff of 5,000 lines costs in its dialog: `python -m tests.benchmarks.diff`; exits with 1 over the bar."""

from __future__ import annotations

import asyncio
import gc
import sys
from time import perf_counter

from textual import events
from textual.pilot import Pilot

from tests.tui.edits import edit_action, edit_app, edit_dialog, long_texts
from tests.tui.kit import wait_until_idle, wait_until_rendered
from tui_agent.__main__ import COLLECT
from tui_agent.tui.app import TuiAgentApp
from widgets.diff_view import DiffView

LINES = 5_000
BAR = 50.0
"""Milliseconds from a key to the frame that shows it, for 95 of 100 keys."""
OPENED = 200.0
"""Milliseconds until the dialog of such a diff is laid out and painted."""
KEYS = ("pagedown",) * 40 + ("down",) * 20 + ("end", "home") * 6 + ("n",) * 20 + ("p",) * 5 + ("x",) * 10


async def timed(pilot: Pilot[int], key: str) -> float:
    """Milliseconds from a key to the screen that shows it; no waiting for the frame clock."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    view, frames = edit_dialog(app).body, 0

    def count() -> None:
        nonlocal frames
        frames += 1

    app.post_display_hook = count  # type: ignore[method-assign]  # called once a frame
    began = perf_counter()
    app.screen.on_key(events.Key(key, key if len(key) == 1 else None))  # type: ignore[attr-defined]  # a dialog
    for _ in range(50):
        if frames and painted(view):
            break
        for _turn in range(5):  # what the key set off is done before the next frame, as the frame clock has it
            await asyncio.sleep(0)
        app.screen._on_timer_update()
    spent = (perf_counter() - began) * 1000
    await wait_until_idle(pilot)
    return spent if frames else 0.0  # nothing to be shown, such as the hunk before the first


def painted(view: DiffView) -> bool:
    """Whether the first line that is seen was painted as it is."""
    return view._heights.find(view.scroll_offset.y)[0] in view._painted


def p95(figures: list[float]) -> float:
    """Of a hundred figures, the fifth largest."""
    return sorted(figures)[max(0, round(len(figures) * 0.95) - 1)]


async def measure(split: bool, size: tuple[int, int]) -> dict[str, float]:
    """The figures of one view."""
    old, new = long_texts(LINES)
    app, _session = edit_app(edit_action(old, new, context=0))
    async with app.run_test(size=size) as pilot:
        await wait_until_rendered(pilot)
        assert isinstance(app, TuiAgentApp)
        modal = edit_dialog(app)
        if split:
            began = perf_counter()
            modal.body.split = True
            app.screen._on_timer_update()
            turned = (perf_counter() - began) * 1000
            await wait_until_idle(pilot)
            assert modal.body.side_by_side
        began = perf_counter()
        modal.body.show(modal.diff)
        app.screen._on_timer_update()
        laid = (perf_counter() - began) * 1000
        await wait_until_idle(pilot)
        gc.collect()
        gc.freeze()  # as the program does
        gc.set_threshold(*COLLECT)
        figures = [await timed(pilot, key) for key in KEYS]
        by_key = {key: p95([one for one, k in zip(figures, KEYS, strict=True) if k == key]) for key in set(KEYS)}
        app.exit(0)
    found = {"key to frame, p95": p95(figures), "slowest key": max(figures), "laid out": laid}
    return found | ({"turned": turned} if split else {}) | {f"  {key}": by_key[key] for key in sorted(by_key)}


def main() -> int:
    """Measure and judge."""
    late = False
    for split in (False, True):
        figures = asyncio.run(measure(split, (160, 50)))
        name = "side by side" if split else "unified"
        for what, value in figures.items():
            bar = BAR if what.startswith("key") else OPENED if what in ("laid out", "turned") else None
            late = late or (bar is not None and value > bar)
            told = "" if bar is None else f"   bar {bar:.0f} ms   {'TOO MUCH' if value > bar else 'ok'}"
            print(f"{name:13} {what:20} {value:8.2f} ms{told}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
