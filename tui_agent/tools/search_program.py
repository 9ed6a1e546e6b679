"""Finding ripgrep (R-04)."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tui_agent.platform.programs import find_program

OPTIONS = (
    *("--no-config", "--hidden", "--glob=!.git", "--no-messages", "--no-require-git"),
    *(f"--no-ignore-{kind}" for kind in ("dot", "exclude", "global", "parent")),
)
"""How it goes through folders: nothing configured from outside (R-05), .gitignore files at and below them alone."""


def find_ripgrep(folders: Sequence[Path]) -> Path | None:
    """ripgrep on PATH outside `folders`, or the one installed beside this program; None when there is none (R-04)."""
    return _find_ripgrep(tuple(folders), os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=8)
def _find_ripgrep(folders: tuple[Path, ...], path: str) -> Path | None:
    beside = Path(sys.prefix) / "bin" / "rg"
    return find_program("rg", folders, path) or find_program(str(beside), folders)
