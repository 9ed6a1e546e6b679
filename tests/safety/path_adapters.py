from __future__ import annotations

from pathlib import Path

from tui_agent.safety import globs
from tui_agent.safety.roots import PathError, Roots


def check_path(workspace: str, path: str, op: str) -> dict[str, bool | None]:
    try:
        target = Roots([Path(workspace)]).resolve(path)
    except PathError:
        return {"allowed": False, "sensitive": None}
    return {
        "allowed": not target.outside,
        "sensitive": target.sensitive or target.protected or target.credentials,
    }


def match_patterns(patterns: list[list[object]], path: str) -> bool:
    return globs.asks([(str(glob), bool(safe)) for glob, safe in patterns], path)
