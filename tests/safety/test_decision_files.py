from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from tui_agent.common import paths
from tui_agent.common.domain import Grant, Scope
from tui_agent.safety import decision_files, policy, trust
from tui_agent.safety.decision_files import DecisionsNotSaved


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path):
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    return work


MAKE = Grant(kind="run", pattern="make test", cwd="/w", scope=Scope.ALWAYS)
EDIT = Grant(kind="edit", pattern="src/*.py", scope=Scope.ALWAYS)


def test_nothing_is_trusted_at_first(work):
    assert not trust.is_trusted(work)
    assert not paths.trust_file().exists()


def test_trust_is_by_real_path_and_inherited(work, tmp_path):
    (tmp_path / "alias").symlink_to("work")
    trust.trust(tmp_path / "alias")
    assert trust.is_trusted(work) and trust.is_trusted(tmp_path / "alias") and trust.is_trusted(work / "sub")
    for other in (tmp_path, tmp_path / "work2", tmp_path / "work" / ".." / "other"):
        assert not trust.is_trusted(other)
    assert list(decision_files.read_decisions(paths.trust_file())["trusted"]) == [os.path.realpath(work)]
    (work / "out").symlink_to(tmp_path)
    assert not trust.is_trusted(work / "out")


def test_trust_in_the_home_folder_is_not_inherited(home):
    (home / "project").mkdir()
    trust.trust(home)
    assert trust.is_trusted(home) and not trust.is_trusted(home / "project")


def test_the_file_is_private_and_complete():
    before = os.umask(0)
    try:
        trust.trust(paths.data_dir())
        policy.save_grant(paths.data_dir(), EDIT)
    finally:
        os.umask(before)
    for file in (paths.trust_file(), paths.grants_file()):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert json.loads(file.read_text())["version"] == 1
    assert sorted(entry.name for entry in paths.config_dir().iterdir()) == [
        "grants.json",
        "grants.lock",
        "staging",
        "trust.json",
        "trust.lock",
    ]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"trusted": 1, "workspaces": []}', '{"trusted": {}, "workspaces": {"x": 1}}', "\x00\xff"]
)
def test_a_damaged_file_trusts_nothing_and_is_never_overwritten(work, damage):
    paths.config_dir().mkdir()
    for file in (paths.trust_file(), paths.grants_file()):
        file.write_text(damage)
    assert not trust.is_trusted(work)
    assert policy.load_grants(work) == ()
    if damage.startswith('{"trusted": {}'):
        return
    with pytest.raises(DecisionsNotSaved, match="damaged"):
        trust.trust(work)
    with pytest.raises(DecisionsNotSaved, match="damaged"):
        policy.save_grant(work, EDIT)
    assert paths.trust_file().read_text() == damage


def test_write_errors_are_reported(work, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "file/below"))
    with pytest.raises(DecisionsNotSaved, match="can't be saved"):
        trust.trust(work)


def test_concurrent_changes_lose_nothing(tmp_path):
    folders = [tmp_path / f"w{number}" for number in range(12)]
    trust.trust(tmp_path / "first")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(trust.trust, folders))
    assert all(map(trust.is_trusted, [tmp_path / "first", *folders]))


def test_grants_are_saved_per_workspace(work, tmp_path):
    policy.save_grant(work, MAKE)
    policy.save_grant(work, EDIT)
    policy.save_grant(work, EDIT)
    assert policy.load_grants(work) == (MAKE, EDIT)
    assert policy.load_grants(work / "sub") == policy.load_grants(tmp_path) == ()
    policy.revoke_grant(work, MAKE)
    assert policy.load_grants(work) == (EDIT,)
    assert list(work.rglob("*")) == [work / "sub"]


@pytest.mark.parametrize(
    "grant",
    [
        Grant(kind="run", pattern="curl x", cwd="/w", scope=Scope.ALWAYS),
        Grant(kind="run", pattern="make test", scope=Scope.ALWAYS),
        Grant(kind="edit", pattern="src/*.py", scope=Scope.SESSION),
    ],
)
def test_grants_that_may_not_be_permanent_are_neither_saved_nor_loaded(work, grant):
    with pytest.raises(ValueError):
        policy.save_grant(work, grant)
    policy.save_grant(work, EDIT)
    held = json.loads(paths.grants_file().read_text())
    held["workspaces"][os.path.realpath(work)] += [
        {"kind": grant.kind, "pattern": grant.pattern, "cwd": grant.cwd, "scope": grant.scope},
        "nonsense",
        {"kind": "fly"},
    ]
    paths.grants_file().write_text(json.dumps(held))
    assert policy.load_grants(work) == (EDIT,)
