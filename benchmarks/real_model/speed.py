"""Start, memory and speed of the local engine and of llama.cpp's server, on the same weights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.real_model.serving import WINDOW, model_server
from benchmarks.real_model.weights import WEIGHTS
from tui_agent.common.domain import Usage, UserMessage
from tui_agent.models.base import Failed, Model, ModelRequest, UsageReport
from tui_agent.models.connect import connect
from tui_agent.models.local import engine

PROMPT = "\n".join(f"{number} times {number} is {number * number}." for number in range(60)) + "\nContinue the list."
WRITTEN = 96
"""Tokens of each reply."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a server, and two requests to it."""

    start: float
    """Seconds from the start of the process until it answers."""
    memory: int
    """Bytes of resident memory after the requests, of all its processes."""
    read: float
    """Prompt tokens per second, nothing of them cached."""
    written: float
    """Tokens per second."""
    cached: float
    """Cached share of the second prompt, which continues the first, from 0 to 1."""


def table(measurements: Mapping[str, Sequence[Measurement]]) -> str:
    """The medians as Markdown."""
    lines = ["| server | start, s | memory, GB | read, tokens/s | written, tokens/s | second prompt cached |"]
    lines.append("| --- | --: | --: | --: | --: | --: |")
    for name, found in measurements.items():
        values = [median(getattr(each, field) for each in found) for field in Measurement.__struct_fields__]
        start, memory, read, written, cached = values
        lines.append(f"| {name} | {start:.1f} | {memory / 1e9:.2f} | {read:.0f} | {written:.1f} | {cached:.0%} |")
    return "\n".join(lines)


def measure(folder: Path, port: int, repeats: int) -> dict[str, list[Measurement]]:
    """Measure both, alternately. Raises ModelUnavailable."""
    found: dict[str, list[Measurement]] = {"local engine": [], "llama.cpp's server": []}
    for _ in range(repeats):
        found["local engine"].append(asyncio.run(_measure_engine(folder / WEIGHTS)))
        started = time.monotonic()
        with model_server(folder, port) as address:
            ready = time.monotonic() - started
            model = connect("openai", address, "")
            found["llama.cpp's server"].append(asyncio.run(_measure(model, WEIGHTS, ready, "llama_server.py")))
    return found


async def _measure_engine(weights: Path) -> Measurement:
    started = time.monotonic()
    use, _ = await engine.use_engine(
        engine.EnginePlan(model=weights, name=weights.stem, window=WINDOW, slots=1, cache_mib=1024)
    )
    ready = time.monotonic() - started
    try:
        return await _measure(connect("local", ""), str(weights), ready, str(use.folder))
    finally:
        use.release()
        await engine.ended(use)


async def _measure(model: Model, name: str, start: float, argument: str) -> Measurement:
    try:
        first, second = await _ask(model, name, PROMPT), await _ask(model, name, PROMPT + " Go on.")
    finally:
        memory = _memory_of(argument)
        await model.aclose()
    prompt, cached = second.prompt_tokens or 1, second.cached_tokens or 0
    return Measurement(
        start=start,
        memory=memory,
        read=((first.prompt_tokens or 0) - (first.cached_tokens or 0)) / (first.prompt_ms or 1) * 1000,
        written=(first.completion_tokens or 0) / (first.generate_ms or 1) * 1000,
        cached=cached / prompt,
    )


async def _ask(model: Model, name: str, text: str) -> Usage:
    request = ModelRequest(
        model=name, messages=(UserMessage(text=text),), num_ctx=WINDOW, max_tokens=WRITTEN, temperature=0.0
    )
    usage = Usage()
    async for part in model.stream(request):
        if isinstance(part, Failed):
            raise RuntimeError(part.fault.full_message)
        if isinstance(part, UsageReport):
            usage = part.usage
    return usage


def _memory_of(argument: str) -> int:
    """Return the resident memory, in bytes, of the processes with this text in an argument."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if any(argument.encode() in part for part in (entry / "cmdline").read_bytes().split(b"\0")):
                    fields = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
                    total += int(fields.get("VmRSS", "0 kB").split()[0]) * 1024
            except OSError:
                continue
    return total
