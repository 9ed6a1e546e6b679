"""`tui-agent reliability MODEL`: how often a model's replies can be carried out (M8), and which strategy fits it best
(E4). Reads the command line and loads the rest after that."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tui_agent.arguments import page
from tui_agent.commands import options

COUNT = 20
QUICK = 2
"""Tasks of each strategy in a quick measurement."""
TEMPERATURES = (0.0, 0.3, 0.7)
QUICK_TEMPERATURES = (0.0,)
SECONDS = 120.0
"""For one reply."""
GOAL = 95
"""Per cent of valid replies that make a model fit for work (M8)."""
TASKS_GOAL = 0.8
"""Share of the suite's tasks that are done at the first attempt by an agent that is fit for work."""
STRATEGIES = ("native", "json", "xml", "files")
"""Ways to ask a model for its work (E4)."""


EXAMPLES = {
    "tui-agent reliability qwen2.5-coder:7b -n 100": "",
    "tui-agent reliability --quick": "which strategy fits the model, in a minute",
    "tui-agent reliability --strategies native --temperatures 0": "",
    "tui-agent reliability qwen2.5-coder:7b --tasks -n 120": "",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent reliability`."""
    about = (
        "Ask a model for small tool calls and changes of files and count how many can be\n"
        "carried out. Nothing is, but with --tasks. When all strategies were measured,\n"
        "the best one is kept in models.json: sessions with the model begin with it."
    )
    codes = (
        f"0 the best way of asking reaches {GOAL} %; with --tasks: {TASKS_GOAL:.0%} succeed at once\n"
        "1 they do not   2 wrong usage   4 model unreachable   130 interrupted"
    )
    parser = page("reliability", about, ["[OPTION]... [MODEL]"], {"examples": EXAMPLES, "exit codes": codes})
    _add_measuring(parser)
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


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    """What is measured, and how much of it."""
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="name of the model; default: that of a session"
    )
    parser.add_argument(
        "-n",
        "--n",
        type=_count,
        metavar="N",
        help=f"tasks for each strategy and temperature, or of the suite; default: {COUNT}, with --quick {QUICK}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"a rough measurement at temperature 0; a strategy that failed {QUICK} times is asked no more",
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
        metavar="T,…",
        help="to ask at; default: 0,0.3,0.7, with --quick 0",
    )
    parser.add_argument(
        "--strategies",
        "--protocols",
        type=_strategies,
        default=STRATEGIES,
        metavar="S,…",
        help="ways to ask for work; default: native,json,xml,files",
    )
    parser.add_argument("--no-save", action="store_true", help="leave models.json as it is")


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


def _strategies(text: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in text.split(",") if part.strip())
    if not values or not set(values) <= set(STRATEGIES):
        raise argparse.ArgumentTypeError(f"must be of {', '.join(STRATEGIES)}, with commas between")
    return values


def run(argv: Sequence[str]) -> int:
    """Measure and tell; returns the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.tasks and args.quick:
        parser.error("--quick does not go with --tasks")
    args.n = args.n or (QUICK if args.quick else COUNT)
    args.temperatures = args.temperatures or (QUICK_TEMPERATURES if args.quick else TEMPERATURES)
    if args.tasks:
        from tui_agent.commands import task_suite

        return task_suite.run(args)
    from tui_agent.commands import measuring

    return measuring.measure(args)
