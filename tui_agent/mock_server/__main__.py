"""The command `mock-llm-server`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tui_agent.mock_server.app import MockServer
from tui_agent.mock_server.faults import FaultSyntaxError, parse_fault
from tui_agent.mock_server.replies import Responder, ServedModel
from tui_agent.models.scenarios import FAULT_KINDS, ScenarioError, Scenarios, SimulatedFault, load_scenarios
from tui_agent.models.scripted import DEMO_FILE

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run_mock_server(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted. Return the exit code: 0, 1 if it can't start, 2 for wrong usage."""
    parser = mock_server_parser()
    options = parser.parse_args(argv)
    if options.noise is not None:
        return _serve_noise(options, parser)
    try:
        scenarios = load_scenarios(options.scenarios or DEMO_FILE)
    except ScenarioError as error:
        print(f"mock-llm-server: {error}", file=sys.stderr)
        return 2
    return serve_mock(options, scenarios)


def _serve_noise(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Serve a noisy model, which is part of the source tree but not of the installed package."""
    try:
        noise = importlib.import_module("benchmarks.noise.__main__")
    except ModuleNotFoundError:
        parser.error("--noise needs the source checkout: install tui-agent from it with `pip install -e .`")
    code: int = noise.serve_noise(options)
    return code


def serve_mock(options: argparse.Namespace, model: Scenarios | Responder) -> int:
    """Serve `model` until interrupted, with the options of `mock_server_parser`. Return 0, or 1 if it can't start."""
    server = MockServer(
        model,
        host=options.host,
        port=options.port,
        strict=options.strict,
        faults=options.fault,
        models=options.model,
        token=options.token,
        pace=options.pace,
        log=options.log,
        keep=100,
    )
    try:
        asyncio.run(_serve(server, options.host))
    except OSError as error:
        print(f"mock-llm-server: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


async def _serve(server: MockServer, host: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with server:
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, stop.set)
        if host not in LOOPBACK:
            print(f"mock-llm-server: {host} is reachable from other machines", file=sys.stderr)
        print(f"mock-llm-server listening on {server.url} ({len(server.scenarios.scenarios)} scenarios)", flush=True)
        await stop.wait()


def mock_server_parser() -> argparse.ArgumentParser:
    """The parser of `mock-llm-server`, built from arguments.json."""
    types: dict[str, Any] = {
        "int": int,
        "float": float,
        "path": Path,
        "fault": _fault_argument,
        "model": _model_argument,
    }
    table = json.loads(Path(__file__).with_name("arguments.json").read_bytes())
    parser = argparse.ArgumentParser(
        prog=table["prog"],
        description=table["description"],
        epilog="\n".join(table["epilog"]).format(kinds=", ".join(FAULT_KINDS)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, settings in table["options"].items():
        if "type" in settings:
            settings["type"] = types[settings["type"]]
        parser.add_argument(name, **settings)
    return parser


def _fault_argument(spec: str) -> SimulatedFault:
    try:
        return parse_fault(spec)
    except FaultSyntaxError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _model_argument(spec: str) -> ServedModel:
    name, equals, capabilities = spec.partition("=")
    if not name:
        raise argparse.ArgumentTypeError("a model needs a name")
    if not equals:
        return ServedModel(name=name)
    return ServedModel(name=name, capabilities=tuple(filter(None, capabilities.split(","))))


if __name__ == "__main__":
    sys.exit(run_mock_server())
