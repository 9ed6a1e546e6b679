"""`tui-agent doctor`: checks server, model, files, machine and terminal, and suggests fixes (M8)."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from tui_agent import __version__
from tui_agent.commands import calibration, doctor_files, probing, reaching
from tui_agent.commands.doctor_files import Finding, FindingList
from tui_agent.commands.output import TextPage, bytes_shown, cells_wide
from tui_agent.commands.probing import Attempt, ProbeSetup
from tui_agent.commands.reaching import Configured, NoServer, Reached, probe_setup
from tui_agent.common import speed
from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.engine.models.live_catalog import described
from tui_agent.engine.models.protocol_fallback import InitialStrategy, initial_strategy
from tui_agent.engine.models.roles import SMALL_WINDOW
from tui_agent.models.catalog import ModelEntry, served_name
from tui_agent.models.faults import WireFault
from tui_agent.models.selection import select_session_model
from tui_agent.protocols.parser import Protocol
from tui_agent.text import count_of

_OTHER = 30.0
"""Seconds for everything but replies of the model."""


def run_doctor(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Check everything and print the findings; returns the exit code."""
    page = TextPage(sys.stderr if args.json else sys.stdout)
    try:
        found = asyncio.run(_found(args, page))
    except KeyboardInterrupt:
        page.progress("")
        sys.stderr.write("Stopped.\n")
        return 130
    page.progress("")
    bad = any(one.state == "bad" for one in found)
    if args.json:
        whole = {"version": __version__, "ok": not bad, "findings": msgspec.to_builtins(found)}
        sys.stdout.write(json.dumps(whole, indent=1, ensure_ascii=True) + "\n")
    else:
        print_findings(found, page)
    return 1 if bad else 0


async def _found(args: argparse.Namespace, page: TextPage) -> list[Finding]:
    files = await asyncio.to_thread(reaching.configured, args)
    found = await _server(args, files, page)
    found += await asyncio.to_thread(doctor_files.check_files, files)
    found += await asyncio.to_thread(doctor_files.check_programs, files)
    found += await asyncio.to_thread(doctor_files.check_languages, files)
    page.progress("")
    return found + await asyncio.to_thread(doctor_files.check_terminal, files.workspace)


async def _server(args: argparse.Namespace, files: reaching.Configured, page: TextPage) -> list[Finding]:
    try:
        way = reaching.reach(files.loaded, args.scenarios, args.timeout)
    except NoServer as error:
        return [Finding(group="Server", name="address", state="bad", text=str(error))]
    look = ServerLook(way, files, seconds=args.timeout, probe=not args.no_probe, tell=page.progress)
    try:
        async with asyncio.timeout(_OTHER + 3 * args.timeout):
            await look.look()
    except TimeoutError:
        text = "timed out"
        return [*look.found, Finding(group="Server", name="time", state="bad", text=text)]
    finally:
        await reaching.close(way)
    return look.found


def print_findings(found: Sequence[Finding], page: TextPage) -> None:
    """The findings as a page for people."""
    page.line(f"tui-agent {__version__}", "bold")
    wide = max(cells_wide(one.name) for one in found)
    for group, ones in groupby(found, key=lambda one: one.group):
        page.line()
        page.line(group, "bold")
        for one in ones:
            sign = page.state(one.state)
            lead = f"  {sign} {one.name.ljust(wide)}  "
            width = 2 + len(page.sign("ok")) + 1 + wide + 2
            page.pair(lead, width, one.text)
            if one.advice:
                arrow = page.sign("→")
                page.pair(" " * width + page.styled(arrow, "cyan") + " ", width + len(arrow) + 1, one.advice, "cyan")
    page.line()
    page.line(_verdict(found), "bold")


def _verdict(found: Sequence[Finding]) -> str:
    bad = sum(one.state == "bad" for one in found)
    warned = sum(one.state == "warn" for one in found)
    better = count_of(warned, "warning")
    if bad:
        text = count_of(bad, "problem")
        return f"{text}, {better}." if warned else f"{text}."
    return f"Works, with {better}." if warned else "Everything is OK."


# --- the model server -----------------------------------------------------------------------

OLDEST = (0, 9)
"""Ollama before this knows no thinking and sends tool calls only at the end of a reply."""
_NAMES: dict[Protocol, str] = {
    "native": "native calls",
    "json": "calls as JSON",
    "xml": "calls in text",
    "files": "whole files",
}
_CUT = 0.6
"""A count of prompt tokens below this share of the estimate means that a part did not reach the model."""


class ServerLook:
    """Looks at one server. `found` grows as it goes; `tell` hears what is happening now."""

    def __init__(
        self, way: Reached, files: Configured, *, seconds: float, probe: bool, tell: Callable[[str], None]
    ) -> None:
        self._way = way
        self._model = way.model
        self._files = files
        self._settings = files.loaded.settings
        self._seconds = seconds
        self._probe = probe
        self._tell = tell
        self._server = FindingList("Server")
        self._about = FindingList("Model")

    @property
    def found(self) -> list[Finding]:
        """All that was found so far."""
        return [*self._server.found, *self._about.found]

    async def look(self) -> None:
        """Look at everything, as far as the server lets us."""
        provider, endpoint = self._model.provider, self._model.endpoint
        if provider == "scripted":
            self._server.add("ok", "address", f"not needed: the scripted model answers ({self._way.because})")
        self._tell(f"asking {endpoint} for its models …")
        served = await self._model.list_models()
        if isinstance(served, Fault):
            self._unreachable(served)
            if served.kind == "unreachable" or not self._settings.model:
                return
            served = ()
        elif provider != "scripted":
            self._server.add("ok", "address", f"{endpoint} ({self._way.because})")
        for text in (self._way.caution, self._way.token_problem):
            if text:
                self._server.add("warn", "privacy", text)
        if provider == "ollama":
            await self._version()
        name = self._named(served, await described(self._model, served))
        if name:
            await self._look_at(name)

    def _unreachable(self, fault: Fault) -> None:
        advice = fault.advice
        if self._model.provider == "ollama" and fault.kind == "unreachable" and "ollama" not in advice.lower():
            advice = f"{advice} Start it with `ollama serve`, or set its address: OLLAMA_HOST=host:port.".strip()
        tried = f"Tried {self._model.endpoint} ({self._way.because})."
        self._server.add("bad", "address", f"{fault.message} {tried}", advice)

    async def _side(self, method: str, path: str, payload: Any = None) -> dict[str, Any]:
        """The answer to a side request; nothing when there is none."""
        if self._way.wire is None:
            return {}
        try:
            value = await self._way.wire.ask(method, path, payload)
        except WireFault:
            return {}
        return value if isinstance(value, dict) else {}

    async def _version(self) -> None:
        version = str((await self._side("GET", "/api/version")).get("version") or "")[:40]
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if not numbers:
            self._server.add("warn", "version", "unknown version", "Is this an Ollama server?")
        elif numbers < OLDEST and numbers != (0, 0):
            advice = "Update it: older versions delay tool calls and silently ignore options."
            self._server.add("warn", "version", f"Ollama {version} is old", advice)
        else:
            self._server.add("ok", "version", f"Ollama {version}")

    def _named(self, served: tuple[str, ...], infos: Sequence[ModelInfo]) -> str:
        """The model that a session would use; empty when there is none."""
        catalog, named = self._files.catalog, self._settings.model or ""
        ollama = self._model.provider == "ollama"
        count = f"one of {len(served)}" if len(served) > 1 else "the only one"
        chosen = select_session_model(
            catalog, infos, named=named, configured=self._files.catalog_read.catalog is not None
        )
        if chosen is None:
            pull = f"`ollama pull {catalog.rules.default or 'qwen2.5-coder:7b'}` gets one." if ollama else ""
            what = "the server has only embedding models" if served else "the server has no models"
            self._about.add("bad", "name", what, pull or "Load a model there.")
            return ""
        if chosen.missing:
            self._about.add("warn", "default", chosen.missing, "Fix selectionRules.default, or pull the model.")
        if served and not served_name(chosen.name, served) and self._model.provider != "scripted":
            some = ", ".join(served[:5]) + (" …" if len(served) > 5 else "")
            advice = f"`ollama pull {chosen.name}` gets it; " if ollama else ""
            self._about.add("bad", "name", f"{chosen.name} is not on the server", f"{advice}available: {some}".strip())
            return ""
        text = f"{chosen.name}, {count} there" if served else chosen.name
        because = self._files.loaded.sources.get("model", chosen.because) if named else chosen.because
        self._about.add("ok", "name", f"{text} ({because})")
        return chosen.name

    async def _look_at(self, name: str) -> None:
        info = await self._model.describe(name)
        if isinstance(info, Fault):
            self._about.add("warn", "capabilities", info.message, info.advice)
            info = ModelInfo(name=name)
        elif info.capabilities is None:
            self._about.add("note", "capabilities", "the server does not report the model's capabilities")
        else:
            self._about.add("ok", "capabilities", ", ".join(info.capabilities) or "none reported")
        entry = self._files.catalog.entry(name)
        setup = probe_setup(info, self._way, self._files, self._seconds)
        first = initial_strategy(info, entry.options.strategy, entry.calibration)
        self._strategy(first, entry)
        attempts = await self._replies(setup, info, first.strategy) if self._probe else []
        await self._window(name, setup.window, info, attempts)
        if self._model.provider == "ollama":
            await self._memory(name)

    # --- how it is asked ---

    def _strategy(self, first: InitialStrategy, entry: ModelEntry) -> None:
        """The strategy of a session's first request, and why that one."""
        why = first.why or "the default"
        scores = calibration.describe_scores(entry.calibration)
        told = f"{first.strategy}: {why}{f'; measured: {scores}' if scores else ''}"
        measured = entry.options.strategy or entry.calibration.strategy or self._model.provider == "scripted"
        advice = "" if measured else "`tui-agent reliability --quick` measures which strategy fits the model best."
        self._about.add("ok", "strategy", told, advice)

    async def _replies(self, setup: ProbeSetup, info: ModelInfo, first: Protocol) -> list[Attempt]:
        """One probe a strategy, the first one's twice, since only then it can be told what the server keeps. The others
        matter only when that one fails; where it is whole files, no others are tried."""
        attempts: list[Attempt] = []
        able = info.capabilities is None or "tools" in info.capabilities
        if not able and first != "native":
            text = f"the model has no native calls; using {_NAMES[first]}"
            self._about.add("note", _NAMES["native"], text)
        usual: list[Protocol] = ["native", "json", "xml", "files"] if able else ["json", "xml", "files"]
        outcome: dict[Protocol, Attempt] = {}
        works = False
        for strategy in dict.fromkeys([first, *usual]):
            if works and "files" in (strategy, first):
                continue
            self._tell(f"asking {setup.name} for a small test task ({_NAMES[strategy]}) …")
            done = await probing.probe(self._model, setup, probing.tasks_for(strategy)[0], strategy)
            attempts.append(done)
            outcome[strategy] = done
            works = works or done.kind == probing.VALID
            if done.kind in ("timeout", "unreachable"):
                break
            if strategy == first:
                await self._speed(setup, strategy, done)
        for strategy, done in outcome.items():
            self._tell_call(strategy, done, works)
        return attempts

    async def _speed(self, setup: ProbeSetup, strategy: Protocol, before: Attempt) -> None:
        """Tokens per second and cached share, by the same request once more, where the server counts them."""
        if not (before.usage.prompt_tokens and before.usage.completion_tokens):
            return
        self._tell(f"asking {setup.name} once more, to measure its speed …")
        again = await probing.probe(self._model, setup, probing.tasks_for(strategy)[0], strategy)
        words = calibration.describe_speed(*calibration.measured_speed([[before.usage, again.usage]]))
        if (rate := speed.prompt_rate(before.usage)) is not None:
            words.insert(0, f"prompts read at {speed.format_rate(rate)}")
        if words:
            self._about.add("ok", "speed", " · ".join(words))

    def _tell_call(self, protocol: Protocol, done: Attempt, any_works: bool) -> None:
        name, seconds = _NAMES[protocol], f"{done.ms / 1000:.1f} s"
        if done.kind == probing.VALID:
            note = ", found in plain text" if done.recovered and protocol == "native" else ""
            self._about.add("note" if note else "ok", name, f"work{note} ({seconds})")
            return
        text = f"{probing.KINDS.get(done.kind, done.kind)}: {done.detail}".rstrip(": ")
        if done.kind == "timeout":
            advice = "A model that is still loading may need longer: try --timeout 600, or a smaller model."
        elif any_works:
            advice = "The agent uses the form that works." if protocol != "native" else "Another form of calls works."
        else:
            advice = "No form of calls works: choose another model. `tui-agent reliability` has details."
        self._about.add("warn" if any_works else "bad", name, text, advice)

    # --- window and memory ---

    async def _window(self, name: str, wanted: int, before: ModelInfo, attempts: list[Attempt]) -> None:
        after = await self._model.describe(name)
        info = before if isinstance(after, Fault) else after
        text = f"{wanted:,} tokens"
        if info.context_window:
            text += f" of the model's {info.context_window:,}"
        if info.loaded_window:
            text += f"; {info.loaded_window:,} in effect" if info.loaded_window != wanted else ", in effect"
        answered = any(attempt.kind == probing.VALID for attempt in attempts)
        if info.loaded_window and info.loaded_window < wanted and answered:
            advice = (
                "The server provides a smaller window than requested, usually for lack of memory, and cuts longer "
                f'prompts. Set "num_ctx": {info.loaded_window} for {name} in models.json.'
            )
            self._about.add("warn", "window", text, advice)
        elif wanted < SMALL_WINDOW and self._model.provider != "scripted":
            advice = "Raise context_window in the settings or in models.json, or choose a model with a larger one."
            self._about.add("warn", "window", f"{text}, which is small for coding work", advice)
        else:
            self._about.add("ok", "window", text)
        self._truncation(attempts)

    def _truncation(self, attempts: list[Attempt]) -> None:
        counted = next((one for one in attempts if one.usage.prompt_tokens and one.estimate), None)
        arrived = None if counted is None else speed.prompt_tokens_in_all(counted.usage)
        if counted is None or arrived is None:
            return
        text = f"{arrived:,} of about {counted.estimate:,} tokens arrived"
        if arrived < counted.estimate * _CUT:
            advice = (
                "The server may truncate prompts: raise its context window. "
                "(A server that does not count cached tokens looks the same.)"
            )
            self._about.add("warn", "prompt", text, advice)
        else:
            self._about.add("ok", "prompt", text)

    async def _memory(self, name: str) -> None:
        models = (await self._side("GET", "/api/ps")).get("models")
        listed = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
        served = {str(one.get("name") or one.get("model")): one for one in listed}
        entry = served.get(served_name(name, tuple(served)))
        if entry is None:
            self._about.add("note", "memory", "the model is not loaded; the first message has to wait for it")
            return
        size, fast = entry.get("size"), entry.get("size_vram")
        if not isinstance(size, int) or not isinstance(fast, int) or size <= 0:
            return
        text = f"{bytes_shown(size)} loaded"
        if fast >= size:
            self._about.add("ok", "memory", f"{text}, all of it on the graphics card")
        elif fast > 0:
            advice = "That is slow. A smaller window or model would fit completely."
            self._about.add("warn", "memory", f"{text}, {fast * 100 // size}% of it on the graphics card", advice)
        else:
            self._about.add("note", "memory", f"{text}, none of it on a graphics card: expect it to be slow")
