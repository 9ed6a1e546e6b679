"""The workspace of the demonstration: a small real project with a bug and tests that show it (X1)."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

DEMO_TASK = "The word counter counts some words wrongly. Find the bug, fix it and run the tests."
"""What `--demo` asks when the user gives no task; the shipped scenarios know it."""


def demo_files() -> dict[str, str]:
    """Path → text of every file of the project; standard library only."""
    text = (resources.files("tui_agent.frontends") / "demo_workspace.json").read_text(encoding="utf-8")
    files: dict[str, str] = json.loads(text)
    return files


def create_demo_workspace(folder: Path) -> Path:
    """Write the project into `folder`, which is made if need be, and return it resolved.

    Raises FileExistsError when one of the project's files is there already: nothing is overwritten.
    """
    workspace = folder.resolve()
    for name, text in demo_files().items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return workspace
