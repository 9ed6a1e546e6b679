"""Where our own files lie: one function a path, read from the environment at each call."""

from __future__ import annotations

import os
from pathlib import Path

APP = "tui-agent"


class NoHome(Exception):
    """The home folder can't be told; the message says which variable helps."""


def home_dir() -> Path:
    """The user's home folder. Raises NoHome."""
    try:
        home = Path.home()
    except (RuntimeError, KeyError) as error:
        raise NoHome(
            "The home folder is unknown: HOME is not set. Set HOME, or TUI_AGENT_HOME to a folder of your choice."
        ) from error
    if not home.is_absolute():
        raise NoHome("HOME is not an absolute path. Set HOME, or TUI_AGENT_HOME to a folder of your choice.")
    return home


def override() -> Path | None:
    """The folder that `TUI_AGENT_HOME` names, absolute; None when it is unset or empty."""
    value = os.environ.get("TUI_AGENT_HOME", "")
    if not value.strip():
        return None
    return Path(os.path.abspath(os.path.expanduser(value)))


def _xdg(variable: str, *default: str) -> Path:
    """An XDG base folder; relative values are ignored, as the XDG specification says."""
    value = os.environ.get(variable, "")
    if value and os.path.isabs(value):
        return Path(value)
    return home_dir().joinpath(*default)


def config_dir() -> Path:
    """Settings that the user writes: `$XDG_CONFIG_HOME/tui-agent`, or `TUI_AGENT_HOME` itself (S1, G1)."""
    return override() or _xdg("XDG_CONFIG_HOME", ".config") / APP


def data_dir() -> Path:
    """What the program writes: `$XDG_DATA_HOME/tui-agent`, or `TUI_AGENT_HOME` itself (S1)."""
    return override() or _xdg("XDG_DATA_HOME", ".local", "share") / APP


def sessions_dir() -> Path:
    """Folder of the session folders (S1)."""
    return data_dir() / "sessions"


def config_file() -> Path:
    """The user's settings (G1)."""
    return config_dir() / "config.yaml"


def models_file() -> Path:
    """The model catalogue (M5)."""
    return config_dir() / "models.json"


def trust_file() -> Path:
    """Folders that the user trusts (A8)."""
    return config_dir() / "trust.json"


def grants_file() -> Path:
    """Standing "always" grants."""
    return config_dir() / "grants.json"


def debug_log_file() -> Path:
    """Tracebacks and what else helps to find a defect."""
    return data_dir() / "debug.log"


def agents_file() -> Path:
    """The user's own agent rules (H1)."""
    return home_dir() / "AGENTS.md"


def workspace_settings_file(folder: Path) -> Path:
    """The settings of a workspace; read only when it is trusted (G1, A8)."""
    return folder / ".tui-agent.yaml"


def ensure_private_dir(path: Path) -> Path:
    """Create `path` and what is missing above it with mode 0700, whatever the umask.

    An existing folder of ours that others may enter is closed to them; folders that the user chose (the one
    `TUI_AGENT_HOME` names) are left as they are. Returns `path`. Raises OSError.
    """
    missing = []
    at = path
    while not at.exists():
        missing.append(at)
        if at.parent == at:
            break
        at = at.parent
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not folder.is_dir():
                raise
    if not missing and _ours(path):
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            os.chmod(path, 0o700)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    return path


def _ours(path: Path) -> bool:
    chosen = override()
    return path != chosen and any(path.is_relative_to(home) for home in (config_dir(), data_dir()))
