"""`tui-agent settings`: prints a config.yaml that explains every setting (G1)."""

from __future__ import annotations

import sys

from tui_agent import paths
from tui_agent.settings.document import example


def run() -> int:
    """Print the example; returns the exit code."""
    sys.stdout.write(example())
    sys.stderr.write(f"\nWhat you change goes to {paths.config_file()}\n")
    return 0
