"""The way to the model server for commands that look at it: settings, address, client, with short deadlines."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from tui_agent import settings
from tui_agent.commands.probing import ProbeSetup
from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.engine.models.live_catalog import described
from tui_agent.engine.models.roles import no_model, window_for
from tui_agent.models import catalog as catalog_file
from tui_agent.models.base import Model
from tui_agent.models.catalog import Catalog, CatalogRead
from tui_agent.models.connect import BadAddress, connect, resolve_provider
from tui_agent.models.endpoint import endpoint
from tui_agent.models.scenarios import ScenarioError
from tui_agent.models.selection import request_options, select_session_model
from tui_agent.models.wire import Wire, default_limits
from tui_agent.safety import trust

CONNECT = 4.0
"""Seconds to reach the server."""
ASK = 6.0
"""Seconds for what it knows of itself and its models."""


class NoServer(Exception):
    """There is no way to a server; the message is for the user."""


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say, and what is wrong with them."""

    workspace: Path
    trusted: bool
    loaded: settings.Loaded
    catalog_read: CatalogRead

    @property
    def catalog(self) -> Catalog:
        """models.json, or the built-in list while there is none that can be used."""
        return self.catalog_read.catalog or catalog_file.built_in_catalog()


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """A client, and what led to it."""

    model: Model
    because: str
    wire: Wire | None
    """For side requests; None for the scripted model."""
    caution: str = ""
    token_problem: str = ""


def configured(args: argparse.Namespace) -> Configured:
    """Read all files, as a session in the workspace would. Blocks."""
    workspace = Path(os.path.realpath(args.workspace or "."))
    trusted = trust.is_trusted(workspace)
    own = paths.workspace_settings_file(workspace)
    flags = {
        "provider": args.provider,
        "base_url": args.base_url,
        "model": args.model,
        "context_window": args.context_window,
    }
    loaded = settings.load_settings(
        paths.config_file(), own if trusted and own.exists() else None, None, {k: v for k, v in flags.items() if v}
    )
    return Configured(
        workspace=workspace, trusted=trusted, loaded=loaded, catalog_read=catalog_file.read_catalog(paths.models_file())
    )


def reach(loaded: settings.Loaded, scenarios: Path | None, seconds: float) -> Reached:
    """The client, without retries; a reply may take `seconds`. Nothing is sent yet. Raises NoServer."""
    chosen = loaded.settings
    token, problem = settings.read_token(chosen)
    trouble = str(problem) if problem is not None else ""
    if problem is not None and not problem.ignored:
        raise NoServer(trouble)
    try:
        choice = resolve_provider(configured=chosen.provider, base_url=chosen.base_url)
        if choice.provider == "scripted":
            model = connect("scripted", "", scenarios=scenarios)
            return Reached(model=model, because=choice.because, wire=None)
        where = endpoint(choice.base_url, token, os.environ)
        limits = msgspec.structs.replace(
            default_limits(where.local),
            connect=min(CONNECT, chosen.timeouts.connect),
            ask=ASK,
            first_byte=seconds,
            no_bytes=seconds,
            no_progress=seconds,
            buffering=seconds,
        )
        model = connect(choice.provider, choice.base_url, token, limits=limits, retries=False)
        # the client decides which token goes where; side requests carry the same
        if token is None and not (choice.provider == "ollama" and where.local):
            where = endpoint(choice.base_url, os.environ.get("LLM_AUTH_TOKEN"), os.environ)
        wire = Wire(choice.provider, where, limits)
    except (BadAddress, ScenarioError) as error:
        raise NoServer(str(error)) from error
    because = choice.because
    if chosen.base_url:
        because = f"`base_url` ({loaded.sources.get('base_url', 'the settings')})"
    return Reached(model=model, because=because, wire=wire, caution=where.caution, token_problem=trouble)


async def close(reached: Reached) -> None:
    """Close all connections."""
    await reached.model.aclose()
    if reached.wire is not None:
        await reached.wire.aclose()


async def default_model(way: Reached, files: Configured) -> str:
    """The model that a session would take. Raises NoServer."""
    served = await way.model.list_models()
    if isinstance(served, Fault):
        raise no_answer(served, way)
    infos = await described(way.model, served)
    found = select_session_model(files.catalog, infos, named=files.loaded.settings.model or "")
    if found is None:
        raise NoServer(no_model(way.model, served).message)
    return found.name


def no_answer(fault: Fault, way: Reached) -> NoServer:
    """What to raise when the server says nothing of use."""
    return NoServer(f"{fault.message} {fault.advice} Tried this server ({way.because}).".replace("  ", " "))


def probe_setup(
    info: ModelInfo, way: Reached, files: Configured, seconds: float, longest: int | None = None
) -> ProbeSetup:
    """How a session would ask the model `info`; `seconds` and `longest` bound a reply."""
    chosen, entry = files.loaded.settings, files.catalog.entry(info.name)
    window = window_for(info, chosen.context_window or entry.window, way.model.provider)
    sampling = request_options(
        "execution",
        entry,
        thinks="thinking" in (info.capabilities or ()),
        window=window,
        temperature=chosen.temperature,
        reply_tokens=chosen.caps.reply_tokens,
        keep_alive=chosen.keep_alive,
    )
    return ProbeSetup(
        name=info.name, window=window, sampling=sampling, seconds=seconds, prompt=entry.prompt, longest=longest
    )
