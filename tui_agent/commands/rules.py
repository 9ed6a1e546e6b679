"""`tui-agent rules`: writes ~/AGENTS.md from a template, where there is none (H1)."""

from __future__ import annotations

import sys
from importlib.resources import files

from tui_agent import paths
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import replace_file


def run() -> int:
    """Write the template; an existing file is left as it is. Returns the exit code."""
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
