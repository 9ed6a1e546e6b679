from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tui_agent.tui.clipboard import TERMINAL_LIMIT, clipboard_commands, copy_to_clipboard


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, []),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, ["wl-copy", "xclip", "xsel"]),
        ({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/1"}, []),
        ({"TMUX": "/tmp/tmux", "SSH_CONNECTION": "a b c d"}, ["tmux"]),
        ({"WSL_DISTRO_NAME": "Debian"}, ["clip.exe"]),
    ],
)
def test_helpers_are_those_that_reach_the_users_own_clipboard(
    environment: dict[str, str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert [argv[0] for argv in clipboard_commands(environment, lambda name: name)] == names


async def test_without_a_helper_nothing_is_said_to_be_copied() -> None:
    sent: list[str] = []
    said = await copy_to_clipboard("hello", sent.append, environment={})
    assert sent == ["hello"]
    assert said == "sent 5 characters to the terminal, unconfirmed"


async def test_a_helper_that_ends_well_confirms(tmp_path: Path) -> None:
    took = tmp_path / "took"
    wl_copy = program(tmp_path, "wl-copy", f"cat > {took}")
    sent: list[str] = []
    environment = {"WAYLAND_DISPLAY": "w", "PATH": "/usr/bin:/bin"}
    said = await copy_to_clipboard("zwei 文字", sent.append, environment=environment, which=lambda name: str(wl_copy))
    assert took.read_text(encoding="utf-8") == "zwei 文字"
    assert sent == ["zwei 文字"]
    assert said == "copied 7 characters to the clipboard with wl-copy"


async def test_a_helper_that_fails_is_named_and_the_next_one_is_tried(tmp_path: Path) -> None:
    found = {
        "wl-copy": str(program(tmp_path, "wl-copy", "exit 3")),
        "xsel": str(program(tmp_path, "xsel", "cat > /dev/null")),
    }
    environment = {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0", "PATH": "/usr/bin:/bin"}
    said = await copy_to_clipboard("a", lambda text: None, environment=environment, which=found.get)
    assert said == "copied 1 character to the clipboard with xsel"
    del found["xsel"]
    said = await copy_to_clipboard("a", lambda text: None, environment=environment, which=found.get)
    assert said == "wl-copy failed · sent 1 character to the terminal, unconfirmed"


async def test_a_helper_that_leaves_a_server_behind_is_not_waited_for(tmp_path: Path) -> None:
    xclip = program(tmp_path, "xclip", "cat > /dev/null\nsleep 5 &\nexit 0")
    environment = {"DISPLAY": ":0", "PATH": "/usr/bin:/bin"}
    said = await copy_to_clipboard("a", lambda text: None, environment=environment, which=lambda name: str(xclip))
    assert said.startswith("copied")


async def test_a_helper_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_agent.tui.clipboard.TIMEOUT", 0.2)
    xclip = program(tmp_path, "xclip", "exec sleep 600")
    environment = {"DISPLAY": ":0", "PATH": "/usr/bin:/bin"}
    said = await copy_to_clipboard("a", lambda text: None, environment=environment, which=lambda name: str(xclip))
    assert "copied" not in said


async def test_what_is_too_long_for_the_terminal_is_not_sent() -> None:
    sent: list[str] = []
    said = await copy_to_clipboard("x" * (TERMINAL_LIMIT + 1), sent.append, environment={})
    assert not sent
    assert said.startswith("not copied")
