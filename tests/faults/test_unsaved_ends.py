"""How the program ends when something fails: never silently, and never with success if the session is lost (L2, L8)."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from tests.doubles.job import environment
from tests.doubles.mock import scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tests.nightly import sampled
from tests.tui.kit import app_for, run_app, screen_text, wait_for
from tui_agent import events as e
from tui_agent.__main__ import main
from tui_agent.common import paths
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.session_copy import Unsaved
from tui_agent.storage.folder import JOURNAL
from tui_agent.storage.journal import read_records
from tui_agent.tui import run

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/events.jsonl")
FAILURES = (FULL, RuntimeError("a bug"))
PLACES = (
    "tui_agent.__main__.session_options",
    "tui_agent.__main__.command_parser",
    "tui_agent.frontends.headless.open_session",
    "tui_agent.frontends.headless.StopSignals",
    "tui_agent.frontends.headless.ExecText.show",
    "tui_agent.engine.opening._resolve_target",
    "tui_agent.engine.opening._load_settings",
    "tui_agent.engine.opening._connect",
    "tui_agent.engine.opening._open_folder",
    "tui_agent.engine.opening.open_stream",
    "tui_agent.engine.opening.start_debug_log",
    "tui_agent.engine.opening._Opening.create_session",
    "tui_agent.engine.opening._Opening.start",
    "tui_agent.engine.opening.load_grants",
    "tui_agent.engine.session.Session.send",
    "tui_agent.engine.session.Session.wait",
    "tui_agent.engine.session.Session.close",
    "tui_agent.engine.session.Session.follow",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize("place", PLACES)
def test_exec_ends_with_a_sentence_wherever_it_fails(
    workspace: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    for failure in FAILURES:
        with patch(place, side_effect=failure):
            code = main(
                ["exec", "hello", "-C", str(workspace), "--provider", "scripted", "--mode", "direct", "--trust"]
            )
        err = capsys.readouterr().err
        assert code != 0, failure
        assert err.splitlines()[-1].startswith("tui-agent: ") and "Traceback" not in err, (failure, err)


@pytest.mark.parametrize("sizes", sampled([(0, 12_000), (3_000, 30_000)], 1), ids=str)
async def test_the_program_ends_with_a_sentence_when_files_can_not_grow(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    async def end(size: int, *arguments: str) -> None:
        home = tmp_path / f"{arguments[0]}-{size}"
        home.mkdir()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", *arguments, "--demo", env=environment(home) | {"TUI_AGENT_MODE": "agent", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )  # fmt: skip
        async with asyncio.timeout(60):
            _, err = await process.communicate(b"Fix the word count\n" if arguments[0] == "repl" else b"")
        assert process.returncode and b"tui-agent: " in err and b"Traceback" not in err, (size, arguments, err)

    for size in sizes:
        await end(size, "exec", "--approve", "all")
    await end(3_000, "repl")


async def one_run(workspace: Path, break_it: Callable[[Any], object]) -> tuple[Unsaved | None, Path, bool]:
    async with serve(scenario("", "a long answer"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("hello")
            await watch.ended()
            break_it(session)
        return session.unsaved, session.folder, session.can_be_resumed()


async def test_a_session_that_is_saved_leaves_nothing_to_report(workspace: Path) -> None:
    unsaved, _, resumable = await one_run(workspace, lambda session: None)
    assert unsaved is None and resumable


@pytest.mark.parametrize("deleted", ["folder", "data"])
async def test_a_deleted_session_is_written_again_and_can_be_resumed(workspace: Path, deleted: str) -> None:
    def delete(session: Any) -> None:
        shutil.rmtree(session.folder if deleted == "folder" else paths.data_dir())

    unsaved, folder, resumable = await one_run(workspace, delete)
    assert unsaved is not None and unsaved.resumable and unsaved.copy == folder and resumable
    assert "written again" in str(unsaved)
    async with serve(scenario("", "ok"), strict=True) as server:
        async with run_session(server, None, resume=folder.name) as session:
            texts = [
                record.event.text for record in session._stream.records() if isinstance(record.event, e.ReplyEnded)
            ]
    assert "a long answer" in texts


async def test_what_can_not_be_saved_is_copied_elsewhere(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    def fill(session: Any) -> None:
        async def broken(seq: int | None = None) -> None:
            raise JournalBroken("The disk is full.")

        monkeypatch.setattr(session._stream, "durable", broken)

    unsaved, folder, resumable = await one_run(workspace, fill)
    assert (folder / JOURNAL).exists() and not resumable
    assert unsaved is not None and not unsaved.resumable
    assert unsaved.copy == tmp_path / "home" / f"tui-agent-{folder.name}"
    assert any(isinstance(record.event, e.RunEnded) for record in read_records(unsaved.copy / JOURNAL))
    assert "The disk is full. A complete copy is in" in str(unsaved) and str(folder) in str(unsaved)


async def test_an_empty_session_leaves_no_copy(workspace: Path) -> None:
    async with serve(scenario("", "ok"), strict=True) as server, run_session(server, workspace) as session:
        shutil.rmtree(session.folder)
    assert session.unsaved is None and not session.can_be_resumed()


async def test_a_failure_from_before_somebody_watched_is_reported(workspace: Path) -> None:
    async with serve(scenario("", "ok"), strict=True) as server, run_session(server, workspace) as session:
        with patch.object(EventStream, "failure", "The disk is full."):
            heard: list[str | None] = []
            session.watch_saving(heard.append)
    assert heard == ["The disk is full."]


async def test_a_request_that_can_not_be_written_is_not_waited_for(workspace: Path) -> None:
    async with serve(scenario("", "ok"), strict=True) as server, run_session(server, workspace) as session:

        async def broken(seq: int | None = None) -> None:
            raise JournalBroken("The disk is full.")

        with patch.object(session._stream, "written", broken), pytest.raises(JournalBroken):
            async with asyncio.timeout(20):
                await session._approvals.question("Go on?", (), run="", node="")


async def test_quitting_while_nothing_is_saved_warns_first() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        app.activity.set_texts(trouble="The disk is full.")
        await pilot.press(*"/quit", "enter")
        await wait_for(pilot, lambda: "this session is not saved" in screen_text(app))
        assert app.return_value is None
        await pilot.press(*"/quit", "enter")
        await wait_for(pilot, lambda: app.return_value == 0)


def test_after_the_screen_the_loss_is_reported_and_no_resume_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    def app(**parts: Any) -> Any:
        session = SimpleNamespace(id="s-1", **parts)
        composer = SimpleNamespace(exit_message="")
        return SimpleNamespace(failure="", composer=composer, session=session, resumable=True, return_value=0)

    run._print_exit_messages(app(unsaved=Unsaved("The disk is full.", None, False), can_be_resumed=lambda: False))
    err = capsys.readouterr().err
    assert "This session is not saved: The disk is full." in err and "Resume with" not in err
    run._print_exit_messages(app(unsaved=None, can_be_resumed=lambda: True))
    assert "Resume with: tui-agent --resume s-1" in capsys.readouterr().err
