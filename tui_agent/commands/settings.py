"""`tui-agent settings`: prints a config.yaml that explains every setting (G1)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tui_agent.arguments import FILES, Sections, bare_parser


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent settings`."""
    about = (
        "Print a config.yaml that explains every setting, with its built-in value. In a\n"
        "session, /settings (F6) shows and changes them."
    )
    examples = {"tui-agent settings": "", "tui-agent settings | less": ""}
    sections: Sections = {"examples": examples, "exit codes": "0 done   2 wrong usage", "files": FILES}
    return bare_parser("settings", about, sections)


def run(argv: Sequence[str]) -> int:
    """Print the example; returns the exit code."""
    build_parser().parse_args(argv)
    from tui_agent import paths
    from tui_agent.settings.document import example

    sys.stdout.write(example())
    sys.stderr.write(f"\nWhat you change goes to {paths.config_file()}\n")
    return 0
