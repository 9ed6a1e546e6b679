from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.engine.undo import CannotUndo
from tui_agent.events import ConversationRewound, RunStarted
from tui_agent.view.fold import fold_record
from tui_agent.view.items import NoticeItem, SessionView

TALK = scenario("talk", step("", call("read_file", path="adder.py")), "we talked")
MORE = scenario("more", "as you say")
SLOW = scenario("slow", step("never", delay=300))


def sent(server: MockServer) -> str:
    return str(server.requests[-1].messages)


async def test_clear_forgets_the_conversation_and_redo_brings_it_back(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "work")
    async with serve(TALK, MORE, strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("talk")
            await watch.ended()
            session.checkpoints.clear()
            await session.send("more")
            await watch.ended()
            assert "we talked" not in sent(server) and "adder.py" not in sent(server)
            session.checkpoints.clear()
            await session.checkpoints.redo()
            await session.send("more")
            await watch.ended()
            assert sent(server).count("as you say") == 1
            session.checkpoints.clear()
            await watch.until_event(ConversationRewound, cleared=True)
            folder = session.folder
        async with run_session(server, None, resume=folder.name) as session:
            watch = SessionDriver(session)
            await session.send("more")
            await watch.ended()
            assert "as you say" not in sent(server)
        assert "Conversation cleared" in (folder / "chat_history.log").read_text()
    view = SessionView()
    for record in watch.records:
        fold_record(view, record)
    assert not [one for one in view.items if isinstance(one, NoticeItem) and one.level == "error"]


async def test_nothing_is_forgotten_under_a_run(tmp_path: Path) -> None:
    async with serve(SLOW, strict=True) as server:
        async with run_session(server, make_workspace(tmp_path / "work")) as session:
            watch = SessionDriver(session)
            await session.send("slow")
            await watch.until_event(RunStarted)
            with pytest.raises(CannotUndo):
                session.checkpoints.clear()
            await session.interrupt()
