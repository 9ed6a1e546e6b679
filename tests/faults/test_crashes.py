from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.counts import numbers
from tests.faults.power import leave
from tests.faults.syscalls import Machine, Recorder
from tests.faults.visit import UNSET_GOAL, reopened, visit
from tests.nightly import crossed

ROOT = Path(__file__).parents[2]
STATES = numbers("TUI_AGENT_POWER_LOSSES", 200)
GOALS = [UNSET_GOAL, "goal z2", "goal a2", "goal b2"]


async def kept(tmp_path: Path) -> tuple[Path, list[str]]:
    """A session that was closed in order, and what was promised of it."""
    start = tmp_path / "start"
    start.mkdir()
    with Machine(start):
        seen = await visit(start / "sessions", "z")
    assert seen.complete
    return start, seen.promises


def killed(root: Path, kill: str, *start: str) -> int:
    """How many children died, each at its call."""
    argv = [sys.executable, "-m", "tests.faults.dying", str(root), kill, *start]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kill", "begun"), crossed(["before", "within"], {"resumed": "resumed", "new": "new"}, whole=())
)
async def test_a02_b01_killed_at_every_change_nothing_acknowledged_is_lost(
    tmp_path: Path, kill: str, begun: str
) -> None:
    start, before = await kept(tmp_path) if begun == "resumed" else (None, [])
    root = tmp_path / "grounds"
    root.mkdir()
    more = [] if start is None else [str(start)]
    deaths = killed(root, kill, *more)
    assert deaths > (12 if kill == "within" else 50)
    for number in range(1, deaths + 1):
        promises = [*before, *Path(f"{root}/{number}.said").read_text().splitlines()]
        with Machine(root):
            sessions = root / str(number) / "sessions"
            first = await reopened(sessions, promises, GOALS)
            again = await reopened(sessions, promises, GOALS)
        assert (first is None) == (again is None)
        if again is not None:
            assert again.recovered.event() is None, "what was healed is told once"


@pytest.mark.timeout(900)
async def test_a03_what_is_durable_survives_every_loss_of_power(tmp_path: Path) -> None:
    recorder = Recorder()
    live = tmp_path / "live"
    live.mkdir()
    with Machine(live, recorder=recorder):
        for name in ("a", "b"):
            seen = await visit(live / "sessions", name, recorder.promise)
            assert seen.complete
    at_most = len(recorder.ops)
    assert at_most > 100
    lost = 0
    for number in STATES:
        chance = random.Random(number)
        crash = number % at_most + 1 if number < at_most else chance.randint(1, at_most)
        ground = tmp_path / "ground"
        leave(recorder.ops[:crash], chance, ground)
        promises = [one.promise for one in recorder.marks if one.at <= crash]
        durable = [one for one in promises if not one.startswith("written")]
        with Machine(ground):
            found = await reopened(ground / "sessions", durable, GOALS, exact=False)
        lost += found is not None and bool(found.recovered.damaged)
        shutil.rmtree(ground)
    assert lost > len(STATES) // 50, "no state was a damaged one"
