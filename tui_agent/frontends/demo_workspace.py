"""The demo workspace: a small project with a bug and tests that reveal it (X1)."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

DEMO_TASK = "The word counter counts some words wrongly. Find the bug, fix it and run the tests."
"""Default task of `--demo`, which the built-in scenarios answer."""


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
