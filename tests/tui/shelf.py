"""Session folders for tests of the session picker."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.doubles.session import FakeSession
from tests.scenes import load
from tests.tui.kit import app_for
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.events import Record
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.lines import to_line
from tui_agent.tui.app import TuiAgentApp
from tui_agent.view.change import epoch_seconds

HOUR, DAY = 3600.0, 86400.0
OWN_ID = "2026-01-05T09:00:00.000+0000"
"""Id of the recorded session."""


def home_folder() -> Path:
    return paths.home_dir()


def current_folder() -> Path:
    return home_folder() / "work" / "exporter"


def other_folder() -> Path:
    return home_folder() / "work" / "site"


def saved_session(
    title: str,
    *said: tuple[str, str],
    ago: float,
    now: float,
    workspace: Path | None = None,
    id: str = "",
    running: bool = False,
    size: int = 0,
) -> SessionFolder:
    """A session in which this was said and answered; `size` is how many bytes its folder gets."""
    workspace = workspace or current_folder()
    workspace.mkdir(parents=True, exist_ok=True)
    start = datetime.fromtimestamp(now - ago - 60, UTC)
    folder = SessionFolder.create(
        paths.sessions_dir(), workspace=workspace, model="qwen2.5-coder:7b", mode="agent", now=start
    )
    if id:
        folder.path = folder.path.rename(folder.path.with_name(id))
    opened = e.SessionOpened(
        id=folder.path.name,
        version="0.0.0-test",
        workspace=str(workspace),
        roots=(str(workspace),),
        provider="ollama",
        model="qwen2.5-coder:7b",
        mode="agent",
        approval_mode="ask",
        trusted=True,
    )
    told: list[tuple[e.Event, str, str]] = [(opened, "", "")]
    for number, (question, answer) in enumerate(said, 1):
        run, node = f"run-{number}", f"r{number}"
        told += [
            (e.UserMessageAdded(id=f"m-{number}", text=question), "", ""),
            (e.RunStarted(message_id=f"m-{number}", mode="direct", model="qwen2.5-coder:7b"), run, ""),
            (e.ReplyStarted(model="qwen2.5-coder:7b", iteration=1, messages=2, estimate=900), run, node),
            (e.TextDelta(text=answer), run, node),
            (e.ReplyEnded(text=answer), run, node),
            (e.RunEnded(outcome="done", text=answer, ms=2000), run, ""),
        ]
    told += [(e.SessionTitled(title=title), "", "")] if title else []
    at = start.isoformat(timespec="milliseconds")
    with open(folder.path / "events.jsonl", "wb") as file:
        for seq, (event, run, node) in enumerate(told, 1):
            file.write(to_line(Record(seq=seq, at=at, event=event, run=run, node=node), 0))
    folder.save(id=folder.path.name, title=title)
    if not running:
        folder.close(now=start)
    total = sum(one.stat().st_size for one in folder.path.iterdir())
    if total < size:
        (folder.path / "padding").write_bytes(bytes(size - total))
    os.utime(folder.path / "events.jsonl", (now - ago, now - ago))
    return folder


def session_app(scene: str = "answered", **more: object) -> tuple[TuiAgentApp, FakeSession, float]:
    """Return an app with a session in `current_folder()`, the session, and the current time."""
    records = [
        msgspec.structs.replace(one, event=msgspec.structs.replace(one.event, workspace=str(current_folder())))
        if isinstance(one.event, e.SessionOpened)
        else one
        for one in load(scene)
    ]
    app, session = app_for(records, **more)  # type: ignore[arg-type]  # handed on as they are
    return app, session, epoch_seconds(records[-1].at) + 2.0


def sample_sessions(now: float, *, running: bool = True) -> dict[str, SessionFolder]:
    """Create sessions in two folders; return them by a short name."""
    csv = "It writes one row a record and quotes what needs quoting.\n\n- added tests\n- updated the guide"
    return {
        "own": saved_session("Explain the exporter", ("what is this?", "An exporter."), ago=30, now=now, id=OWN_ID, size=9_400),
        "csv": saved_session(
            "Export the table as CSV",
            ("export the table as CSV, and add a test for the empty one", "I will read it first."),
            ("quote cells that hold a semicolon", csv),
            ago=2 * HOUR,
            now=now,
            size=48_400,
        ),
        "crash": saved_session(
            "Find out why the import crashes",
            ("it crashes on a file from Windows", "The byte order mark is taken for a part of the first name."),
            ago=DAY + HOUR,
            now=now,
            size=1_240_000,
        ),
        "open": saved_session(
            "Review the new date parser", ("review it", "Looks good."), ago=3 * DAY, now=now, running=running, size=7_400
        ),
        "site": saved_session(
            "Colours of the landing page",
            ("make the page calmer", "Fewer colours, and the table of prices is a CSV now."),
            ago=5 * DAY,
            now=now,
            workspace=other_folder(),
            size=20_400,
        ),
        "old": saved_session("", ago=400 * DAY, now=now, size=5_400),
    }  # fmt: skip
