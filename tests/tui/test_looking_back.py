from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.benchmarks.resume import FLAGS, fill
from tests.doubles.session import FakeSession
from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_search import searched, talk
from tests.tui.test_tree import tree
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.common.domain import RunAction, ToolCall, ToolResult
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.engine.session import Session
from tui_agent.events import Record, UserMessageAdded
from tui_agent.storage import journal
from tui_agent.storage.folder import SessionFolder
from tui_agent.tui import routing
from tui_agent.tui.app import TuiAgentApp
from widgets.transcript import Transcript


@pytest.fixture
async def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(journal, "SHORT_JOURNAL", 100_000)
    monkeypatch.setattr(journal, "TAIL_SIZE", 60_000)
    folder = SessionFolder.create(paths.sessions_dir(), workspace=tmp_path, model="m", mode="direct")
    await fill(folder, 400_000)
    folder.close()
    return folder.id


def visible(transcript: Transcript) -> list[str]:
    top, height = transcript.scroll_offset.y, transcript.scrollable_content_region.height
    lines = (transcript.line_at(y) for y in range(top, top + height))
    return [line.text if line is not None else "" for line in lines]


async def painted(app: TuiAgentApp, pilot: Pilot[int], *, whole: bool) -> None:
    async with asyncio.timeout(60):
        while (
            app.session is None
            or app.view.seq < app.session.replay_end
            or app._router.dirty
            or (whole and app._router._full_view is not None)
        ):
            await pilot.pause()


@pytest.mark.parametrize("keys", [(), ("pageup", "pageup")], ids=["at the end", "scrolled up"])
async def test_the_last_screen_comes_first_and_stays_when_older_parts_are_read(
    name: str, keys: tuple[str, ...]
) -> None:
    gate = asyncio.Event()

    async def opened() -> Session:
        session = await open_session(SessionOptions(resume=name, trust=True, flags=FLAGS))
        follow = session.follow

        async def held(after: int = 0) -> AsyncGenerator[Record, None]:
            await gate.wait()
            async for record in follow(after):
                yield record

        session.follow = held  # type: ignore[method-assign]  # the past is slow to come
        return session

    app = TuiAgentApp(opened)
    async with app.run_test(size=(120, 40)) as pilot:
        await painted(app, pilot, whole=False)
        transcript = app.query_one(Transcript)
        few, before = len(transcript.blocks), visible(transcript)
        assert few == len(app.view.items) and "Here is what I found" in "".join(before)
        await pilot.press(*keys)
        before = visible(transcript)
        gate.set()
        await painted(app, pilot, whole=True)
        gone = 0 if keys else 8  # lines that what is new pushes out
        assert "\n".join(before[gone:]) in "\n".join(visible(transcript))
        assert transcript.following == (not keys)
        assert len(transcript.blocks) == len(app.view.items) > few
        said = [item.text for item in app.view.items if isinstance(item, UserMessageAdded)]
        assert said == [f"What about number {number}?" for number in range(1, len(said) + 1)]
        assert app.query_one("#tree").rows  # type: ignore[attr-defined]  # the tree of progress
        await pilot.press("ctrl+home")
        assert "What about number 1?" in "".join(visible(transcript))
        assert app.session is not None
        await app.session.close()
        app.exit(0)


# --- bounded memory ---


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    monkeypatch.setattr(routing, "MAX_ITEMS", 60)
    monkeypatch.setattr(routing, "KEPT_ITEMS", 30)
    return 60, 30


TURNS = 60
"""Turns of three items each."""


async def work_on(pilot: Pilot[int], session: FakeSession, scene: build.Scene) -> None:
    """Let the turns happen while the program runs."""
    for number, record in enumerate(scene.records[len(session.records) :]):
        session.records.append(record)
        if number % 20 == 0:
            session.wake()
            await wait_until_rendered(pilot)
    session.wake()
    await wait_until_rendered(pilot)


async def test_a_long_session_keeps_only_its_end_in_memory(bounds: tuple[int, int]) -> None:
    scene = talk(TURNS)
    app, session = app_for(scene.records[:4])
    async with run_app(app) as pilot:
        most, seen = 0, list[str]()
        paint = app._router.paint

        def paint_and_count() -> None:
            nonlocal most
            before = visible(app.transcript)
            dropped = app.view.older
            paint()
            most = max(most, len(app.view.items))
            if app.view.older > dropped and before[-1] == visible(app.transcript)[-1]:
                seen.append("still")

        app._router.paint = paint_and_count  # type: ignore[method-assign]
        await work_on(pilot, session, scene)
        assert most <= bounds[0] + 20
        assert len(app.transcript.blocks) == len(app.view.items) == len(app.transcript._stack)
        assert app.view.older + len(app.view.items) == 3 * TURNS
        assert len(app.view.tree.nodes) <= 2 * len(app.view.items)
        assert f"answer {TURNS - 1}" in screen_text(app)
        assert app.transcript.following
        assert tree(app).rows[0] == -1  # earlier runs


async def test_paging_up_reads_what_was_dropped_without_a_gap(bounds: tuple[int, int]) -> None:
    scene = talk(TURNS)
    app, session = app_for(scene.records[:4])
    async with run_app(app, (80, 24)) as pilot:
        await work_on(pilot, session, scene)
        assert app.view.older
        lines = visible(app.transcript)
        while "question 0" not in "\n".join(lines):
            before = lines[:]
            await pilot.press("pageup")
            await wait_until_idle(pilot)
            top = visible(app.transcript)
            shared = next(n for n in range(1, len(top) + 1) if top[-n:] == lines[:n])
            lines = top[:-shared] + lines
            assert lines != before
        said = [line for line in lines if "question" in line or "answer" in line]
        assert [line.split()[-1] for line in said if "question" in line] == [str(n) for n in range(TURNS)]
        assert app.view.older == 0
        assert app.view.items[0] == app.transcript.blocks[0].item
        await pilot.press("ctrl+end")
        session.push(e.Notice(level="info", text="news", code="x"))
        await wait_until_rendered(pilot)
        assert app.view.older > 0
        assert f"answer {TURNS - 1}" in screen_text(app)


async def test_the_beginning_is_one_key_away(bounds: tuple[int, int]) -> None:
    scene = talk(TURNS)
    app, session = app_for(scene.records[:4])
    async with run_app(app, (80, 24)) as pilot:
        await work_on(pilot, session, scene)
        await pilot.press("ctrl+home")
        await wait_for(pilot, lambda: "question 0" in screen_text(app))
        assert app.transcript.scroll_offset.y == 0
        await pilot.press("pagedown", "pageup")
        await wait_until_idle(pilot)
        assert "question 0" in screen_text(app)


async def test_a_search_finds_what_was_dropped(bounds: tuple[int, int]) -> None:
    scene = talk(TURNS)
    app, session = app_for(scene.records[:4])
    async with run_app(app, (80, 24)) as pilot:
        await work_on(pilot, session, scene)
        await searched(pilot, app, "needle")
        assert f"{TURNS // 10} of {TURNS // 10}" in screen_text(app)
        for _ in range(TURNS // 10 - 1):
            await pilot.press("up")
            await wait_until_idle(pilot)
        assert "answer 3, with a needle" in screen_text(app)


async def test_looking_back_does_not_disturb_what_goes_on(bounds: tuple[int, int]) -> None:
    scene = talk(TURNS)
    app, session = app_for(scene.records[:4])
    async with run_app(app, (80, 24)) as pilot:
        await work_on(pilot, session, scene)
        call = ToolCall(id="c1", name="run_terminal_command", arguments={"command": "make"})
        session.push(e.RunStarted(message_id="m", mode="direct", model="m"), run="r9")
        session.push(e.ToolStarted(call=call, title="make", reads_only=False), node="c1", run="r9")
        for number in range(100):
            session.push(e.Notice(level="info", text=f"news {number}", code="x"))
        action = RunAction(command="make", cwd="/tmp")
        session.push(e.ApprovalRequested(id="q1", action=action, digest="d", why="w"), node="c1", run="r9")
        await wait_until_rendered(pilot)
        item, request = app.view.item("c1"), app.view.pending["q1"]
        assert item is not None and app.view.older
        await app.transcript.read_older()
        assert app.view.older == 0
        assert app.view.item("c1") is item and app.view.pending["q1"] is app.view.requests["q1"] is request
        session.push(e.ToolFinished(call_id="c1", name=call.name, result=ToolResult(success=True), text="made", ms=5))
        await wait_until_rendered(pilot)
        assert getattr(item, "text", "") == "made"


async def test_a_journal_without_its_beginning_is_reported(bounds: tuple[int, int]) -> None:
    scene = talk(TURNS)
    app, session = app_for(scene.records[:4])
    async with run_app(app, (80, 24)) as pilot:
        await work_on(pilot, session, scene)
        follow = session.follow
        session.follow = lambda after=0: follow(len(session.records) - 20)  # type: ignore[method-assign]
        await pilot.press("ctrl+home")
        await wait_for(pilot, lambda: "can't be read" in screen_text(app))
        assert len(app.transcript.blocks) == len(app.view.items)
        session.push(e.Notice(level="info", text="it goes on", code="x"))
        await pilot.press("ctrl+end")
        await wait_for(pilot, lambda: "it goes on" in screen_text(app))
