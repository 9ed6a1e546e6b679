from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tui_agent.common import paths


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    for name in ("TUI_AGENT_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_defaults_are_in_the_home_folder(tmp_path):
    assert paths.config_file() == tmp_path / "home/.config/tui-agent/config.yaml"
    assert paths.sessions_dir() == tmp_path / "home/.local/share/tui-agent/sessions"
    assert paths.agents_file() == tmp_path / "home/AGENTS.md"


def test_absolute_xdg_folders_are_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert paths.config_dir() == tmp_path / "c/tui-agent"
    assert paths.data_dir() == tmp_path / "home/.local/share/tui-agent"


@pytest.mark.parametrize("name", ["plain", "with spaces", "Größe 日本"])
def test_tui_agent_home_contains_everything(monkeypatch, tmp_path, name):
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / name))
    for path in (
        paths.config_file(),
        paths.models_file(),
        paths.trust_file(),
        paths.grants_file(),
        paths.sessions_dir(),
        paths.debug_log_file(),
    ):
        assert path.parent == tmp_path / name
    assert paths.ensure_private_dir(paths.sessions_dir()).is_dir()


def test_tui_agent_home_may_be_relative_or_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUI_AGENT_HOME", "here")
    assert paths.data_dir() == tmp_path / "here"
    monkeypatch.setenv("TUI_AGENT_HOME", "~/there")
    assert paths.data_dir() == tmp_path / "home/there"
    monkeypatch.setenv("TUI_AGENT_HOME", "  ")
    assert paths.data_dir() == tmp_path / "home/.local/share/tui-agent"


def test_a_relative_home_is_an_error(monkeypatch):
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(paths.HomeNotFoundError, match="TUI_AGENT_HOME"):
        paths.config_dir()


def test_private_folders_ignore_the_umask():
    before = os.umask(0)
    try:
        made = paths.ensure_private_dir(paths.sessions_dir())
    finally:
        os.umask(before)
    assert mode(made) == mode(paths.data_dir()) == mode(paths.data_dir().parent) == 0o700


def test_only_folders_of_the_program_are_made_private(monkeypatch, tmp_path):
    paths.sessions_dir().mkdir(parents=True)
    paths.sessions_dir().chmod(0o755)
    assert mode(paths.ensure_private_dir(paths.sessions_dir())) == 0o700
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    assert mode(paths.ensure_private_dir(tmp_path)) == 0o755


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError):
        paths.ensure_private_dir(tmp_path / "file")
    with pytest.raises(OSError):
        paths.ensure_private_dir(tmp_path / "file" / "below")


def test_a_link_to_a_folder_works(monkeypatch, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "link"))
    assert paths.ensure_private_dir(paths.sessions_dir()).is_dir()
    assert (tmp_path / "real/sessions").is_dir()
