"""`tui-agent trust`: list the trusted folders, trust one, or revoke trust, without a session (A8)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tui_agent import settings
from tui_agent.commands.output import TextPage, exit_code_of, print_line
from tui_agent.common import paths
from tui_agent.engine.context.trusted_contents import trusted_contents
from tui_agent.events.narration import local_minute
from tui_agent.platform.pipes import print_error
from tui_agent.safety import trust
from tui_agent.safety.decision_files import DecisionsNotSaved
from tui_agent.text import make_visible

FAILED, USAGE, NEEDS_PERSON = 1, 2, 3


def run_trust(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Run the subcommand; return the exit code."""
    subcommands = {"list": _list, "add": _add, "remove": _remove}
    codes = {DecisionsNotSaved: FAILED, paths.HomeNotFoundError: USAGE}
    return exit_code_of(lambda: subcommands[args.command](args), codes)


def _list(args: argparse.Namespace) -> int:
    entries = trust.trusted_folders()
    if args.json:
        for entry in entries:
            print_line(json.dumps({"folder": entry.folder, "since": entry.since}))
    elif entries:
        rows = [(local_minute(entry.since), make_visible(entry.folder)) for entry in entries]
        TextPage().table(("since", "folder"), rows)
    else:
        print_error("No folder is trusted. The first session in a folder asks, and `tui-agent trust add` trusts one.")
    return 0


def _add(args: argparse.Namespace) -> int:
    folder = args.folder.resolve()
    if not folder.is_dir():
        print_error(f"{make_visible(str(folder))} is not a folder.")
        return USAGE
    risks = trust.folder_risks(folder)
    if risks and not args.yes:
        print_error(" ".join((make_visible(str(folder)), "is not trusted:", *map(make_visible, risks))))
        print_error("Use --yes to trust it all the same; sessions in folders below it still ask.")
        return NEEDS_PERSON
    trust.trust(folder)
    print_line(f"Trusted: {make_visible(str(folder))}")
    own = settings.load_settings(paths.config_file()).settings
    if contents := trusted_contents(folder, own):
        print_line("Sessions there read and follow:")
        for entry in contents:
            print_line(f"  {make_visible(entry)}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    folder: Path = args.folder.resolve()
    if not trust.revoke(folder):
        print_error(f"{make_visible(str(folder))} is not trusted. `tui-agent trust` lists the folders that are.")
        return FAILED
    print_line(f"Not trusted any longer: {make_visible(str(folder))}. Open sessions there are read-only at once.")
    return 0
