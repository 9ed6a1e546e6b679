"""Reading from the pipes of other programs, and writing errors to our own."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import stat
import sys
import termios
from typing import TextIO

from tui_agent.text import displayable

CHUNK = 64 * 1024
"""Bytes that are read at once on the event loop."""


def read_chunk(pipe: int) -> bytes | None:
    """Return the next bytes of a non-blocking pipe; empty at its end, None if there are none yet."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def pending_bytes(pipe: int) -> int:
    """Return how many bytes are in the pipe; 0 if that is unknown."""
    size = array.array("i", [0])
    try:
        fcntl.ioctl(pipe, termios.FIONREAD, size)
    except OSError:
        return 0
    return size[0]


async def wait_until_unread(out: TextIO) -> None:
    """Wait until the reader of a pipe that we write to has closed it; forever if `out` is not a pipe."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    try:
        descriptor = out.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):  # closed, or not a file at all
        is_pipe = False
    if not is_pipe:
        await closed.wait()
        return
    # Nothing can be read from this end: it only becomes ready when the other one is closed.
    loop.add_reader(descriptor, closed.set)
    try:
        await closed.wait()
    finally:
        loop.remove_reader(descriptor)


def detach_stdout() -> None:
    """Discard buffered output after its reader has gone, so that the program can end without an error."""
    discard(sys.stdout)


def discard(stream: TextIO) -> None:
    """Discard what is buffered in a stream, and what is written to it from now on."""
    with contextlib.suppress(OSError, ValueError):  # closed, or no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def print_error(text: str) -> None:
    """Print an error message to stderr, without control characters that text in it may contain.

    Nothing is printed if stderr can't be written.
    """
    line = f"tui-agent: {displayable(text)}\n"
    try:
        sys.stderr.write(line.encode("utf-8", "replace").decode())
    except OSError:
        discard(sys.stderr)
