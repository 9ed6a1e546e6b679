from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.benchmarks.resume import FLAGS, fill
from tui_agent.common import paths
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.engine.session import Session
from tui_agent.events import Record, UserMessageAdded
from tui_agent.storage import journal
from tui_agent.storage.folder import SessionFolder
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

        async def held(after: int = 0) -> AsyncIterator[Record]:
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
