"""Restoring the terminal, logging crashes, and ending the process in time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rich import control as rich_control
from textual import content as textual_content

from tui_agent.common import paths
from tui_agent.platform.debug_log import mask_in_use
from tui_agent.text import clean

if TYPE_CHECKING:
    from textual.driver import Driver

RESET = b"".join(
    b"\x1b[" + code
    for code in b"?2026l ?1000l ?1002l ?1003l ?1015l ?1006l ?2004l ?1004l <u >4m ?7h 0m ?1049l ?25h".split()
)
"""Leaves the alternate screen and switches off everything that Textual switches on."""

M_ARENA_MAX: Final = -8
"""The parameter of glibc's `mallopt`, of malloc.h."""

DEADLINE = 2.0
"""Seconds from a signal to the forced end of the process."""


def share_one_arena() -> None:
    """Let all threads allocate from one arena of glibc, as the interpreter runs one at a time: less memory is held."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(ctypes.c_int(M_ARENA_MAX), ctypes.c_int(1))


def widen_control_tables() -> None:
    """Make Textual and Rich drop every control character except tab and line feed.

    Their private tables hold only five of them; a test checks that the tables still exist and work.
    """
    control_characters = dict.fromkeys([*(code for code in range(32) if code not in (9, 10)), *range(0x7F, 0xA0)])
    for module in (rich_control, textual_content):
        table: dict[int, Any] = vars(module)["_CONTROL_STRIP_TRANSLATE"]
        table.update(control_characters)


def log_failure(error: BaseException) -> str:
    """Append the masked traceback, without local variables, to the debug log (0600); return a message for the user."""
    lines = traceback.format_exception(error)
    mask = mask_in_use()
    text = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} screen\n{''.join(lines)}\n"
    message = mask.mask(clean(f"tui-agent crashed: {type(error).__name__}: {error}"))
    with contextlib.suppress(OSError, paths.HomeNotFoundError):
        path = paths.debug_log_file()
        paths.ensure_private_dir(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(mask.mask(clean(text)))
        return f"{message}\nDetails are in {path}"
    return message


def reset_terminal() -> int:
    """Restore a garbled terminal (`--reset-tty`); return the exit code: 0, or 2 without a terminal."""
    import termios

    try:
        handle = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        sys.stderr.write("There is no terminal to reset.\n")
        return 2
    try:
        modes = termios.tcgetattr(handle)
        modes[0] |= termios.ICRNL | termios.IXON | termios.BRKINT
        modes[1] |= termios.OPOST | termios.ONLCR
        modes[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG | termios.IEXTEN
        termios.tcsetattr(handle, termios.TCSANOW, modes)
        os.write(handle, RESET)
    finally:
        os.close(handle)
    return 0


class SavedTerminal:
    """The terminal's attributes at construction; `restore` may be called at any time and from any thread."""

    def __init__(self) -> None:
        self._attributes: list[Any] | None = None
        self._handle = -1
        with contextlib.suppress(Exception):  # no terminal: nothing to save
            import termios

            self._handle = sys.__stdin__.fileno() if sys.__stdin__ else -1
            self._attributes = termios.tcgetattr(self._handle)

    def restore(self, *, modes: bool) -> None:
        """Restore the attributes; with `modes`, also leave the alternate screen and reset all modes."""
        if self._attributes is None:
            return
        import termios

        if modes:
            with contextlib.suppress(Exception):  # the terminal may be gone
                os.set_blocking(2, False)
                os.write(2, RESET)
                os.set_blocking(2, True)
        with contextlib.suppress(Exception):
            termios.tcsetattr(self._handle, termios.TCSANOW, self._attributes)


def suspend_job(driver: Driver | None) -> str:
    """Suspend this program and the others of its shell job, as Ctrl+Z does in a terminal; return why not, or "".

    The driver restores the terminal when the signal arrives, and paints the screen again when the job continues.
    """
    if driver is None or not driver.can_suspend:
        return "the page in the browser can't be suspended · close its tab instead"
    if os.getpgrp() == os.getsid(0):  # a shell with job control gives each job a group of its own
        return "nothing to suspend to: no shell started this program · open another terminal instead"
    os.kill(0, signal.SIGTSTP)  # the whole job: `uv run`, for example, waits for this process
    return ""


def exit_after(deadline: float, code: int, before: Callable[[], None]) -> threading.Timer:
    """Kill the process with exit code `code` if it still runs after `deadline` seconds; call `before` first."""

    def end() -> None:
        before()
        os._exit(code)

    timer = threading.Timer(deadline, end)
    timer.daemon = True
    timer.start()
    return timer
