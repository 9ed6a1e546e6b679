"""Doctor's look at the model server: there, the model there, its window and memory, how it is asked, how fast it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tui_agent import speed
from tui_agent.commands import calibrating, probing
from tui_agent.commands.findings import Finding, Findings
from tui_agent.commands.page import bytes_shown
from tui_agent.commands.probing import Attempt, Setup
from tui_agent.commands.reaching import Configured, Reached
from tui_agent.domain import Fault, ModelInfo
from tui_agent.engine.ladder import Start, start
from tui_agent.engine.live_catalog import described
from tui_agent.engine.roles import SMALL_WINDOW, window_for
from tui_agent.models.catalog import ModelEntry, served_name
from tui_agent.models.faults import WireFault
from tui_agent.models.selection import sampling, select_default
from tui_agent.protocols.parser import Protocol

OLDEST = (0, 9)
"""Ollama before this knows no thinking and sends tool calls only at the end of a reply."""
_NAMES: dict[Protocol, str] = {
    "native": "native calls",
    "json": "calls as JSON",
    "xml": "calls in text",
    "files": "whole files",
}
_CUT = 0.6
"""A count of prompt tokens below this share of the estimate means that a part did not reach the model (R1.3)."""


class ServerLook:
    """Looks at one server. `found` grows as it goes; `tell` hears what goes on just now."""

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
        self._server = Findings("Server")
        self._about = Findings("Model")

    @property
    def found(self) -> list[Finding]:
        """All that was found so far."""
        return [*self._server.found, *self._about.found]

    async def look(self) -> None:
        """Look at everything, as far as the server lets us."""
        provider, endpoint = self._model.provider, self._model.endpoint
        if provider == "scripted":
            self._server.add(
                "ok", "address", f"none needed: the scripted model answers ({self._way.because})"
            )
        self._tell(f"asking {endpoint} for its models …")
        served = await self._model.list_models()
        if isinstance(served, Fault):
            self._unreachable(served)
            if served.kind == "unreachable" or not self._settings.model:
                return
            served = ()
        elif provider != "scripted":
            self._server.add("ok", "address", f"{endpoint}, because of {self._way.because}")
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
        if (
            self._model.provider == "ollama"
            and fault.kind == "unreachable"
            and "ollama" not in advice.lower()
        ):
            advice = (
                f"{advice} Start it with `ollama serve`, or say where it is: OLLAMA_HOST=host:port.".strip()
            )
        tried = f"Tried {self._model.endpoint}, because of {self._way.because}."
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
            self._server.add("warn", "version", "it does not say which", "Is this really an Ollama server?")
        elif numbers < OLDEST and numbers != (0, 0):
            advice = "Update it: older ones hold calls back, and ignore options without a word."
            self._server.add("warn", "version", f"Ollama {version} is old", advice)
        else:
            self._server.add("ok", "version", f"Ollama {version}")

    def _named(self, served: tuple[str, ...], infos: Sequence[ModelInfo]) -> str:
        """The model that a session would use; empty when there is none."""
        catalog, named = self._files.catalog, self._settings.model or ""
        ollama = self._model.provider == "ollama"
        count = f"one of {len(served)}" if len(served) > 1 else "the only one"
        chosen = select_default(
            catalog, infos, named=named, configured=self._files.catalog_read.catalog is not None
        )
        if chosen is None:
            pull = f"`ollama pull {catalog.rules.default or 'qwen2.5-coder:7b'}` gets one." if ollama else ""
            what = "the server has only models that make embeddings" if served else "the server has no models"
            self._about.add("bad", "name", what, pull or "Load one there.")
            return ""
        if chosen.missing:
            self._about.add(
                "warn", "default", chosen.missing, "Correct selectionRules.default, or pull the model."
            )
        if served and not served_name(chosen.name, served) and self._model.provider != "scripted":
            some = ", ".join(served[:5]) + (" …" if len(served) > 5 else "")
            advice = f"`ollama pull {chosen.name}` gets it; " if ollama else ""
            self._about.add(
                "bad", "name", f"{chosen.name} is not on the server", f"{advice}there are: {some}".strip()
            )
            return ""
        text = f"{chosen.name}, {count} there" if served else chosen.name
        because = self._files.loaded.sources.get("model", chosen.because) if named else chosen.because
        self._about.add("ok", "name", f"{text} ({because})")
        return chosen.name

    async def _look_at(self, name: str) -> None:
        info = await self._model.describe(name)
        if isinstance(info, Fault):
            self._about.add("warn", "abilities", info.message, info.advice)
            info = ModelInfo(name=name)
        elif info.capabilities is None:
            self._about.add("note", "abilities", "the server does not say what it can")
        else:
            self._about.add("ok", "abilities", ", ".join(info.capabilities) or "none named")
        entry = self._files.catalog.entry(name)
        window = window_for(info, self._settings.context_window or entry.window, self._model.provider)
        thinks = "thinking" in (info.capabilities or ())
        setup = Setup(
            name=name,
            window=window,
            seconds=self._seconds,
            prompt=entry.prompt,
            sampling=sampling(
                "execution",
                entry,
                thinks=thinks,
                window=window,
                temperature=self._settings.temperature,
                reply_tokens=self._settings.caps.reply_tokens,
                keep_alive=self._settings.keep_alive,
            ),
        )
        first = start(info, entry.options.strategy, entry.calibration)
        self._strategy(first, entry)
        attempts = await self._replies(setup, info, first.strategy) if self._probe else []
        await self._window(name, window, info, attempts)
        if self._model.provider == "ollama":
            await self._memory(name)

    # --- how it is asked ---

    def _strategy(self, first: Start, entry: ModelEntry) -> None:
        """The strategy of a session's first request, and why that one."""
        why = first.why or "nothing speaks for another one"
        scores = calibrating.score_words(entry.calibration)
        told = f"{first.strategy}: {why}{f'; measured: {scores}' if scores else ''}"
        measured = entry.options.strategy or entry.calibration.strategy or self._model.provider == "scripted"
        advice = "" if measured else "`tui-agent reliability --quick` measures which one fits the model best."
        self._about.add("ok", "strategy", told, advice)

    async def _replies(self, setup: Setup, info: ModelInfo, first: Protocol) -> list[Attempt]:
        """One probe a strategy, the first one's twice, since only then it can be told what the server keeps. The others
        matter only when that one fails; where it is whole files, no others are tried."""
        attempts: list[Attempt] = []
        able = info.capabilities is None or "tools" in info.capabilities
        if not able and first != "native":
            text = f"the model has none of its own, so it is asked for {_NAMES[first]}"
            self._about.add("note", _NAMES["native"], text)
        usual: list[Protocol] = ["native", "json", "xml", "files"] if able else ["json", "xml", "files"]
        outcome: dict[Protocol, Attempt] = {}
        works = False
        for strategy in dict.fromkeys([first, *usual]):
            if works and "files" in (strategy, first):
                continue
            self._tell(f"asking {setup.name} for a small task ({_NAMES[strategy]}) …")
            done = await probing.attempt(self._model, setup, probing.tasks_for(strategy)[0], strategy)
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

    async def _speed(self, setup: Setup, strategy: Protocol, before: Attempt) -> None:
        """Tokens per second and cached share, by the same request once more, where the server counts them."""
        if not (before.usage.prompt_tokens and before.usage.completion_tokens):
            return
        self._tell(f"asking {setup.name} once more, for its speed …")
        again = await probing.attempt(self._model, setup, probing.tasks_for(strategy)[0], strategy)
        words = calibrating.pace_words(*calibrating.pace([[before.usage, again.usage]]))
        if (rate := speed.reading(before.usage)) is not None:
            words.insert(0, f"prompts read at {speed.shown(rate)}")
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
            advice = "A model that is being loaded may need longer: try --timeout 600, or a smaller model."
        elif any_works:
            advice = (
                "The agent takes a form that works."
                if protocol != "native"
                else "Calls in another form work."
            )
        else:
            advice = "Nothing works: choose another model. `tui-agent reliability` tells more."
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
                "The server gives less than is asked for, mostly for want of memory: what is longer is cut. "
                f'Set "num_ctx": {info.loaded_window} for {name} in models.json.'
            )
            self._about.add("warn", "window", text, advice)
        elif wanted < SMALL_WINDOW and self._model.provider != "scripted":
            advice = (
                "Raise context_window in the settings or in models.json, or choose a model with a larger one."
            )
            self._about.add("warn", "window", f"{text}, which is little for coding work", advice)
        else:
            self._about.add("ok", "window", text)
        self._truncation(attempts)

    def _truncation(self, attempts: list[Attempt]) -> None:
        counted = next((one for one in attempts if one.usage.prompt_tokens and one.estimate), None)
        arrived = None if counted is None else speed.whole(counted.usage)
        if counted is None or arrived is None:
            return
        text = f"{arrived:,} tokens arrived of about {counted.estimate:,} that were sent"
        if arrived < counted.estimate * _CUT:
            advice = (
                "The server may cut prompts: raise the window there. "
                "(One that leaves out what it has cached looks the same.)"
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
            self._about.add("note", "memory", "the model is not loaded now; the first message waits for it")
            return
        size, fast = entry.get("size"), entry.get("size_vram")
        if not isinstance(size, int) or not isinstance(fast, int) or size <= 0:
            return
        text = f"{bytes_shown(size)} loaded"
        if fast >= size:
            self._about.add("ok", "memory", f"{text}, all of it on the graphics card")
        elif fast > 0:
            advice = "That makes it slow. A smaller window or model would fit as a whole."
            self._about.add(
                "warn", "memory", f"{text}, {fast * 100 // size} % of it on the graphics card", advice
            )
        else:
            self._about.add("note", "memory", f"{text}, none of it on a graphics card: expect it to be slow")
