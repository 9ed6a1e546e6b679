from __future__ import annotations

from pathlib import Path

from tests.doubles.mock import scenario, serve
from tests.engine.kit import opened
from tui_agent import paths
from tui_agent.storage.folder import list_sessions


async def test_an_open_session_is_renamed_and_called_so_from_then_on(tmp_path: Path) -> None:
    async with serve(scenario("never", "nothing")) as server:
        async with opened(server, tmp_path) as session:
            assert await session.naming.rename("  A better\x1b[2J\n name  ") == "A better name"
            assert await session.naming.rename(" \n") == ""
            assert session.title == "A better name"
            assert list_sessions(paths.sessions_dir())[0].title == "A better name"
        async with opened(server, None, resume=session.id) as again:
            assert again.title == "A better name"
            assert len(await again.naming.rename("long " * 100)) == 100
