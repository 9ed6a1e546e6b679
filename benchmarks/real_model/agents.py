"""The programs that can be measured: their command lines, environments and files in a fresh home."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
OURS = "tui-agent"
REFERENCES = ("reference-schema", "reference-files", "reference-votes")
STRATEGIES = ("default", "native", "json", "files")
MODES = ("default", "direct")
PROVIDERS = ("openai", "ollama")

_HERE = "import sys; sys.path.insert(0, {root!r}); from {module} import main; sys.exit(main())"
"""Runs a module of this tree without an environment variable that the program's own children would inherit."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A program to measure. Its texts may hold {prompt}, {base_url}, {root_url}, {model}, {home} and {ws}: `base_url`
    ends with /v1, `root_url` is the server itself, `ws` the project."""

    name: str
    words: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Path in the home → content, as it is."""
    strategy: str = ""
    """This and the next two: empty for programs that do not know them."""
    mode: str = ""
    provider: str = ""
    commit: str = ""

    @property
    def wants_ollama(self) -> bool:
        """Whether it talks to an Ollama server."""
        return self.provider == "ollama"


def fill(text: str, places: Mapping[str, str]) -> str:
    """`text` with the places in braces filled; other braces stay."""
    for name, value in places.items():
        text = text.replace("{" + name + "}", value)
    return text


def ours(
    *, strategy: str = "default", mode: str = "default", provider: str = "openai", model: str, cli: str = ""
) -> Agent:
    """tui-agent: that of this tree, or the installed program `cli`."""
    program = (cli,) if cli else _module("tui_agent.__main__")
    words = [*program, "exec", "--trust", "--approve", "all", "--accept-plan", "--accept-summary"]
    words += [] if mode == "default" else ["--mode", mode]
    env = {"LLM_DEFAULT_MODEL": "{model}", "LLM_SMALL_FAST_MODEL": "{model}"}
    if provider == "ollama":
        env["OLLAMA_HOST"] = "{root_url}"
    else:
        env |= {"LLM_BASE_URL": "{base_url}", "LLM_AUTH_TOKEN": "x"}
    files = {}
    if strategy != "default":
        entry = {"models": {model: {"options": {"strategy": strategy}}}}
        files[".config/tui-agent/models.json"] = json.dumps(entry)
    return Agent(
        name=OURS,
        words=(*words, "{prompt}"),
        env=env,
        files=files,
        strategy=strategy,
        mode=mode,
        provider=provider,
        commit=commit_of(_tree(cli) if cli else ROOT),
    )


def reference(name: str) -> Agent:
    """One of the references."""
    module = f"benchmarks.real_model.references.{name.removeprefix('reference-')}"
    words = (*_module(module), "--base-url", "{base_url}", "{prompt}")
    return Agent(name=name, words=words, commit=commit_of(ROOT))


def other(name: str, command: str, env: Sequence[str]) -> Agent:
    """Any program; `env` are texts of the form NAME=VALUE. Raises ValueError."""
    if not all("=" in pair for pair in env):
        raise ValueError("an environment variable is given as NAME=VALUE")
    variables = {name: value for name, _, value in (pair.partition("=") for pair in env)}
    return Agent(name=name, words=tuple(shlex.split(command)), env=variables)


def commit_of(folder: Path | None) -> str:
    """The commit of a tree, with `-dirty` when its files have changed since; empty when that can't be told."""
    if folder is None:
        return ""
    words = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=8"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _module(name: str) -> tuple[str, ...]:
    return sys.executable, "-P", "-c", _HERE.format(root=str(ROOT), module=name)


def _tree(cli: str) -> Path | None:
    """Where the package of an installed program lies."""
    python = Path(cli).with_name("python")
    if not python.exists():
        return None
    words = [str(python), "-I", "-c", "import tui_agent; print(tui_agent.__file__)"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()).parent if done.returncode == 0 else None
