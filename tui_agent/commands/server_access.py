"""How commands reach the model server: settings, endpoint and a client with short timeouts."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import settings
from tui_agent.commands.arguments import model_flags
from tui_agent.commands.probing import ProbeSetup
from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.engine.models.live_catalog import describe_models
from tui_agent.engine.models.roles import missing_model, no_model
from tui_agent.models import catalog as catalog_file
from tui_agent.models.base import Model
from tui_agent.models.catalog import Catalog, CatalogRead
from tui_agent.models.connect import BadAddress, connect, resolve_provider
from tui_agent.models.endpoint import endpoint
from tui_agent.models.scenarios import ScenarioError
from tui_agent.models.selection import request_options, select_session_model, window_for, with_effort
from tui_agent.models.wire import Wire, default_limits
from tui_agent.safety import trust

CONNECT_TIMEOUT = 4.0
"""Seconds to connect."""
METADATA_TIMEOUT = 6.0
"""Seconds for an answer about the server or its models."""


class ServerUnavailable(Exception):
    """No model server can be used; the message is for the user."""


class CommandConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and models.json as a session in the workspace would use them, with their problems."""

    workspace: Path
    trusted: bool
    loaded: settings.LoadedSettings
    catalog_read: CatalogRead

    @property
    def catalog(self) -> Catalog:
        """models.json, or the built-in list if that file is missing or unusable."""
        return self.catalog_read.catalog or catalog_file.built_in_catalog()


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """A model client, and why this server was chosen."""

    model: Model
    because: str
    wire: Wire | None
    """For requests about the server; None without one."""
    caution: str = ""
    """Privacy warning about the endpoint."""
    token_problem: str = ""

    async def aclose(self) -> None:
        """Close all connections."""
        await self.model.aclose()
        if self.wire is not None:
            await self.wire.aclose()


def load_config(args: argparse.Namespace) -> CommandConfig:
    """Read the files a session in the workspace would read. Blocks."""
    workspace = Path(os.path.realpath(args.workspace or "."))
    trusted = trust.is_trusted(workspace)
    own = paths.workspace_settings_file(workspace)
    flags: dict[str, Any] = {name: value for name, value in model_flags(args).items() if value}
    flags |= {"context_window": args.context_window} if args.context_window else {}
    return CommandConfig(
        workspace=workspace,
        trusted=trusted,
        loaded=settings.load_settings(paths.config_file(), own if trusted and own.exists() else None, None, flags),
        catalog_read=catalog_file.read_catalog(paths.models_file()),
    )


def access_server(loaded: settings.LoadedSettings, scenarios: Path | None, reply_seconds: float) -> ServerAccess:
    """Create a client without retries; nothing is sent yet. `reply_seconds` limits a reply.

    Raises ServerUnavailable.
    """
    chosen = loaded.settings
    token, problem = settings.read_token(chosen)
    token_problem = str(problem) if problem is not None else ""
    if problem is not None and not problem.ignored:
        raise ServerUnavailable(token_problem)
    try:
        choice = resolve_provider(configured=chosen.provider, base_url=chosen.base_url, model=chosen.model)
        if choice.provider in ("local", "scripted"):
            model = connect(choice.provider, "", scenarios=scenarios, retries=False)
            return ServerAccess(model=model, because=choice.because, wire=None)
        target = endpoint(choice.base_url, token, os.environ)
        limits = msgspec.structs.replace(
            default_limits(target.local),
            connect=min(CONNECT_TIMEOUT, chosen.timeouts.connect),
            side_request=METADATA_TIMEOUT,
            first_byte=reply_seconds,
            no_bytes=reply_seconds,
            no_progress=reply_seconds,
            buffering=reply_seconds,
        )
        model = connect(choice.provider, choice.base_url, token, limits=limits, retries=False)
        # the client decides which token goes where; side requests carry the same
        if token is None and not (choice.provider == "ollama" and target.local):
            target = endpoint(choice.base_url, os.environ.get("LLM_AUTH_TOKEN"), os.environ)
        wire = Wire(choice.provider, target, limits)
    except (BadAddress, ScenarioError) as error:
        raise ServerUnavailable(str(error)) from error
    because = choice.because
    if chosen.base_url:
        because = f"`base_url` ({loaded.sources.get('base_url', 'the settings')})"
    return ServerAccess(model=model, because=because, wire=wire, caution=target.warning, token_problem=token_problem)


async def default_model(access: ServerAccess, config: CommandConfig) -> str:
    """The name of the model that a session would use. Raises ServerUnavailable."""
    served = await access.model.list_models()
    if isinstance(served, Fault):
        raise unavailable(served, access)
    infos = await describe_models(access.model, served)
    choice = select_session_model(config.catalog, infos, named=config.loaded.settings.model or "")
    if choice is None:
        raise ServerUnavailable(no_model(access.model, served).full_message)
    return choice.name


async def describe_model(access: ServerAccess, name: str) -> ModelInfo:
    """What the server reports about a model, or only its name. Raises ServerUnavailable if there is no such model."""
    info = await access.model.describe(name)
    if not isinstance(info, Fault):
        return info
    if info.status == 404 and not isinstance(served := await access.model.list_models(), Fault):
        info = missing_model(access.model, name, served)
    if info.kind == "unreachable" or info.status == 404:
        raise unavailable(info, access)
    return ModelInfo(name=name)


def unavailable(fault: Fault, access: ServerAccess) -> ServerUnavailable:
    """The error for a server that answered with `fault`."""
    tried = f" Tried this server ({access.because})." if fault.status != 404 else ""
    return ServerUnavailable(fault.full_message + tried)


def probe_setup(
    info: ModelInfo, access: ServerAccess, config: CommandConfig, seconds: float, max_tokens: int | None = None
) -> ProbeSetup:
    """How a session would ask the model `info`; `seconds` and `max_tokens` limit a reply."""
    chosen, entry = config.loaded.settings, config.catalog.entry(info.name)
    window = window_for(info, chosen.context_window or entry.window, access.model.provider)
    sampling = request_options(
        "execution",
        entry,
        thinks="thinking" in (info.capabilities or ()),
        window=window,
        temperature=chosen.temperature,
        reply_tokens=chosen.caps.reply_tokens,
        keep_alive=chosen.keep_alive,
    )
    sampling = with_effort(sampling, "execution", chosen, info.capabilities)
    return ProbeSetup(
        name=info.name, window=window, sampling=sampling, seconds=seconds, prompt=entry.prompt, max_tokens=max_tokens
    )
