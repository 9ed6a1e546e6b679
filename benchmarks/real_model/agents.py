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
TUI_AGENT = "tui-agent"
REFERENCES = ("reference-schema", "reference-files", "reference-votes")
STRATEGIES = ("default", "native", "json", "files")
MODES = ("default", "direct")
PROVIDERS = ("openai", "ollama", "local")

_RUN_MODULE = "import sys; sys.path.insert(0, {root!r}); from {module} import main; sys.exit(main())"
"""Runs a module of this tree without an environment variable, which child processes would inherit."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A program to measure.

    Its texts may contain {prompt}, {base_url}, {root_url}, {model}, {home} and {ws}: `base_url` ends with /v1,
    `root_url` is the server itself, `ws` the project.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Path in the home → content."""
    strategy: str = ""
    """This and the next two are empty for other programs."""
    mode: str = ""
    provider: str = ""
    commit: str = ""

    @property
    def wants_ollama(self) -> bool:
        """Whether it uses the Ollama API."""
        return self.provider == "ollama"

    @property
    def runs_model(self) -> bool:
        """Whether it runs the model itself, without a server."""
        return self.provider == "local"


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace the names in braces by their values; other braces remain."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def tui_agent(
    *, strategy: str = "default", mode: str = "default", provider: str = "openai", model: str, cli: str = ""
) -> Agent:
    """tui-agent of this tree, or the installed program `cli`. With the provider local, `model` is a file."""
    program = (cli,) if cli else _module("tui_agent.__main__")
    argv = [*program, "exec", "--trust", "--approve", "all", "--accept-plan", "--accept-summary"]
    argv += [] if mode == "default" else ["--mode", mode]
    env = {"LLM_DEFAULT_MODEL": "{model}", "LLM_SMALL_FAST_MODEL": "{model}"}
    if provider == "ollama":
        env["OLLAMA_HOST"] = "{root_url}"
    elif provider == "local":
        env |= {"TUI_AGENT_PROVIDER": provider}
    else:
        env |= {"LLM_BASE_URL": "{base_url}", "LLM_AUTH_TOKEN": "x"}
    files = {}
    if strategy != "default":
        entry = {"models": {model: {"options": {"strategy": strategy}}}}
        files[".config/tui-agent/models.json"] = json.dumps(entry)
    return Agent(
        name=TUI_AGENT,
        argv=(*argv, "{prompt}"),
        env=env,
        files=files,
        strategy=strategy,
        mode=mode,
        provider=provider,
        commit=commit_of(_source_folder(cli) if cli else ROOT),
    )


def reference(name: str) -> Agent:
    """A reference agent."""
    module = f"benchmarks.real_model.references.{name.removeprefix('reference-')}"
    argv = (*_module(module), "--base-url", "{base_url}", "{prompt}")
    return Agent(name=name, argv=argv, commit=commit_of(ROOT))


def custom_agent(name: str, command: str, env: Sequence[str]) -> Agent:
    """Any program; `env` has items of the form NAME=VALUE. Raises ValueError."""
    if not all("=" in pair for pair in env):
        raise ValueError("an environment variable is given as NAME=VALUE")
    variables = {name: value for name, _, value in (pair.partition("=") for pair in env)}
    return Agent(name=name, argv=tuple(shlex.split(command)), env=variables)


def commit_of(folder: Path | None) -> str:
    """The commit of a tree, with `-dirty` if its files have changed since; "" if unknown."""
    if folder is None:
        return ""
    argv = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=8"]
    process = subprocess.run(argv, capture_output=True, text=True, check=False)
    return process.stdout.strip() if process.returncode == 0 else ""


def _module(name: str) -> tuple[str, ...]:
    return sys.executable, "-P", "-c", _RUN_MODULE.format(root=str(ROOT), module=name)


def _source_folder(cli: str) -> Path | None:
    """The folder of an installed program's package."""
    python = Path(cli).with_name("python")
    if not python.exists():
        return None
    argv = [str(python), "-I", "-c", "import tui_agent; print(tui_agent.__file__)"]
    process = subprocess.run(argv, capture_output=True, text=True, check=False)
    return Path(process.stdout.strip()).parent if process.returncode == 0 else None
