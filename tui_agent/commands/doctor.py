"""`tui-agent doctor`: looks at server, model, files, machine and terminal, and says what to do (M8)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tui_agent.arguments import ENVIRONMENT, Sections, page
from tui_agent.commands import options

SECONDS = 90.0
"""For one reply of the model: it may have to be loaded first."""


EXAMPLES = {
    "tui-agent doctor": "with your settings",
    "tui-agent doctor --base-url http://localhost:8080/v1 --provider openai": "",
    "tui-agent doctor --json | jq .": "",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent doctor`."""
    about = "Look at server, model, files, machine and terminal, and say what to do. Nothing\nis changed."
    sections: Sections = {
        "examples": EXAMPLES,
        "exit codes": "0 work can begin   1 something stands in the way   2 wrong usage",
        "environment": ENVIRONMENT,
    }
    parser = page("doctor", about, ["[OPTION]..."], sections)
    options.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--no-probe", action="store_true", help="do not ask the model anything")
    parser.add_argument(
        "--timeout",
        type=options.seconds_type,
        default=SECONDS,
        metavar="SECONDS",
        help=f"for one reply of the model; default: {SECONDS:g}",
    )
    return parser


def run(argv: Sequence[str]) -> int:
    """Look and tell; returns the exit code."""
    args = build_parser().parse_args(argv)
    from tui_agent.commands.doctor_visit import visit

    return visit(args)
