"""Finding the programs that we start ourselves: on PATH, never in a folder that the agent works in (R-04)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def find_program(name: str, folders: Sequence[Path], path: str | None = None) -> Path | None:
    """The program `name`, a bare name or an absolute path, that does not lie in any of `folders`.

    `path` is searched instead of PATH; relative entries of it never count. None when there is none. Does file IO.
    """
    if os.path.isabs(name):
        entries = [os.path.dirname(name)]
        name = os.path.basename(name)
    elif os.sep in name:
        return None
    else:
        entries = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    for entry in entries:
        program = Path(entry) / name
        if not os.path.isabs(entry) or not (program.is_file() and os.access(program, os.X_OK)):
            continue
        if not _inside(program, folders):
            return program
    return None


def path_outside(folders: Sequence[Path], path: str) -> str:
    """`path` without relative entries and those that lie in `folders`, for what our programs start themselves."""
    entries = [
        one for one in path.split(os.pathsep) if os.path.isabs(one) and not _inside(Path(one), folders)
    ]
    return os.pathsep.join(entries)


def _inside(path: Path, folders: Sequence[Path]) -> bool:
    both = (path, Path(os.path.realpath(path)))
    return any(one.is_relative_to(folder) for folder in folders for one in both)
