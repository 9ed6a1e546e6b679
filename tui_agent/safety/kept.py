"""Our own small JSON files of decisions: trust and grants. Mode 0600, replaced as a whole, never the workspace's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui_agent.paths import ensure_private_dir
from tui_agent.platform.files import FileChangedError, FileFault, read_file, replace_file

_CAP = 4 * 1024 * 1024
_TRIES = 20


class CannotKeep(Exception):
    """The decision can't be written down; the message says why."""


def read(path: Path) -> dict[str, Any]:
    """What the file holds; nothing when it is missing or damaged (a decision is then asked for again)."""
    try:
        return _parse(read_file(path, _CAP).data)
    except (FileFault, ValueError):
        return {}


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Let `edit` change what the file holds. Other processes may do the same at the same time: nothing is lost.

    Raises CannotKeep, also when the file is damaged: it is never overwritten then.
    """
    for _ in range(_TRIES):
        try:
            if _changed(path, edit):
                return
        except FileChangedError:
            continue
        except (FileFault, OSError) as error:
            raise CannotKeep(f"This can't be remembered: {error}") from error
        except ValueError as error:
            message = (
                f"{path} is damaged, so nothing more is kept in it. Look at it, or move it away. ({error})"
            )
            raise CannotKeep(message) from error
    raise CannotKeep(f"{path} is being changed all the time by another process.")


def _changed(path: Path, edit: Callable[[dict[str, Any]], None]) -> bool:
    ensure_private_dir(path.parent)
    try:
        found = read_file(path, _CAP)
    except FileFault:
        if path.exists():
            raise
        found = None
    held = _parse(found.data) if found else {}
    edit(held)
    held["version"] = 1
    content = (
        json.dumps(held, indent=1, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogateescape")
        + b"\n"
    )
    replace_file(path, content, found.sha256 if found else None, follow=True, mode=0o600)
    return True


def _parse(data: bytes) -> dict[str, Any]:
    held = json.loads(data.decode("utf-8", "surrogateescape"))
    if not isinstance(held, dict):
        raise ValueError("it holds no object")
    return held
