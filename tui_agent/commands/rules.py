"""`tui-agent rules`: writes ~/AGENTS.md from a template, where there is none (H1)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tui_agent.arguments import Sections, bare_parser


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent rules`."""
    about = (
        "Write ~/AGENTS.md from a template, for you to edit: rules that the agent reads\n"
        "before every piece of work. One that is there is left as it is."
    )
    sections: Sections = {
        "examples": {"tui-agent rules": ""},
        "exit codes": "0 written, or there already   1 it could not be written   2 wrong usage",
        "files": {"~/AGENTS.md": "your rules", "AGENTS.md": "those of a project, in its folder"},
    }
    return bare_parser("rules", about, sections)


def run(argv: Sequence[str]) -> int:
    """Write the template; an existing file is left as it is. Returns the exit code."""
    build_parser().parse_args(argv)
    from importlib.resources import files

    from tui_agent import paths
    from tui_agent.platform.file_faults import FileChangedError, FileFault
    from tui_agent.platform.files import replace_file

    path = paths.agents_file()
    template = files("tui_agent.commands").joinpath("rules.md").read_bytes()
    try:
        replace_file(path, template, None)
    except FileChangedError:
        sys.stdout.write(f"{path} is there already; it was left as it is.\n")
        return 0
    except (FileFault, OSError) as error:
        sys.stderr.write(f"tui-agent: {path} could not be written: {error}\n")
        return 1
    sys.stdout.write(f"Wrote {path}. Edit it: the agent reads it before every piece of work.\n")
    return 0
