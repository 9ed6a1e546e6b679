from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tui_agent.common import paths
from tui_agent.safety import trust


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "users" / "me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    return home


def folder(path: Path, mode: int = 0o755) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    return path


def test_trust_can_be_revoked(home: Path) -> None:
    project, other = folder(home / "project"), folder(home / "other")
    trust.trust(project)
    trust.trust(other)
    assert [entry.folder for entry in trust.trusted_folders()] == [str(other), str(project)]
    assert trust.revoke(project) and not trust.is_trusted(project) and trust.is_trusted(other)
    assert not trust.revoke(project)
    trust.trust(project)
    assert trust.is_trusted(project)


def test_revoking_below_a_trusted_folder_leaves_that_trusted(home: Path) -> None:
    parent, child = folder(home / "work"), folder(home / "work" / "child" / "below").parent
    trust.trust(parent)
    entry = trust.find_trust(child)
    assert entry is not None and entry.folder == str(parent) and entry.since
    assert trust.revoke(child)
    assert not trust.is_trusted(child) and not trust.is_trusted(child / "below")
    assert trust.is_trusted(parent) and trust.is_trusted(folder(parent / "sibling"))
    trust.trust(child / "below")
    assert trust.is_trusted(child / "below") and not trust.is_trusted(child)
    trust.trust(child)
    assert trust.is_trusted(child)


def test_a_folder_that_is_gone_can_be_revoked(home: Path) -> None:
    project = folder(home / "project")
    trust.trust(project)
    project.rmdir()
    assert trust.revoke(project) and trust.trusted_folders() == []


def test_ordinary_folders_have_no_risks(home: Path) -> None:
    for path in (home / "p", home / "a" / "b" / "c", home.parent.parent / "srv" / "project"):
        assert trust.folder_risks(folder(path)) == ()


def test_folders_that_are_unsafe_to_trust_are_named_and_do_not_cover_those_below(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder(tmp_path / "temporary")))
    folder(tmp_path / "open", 0o777)
    (tmp_path / "alias").symlink_to(home)
    cases = {
        "/": "top of the file system",
        str(home): "your home folder",
        str(tmp_path / "alias"): "your home folder",
        str(home.parent): "contains your home folder",
        str(tmp_path): "contains your home folder",
        "/tmp": "temporary files",
        "/var/tmp": "temporary files",
        str(tmp_path / "temporary"): "temporary files",
        str(folder(tmp_path / "shared", 0o777)): "every user of this machine",
        str(folder(tmp_path / "sticky", 0o1777)): "every user of this machine",
        str(folder(tmp_path / "open" / "mine")): f"can write to {tmp_path / 'open'}",
        str(tmp_path / "missing"): "can't be checked",
    }
    for path, words in cases.items():
        assert words in " ".join(trust.folder_risks(Path(path))), path
    for path in (str(home), str(home.parent), str(tmp_path / "shared"), str(tmp_path / "temporary"), "/tmp", "/"):
        trust.trust(Path(path))
        assert trust.is_trusted(Path(path)), path
    for below in (home / "project", home.parent / "you", tmp_path / "shared" / "x", tmp_path / "temporary" / "x"):
        assert not trust.is_trusted(folder(below)), below
    (home / "project" / "deep").mkdir()
    assert not trust.is_trusted(home / "project" / "deep")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to others")
def test_folders_of_other_users_and_groups_are_named(home: Path) -> None:
    theirs = folder(home / "theirs")
    os.chown(theirs, 65534, 65534)
    group = folder(home / "group", 0o775)
    os.chown(group, 0, 65534)
    assert "belongs to the user" in trust.folder_risks(theirs)[0]
    assert "the members of the group" in trust.folder_risks(group)[0]
    os.chown(theirs, 4_000_000, 4_000_000)
    assert "the user with the number 4000000" in trust.folder_risks(theirs)[0]


def test_garbage_in_the_file_means_no_trust(home: Path) -> None:
    project = folder(home / "project")
    both = json.dumps({"trusted": {str(project): 1}, "revoked": {str(project): 1}})
    for text in ('{"trusted": []}', both, "[]", "{"):
        paths.ensure_private_dir(paths.trust_file().parent)
        paths.trust_file().write_text(text)
        assert not trust.is_trusted(project) and isinstance(trust.trusted_folders(), list)
