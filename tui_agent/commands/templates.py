"""`tui-agent settings` prints a commented config.yaml; `tui-agent rules` writes ~/AGENTS.md from a template."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files

from tui_agent.common import paths
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import replace_file
from tui_agent.platform.pipes import print_error
from tui_agent.settings.document import example_config


def run_settings(_args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Print the example configuration; return the exit code."""
    sys.stdout.write(example_config())
    sys.stderr.write(f"\nSave your changes in {paths.config_file()}\n")
    return 0


def run_rules(_args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Write the template unless the file exists; return the exit code."""
    path = paths.agents_file()
    template = files("tui_agent.commands").joinpath("rules.md").read_bytes()
    try:
        replace_file(path, template, None)
    except FileChangedError:
        sys.stdout.write(f"{path} already exists; left unchanged.\n")
        return 0
    except (FileFault, OSError) as error:
        print_error(f"{path} could not be written: {error}")
        return 1
    sys.stdout.write(f"Wrote {path}. Edit it: the agent reads it before every task.\n")
    return 0
