"""Our own small JSON files of decisions: trust and grants. Mode 0600, replaced as a whole, never the workspace's."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui_agent.common.paths import ensure_private_dir
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.platform.locks import FileLock, InUse

_CAP = 4 * 1024 * 1024
_PATIENCE = 5.0
"""Seconds to wait for another process that keeps a decision just now."""


class DecisionsNotSaved(Exception):
    """The decision can't be written down; the message says why."""


def read_decisions(path: Path) -> dict[str, Any]:
    """What the file holds; nothing when it is missing or damaged (a decision is then asked for again)."""
    try:
        return _parse(read_file(path, _CAP).data)
    except (FileFault, ValueError):
        return {}


def change_decisions(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Let `edit` change what the file holds. Other processes may do the same at the same time: nothing is lost.

    Blocks for some milliseconds. Raises CannotKeep, also when the file is damaged: it is never overwritten then.
    """
    try:
        ensure_private_dir(path.parent)
        with _alone(path.with_suffix(".lock")):
            _change(path, edit)
    except (FileFault, OSError) as error:
        raise DecisionsNotSaved(f"This can't be saved: {error}") from error
    except ValueError as error:
        message = f"{path} is damaged, so nothing more is saved to it. Check it or move it away. ({error})"
        raise DecisionsNotSaved(message) from error


def _alone(lock: Path) -> FileLock:
    """The lock, waited for. Raises CannotKeep when another process does not give it back."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return FileLock(lock)
        except InUse as error:
            if time.monotonic() > until:
                raise DecisionsNotSaved(f"This can't be saved: {error}") from error
            time.sleep(0.01)


def _change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    try:
        found = read_file(path, _CAP)
    except FileFault:
        if os.path.lexists(path):
            raise
        found = None
    held = _parse(found.data) if found else {}
    edit(held)
    held["version"] = 1
    content = json.dumps(held, indent=1, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogateescape")
    replace_file(path, content + b"\n", found.sha256 if found else None, follow=True, mode=0o600)


def _parse(data: bytes) -> dict[str, Any]:
    held = json.loads(data.decode("utf-8", "surrogateescape"))
    if not isinstance(held, dict):
        raise ValueError("it contains no object")
    return held
