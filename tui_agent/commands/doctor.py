"""`tui-agent doctor`: checks server, model, files, machine and terminal, and suggests fixes (M8)."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import __version__
from tui_agent.commands import calibration, doctor_files, probing, server_access
from tui_agent.commands.doctor_files import Finding, FindingList, State
from tui_agent.commands.output import INTERRUPTED, TextPage, cell_width
from tui_agent.commands.probing import Attempt, ProbeSetup
from tui_agent.commands.server_access import CommandConfig, ServerAccess, ServerUnavailable, probe_setup
from tui_agent.common import speed
from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.common.suggestions import did_you_mean
from tui_agent.engine.models.live_catalog import describe_models
from tui_agent.engine.models.protocol_fallback import InitialStrategy, initial_strategy
from tui_agent.engine.models.roles import MODEL_SIMILARITY
from tui_agent.models.base import first_model_advice
from tui_agent.models.catalog import ModelEntry, served_name
from tui_agent.models.discovery import is_loopback
from tui_agent.models.faults import WireFault
from tui_agent.models.local.engine import INSTALL, engine_installed, running_status
from tui_agent.models.local.library import find
from tui_agent.models.local.memory import Memory, read_memory
from tui_agent.models.selection import SMALL_WINDOW, select_session_model
from tui_agent.protocols.parser import Protocol
from tui_agent.text import file_size, pluralize

_METADATA_SECONDS = 30.0
"""Time limit for everything but model replies."""


def run_doctor(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Check everything, print the findings and return the exit code."""
    page = TextPage(sys.stderr if args.json else sys.stdout)
    try:
        findings = asyncio.run(_collect_findings(args, page))
    except KeyboardInterrupt:
        page.progress("")
        sys.stderr.write("Stopped.\n")
        return INTERRUPTED
    page.progress("")
    failed = any(finding.state == "bad" for finding in findings)
    if args.json:
        data = {"version": __version__, "ok": not failed, "findings": msgspec.to_builtins(findings)}
        sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=True) + "\n")
    else:
        print_findings(findings, page)
    return 1 if failed else 0


async def _collect_findings(args: argparse.Namespace, page: TextPage) -> list[Finding]:
    config = await asyncio.to_thread(server_access.load_config, args)
    findings = await _check_server(args, config, page)
    for check in (doctor_files.check_files, doctor_files.check_programs, doctor_files.check_languages):
        findings += await asyncio.to_thread(check, config)
    page.progress("")
    return findings + await asyncio.to_thread(doctor_files.check_terminal, config.workspace)


async def _check_server(args: argparse.Namespace, config: CommandConfig, page: TextPage) -> list[Finding]:
    try:
        access = server_access.access_server(config.loaded, args.scenarios, args.timeout)
    except ServerUnavailable as error:
        return [Finding(group="Server", name="address", state="bad", text=str(error))]
    inspection = ServerInspection(
        access, config, reply_seconds=args.timeout, probe=not args.no_probe, on_progress=page.progress
    )
    try:
        async with asyncio.timeout(_METADATA_SECONDS + 3 * args.timeout):
            await inspection.run()
    except TimeoutError:
        return [*inspection.findings, Finding(group="Server", name="time", state="bad", text="timed out")]
    finally:
        await access.aclose()
    return inspection.findings


def print_findings(findings: Sequence[Finding], page: TextPage) -> None:
    """Print the findings by group, with a summary."""
    page.line(f"tui-agent {__version__}", "bold")
    name_width = max(cell_width(finding.name) for finding in findings)
    for group, members in groupby(findings, key=lambda finding: finding.group):
        page.line()
        page.line(group, "bold")
        for finding in members:
            lead = f"  {page.state_symbol(finding.state)} {finding.name.ljust(name_width)}  "
            width = 2 + len(page.symbol("ok")) + 1 + name_width + 2
            page.hanging(lead, width, finding.text)
            if finding.advice:
                arrow = page.symbol("→")
                lead = " " * width + page.styled(arrow, "cyan") + " "
                page.hanging(lead, width + len(arrow) + 1, finding.advice, "cyan")
    page.line()
    page.line(_summary_line(findings), "bold")


def _summary_line(findings: Sequence[Finding]) -> str:
    problems = sum(finding.state == "bad" for finding in findings)
    warned = sum(finding.state == "warn" for finding in findings)
    warnings = pluralize(warned, "warning")
    if problems:
        text = pluralize(problems, "problem")
        return f"{text}, {warnings}." if warned else f"{text}."
    return f"Works, with {warnings}." if warned else "Everything is OK."


# --- the model server -----------------------------------------------------------------------

OLDEST_OLLAMA = (0, 9)
"""Older versions have no reasoning and send tool calls only at the end of a reply."""
_STRATEGY_NAMES: dict[Protocol, str] = {
    "native": "native calls",
    "json": "calls as JSON",
    "xml": "calls in text",
    "files": "whole files",
}
_MAX_HEADER = 256 << 20
"""Bytes by which a model's file may be larger than its weights."""
_TRUNCATED_SHARE = 0.6
"""If the server counts less than this share of the estimated prompt tokens, it has truncated the prompt."""


class ServerInspection:
    """Inspects one server. `findings` grows while `run` works; `on_progress` gets what it is doing."""

    def __init__(
        self,
        access: ServerAccess,
        config: CommandConfig,
        *,
        reply_seconds: float,
        probe: bool,
        on_progress: Callable[[str], None],
    ) -> None:
        self._access = access
        self._model = access.model
        self._config = config
        self._settings = config.loaded.settings
        self._reply_seconds = reply_seconds
        self._probe = probe
        self._on_progress = on_progress
        self._server = FindingList("Server")
        self._about = FindingList("Model")

    @property
    def findings(self) -> list[Finding]:
        """The findings so far."""
        return [*self._server, *self._about]

    async def run(self) -> None:
        """Inspect the server and the model that a session would use, as far as possible."""
        provider, address = self._model.provider, self._model.endpoint
        because = self._access.because
        if provider == "scripted":
            self._server.add("ok", "address", f"not needed: the scripted model answers ({because})")
        self._on_progress(f"asking {address} for its models …")
        served = await self._model.list_models()
        if isinstance(served, Fault):
            self._add_unavailable(served)
            if served.kind == "unreachable" or not self._settings.model:
                return
            served = ()
        elif provider != "scripted":
            self._server.add("ok", "address", f"{address} ({because})")
        for text in (self._access.caution, self._access.token_problem):
            if text:
                self._server.add("warn", "privacy", text)
        if provider == "ollama":
            await self._check_version()
        if provider == "local":
            self._check_engine()
        name = self._select_model(served, await describe_models(self._model, served))
        if name and provider == "local":
            await asyncio.to_thread(self._check_model_file, name)
        if name:
            await self._check_model(name)

    def _add_unavailable(self, fault: Fault) -> None:
        advice = fault.advice
        if self._model.provider == "ollama" and fault.kind == "unreachable" and "ollama" not in advice.lower():
            advice = f"{advice} Start it with `ollama serve`, or set its address: OLLAMA_HOST=host:port.".strip()
        tried = f"Tried {self._model.endpoint} ({self._access.because})."
        self._server.add("bad", "address", f"{fault.message} {tried}", advice)

    async def _get_metadata(self, path: str) -> dict[str, Any]:
        """The JSON object at `path`; {} if there is none."""
        if self._access.wire is None:
            return {}
        try:
            value = await self._access.wire.fetch_json("GET", path, None)
        except WireFault:
            return {}
        return value if isinstance(value, dict) else {}

    async def _check_version(self) -> None:
        version = str((await self._get_metadata("/api/version")).get("version") or "")[:40]
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if not numbers:
            self._server.add("warn", "version", "unknown version", "Is this an Ollama server?")
        elif numbers < OLDEST_OLLAMA and numbers != (0, 0):
            advice = "Update it: older versions delay tool calls and silently ignore options."
            self._server.add("warn", "version", f"Ollama {version} is old", advice)
        else:
            self._server.add("ok", "version", f"Ollama {version}")

    def _check_engine(self) -> None:
        """Report whether the local engine is installed."""
        if engine_installed():
            self._server.add("ok", "engine", "installed; it starts with the first message")
        else:
            self._server.add("bad", "engine", "not installed", f"Install it: {INSTALL}")
            self._probe = False

    def _check_model_file(self, name: str) -> None:
        """Report the file of a local model, and whether it is loaded now. Blocks."""
        if (file := find(name)) is None:
            return
        state = running_status(file.path)
        loaded = "not loaded now" if state is None else f"{state.phase}, with a window of {state.window:,} tokens"
        self._about.add("ok", "file", f"{file.path}, {file_size(file.size)}; {loaded}")

    def _select_model(self, served: tuple[str, ...], infos: Sequence[ModelInfo]) -> str:
        """The model that a session would use, or "" if it can't be used."""
        catalog, named, provider = self._config.catalog, self._settings.model or "", self._model.provider
        where = "this machine" if provider == "local" else "the server"
        chosen = select_session_model(
            catalog, infos, named=named, configured=self._config.catalog_read.catalog is not None
        )
        if chosen is None:
            advice = first_model_advice(provider, catalog.rules.default)
            self._about.add("bad", "name", f"{where} has {'only embedding' if served else 'no'} models", advice)
            return ""
        if chosen.missing:
            self._about.add("warn", "default", chosen.missing, "Fix selectionRules.default, or pull the model.")
        is_there = served_name(chosen.name, served) or provider == "scripted"
        if served and not is_there and not (provider == "local" and find(chosen.name)):
            available = ", ".join(served[:5]) + (" …" if len(served) > 5 else "")
            pull = f"`ollama pull {chosen.name}` gets it; " if provider == "ollama" else ""
            problem = f"{chosen.name} is not on {where}{did_you_mean(chosen.name, served, MODEL_SIMILARITY)}"
            self._about.add("bad", "name", problem, f"{pull}available: {available}")
            return ""
        count = f"one of {len(served)}" if len(served) > 1 else "the only one"
        text = f"{chosen.name}, {count} there" if served and is_there else chosen.name
        because = self._config.loaded.sources.get("model", chosen.because) if named else chosen.because
        self._about.add("ok", "name", f"{text} ({because})")
        return chosen.name

    async def _check_model(self, name: str) -> None:
        info = await self._model.describe(name)
        if isinstance(info, Fault):
            self._about.add("warn", "capabilities", info.message, info.advice)
            info = ModelInfo(name=name)
        elif info.capabilities is None:
            self._about.add("note", "capabilities", "the server does not report the model's capabilities")
        else:
            self._about.add("ok", "capabilities", ", ".join(info.capabilities) or "none reported")
        entry = self._config.catalog.entry(name)
        setup = probe_setup(info, self._access, self._config, self._reply_seconds)
        first = initial_strategy(info, entry.options.strategy, entry.calibration)
        self._add_strategy(first, entry)
        attempts = await self._probe_strategies(setup, info, first.strategy) if self._probe else []
        info = await self._check_window(name, setup.window, info, attempts)
        self._check_truncation(attempts)
        await self._check_memory(info, setup.window)

    # --- strategies ---

    def _add_strategy(self, first: InitialStrategy, entry: ModelEntry) -> None:
        """Report the strategy that a session starts with, and why."""
        scores = calibration.describe_scores(entry.calibration)
        text = f"{first.strategy}: {first.reason or 'the default'}{f'; measured: {scores}' if scores else ''}"
        measured = entry.options.strategy or entry.calibration.strategy or self._model.provider == "scripted"
        advice = "" if measured else "`tui-agent reliability --quick` measures which strategy fits the model best."
        self._about.add("ok", "strategy", text, advice)

    async def _probe_strategies(self, setup: ProbeSetup, info: ModelInfo, first: Protocol) -> list[Attempt]:
        """Probe each strategy once, and the first one again to see what the server caches.

        The others matter only if the first one fails; after whole files none is probed.
        """
        has_tools = info.capabilities is None or "tools" in info.capabilities
        if not has_tools and first != "native":
            text = f"the model has no native calls; using {_STRATEGY_NAMES[first]}"
            self._about.add("note", _STRATEGY_NAMES["native"], text)
        candidates: list[Protocol] = ["native", "json", "xml", "files"] if has_tools else ["json", "xml", "files"]
        attempts: dict[Protocol, Attempt] = {}
        works = False
        for strategy in dict.fromkeys([first, *candidates]):
            if works and "files" in (strategy, first):
                continue
            self._on_progress(f"asking {setup.name} for a small test task ({_STRATEGY_NAMES[strategy]}) …")
            attempt = attempts[strategy] = await self._probe_once(setup, strategy)
            works = works or attempt.kind == probing.VALID
            if attempt.kind in ("timeout", "unreachable"):
                break
            if strategy == first:
                await self._measure_speed(setup, strategy, attempt)
        for strategy, attempt in attempts.items():
            self._add_attempt(strategy, attempt, works)
        return list(attempts.values())

    async def _probe_once(self, setup: ProbeSetup, strategy: Protocol) -> Attempt:
        return await probing.probe(self._model, setup, probing.tasks_for(strategy)[0], strategy)

    async def _measure_speed(self, setup: ProbeSetup, strategy: Protocol, first: Attempt) -> None:
        """Repeat the request and report tokens per second and cached share, if the server counts them."""
        if not (first.usage.prompt_tokens and first.usage.completion_tokens):
            return
        self._on_progress(f"asking {setup.name} once more, to measure its speed …")
        second = await self._probe_once(setup, strategy)
        parts = calibration.describe_speed(*calibration.measured_speed([[first.usage, second.usage]]))
        if (rate := speed.prompt_rate(first.usage)) is not None:
            parts.insert(0, f"prompts read at {speed.format_rate(rate)}")
        if parts:
            self._about.add("ok", "speed", " · ".join(parts))

    def _add_attempt(self, strategy: Protocol, attempt: Attempt, any_works: bool) -> None:
        name = _STRATEGY_NAMES[strategy]
        if attempt.kind == probing.VALID:
            note = ", found in plain text" if attempt.recovered and strategy == "native" else ""
            self._about.add("note" if note else "ok", name, f"work{note} ({attempt.ms / 1000:.1f} s)")
            return
        text = f"{probing.FAILURE_KINDS.get(attempt.kind, attempt.kind)}: {attempt.detail}".rstrip(": ")
        if attempt.kind == "timeout":
            advice = "A model that is still loading may need longer: try --timeout 600, or a smaller model."
        elif any_works:
            advice = "The agent uses the form that works." if strategy != "native" else "Another form of calls works."
        else:
            advice = "No form of calls works: choose another model. `tui-agent reliability` has details."
        self._about.add("warn" if any_works else "bad", name, text, advice)

    # --- window and memory ---

    async def _check_window(self, name: str, requested: int, before: ModelInfo, attempts: list[Attempt]) -> ModelInfo:
        """Compare the window in effect with the requested one, and return the model as it is after the probes."""
        after = await self._model.describe(name)
        info = before if isinstance(after, Fault) else after
        loaded = info.loaded_window
        text = f"{requested:,} tokens"
        if info.context_window:
            text += f" of the model's {info.context_window:,}"
        if loaded:
            text += f"; {loaded:,} in effect" if loaded != requested else ", in effect"
        answered = any(attempt.kind == probing.VALID for attempt in attempts)
        if loaded and loaded < requested and answered:
            advice = (
                "The server provides a smaller window than requested, usually for lack of memory, and cuts longer "
                f'prompts. Set "num_ctx": {loaded} for {name} in models.json.'
            )
            self._about.add("warn", "window", text, advice)
        elif requested < SMALL_WINDOW and self._model.provider != "scripted":
            advice = "Raise context_window in the settings or in models.json, or choose a model with a larger one."
            self._about.add("warn", "window", f"{text}, which is small for coding work", advice)
        else:
            self._about.add("ok", "window", text)
        return info

    def _check_truncation(self, attempts: list[Attempt]) -> None:
        counted = next((attempt for attempt in attempts if attempt.usage.prompt_tokens and attempt.estimate), None)
        arrived = None if counted is None else speed.total_prompt_tokens(counted.usage)
        if counted is None or arrived is None:
            return
        text = f"{arrived:,} of about {counted.estimate:,} tokens arrived"
        if arrived < counted.estimate * _TRUNCATED_SHARE:
            advice = (
                "The server may truncate prompts: raise its context window. "
                "(A server that does not count cached tokens looks the same.)"
            )
            self._about.add("warn", "prompt", text, advice)
        else:
            self._about.add("ok", "prompt", text)

    async def _check_memory(self, info: ModelInfo, window: int) -> None:
        """Report what the model takes, which windows fit, and what to type if it could fit better (L4)."""
        from tui_agent.models.local.fit import memory_advice

        wire, provider = self._access.wire, self._model.provider
        if wire is None and provider != "local":
            return
        is_here = wire is None or is_loopback(wire.endpoint.base)  # not each server in the local network
        memory = await asyncio.to_thread(read_memory) if is_here else Memory()
        if is_here and info.size and info.cache_bytes is None and provider == "openai":
            info = await self._with_cache_size(info, info.size)
        advised = memory_advice(info, memory, provider, window)
        if not advised.facts:
            return
        state: State = "ok"
        if advised.is_short:
            state = "warn"
        elif info.loaded is False or info.graphics_memory == 0:
            state = "note"
        self._about.add(state, "memory", "; ".join(advised.facts), " ".join(advised.tips))

    async def _with_cache_size(self, info: ModelInfo, size: int) -> ModelInfo:
        """Add what the cache takes, from the model's file, if llama.cpp on this machine names it; `size` is that of the
        weights, which tells whether it is the same file."""
        from tui_agent.models.local.gguf import GgufError, read_gguf

        path = Path(str((await self._get_metadata("//props")).get("model_path") or ""))
        if not path.is_absolute():
            return info
        try:
            read = await asyncio.to_thread(read_gguf, path)
        except GgufError:
            return info
        is_same = 0 <= read.size - size <= _MAX_HEADER
        return msgspec.structs.replace(info, cache_bytes=read.cache_bytes) if is_same else info
