"""The models of a session by role, with options and context window; changing the window would reload a model."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo, UserMessage
from tui_agent.common.suggestions import did_you_mean
from tui_agent.engine.context.window_notices import small_window
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.models.live_catalog import LiveCatalog, describe_models
from tui_agent.engine.models.server import LocalClient, Server, set_retired
from tui_agent.events import SERVER_MISSING, EffortChanged, ModelChanged, Notice, RoleChanged, RunEnded
from tui_agent.models.base import Failed, Model, ModelRequest, first_model_advice, model_owner
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
    from tui_agent.models.discovery import FoundServer
    from tui_agent.protocols.parser import Protocol

_OF_SERVER = ("_because", "_served", "_others", "_window", "_info", "_config")
"""What changes with the server."""
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
        self._local = LocalClient(log_folder)
        self.model = self._local.shared(model)
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
        self._kept: list[Model] = []
        """Further clients to close at the end: those of earlier servers, which a run may still use."""
        self.listed_server: FoundServer | None = None
        """The server that the user chose from the list; None for the one of the settings (L3)."""
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
            changed = ModelChanged(
                provider=self.model.provider,
                model=self.name,
                context_window=window,
                by=by,
                effort=self.effort,
                server=self.listed_server.address if self.listed_server is not None else "",
            )
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
            self._settings = settings
            set_retired(self.model, True)
            self._adopt(server)

    async def switch_server(self, server: Server, name: str) -> Fault | None:
        """Use the model `name` of a server that the user chose from the list, from the next request on.

        Returns why that is not possible; then nothing is changed.
        """
        async with self._settle_lock:
            names = ("model", "name", "listed_server", "fault", *_OF_SERVER)
            before = {name: getattr(self, name) for name in names}
            self.name = name
            self._adopt(server)
            try:
                result = await self._settle(by="user")
            except BaseException:
                self._return_to(before)
                raise
            if isinstance(result, RunEnded):
                self._return_to(before)
                return Fault(kind="status", message=result.text)
            set_retired(before["model"], self.model is not before["model"])
            return None

    def _return_to(self, before: dict[str, Any]) -> None:
        """Use the server and the model again that were used before."""
        set_retired(self.model, self.model is not before["model"])
        self._kept += [self.model]
        self._kept.remove(before["model"])
        vars(self).update(before)

    def _adopt(self, server: Server) -> None:
        self._kept.append(self.model)
        self.model = self._local.shared(server.model)
        self._because, self.listed_server = server.because, server.listed
        set_retired(self.model, False)
        self._served, self._others = None, {}
        self._window = self._info = self._config = None

    def keep(self, model: Model) -> Model:
        """Close a client with the session; return it, or the one that the session has for the local engine."""
        self._kept.append(model)
        return self._local.shared(model)

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

    def expected_window(self, info: ModelInfo, provider: str = "") -> int:
        """Return the context window that requests to a model would have; `provider` is that of another server."""
        return window_for(info, self._chosen_window(info.name), provider or self.model.provider)

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
            if isinstance(info, Fault):
                return info if self.model.provider == "local" and info.status == 404 else None
            advice = "Choose another one with `/model` or `--model`."
            return None if can_answer(info) else embedding_model(self.name, advice)
        if self.model.provider == "local":  # a file elsewhere, or an unusable one
            info = await self.model.describe(self.name)
            return info if isinstance(info, Fault) else None
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
        for model in (*self._kept, self.model):
            await model.aclose()


MODEL_SIMILARITY = 0.6
"""Similarity from which a model of the server is suggested: names are long, and versions easily left out."""
MAX_NAMED = 5
"""Models of the server named in a message."""


def no_model(model: Model, served: Collection[str]) -> Fault:
    """Return the fault of a server without a model that can answer."""
    advice = first_model_advice(model.provider)
    if served:
        return embedding_model(_listed(served), advice)
    return Fault(kind="status", message=f"{model_owner(model.provider, model.endpoint)} has no models.", advice=advice)


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
    return f"{model_owner(model.provider, model.endpoint)} has no model {name}{suggestion or '.'}"


def _listed(names: Collection[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(list(names)[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")
