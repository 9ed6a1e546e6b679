"""Named servers whose settings or tokens change, and what is asked of them (L3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.engine.kit import SessionDriver, run_session
from tests.engine.test_several_servers import NOBODY, hi, recorder, server, two_servers, write_servers
from tui_agent.common.domain import Fault
from tui_agent.engine.session import Session
from tui_agent.events import ModelChanged, RunEnded
from tui_agent.models.discovery import FoundServer

OLD, NEW = "old-not-a-known-form-0815", "new-not-a-known-form-0816"


def tokens(served: FakeRawServer, since: int = 0) -> set[str | None]:
    return {request.headers.get("authorization") for request in served.requests[since:]}


async def named(session: Session, name: str) -> FoundServer:
    return next(one for one in await session.models.servers(fresh=True) if one.name == name)


async def test_a_changed_token_variable_reaches_the_server_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", OLD)
    monkeypatch.setenv("SECOND", NEW)
    async with server("one") as first, recorder("two") as second:
        write_servers(other={"base_url": f"{second.url}/v1", "token_env": "FIRST"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            watch = SessionDriver(session)
            assert await session.models.choose("execution", "two") == ""
            await hi(watch)
            settings = session.settings.settings
            changed = {"other": settings.servers["other"].model_copy(update={"token_env": "SECOND"})}
            since = len(second.requests)
            assert await session.models.use_settings(settings.model_copy(update={"servers": changed})) == ""
            await hi(watch)
            assert tokens(second) == {f"Bearer {OLD}", f"Bearer {NEW}"}
            assert tokens(second, since) == {f"Bearer {NEW}"}


async def test_a_changed_address_reaches_the_server_in_use(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, _first, second), recorder("two") as third:
        watch = SessionDriver(session)
        assert await session.models.choose("execution", "two") == ""
        settings = session.settings.settings
        changed = {"other": settings.servers["other"].model_copy(update={"base_url": f"{third.url}/v1"})}
        before = len(second.requests)
        assert await session.models.use_settings(settings.model_copy(update={"servers": changed})) == ""
        assert (await hi(watch)).outcome == "done"
        assert watch.of(ModelChanged)[-1].server == f"{third.url}/v1"
        assert len(second.requests) == before and third.requests


async def test_a_token_that_was_rotated_is_sent_and_masked(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(OLD)
    token.chmod(0o600)
    async with server("one") as first, recorder("two") as second:
        write_servers(other={"base_url": f"{second.url}/v1", "token_file": str(token)})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            await session.models.listed(await named(session, "other"))
            token.write_text(NEW)
            since = len(second.requests)
            await session.models.listed(await named(session, "other"))
            assert tokens(second, since) == {f"Bearer {NEW}"}
            assert session.mask.mask(f"{OLD} {NEW}").count("⟨secret") == 2
