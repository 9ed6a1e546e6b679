"""Git, called by ourselves: only in trusted folders, and so that nothing of them is run by it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tui_agent.common.tables import read_table
from tui_agent.platform.environment import child_environment
from tui_agent.platform.programs import find_program, path_outside, run_program

OUTPUT_CAP = 1 << 20
"""Bytes of a call's output that are read; a longer one counts as failed."""
FILTERS = 50
"""Filter drivers that are switched off; with more of them git is not asked at all."""


_table = partial(read_table, __file__, "git.json")
"""`settings` instead of those in a repository that would run a program, or lead somewhere else; `variables`."""


class Git:
    """Calls in one folder. `folders` are those of the workspace: no program is taken from them."""

    def __init__(self, folder: Path, folders: Sequence[Path]) -> None:
        self._folder = folder
        self._folders = folders
        self._options: list[str] | None = None

    async def ask(self, *arguments: str, seconds: float) -> bytes | None:
        """What a git command prints; None when it fails, takes longer, prints too much or there is no git.

        Nothing of the repository is run by it and nothing is fetched; what is asked with it only reads.
        """
        program = await asyncio.to_thread(find_program, "git", self._folders)
        if program is None:
            return None
        try:
            async with asyncio.timeout(seconds):
                if self._options is None:
                    self._options = await self._filters_off(program)
                if self._options is None:
                    return None
                said = await self._run(program, *self._options, *arguments)
                return said[1] if said is not None and said[0] == 0 else None
        except TimeoutError:
            return None

    async def branch(self, name: str, commit: str, *, seconds: float) -> bool:
        """Begin a new branch at `commit`, which is the one that is checked out, and make it the current one; without a
        commit where there is none yet. References alone are written, no file and no index. False when it can't be."""
        where = f"refs/heads/{name}"
        if commit and await self.ask("update-ref", where, commit, "", seconds=seconds) is None:
            return False
        said = await self.ask("symbolic-ref", "-m", f"begun {name}", "HEAD", where, seconds=seconds)
        return said is not None

    async def _filters_off(self, program: Path) -> list[str] | None:
        """Options that switch off the filters that comparing a file would run it through."""
        said = await self._run(program, "config", "--name-only", "--null", "--get-regexp", r"^filter\..*")
        if said is None or said[0] not in (0, 1):  # 1: there are none
            return None
        names = [name.decode("utf-8", "surrogateescape") for name in said[1].split(b"\0") if name]
        drivers = {match[1] for name in names if (match := re.fullmatch(r"filter\.(.+)\.[^.]+", name, re.DOTALL))}
        if len(drivers) > FILTERS or any("=" in driver or "\n" in driver for driver in drivers):
            return None
        off = ("clean=", "smudge=", "process=", "required=false")
        return [part for driver in sorted(drivers) for one in off for part in ("-c", f"filter.{driver}.{one}")]

    async def _run(self, program: Path, *arguments: str) -> tuple[int, bytes] | None:
        """Exit code and output; None where it can't be had."""
        options = [part for one in _table()["settings"] for part in ("-c", one)]
        environment = child_environment() | _table()["variables"]
        environment["PATH"] = path_outside(self._folders, environment["PATH"])
        argv = (str(program), "--no-pager", "--no-optional-locks", *options, *arguments)
        return await run_program(argv, env=environment, cwd=self._folder, cap=OUTPUT_CAP)


def branch_of(folder: Path) -> str | None:
    """The branch of the repository around `folder`, a commit's first letters where none is checked out, or None.

    Read from `.git/HEAD` by file: no program is started. Blocks for a moment.
    """
    for above in (folder, *folder.parents):
        data = above / ".git"
        if not os.path.lexists(data):
            continue
        line = _line(data)
        if line is not None and line.startswith("gitdir:"):
            data = above / line.removeprefix("gitdir:").strip()
        head = _line(data / "HEAD")
        if head is None:
            return None
        if head.startswith("ref:"):
            return head.removeprefix("ref:").strip().removeprefix("refs/heads/")
        return head[:10] if re.fullmatch(r"[0-9a-f]{40,64}", head) else None
    return None


def _line(path: Path) -> str | None:
    """The text of a small regular file; None when it is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(handle, 4096).decode("utf-8", "replace").strip() if os.path.isfile(path) else None
    except OSError:
        return None
    finally:
        os.close(handle)
