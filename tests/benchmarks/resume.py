"""How long a long session takes to be resumed (S3): `python -m tests.benchmarks.resume [MEGABYTES]`, 25 by default.

Prints where the time goes: opening the folder, recovery, the engine's state, the fold of all events, the way of the real
program from opening the session to the painted last screen and to all older parts, and a fork. Exits with 1 when
something is over its bar.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.doubles.fake_disk import FakeHaste
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.common.domain import ToolCall, ToolResult, Usage
from tui_agent.engine.core.state import EngineState, SessionStream, open_stream
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.storage import catalog, changes
from tui_agent.storage.folder import SessionFolder, find_session
from tui_agent.text import SecretMask
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView
from tui_agent.view.redactor import Redactor

BARS = {"last screen": 1.0, "fork": 2.0, "fork in the middle": 2.0}
"""Seconds (U1, S3)."""
WORDS = "Here is what I found in the module, and what I would change about it before the next release. "
FLAGS = {"provider": "scripted", "mode": "direct", "sandbox": "off"}


async def fill(folder: SessionFolder, size: int) -> int:
    """Write turns as the engine does, streamed word by word, until the journal has `size` bytes; the records."""
    stream, _ = await SessionStream.open(folder, calls=FakeHaste())
    assert isinstance(stream, SessionStream)
    stream.state = EngineState()
    stream.on_emit = stream.state.fold
    workspace = folder.info.workspace
    stream.emit(
        e.SessionOpened(
            id=folder.id, version="0", workspace=workspace, roots=(workspace,), provider="scripted", model="m",
            mode="direct", approval_mode="ask", trusted=True,
        )
    )  # fmt: skip
    turn = 0
    while folder.journal.stat().st_size < size:
        turn += 1
        _turn(stream, turn)
        if stream.state_due:
            stream.emit(e.StateSaved(state=stream.state.export()))
        if turn % 20 == 0:
            await stream.written()
    stream.emit(e.SessionClosed(reason="user"))
    await stream.close()
    return stream.last


def _turn(stream: SessionStream, turn: int) -> None:
    run, node = f"run-{turn}", f"r{turn}"
    stream.emit(e.UserMessageAdded(id=f"m{turn}", text=f"What about number {turn}?"), run=run)
    stream.emit(e.RunStarted(message_id=f"m{turn}", mode="direct", model="m"), run=run)
    for number in range(3):
        stream.emit(e.ReplyStarted(model="m", iteration=number + 1, messages=2, estimate=900), run=run, node=node)
        for _ in range(12):
            stream.emit(e.TextDelta(text=WORDS), run=run, node=node)
        call = ToolCall(id=f"c{turn}.{number}", name="read_file", arguments={"path": f"src/module_{number}.py"})
        ended = e.ReplyEnded(text=WORDS * 12, calls=(call,), stop="tool_calls", usage=Usage(), ms=2400)
        stream.emit(ended, run=run, node=node)
        stream.emit(e.ToolStarted(call=call, title="src/module.py", reads_only=True), run=run, node=call.id)
        text = "".join(f"{line:5} def function_{line}(value): return value * {turn}\n" for line in range(60))
        done = e.ToolFinished(call_id=call.id, name="read_file", result=ToolResult(success=True), text=text, ms=3)
        stream.emit(done, run=run, node=call.id)
        node += "x"
    stream.emit(e.RunEnded(outcome="done", text=WORDS, tool_calls=3), run=run)


async def measure(name: str) -> dict[str, float]:
    """Seconds for each part of the way, on a session that lies in the page cache."""
    figures: dict[str, float] = {}
    began = perf_counter()

    def lap(what: str) -> None:
        nonlocal began
        figures[what] = perf_counter() - began
        began = perf_counter()

    catalog.list_sessions(paths.data_dir())
    path = find_session(paths.sessions_dir(), name)
    lap("find")
    folder = SessionFolder.open(path)
    lap("folder")
    stream, _ = await open_stream(folder, SecretMask({}))
    lap("recovery and state")
    view, redactor, end = SessionView(), Redactor(), stream.last
    async for record in stream.follow(pieces=False):
        fold_record(view, record, redactor)
        if record.seq >= end:
            break
    lap("fold of all events")
    await stream.close()
    folder.close()
    figures["last screen"], figures["all older parts"] = await to_screen(name)
    began = perf_counter()
    entry = catalog.read_entry(path)
    changes.fork_session(entry)
    lap("fork")
    said = catalog.user_messages(entry)
    began = perf_counter()
    changes.fork_session(entry, said[len(said) // 2].id)
    lap("fork in the middle")
    return figures


async def to_screen(name: str) -> tuple[float, float]:
    """Seconds from a mounted program to the last screen of the session, and until it may be scrolled to its beginning."""
    from tui_agent.tui.app import TuiAgentApp
    from widgets.transcript import Transcript

    opened = await asyncio.to_thread(lambda: SessionOptions(resume=name, trust=True, flags=FLAGS))
    app = TuiAgentApp(lambda: open_session(opened))
    began = perf_counter()
    async with app.run_test(size=(120, 40)):
        while app.session is None or app.view.seq < app.session.replay_end or app._router.dirty:  # noqa: ASYNC110 - looked at from outside
            await asyncio.sleep(0.005)
        took = perf_counter() - began
        transcript = app.query_one(Transcript)
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert WORDS[:40] in shown, "it is not on the screen"
        few = len(transcript.blocks)
        while app._router._full_view is not None or app._router.dirty:  # noqa: ASYNC110 - looked at from outside
            await asyncio.sleep(0.005)
        whole = perf_counter() - began
        assert len(transcript.blocks) > few
        await app.session.close()
        app.exit(0)
    return took, whole


def main() -> int:
    """Build, measure and judge."""
    size = int(sys.argv[1] if len(sys.argv) > 1 else "25") << 20
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUI_AGENT_HOME"] = f"{home}/tui-agent"
        workspace = Path(home) / "work"
        workspace.mkdir()
        folder = SessionFolder.create(paths.sessions_dir(), workspace=workspace, model="m", mode="direct")
        records = asyncio.run(fill(folder, size))
        folder.close()
        print(f"{folder.journal.stat().st_size / 1e6:.1f} MB, {records} records")
        figures = asyncio.run(measure(folder.id))
    for name, value in figures.items():
        bar = BARS.get(name)
        told = f"   bar {bar * 1000:.0f} ms   {'TOO SLOW' if value > bar else 'ok'}" if bar else ""
        print(f"{name:20} {value * 1000:8.0f} ms{told}")
    return 1 if any(figures[name] > bar for name, bar in BARS.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
