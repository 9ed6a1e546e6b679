"""Small jobs with a real small model: `python -m benchmarks.real_model COMMAND`. See docs/benchmarks.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks.real_model import agents, weights
from benchmarks.real_model.counting import Row
from benchmarks.real_model.jobs import Job, select_jobs
from benchmarks.real_model.running import LIMIT, run_job
from benchmarks.real_model.serving import PORT, model_server
from benchmarks.real_model.table import read_rows, table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="get the model and its server (1.1 GB)")
    fetch.add_argument("folder", nargs="?", type=Path, help=f"default: {weights.VARIABLE}, else the user's cache")
    run = commands.add_parser("run", help="run a program on the jobs")
    names = ", ".join((agents.TUI_AGENT, *agents.REFERENCES))
    run.add_argument("--agent", default=agents.TUI_AGENT, help=f"{names}, or NAME=COMMAND with {{prompt}} in it")
    run.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="environment variable for NAME=COMMAND"
    )
    run.add_argument(
        "--cli", default="", metavar="FILE", help="measure an installed tui-agent instead of this source tree"
    )
    run.add_argument("--strategy", choices=agents.STRATEGIES, default="default", help="strategy to set in models.json")
    run.add_argument("--mode", choices=agents.MODES, default="default")
    run.add_argument("--provider", choices=agents.PROVIDERS, default="openai")
    run.add_argument("--repeats", type=int, default=3)
    run.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these jobs")
    run.add_argument("--port", type=int, default=PORT, help=f"port of the model server; default: {PORT}")
    run.add_argument("--limit", type=float, default=LIMIT, help="time limit of a job in seconds")
    run.add_argument("--keep", type=Path, metavar="FOLDER", help="save requests, answers and projects here")
    run.add_argument("--out", type=Path, default=Path("results.jsonl"), help="results file, one line per job")
    speed = commands.add_parser("speed", help="measure start, memory and speed")
    speed.add_argument("--repeats", type=int, default=3)
    speed.add_argument("--port", type=int, default=PORT)
    tables = commands.add_parser("table", help="print results as Markdown")
    tables.add_argument("files", nargs="+", type=Path, metavar="FILE")
    return parser


def _chosen_agent(options: argparse.Namespace) -> agents.Agent:
    """The chosen program. Raises ValueError."""
    if options.agent == agents.TUI_AGENT:
        return agents.tui_agent(
            strategy=options.strategy,
            mode=options.mode,
            provider=options.provider,
            model=str(weights.default_folder() / weights.WEIGHTS) if options.provider == "local" else weights.MODEL,
            cli=options.cli,
        )
    if (options.strategy, options.mode, options.provider) != ("default", "default", "openai"):
        raise ValueError("--strategy, --mode and --provider are for tui-agent only")
    if options.agent in agents.REFERENCES:
        return agents.reference(options.agent)
    name, divider, command = options.agent.partition("=")
    if not divider or "{prompt}" not in command:
        raise ValueError(f"there is no agent {options.agent}; others are given as NAME=COMMAND, with {{prompt}} in it")
    return agents.custom_agent(name, command, options.env)


def _run(options: argparse.Namespace) -> list[Row]:
    agent, jobs = _chosen_agent(options), select_jobs(options.only)
    rounds = [(number, job) for number in range(1, options.repeats + 1) for job in jobs]
    with ExitStack() as stack:
        server = "http://127.0.0.1:9/v1"
        if not agent.runs_model:
            server = stack.enter_context(model_server(weights.default_folder(), options.port))
        return [_run_and_record(agent, job, number, server, options) for number, job in rounds]


def _run_and_record(agent: agents.Agent, job: Job, number: int, server: str, options: argparse.Namespace) -> Row:
    model = str(weights.default_folder() / weights.WEIGHTS) if agent.runs_model else weights.MODEL
    row = run_job(agent, job, server, model, repeat=number, limit=options.limit, save=options.keep)
    line = msgspec.json.encode(row)
    with options.out.open("ab") as out:
        out.write(line + b"\n")
    print(line.decode(), flush=True)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 1 after a failure, 2 for wrong usage."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        if options.command == "fetch":
            folder = options.folder.absolute() if options.folder else weights.default_folder()
            print(weights.fetch(folder))
        elif options.command == "run":
            print("\n" + table(_run(options)))
        elif options.command == "speed":
            from benchmarks.real_model import speed

            print(speed.table(speed.measure(weights.default_folder(), options.port, options.repeats)))
        else:
            print(table([row for file in options.files for row in read_rows(file)]))
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except weights.ModelUnavailable as error:
        parser.exit(1, f"{error}\n")
    except subprocess.CalledProcessError as error:
        parser.exit(1, f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
