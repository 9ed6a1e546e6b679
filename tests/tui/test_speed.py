from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.nightly import crossed
from tests.scenes.build import READ, Scene
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import ToolResult, Usage
from widgets.context_meter import ContextPanel

PARTS = {"system": 812, "tools": 1_104, "messages": 946, "results": 1_260, "files": 3_978}
USAGE = Usage(prompt_tokens=8_100, cached_tokens=7_700, prompt_ms=6_400, completion_tokens=120, generate_ms=10_000)
SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


def asked() -> Scene:
    return Scene().opened().ask("add a --json flag to the export command")


def answered() -> Scene:
    scene = asked().reply()
    call = scene.call("read_file", path="src/export.py")
    scene.emit(e.ReplyEnded(text="", calls=(call,), usage=USAGE, ms=16_500))
    scene.emit(e.ContextMeasured(used=8_220, limit=32_768, parts=PARTS), node="")
    scene.start(call, "src/export.py", reads_only=True)
    return scene.finish(call, ToolResult(success=True, data=READ), 12)


def reading() -> Scene:
    scene = asked().reply()
    for done in (0, 2_048, 4_096):
        scene.emit(e.ReplyPhase(phase="reading", done=done, total=8_100), seconds=20)
    return scene


def estimated() -> Scene:
    scene = answered()
    scene.node = "r2"
    scene.emit(e.ReplyStarted(model="m", iteration=2, messages=4, estimate=12_300, fresh=4_080))
    return scene.emit(e.ReplyPhase(phase="reading"), seconds=0.4)


def written() -> Scene:
    text = "It writes rows as a table; JSON is what it does not know yet."
    scene = answered().reply().write(text)
    scene.emit(e.ReplyEnded(text=text, usage=USAGE, stop="stop", ms=16_500))
    scene.emit(e.ContextMeasured(used=8_220, limit=32_768, parts=PARTS), node="")
    return scene.done(text=text, iterations=2, tool_calls=1)


SCENES = {scene.__name__: scene for scene in (reading, estimated, written)}


@pytest.mark.parametrize(("scene", "size"), crossed(list(SCENES), SIZES))
def test_speed(scene: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for(SCENES[scene]().records)
    assert snap_compare(app, terminal_size=size, run_before=wait_until_rendered)


def test_speed_in_the_meter(snap_compare) -> None:
    app, _session = app_for(written().records)

    async def look(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press("f9")
        await wait_for(pilot, lambda: isinstance(app.screen, ContextPanel))
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=(100, 30), run_before=look)


async def test_the_server_tells_how_far_it_has_read() -> None:
    app, _session = app_for(reading().records, later=0.0)
    async with run_app(app):
        assert "reading 4,096 of 8,100 tokens" in screen_text(app)


async def test_between_two_batches_its_rate_goes_on() -> None:
    app, _session = app_for(reading().records, later=10.0)
    async with run_app(app):
        assert "reading about 5,100 of 8,100 tokens" in screen_text(app)


async def test_without_that_its_rate_tells() -> None:
    app, _session = app_for(estimated().records, later=30.0)
    async with run_app(app):
        # 62.5 tokens a second of what is new, as they were read the last time
        assert "reading about 10,000 of 12,300 tokens" in screen_text(app)


async def test_how_fast_it_writes_and_what_it_had_is_told_while_and_after() -> None:
    scene = answered().reply().write("the exporter writes rows as a table. " * 40)
    app, session = app_for(scene.records, later=4.0)
    async with run_app(app) as pilot:
        assert "tokens/s" in screen_text(app)
        session.push(e.ReplyEnded(text="x", usage=USAGE, stop="stop"), node="r2", run="run1")
        session.push(e.RunEnded(outcome="done", text="x"), run="run1")
        await wait_until_rendered(pilot)
        assert "written at 12 tokens/s · 95% of the prompt from the cache" in screen_text(app)
        await pilot.press("f9")
        await wait_for(pilot, lambda: isinstance(app.screen, ContextPanel))
        await wait_until_idle(pilot)
        text = " ".join(screen_text(app).split())
        assert "8,100 tokens, 400 read, 95% from the server's cache, 62 tokens/s" in text
        assert "120 tokens, 12 tokens/s" in text
