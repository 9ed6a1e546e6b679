"""`python -m tests.faults.dying ROOT KILL [START]`: one child a call, which dies `before`, `within` or `after` it.

Child number N works in ROOT/N, begun as a copy of START if that is given, and notes in ROOT/N.said what it was promised.
It forks from a process without threads that has loaded everything, so that a thousand deaths take seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

from tests.faults.syscalls import CHANGES, WRITES, Machine, Plan
from tests.faults.visit import visit


def live(ground: Path, kill: str, number: int) -> None:
    """A visit that ends by the given call; this process does not outlive it."""
    said = os.open(f"{ground}.said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    plan = Plan(at=number, names=WRITES if kill == "within" else CHANGES, kill=kill)

    def told(what: str) -> None:
        os.write(said, f"{what}\n".encode())

    try:
        with Machine(ground, plan):
            asyncio.run(visit(ground / "sessions", "a", told))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(root: Path, kill: str, start: Path | None) -> int:
    """Fork until a child lives to its end. Prints how many died."""
    for number in itertools.count(1):
        ground = root / str(number)
        if start is None:
            ground.mkdir()
        else:
            shutil.copytree(start, ground, copy_function=shutil.copy)
        pid = os.fork()
        if pid == 0:
            live(ground, kill, number)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            print(number - 1)
            return 0
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            return 1
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None))
