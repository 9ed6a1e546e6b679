"""How long the numbers of 3,000 sessions take (S4): `python -m tests.benchmarks.stats`; exits with 1 over a bar."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.stats.journals import Journal, approval_answer, plan, reply, step_verified, tool
from tui_agent import events as e
from tui_agent.stats.reading import gather_stats

SESSIONS = 3_000
FIRST_BAR, AGAIN_BAR = 30.0, 3.0
"""Seconds: when every journal must be read, and when none has changed."""
PIECES = 12
"""Records of streamed text for each reply."""


def build(home: Path) -> int:
    """Sessions of one to four runs each; returns the bytes of their journals."""
    size = 0
    for number in range(SESSIONS):
        journal = Journal()
        journal.day = f"2026-01-{1 + number % 28:02d}"
        for turn in range(1 + number % 4):
            journal.begin(f"model-{(number + turn) % 3}").put(reply("planning", 900, 200), *plan(3, 900 + number))
            for step in range(2 + number % 9):
                journal.put(*(e.TextDelta(text="some words " * 5) for _ in range(PIECES)))
                journal.put(
                    reply(prompt=2_000, completion=90), tool("not_found" if step == 5 else None), approval_answer()
                )
            journal.put(step_verified(True), step_verified(number % 5 != 0, "command"))
            version = "old" if number < SESSIONS // 2 else "new"
            journal.end(iterations=4, tool_calls=4, ms=20_000, prompts={"rules": version, "tools": "same"})
        size += journal.write(home, f"2026-01-05T09:00:00.000Z-{number}").stat().st_size
    return size


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        print(f"{SESSIONS:,} sessions, {build(home) / 1e6:.0f} MB of journals")
        took = []
        for name in ("first", "again"):
            began = perf_counter()
            found = gather_stats(home)
            took.append(perf_counter() - began)
            print(f"{name:<6} {took[-1]:6.2f} s  {found.read:,} journals read, {found.tally.total.runs:,} runs")
    return int(took[0] > FIRST_BAR or took[1] > AGAIN_BAR)


if __name__ == "__main__":
    sys.exit(main())
