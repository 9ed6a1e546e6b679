"""What exporting a long session costs (S3): `python -m tests.benchmarks.export [MEGABYTES]`, 25 by default.

Each format is written by a process of its own: how long it took, how much the process grew, how big the file is. Exits
with 1 when something is over its bar.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.benchmarks.resume import fill
from tui_agent.export.session import write_export
from tui_agent.storage.folder import SessionFolder
from tui_agent.text import SecretMask

SECONDS, MEGABYTES = 5.0, 250.0
"""To the written file, and of memory at most."""


def one(session: Path, form: str) -> None:
    """Export it here, and print seconds, megabytes of memory, megabytes written."""
    began = perf_counter()
    target = session / f"out.{form}"
    write_export(session, "html" if form == "html" else "markdown", SecretMask({"TOKEN": "sk-0123456789"}), target)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"{perf_counter() - began:.2f} {peak:.0f} {target.stat().st_size / 1e6:.1f}")


def main() -> int:
    """Print the figures; 1 when one is over its bar."""
    if len(sys.argv) == 3:
        one(Path(sys.argv[1]), sys.argv[2])
        return 0
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 25_000_000
    over = False
    with tempfile.TemporaryDirectory() as home:
        folder = SessionFolder.create(Path(home), workspace=Path(home), model="m", mode="direct")
        asyncio.run(fill(folder, size))
        folder.close()
        for form in ("html", "md"):
            command = [sys.executable, "-m", "tests.benchmarks.export", str(folder.path), form]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            seconds, memory, written = map(float, told)
            over = over or seconds > SECONDS or memory > MEGABYTES
            print(
                f"{form:<5}{seconds:6.2f} s (bar {SECONDS:.0f})  {memory:5.0f} MB (bar {MEGABYTES:.0f})  {written} MB"
            )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
