from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.nightly import sampled
from tests.waiting import wait_for
from tui_agent.events import SessionRecovered, UserMessageAdded
from tui_agent.storage import catalog

KILLS = int(os.environ.get("TUI_AGENT_KILLS", "100"))
"""Kills of the nightly run; other runs do a twentieth of them."""
GROUPS = 20
TALK = scenario("how are you", "well, thank you")


async def kill_at(server: MockServer, home: Path, workspace: Path, line: int) -> list[dict[str, Any]]:
    """Kill a process when it has printed `line` lines; return the records that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", "exec", TASK, "--json", "--approve", "all", "--trust",
        "-C", str(workspace), "--provider", "openai", "--base-url", server.url + "/v1", "--model", "mock-model",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment(home), cwd=home, limit=2**24,
    )  # fmt: skip
    assert process.stdout is not None
    printed: list[bytes] = []
    async for raw in process.stdout:
        printed.append(raw)
        if len(printed) == line:
            process.send_signal(signal.SIGKILL)
    _, err = await process.communicate()
    assert b"Traceback" not in err
    if len(printed) >= line:
        assert process.returncode in (-signal.SIGKILL, 0)
    return [json.loads(raw) for raw in printed if raw.endswith(b"\n")]


def records_of(journal: Path) -> list[dict[str, Any]]:
    """The readable records of a journal, whatever its end looks like."""
    read = []
    for raw in journal.read_bytes().split(b"\n"):
        try:
            read.append(json.loads(raw))
        except ValueError:
            continue
    return read


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", sampled(range(GROUPS), 1))
async def test_killed_at_a_random_point_nothing_printed_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    chance = random.Random(group)
    killed = 0
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TUI_AGENT_HOME", str(home / "tui-agent"))
    for turn in range(KILLS // GROUPS):
        workspace = make_workspace(tmp_path / f"work{turn}")
        async with serve(job_scenario(), TALK, strict=True, pace=0.001) as server:
            printed = await kill_at(server, home, workspace, chance.randint(1, 40))
            (entry,) = catalog.list_sessions(home / "tui-agent", workspace)
            journal = entry.path / "events.jsonl"
            saved = [record["seq"] for record in records_of(journal)]
            assert len(saved) == len(set(saved))
            assert {record["seq"] for record in printed} <= set(saved)
            assert saved == sorted(saved)
            killed += printed[-1]["type"] != "session.closed"

            async with run_session(server, workspace, resume=entry.id) as session:
                watch = SessionDriver(session)
                await session.send("how are you")
                assert (await watch.ended()).text == "well, thank you"
                shown = [record async for record in replay(session)]
            was_sent = any(record["type"] == "user.said" for record in printed)
            assert any(isinstance(r.event, UserMessageAdded) and r.event.text == TASK for r in shown) or not was_sent
            started = {r["node"] for r in printed if r["type"] == "tool.started"}
            ended = {r["node"] for r in records_of(journal) if r["type"] == "tool.finished"}
            reported = {node for r in shown if isinstance(r.event, SessionRecovered) for node in r.event.interrupted}
            assert started <= ended | reported
            assert not [exchange for exchange in server.requests if exchange.status == 400]
    assert killed > KILLS // GROUPS // 2


async def replay(session: Any) -> Any:
    last = session.last
    async for record in session.follow():
        yield record
        if record.seq >= last:
            return


async def run_program(home: Path, *arguments: str) -> tuple[int | None, str]:
    """Run the program; return its exit code and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment(home), cwd=home,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()


def processes_of(command: str) -> list[int]:
    """The ids of the processes with this command line."""
    wanted = command.replace(" ", "\0").encode() + b"\0"
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == wanted:
                found.append(int(file.parent.name))
    return found


def files_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("continued", [False, True], ids=["undo alone", "undo after exec --resume"])
async def test_what_a_command_did_before_a_kill_is_listed_and_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, continued: bool
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (workspace / "keep.txt").write_text("keep\n")
    sleep = f"sleep 60.{os.getpid()}"
    command = f"echo part > part.txt; echo zap > keep.txt; {sleep}"
    work = scenario("work", step("", call("run_terminal_command", command=command)), "done")
    place = ["-C", str(workspace)]
    async with serve(work, TALK, strict=True) as server:
        connection = ["--provider", "openai", "--base-url", server.url + "/v1", "--model", "mock-model"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", "exec", "work", "--approve", "all", "--trust", *place, *connection,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=environment(home), cwd=home,
        )  # fmt: skip
        try:
            await wait_for(lambda: processes_of(sleep))
            process.kill()
            await process.wait()
            await wait_for(lambda: not processes_of(sleep))
        finally:
            for left in processes_of(sleep):
                os.kill(left, signal.SIGKILL)
        assert files_in(workspace) == {"keep.txt": "zap\n", "part.txt": "part\n"}
        if continued:
            (entry,) = catalog.list_sessions(home / "tui-agent", workspace)
            code, output = await run_program(
                home, "exec", "how are you", "--resume", entry.id, "--trust", *place, *connection
            )
            assert code == 0, output
        code, listed = await run_program(home, "undo", "--list", *place)
        assert code == 0 and "A part.txt  +1 -0" in listed and "M keep.txt  +1 -1" in listed
        code, _ = await run_program(home, "undo", *place)
        assert code == 0
        assert files_in(workspace) == {"keep.txt": "keep\n"}
        code, again = await run_program(home, "undo", *place)
        assert code == 1 and "Nothing to undo" in again
