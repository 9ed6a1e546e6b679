from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import MockServer, scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tests.nightly import sampled
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
