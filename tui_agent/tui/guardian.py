"""A small process that restores the terminal if the program dies without being able to (SIGKILL, SIGSEGV, ...)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

SHELL = "/bin/sh"
SCRIPT = r"""trap '' HUP INT QUIT TERM TSTP ALRM USR1 USR2 PIPE
active=0
while read -r state; do active=$state; done
[ "$active" = 1 ] || exit 0
printf '%b' "$1" >&3
case $(stty -a <&3) in *-isig*) stty "$2" <&3 ;; esac
"""
"""Waits for the end of its input. The last line tells whether the screen was shown; only then it resets the terminal's
modes, and its attributes unless the user's shell has set its own. $1: what to print. $2: the attributes."""
TTY = 3
"""The terminal's descriptor in the script."""


class TerminalGuardian:
    """Watches this process. It is in a session of its own, so that no signal of the terminal reaches it."""

    def __init__(self, terminal: int, reset: bytes) -> None:
        """Start the process, which writes `reset` to `terminal`. Never raises: without it, only a crash is worse."""
        self._pid = 0
        self._pipe = -1
        with contextlib.suppress(Exception):
            self._start(terminal, reset)

    def _start(self, terminal: int, reset: bytes) -> None:
        import fcntl

        low, writing = os.pipe()
        reading = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, TTY + 1)  # the descriptor of the terminal must not replace it
        os.close(low)
        try:
            printed = "".join(f"\\{byte:04o}" if byte < 32 else chr(byte) for byte in reset)
            self._pid = os.posix_spawn(
                SHELL,
                ("sh", "-c", SCRIPT, "tui-agent terminal guardian", printed, _attributes(terminal)),
                {"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                file_actions=(
                    (os.POSIX_SPAWN_DUP2, terminal, TTY),
                    (os.POSIX_SPAWN_DUP2, reading, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ),
                setsid=True,
            )
            self._pipe = writing
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)

    def tell(self, active: bool) -> None:
        """Tell whether the screen has the terminal."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"1\n" if active else b"0\n")

    def close(self) -> None:
        """End the process: the terminal is restored."""
        self.tell(False)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
            with contextlib.suppress(OSError):
                os.waitpid(self._pid, 0)


def _attributes(terminal: int) -> str:
    """Return the terminal's attributes as `stty -g` prints them."""
    if sys.platform != "linux":
        return subprocess.run(
            ["/bin/stty", "-g"], stdin=terminal, capture_output=True, text=True, check=True
        ).stdout.strip()
    import termios

    values: list[Any] = termios.tcgetattr(terminal)
    flags = [f"{value:x}" for value in values[:4]]
    characters = [f"{value if isinstance(value, int) else ord(value):x}" for value in values[6]]
    return ":".join([*flags, *characters])
