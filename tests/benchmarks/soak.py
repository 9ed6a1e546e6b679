"""Hours of work on the screen while something always goes wrong.

`python -m tests.benchmarks.soak [--minutes 120]` starts the program in a terminal and prints its memory, open files and
threads each minute. Exits with 1 if at the end its memory is more than 10 % above that after 20 minutes (in a shorter
run: after half of it), or if it has more files or threads open than then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.doubles.job import BROKEN, TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.terminal import Terminal
from tui_agent.mock_server.app import MockServer

FAULTS = ("503:times=1", "drop:after=40,times=1", "error:body=oops,times=1", "500:times=2", "garbage:times=1")
NOISY = scenario("noise", step("", call("run_terminal_command", command="seq 20000")), "heard")
ENDLESS = scenario("wait", step("", call("run_terminal_command", command="sleep 600")), "waited")
LONG = scenario(
    "explain",
    "\n\n".join(f"## Part {n}\n\nSome **bold** words and `code`:\n\n```python\nx = {n}\n```" for n in range(40)),
)
MESSAGES = (TASK, "noise", "wait", "explain", "who are you?")
GROWTH = 1.1
WARM_UP = 20.0
"""Minutes after which memory counts."""
SLACK = 2
"""Files and threads that may be in use for a moment."""


class Usage(NamedTuple):
    """What the program holds."""

    memory: int
    """KiB, resident."""
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return cls(int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]))


async def one_message(terminal: Terminal, server: MockServer, workspace: Path, chance: random.Random) -> None:
    """Send a message, look around while it is worked on, and wait for or interrupt its run."""
    if chance.random() < 0.2:
        server.misbehave(chance.choice(FAULTS))
    (workspace / "adder.py").write_text(BROKEN, encoding="utf-8")
    text = chance.choice(MESSAGES)
    terminal.type(text)
    await asyncio.sleep(0.1)
    terminal.type("\r")
    for _ in range(chance.randint(1, 6)):
        terminal.type(chance.choice(("\x1b[5~", "\x1b[6~", "\x1bOS", "draft", "\x15")))
        await asyncio.sleep(chance.random() / 2)
        terminal.read(0)
    if chance.random() < 0.1:
        terminal.resize(chance.randint(60, 160), chance.randint(20, 50))
    if text == "wait" or chance.random() < 0.2:
        terminal.type("\x1b")
    await asyncio.sleep(1)
    terminal.read(0)
    terminal.bytes = b""


async def soak(folder: Path, minutes: float) -> list[Usage]:
    """Work for so long; returns the usage after each minute."""
    chance, usages = random.Random(10), list[Usage]()
    workspace = make_workspace(folder / "work")
    async with serve(job_scenario(), NOISY, ENDLESS, LONG, keep=20) as server:
        arguments = ("--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model")
        given = ("--approval-mode", "auto", "--trust", "--workspace", str(workspace))
        terminal = Terminal("-m", "tui_agent", *arguments, *given, env=environment(folder), whole_env=True)
        try:
            await terminal.wait_for_text("mock-model")
            started = time.monotonic()
            while len(usages) < minutes:
                await one_message(terminal, server, workspace, chance)
                if time.monotonic() - started >= 60 * (len(usages) + 1):
                    usages.append(usage := Usage.of(terminal.process.pid))
                    print(
                        f"{len(usages):4} min  {usage.memory:,} KiB  {usage.files} files  {usage.threads} threads  "
                        f"{server.exchanges[-1].number} requests",
                        flush=True,
                    )
                    if terminal.process.poll() is not None:
                        raise SystemExit(f"the program ended: {terminal.text}")
        finally:
            terminal.close()
    return usages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder:
        usages = asyncio.run(soak(Path(folder), minutes))
    warm, last = usages[int(min(WARM_UP, minutes / 2))], usages[-1]
    print(f"memory {last.memory / warm.memory:.2f} of that after the warm-up")
    grown = last.memory > warm.memory * GROWTH or any(b > a + SLACK for a, b in zip(warm[1:], last[1:], strict=True))
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
