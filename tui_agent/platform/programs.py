"""Find and run programs, but none in a folder that the agent works in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path


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
