"""Seeded three-tool tasks (read, mend, check) for noisy models, and the judgement of what came of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.doubles.mock import call, scenario, scenarios, step
from tui_agent.mock_server.app import RecordedExchange
from tui_agent.models.scenarios import Scenarios, convert_scenarios

PASSED = "all checks passed"
COMMAND = f"{sys.executable} -S check.py"
_NUMBER = re.compile(r"Task (\d+):")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One task: a file with a bug, what it must become, and what the right model does."""

    number: int
    file: str
    broken: str
    mended: str
    check: str
    steps: tuple[dict[str, Any], ...]

    @property
    def task(self) -> str:
        """What the user asks."""
        return f"Task {self.number}: {self.file} computes something wrong. Mend it and run {COMMAND}."

    @property
    def report(self) -> str:
        """What the model says when everything is done."""
        return f"Task {self.number} is done: {self.file} is mended and its check passes."

    def set_up(self, folder: Path) -> Path:
        """The workspace with the bug."""
        folder.mkdir(parents=True)
        (folder / self.file).write_text(self.broken, encoding="utf-8")
        (folder / "check.py").write_text(self.check, encoding="utf-8")
        return folder

    def right(self, folder: Path) -> bool:
        """Whether the workspace holds the expected bytes and nothing else, and its check really passes."""
        files = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
        if files != {self.file, "check.py"} or (folder / self.file).read_bytes() != self.mended.encode():
            return False
        if (folder / "check.py").read_bytes() != self.check.encode():
            return False
        done = subprocess.run(
            [sys.executable, "-S", "-B", "check.py"], cwd=folder, capture_output=True, check=False, timeout=60
        )
        return done.returncode == 0 and PASSED in done.stdout.decode()


def job(number: int) -> Job:
    """The task of that number; the same for ever."""
    rng = Random(number)
    name = rng.choice(("total", "blend", "scale", "shift", "margin"))
    good, bad = rng.choice((("a + b", "a - b"), ("a * b", "a + b"), ("a - b", "b - a"), ("a * b + 1", "a * b")))
    head = rng.choice(('"""A step of a sum."""\n\n\n', "# sums\n\n\n", '"""Says «hello» and {counts}."""\n\n\n'))
    more = f"\n\ndef twice(x):\n    return 2 * {name}(x, 1)\n" if rng.random() < 0.5 else ""
    line = "def {}(a, b):\n    return {}\n"
    broken, mended = (head + line.format(name, one) + more for one in (bad, good))
    a, b = rng.randint(3, 9), rng.randint(11, 19)
    wanted = eval(good, {"a": a, "b": b})
    check = (
        f"from {name} import {name}\n\n"
        f"got = {name}({a}, {b})\n"
        f'assert got == {wanted}, f"{name}({a}, {b}) is {{got}} instead of {wanted}"\n'
        f'print("{PASSED}")\n'
    )
    file = f"{name}.py"
    if rng.random() < 0.5:
        mend = call("edit_file", path=file, old_string=f"return {bad}\n", new_string=f"return {good}\n")
    else:
        mend = call("write_file", path=file, content=mended)
    made = Job(number=number, file=file, broken=broken, mended=mended, check=check, steps=())
    steps = (
        step("I look at it first.", call("read_file", path=file)) | {"proof": f"return {bad}"},
        step(rng.choice(("", "Now I mend it.")), mend),
        step("", call("run_terminal_command", command=COMMAND)) | {"proof": PASSED},
        step(made.report),
    )
    return msgspec.structs.replace(made, steps=steps)


def scripted(jobs: Iterable[Job]) -> Scenarios:
    """What the right model does in all these tasks."""
    return convert_scenarios(scenarios(*(scenario(job.task, *job.steps) for job in jobs)))


class Outcome(msgspec.Struct, kw_only=True):
    """What came of one run. `requests` are filled in from the server's record."""

    job: Job
    ended: str
    """How the agent says it ended: `done`, or anything else."""
    said: bool
    """The agent reported the work as done, in the model's words."""
    right: bool
    """Bytes as expected and the check passes."""
    writes: int
    tested: bool
    """The agent itself saw the check pass after its write."""
    why: str = ""
    """Last words of a run that did not finish."""
    requests: list[RecordedExchange] = msgspec.field(default_factory=list)

    @property
    def finished(self) -> bool:
        """All four: the bytes, each write once, the test, the word."""
        return self.ended == "done" and self.right and self.writes == 1 and self.tested and self.said

    @property
    def false_success(self) -> bool:
        """The agent ended as if all was well, and it was not."""
        return self.ended == "done" and not (self.right and self.writes == 1 and self.tested)

    @property
    def families(self) -> list[str]:
        """The faults that were met, in order."""
        return [one.noise for one in self.requests if one.noise]

    @property
    def prompt_tokens(self) -> int:
        """Of all requests, a quarter of the characters."""
        return sum(
            len(json.dumps([one.messages, one.body.get("tools") or []], ensure_ascii=False)) // 4
            for one in self.requests
        )


def sort_requests(outcomes: list[Outcome], requests: list[RecordedExchange]) -> None:
    """Give each run its own requests, by the number of the task in them."""
    runs = {one.job.number: one for one in outcomes}
    for request in requests:
        found = next((m for text in _users(request) if (m := _NUMBER.search(text))), None)
        if found is not None and (run := runs.get(int(found[1]))) is not None:
            run.requests.append(request)


def _users(request: RecordedExchange) -> Iterable[str]:
    return (str(message.get("content")) for message in request.messages if message.get("role") == "user")
