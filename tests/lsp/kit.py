"""A server pool that uses the fake server for Python, and the messages that it received."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tui_agent.lsp.pool import ServerPool
from tui_agent.lsp.server import ServerLimits

SERVER = Path(__file__).resolve().parents[1] / "doubles" / "fake_lsp.py"
LONG_LIMITS = ServerLimits(start=60, request=60, indexing=60, warmup=0.0, backoff=0.0, shutdown=30)
"""Long enough for a slow machine."""


def server_command(folder: Path, *modes: str) -> tuple[str, ...]:
    """Return the command that starts the fake server."""
    return (sys.executable, str(SERVER), str(folder / "lsp.log"), *modes)


def received(folder: Path, method: str | None = None) -> list[list[Any]]:
    """Return the messages that the server received (method, parameters, result, error, id), of one method if given."""
    log = folder / "lsp.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line for line in lines if method is None or line[0] == method]


class PoolSetup:
    """A pool with its folder."""

    def __init__(self, pool: ServerPool, root: Path, folder: Path, said: list[tuple[str, str]]) -> None:
        self.pool = pool
        self.root = root
        self.folder = folder
        self.said = said

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def received(self, method: str | None = None) -> list[list[Any]]:
        return received(self.folder, method)


@asynccontextmanager
async def pool_setup(
    tmp_path: Path, *modes: str, limits: ServerLimits = LONG_LIMITS, **own: Any
) -> AsyncIterator[PoolSetup]:
    root = (tmp_path / "work").resolve()
    root.mkdir(exist_ok=True)
    said: list[tuple[str, str]] = []
    commands = own.get("own", {"python": server_command(tmp_path, *modes)})
    pool = ServerPool([root], commands, lambda level, text: said.append((level, text)), limits)
    try:
        yield PoolSetup(pool, root, tmp_path, said)
    finally:
        await pool.close()
