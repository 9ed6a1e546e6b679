"""Whatever is saved by replacing, at every one of its system calls, with every error that one may report."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from tests.doubles.plan_text import plan_text
from tests.faults.counts import register_part
from tests.faults.syscalls import Machine, Plan, open_files
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.plan.document import Plan as PlanDocument
from tui_agent.plan.store import PlanStore, SaveResult
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, remove_file, remove_leftovers, replace_file, sha256_of

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EXDEV, errno.EINTR)
OLD, NEW = b"old bytes\n" * 500, b"new bytes\n" * 700
PLAN = plan_text(PlanDocument(goal="old", created_at=5, updated_at=5)).encode()


class Save(NamedTuple):
    """What is saved where, and what lies there before."""

    name: str
    act: Callable[[Path], bool]
    """Whether it was acknowledged. Only the fault of its own kind may come out."""
    before: bytes | None = OLD


def plan(place: Path) -> bool:
    store = PlanStore(place)
    try:
        store.load()
        return isinstance(store.save(structs.replace(store.plan, goal="new"), store.plan), SaveResult)
    finally:
        store.close()


def edit(place: Path) -> bool:
    return replace_file(place, NEW, sha256_of(OLD)).before is not None


def new_file(place: Path) -> bool:
    return replace_file(place / "deep" / "new.txt", NEW, None).before is None


def own_file(place: Path) -> bool:
    atomic_write(place, NEW)
    return True


def removal(place: Path) -> bool:
    remove_file(place, sha256_of(OLD))
    return True


def content(place: Path) -> bool:
    return bool(BlobStore(place.parent).put(NEW))


SAVES = (
    Save("plan", plan, PLAN),
    Save("edit", edit),
    Save("new file", new_file, None),
    Save("own file", own_file),
    Save("removal", removal),
    Save("content", content, None),
)


def found(save: Save, place: Path) -> bytes | None:
    """What lies there now, whichever way it is kept."""
    if save.name == "new file":
        place = place / "deep" / "new.txt"
    elif save.name == "content":
        place = BlobStore(place.parent).path_of(sha256_of(NEW))
    return place.read_bytes() if place.is_file() else None


def is_new(save: Save, data: bytes | None) -> bool:
    if save.name == "removal":
        return data is None
    return data is not None and (b"\n# Plan: new\n" in data if save.name == "plan" else data == NEW)


def one_fault(save: Save, ground: Path, error: int, number: int) -> bool:
    """The save with its call of that number failing, then once more with none; whether there was such a call."""
    ground.mkdir()
    os.environ["TUI_AGENT_HOME"] = str(ground / "home")
    place = ground / "place"
    if save.before is not None:
        place.write_bytes(save.before)
        os.utime(place, (0, 0))
    with Machine(ground, Plan(at=number, error=error)) as machine:
        try:
            acknowledged = save.act(place)
        except (FileFault, StoreError):
            acknowledged = False
        assert not open_files(ground)
        data = found(save, place)
        assert is_new(save, data) or (data == save.before and not acknowledged), "torn, or lost"
        if not machine.fired:
            assert acknowledged
            return False
        for folder in (ground, *(one for one in ground.rglob("*") if one.is_dir())):
            remove_leftovers(folder, time.time() + 1)
        assert not list(ground.rglob("*.tua-tmp"))
        if not is_new(save, data):
            machine.heal()
            assert save.act(place) and is_new(save, found(save, place)), "the way is blocked for good"
    return True


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.name)
def test_b01_a_save_is_whole_or_not_at_all_whichever_call_fails_however(save: Save, tmp_path: Path) -> None:
    total = 0
    for error in ERRORS:
        for number in range(1, 200):
            try:
                if not one_fault(save, tmp_path / f"{error}-{number}", error, number):
                    break
            except BaseException:
                print(f"call {number}: {errno.errorcode[error]}")
                raise
            total += 1
    register_part(f"saving {save.name}", total)
