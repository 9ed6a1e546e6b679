"""A session that goes on in another process asks the model byte for byte what it would have asked (S3, K1)."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import TASK, job_scenario, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.nightly import sampled
from tui_agent.common.domain import Answer, RunAction
from tui_agent.engine.session import Session
from tui_agent.events import ApprovalRequested, Event, PlanDocChanged, SessionOpened, SessionRecovered

ROOT = Path(__file__).parents[2]
NOTES = "first note ü\nsecond note\n"
TALK: dict[str, tuple[Any, ...]] = {
    "look at the notes": (step("", call("read_file", path="notes.txt")), "Two notes."),
    "write the notes anew": (
        step("", call("write_file", path="notes.txt", content="one note\n")),
        step("", call("edit_file", path="notes.txt", old_string="one", new_string="a single")),
        "There is one note.",
    ),
    "plan it": (step("", call("update_plan", criteria_added=["The notes are short"])), "It is in the plan."),
    "touch it": (step("", call("run_terminal_command", command="touch made; ls")), "You did not want that."),
    "what was it about?": ("The notes.",),
    "and now?": (step("", call("read_file", path="adder.py"), call("list_files")), "?", "All is well."),
}
MESSAGES = (TASK, *TALK)
ID = re.compile(r'(?<="id": )"[a-z0-9]{9}"|(?<="tool_call_id": )"[a-z0-9]{9}"')
TOOK = re.compile(r"(?<=in )\d+\.\d+s")
FLAGS = {"sandbox": "off", "approval_mode": None}


def answer(event: Event) -> Answer:
    touches = (
        isinstance(event, ApprovalRequested) and isinstance(event.action, RunAction) and "touch" in event.action.command
    )
    return Answer(verdict="reject", text="leave it") if touches else Answer(verdict="approve")


async def say(session: Session, *texts: str) -> None:
    watch = SessionDriver(session, answer)
    for text in texts:
        await session.send(text)
        ended = await watch.ended()
        assert ended.outcome in ("done", "refused"), ended
        proposed = watch.of(PlanDocChanged)[-1:]
        if proposed and proposed[0].pending:  # what nobody decided about does not outlive the process
            await session.settle_plan(True, proposed[0].sha256)
        await session.wait()


async def in_one_go(server: MockServer, workspace: Path) -> None:
    async with run_session(server, workspace, flags=FLAGS) as session:
        await say(session, *MESSAGES)


async def closed_after_each(server: MockServer, workspace: Path) -> None:
    name: str | None = None
    for text in MESSAGES:
        async with run_session(server, None if name else workspace, resume=name, flags=FLAGS) as session:
            await say(session, text)
            name = session.id


async def torn_after_each(server: MockServer, workspace: Path) -> None:
    """As a crash in the middle of a write leaves it: half a record at the end."""
    name: str | None = None
    for text in MESSAGES:
        async with run_session(server, None if name else workspace, resume=name, flags=FLAGS) as session:
            if name:
                told = [event.damaged async for event in recoveries(session)]
                assert told[-1:] == [1], "the damage is told"
            await say(session, text)
            name = session.id
        tear(session.folder / "events.jsonl")


def tear(journal: Path) -> None:
    with journal.open("ab") as file:
        file.write(b'{"v":1,"seq":999,"at":"2026-01-07T10:23:21.045Z","type":"user.said","da')


async def recoveries(session: Session) -> AsyncIterator[SessionRecovered]:
    async for record in session.follow(session.replay_end):
        if isinstance(record.event, SessionRecovered):
            yield record.event
        if isinstance(record.event, SessionOpened):
            return


DRIVER = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from tests.engine.kit import opened
from tests.faults.test_same_requests import FLAGS, say

async def main(url, workspace, resume, text):
    place = None if resume else Path(workspace)
    async with opened(SimpleNamespace(url=url), place, resume=resume or None, flags=FLAGS) as session:
        await say(session, text)
        print(session.id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def killed_after_each(server: MockServer, workspace: Path) -> None:
    name = ""
    for text in MESSAGES:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DRIVER, server.url, str(workspace), name, text, cwd=ROOT,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        name = (await process.stdout.readline()).decode().strip()
        if not name:
            raise AssertionError((await process.stderr.read()).decode()[-3000:])
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        assert process.returncode == -signal.SIGKILL


@asynccontextmanager
async def served() -> AsyncIterator[MockServer]:
    async with serve(job_scenario(), *(scenario(said, *steps) for said, steps in TALK.items()), strict=True) as server:
        yield server


def ground(workspace: Path) -> Path:
    shutil.rmtree(workspace, ignore_errors=True)
    make_workspace(workspace)
    (workspace / "notes.txt").write_text(NOTES, encoding="utf-8")
    return workspace


async def bodies(way: Any, workspace: Path) -> list[str]:
    async with served() as server:
        await way(server, ground(workspace))
        assert (workspace / "notes.txt").read_text("utf-8") == "a single note\n"
        return [comparable(json.dumps(exchange.body)) for exchange in server.requests]


def comparable(body: str) -> str:
    """Ids of calls are random: each as the number of its first place. And how long the tests took differs anyway."""
    known: dict[str, str] = {}
    return TOOK.sub("in a moment", ID.sub(lambda found: known.setdefault(found[0], f'"call {len(known)}"'), body))


@pytest.mark.parametrize(
    "way",
    sampled([closed_after_each, killed_after_each, torn_after_each], [torn_after_each]),
    ids=lambda way: way.__name__,
)
async def test_a05_a_resumed_session_asks_what_it_would_have_asked(way: Any, workspace: Path) -> None:
    expected = await bodies(in_one_go, workspace)
    found = await bodies(way, workspace)
    assert len(expected) > 2 * len(TALK)
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        seen = slice(max(0, at - 100), at + 300)
        assert one == other, f"request {number} from {at}:\n{one[seen]}\n{other[seen]}"
    assert len(expected) == len(found)
