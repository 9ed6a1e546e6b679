from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import run_session
from tests.frontends.test_exec import ExecRunner, server_flags
from tui_agent import events as e
from tui_agent.platform.locks import InUse, read_holder
from tui_agent.storage.catalog import preview, read_entry
from tui_agent.storage.changes import fork_session
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import JournalReader, read_records
from tui_agent.storage.lines import JournalLine

HOLDER = """
import asyncio, sys
from pathlib import Path
from tui_agent import events as e
from tui_agent.engine.core.stream import EventStream
from tui_agent.storage.folder import SessionFolder

async def main(path):
    folder = SessionFolder.open(path)
    stream, _ = await EventStream.open(folder)
    print("open", flush=True)
    for line in sys.stdin:
        stream.emit(e.UserMessageAdded(id=line.strip(), text="message " + line.strip()))
        await stream.written()
        print("written", flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


class Holder:
    """Another process that works in the session and says what it is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
        new = [item.record().event for item in reader if isinstance(item, JournalLine)]
        assert new == [e.UserMessageAdded(id=f"m{number}", text=f"message m{number}")]
    assert "› message m4" in preview(read_entry(path), 10)
    assert read_entry(path).running
    before = hashes(path)
    with pytest.raises(InUse, match=f"in use by process {holder.process.pid} on {os.uname().nodename}"):
        SessionFolder.open(path)
    assert hashes(path) == before, "who is refused changes nothing"
    copy = path.parent / fork_session(read_entry(path))
    assert [r.event.id for r in read_records(copy / "events.jsonl") if isinstance(r.event, e.UserMessageAdded)] == [
        f"m{number}" for number in range(5)
    ]
    assert hashes(path) == before
    SessionFolder.open(copy).close()
    holder.say("m5")
    assert len(list(read_records(path / "events.jsonl"))) == 6


def test_a21_a_killed_process_leaves_its_session_to_the_next_at_once(path: Path) -> None:
    for number in range(5):
        other = Holder(path)
        other.say(f"k{number}")
        other.kill()
        folder = SessionFolder.open(path)
        holder = read_holder(path / "lock")
        assert holder is not None and holder.pid == os.getpid()
        folder.close()
    assert len(list(read_records(path / "events.jsonl"))) == 5


FORKER = """
import os, sys
from pathlib import Path
from tui_agent.platform.locks import InUse
from tui_agent.storage.folder import SessionFolder

folder = SessionFolder.open(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    try:
        SessionFolder.open(Path(sys.argv[1]))
    except InUse:
        folder._lock.release()
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
sys.stdin.read()
"""


def test_a23_a_forked_child_can_neither_take_the_lock_nor_give_it_back(path: Path) -> None:
    argv = [sys.executable, "-c", FORKER, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "7\n"
        with pytest.raises(InUse, match=f"process {process.pid} on"):
            SessionFolder.open(path)
        process.stdin.close()
    SessionFolder.open(path).close()


def test_a21_what_a_lock_file_says_locks_nothing(path: Path) -> None:
    mine = Holder(path)
    mine.say("m")
    (path / "copy").write_bytes((path / "lock").read_bytes())  # a living process, but no lock
    mine.kill()
    other = Holder(path.parent / fork_session(read_entry(path)))
    try:
        living = (other.path / "lock").read_bytes()
        for stale in (living, (path / "copy").read_bytes(), b"", b"\0" * 4096, b"{", b"\xff" * 9):
            (path / "lock").write_bytes(stale)
            (path / "lock").chmod(0o600)
            assert not read_entry(path).running
            SessionFolder.open(path).close()
        (path / "lock").unlink()
        SessionFolder.open(path).close()
    finally:
        other.kill()


async def test_a16_a21_after_a_kill_in_the_middle_of_a_command_the_next_start_goes_on_at_once(tmp_path: Path) -> None:
    run = ExecRunner(tmp_path)
    endless = scenario("go", step("", call("run_terminal_command", command="sleep 1000")), "stopped")
    async with serve(endless, scenario("hi", "hello"), strict=True) as server:
        flags = server_flags(server, "openai")
        first = await run.start("go", "--json", "--approve", "all", *flags)
        assert first.stdout is not None
        async for raw in first.stdout:
            if b'"tool.started"' in raw:
                break
        else:
            raise AssertionError("no command was begun")
        refused = await run("hi", "--resume", run.session().name, *flags)
        assert refused.code == 2 and "in use" in refused.err
        first.kill()
        await first.communicate()
        again = await run("hi", "--resume", run.session().name, "--json", *flags)
    assert again.code == 0, again.err
    assert [one["interrupted"] for one in again.of("session.recovered")] == [[endless_call(run)]]
    assert not again.of("tool.started"), "what was cut off is never begun anew"
    asked = json.dumps(server.requests[-1].messages)
    assert "run_terminal_command" in asked and "ended: the program was stopped" in asked


def endless_call(run: ExecRunner) -> str:
    journal = read_records(run.session() / "events.jsonl")
    return next(one.event.call.id for one in journal if isinstance(one.event, e.ToolStarted))


async def test_a20_the_refusal_says_what_can_be_done_instead(tmp_path: Path) -> None:
    run = ExecRunner(tmp_path)
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
    async with serve(scenario("hi", "hello"), strict=True) as server, run_session(server, workspace) as session:
        with pytest.raises(Exception, match="in use by process"):
            async with run_session(server, workspace, resume=session.id):
                pass
