from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from msgspec import structs

from tests.doubles.fault_os import FakeOs
from tests.doubles.plan_text import plan_text
from tests.faults.syscalls import Machine, open_files
from tests.faults.syscalls import Plan as FaultyCalls
from tests.waiting import within_timeout
from tui_agent.common.workplan import plan_template
from tui_agent.plan.document import Criterion, LogEntry, Plan
from tui_agent.plan.store import CAP, PlanStore, RefreshResult, SaveConflict, SaveResult, Unreadable
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import sha256_of
from tui_agent.platform.watching import file_changes

BASE = Plan(goal="goal", created_at=5, acceptance_criteria=(Criterion(description="one"),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "plan_doc.md"
    place.write_text(plan_text(BASE), encoding="utf-8")
    return place


@pytest.fixture
def store(path: Path) -> PlanStore:
    made = PlanStore(path, clock=lambda: 1_700_000_000.0)
    made.load()
    return made


def with_entry(plan: Plan, action: str) -> Plan:
    return structs.replace(plan, execution_log=(*plan.execution_log, LogEntry(action=action, result="✓")))


def save(store: PlanStore, plan: Plan) -> SaveResult:
    outcome = store.save(plan, store.plan)
    assert isinstance(outcome, SaveResult)
    return outcome


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_save_increments_the_version_and_preserves_the_mode(store: PlanStore, path: Path) -> None:
    path.chmod(0o640)
    save(store, with_entry(store.plan, "did it"))
    again = PlanStore(path)
    again.load()
    assert (again.plan.version, again.plan.updated_at, again.plan.created_at) == (2, 1_700_000_000_000, 5)
    assert again.plan.execution_log[0].action == "did it"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == ["plan_doc.md"]


def test_an_unchanged_plan_is_not_written(store: PlanStore, path: Path) -> None:
    before = path.read_bytes()
    assert not save(store, store.plan).written
    assert path.read_bytes() == before


def test_a_user_edit_is_merged(store: PlanStore, path: Path) -> None:
    edit(path, "- [ ] one", "- [x] one *(by hand)*\nmy note")
    assert save(store, with_entry(store.plan, "did it")).merged
    text = path.read_text(encoding="utf-8")
    assert "- [x] one *(by hand)*\nmy note\n" in text
    assert "### did it\n" in text


def test_an_edit_read_while_a_change_is_prepared_is_not_reverted(store: PlanStore, path: Path) -> None:
    since = store.plan
    edit(path, "- [ ] one", "- [x] one")
    seen = store.refresh()
    assert not isinstance(seen, Unreadable) and seen.changed
    assert isinstance(store.save(with_entry(since, "did it"), since), SaveResult)
    assert store.plan.acceptance_criteria[0].completed


def test_conflicting_goals_are_reported_and_nothing_is_written(store: PlanStore, path: Path) -> None:
    edit(path, "## Goal\ngoal", "## Goal\ntheirs")
    before = path.read_bytes()
    ours = structs.replace(store.plan, goal="ours")
    since = store.plan
    outcome = store.save(ours, since)
    assert isinstance(outcome, SaveConflict)
    assert [one.id for one in outcome.conflicts] == ["goal"]
    assert path.read_bytes() == before
    assert isinstance(store.save(ours, since, {"goal": "both"}), SaveResult)
    assert store.plan.goal == "theirs\nours"


def test_a_stale_text_saved_over_ours_loses_nothing(store: PlanStore, path: Path) -> None:
    stale = path.read_text(encoding="utf-8").replace("- [ ] one", "- [ ] one\n- [ ] two")
    save(store, with_entry(store.plan, "did it"))
    path.write_text(stale, encoding="utf-8")
    seen = store.refresh()
    assert not isinstance(seen, Unreadable)
    assert seen.changed
    save(store, store.plan)
    text = path.read_text(encoding="utf-8")
    assert "- [ ] two" in text and "did it" in text
    assert store.plan.version == 3


def test_an_item_missing_from_a_text_of_unknown_origin_is_a_conflict(store: PlanStore, path: Path) -> None:
    save(store, with_entry(store.plan, "did it"))
    path.write_text("# Plan: goal\n\n## Goal\ngoal\n\n## Acceptance Criteria\n- [ ] one\n", encoding="utf-8")
    store._versions.clear()
    outcome = store.save(store.plan, store.plan)
    assert isinstance(outcome, SaveConflict)
    assert [one.item for one in outcome.conflicts] == ["did it"]


@pytest.mark.parametrize(
    "data", [b"", b"\n \n", b"\xff\xfe\x00", b"---\nstatus: [\n---\n# Plan: x\n", b"just words", b"a: &a [*a]"]
)
def test_an_unreadable_document_is_never_overwritten(store: PlanStore, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    outcome = store.save(with_entry(store.plan, "did it"), store.plan)
    assert isinstance(outcome, Unreadable)
    assert isinstance(store.refresh(), Unreadable)
    assert path.read_bytes() == data
    assert outcome.reason and outcome.sha256 == sha256_of(data)


def test_an_alias_bomb_is_refused_immediately(store: PlanStore, path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 12)]
    path.write_text("---\n" + "\n".join(lines) + "\n---\n# Plan: x\n", encoding="utf-8")
    outcome = store.refresh()
    assert isinstance(outcome, Unreadable) and "alias" in outcome.reason


def test_a_huge_file_is_left_alone(store: PlanStore, path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(CAP + 1)
    outcome = store.refresh()
    assert isinstance(outcome, Unreadable) and outcome.text is None
    assert path.stat().st_size == CAP + 1


def test_a_repair_replaces_the_file_and_saves_a_copy(store: PlanStore, path: Path) -> None:
    path.write_bytes(b"broken words")
    found = store.refresh()
    assert isinstance(found, Unreadable)
    assert isinstance(store.replace("still broken", found.sha256), Unreadable)
    saved = store.replace(plan_text(BASE), found.sha256)
    assert isinstance(saved, SaveResult)
    assert [one.read_bytes() for one in saved.copies] == [b"broken words"]
    assert path.read_text(encoding="utf-8") == plan_text(BASE)


def test_a_deleted_file_is_restored_with_its_notes(store: PlanStore, path: Path) -> None:
    edit(path, "- [ ] one", "- [ ] one\nmy note")
    store.refresh()
    path.unlink()
    save(store, with_entry(store.plan, "did it"))
    assert "my note" in path.read_text(encoding="utf-8")


def test_a_text_written_into_the_replaced_file_is_copied(store: PlanStore, path: Path) -> None:
    with path.open("r+b") as editor:
        save(store, with_entry(store.plan, "did it"))
        editor.write(b"late words")
        editor.truncate()
    (kept,) = store.close()
    assert kept.read_bytes() == b"late words"


def test_links_are_followed_inside_the_folder_only(tmp_path: Path) -> None:
    inside = tmp_path / "session"
    inside.mkdir()
    (inside / "real.md").write_text(plan_text(BASE), encoding="utf-8")
    link = inside / "plan_doc.md"
    link.symlink_to("real.md")
    store = PlanStore(link)
    store.load()
    save(store, with_entry(store.plan, "did it"))
    assert link.is_symlink() and "did it" in (inside / "real.md").read_text(encoding="utf-8")
    link.unlink()
    (tmp_path / "outside.md").write_text(plan_text(BASE), encoding="utf-8")
    link.symlink_to("../outside.md")
    with pytest.raises(FileFault):
        PlanStore(link).load()


def test_a_pipe_is_refused_without_hanging(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan_doc.md")
    with pytest.raises(FileFault):
        PlanStore(tmp_path / "plan_doc.md").load()


def test_a_new_session_has_the_empty_plan() -> None:
    assert plan_text(Plan(created_at=7, updated_at=7)) == plan_template(7)


def in_place(path: Path) -> None:
    path.write_text("in place", encoding="utf-8")


def by_renaming(path: Path) -> None:
    beside = path.with_name("beside")
    beside.write_text("renamed", encoding="utf-8")
    os.replace(beside, path)


def by_deleting(path: Path) -> None:
    path.unlink()


async def test_every_kind_of_save_is_detected_repeatedly(path: Path) -> None:
    ways: list[Callable[[Path], None]] = [
        in_place,
        by_renaming,
        in_place,
        by_renaming,
        by_renaming,
        by_deleting,
        in_place,
    ]
    seen = file_changes(path)
    for number, way in enumerate(ways):
        waiting = asyncio.ensure_future(anext(seen))
        await asyncio.sleep(0.3 if number == 0 else 0.05)
        way(path)
        await within_timeout(waiting)
    await seen.aclose()


def test_an_unreadable_replaced_file_is_reported_on_close(store: PlanStore, path: Path) -> None:
    save(store, with_entry(store.plan, "did it"))
    save(store, with_entry(store.plan, "and that"))
    broken = FaultyCalls(names=("pread",), at=1, error=errno.EIO, lasting=True)
    with Machine(path.parent, broken) as machine:
        assert open_files(path.parent)
        assert isinstance(store.refresh(), RefreshResult), "what was written late is looked for again"
        with pytest.raises(FileFault, match="disk"):
            store.close()
        assert machine.fired >= 2
    assert not open_files(path.parent)
    assert store.close() == ()


def test_errors_on_close_are_ignored_and_leak_nothing(store: PlanStore, path: Path) -> None:
    save(store, with_entry(store.plan, "did it"))
    save(store, with_entry(store.plan, "and that"))
    broken = FaultyCalls(names=("close",), at=1, error=errno.EIO, lasting=True)
    with Machine(path.parent, broken) as machine:
        assert store.close() == ()
        assert machine.fired == 2
    assert not open_files(path.parent)


def test_a_failed_copy_is_retried_on_the_next_refresh(store: PlanStore, path: Path) -> None:
    with path.open("r+b") as editor:
        save(store, with_entry(store.plan, "did it"))
        editor.write(b"late words")
        editor.truncate()
        editor.flush()
        os.utime(editor.fileno(), (0, 0))
        full = FaultyCalls(names=("write",), at=1, error=errno.ENOSPC, lasting=True)
        with Machine(path.parent, full) as machine:
            with pytest.raises(FileFault, match="space"):
                store.refresh()
            assert machine.fired
    seen = store.refresh()
    assert isinstance(seen, RefreshResult)
    assert [one.read_bytes() for one in seen.copies] == [b"late words"]
    store.close()


def interrupted_save(
    path: Path, swaps: Sequence[Callable[[], object]], before_removal: Callable[[], None] = lambda: None
) -> tuple[PlanStore, SaveResult]:
    """Save while another program acts before each swap of files, and before the temporary file is removed."""
    actions = iter(swaps)

    def act() -> None:
        next(actions, lambda: None)()

    store = PlanStore(path, calls=FakeOs(before={"exchange": act, "unlink": before_removal}))
    store.load()
    saved = save(store, with_entry(store.plan, "did it"))
    assert next(actions, None) is None
    return store, saved


def assert_all_saved(path: Path, store: PlanStore, saved: SaveResult, *words: str) -> None:
    """Assert that the file and the copies have all the words."""
    complete = "".join(one.read_text(encoding="utf-8") for one in (path, *saved.copies, *store.close()))
    assert [each for each in words if each not in complete] == []


def save_beside(path: Path, text: str) -> None:
    """Save as many editors do: a new file takes the name."""
    beside = path.with_name(".swp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def test_saves_during_a_rollback_are_all_preserved(path: Path) -> None:
    """An editor saves changes of the current file: first of our text, then of the older one that was restored."""
    later = iter(["first", "second", "third"])

    def add() -> None:
        if words := next(later, ""):
            save_beside(path, path.read_text(encoding="utf-8") + f"{words} note\n")

    disk = FakeOs(before={"exchange": add})
    store = PlanStore(path, calls=disk)
    store.load()
    saved = save(store, with_entry(store.plan, "did it"))
    assert next(later, None) is None and disk.calls.count("exchange") > 4
    assert_all_saved(path, store, saved, "first note", "second note", "third note", "did it")


def test_a_save_during_a_rollback_survives_one_based_on_the_text_before_it(path: Path) -> None:
    """While a rollback puts a version back, the one before it has the name for a moment, and an editor continues from it."""
    current = partial(path.read_text, encoding="utf-8")
    seen: list[str] = []

    def save_older() -> None:
        if seen:
            save_beside(path, seen.pop() + "third note\n")

    swaps = [
        lambda: save_beside(path, current() + "first note\n"),
        lambda: save_beside(path, current() + "second note\n"),
        lambda: seen.append(current()),
    ]
    store, saved = interrupted_save(path, swaps, save_older)
    assert "second note" not in current()
    assert_all_saved(path, store, saved, "first note", "second note", "third note", "did it")


def test_a_write_into_our_text_after_its_rollback_survives(path: Path) -> None:
    """An editor has our text open, by a name that the rollback then takes from it, and writes only afterwards."""
    opened: list[tuple[BinaryIO, str]] = []

    def add() -> None:
        path.write_text(path.read_text(encoding="utf-8") + "first note\n", encoding="utf-8")

    def open_ours() -> None:
        opened.append((path.open("r+b"), path.read_text(encoding="utf-8")))

    def write_ours() -> None:
        for file, text in opened:
            file.write(f"{text}second note\n".encode())
            file.close()
        opened.clear()

    store, saved = interrupted_save(path, [add, open_ours], write_ours)
    assert not opened
    assert_all_saved(path, store, saved, "first note", "second note", "did it")
    assert not open_files(path.parent)


def test_a_save_that_a_rollback_finds_half_written_survives_one_based_on_our_text(path: Path) -> None:
    before = path.read_text(encoding="utf-8")
    first = f"{before}first note\n"
    seen: list[str] = []
    file = path.open("r+b", buffering=0)

    def write_half() -> None:
        file.write(first[: len(first) // 2].encode())
        file.truncate()

    def write_rest() -> None:
        file.write(first[len(first) // 2 :].encode())
        file.close()
        seen.append(path.read_text(encoding="utf-8"))

    def write_based_on_ours() -> None:
        if seen:
            path.write_text(f"{seen.pop()}second note\n", encoding="utf-8")

    store, saved = interrupted_save(path, [write_half, write_rest], write_based_on_ours)
    assert not seen
    assert_all_saved(path, store, saved, "first note", "second note", "did it")


def test_edits_of_a_text_that_keeps_the_name_after_a_rollback_are_no_late_writes(path: Path) -> None:
    before = path.read_text(encoding="utf-8")
    swaps = iter([f"{before}first note\n".encode(), b"\xff no text"])  # the second into our text, which keeps the name

    def write() -> None:
        if data := next(swaps, b""):
            path.write_bytes(data)

    store = PlanStore(path, calls=FakeOs(before={"exchange": write}))
    store.load()
    assert isinstance(store.save(with_entry(store.plan, "did it"), store.plan), Unreadable)
    copies: list[Path] = []
    for number in range(3):
        path.write_text(f"{before}note {number}\n", encoding="utf-8")
        os.utime(path, (0, 0))
        seen = store.refresh()
        assert isinstance(seen, RefreshResult)
        copies += seen.copies
    copies += store.close()
    assert [copy.read_bytes() for copy in copies] == [b"\xff no text"]
    assert not open_files(path.parent)


def test_failing_closes_during_a_rollback_lose_no_save_of_the_other(path: Path) -> None:
    before = path.read_text(encoding="utf-8")
    later = iter(["first", "second"])

    def add() -> None:
        if words := next(later, ""):
            save_beside(path, f"{before}{words} note\n")
            disk._fail_named["close"] = errno.EIO  # of every file from now on

    disk = FakeOs(before={"exchange": add})
    store = PlanStore(path, calls=disk)
    store.load()
    with pytest.raises(FileFault, match="may also lie in"):
        store.save(with_entry(store.plan, "did it"), store.plan)
    assert next(later, None) is None
    assert f"{before}second note\n" in [one.read_text(encoding="utf-8") for one in path.parent.iterdir()]


@pytest.mark.parametrize("renames", [True, False])
def test_a_save_that_a_rollback_gives_the_name_back_half_written_survives_one_based_on_an_older_text(
    path: Path, renames: bool
) -> None:
    before = path.read_text(encoding="utf-8")
    opened: list[BinaryIO] = []
    seen: list[str] = []

    def finish() -> None:
        seen.append(path.read_text(encoding="utf-8"))
        opened[0].write(f"{seen[0]}second note\n".encode())
        opened[0].close()

    def save_older() -> None:
        if seen and renames:
            save_beside(path, f"{seen.pop()}third note\n")
        elif seen:
            path.write_text(f"{seen.pop()}third note\n", encoding="utf-8")

    swaps = [lambda: save_beside(path, f"{before}first note\n"), lambda: opened.append(path.open("wb")), finish]
    store, saved = interrupted_save(path, swaps, save_older)
    assert not seen
    assert_all_saved(path, store, saved, "first note", "second note", "third note", "did it")
