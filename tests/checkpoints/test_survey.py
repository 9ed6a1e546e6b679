from __future__ import annotations

import os
from pathlib import Path

import pytest

from tui_agent.checkpoints import survey


def test_changes_by_a_command_are_listed(tmp_path: Path) -> None:
    for name in ("same", "gone", "other", "mode", "d/deep"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    before = survey.take_survey([tmp_path])
    (tmp_path / "gone").unlink()
    (tmp_path / "other").write_text("OTHER")
    (tmp_path / "mode").chmod(0o700)
    (tmp_path / "d" / "deep").rename(tmp_path / "d" / "moved")
    (tmp_path / "link").symlink_to("nowhere")
    result = survey.compare(before, survey.take_survey([tmp_path]))
    named = [
        [os.path.relpath(path, tmp_path) for path in item] for item in (result.created, result.changed, result.deleted)
    ]
    assert named == [["d/moved", "link"], ["mode", "other"], ["d/deep", "gone"]]
    assert result.unwatched == ()


def test_the_same_size_and_time_do_not_hide_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    stamp = path.stat()
    before = survey.take_survey([tmp_path])
    path.write_text("two")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert survey.compare(before, survey.take_survey([tmp_path])).changed == (str(path),)


def test_unwatched_folders_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in range(5):
        (tmp_path / str(folder)).mkdir()
        for number in range(5):
            (tmp_path / str(folder) / str(number)).write_text("")
    before = survey.take_survey([tmp_path], files=10)
    assert not before.complete
    (tmp_path / "4" / "4").unlink()
    result = survey.compare(before, survey.take_survey([tmp_path], files=10))
    assert not result.any
    assert "too large" in result.unwatched[0]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not survey.take_survey([tmp_path]).complete
    assert survey.take_survey([tmp_path]).stamps == {}


def test_time_is_limited(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert not survey.take_survey([tmp_path], seconds=-1).complete


def test_caches_and_git_are_skipped_and_reported(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_text("x")
    before = survey.take_survey([tmp_path])
    assert before.stamps == {}
    (tmp_path / ".git" / "new").write_text("x")
    result = survey.compare(before, survey.take_survey([tmp_path]))
    assert not result.any
    assert result.unwatched == (f"{tmp_path / '.git'} (something in it changed)",)


def test_many_changes_are_counted(tmp_path: Path) -> None:
    before = survey.take_survey([tmp_path])
    for number in range(150):
        (tmp_path / f"{number:03}").write_text("")
    result = survey.compare(before, survey.take_survey([tmp_path]))
    assert (len(result.created), result.more) == (100, 50)
