from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session, session_options
from tui_agent.common import paths
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOpenError
from tui_agent.events import Notice, SessionOpened, StateSaved, ToolFinished
from tui_agent.storage.changes import add_records
from tui_agent.storage.journal import read_records
from tui_agent.text import SecretMask

TALK = scenario("hi", "hello")
LOOK = scenario("look", step("", call("read_file", path="only_here.txt")), "seen")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def sessions() -> list[Path]:
    return list(paths.sessions_dir().iterdir()) if paths.sessions_dir().exists() else []


async def test_a_resumed_session_works_in_its_own_folder_wherever_it_is_resumed_from(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "only_here.txt").write_text("found")
    other = make_workspace(tmp_path / "other")
    async with serve(TALK, LOOK, strict=True) as server:
        async with run_session(server, workspace) as session:
            await session.send("hi")
            await session.wait()
        monkeypatch.chdir(other)
        async with run_session(server, None, resume=session.id) as again:
            watch = SessionDriver(again)
            await again.send("look")
            await watch.ended()
    assert watch.of(SessionOpened)[0].workspace == str(workspace)
    assert watch.of(ToolFinished)[0].result.success


@pytest.mark.parametrize(("user", "attended"), [(0, True), (0, False), (1000, True)])
async def test_i08_who_is_there_is_warned_of_running_as_root(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, user: int, attended: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace, attended=attended) as session:
            monkeypatch.undo()
            watch = SessionDriver(session)
            await session.send("hi")
            await watch.ended()
    warned = any("runs as root" in one.text for one in watch.of(Notice))
    assert warned is (user == 0 and attended)


async def test_another_folder_than_the_sessions_own_is_refused_with_its_name(workspace: Path, tmp_path: Path) -> None:
    other = make_workspace(tmp_path / "other")
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace) as session:
            await session.send("hi")
            await session.wait()
        with pytest.raises(SessionOpenError, match=str(workspace)):
            await open_session(session_options(server, other, resume=session.id))


async def test_a_moved_workspace_is_named_on_resuming(workspace: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace) as session:
            await session.send("hi")
            await session.wait()
        workspace.rename(moved)
        with pytest.raises(SessionOpenError, match="--workspace"):
            await open_session(session_options(server, None, resume=session.id))
        async with run_session(server, moved, resume=session.id) as again:
            watch = SessionDriver(again)
            await again.send("hi")
            await watch.ended()
    assert watch.of(SessionOpened)[0].workspace == str(moved)


@pytest.mark.parametrize("state", [{}, {"history": 5}, {"history": [None], "queue": []}, {"history": {"a": [1]}}])
async def test_a_saved_state_of_another_shape_is_left_aside(
    workspace: Path, tmp_path: Path, state: dict[str, Any]
) -> None:
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace) as session:
            await session.send("hi")
            await session.wait()
            folder = session.folder
        add_records(folder, [StateSaved(state=state)], SecretMask({}))
        async with run_session(server, None, resume=folder.name) as again:
            assert again.title == "hi"
            watch = SessionDriver(again)
            await again.send("hi")
            assert (await watch.ended()).text == "hello"


async def test_a_state_is_not_saved_again_for_a_few_small_records(workspace: Path) -> None:
    long = scenario("tell me", " ".join(f"w{n * n}" for n in range(3_000)))  # kept in the history, so in each state
    name = None
    async with serve(long, TALK, strict=True) as server:
        for _ in range(4):
            async with run_session(server, None if name else workspace, resume=name) as session:
                await session.send("hi" if name else "tell me")
                await session.wait()
                name, folder, exported = session.id, session.folder, session._state.export()
        async with run_session(server, None, resume=name) as session:
            assert session._state.export() == exported
    states = [record for record in read_records(folder / "events.jsonl") if isinstance(record.event, StateSaved)]
    assert len(states) == 1


async def test_the_other_roots_of_a_session_come_back(workspace: Path, tmp_path: Path) -> None:
    more = make_workspace(tmp_path / "more")
    (more / "only_here.txt").write_text("found")
    look = scenario("look", step("", call("read_file", path="more/only_here.txt")), "seen")
    async with serve(TALK, look, strict=True) as server:
        async with run_session(server, workspace, more_roots=(more,)) as session:
            await session.send("hi")
            await session.wait()
        async with run_session(server, workspace, resume=session.id) as again:
            watch = SessionDriver(again, lambda event: None)
            await again.send("look")
            await watch.ended()
    assert watch.of(ToolFinished)[0].result.success
    assert watch.of(SessionOpened)[0].roots == (str(workspace), str(more))


async def test_a_link_to_the_workspace_is_the_workspace(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace) as session:
            await session.send("hi")
            await session.wait()
        async with run_session(server, link, resume="latest") as again:
            assert again.id == session.id


async def test_a_missing_root_is_named_before_anything_is_made(workspace: Path, tmp_path: Path) -> None:
    async with serve(TALK, strict=True) as server:
        with pytest.raises(SessionOpenError, match="--add-root"):
            await open_session(session_options(server, workspace, more_roots=(tmp_path / "nowhere",)))
    assert sessions() == []


async def test_another_server_does_not_inherit_the_name_of_the_model(workspace: Path) -> None:
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace, provider="openai", flags={"model": "gpt-of-there"}) as session:
            await session.send("hi")
            await session.wait()
        async with run_session(server, workspace, provider="ollama", flags={"model": None}, resume=session.id) as again:
            await again.send("hi")
            await again.wait()
        assert server.requests[-1].body["model"] != "gpt-of-there"


async def test_what_a_flag_allowed_is_not_allowed_to_the_next_start(workspace: Path) -> None:
    async with serve(TALK, strict=True) as server:
        headless = {"attended": False, "flags": {"approval_mode": "auto"}}
        async with run_session(server, workspace, **headless) as session:
            await session.send("hi")
            await session.wait()
        async with run_session(server, workspace, resume=session.id) as again:
            opening = await SessionDriver(again).until_event(SessionOpened)
            assert opening.approval_mode == "ask"
            await again.set_modes(approval_mode="auto-edit")
        async with run_session(server, workspace, resume=session.id) as third:
            assert (await SessionDriver(third).until_event(SessionOpened)).approval_mode == "auto-edit"


async def test_a_session_in_use_says_so(workspace: Path) -> None:
    async with serve(TALK, strict=True) as server, run_session(server, workspace) as session:
        with pytest.raises(SessionOpenError, match="in use"):
            await open_session(session_options(server, workspace, resume=session.id))


@pytest.mark.parametrize("name", ["scratch", "events.jsonl"])
async def test_what_is_in_the_way_of_a_session_is_named_and_the_session_given_back(workspace: Path, name: str) -> None:
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace) as session:
            await session.send("hi")
            await session.wait()
        place, aside = session.folder / name, session.folder / "aside"
        if place.exists():
            place.rename(aside)
        if name == "scratch":
            place.write_text("a file")
        else:
            place.mkdir()
        with pytest.raises(SessionOpenError) as told:
            await open_session(session_options(server, workspace, resume=session.id))
        assert told.value.code == (1 if name == "scratch" else 2)
        place.unlink() if place.is_file() else place.rmdir()
        if aside.exists():
            aside.rename(place)
        async with run_session(server, workspace, resume=session.id) as again:
            watch = SessionDriver(again)
            await again.send("hi")
            await watch.ended()
