from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer, Grant, Scope
from tui_agent.events import ApprovalRequested, GrantRevoked
from tui_agent.safety import policy as grants

DIRECT = {"mode": "direct"}
COMMAND = "touch made"
TALK = scenario("go", step("", call("run_terminal_command", command=COMMAND)), "done")
AGAIN = scenario("again", step("", call("run_terminal_command", command=COMMAND)), "done")
MORE = scenario("more", step("", call("run_terminal_command", command=COMMAND)), "done")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def approve(scope: Scope) -> Answer:
    return Answer(verdict="approve", scope=scope)


async def questions(watch: SessionDriver, text: str) -> int:
    before = len(watch.of(ApprovalRequested))
    await watch.session.send(text)
    await watch.ended()
    return len(watch.of(ApprovalRequested)) - before


async def test_a_grant_is_listed_and_once_taken_back_it_is_asked_again(workspace: Path) -> None:
    async with serve(TALK, AGAIN, MORE, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session, lambda _: approve(Scope.SESSION))
        assert await questions(watch, "go") == 1
        (grant,) = session.grants.listed()
        assert (grant.kind, grant.pattern, grant.scope) == ("run", COMMAND, Scope.SESSION)
        assert await questions(watch, "again") == 0
        assert await session.grants.revoke(grant) is True
        assert await session.grants.revoke(grant) is False
        assert session.grants.listed() == ()
        assert await questions(watch, "more") == 1
        assert [one.grant for one in watch.of(GrantRevoked)] == [grant]


@pytest.mark.parametrize("revoked", [False, True])
async def test_a_sessions_grants_are_resumed_with_it_unless_they_were_taken_back(
    workspace: Path, revoked: bool
) -> None:
    async with serve(TALK, AGAIN, strict=True) as server:
        async with run_session(server, workspace, flags=DIRECT) as session:
            watch = SessionDriver(session, lambda _: approve(Scope.SESSION))
            await questions(watch, "go")
            if revoked:
                await session.grants.revoke(session.grants.listed()[0])
        async with run_session(server, None, resume=session.id, flags=DIRECT) as again:
            assert len(again.grants.listed()) == (0 if revoked else 1)
            watch = SessionDriver(again, lambda _: approve(Scope.ONCE))
            assert await questions(watch, "again") == (1 if revoked else 0)


async def test_another_session_has_none_of_them(workspace: Path) -> None:
    async with serve(TALK, AGAIN, strict=True) as server:
        async with run_session(server, workspace, flags=DIRECT) as session:
            await questions(SessionDriver(session, lambda _: approve(Scope.SESSION)), "go")
        async with run_session(server, workspace, flags=DIRECT) as other:
            assert other.grants.listed() == ()
            assert await questions(SessionDriver(other, lambda _: approve(Scope.ONCE)), "again") == 1


async def test_what_is_always_allowed_is_taken_out_of_the_users_file(workspace: Path) -> None:
    async with serve(TALK, strict=True) as server:
        async with run_session(server, workspace, flags=DIRECT) as session:
            await questions(SessionDriver(session, lambda _: approve(Scope.ALWAYS)), "go")
            assert len(grants.load_grants(workspace)) == 1
        async with run_session(server, workspace, flags=DIRECT) as other:
            (grant,) = other.grants.listed()
            assert grant.scope is Scope.ALWAYS
            assert await other.grants.revoke(grant) is True
        assert grants.load_grants(workspace) == ()
        async with run_session(server, workspace, flags=DIRECT) as last:
            assert last.grants.listed() == ()


async def test_what_was_never_given_is_not_taken_back(workspace: Path) -> None:
    async with serve(TALK, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        last = session.last
        assert await session.grants.revoke(Grant(kind="run", pattern="rm -rf /")) is False
        assert session.last == last
