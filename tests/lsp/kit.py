"""A pool whose Python is served by the fake server, and what that server was told."""

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
PATIENT = ServerLimits(start=60, request=60, indexing=60, warmup=0.0, backoff=0.0, shutdown=30)
"""Nothing here ends for a slow machine."""


def command(folder: Path, *modes: str) -> tuple[str, ...]:
    """The setting that makes the fake server serve a language."""
    return (sys.executable, str(SERVER), str(folder / "lsp.log"), *modes)


def heard(folder: Path, method: str | None = None) -> list[list[Any]]:
    """What the server was told: method, parameters, result, error, id; those of one method."""
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

    def heard(self, method: str | None = None) -> list[list[Any]]:
        return heard(self.folder, method)


@asynccontextmanager
async def pool_setup(
    tmp_path: Path, *modes: str, limits: ServerLimits = PATIENT, **own: Any
) -> AsyncIterator[PoolSetup]:
    root = (tmp_path / "work").resolve()
    root.mkdir(exist_ok=True)
    said: list[tuple[str, str]] = []
    commands = own.get("own", {"python": command(tmp_path, *modes)})
    pool = ServerPool([root], commands, lambda level, text: said.append((level, text)), limits)
    try:
        yield PoolSetup(pool, root, tmp_path, said)
    finally:
        await pool.close()
