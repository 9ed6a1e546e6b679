"""Undecided edits of a plan or a summary, saved in the session folder to survive a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.paths import sessions_dir
from tui_agent.view.items import RequestItem

FILE = "draft.json"
PLAN_FILE = "plan_edit.json"
"""Of an edit in the plan panel."""
LARGEST = 4_000_000
"""Bytes of a draft that are read."""


class EditDraftStore:
    """One draft at a time. It belongs to something of a key, or to what offers the same again. Files are written by a
    thread, in the order of the calls, also when the program ends meanwhile."""

    def __init__(self, file: str = FILE) -> None:
        """Kept in `file` of the session folder."""
        self._file = file
        self._disk = ThreadPoolExecutor(1, "drafts")

    async def find(self, session: str, key: str, of: Any = None) -> dict[str, Any] | None:
        """What was edited of this; None when nothing was or it can't be read."""
        kept = await asyncio.wrap_future(self._disk.submit(_read, self._path(session)))
        if kept is None or not isinstance(kept.get("draft"), dict):
            return None
        same = kept.get("id") == key or (of is not None and kept.get("of") == of)
        return kept["draft"] if same else None

    def save(self, session: str, draft: dict[str, Any], key: str, of: Any = None) -> None:
        """Write a draft."""
        text = json.dumps({"id": key, "of": of, "draft": draft}, ensure_ascii=False)
        self._disk.submit(_write, self._path(session), text)

    def drop(self, session: str) -> None:
        """It was decided."""
        self._disk.submit(self._path(session).unlink, missing_ok=True)

    def wait(self) -> None:
        """Return when all of it is on disk."""
        self._disk.submit(bool).result()

    def _path(self, session: str) -> Path:
        return sessions_dir() / Path(session).name / self._file


def offered_data(request: RequestItem) -> Any:
    """What a request offers, as plain data: what was edited of it fits the same offer of another request."""
    what = request.proposal.plan if request.proposal else request.offer.summary if request.offer else None
    return json.loads(msgspec.json.encode(what))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > LARGEST:
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None


def _write(path: Path, text: str) -> None:
    from tui_agent.platform.file_faults import FileFault
    from tui_agent.platform.files import atomic_write

    with contextlib.suppress(OSError, FileFault):  # the folder may be gone, or full: the draft is a comfort
        if path.parent.is_dir():
            atomic_write(path, text.encode())
