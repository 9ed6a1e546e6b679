from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.samples import OPENED, STORY
from tui_agent import events as e
from tui_agent.common.domain import ToolCall
from tui_agent.platform.locks import FileLock
from tui_agent.storage import catalog, changes
from tui_agent.storage.changes import add_records
from tui_agent.storage.folder import SessionError, SessionFolder, find_session, load_info, rebuild_info, session_folders
from tui_agent.storage.journal import read_records
from tui_agent.text import SecretMask

SECRET = "ghp_" + "a1B2" * 9
BLOB = "ab" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


def make(home: Path, *events: e.Event, workspace: Path = Path("/w"), end: bool = True) -> SessionFolder:
    folder = SessionFolder.create(home / "sessions", workspace=workspace, model="qwen", mode="agent")
    add_records(folder.path, [OPENED, *events], SecretMask({}))
    if end:
        add_records(folder.path, [e.SessionClosed(reason="user")], SecretMask({}))
        folder.close()
    return folder


def said(number: int, text: str) -> e.UserMessageAdded:
    return e.UserMessageAdded(id=f"m{number}", text=text)


def answer(text: str, role: str = "") -> e.ReplyEnded:
    return e.ReplyEnded(text=text, role=role)


def plan(text: str, *, pending: bool = False) -> e.PlanDocChanged:
    return e.PlanDocChanged(text=text, by="summary", pending=pending)


TALK = (
    said(1, "Make the  importer\nfaster"),
    answer("Die Straße ist frei: done."),
    plan("# Plan: faster\n"),
    said(2, "now the exporter"),
    answer("classified", role="dispatcher"),
    answer("Exporter done too."),
    plan("# Plan: both\n"),
)


def result(folder: Path) -> list[e.Event]:
    return [record.event for record in read_records(folder / "events.jsonl")]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- listing ------------------------------------------------------------------------------------


def test_sessions_are_listed_newest_first(home: Path, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    old = make(home, *TALK, workspace=tmp_path / "here")
    new = make(home, said(1, f"my key is {SECRET}\x1b[2J \u202e!"), workspace=tmp_path / "elsewhere", end=False)
    os.utime(old.journal, (1_000, 1_000))
    first, second = catalog.list_sessions(home)
    assert (first.id, second.id) == (new.id, old.id)
    assert (first.running, second.running) == (True, False)
    assert second.title == second.first_message == "Make the importer faster"
    assert second.changed == 1_000 and second.model == "qwen" and not second.problem
    assert second.bytes == sum(map(len, tree(old.path).values()))
    assert "ghp_" not in first.title and "<U+202E>" in first.title and "\x1b" not in first.title
    assert [item.id for item in catalog.list_sessions(home, tmp_path / "link")] == [old.id]
    assert catalog.list_sessions(tmp_path / "nowhere") == []
    new.close()


def test_a_session_without_info_is_described_by_its_journal(home: Path) -> None:
    folder = make(home, *TALK, e.SessionTitled(title="Fast ways"))
    (folder.path / "session.json").write_bytes(b"\xff{")
    (entry,) = catalog.list_sessions(home)
    assert (entry.title, entry.first_message, entry.model) == ("Fast ways", "Make the importer faster", "qwen")
    assert entry.workspace == "/w" and entry.started and not entry.problem


def hurt_nothing(path: Path) -> None: ...


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def huge(path: Path) -> None:
    with open(path, "ab") as file:
        file.truncate(1 << 40)


def newer(path: Path) -> None:
    path.write_text('{"id": "x", "version": 99}')


@pytest.mark.parametrize("name", ["events.jsonl", "session.json", "lock", "chat_history.log"])
@pytest.mark.parametrize("hurt", [Path.unlink, fifo, folder_instead, loop, huge, newer, hurt_nothing])
def test_a_damaged_session_is_listed_and_does_not_affect_others(
    home: Path, name: str, hurt: Callable[[Path], None]
) -> None:
    well = make(home, *TALK)
    bad = make(home, *TALK)
    hurt(bad.path / name)
    result = {item.id: item for item in catalog.list_sessions(home)}
    assert result[well.id].title and not result[well.id].problem
    entry = result[bad.id]
    assert entry.path == bad.path
    if name == "events.jsonl" and hurt not in (newer, huge, hurt_nothing):
        assert "missing" in entry.problem
    if (name, hurt) == ("session.json", newer):
        assert "newer" in entry.problem
    catalog.preview(entry, 5)
    if hurt is not huge:
        assert [item.id for item, _ in catalog.search([entry, result[well.id]], "exporter")][-1] == well.id


def test_random_damage_never_raises(home: Path) -> None:
    chance = random.Random(7)
    for _ in range(25):
        folder = make(home, *TALK)
        for name in ("events.jsonl", "session.json", "lock"):
            data = bytearray((folder.path / name).read_bytes())
            for _ in range(chance.randrange(6)):
                at = chance.randrange(len(data) + 1)
                data[at : at + chance.randrange(9)] = chance.randbytes(chance.randrange(9))
            (folder.path / name).write_bytes(data)
    result = catalog.list_sessions(home)
    assert len(result) == 25
    for entry in result:
        catalog.preview(entry, 3)
    list(catalog.search(result, "a"))


def test_other_files_among_the_sessions_are_ignored(home: Path, tmp_path: Path) -> None:
    folder = make(home, *TALK)
    (home / "sessions" / "notes").mkdir()
    (home / "sessions" / "notes" / "mine.txt").write_text("mine")
    (home / "sessions" / "file").write_text("x")
    (home / "sessions" / "2026-01-07T10:23:21.045Z").symlink_to(folder.path)
    (entry,) = catalog.list_sessions(home)
    assert entry.id == folder.id
    for name in ("notes", "file", "2026-01-07T10:23:21.045Z"):
        other = catalog.read_entry(home / "sessions" / name)
        with pytest.raises(SessionError, match="no session"):
            changes.delete_session(other)
        with pytest.raises(SessionError):
            changes.retitle_session(other, "mine")
    assert (home / "sessions" / "notes" / "mine.txt").exists() and folder.journal.exists()


# --- looking ------------------------------------------------------------------------------------


def test_search_finds_titles_messages_and_replies_ignoring_case(home: Path) -> None:
    item = make(home, *TALK)
    make(home, said(1, "something else"))
    entries = catalog.list_sessions(home)

    def hits(text: str, each: int = 1) -> list[tuple[str, str]]:
        return [(entry.id, context) for entry, context in catalog.search(entries, text, each=each)]

    assert hits("IMPORTER") == [(item.id, "Make the importer faster")]
    assert hits("faster make") == [(item.id, "Make the importer faster")]
    assert hits("STRASSE") == [(item.id, "Die Straße ist frei: done.")]
    assert hits("importer exporter") == hits("classified") == hits(" ") == []
    assert hits("exporter", each=9) == [(item.id, "now the exporter"), (item.id, "Exporter done too.")]
    long = "x" * 500 + " needle " + "y" * 500
    make(home, answer(long))
    ((_, context),) = catalog.search(catalog.list_sessions(home), "needle")
    assert "needle" in context and len(context) < 200


def test_a_search_can_be_stopped_within_a_session(home: Path) -> None:
    make(home, *(said(number, f"message {number}") for number in range(2000)))
    (entry,) = catalog.list_sessions(home)
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(True)
        return len(asked) > 100

    assert list(catalog.search([entry], "message 1999", stopped=stopped)) == []
    assert 100 < len(asked) < 110
    assert len(list(catalog.search([entry], "message 1999"))) == 1


def test_masked_text_is_not_found(home: Path) -> None:
    make(home, said(1, f"use {SECRET} and hunter2hunter2, please"))
    entries, mask = catalog.list_sessions(home), SecretMask({"PW": "hunter2hunter2"})
    assert not list(catalog.search(entries, SECRET, mask)) and not list(catalog.search(entries, "hunter2", mask))
    ((_, context),) = [*catalog.search(entries, "please and", mask, each=1)][:1]
    assert "hunter2" not in context and "ghp_" not in context
    assert "hunter2" not in catalog.preview(entries[0], 9, mask)


def test_a_preview_shows_the_end_of_the_conversation(home: Path) -> None:
    call = ToolCall(id="c1", name="read_file", arguments={})
    make(home, *TALK, e.ToolStarted(call=call, title="a\x1b[31m.py", reads_only=True), said(3, "and?\n\nnow"))
    (entry,) = catalog.list_sessions(home)
    assert catalog.preview(entry, 4).split("\n") == ["Exporter done too.", "· read_file a.py", "› and?", "› now"]
    assert len(catalog.preview(entry, 99).split("\n")) == 8
    assert catalog.preview(entry, 0) == ""
    make(home, said(4, "stop"), e.RunEnded(outcome="interrupted"))
    assert "› stop\n(stopped)" in [catalog.preview(each, 9) for each in catalog.list_sessions(home)]


# --- renaming and deleting ----------------------------------------------------------------------


def test_a_new_title_survives_the_loss_of_the_info(home: Path) -> None:
    folder = make(home, *TALK)
    (entry,) = catalog.list_sessions(home)
    assert changes.retitle_session(entry, "  Faster \u202e\n imports ") == "Faster <U+202E> imports"
    (entry,) = catalog.list_sessions(home)
    assert entry.title == catalog.list_sessions(home)[0].title == "Faster <U+202E> imports"
    assert folder.log.read_text("utf-8").endswith("SYSTEM: Title: Faster <U+202E> imports\n")
    (folder.path / "session.json").unlink()
    assert catalog.read_entry(folder.path).title == rebuild_info(folder.path).title == "Faster <U+202E> imports"
    with pytest.raises(SessionError, match="letter"):
        changes.retitle_session(entry, " \x1b[2J ")


def test_renaming_works_after_a_torn_last_line(home: Path) -> None:
    folder = make(home, *TALK)
    with open(folder.journal, "ab") as file:
        file.write(b'{"v":1,"seq":99')
    complete = folder.log.read_bytes()
    os.truncate(folder.log, len(complete) - 10)
    changes.retitle_session(catalog.read_entry(folder.path), "healed")
    assert folder.log.read_bytes().startswith(complete)
    assert result(folder.path)[-1] == e.SessionTitled(title="healed")
    assert [record.seq for record in read_records(folder.journal)] == list(range(1, len(TALK) + 4))


def test_a_running_session_is_neither_renamed_nor_deleted(home: Path) -> None:
    folder = make(home, *TALK, end=False)
    (entry,) = catalog.list_sessions(home)
    before = tree(folder.path)
    for change in (lambda: changes.retitle_session(entry, "x"), lambda: changes.delete_session(entry)):
        with pytest.raises(SessionError, match="in use by process"):
            change()
    assert tree(folder.path) == before
    folder.close()
    changes.delete_session(entry)
    assert catalog.list_sessions(home) == [] and not folder.path.exists()


def test_deleting_stays_inside_the_folder(home: Path, tmp_path: Path) -> None:
    folder = make(home, *TALK)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (folder.path / "scratch").symlink_to(tmp_path / "mine")
    changes.delete_session(catalog.read_entry(folder.path))
    assert not folder.path.exists() and (tmp_path / "mine" / "file").read_text("utf-8") == "mine"


def test_a_partial_deletion_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(home, *TALK)

    def fails(path: Path) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    monkeypatch.setattr(shutil, "rmtree", fails)
    with pytest.raises(
        SessionError, match=f"conversation .* is deleted, but some files remain in {folder.path}: .*busy"
    ):
        changes.delete_session(catalog.read_entry(folder.path))
    assert not folder.journal.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_failed_deletion_is_reported(home: Path) -> None:
    folder = make(home, *TALK)
    folder.path.chmod(0o500)
    try:
        with pytest.raises(SessionError, match="ermission denied"):
            changes.delete_session(catalog.read_entry(folder.path))
        assert folder.journal.exists()
    finally:
        folder.path.chmod(0o700)


# --- forking ------------------------------------------------------------------------------------


def test_a_fork_is_complete_and_the_original_is_unchanged(home: Path) -> None:
    folder = make(home, *TALK, e.MessageQueued(id="m3", text="later"))
    (folder.path / "blobs" / "ab").mkdir(parents=True)
    (folder.path / "blobs" / "ab" / BLOB).write_bytes(b"old content")
    (folder.path / "rejected-r1.txt").write_text("raw")
    (folder.path / "plan_doc.aside-1.md").write_text("aside")
    (folder.path / "draft.json").write_text("{}")
    folder.plan.write_text("# Plan: by hand\n")
    before = tree(folder.path)
    new = find_session(home / "sessions", changes.fork_session(catalog.read_entry(folder.path)))
    assert tree(folder.path) == before
    copied = tree(new)
    assert copied["plan_doc.md"] == b"# Plan: by hand\n" and copied["rejected-r1.txt"] == b"raw"
    assert copied[f"blobs/ab/{BLOB}"] == b"old content" and copied["plan_doc.aside-1.md"] == b"aside"
    assert "draft.json" not in copied and "events.jsonl.part" not in copied
    assert copied["events.jsonl"].startswith(before["events.jsonl"])
    assert result(new)[-3:] == [
        e.SessionForked(parent=folder.id),
        e.MessageWithdrawn(id="m3"),
        e.SessionTitled(title="Make the importer faster (fork)"),
    ]
    entry = catalog.read_entry(new)
    assert entry.parent == folder.id and entry.title == "Make the importer faster (fork)" and not entry.running
    assert rebuild_info(new).parent == folder.id
    info = load_info(new)
    assert info is not None and (info.id, info.status, info.workspace) == (new.name, "ended", "/w")
    assert copied["chat_history.log"].startswith(before["chat_history.log"])
    again = SessionFolder.open(new)
    again.close()
    assert (
        catalog.read_entry(find_session(home / "sessions", changes.fork_session(entry))).title
        == "Make the importer faster (fork)"
    )
    changes.delete_session(catalog.read_entry(folder.path))
    assert (new / "blobs" / "ab" / BLOB).read_bytes() == b"old content"


def test_a_fork_before_a_message_does_not_contain_it(home: Path) -> None:
    folder = make(home, *TALK[:3], e.MessageQueued(id="m2", text="now the exporter"), *TALK[3:])
    entry = catalog.read_entry(folder.path)
    assert [item.text for item in catalog.user_messages(entry)] == ["Make the  importer\nfaster", "now the exporter"]
    new = find_session(home / "sessions", changes.fork_session(entry, "m2"))
    assert [event.text for event in result(new) if isinstance(event, e.UserMessageAdded)] == [
        "Make the  importer\nfaster"
    ]
    assert e.SessionForked(parent=folder.id, before="now the exporter") in result(new)
    assert e.MessageWithdrawn(id="m2") in result(new)
    assert (new / "plan_doc.md").read_text("utf-8") == "# Plan: faster\n"
    log = (new / "chat_history.log").read_text("utf-8")
    assert "exporter" not in log.replace("Queued: now the exporter", "").replace("here with: “now the exporter”", "")
    first = find_session(home / "sessions", changes.fork_session(entry, "m1"))
    assert "[Goal to be defined]" in (first / "plan_doc.md").read_text("utf-8")
    with pytest.raises(SessionError, match="no message 'm9'"):
        changes.fork_session(entry, "m9")
    assert len(catalog.list_sessions(home)) == 3


def test_a_running_session_is_forked_up_to_its_last_intact_record(home: Path) -> None:
    folder = make(home, *STORY[1][0:1], end=False)
    add_records(folder.path, [event for event, _ in STORY[2:10]], SecretMask({}))
    with open(folder.journal, "ab") as file:
        file.write(b'{"v":1,"seq":99,"half')
    before = tree(folder.path)
    new = find_session(home / "sessions", changes.fork_session(catalog.read_entry(folder.path)))
    assert tree(folder.path) == before
    assert [record.seq for record in read_records(new / "events.jsonl")] == list(range(1, 13))
    assert not (new / "events.jsonl").read_bytes().count(b"half")
    folder.close()


def test_a_damaged_session_is_forked_without_the_lost_records(home: Path) -> None:
    folder = make(home, *TALK)
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"Stra", b"xtra")
    folder.journal.write_bytes(b"".join(lines))
    new = find_session(home / "sessions", changes.fork_session(catalog.read_entry(folder.path)))
    saved = result(folder.path)
    assert result(new)[: len(saved)] == saved
    (folder.path / "events.jsonl").unlink()
    with pytest.raises(SessionError, match="nothing to resume"):
        changes.fork_session(catalog.read_entry(folder.path))


def test_a_failed_fork_leaves_no_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(home, *TALK)
    (folder.path / "rejected-r1.txt").symlink_to("/dev/zero")  # is no file of ours: passed over
    folder.log.unlink()
    folder.log.symlink_to("/etc/hostname")
    with pytest.raises(SessionError, match="could not be copied"):
        changes.fork_session(catalog.read_entry(folder.path))
    assert [item.id for item in catalog.list_sessions(home)] == [folder.id]


def test_a_killed_fork_is_not_a_session_and_can_be_deleted(home: Path) -> None:
    folder = make(home, *TALK)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom tui_agent.storage import catalog, changes\n"
        "changes.add_records = lambda *given: os._exit(9)\n"
        f"changes.fork_session(catalog.read_entry(Path({str(folder.path)!r})))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert [path.name for path in session_folders(home / "sessions")] == [folder.id]
    (remaining,) = [item for item in catalog.list_sessions(home) if item.id != folder.id]
    assert "missing" in remaining.problem and not remaining.running
    changes.delete_session(remaining)
    assert [item.id for item in catalog.list_sessions(home)] == [folder.id]


def test_a_long_session_is_listed_without_reading_it(home: Path) -> None:
    folder = make(home, *TALK)
    with open(folder.journal, "ab") as file:
        file.truncate(1 << 42)  # reading that would take hours
    (entry,) = catalog.list_sessions(home)
    assert entry.title == "Make the importer faster"


def test_the_lock_of_a_fork_is_its_own(home: Path) -> None:
    folder = make(home, *TALK, end=False)
    new = find_session(home / "sessions", changes.fork_session(catalog.read_entry(folder.path)))
    with FileLock(new / "lock"):
        assert catalog.read_entry(new).running and catalog.read_entry(folder.path).running
    assert not catalog.read_entry(new).running
    folder.close()
