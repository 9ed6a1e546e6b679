from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.mock import scenario, serve, step
from tests.engine.kit import opened
from tests.frontends.test_exec import Exec, server_flags
from tui_agent import events as e
from tui_agent.platform.locks import InUse, read_holder
from tui_agent.storage.catalog import fork, look, preview
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import JournalReader, records
from tui_agent.storage.lines import Line

HOLDER = """
import asyncio, sys
from pathlib import Path
from tui_agent import events as e
from tui_agent.engine.stream import EventStream
from tui_agent.storage.folder import SessionFolder

async def main(path):
    folder = SessionFolder.open(path)
    stream, _ = await EventStream.open(folder)
    print("open", flush=True)
    for line in sys.stdin:
        stream.emit(e.UserSaid(id=line.strip(), text="message " + line.strip()))
        await stream.written()
        print("written", flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


class Holder:
    """Another process that works in the session and says what it is told."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._heard() == "open\n"

    def say(self, key: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(key + "\n")
        self.process.stdin.flush()
        assert self._heard() == "written\n"

    def _heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = SessionFolder.create(tmp_path / "sessions", workspace=tmp_path, model="m", mode="direct")
    folder.close()
    return folder.path


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    other = Holder(path)
    yield other
    other.kill()


def hashes(path: Path) -> dict[str, str]:
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in path.iterdir() if one.is_file()}


def test_a20_a_running_session_is_read_along_and_copied_but_not_opened(path: Path, holder: Holder) -> None:
    reader = JournalReader(path / "events.jsonl")
    for number in range(5):
        holder.say(f"m{number}")
        new = [item.record().event for item in reader if isinstance(item, Line)]
        assert new == [e.UserSaid(id=f"m{number}", text=f"message m{number}")]
    assert "› message m4" in preview(look(path), 10)
    assert look(path).running
    before = hashes(path)
    with pytest.raises(InUse, match=f"in use by process {holder.process.pid} on {os.uname().nodename}"):
        SessionFolder.open(path)
    assert hashes(path) == before, "who is refused changes nothing"
    copy = path.parent / fork(look(path))
    assert [r.event.id for r in records(copy / "events.jsonl") if isinstance(r.event, e.UserSaid)] == [
        f"m{number}" for number in range(5)
    ]
    assert hashes(path) == before
    SessionFolder.open(copy).close()
    holder.say("m5")
    assert len(list(records(path / "events.jsonl"))) == 6


def test_a21_a_killed_process_leaves_its_session_to_the_next_at_once(path: Path) -> None:
    for number in range(5):
        other = Holder(path)
        other.say(f"k{number}")
        other.kill()
        folder = SessionFolder.open(path)
        holder = read_holder(path / "lock")
        assert holder is not None and holder.pid == os.getpid()
        folder.close()
    assert len(list(records(path / "events.jsonl"))) == 5


async def test_a20_the_refusal_says_what_can_be_done_instead(tmp_path: Path) -> None:
    run = Exec(tmp_path)
    async with serve(scenario("hi", step("hello", delay=60)), strict=True) as server:
        flags = server_flags(server, "openai")
        process = await run.start("hi", *flags)
        await server.wait_for_request(1)
        name = run.session().name
        second = await run("hi", "--resume", name, *flags)
        process.terminate()
        await asyncio.wait_for(process.communicate(), 60)
    assert second.code == 2
    assert f"process {process.pid} on " in second.err
    assert f"tail -f {run.session()}/chat_history.log" in second.err
    assert f"tui-agent sessions fork {name}" in second.err


async def test_a22_a_second_start_in_one_process_is_refused_too(tmp_path: Path, workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server, opened(server, workspace) as session:
        with pytest.raises(Exception, match="in use by process"):
            async with opened(server, workspace, resume=session.id):
                pass
