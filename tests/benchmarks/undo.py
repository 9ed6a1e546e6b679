"""Undo at length: `python -m tests.benchmarks.undo`; 10,000 racing saves and 1,000 random stories (K1).

Exits with 1 when anything is lost. `tests/checkpoints` does the same with 500 saves and 80 stories.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.checkpoints.racing import race
from tests.checkpoints.test_machine import Undoing

SAVES, STORIES = 10_000, 1_000


def main() -> int:
    """Run both and say what came out."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        counts = race(Path(folder), SAVES)
    print(f"{SAVES:,} saves, none lost, in {time.perf_counter() - began:.0f} s: {counts}")
    began = time.perf_counter()
    run_state_machine_as_test(
        Undoing,
        settings=settings(
            max_examples=STORIES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    print(f"{STORIES:,} stories as the model says, in {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
