"""Undecided edits of a plan or a summary, saved in the session folder to survive a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tui_agent.common.paths import sessions_dir
from tui_agent.storage.lines import encode_json
from tui_agent.view.items import RequestItem

REQUEST_FILE = "draft.json"
PLAN_FILE = "plan_edit.json"
MAX_BYTES = 4_000_000
"""Larger drafts are not read."""


class EditDraftStore:
    """Holds one draft per session in a file; a single thread reads and writes it, in the order of the calls."""

    def __init__(self, filename: str = REQUEST_FILE) -> None:
        self._filename = filename
        self._executor = ThreadPoolExecutor(1, "drafts")

    async def load(self, session: str, key: str, content: Any = None) -> dict[str, Any] | None:
        """Return the draft saved under `key`, or for the same `content` under another key; None if there is none."""
        saved = await asyncio.wrap_future(self._executor.submit(_read, self._path(session)))
        if saved is None or not isinstance(saved.get("draft"), dict):
            return None
        matches = saved.get("id") == key or (content is not None and saved.get("of") == content)
        return saved["draft"] if matches else None

    def save(self, session: str, draft: dict[str, Any], key: str, content: Any = None) -> None:
        """Replace the draft in the background."""
        data = encode_json({"id": key, "of": content, "draft": draft})
        self._executor.submit(_write, self._path(session), data)

    def delete(self, session: str) -> None:
        """Delete the draft in the background."""
        self._executor.submit(self._path(session).unlink, missing_ok=True)

    def flush(self) -> None:
        """Block until everything is written."""
        self._executor.submit(bool).result()

    def _path(self, session: str) -> Path:
        return sessions_dir() / Path(session).name / self._filename


def proposed_content(request: RequestItem) -> Any:
    """Return the plan or summary of a request as plain data: a draft also fits a later request for the same content."""
    content = request.proposal.plan if request.proposal else request.summary.summary if request.summary else None
    return json.loads(encode_json(content))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        saved = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return saved if isinstance(saved, dict) else None


def _write(path: Path, data: bytes) -> None:
    from tui_agent.platform.file_faults import FileFault
    from tui_agent.platform.files import atomic_write

    with contextlib.suppress(OSError, FileFault):  # best effort: the folder may be gone, or the disk full
        if path.parent.is_dir():
            atomic_write(path, data)
