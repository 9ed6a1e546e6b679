"""The demo workspace: a small project with a bug and tests that reveal it (X1)."""

from __future__ import annotations

import argparse
import json
from importlib import resources
from pathlib import Path

DEMO_TASK = "The word counter counts some words wrongly. Find the bug, fix it and run the tests."
"""Default task of `--demo`, which the built-in scenarios answer."""
REAL_TASK = "words() must return the words in lower case, without the empty ones. Fix it and run the tests."
"""Default task of `--demo` with a real model: small models can do it."""


def has_real_model(args: argparse.Namespace) -> bool:
    """Whether the command line names a real model for the demo."""
    is_file = (args.model or "").endswith(".gguf")
    return is_file or bool(args.base_url) or args.provider not in (None, "scripted")


def demo_task(args: argparse.Namespace) -> str:
    """The task that `--demo` proposes for the model of the command line."""
    return REAL_TASK if has_real_model(args) else DEMO_TASK


def demo_files() -> dict[str, str]:
    """Path → text of the project's files."""
    text = (resources.files("tui_agent.frontends") / "demo_workspace.json").read_text(encoding="utf-8")
    files: dict[str, str] = json.loads(text)
    return files


def create_demo_workspace(folder: Path) -> Path:
    """Write the project into `folder`, creating it if needed, and return its resolved path.

    Raises FileExistsError rather than overwrite a file.
    """
    workspace = folder.resolve()
    for name, text in demo_files().items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return workspace
