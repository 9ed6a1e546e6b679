"""What was edited in a plan or a summary and is not decided yet: kept in the session folder, for after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.paths import sessions_dir
from tui_agent.view import RequestItem

FILE = "draft.json"
PLAN_FILE = "plan_edit.json"
"""Of an edit in the plan panel."""
LARGEST = 4_000_000
"""Bytes of a draft that are read."""


class Drafts:
    """One draft at a time. It belongs to something of a key, or to what offers the same again."""

    def __init__(self, file: str = FILE) -> None:
        """Kept in `file` of the session folder."""
        self._file = file
        self._alone = asyncio.Lock()
        self._newest = 0

    async def find(self, session: str, key: str, of: Any = None) -> dict[str, Any] | None:
        """What was edited of this; None when nothing was or it can't be read."""
        kept = await asyncio.to_thread(_read, self._path(session))
        if kept is None or not isinstance(kept.get("draft"), dict):
            return None
        same = kept.get("id") == key or (of is not None and kept.get("of") == of)
        return kept["draft"] if same else None

    async def keep(self, session: str, draft: dict[str, Any], key: str, of: Any = None) -> None:
        """Write a draft; of several that wait only the newest."""
        self._newest += 1
        number = self._newest
        async with self._alone:
            if number == self._newest:
                await asyncio.to_thread(_write, self._path(session), _text(draft, key, of))

    def keep_here(self, session: str, draft: dict[str, Any], key: str, of: Any = None) -> None:
        """Write a draft without letting anything else happen meanwhile; none that waits is written after it."""
        self._newest += 1
        _write(self._path(session), _text(draft, key, of))

    async def drop(self, session: str) -> None:
        """It was decided."""
        self._newest += 1
        async with self._alone:
            await asyncio.to_thread(_remove, self._path(session))

    def _path(self, session: str) -> Path:
        return sessions_dir() / Path(session).name / self._file


def offered(request: RequestItem) -> Any:
    """What a request offers, as plain data: what was edited of it fits the same offer of another request."""
    what = request.proposal.plan if request.proposal else request.offer.summary if request.offer else None
    return json.loads(msgspec.json.encode(what))


def _text(draft: dict[str, Any], key: str, of: Any) -> str:
    return json.dumps({"id": key, "of": of, "draft": draft}, ensure_ascii=False)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > LARGEST:
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None


def _write(path: Path, text: str) -> None:
    from tui_agent.platform.files import FileFault, atomic_write

    with contextlib.suppress(OSError, FileFault):  # the folder may be gone, or full: the draft is a comfort
        if path.parent.is_dir():
            atomic_write(path, text.encode())


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
