"""What `--help` of every command costs beside a bare interpreter, and a whole scripted task.

`python -m tests.benchmarks.startup` prints medians in milliseconds of processor time, which other work on the machine
hardly changes; exits with 1 when a help is over its bar.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

from tui_agent.commands.arguments import command_names

RUNS = 11
BAR = 150.0
BARE = [sys.executable, "-c", "pass"]
PROGRAM = [sys.executable, "-m", "tui_agent"]
TASK = [*PROGRAM, "exec", "--provider", "scripted", "hello"]
HELPS = {"--version": ["--version"], "--help": ["--help"]} | {
    f"{name} --help": [name, "--help"] for name in command_names()
}


def median_ms(argv: list[str], runs: int = RUNS) -> float:
    """The median of `runs` runs; the first one warms the caches and does not count."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "TUI_AGENT_HOME": home}
        times = []
        for _ in range(runs + 1):
            before = _spent()
            subprocess.run(argv, check=False, capture_output=True, env=environment, stdin=subprocess.DEVNULL)
            times.append((_spent() - before) * 1000)
    return statistics.median(times[1:])


def _spent() -> float:
    """Seconds of processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure and judge."""
    print(f"{'bare interpreter':20} {median_ms(BARE):7.1f} ms")
    slow = False
    for name, argv in HELPS.items():
        took = median_ms([*PROGRAM, *argv])
        slow |= took >= BAR
        print(f"{name:20} {took:7.1f} ms   bar {BAR:.0f} ms   {'ok' if took < BAR else 'TOO SLOW'}")
    print(f"{'exec, one reply':20} {median_ms(TASK, 5):7.1f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
