"""What waits in the pipes of other programs."""

from __future__ import annotations

import array
import fcntl
import os
import termios

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
