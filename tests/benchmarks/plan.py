"""What a plan of 10,000 log entries costs (P2): `python -m tests.benchmarks.plan`; exits with 1 when over its bar."""

from __future__ import annotations

import gc
import sys
from datetime import datetime, timedelta
from time import perf_counter

from tests.doubles.plan_text import plan_text
from tui_agent.plan.document import Criterion, LogEntry, Plan
from tui_agent.plan.markdown import parse

ENTRIES = 10_000
BAR = 1.0
"""Seconds for parsing and serialising together."""


def large(entries: int) -> Plan:
    """A plan with so many entries, no two alike."""
    began = datetime(2025, 1, 1)
    return Plan(
        goal="Everything\n\n```\n## in a fence\n```",
        acceptance_criteria=tuple(Criterion(description=f"criterion {at}", completed=at % 2 == 0) for at in range(100)),
        execution_log=tuple(
            LogEntry(
                action=f"Step {at}: changed, checked - and done",
                details=f"Edited module_{at}.py\nand its tests, too",
                result=f"✓ {at} tests pass",
                tools=("edit_file", f"bash (pytest -k {at})"),
                when=began + timedelta(minutes=at),
            )
            for at in range(entries)
        ),
    )


def main() -> int:
    text = plan_text(large(ENTRIES))
    best = [9e9, 9e9]
    for _ in range(3):
        gc.collect()
        began = perf_counter()
        document = parse(text)
        between = perf_counter()
        again = plan_text(document.plan)
        best = min(best, [between - began, perf_counter() - between], key=sum)
        assert again == text
    print(
        f"{ENTRIES:,} entries, {len(text):,} characters: parse {best[0]:.2f} s, serialise {best[1]:.2f} s (bar {BAR} s)"
    )
    return int(sum(best) > BAR)


if __name__ == "__main__":
    sys.exit(main())
