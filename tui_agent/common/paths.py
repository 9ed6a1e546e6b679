"""Paths of the program's own files; the environment is read on every call."""

from __future__ import annotations

import hashlib
import os
from itertools import takewhile
from pathlib import Path

APP = "tui-agent"


class HomeNotFoundError(Exception):
    """The home folder is unknown; the message names the variable to set."""


def home_dir() -> Path:
    """Return the user's home folder. Raises HomeNotFoundError."""
    try:
        home = Path.home()
    except (RuntimeError, KeyError) as error:
        raise HomeNotFoundError(
            "The home folder is unknown: HOME is not set. Set HOME, or TUI_AGENT_HOME to a folder of your choice."
        ) from error
    if not home.is_absolute():
        raise HomeNotFoundError("HOME is not an absolute path. Set HOME, or TUI_AGENT_HOME to a folder of your choice.")
    return home


def home_override() -> Path | None:
    """Return the absolute folder named by `TUI_AGENT_HOME`, or None if it is unset or empty."""
    value = os.environ.get("TUI_AGENT_HOME", "")
    if not value.strip():
        return None
    return Path(os.path.abspath(os.path.expanduser(value)))


def _xdg(variable: str, *default: str) -> Path:
    """Return an XDG base folder; relative values are ignored, as the XDG specification demands."""
    value = os.environ.get(variable, "")
    if value and os.path.isabs(value):
        return Path(value)
    return home_dir().joinpath(*default)


def config_dir() -> Path:
    """Folder of the user's settings: `$XDG_CONFIG_HOME/tui-agent`, or `TUI_AGENT_HOME` itself (S1, G1)."""
    return home_override() or _xdg("XDG_CONFIG_HOME", ".config") / APP


def data_dir() -> Path:
    """Folder of the program's data: `$XDG_DATA_HOME/tui-agent`, or `TUI_AGENT_HOME` itself (S1)."""
    return home_override() or _xdg("XDG_DATA_HOME", ".local", "share") / APP


def sessions_dir() -> Path:
    """Folder of the session folders (S1)."""
    return data_dir() / "sessions"


def staging_dir() -> Path:
    """Folder of files that are being written and have no name yet."""
    return data_dir() / "staging"


def config_file() -> Path:
    """The user's settings (G1)."""
    return config_dir() / "config.yaml"


def models_file() -> Path:
    """The model catalog (M5)."""
    return config_dir() / "models.json"


def models_dir() -> Path:
    """Folder of the models that the program downloaded (L2)."""
    return data_dir() / "models"


def trust_file() -> Path:
    """The trusted folders (A8)."""
    return config_dir() / "trust.json"


def grants_file() -> Path:
    """The permanent grants."""
    return config_dir() / "grants.json"


def debug_log_file() -> Path:
    """The debug log: tracebacks and diagnostics."""
    return data_dir() / "debug.log"


def agents_file() -> Path:
    """The user's own agent rules (H1)."""
    return home_dir() / "AGENTS.md"


def workspace_settings_file(folder: Path) -> Path:
    """The settings of a workspace; ignored unless it is trusted (G1, A8)."""
    return folder / ".tui-agent.yaml"


def command_notes_dir(workspace: Path) -> Path:
    """What the next start must know of commands that ran in a workspace; exists only if there is something."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:16]
    return data_dir() / "quarantine" / name


def ensure_private_dir(path: Path) -> Path:
    """Create `path` and its missing parents with mode 0700, regardless of the umask, and return `path`.

    An existing folder of the program that others can access is made private; a folder the user chose
    (`TUI_AGENT_HOME`) is left as it is. Raises OSError.
    """
    missing = list(takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not folder.is_dir():
                raise
    if not missing and _is_managed(path):
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            os.chmod(path, 0o700)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    return path


def _is_managed(path: Path) -> bool:
    return path != home_override() and any(path.is_relative_to(base) for base in (config_dir(), data_dir()))
