from __future__ import annotations

import os
from pathlib import Path

from tests.stats.journals import Journal, three_runs
from tui_agent.stats.reading import CACHE_FILE, gather_stats
from tui_agent.stats.report import as_json
from tui_agent.storage.folder import SessionInfo, write_info


def test_all_sessions_are_counted_and_read_only_once(tmp_path: Path) -> None:
    three_runs().write(tmp_path, "2026-01-05T09:00:00.000Z")
    changed = Journal().begin().end()
    path = changed.write(tmp_path, "2026-01-05T10:00:00.000Z")
    first = gather_stats(tmp_path)
    assert (first.tally.sessions, first.tally.total.runs, first.read) == (2, 4, 2)
    again = gather_stats(tmp_path)
    assert again.read == 0
    assert as_json(again.tally) == as_json(first.tally)
    path.write_bytes(changed.begin().end().data)
    assert (gather_stats(tmp_path).read, gather_stats(tmp_path).read) == (1, 0)
    assert gather_stats(tmp_path).tally.total.runs == 5
    assert (tmp_path / CACHE_FILE).stat().st_mode & 0o777 == 0o600


def test_a_deleted_session_leaves_the_cache(tmp_path: Path) -> None:
    path = three_runs().write(tmp_path, "2026-01-05T09:00:00.000Z")
    gather_stats(tmp_path)
    path.unlink()
    assert gather_stats(tmp_path).tally.total.runs == 0


def test_a_damaged_cache_is_rebuilt(tmp_path: Path) -> None:
    three_runs().write(tmp_path, "2026-01-05T09:00:00.000Z")
    gather_stats(tmp_path)
    for spoilt in (b"", b"{", b"[]", b'{"version":1}\n["x"]\n\xff\n', b'{"version":99}', b"\xff" * 99):
        (tmp_path / CACHE_FILE).write_bytes(spoilt)
        assert gather_stats(tmp_path).tally.total.runs == 3
    (tmp_path / CACHE_FILE).unlink()
    (tmp_path / CACHE_FILE).mkdir()
    assert gather_stats(tmp_path).tally.total.runs == 3


def test_damage_is_skipped_and_reported(tmp_path: Path) -> None:
    path = three_runs().write(tmp_path, "2026-01-05T09:00:00.000Z")
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines) if b'"type":"retry.waiting"' in line)
    lines[place] = lines[place][:40] + b"\xff\x00" + lines[place][42:]
    path.write_bytes(b"".join(lines) + b'{"v":1,"seq":99')
    Journal().begin().end().write(tmp_path, "2026-01-05T10:00:00.000Z")
    result = gather_stats(tmp_path)
    assert result.damaged == ["2026-01-05T09:00:00.000Z"]
    assert result.tally.damaged >= 1
    assert (result.tally.total.runs, result.tally.total.retries) == (4, 0)


def test_other_folders_are_ignored(tmp_path: Path, monkeypatch) -> None:
    three_runs().write(tmp_path, "2026-01-05T09:00:00.000Z")
    sessions = tmp_path / "sessions"
    (sessions / "empty").mkdir()
    (sessions / "a file").write_text("x")
    (sessions / "linked").symlink_to(sessions / "2026-01-05T09:00:00.000Z")
    (sessions / "piped").mkdir()
    os.mkfifo(sessions / "piped" / "events.jsonl")
    (sessions / "barred").mkdir()
    (sessions / "barred" / "events.jsonl").write_bytes(b"x")
    read = os.lstat

    def barred(path, *args, **kwargs):
        if "barred" in str(path) and str(path).endswith("events.jsonl") and text:
            raise PermissionError(13, "Permission denied")
        text.append(str(path)) if "barred" in str(path) else None
        return read(path, *args, **kwargs)

    text: list[str] = []
    monkeypatch.setattr(os, "lstat", barred)
    result = gather_stats(tmp_path)
    assert result.tally.total.runs == 3
    assert list(result.skipped) == ["barred"] and "Permission denied" in result.skipped["barred"]


def test_sessions_of_one_folder(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name, workspace in (("2026-01-05T09:00:00.000Z", str(here)), ("2026-01-05T10:00:00.000Z", "/else")):
        path = Journal().begin().end().write(tmp_path, name)
        write_info(path.parent, SessionInfo(id=name, workspace=workspace))
    assert gather_stats(tmp_path, here).tally.sessions == 1
    assert gather_stats(tmp_path).tally.sessions == 2


def test_cancelling_preserves_the_cache(tmp_path: Path) -> None:
    for number in range(4):
        Journal().begin().end().write(tmp_path, f"2026-01-05T09:00:0{number}.000Z")
    gather_stats(tmp_path)
    asked: list[int] = []
    part = gather_stats(tmp_path, on_progress=lambda done, of: asked.append(done), is_cancelled=lambda: len(asked) == 3)
    assert part.tally.sessions == 2
    assert gather_stats(tmp_path).read == 0


def test_no_sessions_at_all(tmp_path: Path) -> None:
    result = gather_stats(tmp_path / "nowhere")
    assert result.tally.sessions == 0 and not result.skipped
    assert not (tmp_path / "nowhere").exists()
