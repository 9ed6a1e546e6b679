"""Finding ripgrep (R-04)."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tui_agent.platform.programs import find_program


def find_ripgrep(folders: Sequence[Path]) -> Path | None:
    """ripgrep on PATH outside `folders`, or the one installed beside this program; None when there is none (R-04)."""
    return _find_ripgrep(tuple(folders), os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=8)
def _find_ripgrep(folders: tuple[Path, ...], path: str) -> Path | None:
    beside = Path(sys.prefix) / "bin" / "rg"
    return find_program("rg", folders, path) or (beside if os.access(beside, os.X_OK) else None)
