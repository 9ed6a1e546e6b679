"""Options that commands which look at a server share; loads nothing, so that their help is quick (R23.1)."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser, *, model: bool = True) -> None:
    """The flags that say which server is meant, as the agent itself has them."""
    where = parser.add_argument_group("which model")
    where.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="the folder to look at; default the current one"
    )
    where.add_argument("--provider", choices=("ollama", "openai", "scripted"), help="which kind of server")
    where.add_argument("--base-url", metavar="URL", help="address of the server")
    if model:
        where.add_argument("--model", metavar="NAME", help="name of the model")
    where.add_argument("--context-window", type=int, metavar="TOKENS", help="size of the window to ask for")
    where.add_argument("--scenarios", type=Path, metavar="FILE", help="scenario file of the scripted model")


def seconds_type(text: str) -> float:
    """A number of seconds from the command line."""
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return value
