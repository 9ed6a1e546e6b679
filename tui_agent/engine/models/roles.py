"""The models of a session by role, with options and context window; changing the window would reload a model."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo, UserMessage
from tui_agent.common.suggestions import did_you_mean
from tui_agent.engine.context.window_notices import small_window
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.models.live_catalog import LiveCatalog, describe_models
from tui_agent.engine.models.server import Server, ServerError, connect_server, connects_alike, log_engine
from tui_agent.events import SERVER_MISSING, EffortChanged, ModelChanged, Notice, RoleChanged, RunEnded
from tui_agent.models.base import Failed, Model, ModelRequest
from tui_agent.models.catalog import can_answer, served_name
from tui_agent.models.selection import (
    DEFAULT_WINDOW,
    SMALL_WINDOW,
    Role,
    Sampling,
    SelectedModel,
    effort_in_effect,
    request_options,
    select_model,
    select_session_model,
    window_for,
    with_effort,
)
from tui_agent.settings import Settings

if TYPE_CHECKING:
    from tui_agent.models.catalog import Calibration
    from tui_agent.protocols.parser import Protocol

SESSION_ROLES = ("", "execution")
"""Roles of the session's model: replies, and steps of a plan."""


def run_ended_by(fault: Fault) -> RunEnded:
    """Return the end of a run caused by a fault of the model server."""
    return RunEnded(outcome=fault.outcome, text=fault.full_message)


class ModelRoles:
    """The models of a session. `config()` settles name and window of its own model on first use."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        context_window: int | None,
        settings: Settings,
        because: str,
        emit: Callable[[Notice | ModelChanged | RoleChanged | EffortChanged], object],
        log_folder: Path | None = None,
    ) -> None:
        """`log_folder` is for the log of a local engine."""
        self.model = model
        self._log_folder = log_folder
        log_engine(model, log_folder)
        self.name = name
        self._window = context_window
        self._settings = settings
        self._because = because
        self._emit = emit
        self._config: ModelConfig | None = None
        self._info: ModelInfo | None = None
        self._others: dict[str, tuple[int | None, ModelInfo | None]] = {}
        self._served: tuple[str, ...] | None = None
        self._reported_missing: set[str] = set()
        self._was_missing = False
        """The user was told that there is no server or model, and not yet that there is one."""
        self._settle_lock = asyncio.Lock()
        self._replaced: list[Model] = []
        """Clients of earlier servers: a run may still use one."""
        self.fault: Fault | None = None
        """Why there is no model; None if there is one, or nobody has asked yet."""
        self.chosen: dict[str, str] = {}
        """Role → model chosen by the user in this session; the first tier of M6 for `explorer`."""
        self.efforts: dict[str, str] = {}
        """Role → reasoning effort chosen by the user, "" for all roles with work to do; a run shares it (L5)."""
        self.catalog = LiveCatalog(paths.models_file(), emit)

    @property
    def prompt(self) -> str:
        """The prompt for the session's model from models.json (H1)."""
        return self.catalog.current.entry(self.name).prompt.strip()

    @property
    def protocol(self) -> Protocol | None:
        """The strategy fixed for the session's model in models.json."""
        return self.catalog.current.entry(self.name).options.strategy

    @property
    def calibration(self) -> Calibration:
        """The calibration of the session's model in models.json."""
        return self.catalog.current.entry(self.name).calibration

    async def connect(self) -> None:
        """Contact the server and settle the model; emit a notice if that fails."""
        config = await self.config()
        self.catalog.watch()
        if isinstance(config, RunEnded):
            text = f"{config.text}\nTried {self.model.endpoint} ({self._because})."
            self._emit(Notice(level="error", text=text, code=SERVER_MISSING))
            self._was_missing = True

    async def config(self) -> ModelConfig | RunEnded:
        """Return the session's model, or the end of the run if there is none.

        Name and window stay as settled; the other options come from the current models.json.
        """
        async with self._settle_lock:
            return await self._settle()

    async def _settle(self, by: str = "") -> ModelConfig | RunEnded:
        if self._config is None:
            self.fault = await self._settle_name() or await self._check_available()
            window = self.fault or self._window or await self._settle_window()
            if isinstance(window, Fault):
                self.fault = window
                return run_ended_by(window)
            if self._info is None and not isinstance(info := await self.model.describe(self.name), Fault):
                self._info = info
            self._config = ModelConfig(model=self.model, name=self.name, num_ctx=window, temperature=0, max_tokens=0)
            provider, effort = self.model.provider, self.effort
            changed = ModelChanged(provider=provider, model=self.name, context_window=window, by=by, effort=effort)
            self._emit(changed)
            if self._was_missing:
                self._was_missing = False
                text = f"Connected to {self.model.endpoint}: {self.name} answers."
                self._emit(Notice(level="info", text=text, code="server.connected"))
        options = msgspec.structs.asdict(self.sampling("execution", self._config.num_ctx))
        return msgspec.structs.replace(self._config, **options, current_think=self._current_think("execution"))

    def _current_think(self, role: Role, name: str = "") -> Callable[[], bool | str | None]:
        return lambda: self.sampling(role, None, name).think

    async def _settle_name(self) -> Fault | None:
        """Open the catalog, and choose a model unless one is named; return why there is none."""
        if not self.catalog.opened:
            await self.catalog.open(self.model, self._list)
        if not self.name:
            chosen = await self._choose()
            if isinstance(chosen, Fault):
                return chosen
            self.name = chosen
        return None

    async def use_server(self, server: Server, settings: Settings) -> None:
        """Use another server, and the model that the settings or the server choose, from the next request on."""
        async with self._settle_lock:
            is_same = server.model.endpoint == self.model.endpoint
            if not is_same or settings.model != self._settings.model or self._lacks_model():
                self.name = settings.model or (self.name if is_same else "")
            log_engine(server.model, self._log_folder)
            self._replaced.append(self.model)
            self.model, self._because, self._settings = server.model, server.because, settings
            self._served, self._others = None, {}
            self._window = self._info = self._config = None

    def _lacks_model(self) -> bool:
        """Return whether the server answered that it can't work with the model."""
        fault = self.fault
        return fault is not None and fault.kind != "unreachable" and not fault.is_unauthorized

    async def use_settings(self, settings: Settings) -> None:
        """Use other settings of models from the next request on."""
        async with self._settle_lock:
            if settings.context_window != self._settings.context_window:
                self._window = self._config = None
            before, self._settings = self.effort, settings
            if self.effort != before:
                self._emit(EffortChanged(effort=self.efforts.get("", ""), effective=self.effort))

    def for_run(self) -> ModelRoles:
        """Return the models as they are now: a run keeps its server and its models."""
        kept = copy.copy(self)
        kept.chosen = dict(self.chosen)
        return kept

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        return self._settings

    async def choose(self, role: str, name: str) -> Fault | None:
        """Choose the model `name` for `role` in this session (M5, M6); an empty name revokes the choice.

        The session's own model (`execution` or an empty role) is used from the next message on. Returns a fault if the
        server does not have the model; then nothing is changed.
        """
        async with self._settle_lock:
            if name:
                self._served = None
                served = await self._list()
                if isinstance(served, Fault) and served.kind == "unreachable":
                    return served
                if not isinstance(served, Fault) and not (name := served_name(requested := name, served)):
                    return Fault(kind="status", message=unknown_model(self.model, requested, served))
            if role in SESSION_ROLES:
                return await self._switch(name or self.name)
            self.chosen.pop(role, None)
            self.chosen |= {role: name} if name else {}
            self._emit(RoleChanged(role=role, model=name))
            return None

    async def _switch(self, name: str) -> Fault | None:
        before = self.name, self._window, self._info, self._config, self.fault
        if name != self.name:
            self._window = self._info = None
        self.name, self._config = name, None
        result = await self._settle(by="user")
        if isinstance(result, RunEnded):
            self.name, self._window, self._info, self._config, self.fault = before
            return Fault(kind="status", message=result.text)
        return None

    async def explorer(self, session_config: ModelConfig) -> ModelConfig:
        """Return the model of sub-agents (M6), chosen by the user, by settings and models.json, or the session's."""
        name = (await self.select("explorer")).name
        window = session_config.num_ctx if name == session_config.name else await self.window_of(name)
        options = msgspec.structs.asdict(self.sampling("explorer", window, name))
        current_think = self._current_think("explorer", name)
        return ModelConfig(model=self.model, name=name, num_ctx=window, **options, current_think=current_think)

    async def window_of(self, name: str) -> int | None:
        """Return the context window for a model of the server, settled once."""
        if name == self.name and self._config is not None:
            return self._config.num_ctx
        if name not in self._others:
            info = await self.model.describe(name)
            if isinstance(info, Fault):  # may be temporary: not cached
                return self._chosen_window(name) or DEFAULT_WINDOW
            self._others[name] = (window_for(info, self._chosen_window(name), self.model.provider), info)
        return self._others[name][0]

    def sampling(self, role: Role, window: int | None, name: str = "") -> Sampling:
        """Return the request options of `role` for the model `name` (default: the session's) and its window."""
        capabilities = self.capabilities(name)
        options = request_options(
            role,
            self.catalog.current.entry(name or self.name),
            thinks="thinking" in (capabilities or ()),
            window=window,
            temperature=self._settings.temperature,
            reply_tokens=self._settings.caps.reply_tokens,
            keep_alive=self._settings.keep_alive,
        )
        return with_effort(options, role, self._settings, capabilities, self.efforts)

    def capabilities(self, name: str = "") -> tuple[str, ...] | None:
        """Return the capabilities of a model (default: the session's) as far as the server has reported them."""
        info = self._info if name in ("", self.name) else self._others.get(name, (None, None))[1]
        return info.capabilities if info else None

    @property
    def effort(self) -> str:
        """The reasoning effort of the session's model, to be shown; see `effort_in_effect`."""
        return effort_in_effect(self.sampling("execution", None), self.capabilities())

    def expected_window(self, info: ModelInfo) -> int:
        """Return the context window that requests to a model would have."""
        return window_for(info, self._chosen_window(info.name), self.model.provider)

    def _chosen_window(self, name: str) -> int | None:
        """Return the context window of a model from settings or models.json."""
        return self._settings.context_window or self.catalog.current.entry(name).window

    async def select(self, role: Role, task: str = "", *, report: bool = True) -> SelectedModel:
        """Return the model of `role`. With `report`, a missing preferred model is reported once."""
        if self.model.provider == "scripted":  # the only model there is, whatever the user's files name for servers
            return SelectedModel(name=self.name, because="the session's model")
        settings = self._settings
        configured = {**settings.roles.model_dump(), "explorer": settings.explorer_model, "small": settings.small_model}
        choice = self.chosen.get(role, "")
        catalog = self.catalog.current
        selected = select_model(role, self.name, catalog, None, settings=configured, task=task, chosen=choice)
        if selected.missing:
            served = await self._list()
            available = None if isinstance(served, Fault) else served
            selected = select_model(role, self.name, catalog, available, settings=configured, task=task, chosen=choice)
        if report:
            self._report_missing(selected)
        return selected

    def _report_missing(self, selected: SelectedModel) -> None:
        if selected.missing and selected.missing not in self._reported_missing:
            self._reported_missing.add(selected.missing)
            self._emit(Notice(level="warning", text=selected.missing, code="models.missing"))

    async def _list(self) -> tuple[str, ...] | Fault:
        """List the server's models, once."""
        if self._served is None:
            names = await self.model.list_models()
            if isinstance(names, Fault):
                return names
            self._served = names
        return self._served

    async def _choose(self) -> str | Fault:
        names = await self._list()
        if isinstance(names, Fault):
            return names
        infos = [ModelInfo(name=name) for name in names]
        if not served_name(self.catalog.current.rules.default, names):
            infos = await describe_models(self.model, names)
        configured = self.catalog.configured and self.model.provider != "scripted"
        chosen = select_session_model(self.catalog.current, infos, configured=configured)
        if chosen is None:
            return no_model(self.model, names)
        self._report_missing(chosen)
        return chosen.name

    async def _check_available(self) -> Fault | None:
        """Return why the server can't answer with the model; None if it can, or if that is uncertain.

        A model that is not listed may still exist, as an alias, or because the server accepts any name: it is missing
        only if a request for it is rejected.
        """
        served = await self._list() if self.model.provider != "scripted" else ()
        if isinstance(served, Fault):
            return served if served.kind == "unreachable" or served.is_unauthorized else None
        if not served or served_name(self.name, served):
            info = await self.model.describe(self.name)
            usable = isinstance(info, Fault) or can_answer(info)
            return None if usable else embedding_model(self.name, "Choose another one with `/model` or `--model`.")
        if self.model.provider == "openai":
            missing = await self._is_rejected()
        else:
            info = await self.model.describe(self.name)
            missing = isinstance(info, Fault) and info.status == 404
        return missing_model(self.model, self.name, served) if missing else None

    async def _is_rejected(self) -> bool:
        """Request one token, since most of these servers only list models; llama.cpp accepts any name."""
        info = await self.model.describe(self.name)
        if isinstance(info, ModelInfo) and info.any_name:
            return False
        request = ModelRequest(model=self.name, messages=(UserMessage(text="hi"),), max_tokens=1)
        parts = [part async for part in self.model.stream(request)]
        return isinstance(parts[-1], Failed) and parts[-1].fault.status == 404

    async def _settle_window(self) -> int | Fault:
        chosen = self._chosen_window(self.name)
        requested = chosen or DEFAULT_WINDOW
        info = await self.model.describe(self.name)
        if isinstance(info, Fault):
            return info if info.kind == "unreachable" else requested
        self._info = info
        window = window_for(info, chosen, self.model.provider)
        if window < SMALL_WINDOW and self.model.provider != "scripted":
            trained = self.model.provider != "openai" and window == info.context_window
            served = info.loaded_window or 0 if self.model.provider == "openai" and chosen else 0
            text = small_window(self.name, window, self.model.provider, trained=trained, served=served)
            self._emit(Notice(level="warning", text=text, code="context.small"))
        return window

    async def aclose(self) -> None:
        """Close the model's connections and stop watching models.json."""
        await self.catalog.aclose()
        for model in (*self._replaced, self.model):
            await model.aclose()


MODEL_SIMILARITY = 0.6
"""Similarity from which a model of the server is suggested: names are long, and versions easily left out."""
MAX_NAMED = 5
"""Models of the server named in a message."""
GET_ADVICE = "Get one first: `tui-agent models get` suggests some that fit this machine."
PULL_ADVICE = "Pull one first, such as `ollama pull qwen2.5-coder:7b`, or name one with `--model`."
LOAD_ADVICE = "Load one there, or name one with `--model`."


def no_model(model: Model, served: Collection[str]) -> Fault:
    """Return the fault of a server without a model that can answer."""
    advice = {"ollama": PULL_ADVICE, "local": GET_ADVICE}.get(model.provider, LOAD_ADVICE)
    if served:
        return embedding_model(_listed(served), advice)
    return Fault(kind="status", message=f"{model.endpoint} has no models.", advice=advice)


def embedding_model(name: str, advice: str) -> Fault:
    """Return the fault of a model that can't answer."""
    return Fault(kind="status", message=f"{name} only makes embeddings and can't chat.", advice=advice)


def missing_model(model: Model, name: str, served: Collection[str]) -> Fault:
    """Return the fault of a model that the server does not have."""
    pull = f"Get it with `ollama pull {name}`, or choose" if model.provider == "ollama" else "Choose"
    advice = f"{pull} another one with `/model` or `--model`; available: {_listed(served)}."
    return Fault(kind="status", status=404, message=unknown_model(model, name, served), advice=advice)


def unknown_model(model: Model, name: str, served: Collection[str]) -> str:
    """Return that the server does not have a model, with the most similar name of those that it has."""
    suggestion = did_you_mean(name, served, MODEL_SIMILARITY)
    return f"{model.endpoint} has no model {name}{suggestion or '.'}"


def _listed(names: Collection[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(list(names)[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


CHOICES: tuple[Role, ...] = ("execution", "planning", "dispatcher", "summary", "title", "explorer")
"""Roles with selectable models; `execution` is the session's own."""
CONCURRENT_DESCRIPTIONS = 4
"""Models described by the server at the same time."""
MAX_DESCRIBED = 300
"""Maximum models described by the server."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the server, as far as it is described."""

    name: str
    label: str = ""
    """Name in models.json, if different."""
    described: bool = False
    """True once the server was asked; None then means unspecified."""
    tools: bool | None = None
    thinks: bool | None = None
    sees: bool | None = None
    answers: bool = True
    """False for an embedding model."""
    window: int | None = None
    """Context window of requests, in tokens."""
    trained: int | None = None
    """Maximum context window, in tokens."""
    loaded: bool = False
    build: str = ""
    problem: str = ""
    """Why it could not be described."""


class ModelChoice:
    """Lists and chooses the models of a session. Every choice is an event, so a resume keeps it."""

    def __init__(self, roles: ModelRoles, stream: SessionStream) -> None:
        self._roles = roles
        self._stream = stream
        self._key = "", ""
        """Address of a server, and the key that the user typed for it."""
        roles.chosen = dict(stream.state.roles)

    @property
    def endpoint(self) -> str:
        """The server's address for display."""
        return self._roles.model.endpoint

    @property
    def provider(self) -> str:
        """`ollama`, `openai`, `local` or `scripted`."""
        return self._roles.model.provider

    @property
    def fault(self) -> Fault | None:
        """Why the session has no model, as far as known."""
        return self._roles.fault

    async def use_settings(self, settings: Settings, key: str = "") -> str:
        """Use the server and the models of other settings from the next request on; a run keeps its own.

        `key` is a key that the user typed: it is sent to the server of these settings only, and stays in memory.
        Returns why there is no model now, or an empty string.
        """
        before, roles, (typed_for, typed) = self._roles.settings, self._roles, self._key
        if (settings.token_env, settings.token_file) != (before.token_env, before.token_file):
            typed = ""
        if not key and roles.fault is None and connects_alike(before, settings):
            await roles.use_settings(settings)
            is_other = settings.model and settings.model != before.model
            return await self.choose(SESSION_ROLES[1], settings.model) if settings.model and is_other else ""
        try:
            server = await asyncio.to_thread(connect_server, settings, None, key)
            if typed and not key and typed_for == server.model.endpoint:
                server = await asyncio.to_thread(connect_server, settings, None, typed)
        except ServerError as error:
            return str(error)
        if key:
            self._stream.mask.add({"API key": key})
        await roles.use_server(server, settings)
        config = await roles.config()
        if key and not (roles.fault is not None and roles.fault.is_unauthorized):
            self._key = server.model.endpoint, key
        elif not typed:
            self._key = "", ""
        if isinstance(config, RunEnded):
            return config.text
        if server.caution:
            self._stream.emit(Notice(level="warning", text=server.caution, code="session.opening"))
        return ""

    async def listed(self) -> list[Candidate] | Fault:
        """List the server's models by name, not yet described."""
        names = await self._roles.model.list_models()
        return names if isinstance(names, Fault) else [self._candidate(name) for name in sorted(set(names))]

    async def describe(self, names: Sequence[str], on_model: Callable[[Candidate], object]) -> None:
        """Describe these models, and call `on_model` with each one."""
        slots = asyncio.Semaphore(CONCURRENT_DESCRIPTIONS)

        async def ask(name: str) -> None:
            async with slots:
                info = await self._roles.model.describe(name)
            on_model(self._candidate(name, info))

        await asyncio.gather(*(ask(name) for name in names[:MAX_DESCRIBED]))

    def _candidate(self, name: str, info: ModelInfo | Fault | None = None) -> Candidate:
        label = self._roles.catalog.current.label(name)
        candidate = Candidate(name=name, label="" if label == name else label)
        if info is None:
            return candidate
        if isinstance(info, Fault):
            return msgspec.structs.replace(candidate, described=True, problem=info.message)
        capabilities = info.capabilities
        return msgspec.structs.replace(
            candidate,
            described=True,
            tools=None if capabilities is None else "tools" in capabilities,
            thinks=None if capabilities is None else "thinking" in capabilities,
            sees=None if capabilities is None else "vision" in capabilities,
            answers=can_answer(info),
            window=self._roles.expected_window(info),
            trained=info.context_window,
            loaded=bool(info.loaded_window),
            build=info.build,
        )

    async def current(self) -> dict[Role, tuple[str, bool]]:
        """Return the model of each role, and whether the user chose it in this session."""
        models: dict[Role, tuple[str, bool]] = {}
        state = self._stream.state
        for role in CHOICES:
            if role in SESSION_ROLES:
                models[role] = (self._roles.name, bool(state.chosen_model))
            else:
                selected = await self._roles.select(role, report=False)
                models[role] = (selected.name, self._roles.chosen.get(role) == selected.name)
        return models

    async def window(self) -> int | None:
        """Return the context window of the session's model in tokens; None without a model."""
        config = await self._roles.config()
        return config.num_ctx if isinstance(config, ModelConfig) else None

    async def choose(self, role: str, name: str) -> str:
        """Choose a model for a role; an empty name revokes the choice. Returns why it failed, or an empty string.

        A run keeps its model: the session's model changes with the next message.
        """
        if name:
            info = await self._roles.model.describe(name)
            if not isinstance(info, Fault) and not self._candidate(name, info).answers:
                return f"{name} only makes embeddings and can't chat."
        fault = await self._roles.choose(role, name)
        return "" if fault is None else fault.full_message


def consequences(
    current: Candidate | None, new: Candidate, *, role: str, window: int | None, used: int | None, provider: str
) -> list[str]:
    """Return the consequences of choosing `new`, in sentences.

    `current` is the session's model, `window` its context window, `used` the conversation's tokens.
    """
    if new.problem:
        return [new.problem]
    if not new.described:
        return []
    if not new.answers:
        return ["It only makes embeddings and can't chat."]
    is_own, sentences = role in SESSION_ROLES, []
    if current is not None and new.name == current.name:
        sentences.append("It is the session's model." if not is_own else "In use now.")
    elif provider == "ollama" and not new.loaded:
        sentences.append(
            "It has to be loaded first."
            if is_own
            else "Switching between the two reloads a model, unless both fit in memory."
        )
    if is_own and new.window and window and new.window != window:
        sentences.append(f"A window of {new.window:,} tokens instead of {window:,}.")
        if used and used > 0.7 * new.window:
            sentences.append(f"The conversation has {used:,}: older parts will be summarized.")
    if is_own and new.tools is False:
        sentences.append("It has no native tool calls: they are requested as text.")
    return sentences


__all__ = ["CHOICES", "Candidate", "ModelChoice", "consequences"]
