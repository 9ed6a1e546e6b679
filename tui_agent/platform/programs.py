"""Finding and running programs, found on PATH, never in a folder that the agent works in; the user's editor."""

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
    entries = [one for one in path.split(os.pathsep) if os.path.isabs(one) and not _inside(Path(one), folders)]
    return os.pathsep.join(entries)


def _inside(path: Path, folders: Sequence[Path]) -> bool:
    both = (path, Path(os.path.realpath(path)))
    return any(one.is_relative_to(folder) for folder in folders for one in both)


def editor_command(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """The command that the user edits with, without the file; empty when there is none."""
    for name in ("VISUAL", "EDITOR"):
        with contextlib.suppress(ValueError):  # a quote without its end
            if argv := shlex.split(environment.get(name, "")):
                return argv
    return next(([path] for name in ("nano", "vim", "vi") if (path := which(name))), [])


@contextlib.asynccontextmanager
async def running_program(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | Path, errors: int = asyncio.subprocess.DEVNULL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program without input, whose output (stdout) is to be read; `errors` is what becomes of its stderr. At the end
    it is killed, if it still runs, with all that it started in its session. Raises OSError."""
    # A task of its own: a start that is cancelled half-way leaves its pipes open.
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
        await asyncio.shield(_ended(starting))


async def run_program(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | Path, cap: int
) -> tuple[int, bytes] | None:
    """Exit code and output of a program; None where it can't be started or writes more than `cap` bytes."""
    try:
        async with running_program(argv, env=env, cwd=cwd) as process:
            assert process.stdout is not None
            output = b""
            while piece := await process.stdout.read(1 << 16):
                output += piece
                if len(output) > cap:
                    return None
            return await process.wait(), output
    except OSError:
        return None


async def _ended(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    """Returns when the process has ended, killed if need be, and its output is closed."""
    with contextlib.suppress(OSError):
        process = await starting
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
