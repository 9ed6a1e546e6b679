from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from tests.storage.samples import OPENED
from tui_agent import events as e
from tui_agent.platform.locks import InUse
from tui_agent.storage.catalog import latest_for
from tui_agent.storage.catalog import list_sessions as listed_sessions
from tui_agent.storage.folder import SessionError, SessionFolder, find_session, folder_name, load_info, rebuild_info
from tui_agent.storage.lines import to_line

NOW = datetime(2026, 1, 7, 10, 23, 21, 45_678, timezone(timedelta(hours=2)))


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return tmp_path / "data" / "sessions"


def create(sessions: Path, workspace: Path | None = None, now: datetime = NOW) -> SessionFolder:
    return SessionFolder.create(sessions, workspace=workspace or Path("/nowhere"), model="qwen", mode="agent", now=now)


def fill(folder: Path, *events: e.Event) -> None:
    with open(folder / "events.jsonl", "ab") as file:
        for seq, event in enumerate(events, 1):
            file.write(to_line(e.Record(seq=seq, at=f"2026-01-07T11:00:0{seq}.000+02:00", event=event), 0))


def use(folder: Path, when: float) -> None:
    os.utime(folder / "events.jsonl", (when, when))


def test_a_new_session_has_private_files(sessions: Path) -> None:
    old = os.umask(0)
    try:
        folder = create(sessions)
        folder.scratch()
    finally:
        os.umask(old)
    assert folder.id == "2026-01-07T10:23:21.045+0200"
    assert {entry.name for entry in folder.path.iterdir()} == {
        "plan_doc.md",
        "chat_history.log",
        "session.json",
        "events.jsonl",
        "lock",
        "scratch",
    }
    for entry in folder.path.iterdir():
        assert entry.stat().st_mode & 0o777 == (0o700 if entry.is_dir() else 0o600)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.close()


def test_the_plan_begins_as_the_empty_template(sessions: Path) -> None:
    folder = create(sessions)
    text = folder.plan.read_text(encoding="utf-8")
    assert text.startswith(f"---\nstatus: planning\ncreatedAt: {round(NOW.timestamp() * 1000)}\n")
    assert re.findall(r"^## (.*)$", text, re.M) == [
        "Goal",
        "Acceptance Criteria",
        "Decisions Made",
        "Decisions Rejected",
        "Execution Log",
    ]
    folder.close()


@pytest.mark.parametrize(
    ("zone", "end"), [(UTC, "Z"), (timezone(timedelta(hours=-7)), "-0700"), (timezone(timedelta(hours=5.5)), "+0530")]
)
def test_the_name_contains_start_time_and_zone(zone: timezone, end: str) -> None:
    assert folder_name(datetime(2026, 1, 7, 10, 23, 21, 999, zone)) == f"2026-01-07T10:23:21.000{end}"


def test_sessions_of_the_same_millisecond_get_different_folders(sessions: Path) -> None:
    first, second, third = create(sessions), create(sessions), create(sessions)
    assert [second.id, third.id] == [f"{first.id}-2", f"{first.id}-3"]
    for folder in (first, second, third):
        folder.close()


def test_content_of_session_json(sessions: Path) -> None:
    folder = create(sessions)
    folder.save(title="A title")
    assert json.loads((folder.path / "session.json").read_text("utf-8")) == {
        "id": folder.id,
        "title": "A title",
        "startedAt": "2026-01-07T10:23:21.045+02:00",
        "updatedAt": "2026-01-07T10:23:21.045+02:00",
        "workspace": "/nowhere",
        "model": "qwen",
        "mode": "agent",
        "status": "active",
        "version": 1,
    }
    folder.close()


def test_only_one_process_at_a_time(sessions: Path) -> None:
    folder = create(sessions)
    with pytest.raises(InUse, match=f"is in use by process {os.getpid()}"):
        SessionFolder.open(folder.path)
    folder.close()
    folder.close()
    again = SessionFolder.open(folder.path)
    assert again.info.status == "active"
    again.close()


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"[]", b'{"id": 5}', b"[" * 100_000])
def test_a_missing_or_broken_session_json_is_rebuilt_from_the_journal(sessions: Path, content: bytes | None) -> None:
    folder = create(sessions)
    fill(folder.path, OPENED, e.UserMessageAdded(id="1", text="add a flag\nplease"), e.SessionClosed(reason="user"))
    folder.close()
    info = folder.path / "session.json"
    info.unlink() if content is None else info.write_bytes(content)
    assert load_info(folder.path) is None
    listed = rebuild_info(folder.path)
    assert (listed.workspace, listed.model, listed.status) == ("/w", "qwen", "ended")
    assert listed.title.startswith("add a flag")
    assert listed.started_at == "2026-01-07T10:23:21.045+02:00"
    again = SessionFolder.open(folder.path)
    assert again.info.workspace == "/w"
    saved = folder.path / "session.json.unreadable-1"
    assert saved.exists() == (content is not None)
    assert content is None or saved.read_bytes() == content
    again.close()


def test_a_session_of_a_newer_version_is_refused_unchanged(sessions: Path) -> None:
    folder = create(sessions)
    folder.close()
    info = folder.path / "session.json"
    info.write_text('{"version": 2, "id": {"new": "shape"}}')
    with pytest.raises(SessionError, match="newer tui-agent"):
        SessionFolder.open(folder.path)
    assert info.read_text("utf-8") == '{"version": 2, "id": {"new": "shape"}}'
    assert listed_sessions(sessions.parent)[0].id == folder.id
    with pytest.raises(SessionError):  # and not because the lock was kept
        SessionFolder.open(folder.path)


def test_rebuilt_info_has_the_last_title_model_and_mode(sessions: Path) -> None:
    folder = create(sessions)
    fill(
        folder.path,
        OPENED,
        e.UserMessageAdded(id="1", text="hello"),
        e.SessionTitled(title="Greeting"),
        e.ModelChanged(provider="ollama", model="llama"),
        e.ModeChanged(mode="chat", approval_mode="ask"),
    )
    folder.close()
    info = rebuild_info(folder.path)
    assert (info.title, info.model, info.mode, info.status) == ("Greeting", "llama", "chat", "crashed")
    assert info.updated_at == "2026-01-07T11:00:05.000+02:00"


def test_secrets_are_masked_in_derived_titles(sessions: Path) -> None:
    folder = create(sessions)
    fill(folder.path, OPENED, e.UserMessageAdded(id="1", text="use ghp_0123456789abcdefghijABCDEFGHIJ012345 now"))
    folder.close()
    assert "ghp_" not in rebuild_info(folder.path).title


def test_the_latest_session_comes_first_and_other_folders_are_ignored(sessions: Path) -> None:
    paths = []
    for hour in (1, 2, 3):
        folder = create(sessions, now=NOW.replace(hour=hour))
        folder.close()
        paths.append(folder.path)
    for path, when in zip(paths, (300, 100, 200), strict=True):
        use(path, when)
    (sessions / "notes").mkdir()
    (sessions / "file").write_text("x")
    assert [info.id for info in listed_sessions(sessions.parent)] == [paths[0].name, paths[2].name, paths[1].name]
    assert listed_sessions(sessions / "none") == []


def test_continue_finds_the_workspace_through_symlinks(sessions: Path, tmp_path: Path) -> None:
    here, elsewhere, link = tmp_path / "here", tmp_path / "elsewhere", tmp_path / "link"
    here.mkdir()
    elsewhere.mkdir()
    link.symlink_to(here)
    said, empty, other = (
        create(sessions, workspace, NOW.replace(hour=hour))
        for workspace, hour in ((link, 1), (here, 2), (elsewhere, 3))
    )
    fill(said.path, OPENED, e.UserMessageAdded(id="1", text="hello"))
    for folder, when in ((said, 100), (empty, 200), (other, 300)):
        folder.close()
        use(folder.path, when)
    assert latest_for(sessions.parent, here) == said.path, "one in which nothing was said is passed over"
    assert latest_for(sessions.parent, link) == said.path
    assert latest_for(sessions.parent, elsewhere) == other.path
    assert latest_for(sessions.parent, tmp_path) is None


def test_continue_finds_a_session_with_a_late_first_message(sessions: Path, tmp_path: Path) -> None:
    older, newer = (create(sessions, tmp_path, NOW.replace(hour=hour)) for hour in (1, 2))
    fill(older.path, OPENED, e.UserMessageAdded(id="1", text="hello"))
    much = [e.Notice(level="info", text="x" * 20_000) for _ in range(20)]
    fill(newer.path, OPENED, *much, e.UserMessageAdded(id="1", text="hello"))
    for folder, when in ((older, 100), (newer, 200)):
        folder.close()
        use(folder.path, when)
    assert latest_for(sessions.parent, tmp_path) == newer.path


def test_a_session_is_found_by_the_beginning_of_its_id(sessions: Path) -> None:
    first, second = create(sessions), create(sessions, now=NOW.replace(year=2027))
    for folder in (first, second):
        folder.close()
    assert find_session(sessions, "2027") == second.path
    assert find_session(sessions, first.id) == first.path
    for wrong, why in (("20", "2 session ids start with '20'"), ("x", "No session"), ("", "No session")):
        with pytest.raises(SessionError, match=why):
            find_session(sessions, wrong)


def test_a_folder_without_a_journal_is_not_a_session(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="There is no session"):
        SessionFolder.open(tmp_path)


def test_the_scratch_folder_is_outside_the_workspace_and_deleted_on_close(sessions: Path, tmp_path: Path) -> None:
    outside, inside = create(sessions, tmp_path / "elsewhere"), create(sessions, tmp_path)
    for folder in (outside, inside):
        scratch = folder.scratch()
        assert folder.scratch() == scratch
        assert not scratch.is_relative_to(folder.info.workspace)
        (scratch / "deep").mkdir()
        (scratch / "deep" / "file").write_text("x")
        folder.close()
        assert not scratch.exists()


def test_leftovers_in_the_scratch_folder_are_deleted_by_the_next_close(sessions: Path) -> None:
    folder = create(sessions, Path("/nowhere"))
    (folder.scratch() / "left").write_text("x")
    folder._lock.release()
    again = SessionFolder.open(folder.path)
    again.close()
    assert not (folder.path / "scratch").exists()


def test_info_written_by_a_later_version_of_the_same_shape_is_read(sessions: Path) -> None:
    folder = create(sessions)
    info = msgspec.json.decode((folder.path / "session.json").read_bytes())
    (folder.path / "session.json").write_bytes(msgspec.json.encode(info | {"colour": "blue"}))
    assert listed_sessions(sessions.parent)[0].model == "qwen"
    folder.close()
