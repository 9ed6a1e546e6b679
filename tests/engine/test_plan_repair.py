from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import MockServer, scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import side_reply
from tui_agent.common.domain import Answer
from tui_agent.engine.session import Session
from tui_agent.events import Event, Notice, PlanDocChanged, PlanDocConflict, PlanDocResolved

REPAIR = "can't be read any more"
MENDED = "# Plan: Ship it\n\n## Acceptance Criteria\n- [x] It is tested\n\n## Mine\nmy note\n"
BROKEN = [
    b"---\nstatus: [planning\n---\n# Plan: Ship it\n- [x] It is tested\nmy note\n",
    b"# Plan: Caf\xe9\n## Acceptance Criteria\n- [x] It is tested\n",
    b"tested: Ship it, my no",
]
OURS = Answer(verdict="approve", data={"take": "ours"})
THEIRS = Answer(verdict="approve", data={"take": "theirs"})
HELLO = scenario("hello", "Hello.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def asked(server: MockServer) -> list[Any]:
    return [item for item in server.requests if REPAIR in str(item.messages[0]["content"])]


async def broken(session: Session, watch: SessionDriver, data: bytes) -> Path:
    doc = session.folder / "plan_doc.md"
    doc.write_bytes(data)
    await watch.until_event(Notice, code="plan_doc.unread")
    return doc


def saved(folder: Path) -> list[bytes]:
    return [item.read_bytes() for item in folder.glob("plan_doc.aside-*.md")]


@pytest.mark.parametrize("data", BROKEN, ids=["front matter", "no UTF-8", "torn"])
async def test_a_broken_document_is_repaired_by_the_model_and_written_when_the_user_accepts(
    workspace: Path, data: bytes
) -> None:
    async with serve(side_reply(REPAIR, f"```markdown\n{MENDED}```"), HELLO, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "direct"}) as session:
            result: list[bytes] = []

            def answer(event: Event) -> Answer:
                result.append((session.folder / "plan_doc.md").read_bytes())
                return OURS

            watch = SessionDriver(session, answer)
            doc = await broken(session, watch, data)
            await session.send("hello")
            await watch.ended()
            assert await session.edit_plan(doc.read_text("utf-8").replace("my note", "my notes"))
            folder = session.folder
    (conflict,) = watch.of(PlanDocConflict)
    assert conflict.ours == MENDED and "tested" in conflict.theirs
    assert result == [data] and saved(folder) == [data]
    assert [item.text for item in watch.of(PlanDocChanged) if item.by == "repair"] == [MENDED]
    assert doc.read_text("utf-8").endswith(MENDED.replace("my note", "my notes"))
    assert len(asked(server)) == 1 and "tested" in str(asked(server)[0].messages[-1]["content"])


@pytest.mark.parametrize(("reply", "answer"), [("I am sorry.", OURS), (MENDED, THEIRS)])
async def test_a_failed_or_refused_repair_leaves_the_file_and_explains_the_options(
    workspace: Path, reply: str, answer: Answer
) -> None:
    async with serve(side_reply(REPAIR, reply), HELLO, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "direct"}) as session:
            watch = SessionDriver(session, lambda event: answer)
            doc = await broken(session, watch, BROKEN[0])
            for _ in range(2):
                await session.send("hello")
                assert (await watch.ended()).outcome == "done"
            assert not await session.edit_plan(MENDED)
            folder = session.folder
    assert doc.read_bytes() == BROKEN[0]
    assert len(asked(server)) == 1
    (notice,) = [item for item in watch.of(Notice) if item.code == "plan_doc.unrepaired"]
    (path,) = folder.glob("plan_doc.aside-*.md")
    assert str(path) in notice.text and "move it away" in notice.text


@pytest.mark.parametrize("accept", [False, True])
async def test_without_a_user_a_repair_needs_the_flag(workspace: Path, accept: bool) -> None:
    async with serve(side_reply(REPAIR, MENDED), HELLO, strict=True) as server:
        flags = {"mode": "direct"}
        async with run_session(server, workspace, attended=False, accept_plan=accept, flags=flags) as session:
            watch = SessionDriver(session)
            doc = await broken(session, watch, BROKEN[0])
            await session.send("hello")
            await watch.ended()
            folder = session.folder
    (settled,) = watch.of(PlanDocResolved)
    assert settled.answer.verdict == ("approve" if accept else "reject")
    assert "--accept-plan" in settled.answer.by
    assert doc.read_bytes() == (MENDED.encode() if accept else BROKEN[0])
    assert saved(folder) == [BROKEN[0]]


async def test_a_read_only_mode_requests_no_repair(workspace: Path) -> None:
    async with serve(HELLO, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "chat"}) as session:
            watch = SessionDriver(session)
            await broken(session, watch, BROKEN[0])
            await session.send("hello")
            await watch.ended()
    assert not asked(server)


async def test_a_user_repair_during_the_question_is_not_overwritten(workspace: Path) -> None:
    own = "# Plan: Mended by hand\n"
    async with serve(side_reply(REPAIR, MENDED), HELLO, strict=True) as server:
        async with run_session(server, workspace, flags={"mode": "direct"}) as session:

            def answer(event: Event) -> Answer:
                (session.folder / "plan_doc.md").write_text(own)
                return OURS

            watch = SessionDriver(session, answer)
            doc = await broken(session, watch, BROKEN[0])
            await session.send("hello")
            await watch.ended()
    assert doc.read_text("utf-8") == own
