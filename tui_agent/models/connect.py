"""Which server to talk to, and the client for it (G2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from tui_agent.common.domain import FrozenValue
from tui_agent.models.base import Model
from tui_agent.models.endpoint import BadAddress, endpoint

if TYPE_CHECKING:
    from tui_agent.models.wire import WireLimits

Provider: TypeAlias = Literal["ollama", "openai", "scripted"]

OLLAMA = "http://localhost:11434"
_OLLAMA_PORT = 11434

__all__ = ["BadAddress", "Provider", "ServerChoice", "connect", "resolve_provider"]


class ServerChoice(FrozenValue, frozen=True, kw_only=True):
    """The server to use, and what decided it."""

    provider: Provider
    base_url: str
    """Empty for `scripted`."""
    because: str
    """For the user: which flag, setting or variable chose the provider."""


def resolve_provider(
    *,
    provider: str | None = None,
    configured: str | None = None,
    base_url: str | None = None,
    env: Mapping[str, str] | None = None,
) -> ServerChoice:
    """The provider by flag, else by config, else OpenAI-compatible when LLM_BASE_URL is set, else Ollama (G2).

    `base_url` is the one of flag or config; LLM_BASE_URL and OLLAMA_HOST come after it. Raises BadAddress with a
    sentence for the user.
    """
    env = os.environ if env is None else env
    if provider or configured:
        name, because = (provider, "--provider") if provider else (configured, "the setting `provider`")
    elif env.get("LLM_BASE_URL", "").strip():
        name, because = "openai", "LLM_BASE_URL"
    else:
        name, because = "ollama", "OLLAMA_HOST" if env.get("OLLAMA_HOST", "").strip() else "the default"
    name = (name or "").strip().lower()
    if name == "scripted":
        return ServerChoice(provider="scripted", base_url="", because=because)
    if name == "ollama":
        url = base_url or ollama_host(env.get("OLLAMA_HOST", ""))
        return ServerChoice(provider="ollama", base_url=_bare(url), because=because)
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


def _bare(url: str) -> str:
    """Without the path of one of Ollama's two interfaces: the client adds the path of its own."""
    return url.rstrip("/").removesuffix("/api").removesuffix("/v1")


def ollama_host(value: str) -> str:
    """The address that OLLAMA_HOST means, read as Ollama's own programs read it: `host`, `host:port`, `:port`, a URL;
    an address that a server listens on everywhere is reached on this machine. Empty is the default."""
    text = value.strip().strip("\"'")
    if not text:
        return OLLAMA
    scheme, divider, rest = text.rpartition("://")
    port = {"http": 80, "https": 443}.get(scheme.lower(), _OLLAMA_PORT) if divider else _OLLAMA_PORT
    rest, _, path = rest.partition("/")
    host, port_text = _host_and_port(rest)
    if port_text:
        if not port_text.isascii() or not port_text.isdigit() or not 0 < int(port_text) < 65536:
            raise BadAddress(f"OLLAMA_HOST has no usable port: {port_text!r}.")
        port = int(port_text)
    host = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    host = f"[{host}]" if ":" in host else host
    return f"{scheme or 'http'}://{host}:{port}{'/' + path if path else ''}"


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") > 1:
        return text, ""
    host, _, port = text.partition(":")
    return host, port


def connect(
    provider: Provider,
    base_url: str,
    token: str | None = None,
    *,
    limits: WireLimits | None = None,
    env: Mapping[str, str] | None = None,
    scenarios: Path | None = None,
    retries: bool = True,
) -> Model:
    """The client for a server, with retries. Nothing is sent yet. Raises BadAddress.

    `token` is LLM_AUTH_TOKEN of `env` where none is given, but not for Ollama on this machine or nearby, which wants
    none. `limits` are those of M7 where none are given. `scenarios` is the file of the scripted model.
    """
    if provider == "scripted":
        from tui_agent.models import scripted

        return scripted.load_scripted_model(scenarios)
    env = os.environ if env is None else env
    where = endpoint(base_url, token, env)
    if token is None and not (provider == "ollama" and where.local):
        where = endpoint(base_url, env.get("LLM_AUTH_TOKEN"), env)
    from tui_agent.models.faults import Retries
    from tui_agent.models.wire import Wire

    wire, policy = Wire(provider, where, limits), Retries() if retries else Retries(attempts=1)
    if provider == "ollama":
        from tui_agent.models.ollama import OllamaModel

        return OllamaModel(wire, policy)
    from tui_agent.models.openai import OpenAIModel

    return OpenAIModel(wire, policy)
