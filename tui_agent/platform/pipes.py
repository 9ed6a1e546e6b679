"""What waits in the pipes of other programs, and the end of our own."""

from __future__ import annotations

import array
import fcntl
import os
import sys
import termios

from tui_agent.text import clean, reveal

CHUNK = 64 * 1024
"""Bytes read at most in one turn of the event loop."""


def read_chunk(pipe: int) -> bytes | None:
    """The next bytes of a pipe that does not block; empty at its end, None where nothing waits."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def waiting(pipe: int) -> int:
    """How many bytes wait in it, as far as that can be told."""
    size = array.array("i", [0])
    try:
        fcntl.ioctl(pipe, termios.FIONREAD, size)
    except OSError:
        return 0
    return size[0]


def leave_stdout() -> None:
    """The reader has gone: what is still held back goes nowhere, so that the end of the program does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(text: str) -> None:
    """One line to stderr, in the program's name; what it quotes can't steer the terminal."""
    line = f"tui-agent: {reveal(clean(text))}\n"
    sys.stderr.write(line.encode("utf-8", "replace").decode())
