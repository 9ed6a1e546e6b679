"""Programs count by what they are: only the user and root can change them, and the agent can't."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tui_agent.platform.programs import trusted_program


@pytest.fixture
def top() -> Iterator[Path]:
    """A private folder; folders above it (the temporary folder, which everybody can write) are not looked at."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(os.path.realpath(folder))


def make(program: Path, text: str = "\x7fELF") -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)
    for folder in program.parents:
        if folder.parent == Path("/tmp"):
            break
        folder.chmod(0o755)
    return program


def find(name: str, top: Path, *path: Path, workspace: str = "work") -> Path | None:
    return trusted_program(name, [top / workspace], list(map(str, path)), top)


FOLDERS = (
    *("usr/bin", "usr/local/bin", "opt/homebrew/bin", "home/linuxbrew/.linuxbrew/bin", "opt/local/bin", "snap/bin"),
    *("nix/store/abc-git-2.45/bin", "home/me/.nix-profile/bin", "home/me/.cargo/bin", "home/me/.pyenv/shims"),
    *("home/me/.local/bin", "home/me/go/bin", "home/me/.nvm/versions/node/v20/bin", "home/me/.volta/bin"),
    *("home/me/miniconda3/bin", "home/me/.asdf/shims", "home/me/.sdkman/candidates/java/current/bin"),
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_of_package_managers_count(top: Path, folder: str) -> None:
    program = make(top / folder / "tool")
    assert find("tool", top, top / folder) == program


def test_links_count_by_where_they_lead(top: Path) -> None:
    real = make(top / "opt/homebrew/Cellar/rg/14/bin/rg")
    link = top / "opt/homebrew/bin/rg"
    link.parent.mkdir()
    link.symlink_to("../Cellar/rg/14/bin/rg")
    assert find("rg", top, link.parent) == link
    real.chmod(0o777)
    with pytest.raises(PermissionError):
        find("rg", top, link.parent)


@pytest.mark.parametrize("folder", ["work/bin", "work/node_modules/.bin", "work/.venv/bin", "work/target/debug"])
def test_programs_of_the_workspace_do_not_count(top: Path, folder: str) -> None:
    make(top / folder / "tool")
    with pytest.raises(PermissionError):
        find("tool", top, top / folder)


def test_a_link_out_of_or_into_the_workspace_does_not_count(top: Path) -> None:
    outside, inside = make(top / "usr/bin/tool"), make(top / "work/bin/other")
    (top / "work/bin/tool").symlink_to(outside)
    (top / "usr/bin/other").symlink_to(inside)
    for name, folder in (("tool", "work/bin"), ("other", "usr/bin")):
        with pytest.raises(PermissionError):
            find(name, top, top / folder)


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
@pytest.mark.parametrize("changed", ["opt/shared/bin/tool", "opt/shared/bin", "opt/shared", "opt"])
def test_what_others_can_write_does_not_count(top: Path, changed: str, mode: int) -> None:
    make(top / "opt/shared/bin/tool")
    (top / changed).chmod(mode)
    with pytest.raises(PermissionError):
        find("tool", top, top / "opt/shared/bin")


def test_a_group_counts_by_its_members(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(top / "usr/local/bin/tool")
    (top / "usr/local/bin").chmod(0o2775)
    for is_own in (True, False):
        monkeypatch.setattr("tui_agent.platform.programs._is_own_group", lambda gid, is_own=is_own: is_own)
        if is_own:
            assert find("tool", top, top / "usr/local/bin") is not None
        else:
            with pytest.raises(PermissionError):
                find("tool", top, top / "usr/local/bin")


def test_the_first_program_of_the_path_decides(top: Path) -> None:
    make(top / "work/.venv/bin/python")
    make(top / "usr/bin/python")
    with pytest.raises(PermissionError):
        find("python", top, top / "work/.venv/bin", top / "usr/bin")
    assert find("missing", top, top / "usr/bin") is None


def test_a_script_counts_by_its_interpreter(top: Path) -> None:
    interpreter = make(top / "usr/bin/python3")
    evil = make(top / "work/.venv/bin/python3")
    shim = make(top / "home/me/.local/bin/tool", f"#!{interpreter}\n")
    assert find("tool", top, shim.parent) == shim
    shim.write_text("#!/usr/bin/env python3\n")
    if os.stat("/usr").st_uid in (0, os.getuid()):
        assert find("tool", top, shim.parent, interpreter.parent) == shim
    with pytest.raises(PermissionError):
        find("tool", top, shim.parent, evil.parent, interpreter.parent)
    for line in (f"#!{evil}", "#!python3", "#!", f"#!{shim}"):
        shim.write_text(f"{line}\n")
        with pytest.raises(PermissionError):
            find("tool", top, shim.parent)
