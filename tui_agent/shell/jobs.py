"""What commands left running in the background: listed, read and stopped."""

from __future__ import annotations

import os
import time

from tui_agent.domain import Noun
from tui_agent.platform import supervisor
from tui_agent.platform.capture import Capture
from tui_agent.platform.output import Rings, present
from tui_agent.platform.proc import Child
from tui_agent.text import one_line

OUTPUT_CAP = 64 * 1024
TOLD_LINES = 5
LINE_CAP = 200
TOLD_CHARACTERS = 600


class Job(Noun, frozen=True, kw_only=True):
    """Processes that a command left behind."""

    id: int
    command: str
    """The command that started it."""
    pid: int
    """The oldest of its processes."""
    pids: tuple[int, ...]
    program: str
    """Command line of the oldest process."""
    age: float
    """Seconds since the command began."""
    output: str
    """The end of what it wrote after the command had returned."""


class Background:
    """One command's left-over, and where its late output goes (D13)."""

    def __init__(self, number: int, command: str, child: Child) -> None:
        self.number = number
        self.command = command
        self.child = child
        self._capture = Capture(rings=Rings(0, OUTPUT_CAP))
        self._told = 0
        child.hand_over(self._capture)

    def job(self) -> Job | None:
        """As it is now; None when nothing is left of it."""
        pids = tuple(sorted(supervisor.descendants(self.child.pid))) if self.child.alive else ()
        if not pids:
            return None
        return Job(
            id=self.number,
            command=self.command,
            pid=pids[0],
            pids=pids,
            program=self._program(pids[0]),
            age=time.monotonic() - self.child.began,
            output=self.output(),
        )

    def _program(self, pid: int) -> str:
        line = _command_line(pid)
        # A subshell still carries the arguments of the shell that it was forked from.
        return self.title if not line or line.endswith(one_line(self.command, LINE_CAP)[-40:]) else line

    def output(self) -> str:
        """The end of what was written, clean."""
        return present(self._capture.rings).text

    def news(self) -> str:
        """What it wrote since the last call, in a few lines; empty when there is nothing new."""
        total = self._capture.rings.total_bytes
        fresh, self._told = total - self._told, total
        if not fresh:
            return ""
        rings = Rings(0, OUTPUT_CAP)
        rings.add(self._capture.rings.tail[-fresh:])
        lines = present(rings).text.splitlines()
        shown = "\n".join(lines[-TOLD_LINES:])[-TOLD_CHARACTERS:]
        return f"Background job {self.number} ({self.title}) has written since, at the end:\n{shown}"

    @property
    def title(self) -> str:
        """The command in a few words."""
        return one_line(self.command, 60)


def _command_line(pid: int) -> str:
    try:
        fd = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return ""
    return one_line(line.replace(b"\0", b" ").decode("utf-8", "replace").strip(), LINE_CAP)
