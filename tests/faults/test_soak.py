"""Hours of work while something always goes wrong. Seconds by default; `TUI_AGENT_SOAK=28800` for a night.

With `pytest -s` it prints memory, open files and threads each minute. `tests/benchmarks/soak.py` is the same on the screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import random
import threading
import time
from pathlib import Path

import pytest

from tests.doubles.job import TASK, job_scenario, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.faults.syscalls import Machine, Plan
from tests.faults.visit import told
from tui_agent.common import paths
from tui_agent.engine.session import Session
from tui_agent.storage.journal import read_records

SECONDS = float(os.environ.get("TUI_AGENT_SOAK", "4"))
EVERY = min(30.0, SECONDS / 12)
"""Seconds between two faults."""
SERVER = ("503:times=1", "drop:after=40,times=1", "error:body=oops,times=1", "500:times=2")
DISK = ((("write",), errno.ENOSPC), (("fdatasync",), errno.EIO), (("open", "openat2"), errno.EMFILE))
NOISY = scenario("noise", step("", call("run_terminal_command", command="seq 20000; sleep 0.05")), "heard")
ENDLESS = scenario("wait", step("", call("run_terminal_command", command="sleep 600")), "waited")


def mine() -> tuple[int, int, int]:
    """Open files, KiB of memory, dead children that nobody asked about."""
    gc.collect()
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4
    zombies = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            zombies += name.isdigit() and state[0] == "Z" and int(state[1]) == os.getpid()
    return len(os.listdir("/proc/self/fd")), memory, zombies


def print_usage(minute: int, folder: Path) -> None:
    files, memory, _zombies = mine()
    journal = (folder / "events.jsonl").stat().st_size >> 20
    print(
        f"{minute:4} min  {memory:,} KiB  {files} files  {threading.active_count()} threads  {journal} MiB journal",
        flush=True,
    )


async def one_message(session: Session, watch: SessionDriver, chance: random.Random) -> None:
    text = chance.choice((TASK, "noise", "wait", "who are you?"))
    await session.send(text)
    if text == "wait" or chance.random() < 0.2:
        await asyncio.sleep(chance.random() / 5)  # wherever it is by then
        await session.interrupt()
    async with asyncio.timeout(120):
        await watch.ended()
        await session.wait()


@pytest.mark.nightly
@pytest.mark.timeout(SECONDS * 2 + 300)
async def test_i10_hours_of_faults_leave_nothing_behind(tmp_path: Path) -> None:
    workspace, chance = make_workspace(tmp_path / "work"), random.Random(10)
    name: str | None = None
    faults = 0
    before: tuple[int, int, int] | None = None
    minutes, began = 0, time.monotonic()
    ends, struck = time.monotonic() + SECONDS, 0.0
    flags = {"sandbox": "off", "approval_mode": "auto"}
    with Machine(paths.sessions_dir()) as machine:
        async with serve(job_scenario(), NOISY, ENDLESS, strict=True, keep=20) as server:
            while time.monotonic() < ends:
                async with run_session(server, None if name else workspace, resume=name, flags=flags) as session:
                    name, watch = session.id, SessionDriver(session)
                    for _ in range(chance.randint(2, 5)):
                        if time.monotonic() - struck > EVERY:
                            struck = time.monotonic()
                            faults += 1
                            server.misbehave(chance.choice(SERVER))
                            names, error = chance.choice(DISK)
                            machine.calls.clear()
                            machine.plan = Plan(at=chance.randint(1, 4), names=names, error=error)
                        await one_message(session, watch, chance)
                        machine.heal()
                    assert session.folder.is_dir()
                before = before or mine()
                if time.monotonic() - began >= 60 * minutes:
                    print_usage(minutes, session.folder)
                    minutes += 1
                folder = session.folder
    after = mine()
    assert before is not None
    assert faults and machine.fired
    assert abs(after[0] - before[0]) <= 5, "files are left open"
    assert after[2] == 0, "dead children are left"
    hours = max(1.0, SECONDS / 3600)
    assert after[1] < before[1] * (1 + 0.1 * hours) + 40_000, "memory grows"
    found = list(read_records(folder / "events.jsonl"))
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert (folder / "chat_history.log").read_text("utf-8") == told(found)
