"""Our own calls of git: only in trusted folders, and without running any program that their settings name."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

from tui_agent.platform.environment import child_environment
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.platform.programs import find_program, path_outside, run_program
from tui_agent.text.patterns import read_table

MAX_OUTPUT = 1 << 20
"""Bytes of a call's output; a longer one counts as a failure."""
MAX_FILTERS = 50
"""Filter drivers that are switched off; with more of them git is not called."""


_table = partial(read_table, __package__, "git.json")
"""`settings` that override those of a repository that would run a program or access others, and `variables`."""


class Git:
    """Calls in one folder. `folders` are those of the workspace, which no program is taken from.

    `work_tree`: the folder with the `.git` to be used, whatever work tree the repository names.
    """

    def __init__(self, folder: Path, folders: Sequence[Path], *, work_tree: Path | None = None) -> None:
        self._folder = folder
        self._folders = folders
        self._options: list[str] | None = None
        self._work_tree = work_tree

    async def run(self, *arguments: str, seconds: float) -> bytes | None:
        """Return the output of a git command; None if it fails, takes longer, prints too much, or git is missing.

        It runs no program of the repository and fetches nothing.
        """
        program = await asyncio.to_thread(find_program, "git", self._folders)
        if program is None:
            return None
        try:
            async with asyncio.timeout(seconds):
                options = await self.options(program)
                if options is None:
                    return None
                result = await self._execute(program, *options, *arguments)
                return result[1] if result is not None and result[0] == 0 else None
        except TimeoutError:
            return None

    async def options(self, program: Path) -> list[str] | None:
        """Return the options with which git runs no program of the repository; None if they can't be determined."""
        if self._options is None:
            self._options = await self._filter_options(program)
        return None if self._options is None else [*hardening_options(), *self._options]

    async def answer(self, program: Path, *arguments: str) -> tuple[int, bytes] | None:
        """Return exit code and output of a git command; None if it can't be run safely or prints too much."""
        options = await self.options(program)
        if options is None:
            return None
        return await self._execute(program, *options, *arguments)

    def environment(self) -> dict[str, str]:
        """Return the environment for these options, as it was at the first call."""
        return dict(self._environment)

    @cached_property
    def _environment(self) -> dict[str, str]:
        tree = {"GIT_WORK_TREE": str(self._work_tree)} if self._work_tree else {}
        environment: dict[str, str] = child_environment() | _table()["variables"] | tree
        # In a list of folders, an empty or relative entry is the current folder.
        for name in ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
            if name in environment:
                environment[name] = path_outside(self._folders, environment[name])
        return {name: value for name, value in environment.items() if value or not name.endswith("_LIBRARY_PATH")}

    async def branch(self, name: str, commit: str, *, seconds: float) -> bool:
        """Create a branch at `commit`, the current one, and switch to it; `commit` is empty in an empty repository.

        Only references are written, no file and no index. Returns whether that worked.
        """
        reference = f"refs/heads/{name}"
        if commit and await self.run("update-ref", reference, commit, "", seconds=seconds) is None:
            return False
        output = await self.run("symbolic-ref", "-m", f"begun {name}", "HEAD", reference, seconds=seconds)
        return output is not None

    async def _filter_options(self, program: Path) -> list[str] | None:
        """Return options that switch off the filters that git would run to compare a file."""
        result = await self._execute(
            program, *hardening_options(), "config", "--name-only", "--null", "--get-regexp", r"^filter\..*"
        )
        if result is None or result[0] not in (0, 1):  # 1: there are none
            return None
        names = [name.decode("utf-8", "surrogateescape") for name in result[1].split(b"\0") if name]
        drivers = {match[1] for name in names if (match := re.fullmatch(r"filter\.(.+)\.[^.]+", name, re.DOTALL))}
        if len(drivers) > MAX_FILTERS or any("=" in driver or "\n" in driver for driver in drivers):
            return None
        off = ("clean=", "smudge=", "process=", "required=false")
        return [part for driver in sorted(drivers) for value in off for part in ("-c", f"filter.{driver}.{value}")]

    async def _execute(self, program: Path, *arguments: str) -> tuple[int, bytes] | None:
        """Return exit code and output; None if git can't be started or prints too much."""
        return await run_program((str(program), *arguments), env=self.environment(), cwd=self._folder, cap=MAX_OUTPUT)


def hardening_options() -> list[str]:
    """Return options that override what the settings of a repository can make git run, except for its filters."""
    settings = [part for setting in _table()["settings"] for part in ("-c", setting)]
    return ["--no-pager", "--no-optional-locks", *settings]


def branch_of(folder: Path) -> str | None:
    """Return the branch of the repository around `folder`, or the abbreviated commit of a detached HEAD, or None.

    Reads `.git/HEAD` without starting a program. Blocks for a moment.
    """
    data = git_data(folder)
    if data is None:
        return None
    line = _line(data)
    if line is not None and line.startswith("gitdir:"):
        data = data.parent / line.removeprefix("gitdir:").strip()
    head = _line(data / "HEAD")
    if head is None:
        return None
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return head[:10] if re.fullmatch(r"[0-9a-f]{40,64}", head) else None


def git_data(folder: Path) -> Path | None:
    """Return the `.git` of the repository around `folder`, or None. Opens nothing."""
    return next((data for parent in (folder, *folder.parents) if os.path.lexists(data := parent / ".git")), None)


def _line(path: Path) -> str | None:
    """Return the text of a small regular file, or None."""
    try:
        return read_file(path, 4096).data.decode("utf-8", "replace").strip()
    except FileFault:
        return None
