from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tests.doubles.job import BROKEN, FIXED, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.faults.syscalls import Machine, Plan
from tests.faults.visit import reopened, visit
from tui_agent.common import paths
from tui_agent.common.domain import Answer
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.stream import EventStream
from tui_agent.events import Event, UserMessageAdded
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import read_records

EDIT = call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")
GO = scenario("go", step("", EDIT), "done")
AGAIN = scenario("once more", step("", call("read_file", path="adder.py")), step("", EDIT), "mended")


@pytest.mark.parametrize(
    ("names", "error"),
    [(("write",), errno.ENOSPC), (("fdatasync", "fsync"), errno.EIO), (("write", "open"), errno.EROFS)],
    ids=["full", "broken", "read-only"],
)
async def test_a10_a11_a12_nothing_is_done_that_can_not_be_saved_and_it_goes_on_by_itself(
    tmp_path: Path, names: tuple[str, ...], error: int
) -> None:
    workspace = make_workspace(tmp_path / "work")
    said: list[str | None] = []
    with Machine(paths.sessions_dir()) as machine:

        def answer(_: Event) -> Answer:
            machine.plan = Plan(at=1, names=names, error=error, lasting=True)
            return Answer(verdict="approve")

        async with serve(GO, AGAIN, strict=True) as server, run_session(server, workspace) as session:
            session.watch_saving(said.append)
            watch = SessionDriver(session, answer)
            ended = asyncio.create_task(watch.ended())
            await session.send("go")
            await session.wait()
            assert machine.fired
            assert (workspace / "adder.py").read_text() == BROKEN, "an edit was made that is not on disk"
            assert said and said[-1] is not None and "failed" in said[-1]
            machine.heal()
            outcome = await ended
            assert outcome.outcome == "failed"
            assert "nothing can be saved" in outcome.text
            watch = SessionDriver(session)
            await session.send("once more")
            await watch.until(
                lambda record: isinstance(record.event, UserMessageAdded) and record.event.text == "once more"
            )
            assert (await watch.ended()).text == "mended"
            assert said[-1] is None
            journal = session.folder / "events.jsonl"
    assert (workspace / "adder.py").read_text() == FIXED
    numbers = [record.seq for record in read_records(journal)]
    assert numbers == list(range(1, len(numbers) + 1)), "what was said meanwhile was kept and written later"


async def test_a10_a_session_with_a_torn_end_opens_on_a_full_disk_and_is_healed_when_there_is_room(
    tmp_path: Path,
) -> None:
    sessions = tmp_path / "sessions"
    with Machine(tmp_path) as machine:
        before = await visit(sessions, "a")
        (path,) = sessions.iterdir()
        for name, missing in (("events.jsonl", 7), ("chat_history.log", 300)):
            os.truncate(path / name, (path / name).stat().st_size - missing)
        folder = SessionFolder.open(path)
        machine.plan = Plan(at=1, names=("write",), error=errno.ENOSPC, lasting=True)
        stream, recovered = await EventStream.open(folder)
        assert recovered.healed
        assert machine.fired >= 2
        stream.emit(UserMessageAdded(id="later", text="said on a full disk"))
        with pytest.raises(JournalBroken, match="No space left"):
            await stream.durable()
        machine.heal()
        await stream.close()
        folder.close()
        after = await reopened(sessions, [*before.promises, "durable later"], before.goals)
    assert after is not None and after.said[-1] == "later"
