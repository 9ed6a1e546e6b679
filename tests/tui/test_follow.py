from __future__ import annotations

import pytest

from tests.scenes import build, load
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import RunAction, ToolCall, ToolResult
from tui_agent.tui.app import TuiAgentApp
from widgets.info_panels import HelpPanel
from widgets.request_view import RequestModal

STEP = 1.0
"""Seconds between two looks at the screen."""


def long_talk(turns: int) -> build.Scene:
    scene = build.Scene().opened()
    for turn in range(turns):
        scene.ask(f"question {turn}").reply().write(f"answer {turn}\n\n- one\n- two", size=99)
        scene.end(f"answer {turn}\n\n- one\n- two").done(tool_calls=0)
    return scene


def top_line(app: TuiAgentApp) -> str:
    y = app.transcript.scroll_offset.y
    lines = [app.transcript.line_at(y + number) for number in range(3)]
    return "\n".join(line.text if line else "" for line in lines)


async def test_for_a_minute_of_streaming_the_top_line_never_changes() -> None:
    clock = FakeClock()
    scene = long_talk(12)
    call = ToolCall(id="slow", name="run_terminal_command", arguments={"command": "make"})
    scene.ask("build it").reply().end("", call)
    scene.start(call, "make")
    for turn in range(12, 30):  # an open card with a long talk below it
        scene.emit(e.UserMessageAdded(id=f"u{turn}", text=f"question {turn}\nand more of it"), node="")
    app, session = app_for(scene.records, clock=clock)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("pageup")
        await wait_until_idle(pilot)
        top = top_line(app)
        assert app.transcript._anchor[0] > app.view.indexes["slow"]  # the card is above what shows
        assert top.strip()
        session.push(e.ReplyStarted(model="m", iteration=2, messages=2, estimate=1), node="r99", run=scene.run)
        for step in range(int(60 / STEP)):
            clock.now += STEP
            session.push(e.TextDelta(text=f"word {step} of\n\n" if step % 2 else "a line "), node="r99", run=scene.run)
            session.push(e.ToolOutput(text=f"output {step}\n"), node="slow", run=scene.run)
            if step == 10:
                await pilot.resize_terminal(80, 30)
            if step == 18:
                await pilot.press("f1")
                await wait_until_idle(pilot)
                assert isinstance(app.screen, HelpPanel)
            if step == 24:
                await pilot.press("escape")
            if step == 36:
                app.theme = "tui-agent-light"
            if step == 42:
                await pilot.resize_terminal(96, 24)
            if step == 50:
                result = ToolResult(success=True)
                session.push(
                    e.ToolFinished(call_id="slow", name=call.name, result=result, text="x\n" * 40, ms=9),
                    node="slow",
                    run=scene.run,
                )
            await wait_until_rendered(pilot)
            assert top_line(app) == top, step
        assert not app.transcript.following
        await pilot.press("ctrl+end")
        await wait_until_rendered(pilot)
        assert app.transcript.following
        assert "word 59" in screen_text(app)


@pytest.mark.parametrize("how", ["wheel", "pageup", "drag"])
async def test_going_up_releases_at_once(how: str) -> None:
    app, session = app_for(long_talk(20).records)
    async with run_app(app, (80, 24)) as pilot:
        if how == "wheel":
            await pilot._post_mouse_events([_scroll_up()], "#transcript", offset=(10, 8), button=0)
        elif how == "pageup":
            await pilot.press("pageup")
        else:
            await pilot.mouse_down("#transcript", offset=(4, 4))
            await pilot.hover("#transcript", offset=(9, 6))
        assert not app.transcript.following
        top = top_line(app)
        session.push(e.UserMessageAdded(id="new", text="something new"))
        await wait_until_rendered(pilot)
        assert top_line(app) == top
        assert "↓ 1 new" in screen_text(app)
        await pilot.mouse_up("#transcript", offset=(9, 6))


def _scroll_up() -> type:
    from textual import events

    return events.MouseScrollUp


async def test_the_top_line_keeps_its_place_over_many_widths() -> None:
    scene = build.Scene().opened()
    for turn in range(30):
        scene.ask(f"question {turn} " + "with many words that wrap " * 8).reply()
        scene.write(f"start {turn} " + "words and more words " * 30).end(".").done(tool_calls=0)
    app, _session = app_for(scene.records)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("pageup", "pageup", "pageup")
        await wait_until_idle(pilot)
        transcript = app.transcript
        place = transcript.spot(transcript.scroll_offset.y)[0]
        top = top_line(app)
        for width in (60, 43, 91, 30, 80):
            await pilot.resize_terminal(width, 24)
            await wait_until_idle(pilot)
            assert transcript.spot(transcript.scroll_offset.y)[0] == place
        assert top_line(app) == top


async def test_under_a_dialog_nothing_moves_and_afterwards_it_follows() -> None:
    app, session = app_for(long_talk(20).records)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("f1")
        top = top_line(app)
        for number in range(5):
            session.push(e.UserMessageAdded(id=f"n{number}", text=f"more {number}"))
        await wait_until_rendered(pilot)
        assert top_line(app) == top
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert app.transcript.following
        assert "more 4" in screen_text(app)


async def test_a_block_painted_before_it_was_measured_keeps_its_last_line() -> None:
    app, _session = app_for("command_asked")
    async with run_app(app, (80, 24)) as pilot:
        transcript = app.transcript
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal))
        await wait_until_idle(pilot)
        for number in range(len(transcript.blocks)):
            transcript._guess(number)  # as a resize does
        for y in range(transcript._stack.total):  # as a frame of a taller view does before `on_resize`
            transcript.line_at(y)
        transcript._settle()
        lines = [transcript.line_at(y) for y in range(transcript._stack.total)]
        assert any(line and "def main(argv=None)" in line.text for line in lines)


@pytest.mark.parametrize("size", [(80, 40), (100, 90)])
async def test_page_by_page_upwards_nothing_is_skipped(size: tuple[int, int]) -> None:
    scene = build.Scene().opened()
    for turn in range(9):
        call = ToolCall(id=f"c{turn}", name="run_terminal_command", arguments={"command": "make"})
        scene.ask(f"question {turn}").reply().think(f"thought {turn}.\n\n" * (turn * 3))
        text = "~~~text\n" + "".join(f"line {turn}.{n}.\n" for n in range(turn * 7)) + "~~~\n"
        scene.write(text, size=99).end(text, call).start(call, "make")
        scene.finish(call, ToolResult(success=True, data="out\n" * 30)).done(tool_calls=1)
    app, _session = app_for(scene.records)
    async with run_app(app, size) as pilot:
        await pilot.press("ctrl+o")
        await wait_until_idle(pilot)
        shown = screen_text(app)
        while app.transcript.scroll_offset.y:
            await pilot.press("pageup")
            await wait_until_idle(pilot)
            shown += screen_text(app)
        wanted = [f"line {turn}.{n}." for turn in range(9) for n in range(turn * 7)]
        assert [one for one in wanted if one not in shown] == []


async def test_beside_a_second_dialog_stands_what_came_under_the_first() -> None:
    records = load("command_asked")
    first = next(at for at, one in enumerate(records) if isinstance(one.event, e.ApprovalRequested)) + 1
    app, session = app_for(records[:first])
    async with run_app(app, (90, 30)) as pilot:
        session.records += records[first:]
        session.wake()
        await wait_until_rendered(pilot)
        assert isinstance(app.screen, RequestModal)
        assert isinstance(app.screen.request.action, RunAction)
        assert app.transcript.scroll_offset.y == app.transcript.max_scroll_y > 0
