"""Choose the server to use, and build the client for it (G2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec

from tui_agent.common.domain import FrozenValue
from tui_agent.models.base import Model
from tui_agent.models.endpoint import BadAddress, endpoint

if TYPE_CHECKING:
    from tui_agent.models.wire import WireLimits

Provider: TypeAlias = Literal["ollama", "openai", "local", "scripted"]

DEFAULT_OLLAMA_URL = "http://localhost:11434"
WEIGHTS = ".gguf"
"""End of the name of a model that is a file."""
_OLLAMA_PORT = 11434

__all__ = ["BadAddress", "Provider", "ServerChoice", "connect", "resolve_provider"]


class ServerChoice(FrozenValue, frozen=True, kw_only=True):
    """The server to use, and why it was chosen."""

    provider: Provider
    base_url: str
    """Empty for `local` and `scripted`."""
    because: str
    """Which flag, setting or variable chose the provider, for the user."""


def resolve_provider(
    *,
    provider: str | None = None,
    configured: str | None = None,
    base_url: str | None = None,
    model: str | None = None,
    env: Mapping[str, str] | None = None,
) -> ServerChoice:
    """Choose the provider: flag, else setting, else OpenAI-compatible if LLM_BASE_URL is set, else Ollama if there is a
    `base_url`, else local if `model` is a file of weights, even if OLLAMA_HOST is set, else Ollama (G2).

    `base_url` is the one of flag or setting; it precedes LLM_BASE_URL and OLLAMA_HOST. Raises BadAddress.
    """
    env = os.environ if env is None else env
    if provider or configured:
        name, because = (provider, "--provider") if provider else (configured, "the setting `provider`")
    elif env.get("LLM_BASE_URL", "").strip():
        name, because = "openai", "LLM_BASE_URL"
    elif base_url:
        name, because = "ollama", "`base_url`"
    elif model and model.endswith(WEIGHTS):
        name, because = "local", "the model is a file"
    else:
        name, because = "ollama", "OLLAMA_HOST" if env.get("OLLAMA_HOST", "").strip() else "the default"
    name = (name or "").strip().lower()
    if name in ("scripted", "local"):
        return ServerChoice(provider="local" if name == "local" else "scripted", base_url="", because=because)
    if name == "ollama":
        url = base_url or ollama_host(env.get("OLLAMA_HOST", ""))
        return ServerChoice(provider="ollama", base_url=_without_api_path(url), because=because)
    if name == "openai":
        url = (base_url or env.get("LLM_BASE_URL", "")).strip()
        if not url:
            raise BadAddress(
                "An OpenAI-compatible server needs an address: set LLM_BASE_URL or `base_url`, "
                "for example http://localhost:8000/v1."
            )
        url = url.rstrip("/").removesuffix("/chat/completions")
        return ServerChoice(provider="openai", base_url=url, because=because)
    raise BadAddress(f"Unknown provider {name!r}; available: {', '.join(get_args(Provider))}.")


def _without_api_path(url: str) -> str:
    """Remove the path of one of Ollama's APIs; the client adds its own."""
    return url.rstrip("/").removesuffix("/api").removesuffix("/v1")


def ollama_host(value: str) -> str:
    """Interpret OLLAMA_HOST as Ollama's own programs do: `host`, `host:port`, `:port` or a URL. A wildcard address is
    reached on this machine; an empty value is the default. Raises BadAddress."""
    text = value.strip().strip("\"'")
    if not text:
        return DEFAULT_OLLAMA_URL
    scheme, separator, rest = text.rpartition("://")
    port = {"http": 80, "https": 443}.get(scheme.lower(), _OLLAMA_PORT) if separator else _OLLAMA_PORT
    rest, _, path = rest.partition("/")
    authority = f"[{rest}]" if rest.count(":") > 1 and not rest.startswith("[") else rest
    parts = urlsplit(f"//{authority}")
    try:
        port = parts.port if parts.port is not None else port
    except ValueError:
        port = 0
    if not port:
        raise BadAddress(f"OLLAMA_HOST has no usable port: {rest.rpartition(':')[2]!r}.")
    host = parts.hostname or ""
    host = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    host = f"[{host}]" if ":" in host else host
    return f"{scheme or 'http'}://{host}:{port}{'/' + path if path else ''}"


def connect(
    provider: Provider,
    base_url: str,
    token: str | None = None,
    *,
    limits: WireLimits | None = None,
    env: Mapping[str, str] | None = None,
    scenarios: Path | None = None,
    retries: bool = True,
    token_source: str = "LLM_AUTH_TOKEN",
) -> Model:
    """Build the client for a server; nothing is sent yet. Raises BadAddress.

    `token` defaults to LLM_AUTH_TOKEN of `env`, except for a local Ollama, which needs none. `limits` default to those
    of M7. `scenarios` is the file of the scripted model. `retries` False: failed requests are not repeated.
    `token_source` is what messages say to set for a token.
    """
    if provider == "scripted":
        from tui_agent.models import scripted

        return scripted.load_scripted_model(scenarios)
    from tui_agent.models.faults import RetryPolicy

    policy = RetryPolicy() if retries else RetryPolicy(attempts=1)
    if provider == "local":
        from tui_agent.models.local.model import LocalModel

        return LocalModel(limits, policy)
    env = os.environ if env is None else env
    server = endpoint(base_url, token, env)
    if token is None and not (provider == "ollama" and server.local):
        server = endpoint(base_url, env.get("LLM_AUTH_TOKEN"), env)
    from tui_agent.models.wire import Wire

    wire = Wire(provider, msgspec.structs.replace(server, token_source=token_source), limits)
    if provider == "ollama":
        from tui_agent.models.ollama import OllamaModel

        return OllamaModel(wire, policy)
    from tui_agent.models.openai import OpenAIModel

    return OpenAIModel(wire, policy)
