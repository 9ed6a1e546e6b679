"""Lists the models of all servers, and changes those of a session (M5, L3)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.models.roles import SESSION_ROLES, ModelRoles
from tui_agent.engine.models.server import (
    Server,
    ServerError,
    connect_listed,
    connect_server,
    connects_alike,
    listed_token,
)
from tui_agent.events import Notice, RunEnded
from tui_agent.models.base import LoadsModels, Model
from tui_agent.models.catalog import can_answer, served_name
from tui_agent.models.discovery import FoundServer, find_servers, is_loopback, same_server
from tui_agent.models.local.memory import Memory, read_memory
from tui_agent.models.selection import Role
from tui_agent.settings import ServerSettings, Settings, read_tokens
from tui_agent.text import with_full_stop

if TYPE_CHECKING:
    from tui_agent.models.wire import Wire

CHOICES: tuple[Role, ...] = ("execution", "planning", "dispatcher", "summary", "title", "explorer")
"""Roles with selectable models; `execution` is the session's own."""
CONCURRENT_DESCRIPTIONS = 4
"""Models described by a server at the same time."""
LISTING_SECONDS = 5.0
"""How long the other servers may take to list their models when a model is looked for by name."""
MAX_DESCRIBED = 300
"""Maximum models described by a server."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a server, as far as it is described."""

    name: str
    server: str = ""
    """Name of its server; two servers may have models of the same name."""
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
    loaded: bool | None = None
    state: str = ""
    """Another state, such as `loading` or `failed`."""
    where: str = ""
    """Where the loaded model is: `graphics`, `memory`, or a share such as `60% graphics`."""
    speed: float | None = None
    """Tokens per second when it was last used or measured."""
    size: int | None = None
    """Bytes of the weights."""
    build: str = ""
    advice: str = ""
    """What its window takes on this machine, or what to do so that it fits, in a sentence (L4)."""
    problem: str = ""
    """Why it could not be described."""


class ModelChoice:
    """Lists and chooses the models of a session. Every choice is an event, so a resume keeps it."""

    def __init__(self, roles: ModelRoles, stream: SessionStream) -> None:
        self._roles = roles
        self._stream = stream
        self._keys: dict[tuple[str, str], str] = {}
        """Address of a server, and its name in the settings → the key that the user typed for it."""
        self._masked: set[str] = set()
        self._servers: list[FoundServer] = []
        self._clients: dict[tuple[str, ServerSettings | None, str], Model] = {}
        """Address, settings and token of another server → the client that lists its models."""
        roles.chosen = dict(stream.state.roles)

    @property
    def endpoint(self) -> str:
        """The server's address for display."""
        return self._roles.model.endpoint

    @property
    def provider(self) -> str:
        """`ollama`, `openai`, `local` or `scripted`."""
        return self._roles.model.provider

    def new_wire(self) -> Wire | None:
        """Return another connection to the session's server, with its token; None if there is no server. The caller
        closes it."""
        from tui_agent.models.exchange import HttpModel

        model = self._roles.model
        return model.new_wire() if isinstance(model, HttpModel) else None

    @property
    def fault(self) -> Fault | None:
        """Why the session has no model, as far as known."""
        return self._roles.fault

    async def use_settings(self, settings: Settings, key: str = "", *, moves: bool = False) -> str:
        """Use the server and the models of other settings from the next request on; a run keeps its own.

        `key` is a key that the user typed: it is sent to the server of these settings only, and stays in memory. A
        server that the user chose from the list stays, unless the settings name another one now, or `moves`: the user
        wants the one that they name. Returns why there is no model now, or an empty string.
        """
        before, roles = self._roles.settings, self._roles
        names = ("provider", "base_url", "token_env", "token_file")
        moves = moves or bool(key) or any(getattr(before, name) != getattr(settings, name) for name in names)
        listed = None if moves else roles.listed_server
        await self._mask_tokens(settings)
        self._forget_keys(before, settings)
        if (
            not key
            and roles.fault is None
            and listed == roles.listed_server
            and _connects_alike(before, settings, listed)
        ):
            await roles.use_settings(settings)
            is_other = settings.model and settings.model != before.model
            return await self.choose(SESSION_ROLES[1], settings.model) if settings.model and is_other else ""
        try:
            server = await self._connect(settings, listed, key)
        except ServerError as error:
            return str(error)
        await roles.use_server(server, settings)
        config = await roles.config()
        if key and not (roles.fault is not None and roles.fault.is_unauthorized):
            self._keys[server.model.endpoint, ""] = key
        if isinstance(config, RunEnded):
            return config.text
        self._warn(server)
        return ""

    async def _connect(self, settings: Settings, listed: FoundServer | None, key: str = "") -> Server:
        """Make the client of a server of the list, None for the one of the settings, with its own token or the key that
        the user typed for it. Raises ServerError."""
        if key:
            self._mask(key)
        if listed is not None:
            typed = key or self._typed_key(listed)
            return await asyncio.to_thread(connect_listed, settings, listed, typed)
        server = await asyncio.to_thread(connect_server, settings, None, key)
        if not key and (typed := self._keys.get((server.model.endpoint, ""), "")):
            server = await asyncio.to_thread(connect_server, settings, None, typed)
        return server

    def _forget_keys(self, before: Settings, settings: Settings) -> None:
        """Forget the typed keys of servers whose token comes from elsewhere now."""
        changed = {name for name, server in before.servers.items() if settings.servers.get(name) != server}
        if (before.token_env, before.token_file) != (settings.token_env, settings.token_file):
            changed.add("")
        self._keys = {of: key for of, key in self._keys.items() if of[1] not in changed}

    async def _mask_tokens(self, settings: Settings) -> None:
        """Mask the tokens of all servers: their files may have changed."""
        self._mask(*await asyncio.to_thread(read_tokens, settings))

    def _mask(self, *secrets: str) -> None:
        for secret in secrets:
            if secret not in self._masked:
                self._masked.add(secret)
                self._stream.mask.add({f"token {len(self._masked)} of a server": secret})

    def _warn(self, server: Server) -> None:
        if server.caution:
            self._stream.emit(Notice(level="warning", text=server.caution, code="session.opening"))

    # --- servers ---

    async def servers(self, *, fresh: bool = False) -> list[FoundServer]:
        """Return the servers that can be chosen, the session's own first (L3). `fresh`: look for them again."""
        if self.provider == "scripted":
            return []
        settings = self._roles.settings
        await self._mask_tokens(settings)
        found = await find_servers(settings, os.environ, fresh=fresh)
        listed = self._roles.listed_server
        if listed is not None and not any(self.is_current(server) for server in found):
            found = [listed, *found]  # it does not answer now
        self._servers = sorted(found, key=lambda server: not self.is_current(server))
        return self._servers

    def is_current(self, server: FoundServer) -> bool:
        """Return whether the session uses this server."""
        listed = self._roles.listed_server
        if listed is not None:
            is_named_so = listed.setting == server.setting or not (listed.setting and server.setting)
            return is_named_so and same_server(listed.address, server.address)
        is_unnamed = not server.setting and server.provider != "local"
        return server.configured or (is_unnamed and same_server(self.endpoint, server.address))

    async def _client(self, server: FoundServer | None) -> Model:
        """Return a client of a server, None for the session's own. Raises ServerError."""
        if server is None or self.is_current(server):
            return self._roles.model
        settings = self._roles.settings
        token = self._typed_key(server) or await asyncio.to_thread(listed_token, settings, server)
        of = server.address, settings.servers.get(server.setting), token
        if of not in self._clients:
            made = await self._connect(settings, server)
            self._mask(*filter(None, [token]))
            self._clients[of] = self._roles.keep(made.model)
        return self._clients[of]

    def _typed_key(self, server: FoundServer) -> str:
        return self._keys.get((server.base_url, "" if server.configured else server.setting), "")

    # --- models ---

    async def listed(self, server: FoundServer | None = None) -> list[Candidate] | Fault:
        """List the models of a server, by default the session's own, by name and not yet described."""
        try:
            client = await self._client(server)
        except ServerError as error:
            return Fault(kind="unreachable", message=str(error))
        names = await client.list_models()
        if isinstance(names, Fault):
            return names
        return [self._candidate(name, None, server) for name in sorted(set(names))]

    async def describe(
        self, names: Sequence[str], on_model: Callable[[Candidate], object], server: FoundServer | None = None
    ) -> None:
        """Describe these models of a server, and call `on_model` with each one."""
        slots = asyncio.Semaphore(CONCURRENT_DESCRIPTIONS)
        client = await self._client(server)
        is_here = client.provider == "local" or (client.provider != "scripted" and is_loopback(client.endpoint))
        memory = await asyncio.to_thread(read_memory) if is_here else Memory()

        async def ask(name: str) -> None:
            async with slots:
                info = await client.describe(name)
            candidate = self._candidate(name, info, server)
            if isinstance(info, ModelInfo) and candidate.window:
                advice = _advice(info, memory, client.provider, candidate.window)
                candidate = msgspec.structs.replace(candidate, advice=advice)
            on_model(candidate)

        await asyncio.gather(*(ask(name) for name in names[:MAX_DESCRIBED]))

    def _candidate(self, name: str, info: ModelInfo | Fault | None, server: FoundServer | None = None) -> Candidate:
        catalog = self._roles.catalog.current
        label = catalog.label(name)
        is_own = server is None or self.is_current(server)
        listed = self._roles.listed_server if server is None else None if server.configured else server
        used = f"{listed.address if listed is not None else ''} {name}"
        candidate = Candidate(
            name=name,
            server="" if server is None else server.name,
            label="" if label == name else label,
            speed=self._stream.state.speeds.get(used) or catalog.entry(name).calibration.tokens_per_second,
        )
        if info is None:
            return candidate
        if isinstance(info, Fault):
            return msgspec.structs.replace(candidate, described=True, problem=info.message)
        capabilities = info.capabilities
        provider = "" if is_own or server is None else server.provider
        return msgspec.structs.replace(
            candidate,
            described=True,
            tools=None if capabilities is None else "tools" in capabilities,
            thinks=None if capabilities is None else "thinking" in capabilities,
            sees=None if capabilities is None else "vision" in capabilities,
            answers=can_answer(info),
            window=self._roles.expected_window(info, provider),
            trained=info.context_window,
            loaded=info.loaded,
            state=info.state,
            where=_where(info),
            size=info.size,
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

    # --- choosing ---

    async def choose(self, role: str, name: str, server: str = "") -> str:
        """Choose a model for a role; an empty name revokes the choice. Returns why it failed, or an empty string.

        `server` is the name of its server. Without one, `name` is looked for on the session's server, then on the
        others; `server:model` names both. A run keeps its model: the session's changes with the next message.
        """
        found: FoundServer | None = None
        if name:
            target = await self._find(name, server)
            if isinstance(target, str):
                return target
            found, name = target
        if found is not None and not self.is_current(found):
            if role in SESSION_ROLES:
                return await self._switch(found, name)
            return f"A role uses the session's server, {self.endpoint}; {name} is on {found.name}."
        if name:
            info = await self._roles.model.describe(name)
            if not isinstance(info, Fault) and not can_answer(info):
                return _embedding_only(name)
        fault = await self._roles.choose(role, name)
        return "" if fault is None else fault.full_message

    async def _find(self, name: str, server: str) -> tuple[FoundServer | None, str] | str:
        """Return the server and the name of a model, None for the session's server, or why there is none."""
        if server:
            servers = self._servers or await self.servers()
            found = next((other for other in servers if other.name == server), None)
            return (found, name) if found is not None else f"There is no server {server}."
        own = await self._roles.model.list_models()
        if not isinstance(own, Fault) and served_name(name, own):
            return None, name
        others = [other for other in await self.servers() if not self.is_current(other)]
        prefix, _, rest = name.partition(":")
        for other in self._servers:
            if rest and other.name == prefix:
                return other, rest
        having = [other for other, served in await self._listings(others) if served_name(name, served)]
        if len(having) > 1:
            choices = " or ".join(f"`{other.name}:{name}`" for other in having)
            return f"Several servers have {name}: choose {choices}."
        return (having[0] if having else None), name

    async def other_models(self) -> list[str]:
        """Return the models of the other servers that answer, as `server:model`."""
        others = [server for server in await self.servers() if not self.is_current(server)]
        return [f"{server.name}:{name}" for server, names in await self._listings(others) for name in names]

    async def _listings(self, servers: Sequence[FoundServer]) -> list[tuple[FoundServer, tuple[str, ...]]]:
        """Return the models of the servers that answer within LISTING_SECONDS."""

        async def names(server: FoundServer) -> tuple[str, ...]:
            try:
                listed = await asyncio.wait_for(self.listed(server), LISTING_SECONDS)
            except TimeoutError:
                return ()
            return () if isinstance(listed, Fault) else tuple(candidate.name for candidate in listed)

        usable = [server for server in servers if server.may_answer]
        return list(zip(usable, await asyncio.gather(*map(names, usable)), strict=True))

    def chosen_at(self, address: str) -> FoundServer | None:
        """Return the server at an address that the session uses because the user chose it, or that the settings name;
        None for the one of `base_url`, or an unknown one."""
        listed = self._roles.listed_server
        servers = [listed] if listed is not None else []
        servers += [server for server in self._servers if server.setting and not self.is_current(server)]
        return next((one for one in servers if one.base_url and same_server(one.base_url, address)), None)

    async def use_server(
        self, found: FoundServer, key: str = "", name: str = "", settings: Settings | None = None
    ) -> str:
        """Use a server of the list, with a key that the user typed for it, which stays in memory.

        Without `name`, models.json or the server's own list suggests the model. `settings` name the server, and are
        used if it answers. Returns why that failed, or an empty string; then nothing is changed.
        """
        try:
            server = await self._connect(self._roles.settings, found, key)
        except ServerError as error:
            return str(error)
        if problem := await self._adopt(server, name):
            return problem
        if settings is not None:
            await self._roles.use_settings(settings)
            self._roles.listed_server = None
        if key:
            self._keys[server.model.endpoint, found.setting if settings is None else ""] = key
        return ""

    async def _adopt(self, server: Server, name: str) -> str:
        fault = await self._roles.switch_server(server, name)
        if fault is not None:
            return fault.full_message
        self._warn(server)
        return ""

    async def _switch(self, found: FoundServer, name: str) -> str:
        """Use a model of another server. Returns why it failed, or an empty string; then nothing is changed."""
        try:
            client = await self._client(found)
            names = await client.list_models()
            if isinstance(names, Fault):
                return names.full_message
            if not (served := served_name(name, names)):
                return f"{found.name} has no model {name}."
            info = await client.describe(served)
            if not isinstance(info, Fault) and not can_answer(info):
                return _embedding_only(served)
            server = await self._connect(self._roles.settings, found)
        except ServerError as error:
            return str(error)
        return await self._adopt(server, served)

    async def set_loaded(self, model: Candidate, wanted: bool) -> str:
        """Load a model into the memory of its server, or remove it. Returns why it failed, or an empty string."""
        server = next((server for server in self._servers if server.name == model.server), None)
        try:
            client = await self._client(server)
        except ServerError as error:
            return str(error)
        if not isinstance(client, LoadsModels):
            return f"{client.endpoint} does not load models on request."
        roles, name = self._roles, model.name
        keep_alive = roles.catalog.current.entry(name).options.keep_alive or roles.settings.keep_alive
        fault = await (client.load(name, model.window, keep_alive) if wanted else client.unload(name))
        return "" if fault is None else fault.full_message


def _connects_alike(before: Settings, settings: Settings, listed: FoundServer | None) -> bool:
    """Return whether the client of a server, None for the one of the settings, serves for both settings."""
    same = listed is None or before.servers.get(listed.setting) == settings.servers.get(listed.setting)
    return same and connects_alike(before, settings)


def _advice(info: ModelInfo, memory: Memory, provider: str, window: int) -> str:
    """Return what to do so that a model fits, or else what its window takes; empty if that is unknown."""
    from tui_agent.models.local.fit import memory_advice

    advised = memory_advice(info, memory, provider, window)
    if advised.tips:
        return advised.tips[0]
    cost = next((fact for fact in advised.facts if "1,000 tokens" in fact), "")
    return with_full_stop(cost[:1].upper() + cost[1:]) if cost else ""


def _embedding_only(name: str) -> str:
    return f"{name} only makes embeddings and can't chat."


def _where(info: ModelInfo) -> str:
    """Return where a loaded model is, as far as the server reports it."""
    if not info.loaded or not info.memory or info.graphics_memory is None:
        return ""
    share = round(100 * info.graphics_memory / info.memory)
    return "graphics" if share >= 99 else f"{share}% graphics" if share else "memory"


def consequences(
    current: Candidate | None, new: Candidate, *, role: str, window: int | None, used: int | None
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
    is_other_server = current is not None and new.server != current.server
    if is_other_server and not is_own:
        return ["Roles use models of the session's server."]
    if current is not None and (new.server, new.name) == (current.server, current.name):
        sentences.append("It is the session's model." if not is_own else "In use now.")
    elif new.state == "failed":
        sentences.append("Its server could not load it.")
    elif new.loaded is False:
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
    return [*sentences, new.advice] if new.advice else sentences


__all__ = ["CHOICES", "Candidate", "ModelChoice", "consequences"]
