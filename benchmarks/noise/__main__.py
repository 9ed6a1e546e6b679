"""A model server with a noisy model: python -m benchmarks.noise --noise 0.3 [--seed N] [server options]."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.noise.families import FAMILIES
from benchmarks.noise.model import Noise, NoiseError, NoisyModel
from tui_agent.mock_server.__main__ import mock_server_parser, serve_mock
from tui_agent.models.scenarios import ScenarioError, load_scenarios
from tui_agent.models.scripted import DEMO_FILE

EPILOG = """\
With --noise 0.3 three replies in ten are corrupted; the same reply is repeated until the request tells the model
what was wrong. The faults depend on --seed and the conversation. Families:
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted. Returns the exit status: 0, 1 when it can't start, 2 for wrong usage."""
    parser = mock_server_parser()
    parser.prog = "python -m benchmarks.noise"
    parser.epilog = EPILOG + "\n".join(f"  {family.name:14} {family.about}" for family in FAMILIES.values())
    parser.set_defaults(noise=0.3)
    return serve_noise(parser.parse_args(argv))


def serve_noise(options: argparse.Namespace) -> int:
    """The same for parsed arguments (`mock-llm-server --noise`)."""
    families = tuple(filter(None, options.families.split(","))) if options.families else tuple(FAMILIES)
    try:
        noise = Noise(rate=options.noise, seed=options.seed, families=families)
        scenarios = load_scenarios(options.scenarios or DEMO_FILE)
    except (ScenarioError, NoiseError) as error:
        print(f"benchmarks.noise: {error}", file=sys.stderr)
        return 2
    return serve_mock(options, NoisyModel(scenarios, noise))


if __name__ == "__main__":
    sys.exit(main())
