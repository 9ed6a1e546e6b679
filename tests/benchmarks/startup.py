"""How long `--help` takes beside a bare interpreter, and a whole scripted task (R23.1).

`python -m tests.benchmarks.startup` prints medians in milliseconds; exits with 1 when help is over its bar.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 15
BARE = [sys.executable, "-c", "pass"]
HELP = [sys.executable, "-m", "tui_agent", "exec", "--help"]
TASK = [sys.executable, "-m", "tui_agent", "exec", "--provider", "scripted", "hello"]


def median_ms(argv: list[str], runs: int = RUNS) -> float:
    """The median of `runs` runs; the first one warms the caches and does not count."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "TUI_AGENT_HOME": home}
        times = []
        for _ in range(runs + 1):
            began = time.perf_counter()
            subprocess.run(argv, check=False, capture_output=True, env=environment)
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[1:])


def main() -> int:
    """Measure and judge."""
    bare, asked, worked = median_ms(BARE), median_ms(HELP), median_ms(TASK, 5)
    bar = 3 * bare + 100
    print(f"bare interpreter  {bare:7.1f} ms")
    print(f"exec --help       {asked:7.1f} ms   bar {bar:.1f} ms   {'ok' if asked < bar else 'TOO SLOW'}")
    print(f"exec, one reply   {worked:7.1f} ms")
    return 0 if asked < bar else 1


if __name__ == "__main__":
    sys.exit(main())
