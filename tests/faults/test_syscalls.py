from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.faults.counts import register_part
from tests.faults.syscalls import CHANGES, ERRORS, WRITES, Machine, Plan, open_files
from tests.faults.visit import Visit, reopened, visit
from tests.nightly import sampled

NOT_CALLED = {(name, begun) for name in ("rmdir", "fchmod", "ftruncate") for begun in ("new", "resumed")}
"""Calls that a visit may do without."""
LASTING = (errno.ENOSPC, errno.EIO, errno.EROFS)


async def one_case(sessions: Path, before: Visit | None, plan: Plan) -> int:
    """A visit during which `plan` goes wrong, then one with nothing wrong; how many faults there were."""
    with Machine(sessions.parent, plan) as machine:
        seen = await visit(sessions, "a", mend=machine.heal if plan.lasting else lambda: None)
        assert not open_files(sessions), "a file was left open"
        fired, machine.plan = machine.fired, Plan()
        promises, goals = list(seen.promises), list(seen.goals)
        if before is not None:
            promises, goals = [*before.promises, *promises], [*before.goals, *goals[1:]]
        assert bool(seen.broken) <= bool(seen.failures), "a barrier failed and nobody was told"
        if seen.failures and seen.complete:
            assert seen.failures[-1] == "", "it was saved and nobody was told"
        after = await reopened(sessions, promises, goals)
        if seen.complete:
            assert after is not None
            assert after.said[-len(seen.emitted) :] == seen.emitted
        assert fired or seen.complete
    return fired


async def every_number(tmp_path: Path, plans: list[tuple[str, Plan]], resumed: bool) -> int:
    """Each plan for the first call, the second and so on, until there are no more of them; the number of faults."""
    start, before = tmp_path / "start", None
    if resumed:
        shutil.rmtree(start, ignore_errors=True)
        with Machine(tmp_path):
            before = await visit(start / "sessions", "z")
        assert before.complete
    total = 0
    for name, plan in plans:
        for number in range(1, 1000):
            ground = tmp_path / f"{name}{plan.error}{number}"
            if resumed:
                shutil.copytree(start, ground, copy_function=shutil.copy)
            else:
                ground.mkdir()
            plan.at = number
            try:
                fired = await one_case(ground / "sessions", before, plan)
            except BaseException:
                print(f"{name} number {number}: {errno.errorcode.get(plan.error)}")
                raise
            shutil.rmtree(ground)
            total += bool(fired)
            if not fired:
                break
    return total


BEGUN = pytest.mark.parametrize("begun", ["new", "resumed"])


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("begun", sampled(["new", "resumed"], ["resumed"]))
async def test_b01_whichever_call_fails_once_nothing_promised_is_lost(tmp_path: Path, begun: str) -> None:
    total = 0
    for name, errors in ERRORS.items():
        chosen = errors[-1:] if begun == "resumed" else errors
        plans = [(name, Plan(names=(name,), error=error)) for error in chosen]
        fired = await every_number(tmp_path, plans, begun == "resumed")
        assert fired >= len(chosen) or (name, begun) in NOT_CALLED, name
        total += fired
    register_part(f"visit {begun}", total)


@BEGUN
async def test_a07_every_write_may_be_short(tmp_path: Path, begun: str) -> None:
    once = Plan(names=WRITES, short=True)
    total = await every_number(tmp_path, [("short", once)], begun == "resumed")
    register_part(f"short {begun}", total)
    for_long = Plan(names=WRITES, short=True, lasting=True)
    total = await every_number(tmp_path, [("short", for_long)], begun == "resumed")
    register_part(f"short for long {begun}", total)


@pytest.mark.parametrize("error", sampled(LASTING, 1), ids=lambda code: errno.errorcode[code])
async def test_a10_a11_a12_a_disk_that_fails_until_it_is_mended_costs_nothing(tmp_path: Path, error: int) -> None:
    plan = Plan(names=CHANGES, error=error, lasting=True)
    total = await every_number(tmp_path, [("lasting", plan)], resumed=True)
    register_part(f"lasting {errno.errorcode[error]}", total)
