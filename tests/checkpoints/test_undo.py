from __future__ import annotations

import errno
import os
import shutil
import subprocess
import unicodedata
from pathlib import Path

import msgspec
import pytest

from tests.checkpoints.kit import EditingAgent, outcomes, snapshot_tree
from tests.doubles.fault_os import FakeOs
from tui_agent.checkpoints import disk, survey
from tui_agent.platform.file_faults import FileFault


def edited(tmp_path: Path, *names: str) -> tuple[EditingAgent, dict[str, tuple[int, bytes]]]:
    """Existing files, edited in one run."""
    work = EditingAgent(tmp_path)
    for name in names:
        work.path(name).parent.mkdir(parents=True, exist_ok=True)
        work.path(name).write_bytes(f"of {name}\r\n".encode("utf-8", "surrogateescape"))
    before = snapshot_tree(work.files)
    for name in names:
        work.edit(name, b"the agent's\n")
    return work, before


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "link", "hard link"])
def test_a_path_that_is_no_longer_a_file_is_left_and_does_not_block(tmp_path: Path, kind: str) -> None:
    work, _ = edited(tmp_path, "a", "b")
    path = work.path("a")
    if kind == "hard link":
        os.link(path, work.path("other name"))
    else:
        path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        import socket

        here = os.getcwd()
        os.chdir(work.files)
        try:
            socket.socket(socket.AF_UNIX).bind("a")
        finally:
            os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        work.path("elsewhere").write_bytes(b"the agent's\n")
        path.symlink_to(work.path("elsewhere"))
    result = work.path("a").lstat()
    items = work.undo(choice="overwrite")
    assert outcomes(items)["b"] == "restored"
    assert outcomes(items)["a"] in ("left", "failed")
    assert next(item for item in items if item.display == "a").why
    assert work.path("a").lstat().st_ino == result.st_ino
    if kind == "link":
        assert work.path("elsewhere").read_bytes() == b"the agent's\n"


def test_a_parent_folder_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    work, _ = edited(tmp_path, "d/a")
    shutil.move(work.path("d"), tmp_path / "moved")
    work.path("d").symlink_to(tmp_path / "moved")
    items = work.undo(choice="overwrite")
    assert outcomes(items) == {"d/a": "left"}
    assert (tmp_path / "moved" / "a").read_bytes() == b"the agent's\n"


@pytest.mark.parametrize("crash", ["snapshot", "edit"])
def test_undo_is_correct_after_a_crash_during_an_edit(tmp_path: Path, crash: str) -> None:
    work = EditingAgent(tmp_path)
    work.path("a").write_bytes(b"one")
    before = snapshot_tree(work.files)
    work.edit("a", b"two", crash=crash)
    assert (work.path("a").read_bytes() == b"two") == (crash == "edit")
    items = work.undo()
    assert outcomes(items) == {"a": "restored" if crash == "edit" else "already"}
    assert snapshot_tree(work.files) == before
    assert work.ledger.active() == []


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_file_without_saved_content_is_left_unchanged(tmp_path: Path, how: str) -> None:
    work, _ = edited(tmp_path, "a", "b")
    place = work.store.path_of(work.ledger.steps[0].before.sha256)
    if how == "damaged":
        place.write_bytes(b"garbage")
    else:
        place.unlink()
    items = work.undo(choice="overwrite")
    assert outcomes(items) == {"a": "failed", "b": "restored"}
    why = next(item.why for item in items if item.display == "a")
    assert place.name[:12] in why
    assert work.path("a").read_bytes() == b"the agent's\n"


@pytest.mark.parametrize("how", ["deleted", "renamed"])
def test_a_deleted_file_is_a_conflict_and_can_be_restored(tmp_path: Path, how: str) -> None:
    work, before = edited(tmp_path, "a")
    if how == "deleted":
        work.path("a").unlink()
    else:
        work.path("a").rename(work.path("a2"))
    (item,) = work.undo()
    assert (item.outcome, item.why) == ("left", "it has been deleted or renamed")
    (item,) = work.undo(choice="overwrite")
    assert item.outcome == "restored"
    assert work.path("a").read_bytes() == before["a"][1]


def test_content_is_written_next_to_an_occupied_name(tmp_path: Path) -> None:
    work, before = edited(tmp_path, "a")
    work.path("a").unlink()
    work.path("a").mkdir()
    work.path("a.undone").write_bytes(b"somebody's")
    (item,) = work.undo(choice="aside")
    assert item.outcome == "aside"
    assert Path(item.why) == work.path("a.undone-2")
    assert Path(item.why).read_bytes() == before["a"][1]
    assert work.path("a.undone").read_bytes() == b"somebody's"


def test_content_is_written_to_the_session_if_the_folder_is_missing(tmp_path: Path) -> None:
    work, before = edited(tmp_path, "d/a")
    shutil.rmtree(work.path("d"))
    work.path("d").write_bytes(b"a file now")
    (item,) = work.undo(choice="aside")
    assert item.outcome == "aside"
    assert Path(item.why).parent == work.session / "restored"
    assert Path(item.why).read_bytes() == before["d/a"][1]


def test_a_full_disk_stops_the_undo_and_the_remaining_files_can_be_undone_later(tmp_path: Path) -> None:
    names = [f"f{number:02}" for number in range(50)]
    work, before = edited(tmp_path, *names)
    full = {"on": False, "count": 0}

    class Disk(FakeOs):
        def exchange(self, one: str, other: str, *, dir_fd: int) -> None:
            full["count"] += 1
            if full["on"] and full["count"] > 25:
                self.fired += 1
                raise OSError(errno.ENOSPC, "full")
            super().exchange(one, other, dir_fd=dir_fd)

    work.calls = calls = Disk()
    full["on"] = True
    items = work.undo()
    assert calls.fired == 1
    counts = {name: [item.outcome for item in items].count(name) for name in ("restored", "failed", "")}
    assert counts == {"restored": 25, "failed": 1, "": 24}
    assert all(data in (b"the agent's\n", before[name][1]) for name, (_, data) in snapshot_tree(work.files).items())
    full["on"] = False
    assert {item.outcome for item in work.undo()} == {"restored"}
    assert snapshot_tree(work.files) == before


def test_other_files_in_the_folder_are_unchanged(tmp_path: Path) -> None:
    work, _ = edited(tmp_path, "a")
    for name in ("b", "d/c", "d/.hidden"):
        work.path(name).parent.mkdir(exist_ok=True)
        work.path(name).write_bytes(os.urandom(50))
    others = {name: state for name, state in snapshot_tree(work.files).items() if name != "a"}
    work.undo()
    assert {name: state for name, state in snapshot_tree(work.files).items() if name != "a"} == others


@pytest.mark.needs("git")
@pytest.mark.parametrize("kind", ["repository", "bare", "worktree", "submodule"])
def test_git_is_neither_required_nor_changed(tmp_path: Path, kind: str) -> None:
    def git(*text: str, cwd: Path) -> None:
        names = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always"]
        subprocess.run(["git", *names, *text], cwd=cwd, check=True, capture_output=True)

    work = EditingAgent(tmp_path)
    if kind == "bare":
        git("init", "--bare", ".", cwd=work.files)
    else:
        git("init", ".", cwd=work.files)
        work.path("kept").write_bytes(b"kept")
        git("add", ".", cwd=work.files)
        git("commit", "-m", "x", cwd=work.files)
    if kind == "worktree":
        git("worktree", "add", str(tmp_path / "tree"), cwd=work.files)
        work.files = tmp_path / "tree"
    elif kind == "submodule":
        other = EditingAgent(tmp_path / "other")
        git("init", ".", cwd=other.files)
        git("commit", "--allow-empty", "-m", "x", cwd=other.files)
        git("submodule", "add", str(other.files), "sub", cwd=work.files)
        work.files = work.path("sub")
    before = snapshot_tree(tmp_path)
    work.edit("a.txt", b"new")
    assert survey.take_survey([work.files]).stamps.keys() & {str(work.files / ".git" / "HEAD")} == set()
    work.undo()
    after = {name: state for name, state in snapshot_tree(tmp_path).items() if not name.startswith("session")}
    assert after == {name: state for name, state in before.items() if not name.startswith("session")}


NAMES = [
    "Case",
    "case",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "a\nb",
    " ",
    "\udcff\udcfe",
    "-rf",
    "$(x)",
]


def test_any_file_name_can_be_undone_and_redone(tmp_path: Path) -> None:
    work, before = edited(tmp_path, *NAMES)
    assert len(before) == len(NAMES)
    after = snapshot_tree(work.files)
    work.ledger = msgspec.convert(msgspec.to_builtins(work.ledger), type(work.ledger))
    assert set(outcomes(work.undo()).values()) == {"restored"}
    assert snapshot_tree(work.files) == before
    work.redo()
    assert snapshot_tree(work.files) == after


def test_a_case_only_rename_counts_as_a_deletion(tmp_path: Path) -> None:
    work, _ = edited(tmp_path, "Readme")
    work.path("Readme").rename(work.path("README"))
    (item,) = work.undo()
    assert item.outcome == "left"
    assert work.path("README").read_bytes() == b"the agent's\n"


def test_an_unreadable_file_is_not_treated_as_absent(tmp_path: Path) -> None:
    work, _ = edited(tmp_path, "a")
    calls = FakeOs(fail_named={"read": errno.EACCES})
    with pytest.raises(FileFault):
        disk.read_state(work.path("a"), calls=calls)
    assert calls.fired
    work.calls = calls
    (item,) = work.undo(choice="overwrite")
    assert item.outcome in ("left", "failed")
    assert work.path("a").read_bytes() == b"the agent's\n"


def test_changes_between_the_agents_edits_are_a_conflict(tmp_path: Path) -> None:
    work = EditingAgent(tmp_path)
    work.path("a").write_bytes(b"1\n2\n3\n4\n5\n")
    work.edit("a", b"one\n2\n3\n4\n5\n")
    work.path("a").write_bytes(b"one\n2\nmine\n4\n5\n")
    work.edit("a", b"one\n2\nmine\n4\nfive\n")
    (item,) = work.undo()
    assert (item.outcome, item.why) == ("left", "it was changed between the agent's edits")
    (item,) = work.undo(choice="merge")
    assert item.outcome == "restored"
    assert work.path("a").read_bytes() == b"1\n2\nmine\n4\n5\n"
    work.redo()
    assert work.path("a").read_bytes() == b"one\n2\nmine\n4\nfive\n"


def test_a_change_at_the_last_moment_is_preserved(tmp_path: Path) -> None:
    work, _ = edited(tmp_path, "a")
    saved: list[bool] = []

    def save() -> None:
        if not saved:
            saved.append(True)
            work.path("a~").write_bytes(b"theirs")
            os.replace(work.path("a~"), work.path("a"))

    work.calls = FakeOs(before={"exchange": save})
    (item,) = work.undo()
    assert saved
    assert (item.outcome, item.why) == ("left", "it changed during the undo")
    assert work.path("a").read_bytes() == b"theirs"
    assert work.ledger.active()


def test_a_new_file_saved_at_the_last_moment_is_not_removed(tmp_path: Path) -> None:
    work = EditingAgent(tmp_path)
    work.edit("new", b"the agent's")
    saved: list[bool] = []

    def save() -> None:
        if not saved:
            saved.append(True)
            work.path("new").write_bytes(b"theirs")

    work.calls = FakeOs(before={"rename": save})
    (item,) = work.undo()
    assert saved
    assert item.outcome == "left"
    assert work.path("new").read_bytes() == b"theirs"
    assert sorted(os.listdir(work.files)) == ["new"]
