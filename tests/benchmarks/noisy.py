"""The agent on a noisy model (W16): `python -m tests.benchmarks.noisy [--runs 100] [--rate 0.3] [--provider ollama]`.

Exits with 1 when a target is missed: at 30 % all runs finish within 15 model calls, at 50 % 98 of 100 finish; none
claims a success that is none; 95 % of the runs that met a fault recover.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any, TypeAlias

from benchmarks.noise.families import FAMILIES
from benchmarks.noise.model import Noise, NoisyModel
from tests.benchmarks.noisy_blind import run_blindly
from tests.benchmarks.noisy_jobs import COMMAND, PASSED, Job, Outcome, job, scripted, sort_requests
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common import paths
from tui_agent.events import FileChanged, RunEnded, ToolFinished
from tui_agent.mock_server.app import MockServer
from tui_agent.mock_server.replies import ServedModel

SIDE_BY_SIDE = 4
LONGEST = 300.0
"""Seconds of one run, after which it counts as hung."""
MODEL = "mock-model"
CALLS = 15
TOLD = 15
"""Unfinished runs that are told of one by one."""
QUIET = {
    "timeouts.first_byte_local": 2.0,
    "timeouts.idle": 2.0,
    "timeouts.progress_local": 4.0,
    "approval_mode": "auto",
}
FORMS = ("native", "json", "xml")
"""How calls are asked for. Where it is not `native`, the server says that the model has no tools."""

Client: TypeAlias = Callable[[Job, Path, MockServer], Coroutine[Any, Any, Outcome]]


def agent(provider: str) -> Client:
    """The product's own engine, without a face, over HTTP."""

    async def run(one: Job, folder: Path, server: MockServer) -> Outcome:
        async with run_session(server, folder, provider=provider, attended=False, flags=QUIET) as session:
            watch = SessionDriver(session)
            try:
                async with asyncio.timeout(LONGEST):
                    await session.send(one.task)
                    ended = await watch.ended()
            except TimeoutError:
                ended = RunEnded(outcome="failed", text="hung")
        return await asyncio.to_thread(_judged, one, folder, watch, ended)

    return run


def _judged(one: Job, folder: Path, watch: SessionDriver, ended: RunEnded) -> Outcome:
    written = [place for place, record in enumerate(watch.records) if isinstance(record.event, FileChanged)]
    tested = [
        place
        for place, record in enumerate(watch.records)
        if isinstance(record.event, ToolFinished) and record.event.result.success and PASSED in record.event.text
    ]
    return Outcome(
        job=one,
        ended=ended.outcome,
        said=one.report in ended.text,
        right=one.right(folder),
        writes=len(written),
        tested=bool(written and tested) and max(tested) > max(written),
        why=ended.text,
    )


async def blind(one: Job, folder: Path, server: MockServer) -> Outcome:
    """The client that only asks again."""
    return await run_blindly(one, folder, server.url)


async def measure(
    client: Client, folder: Path, *, runs: int, noise: Noise, form: str = "native", first: int = 0
) -> list[Outcome]:
    """So many tasks on one noisy server, a few at a time."""
    jobs = [job(number) for number in range(first, first + runs)]
    slots = asyncio.Semaphore(SIDE_BY_SIDE)
    abilities = ("completion", "tools", "thinking") if form == "native" else ("completion",)
    served = ServedModel(name=MODEL, capabilities=abilities)
    if form == "xml":
        _ask_for(form)
    async with MockServer(NoisyModel(scripted(jobs), noise), strict=True, models=[served]) as server:

        async def one(job: Job) -> Outcome:
            async with slots:
                return await client(job, job.set_up(folder / str(job.number)), server)

        outcomes = await asyncio.gather(*map(one, jobs))
        sort_requests(outcomes, server.requests)
    return outcomes


def _ask_for(form: str) -> None:
    """Without a word from the user the agent takes JSON; models.json can say otherwise."""
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    entry = {"models": {MODEL: {"options": {"protocol": form}}}}
    paths.models_file().write_text(json.dumps(entry), encoding="utf-8")


def table(outcomes: list[Outcome]) -> str:
    """By family: the runs that met it and what became of them."""
    head = f"{'family':15}{'runs':>6}{'finished':>10}{'false':>7}{'calls':>8}{'most':>6}{'tokens':>9}"
    lines = [head, "-" * len(head)]
    for name in (*FAMILIES, "(no fault)", "(a fault)", "(all)"):
        chosen = [one for one in outcomes if _belongs(one, name)]
        if chosen:
            calls = [len(one.requests) for one in chosen]
            lines.append(
                f"{name:15}{len(chosen):6}{_share(chosen):>10}{sum(one.false_success for one in chosen):7}"
                f"{mean(calls):8.1f}{max(calls):6}{mean(one.prompt_tokens for one in chosen):9,.0f}"
            )
    return "\n".join(lines)


def _belongs(one: Outcome, name: str) -> bool:
    match name:
        case "(all)":
            return True
        case "(no fault)":
            return not one.families
        case "(a fault)":
            return bool(one.families)
        case _:
            return name in one.families


def _share(chosen: list[Outcome]) -> str:
    finished = sum(one.finished for one in chosen)
    return f"{finished} {100 * finished // len(chosen):3}%"


def missed(outcomes: list[Outcome], rate: float) -> list[str]:
    """The targets that are not met, in words."""
    finished = [one for one in outcomes if one.finished]
    wanted = 1.0 if rate <= 0.3 else 0.98
    faults = []
    if len(finished) < wanted * len(outcomes):
        faults.append(f"{len(finished)} of {len(outcomes)} finished, wanted {wanted:.0%}")
    if rate <= 0.3 and (long := sum(len(one.requests) > CALLS for one in finished)):
        faults.append(f"{long} needed more than {CALLS} model calls")
    if false := sum(one.false_success for one in outcomes):
        faults.append(f"{false} false successes")
    met = [one for one in outcomes if one.families]
    if met and sum(one.finished for one in met) < 0.95 * len(met):
        faults.append(f"only {_share(met)} of the runs with a fault recovered")
    return faults


def told(outcomes: list[Outcome]) -> str:
    """The first runs that did not finish, a line each."""
    lines = []
    for one in outcomes:
        if not one.finished:
            marks = f"right={one.right} writes={one.writes} tested={one.tested} said={one.said}"
            met = ",".join(request.noise or "·" for request in one.requests)
            lines.append(f"  task {one.job.number}: {one.ended}, {marks}; met {met}; «{one.why[:160]}»")
    return "\n".join(lines[:TOLD])


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.noisy", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rate", type=float, action="append", help="default 0.3 and 0.5; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", help="a,b,… default: all")
    parser.add_argument("--provider", choices=("openai", "ollama"), default="openai")
    parser.add_argument("--form", choices=FORMS, default="native", help="how calls are asked for")
    parser.add_argument("--blind", action="store_true", help="also the client that tells the model nothing")
    options = parser.parse_args()
    families = tuple(options.families.split(",")) if options.families else tuple(FAMILIES)
    bad = False
    for rate in options.rate or (0.3, 0.5):
        noise = Noise(rate=rate, seed=options.seed, families=families)
        clients = {f"tui-agent, {options.provider}, {options.form}": agent(options.provider)}
        if options.blind:
            clients["blind client"] = blind
        for name, client in clients.items():
            outcomes, seconds = asyncio.run(_timed(client, options, noise))
            print(f"\n{name}, {rate:.0%} noise, {options.runs} runs in {seconds:.0f} s, command {COMMAND}\n")
            print(table(outcomes))
            print(told(outcomes) if client is not blind else "")
            if client is not blind and (faults := missed(outcomes, rate)):
                bad = True
                print("MISSED: " + "; ".join(faults))
            sys.stdout.flush()
    return 1 if bad else 0


async def _timed(client: Client, options: argparse.Namespace, noise: Noise) -> tuple[list[Outcome], float]:
    began = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUI_AGENT_HOME"] = str(Path(folder) / "home")
        outcomes = await measure(client, Path(folder) / "work", runs=options.runs, noise=noise, form=options.form)
    return outcomes, perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
