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
FIRST_BYTE_SECONDS = 3.0
"""Seconds without a first byte after which optional input is ignored: a caller may have left a pipe open."""


class InputError(Exception):
    """Standard input can't be used; the message is for the user."""


class InputTimeoutError(InputError):
    """It did not end in time."""


def read_piped(deadline: float | None = None, *, optional: bool = False, quiet: bool = False) -> str:
    """Return the text on standard input, up to its end; empty if it is a terminal or closed.

    `deadline` is a `time.monotonic()`. `optional` input is also empty if nothing comes in `FIRST_BYTE_SECONDS`; that
    is said on standard error, as is waiting for the end, unless `quiet`. Blocks. Raises InputError.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # closed, or no file
        return ""
    try:
        if os.isatty(descriptor):
            return ""
        if optional and not _begins(descriptor, deadline):
            if not quiet:
                print_error(f"nothing was piped in within {FIRST_BYTE_SECONDS:g} s; working without standard input.")
            return ""
        data = _read_all(descriptor, deadline, quiet)
    except OSError as error:
        raise InputError(f"standard input can't be read: {error.strerror or error}") from error
    if len(data) > MAX_SIZE:
        raise InputError(
            f"standard input has more than {MAX_SIZE:,} bytes. Save it to a file, and name the file in the task."
        )
    if b"\0" in data:
        raise InputError("standard input is not text. Save it to a file, and name the file in the task.")
    return data.decode("utf-8", "replace")


def _begins(descriptor: int, deadline: float | None) -> bool:
    """Whether the first byte or the end comes in time; True if the deadline is earlier, which the reading reports."""
    if deadline is not None and deadline - time.monotonic() < FIRST_BYTE_SECONDS:
        return True
    return bool(select.select([descriptor], [], [], FIRST_BYTE_SECONDS)[0])


def _read_all(descriptor: int, deadline: float | None, quiet: bool) -> bytes:
    data = bytearray()
    patience: float | None = NOTICE_AFTER
    while len(data) <= MAX_SIZE:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        limits = [seconds for seconds in (patience, remaining) if seconds is not None]
        if not select.select([descriptor], [], [], min(limits, default=None))[0]:
            if (remaining is not None and remaining <= (patience or 0.0)) or patience is None:
                raise InputTimeoutError("standard input did not end within the time limit (--timeout).")
            if not quiet:
                print_error("reading standard input up to its end; `< /dev/null` means that there is none.")
            patience = None
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            break
        data += chunk
    return bytes(data)
