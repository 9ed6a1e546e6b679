"""Find the model servers on this machine, and list them with those of the settings (L3).

Only loopback addresses are guessed. A server gets no token but its own, redirects are not followed, and what does not
answer as a model server does is not one.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from tui_agent.common.domain import FrozenValue
from tui_agent.models.connect import BadAddress, ServerChoice, ollama_host, resolve_provider
from tui_agent.models.decoding import as_object, objects_in
from tui_agent.models.endpoint import endpoint
from tui_agent.models.faults import WireFault
from tui_agent.models.local.library import local_files
from tui_agent.models.openai_info import LM_STUDIO, ROUTER, is_llama_cpp, is_router, model_entries
from tui_agent.models.wire import Wire, WireLimits
from tui_agent.settings import ServerSettings, Settings, read_token
from tui_agent.text import clean, one_line

OWN, LOCAL = "This program", "local"
"""Kind and name of the models that the program runs itself."""
OLLAMA, LLAMA_CPP, VLLM, COMPATIBLE = "Ollama", "llama.cpp", "vLLM", "OpenAI-compatible"
LOADING_KINDS = (OWN, OLLAMA, ROUTER, LM_STUDIO)
"""Kinds of servers that load and unload models on request."""
LOCAL_SERVERS: tuple[tuple[Literal["ollama", "openai"], str], ...] = (
    ("ollama", "http://localhost:11434"),
    ("openai", "http://localhost:1234/v1"),
    ("openai", "http://localhost:8080/v1"),
    ("openai", "http://localhost:8000/v1"),
)
"""Where Ollama, LM Studio, llama.cpp and vLLM listen unless told otherwise."""
CACHE_SECONDS = 5.0
"""How long a result serves."""
CONFIGURED = "configured"
"""Name of the server of the settings `provider` and `base_url`, or of their defaults, if its kind gives no name."""
NEEDS_TOKEN = "requires a token"
_LIMITS = WireLimits(connect=0.5, side_request=1.0)
_TOTAL = 1.5
"""Seconds for all questions to a server."""
_UNAUTHORIZED = (401, 403)


class FoundServer(FrozenValue, frozen=True, kw_only=True):
    """A model server that can be chosen. It carries no secrets."""

    name: str
    """Unique, for people: the name in the settings, or one made from the kind; empty before it was asked."""
    kind: str
    """Such as `Ollama` or `LM Studio`; by the provider while nothing is known."""
    provider: Literal["ollama", "openai", "local"]
    base_url: str
    """Without user and password; empty for `local`."""
    reachable: bool = True
    version: str = ""
    problem: str = ""
    """Why it can't be used now."""
    setting: str = ""
    """Its name in the setting `servers`; empty for another one."""
    configured: bool = False
    """It is the one of the settings `provider` and `base_url`, or of their defaults."""

    @property
    def address(self) -> str:
        """What identifies the server: its base URL, or `local` for the models that the program runs itself."""
        return self.base_url or self.provider

    @property
    def may_answer(self) -> bool:
        """Whether to ask it for its models: one that the user named may just have been slow."""
        return not self.problem or bool(self.setting or self.configured)


def same_server(first: str, second: str) -> bool:
    """Return whether two base URLs mean the same server: all names of this machine are one."""
    return _identity(first) == _identity(second)


def _identity(url: str) -> tuple[str, str, int | None, str]:
    try:
        parts = urlsplit(endpoint(url, None, {}).base)
    except BadAddress:
        return "", url, None, ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    host = "localhost" if is_loopback(parts.geturl()) else (parts.hostname or "").lower()
    return parts.scheme, host, port, parts.path.rstrip("/").removesuffix("/v1")


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = (urlsplit(url if "://" in url else f"http://{url}").hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


class _Candidate(msgspec.Struct):
    """A server to ask, and what to send it."""

    provider: Literal["ollama", "openai"]
    address: str
    """May have user and password."""
    token: str = ""
    setting: str = ""
    configured: bool = False
    guessed: bool = False
    """Nobody named it: it is listed only if it answers as a model server."""
    problem: str = ""


def known_servers(settings: Settings, env: Mapping[str, str]) -> list[FoundServer]:
    """Return all servers that would be asked, without asking them. May read token files."""
    servers = []
    for candidate in _candidates(settings, env):
        try:
            base = endpoint(candidate.address, None, {}).base
        except BadAddress:
            continue
        servers.append(_server(candidate, base))
    return [*servers, _own_models(settings, env)]


async def find_servers(settings: Settings, env: Mapping[str, str], *, fresh: bool = False) -> list[FoundServer]:
    """Return the configured server, those of the setting `servers`, and the ones found on this machine.

    All are asked at the same time, each for at most 1.5 seconds. A result serves for a few seconds, unless `fresh`.
    Reads token files.
    """
    candidates = await asyncio.to_thread(_candidates, settings, env)
    key = hashlib.sha256(msgspec.json.encode(candidates)).digest()
    now = asyncio.get_running_loop().time()
    if not fresh and _cache.key == key and now < _cache.until:
        return _cache.servers
    answers = await asyncio.gather(*(_ask(candidate, env) for candidate in candidates))
    servers = _named([server for server in answers if server is not None])
    if _runs_models(settings, env) or await asyncio.to_thread(lambda: bool(local_files())):
        servers.append(_own_models(settings, env))
    _cache.key, _cache.until, _cache.servers = key, now + CACHE_SECONDS, servers
    return servers


class _Cache(msgspec.Struct):
    key: bytes = b""
    until: float = 0.0
    servers: list[FoundServer] = []


_cache = _Cache()


# --- which ones to ask ----------------------------------------------------------------------


def _configured(settings: Settings, env: Mapping[str, str]) -> ServerChoice | None:
    """Return the server of the settings; None if they name no valid one."""
    try:
        return resolve_provider(configured=settings.provider, base_url=settings.base_url, model=settings.model, env=env)
    except BadAddress:
        return None


def _runs_models(settings: Settings, env: Mapping[str, str]) -> bool:
    choice = _configured(settings, env)
    return choice is not None and choice.provider == "local"


def _candidates(settings: Settings, env: Mapping[str, str]) -> list[_Candidate]:
    found: list[_Candidate] = []
    choice = _configured(settings, env)
    if choice is not None and choice.provider in ("ollama", "openai"):
        token, problem = _token(settings, env)
        if token is None and not (choice.provider == "ollama" and is_loopback(choice.base_url)):
            token = env.get("LLM_AUTH_TOKEN", "").strip()
        provider: Literal["ollama", "openai"] = "ollama" if choice.provider == "ollama" else "openai"
        found.append(_Candidate(provider, choice.base_url, token or "", problem=problem, configured=True))
    for name, server in settings.servers.items():
        token, problem = _token(server, env)
        found.append(_Candidate(server.kind, server.base_url, token or "", setting=name, problem=problem))
    if settings.find_servers:
        found += [_Candidate(provider, address, guessed=True) for provider, address in _guesses(env)]
    unique: list[_Candidate] = []
    for candidate in found:
        before = next((other for other in unique if same_server(other.address, candidate.address)), None)
        if before is None or (candidate.setting and before.setting):  # two names may be two accounts
            unique.append(candidate)
        elif candidate.setting:  # the configured one has a name, perhaps with its own token
            before.address, before.setting, before.provider = candidate.address, candidate.setting, candidate.provider
            before.token, before.problem = candidate.token or before.token, candidate.problem or before.problem
    return unique


def _guesses(env: Mapping[str, str]) -> list[tuple[Literal["ollama", "openai"], str]]:
    guesses = list(LOCAL_SERVERS)
    try:
        host = ollama_host(env.get("OLLAMA_HOST", ""))
    except BadAddress:
        return guesses
    return [("ollama", host), *guesses] if env.get("OLLAMA_HOST", "").strip() and is_loopback(host) else guesses


def _token(source: Settings | ServerSettings, env: Mapping[str, str]) -> tuple[str | None, str]:
    token, problem = read_token(source, env)
    return token, str(problem) if problem is not None and not problem.ignored else ""


def _server(candidate: _Candidate, base: str) -> FoundServer:
    return FoundServer(
        name="",
        kind=OLLAMA if candidate.provider == "ollama" else COMPATIBLE,
        provider=candidate.provider,
        base_url=base,
        setting=candidate.setting,
        configured=candidate.configured,
    )


def _own_models(settings: Settings, env: Mapping[str, str]) -> FoundServer:
    """Return the entry of the models that the program runs itself."""
    return FoundServer(name=LOCAL, kind=OWN, provider="local", base_url="", configured=_runs_models(settings, env))


def _named(servers: Sequence[FoundServer]) -> list[FoundServer]:
    """Give every server a unique name; names of the settings stay."""
    used = {LOCAL, *(server.setting for server in servers)}
    named: list[FoundServer] = []
    for server in servers:
        name = server.setting
        if not name:
            base = server.kind.lower().replace(" ", "-") if server.kind != COMPATIBLE else CONFIGURED
            port = urlsplit(server.base_url).port
            choices = (base, f"{base}-{port}", *(f"{base}-{number}" for number in range(2, 100)))
            name = next(choice for choice in choices if choice not in used)
            used.add(name)
        named.append(msgspec.structs.replace(server, name=name))
    return named


# --- asking ---------------------------------------------------------------------------------


async def _ask(candidate: _Candidate, env: Mapping[str, str]) -> FoundServer | None:
    """Return what is known of a server; None if it was only guessed and there is none."""
    try:
        target = endpoint(candidate.address, candidate.token, {} if candidate.guessed else env)
    except BadAddress:
        return None
    server = _server(candidate, target.base)
    if candidate.problem:
        return msgspec.structs.replace(server, reachable=False, problem=candidate.problem)
    wire = Wire(candidate.provider, target, _LIMITS)
    try:
        async with asyncio.timeout(_TOTAL):
            identify = _ollama if candidate.provider == "ollama" else _compatible
            found = await identify(wire, server, is_loopback(target.base))
    except (WireFault, TimeoutError) as error:
        if candidate.guessed:
            return None
        fault = error.fault if isinstance(error, WireFault) else None
        problem = fault.message if fault is not None else f"{target.base} did not answer in time."
        unauthorized = fault is not None and fault.status in _UNAUTHORIZED
        return msgspec.structs.replace(
            server, reachable=unauthorized, problem=NEEDS_TOKEN if unauthorized else one_line(problem, 200)
        )
    finally:
        await wire.aclose()
    if found is None and not candidate.guessed:
        return msgspec.structs.replace(server, problem=f"{target.base} does not answer as a model server.")
    return found


async def _ollama(wire: Wire, server: FoundServer, _: bool) -> FoundServer | None:
    version = as_object(await wire.fetch_json("GET", "/api/version")).get("version")
    tags = as_object(await wire.fetch_json("GET", "/api/tags"))
    if not isinstance(version, str) or not isinstance(tags.get("models", ""), list | None):
        return None
    return msgspec.structs.replace(server, version=_short(version))


async def _compatible(wire: Wire, server: FoundServer, on_this_machine: bool) -> FoundServer | None:
    """Identify an OpenAI-compatible server. A remote one is only asked for its models."""
    answer = await _answer(wire, "/models")
    if isinstance(answer, WireFault):
        if not on_this_machine:
            raise answer
        return await _closed(wire, server, answer)
    entries = model_entries(answer)
    if not _lists_models(answer, entries):
        return None
    if not on_this_machine:
        return server
    if is_llama_cpp(entries) or not entries:
        props = as_object(await _optional(wire, "//props"))
        if props.get("role") == "router" or is_router(entries):
            return msgspec.structs.replace(server, kind=ROUTER, version=_build(props))
        if "build_info" in props or entries:
            return msgspec.structs.replace(server, kind=LLAMA_CPP, version=_build(props))
    if any(entry.get("owned_by") == "vllm" for entry in entries):
        version = as_object(await _optional(wire, "//version")).get("version")
        return msgspec.structs.replace(server, kind=VLLM, version=_short(version))
    studio = [as_object(await _optional(wire, path)) for path in ("//api/v1/models", "//api/v0/models")]
    if any("loaded_instances" in entry for entry in objects_in(studio[0].get("models"))) or any(
        "state" in entry for entry in model_entries(studio[1])
    ):
        return msgspec.structs.replace(server, kind=LM_STUDIO)
    return server


async def _closed(wire: Wire, server: FoundServer, error: WireFault) -> FoundServer | None:
    """Identify a server on this machine that requires a token, or is still loading its model."""
    body = error.body.lower()
    if error.fault.status == 503 and "loading model" in body:
        return msgspec.structs.replace(server, kind=LLAMA_CPP, problem="is loading its model")
    if error.fault.status not in _UNAUTHORIZED:
        raise error
    closed = msgspec.structs.replace(server, problem=NEEDS_TOKEN)
    if "authentication_error" in body:
        return msgspec.structs.replace(closed, kind=LLAMA_CPP)
    version = as_object(await _optional(wire, "//version")).get("version")
    if isinstance(version, str) and '"unauthorized"' in body:
        return msgspec.structs.replace(closed, kind=VLLM, version=_short(version))
    raise error


def _lists_models(answer: Any, entries: Sequence[dict[str, Any]]) -> bool:
    """Return whether this is a list of models, and not the answer of some other program."""
    if not isinstance(answer, dict) or answer.get("object") != "list" or not isinstance(answer.get("data"), list):
        return False
    return all(isinstance(entry.get("id"), str) for entry in entries) and len(entries) == len(answer["data"])


async def _answer(wire: Wire, path: str) -> Any:
    try:
        return await wire.fetch_json("GET", path)
    except WireFault as error:
        return error


async def _optional(wire: Wire, path: str) -> Any:
    """Return an answer that may be missing."""
    answer = await _answer(wire, path)
    return None if isinstance(answer, WireFault) else answer


def _build(props: dict[str, Any]) -> str:
    build = _short(props.get("build_info"))
    return "" if build.startswith("b0-") else build


def _short(version: Any) -> str:
    return one_line(clean(version), 30) if isinstance(version, str) else ""


__all__ = ["FoundServer", "find_servers", "is_loopback", "known_servers", "same_server"]
