"""The command `mock-llm-server`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tui_agent.mock_server.app import MockServer
from tui_agent.mock_server.faults import FaultSyntaxError, parse_fault
from tui_agent.mock_server.noise import Noise, NoiseError, NoisyModel
from tui_agent.mock_server.noise_families import FAMILIES
from tui_agent.mock_server.replies import ServedModel
from tui_agent.models.scenarios import MISBEHAVIOURS, Misbehaviour, ScenarioError, Scenarios, load
from tui_agent.models.scripted import DEMO_FILE

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_FAMILY_LINES = "\n".join(f"  {family.name:14} {family.about}" for family in FAMILIES.values())
EPILOG = f"""\
faults: KIND or KIND:field=value,… with KIND one of {", ".join(MISBEHAVIOURS)};
fields: after (bytes of the body that arrive first), seconds, size, ping, status, body, retry_after,
times (requests that meet it; without it, all). Several are met one after the other.
  --fault 429:retry_after=2,times=1     refuse the first request, then behave
  --fault drop:after=300                reset the connection after 300 bytes

noise: with --noise 0.3 the model does its work, but three replies in ten are spoilt; the same one comes again until
the request tells the model what was wrong. What fails follows from --seed and the conversation. Families:
{_FAMILY_LINES}
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted. Returns the exit status: 0, 1 when it can't start, 2 for wrong usage."""
    options = _parser().parse_args(argv)
    try:
        server = MockServer(
            _answering(options),
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
    except (ScenarioError, NoiseError) as error:
        print(f"mock-llm-server: {error}", file=sys.stderr)
        return 2
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
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if host not in LOOPBACK:
            print(f"mock-llm-server: {host} can be reached from other machines", file=sys.stderr)
        print(
            f"mock-llm-server listens on {server.url} ({len(server.scenarios.scenarios)} scenarios)",
            flush=True,
        )
        await stop.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mock-llm-server",
        description="A model server that answers from a scenario file, on the paths of OpenAI and Ollama.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1: this machine only")
    parser.add_argument("--scenarios", type=Path, metavar="FILE", help="default: the shipped demonstration")
    parser.add_argument(
        "--fault", type=_fault, action="append", default=[], metavar="FAULT", help="misbehave; see below"
    )
    parser.add_argument("--noise", type=float, metavar="RATE", help="spoil this share of the replies, 0 to 1")
    parser.add_argument("--seed", type=int, default=0, help="which replies the noise spoils, default 0")
    parser.add_argument("--families", metavar="A,B,…", help="families of noise; default: all, see below")
    parser.add_argument("--strict", action="store_true", help="refuse what strict servers refuse")
    parser.add_argument(
        "--model",
        type=_model,
        action="append",
        metavar="NAME[=CAPABILITIES]",
        help="serve this model only (repeatable), such as coder:7b=completion,tools; default: any name",
    )
    parser.add_argument("--token", help="demand this bearer token")
    parser.add_argument("--pace", type=float, default=0.015, help="seconds between fragments, default 0.015")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append requests and replies as JSON lines")
    return parser


def _answering(options: argparse.Namespace) -> Scenarios | NoisyModel:
    scenarios = load(options.scenarios or DEMO_FILE)
    if options.noise is None:
        if options.families:
            raise NoiseError("--families needs --noise RATE")
        return scenarios
    families = tuple(filter(None, options.families.split(","))) if options.families else tuple(FAMILIES)
    return NoisyModel(scenarios, Noise(rate=options.noise, seed=options.seed, families=families))


def _fault(spec: str) -> Misbehaviour:
    try:
        return parse_fault(spec)
    except FaultSyntaxError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _model(spec: str) -> ServedModel:
    name, equals, capabilities = spec.partition("=")
    if not name:
        raise argparse.ArgumentTypeError("a model needs a name")
    if not equals:
        return ServedModel(name=name)
    return ServedModel(name=name, capabilities=tuple(filter(None, capabilities.split(","))))


if __name__ == "__main__":
    sys.exit(main())
