"""The model's folder, and downloading it: the server's wheel to a venv, the weights by `tui-agent models get`.

The model is Qwen2.5-Coder-1.5B-Instruct by Alibaba, 4 bits (Q4_K_M), Apache 2.0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "TUI_AGENT_REAL_MODEL"
"""Environment variable with the model's folder."""
MODEL = "qwen2.5-coder-1.5b"
"""Name of the model in requests and results."""
WEIGHTS = "qwen.gguf"
SERVER = "xllamacpp==2026.10.11549"


class ModelUnavailable(Exception):
    """The model is missing or wrong; the message says what to do."""


def default_folder() -> Path:
    """The folder named by TUI_AGENT_REAL_MODEL, else one in the user's cache."""
    if named := os.environ.get(VARIABLE, "").strip():
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tui-agent")) / "real-model"


def python_of(folder: Path) -> Path:
    """The interpreter in which the server is installed."""
    return folder / "venv" / "bin" / "python"


def is_complete(folder: Path) -> bool:
    """Whether server and weights are installed."""
    return (folder / WEIGHTS).is_file() and python_of(folder).exists()


def fetch(folder: Path) -> Path:
    """Download what is missing to `folder`, 1.1 GB; return the file of the weights.

    Raises CalledProcessError if that fails; the reason has been printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = python_of(folder)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    command = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*command, "install", "-q", "--only-binary", ":all:", SERVER], check=True)
    weights, home = folder / WEIGHTS, folder / "home"
    if weights.exists():
        return weights
    command = [sys.executable, "-m", "tui_agent", "models", "get", MODEL, "--yes"]
    subprocess.run(command, check=True, env={**os.environ, "TUI_AGENT_HOME": str(home)})
    (fetched,) = (home / "models").glob("*.gguf")
    fetched.replace(weights)
    shutil.rmtree(home)
    return weights
