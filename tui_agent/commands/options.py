"""Options that commands which look at a server share; loads nothing, so that their help is quick (R23.1)."""

from __future__ import annotations

import argparse
from pathlib import Path

from tui_agent.arguments import add_server_options


def add_arguments(parser: argparse.ArgumentParser, *, model: bool = True) -> None:
    """The flags that say which server is meant, as the agent itself has them."""
    add_server_options(parser, model=model)
    where = parser.add_argument_group("where")
    where.add_argument(
        "-C",
        "--workspace",
        type=Path,
        metavar="DIR",
        help="whose settings count; default: the current folder",
    )


def seconds_type(text: str) -> float:
    """A number of seconds from the command line."""
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return value
