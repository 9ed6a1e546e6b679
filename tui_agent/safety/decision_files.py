"""JSON files with the user's decisions, trust and grants: mode 0600, replaced atomically, never in the workspace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui_agent.common.paths import ensure_private_dir
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.platform.locks import FileLock, InUse

_MAX_SIZE = 4 * 1024 * 1024
_LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process that is saving a decision."""


class DecisionsNotSaved(Exception):
    """A decision can't be saved; the message says why."""


def read_decisions(path: Path) -> dict[str, Any]:
    """Return the content of the file; empty if it is missing or damaged, so that the user is asked again."""
    try:
        return _parse(read_file(path, _MAX_SIZE).data)
    except (FileFault, ValueError):
        return {}


def change_decisions(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Let `edit` change the content of the file, under a lock against other processes.

    Blocks for some milliseconds. Raises DecisionsNotSaved, also for a damaged file, which is never overwritten.
    """
    try:
        ensure_private_dir(path.parent)
        with FileLock(path.with_suffix(".lock"), timeout=_LOCK_TIMEOUT):
            _change(path, edit)
    except (FileFault, InUse, OSError) as error:
        raise DecisionsNotSaved(f"This can't be saved: {error}") from error
    except ValueError as error:
        message = f"{path} is damaged, so nothing more is saved to it. Check it or move it away. ({error})"
        raise DecisionsNotSaved(message) from error


def _change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    try:
        file = read_file(path, _MAX_SIZE)
    except FileFault:
        if os.path.lexists(path):
            raise
        file = None
    decisions = _parse(file.data) if file else {}
    edit(decisions)
    decisions["version"] = 1
    content = json.dumps(decisions, indent=1, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogateescape")
    replace_file(path, content + b"\n", file.sha256 if file else None, follow=True, mode=0o600)


def _parse(data: bytes) -> dict[str, Any]:
    decisions = json.loads(data.decode("utf-8", "surrogateescape"))
    if not isinstance(decisions, dict):
        raise ValueError("it contains no object")
    return decisions
