from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.test_stream import told
from tests.nightly import repetitions
from tui_agent.engine.core.stream import EventStream
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import Damage

WRITER = """
import asyncio, os, sys
from pathlib import Path
from tui_agent import events as e
from tui_agent.engine.core.stream import EventStream
from tui_agent.storage.folder import SessionFolder

async def main(path):
    folder = SessionFolder.open(path)
    stream, found = await EventStream.open(folder)
    if found.event():
        stream.emit(found.event())
    async def acknowledge():
        async for record in stream.follow(after=found.last):
            os.write(1, b"%d\\n" % record.seq)
    follower = asyncio.create_task(acknowledge())
    number = 0
    while True:
        number += 1
        if number % 50 == 0:
            stream.emit(e.StateSaved(state={"number": number}))
        elif number % 7 == 0:
            stream.emit(e.UserMessageAdded(id="m", text=f"message {number} \\u00fc"))
        else:
            stream.emit(e.TextDelta(text=f"word {number} " * (number % 40)), node="r")
        if number % 5 == 0:
            await stream.durable()
        await asyncio.sleep(0)

asyncio.run(main(Path(sys.argv[1])))
"""


def run_and_kill(path: Path, acknowledgements: int) -> list[int]:
    """Numbers that were shown by a process that is killed at some point after so many of them."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    output = b""
    while output.count(b"\n") < acknowledgements:
        data = os.read(child.stdout.fileno(), 4096)
        assert data, "the writer ended by itself"
        output += data
    child.send_signal(signal.SIGKILL)
    while data := os.read(child.stdout.fileno(), 4096):
        output += data
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    return [int(line) for line in output.split(b"\n")[:-1]]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", repetitions(8, 20))
async def test_kills_lose_and_double_nothing_that_was_shown(tmp_path: Path, kills: int) -> None:
    folder = SessionFolder.create(tmp_path / "sessions", workspace=tmp_path, model="m", mode="agent")
    folder.close()
    chance = random.Random(7)
    shown: list[int] = []
    for _ in range(kills):
        new = run_and_kill(folder.path, chance.randrange(1, 150))
        assert new == list(range(new[0], new[0] + len(new)))
        assert not shown or new[0] > shown[-1], "no number is used twice"
        shown += new
    folder = SessionFolder.open(folder.path)
    stream, _ = await EventStream.open(folder)
    await stream.close()
    items = list(JournalReader(folder.journal))
    got = [item.record() for item in items if not isinstance(item, Damage)]
    assert [record.seq for record in got] == list(range(1, got[-1].seq + 1))
    assert set(shown) <= {record.seq for record in got}
    assert sum(isinstance(item, Damage) for item in items) <= kills
    assert folder.log.read_text(encoding="utf-8") == told(got), "each record is told once"
    folder.close()
