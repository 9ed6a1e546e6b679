"""The processes of the local engine, and where tests find the package that it runs."""

from __future__ import annotations

from pathlib import Path

from tui_agent.models.local import engine

DOUBLES = Path(__file__).with_name("engine")
"""Folder with a double of the package."""
ENGINE = "TUI_AGENT_TEST_ENGINE"
"""Variable with the folder in which xllamacpp is installed, if it is not installed for the tests' Python."""


def processes(weights: Path) -> list[int]:
    """The processes of the engine that runs a file: watcher and engine."""
    folder = str(engine.engine_folder(weights)).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if folder in arguments and state != b"Z":
                found.append(int(entry.name))
    return sorted(found)
