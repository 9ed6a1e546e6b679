"""Find and run programs, but none in a folder that the agent works in."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import json
import os
import pwd
import shlex
import shutil
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tui_agent.platform.safe_open import follow_links


def find_program(name: str, folders: Sequence[Path], path: str | None = None) -> Path | None:
    """Return the program with this name or absolute path that is not in any of `folders`, or None.

    `path` is searched instead of PATH; its relative entries are ignored. Does file IO.
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
        if not _is_inside(program, folders):
            return program
    return None


SYSTEM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")


@cache
def search_path() -> tuple[str, ...]:
    """Return the absolute folders of PATH as it was at the first call, and those of the system."""
    entries = [entry for entry in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    return tuple(dict.fromkeys((*entries, *SYSTEM_FOLDERS)))


def trusted_program(
    name: str, folders: Sequence[Path], path: Sequence[str] | None = None, top: Path = Path("/")
) -> Path | None:
    """Return the program that `name` means, if only the user and root can change what it runs. Raises PermissionError.

    That is so if no link on the way to it, nor the interpreter of a script, is in any of `folders` (what the agent may
    write), and if all of them belong to root or the user and can be written by nobody else, up to `top`. None if there
    is no such program at all. `path`: folders to search instead of `search_path()`. Does file IO.
    """
    for entry in search_path() if path is None else path:
        program = os.path.join(entry, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            if _is_trusted(program, folders, path, top):
                return Path(program)
            raise PermissionError(f"{program} can be changed by others")
    return None


@cache
def program_folders(folders: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the folders of `search_path()` that only the user and root can write, outside of `folders`."""

    def is_trusted(entry: str) -> bool:
        real = Path(os.path.realpath(entry))
        return (
            real.is_dir()
            and not _is_inside(Path(entry), folders)
            and all(map(_belongs_to_user, map(str, (real, *real.parents))))
        )

    return tuple(filter(is_trusted, search_path()))


def _is_trusted(program: str, folders: Sequence[Path], path: Sequence[str] | None, top: Path) -> bool:
    real, visited = follow_links(program)
    for location in (real, *visited):
        if _is_inside(Path(location), folders):
            return False
        parents = [parent for parent in Path(os.path.normpath(location)).parents if parent.is_relative_to(top)]
        if not all(map(_belongs_to_user, map(str, parents))):
            return False
    if not _belongs_to_user(real):
        return False
    with open(real, "rb") as file:
        first = file.readline(512)
    if not first.startswith(b"#!"):
        return True
    words = os.fsdecode(first[2:]).split()
    if not words or not os.path.isabs(words[0]):
        return False
    if os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-")]
        try:
            return bool(names) and trusted_program(names[0], folders, path, top) is not None
        except PermissionError:
            return False
    interpreter = os.path.realpath(words[0])
    return interpreter != real and os.path.isfile(interpreter) and _is_trusted(words[0], folders, path, top)


def _belongs_to_user(path: str) -> bool:
    """Return whether only root and the user can write a file or folder."""
    status = os.stat(path)
    if status.st_uid not in (0, os.getuid()) or status.st_mode & stat.S_IWOTH:
        return False
    return not status.st_mode & stat.S_IWGRP or _is_own_group(status.st_gid)


@cache
def _is_own_group(gid: int) -> bool:
    """Return whether a group has no members but root and the user.

    So do a user's private group and Debian's `staff`. On macOS, members of `admin` can become root, and Homebrew's
    folders belong to it.
    """
    own = {0, os.getuid()}
    try:
        group = grp.getgrgid(gid)
        if gid == 0 or (sys.platform == "darwin" and group.gr_name == "admin"):
            return True
        members = {pwd.getpwnam(name).pw_uid for name in group.gr_mem}
    except KeyError:
        return False
    return members <= own and all(user.pw_uid in own for user in pwd.getpwall() if user.pw_gid == gid)


def path_outside(folders: Sequence[Path], path: str) -> str:
    """Return `path` without relative entries and those in `folders`, for programs that our programs start."""
    entries = [
        entry for entry in path.split(os.pathsep) if os.path.isabs(entry) and not _is_inside(Path(entry), folders)
    ]
    return os.pathsep.join(entries)


def _is_inside(path: Path, folders: Sequence[Path]) -> bool:
    resolved = Path(os.path.realpath(path))
    return any(path.is_relative_to(folder) or resolved.is_relative_to(folder) for folder in folders)


def editor_command(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """Return the command of the user's editor, without a file; empty if there is none."""
    for name in ("VISUAL", "EDITOR"):
        with contextlib.suppress(ValueError):  # an unclosed quote
            if argv := shlex.split(environment.get(name, "")):
                return argv
    return next(([path] for name in ("nano", "vim", "vi") if (path := which(name))), [])


@cache
def _line_arguments() -> dict[str, list[str]]:
    """Return the arguments of editors that open a file at a line, by the name of the program."""
    table = json.loads(Path(__file__).with_name("editors.json").read_bytes())
    return {editor: entry["arguments"] for entry in table for editor in entry["editors"]}


def editor_at_line(argv: Sequence[str], path: str, line: int = 0) -> list[str]:
    """Return the command that opens a file in the editor `argv`, at a line if the editor is known and `line` is not 0.

    `path` is absolute, so that no editor takes it for an option.
    """
    arguments = _line_arguments().get(os.path.basename(argv[0]).removesuffix(".exe")) if line else None
    return [*argv, *(argument.format(path=path, line=line) for argument in arguments or ["{path}"])]


@contextlib.asynccontextmanager
async def running_program(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | Path, errors: int = asyncio.subprocess.DEVNULL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program without input; its stdout is to be read, `errors` is the target of its stderr.

    At the end it is killed with all processes in its session. Raises OSError.
    """
    # In a task, as a cancelled start would leave its pipes open.
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    )
    try:
        yield await asyncio.shield(starting)
    finally:
        await asyncio.shield(_kill(starting))


async def run_program(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | Path, cap: int
) -> tuple[int, bytes] | None:
    """Return exit code and output of a program; None if it can't be started or writes more than `cap` bytes."""
    try:
        async with running_program(argv, env=env, cwd=cwd) as process:
            assert process.stdout is not None
            output = b""
            while chunk := await process.stdout.read(1 << 16):
                output += chunk
                if len(output) > cap:
                    return None
            return await process.wait(), output
    except OSError:
        return None


async def _kill(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    """Kill the process if it still runs, and wait until its output is closed."""
    with contextlib.suppress(OSError):
        process = await starting
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
