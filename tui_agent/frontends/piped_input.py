"""Reading what is piped into `tui-agent exec` (X3)."""

from __future__ import annotations

import os
import select
import sys
import time

from tui_agent.platform.pipes import CHUNK, print_error

MAX_SIZE = 1 << 20
"""Bytes of standard input that are read."""
NOTICE_AFTER = 1.0
"""Seconds after which the user is told that input is awaited."""


class InputError(Exception):
    """Standard input can't be used; the message is for the user."""


class InputTimeoutError(InputError):
    """It did not end in time."""


def read_piped(deadline: float | None = None) -> str:
    """Return the text on standard input, up to its end; empty if it is a terminal or closed.

    `deadline` is a `time.monotonic()`. Blocks. Raises InputError.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # closed, or no file
        return ""
    try:
        if os.isatty(descriptor):
            return ""
        data = _read_all(descriptor, deadline)
    except OSError as error:
        raise InputError(f"standard input can't be read: {error.strerror or error}") from error
    if len(data) > MAX_SIZE:
        raise InputError(
            f"standard input has more than {MAX_SIZE:,} bytes. Save it to a file, and name the file in the task."
        )
    if b"\0" in data:
        raise InputError("standard input is not text. Save it to a file, and name the file in the task.")
    return data.decode("utf-8", "replace")


def _read_all(descriptor: int, deadline: float | None) -> bytes:
    data = bytearray()
    patience: float | None = NOTICE_AFTER
    while len(data) <= MAX_SIZE:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        limits = [seconds for seconds in (patience, remaining) if seconds is not None]
        if not select.select([descriptor], [], [], min(limits, default=None))[0]:
            if (remaining is not None and remaining <= (patience or 0.0)) or patience is None:
                raise InputTimeoutError("standard input did not end within the time limit (--timeout).")
            print_error("reading standard input up to its end; `< /dev/null` means that there is none.")
            patience = None
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            break
        data += chunk
    return bytes(data)
