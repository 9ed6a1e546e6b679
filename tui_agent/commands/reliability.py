"""`tui-agent reliability MODEL`: how often a model's replies are calls that can run (M8). Reads the command line and
loads the rest after that."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tui_agent.arguments import page
from tui_agent.commands import options

COUNT = 20
TEMPERATURES = (0.0, 0.3, 0.7)
SECONDS = 120.0
"""For one reply."""
GOAL = 95
"""Per cent of valid replies that make a model fit for work (M8)."""
TASKS_GOAL = 0.8
"""Share of the suite's tasks that are done at the first attempt by an agent that is fit for work."""
PROTOCOLS = ("native", "json", "xml")
"""Ways to ask for a call (C3)."""


EXAMPLES = {
    "tui-agent reliability qwen2.5-coder:7b -n 100": "",
    "tui-agent reliability --protocols native --temperatures 0": "",
    "tui-agent reliability qwen2.5-coder:7b --tasks -n 120": "",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent reliability`."""
    about = "Ask a model for small tool calls and count how many can run. Nothing is run, but\nwith --tasks."
    codes = (
        f"0 the best way of asking reaches {GOAL} %; with --tasks: {TASKS_GOAL:.0%} succeed at once\n"
        "1 they do not   2 wrong usage   4 model unreachable   130 interrupted"
    )
    parser = page("reliability", about, ["[OPTION]... [MODEL]"], {"examples": EXAMPLES, "exit codes": codes})
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="name of the model; default: that of a session"
    )
    parser.add_argument(
        "-n",
        "--n",
        type=_count,
        default=COUNT,
        metavar="N",
        help=f"tasks for each protocol and temperature, or of the suite; default: {COUNT}",
    )
    parser.add_argument(
        "--tasks",
        action="store_true",
        help="let the agent work on small tasks with faults in the way, in folders of their own, with planning and "
        "without; what the model calls is run, and nobody is asked",
    )
    parser.add_argument(
        "--temperatures",
        type=_temperatures,
        default=TEMPERATURES,
        metavar="T,…",
        help="to ask at; default: 0,0.3,0.7",
    )
    parser.add_argument(
        "--protocols",
        type=_protocols,
        default=PROTOCOLS,
        metavar="P,…",
        help="ways to ask for a call; default: native,json,xml",
    )
    parser.add_argument(
        "--timeout",
        type=options.seconds_type,
        default=SECONDS,
        metavar="SECONDS",
        help=f"for one reply; default: {SECONDS:g}",
    )
    parser.add_argument("--json", action="store_true", help="print every reply's outcome as JSON")
    options.add_arguments(parser, model=False)
    return parser


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 10_000:
        raise argparse.ArgumentTypeError("must be from 1 to 10000")
    return value


def _temperatures(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(",") if part.strip())
    if not values or not all(0 <= value <= 2 for value in values):
        raise argparse.ArgumentTypeError("must be numbers from 0 to 2, with commas between")
    return values


def _protocols(text: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in text.split(",") if part.strip())
    if not values or not set(values) <= set(PROTOCOLS):
        raise argparse.ArgumentTypeError(f"must be of {', '.join(PROTOCOLS)}, with commas between")
    return values


def run(argv: Sequence[str]) -> int:
    """Measure and tell; returns the exit code."""
    args = build_parser().parse_args(argv)
    if args.tasks:
        from tui_agent.commands import task_suite

        return task_suite.run(args)
    from tui_agent.commands import measuring

    return measuring.measure(args)
