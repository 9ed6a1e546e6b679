"""The client of the model server that the settings name (G2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent import settings
from tui_agent.models.base import Model
from tui_agent.models.connect import WEIGHTS, BadAddress, connect, resolve_provider
from tui_agent.models.discovery import FoundServer, known_servers, same_server
from tui_agent.models.endpoint import endpoint
from tui_agent.models.scenarios import ScenarioError
from tui_agent.models.wire import WireLimits, default_limits
from tui_agent.settings.model import Timeouts

if TYPE_CHECKING:
    from tui_agent.models.local.model import LocalModel


class ServerError(Exception):
    """No client can be made from the settings; `str()` is a sentence for the user."""


class Server(msgspec.Struct):
    """The model server, the reason for its choice, and a warning about the connection."""

    model: Model
    because: str
    caution: str = ""
    listed: FoundServer | None = None
    """Its entry in the list of servers, if it was chosen there."""


def connect_server(chosen: settings.Settings, scenarios: Path | None = None, key: str = "") -> Server:
    """Make the client; nothing is sent yet. May read `token_file`. Raises ServerError.

    `key` replaces the token of the settings. `scenarios` is the file of the scripted model.
    """
    token, problem = (key, None) if key else settings.read_token(chosen)
    if problem is not None and not problem.ignored:
        raise ServerError(str(problem))
    try:
        choice = resolve_provider(configured=chosen.provider, base_url=chosen.base_url, model=chosen.model)
        if choice.provider == "local":
            return Server(connect("local", "", limits=wire_limits(chosen.timeouts, True)), choice.because)
        if choice.provider == "scripted":
            return Server(connect("scripted", "", scenarios=scenarios), choice.because)
        target = endpoint(choice.base_url, token, os.environ)
        limits = wire_limits(chosen.timeouts, target.local)
        source = chosen.token_env or "`token_env` in the settings"
        model = connect(choice.provider, choice.base_url, token, limits=limits, token_source=source)
        return Server(model, choice.because, target.warning)
    except (BadAddress, ScenarioError) as error:
        raise ServerError(str(error)) from error


def connect_listed(chosen: settings.Settings, listed: FoundServer, key: str = "") -> Server:
    """Make the client of a server in the list, which gets its own token only. May read `token_file`. Raises
    ServerError. `key` replaces the token."""
    if listed.configured and not listed.setting:
        server = connect_server(chosen, key=key)
    elif listed.provider == "local":
        server = Server(connect("local", "", limits=wire_limits(chosen.timeouts, True)), "chosen in the session")
    else:
        token = key or listed_token(chosen, listed)
        own = chosen.servers.get(listed.setting)
        address, provider = (own.base_url, own.kind) if own is not None else (listed.base_url, listed.provider)
        try:
            target = endpoint(address, token, os.environ)
            limits = wire_limits(chosen.timeouts, target.local)
            source = (own.token_env if own is not None else None) or "`token_env` for it in `servers`"
            model = connect(provider, address, token, limits=limits, token_source=source)
        except BadAddress as error:
            raise ServerError(str(error)) from error
        listed = msgspec.structs.replace(listed, base_url=target.base, provider=provider)
        server = Server(model, "chosen in the session", target.warning)
    server.listed = None if listed.configured else listed
    return server


def listed_token(chosen: settings.Settings, listed: FoundServer) -> str:
    """Return the token of a server in the list: its own one in the settings, and that of the settings only if they name
    it; otherwise none. May read `token_file`. Raises ServerError."""
    sources = [own for own in (chosen.servers.get(listed.setting), chosen if listed.configured else None) if own]
    for source in sources:
        token, problem = settings.read_token(source)
        if problem is not None and not problem.ignored:
            raise ServerError(str(problem))
        if token or (token is not None and source is chosen):
            return token
    return os.environ.get("LLM_AUTH_TOKEN", "").strip() if listed.configured else ""


def resumed_server(chosen: settings.Settings, address: str) -> Server | None:
    """Return the server that the user chose in the session before, if it is still in the settings or one that is
    looked for on this machine; sends nothing. May read `token_file`. Raises ServerError."""
    for listed in known_servers(chosen, os.environ):
        if same_server(listed.address, address):
            return connect_listed(chosen, listed)
    return None


class LocalClient:
    """The one client of the local engine that a session has, whoever asks for it; others pass through.

    `folder` is for the log of an engine.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._client: LocalModel | None = None

    def shared(self, model: Model) -> Model:
        """Return the session's client instead of another one of the local engine, with the limits of that one."""
        from_engine = _local_model(model)
        if from_engine is None:
            return model
        if self._client is None:
            self._client = from_engine
            from_engine.log_folder = self._folder
        self._client.set_limits(from_engine.limits)
        return self._client


def _local_model(model: Model) -> LocalModel | None:
    if model.provider != "local":
        return None
    from tui_agent.models.local.model import LocalModel

    assert isinstance(model, LocalModel)
    return model


def set_retired(model: Model, retired: bool) -> None:
    """Let a client that the session no longer uses free memory, even if a run still uses it; or take that back."""
    if (client := _local_model(model)) is not None:
        client.set_retired(retired)


def wire_limits(timeouts: Timeouts, local: bool) -> WireLimits:
    """Return the watchdog timeouts from the settings (M7)."""
    return msgspec.structs.replace(
        default_limits(local),
        connect=timeouts.connect,
        first_byte=timeouts.first_byte_local if local else timeouts.first_byte_remote,
        no_bytes=timeouts.idle,
        no_progress=timeouts.progress_local if local else timeouts.progress_remote,
    )


def connects_alike(first: settings.Settings, second: settings.Settings) -> bool:
    """Return whether the same client serves for both settings."""
    names = ("provider", "base_url", "token_env", "token_file", "timeouts")
    choices = (first, second)
    is_file = [bool(settings.model and settings.model.endswith(WEIGHTS)) for settings in choices]
    return is_file[0] == is_file[1] and all(getattr(first, name) == getattr(second, name) for name in names)
