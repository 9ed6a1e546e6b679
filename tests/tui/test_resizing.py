from __future__ import annotations

import random

import pytest
from textual.events import Resize
from textual.geometry import Size
from textual.pilot import Pilot

from tests.doubles.terminal import Terminal
from tests.nightly import crossed
from tests.scenes import build
from tests.tui.kit import app_for, read_through, run_app, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.events import Record
from tui_agent.tui.app import TuiAgentApp
from widgets.info_panels import HelpPanel
from widgets.request_view import RequestModal

"""Seconds from the last size to the last frame: half a second is what a person takes for at once."""

EDGES = ((1, 1), (500, 200), (1, 200), (500, 1), (2, 3), (20, 4), (99, 24), (100, 24))


def sizes(seed: int, count: int) -> list[tuple[int, int]]:
    dice = random.Random(seed)
    some = [(dice.randint(1, 300), dice.randint(1, 100)) for _ in range(count - len(EDGES))]
    some += EDGES
    dice.shuffle(some)
    return some


def become(app: TuiAgentApp, size: tuple[int, int]) -> None:
    app._driver._size = size  # type: ignore[union-attr]  # as the terminal has it, before anybody reads it
    app.post_message(Resize(Size(*size), Size(*size)))


def shown(app: TuiAgentApp) -> list[list[tuple[str, str]]]:
    # without the scroll bars: they show guesses of what was never looked at
    rows = []
    for strip in app.screen._compositor.render_strips():
        cells = [(char, str(s.style.color) if s.style else "") for s in strip for char in s.text]
        rows.append([cell for cell in cells if cell[0] not in " ▁▂▃▄▅▆▇█"])
    return rows


def plain(app: TuiAgentApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def talk(turns: int = 14) -> build.Scene:
    scene = build.Scene().opened()
    for turn in range(turns):
        scene.ask(f"question {turn} " + "with words that wrap " * 6).reply()
        scene.write(f"start {turn} " + "words and more words " * 30 + "\n\n- one\n- two\n").end(".")
        scene.done(tool_calls=0)
    scene.ask("go on").reply()
    scene.emit(e.TextDelta(text="It begins.\n\n"))
    return scene


async def storm(
    app: TuiAgentApp,
    pilot: Pilot[int],
    seed: int,
    last: tuple[int, int],
    grow: list[Record] | None = None,
    count: int = 60,
) -> None:
    session, dice = app.session, random.Random(seed)
    node, run = (session.records[-1].node, session.records[-1].run)  # type: ignore[union-attr]
    for number, size in enumerate(sizes(seed, count)):
        become(app, size)
        if grow is not None:
            text = f"word {number} of {seed} " + ("\n\n" if number % 7 == 0 else "")
            session.push(e.TextDelta(text=text), node=node, run=run)  # type: ignore[union-attr]
        if dice.random() < 0.4:
            await pilot.pause(0)
    become(app, last)
    await wait_until_rendered(pilot)
    await wait_for(pilot, lambda: app.screen.size == Size(*last))
    await wait_until_idle(pilot)


async def fresh(records: list[Record], size: tuple[int, int]) -> list[list[tuple[str, str]]]:
    app, _session = app_for(records)
    async with run_app(app, size) as pilot:
        await wait_until_idle(pilot)
        return shown(app)


@pytest.mark.parametrize("last", [(100, 30), (80, 24), (44, 14)])
async def test_after_a_storm_of_sizes_the_screen_is_that_of_a_fresh_start(last: tuple[int, int]) -> None:
    app, session = app_for(talk().records)
    async with run_app(app, (100, 30)) as pilot:
        await storm(app, pilot, last[0], last, grow=[])
        assert app.transcript.following
        assert "word 59" in plain(app)
        assert shown(app) == await fresh(session.records, last)


@pytest.mark.parametrize("scene", ["command_asked", "edit_asked", "question", "trust", "tests_ok", "empty"])
async def test_a_storm_leaves_every_kind_of_screen_as_it_was(scene: str) -> None:
    app, _session = app_for(scene)
    async with run_app(app, (80, 24)) as pilot:
        await wait_for(
            pilot, lambda: not app.view.pending or (isinstance(app.screen, RequestModal) and app.screen.armed)
        )
        if app.view.pending and hasattr(app.screen, "unseen"):
            await read_through(pilot)  # larger sizes show more of it
            await pilot.press("home")
        await wait_until_idle(pilot)
        before = plain(app)
        await storm(app, pilot, 3, (80, 24))
        await wait_for(pilot, lambda: plain(app) == before)


@pytest.mark.parametrize(
    ("what", "size"), crossed(["f2", "f1", "f4"], {"80x24": (80, 24), "120x40": (120, 40), "40x10": (40, 10)}, whole=())
)
async def test_what_comes_and_goes_below_the_transcript_does_not_end_following(
    what: str, size: tuple[int, int]
) -> None:
    app, session = app_for(talk().records)
    last = session.records[-1]
    async with run_app(app, size) as pilot:
        for _again in range(3):
            await pilot.press(what)
            await wait_until_idle(pilot)
            await pilot.press("escape")
            await wait_for(pilot, lambda: not app._menu.display and not isinstance(app.screen, HelpPanel))
            await wait_until_idle(pilot)
        assert app.transcript.following
        session.push(e.TextDelta(text="the very end of it all"), node=last.node, run=last.run)
        await wait_until_rendered(pilot)
        assert "the very end" in plain(app)


@pytest.mark.parametrize("width", [100, 120, 159, 160, 200, 300])
async def test_plan_and_progress_have_a_quarter_to_three_tenths_of_the_width(width: int) -> None:
    app, session = app_for("plan")
    async with run_app(app, (width, 40)) as pilot:
        columns = app.columns
        plan, progress, chat = columns.plan.region, columns.progress.region, columns.transcript.region
        parts = [progress.width, plan.width]
        if width >= 160:
            assert chat.right <= plan.x and plan.right <= progress.x  # side by side, over the whole height
            assert plan.height == progress.height == chat.height
        else:
            assert plan.bottom <= progress.y and plan.x == progress.x
        assert all(width // 4 - 1 <= part <= width * 3 // 10 for part in parts)
        assert all(part >= 29 for part in parts)
        title = "a title that is as long as half of the screen, and that nothing cuts beside empty columns"[
            : width // 4 - 12
        ]
        session.push(e.UserMessageAdded(id="m9", text=title))
        session.push(e.RunStarted(message_id="m9", mode="direct", model="m"), run="run9")
        await wait_until_rendered(pilot)
        lines = [columns.progress.line_at(y) for y in range(len(columns.progress.rows))]
        assert any(title in line.text for line in lines if line)


def top_line(app: TuiAgentApp) -> str:
    transcript = app.transcript
    rows = [transcript.line_at(transcript.scroll_offset.y + number) for number in range(3)]
    return "\n".join(row.text if row else "" for row in rows)


@pytest.mark.parametrize("seed", range(3))
async def test_over_a_storm_the_reader_finds_his_line_again(seed: int) -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press(*["pageup"] * (2 + seed))
        await wait_until_idle(pilot)
        top = top_line(app)
        await storm(app, pilot, seed, (80, 24), grow=[], count=30)
        assert not app.transcript.following
        assert top_line(app) == top
        await pilot.press("f1")
        await storm(app, pilot, seed + 10, (80, 24), grow=[], count=20)
        app.theme = "tui-agent-light"
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert top_line(app) == top


@pytest.mark.timeout(240)
def test_on_a_terminal_a_storm_of_signals_ends_in_the_same_picture() -> None:
    size = (100, 30)
    terminal = Terminal("-m", "tests.tui.pty_app", "answered", "flowing", size=size)
    calm = Terminal("-m", "tests.tui.pty_app", "answered", "flowed", size=size)
    try:
        terminal.until(lambda: "flow" in terminal.text, 60)
        for number, (columns, lines) in enumerate(sizes(5, 150)):
            terminal.resize(max(2, columns), max(2, lines))
            if number % 5 == 0:
                terminal.drain()  # what is painted meanwhile is looked at by nobody
        terminal.resize(*size)
        terminal.until(lambda: "the flow ends" in terminal.text, 60)
        calm.until(lambda: "the flow ends" in calm.text, 60)
        calm.read(0.5)
        for columns, lines in sizes(6, 60):
            terminal.resize(max(2, columns), max(2, lines))
        terminal.read(0)
        terminal.screen.reset()  # a terminal keeps nothing of what it had no room for
        terminal.resize(*size)
        terminal.until(lambda: terminal.text == calm.text, 60)
        terminal.type("\x03")
        terminal.until(lambda: "again quits" in terminal.text, 60)
        terminal.type("\x03")
        assert terminal.wait(60) == 0
        assert terminal.is_sane()
    finally:
        terminal.close()
        calm.close()
