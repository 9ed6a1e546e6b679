"""Which model answers, and with which window: settled once a session and model, since a change reloads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo, UserMessage
from tui_agent.engine.context.window_notices import narrow
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.models.live_catalog import LiveCatalog, described
from tui_agent.events import ModelChanged, Notice, RoleChanged, RunEnded
from tui_agent.models.base import Failed, Model, ModelRequest
from tui_agent.models.catalog import can_answer, served_name
from tui_agent.models.selection import (
    Role,
    Sampling,
    SelectedModel,
    request_options,
    select_model,
    select_session_model,
)
from tui_agent.settings import Settings

if TYPE_CHECKING:
    from tui_agent.models.catalog import Calibration
    from tui_agent.protocols.parser import Protocol

NO_SERVER = "server.missing"
"""Code of the notice that no model can be had."""
WINDOW = 32_768
"""Tokens to ask for where neither settings nor model say."""
OWN = ("", "execution")
"""Roles that the session's model itself has: it answers, and carries out the steps."""
SMALL_WINDOW = 16_384
"""Below this the user is warned once."""


def ended_by(fault: Fault) -> RunEnded:
    """How a run ends that the model's server ended."""
    return RunEnded(outcome=fault.outcome, text=fault.full_message)


def window_for(info: ModelInfo, chosen: int | None, provider: str) -> int:
    """The window of a session's requests in tokens; `chosen` is what settings or models.json say.

    Where they are silent it is the one that the server has the model loaded with, also because Ollama would load it
    anew for another one; but not one that is too small to work in, where Ollama can be asked for more.
    """
    loaded, most = info.loaded_window, info.context_window
    if provider == "openai":  # its window is what it is, and it is not asked
        if loaded:
            return min(chosen or loaded, loaded)
    elif not chosen and loaded and loaded >= SMALL_WINDOW:
        return loaded
    wanted = chosen or WINDOW
    return min(wanted, most) if most else wanted


class ModelRoles:
    """The session's model. `brain()` settles name and window on first use and keeps them."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        context_window: int | None,
        settings: Settings,
        because: str,
        tell: Callable[[Notice | ModelChanged | RoleChanged], object],
    ) -> None:
        self.model = model
        self.name = name
        self._window = context_window
        self._settings = settings
        self._because = because
        self._tell = tell
        self._brain: ModelConfig | None = None
        self._info: ModelInfo | None = None
        self._others: dict[str, tuple[int | None, ModelInfo | None]] = {}
        self._served: tuple[str, ...] | None = None
        self._missed: set[str] = set()
        self._settling = asyncio.Lock()
        self.chosen: dict[str, str] = {}
        """Role → the model that the user chose for it in this session; the first tier of M6 for `explorer`."""
        self.catalog = LiveCatalog(paths.models_file(), tell)

    @property
    def prompt(self) -> str:
        """What models.json has to tell the session's model, after the agent's rules (H1)."""
        return self.catalog.current.entry(self.name).prompt.strip()

    @property
    def protocol(self) -> Protocol | None:
        """The form of tool calls that models.json fixes for the session's model."""
        return self.catalog.current.entry(self.name).options.strategy

    @property
    def calibration(self) -> Calibration:
        """What was measured of the session's model, as models.json keeps it."""
        return self.catalog.current.entry(self.name).calibration

    async def look(self) -> None:
        """See whether the server is there and settle the model; a missing server is told with what was tried."""
        brain = await self.brain()
        self.catalog.watch()
        if isinstance(brain, RunEnded):
            text = f"{brain.text}\nTried {self.model.endpoint} ({self._because})."
            self._tell(Notice(level="error", text=text, code=NO_SERVER))

    async def brain(self) -> ModelConfig | RunEnded:
        """The model with its options, or how the run ends because there is none.

        Name and window stay as they were settled; the other options are those of models.json as it is now.
        """
        async with self._settling:
            return await self._settled()

    async def _settled(self, by: str = "") -> ModelConfig | RunEnded:
        if self._brain is None:
            if not self.catalog.opened:
                await self.catalog.open(self.model, self._list)
            if not self.name:
                chosen = await self._choose()
                if isinstance(chosen, Fault):
                    return ended_by(chosen)
                self.name = chosen
            if (absent := await self._absent()) is not None:
                return ended_by(absent)
            window = self._window or await self._settle_window()
            if isinstance(window, Fault):
                return ended_by(window)
            if self._info is None and not isinstance(info := await self.model.describe(self.name), Fault):
                self._info = info
            self._brain = ModelConfig(model=self.model, name=self.name, num_ctx=window, temperature=0, max_tokens=0)
            changed = ModelChanged(provider=self.model.provider, model=self.name, context_window=window, by=by)
            self._tell(changed)
        return msgspec.structs.replace(
            self._brain, **msgspec.structs.asdict(self.sampling("execution", self._brain.num_ctx))
        )

    async def choose(self, role: str, name: str) -> Fault | None:
        """Give `role` the model `name` for this session (M5, M6), by what the server has at this moment; an empty name
        takes the choice back. `execution` and the empty role are the session's own model, which the next message is
        worked on with. Returns why that can't be; nothing is changed then."""
        async with self._settling:
            if name:
                self._served = None
                served = await self._list()
                if isinstance(served, Fault) and served.kind == "unreachable":
                    return served
                if not isinstance(served, Fault) and not (name := served_name(given := name, served)):
                    return Fault(kind="status", message=f"{self.model.endpoint} has no model {given}.")
            if role in OWN:
                return await self._take(name or self.name)
            self.chosen.pop(role, None)
            self.chosen |= {role: name} if name else {}
            self._tell(RoleChanged(role=role, model=name))
            return None

    async def _take(self, name: str) -> Fault | None:
        before = self.name, self._window, self._info, self._brain
        if name != self.name:
            self._window = self._info = None
        self.name, self._brain = name, None
        settled = await self._settled(by="user")
        if isinstance(settled, RunEnded):
            self.name, self._window, self._info, self._brain = before
            return Fault(kind="status", message=settled.text)
        return None

    async def explorer(self, own: ModelConfig) -> ModelConfig:
        """The model of sub-agents (M6): chosen in this session, else by settings and models.json, else `own`."""
        name = (await self.select("explorer")).name
        window = own.num_ctx if name == own.name else await self.window_of(name)
        options = msgspec.structs.asdict(self.sampling("explorer", window, name))
        return ModelConfig(model=self.model, name=name, num_ctx=window, **options)

    async def window_of(self, name: str) -> int | None:
        """The window of requests to another model of the server, settled once as the session's own is."""
        if name == self.name and self._brain is not None:
            return self._brain.num_ctx
        if name not in self._others:
            info = await self.model.describe(name)
            if isinstance(info, Fault):  # it may pass: the next one asks again
                return self._chosen_window(name) or WINDOW
            self._others[name] = (window_for(info, self._chosen_window(name), self.model.provider), info)
        return self._others[name][0]

    def sampling(self, role: Role, window: int | None, name: str = "") -> Sampling:
        """The options of requests of `role` to the session's model, or to the one called `name`, with a window of so
        many tokens."""
        info = self._info if name in ("", self.name) else self._others.get(name, (None, None))[1]
        capabilities = (info.capabilities if info else None) or ()
        return request_options(
            role,
            self.catalog.current.entry(name or self.name),
            thinks="thinking" in capabilities,
            window=window,
            temperature=self._settings.temperature,
            reply_tokens=self._settings.caps.reply_tokens,
            keep_alive=self._settings.keep_alive,
        )

    def window_asked(self, info: ModelInfo) -> int:
        """The window that requests to a model would have, by what the server says of it."""
        return window_for(info, self._chosen_window(info.name), self.model.provider)

    def _chosen_window(self, name: str) -> int | None:
        """What settings or models.json say of a model's window."""
        return self._settings.context_window or self.catalog.current.entry(name).window

    async def select(self, role: Role, task: str = "", *, tell: bool = True) -> SelectedModel:
        """The model of `role`; that another one was wanted which is not there is told once, unless not `tell`."""
        chosen = self._settings
        wishes = {**chosen.roles.model_dump(), "explorer": chosen.explorer_model, "small": chosen.small_model}
        own = self.chosen.get(role, "")
        found = select_model(role, self.name, self.catalog.current, None, settings=wishes, task=task, chosen=own)
        if found.missing:
            served = await self._list()
            known = None if isinstance(served, Fault) else served
            found = select_model(role, self.name, self.catalog.current, known, settings=wishes, task=task, chosen=own)
        if tell:
            self._tell_missing(found)
        return found

    def _tell_missing(self, found: SelectedModel) -> None:
        if found.missing and found.missing not in self._missed:
            self._missed.add(found.missing)
            self._tell(Notice(level="warning", text=found.missing, code="models.missing"))

    async def _list(self) -> tuple[str, ...] | Fault:
        """The server's models, asked once."""
        if self._served is None:
            found = await self.model.list_models()
            if isinstance(found, Fault):
                return found
            self._served = found
        return self._served

    async def _choose(self) -> str | Fault:
        names = await self._list()
        if isinstance(names, Fault):
            return names
        infos = [ModelInfo(name=name) for name in names]
        if not served_name(self.catalog.current.rules.default, names):
            infos = await described(self.model, names)
        chosen = select_session_model(self.catalog.current, infos, configured=self.catalog.configured)
        if chosen is None:
            return no_model(self.model, names)
        self._tell_missing(chosen)
        return chosen.name

    async def _absent(self) -> Fault | None:
        """Why the server can't answer with the model; None when it can, or when that is not sure.

        A name that is not in its list is sure to be missing only when the server says so of the model itself: some
        know aliases, some take any name.
        """
        served = await self._list() if self.model.provider != "scripted" else ()
        if isinstance(served, Fault):
            return served if served.kind == "unreachable" else None
        if not served or served_name(self.name, served):
            info = await self.model.describe(self.name)
            able = isinstance(info, Fault) or can_answer(info)
            return None if able else embeds(self.name, "Choose another one with `/model` or `--model`.")
        gone = await (self._refused() if self.model.provider == "openai" else self._unknown())
        return lacking(self.model, self.name, served) if gone else None

    async def _unknown(self) -> bool:
        info = await self.model.describe(self.name)
        return isinstance(info, Fault) and info.status == 404

    async def _refused(self) -> bool:
        """Asks for one token, since most of these servers only have a list of models; llama.cpp takes any name."""
        info = await self.model.describe(self.name)
        if isinstance(info, ModelInfo) and info.any_name:
            return False
        request = ModelRequest(model=self.name, messages=(UserMessage(text="hi"),), max_tokens=1)
        pieces = [piece async for piece in self.model.stream(request)]
        return isinstance(pieces[-1], Failed) and pieces[-1].fault.status == 404

    async def _settle_window(self) -> int | Fault:
        chosen = self._chosen_window(self.name)
        wanted = chosen or WINDOW
        info = await self.model.describe(self.name)
        if isinstance(info, Fault):
            return info if info.kind == "unreachable" else wanted
        self._info = info
        window = window_for(info, chosen, self.model.provider)
        if window < SMALL_WINDOW and self.model.provider != "scripted":
            trained = self.model.provider != "openai" and window == info.context_window
            kept = info.loaded_window or 0 if self.model.provider == "openai" and chosen else 0
            text = narrow(self.name, window, self.model.provider, trained=trained, served=kept)
            self._tell(Notice(level="warning", text=text, code="context.small"))
        return window

    async def aclose(self) -> None:
        """Close the model's connections, and watch models.json no longer."""
        await self.catalog.aclose()
        await self.model.aclose()


NAMED = 5
"""Models of the server that are named."""
PULL = "Pull one first, such as `ollama pull qwen2.5-coder:7b`, or name one with `--model`."
LOAD = "Load one there, or name one with `--model`."


def no_model(model: Model, served: Collection[str]) -> Fault:
    """The server has none that can answer."""
    advice = PULL if model.provider == "ollama" else LOAD
    if served:
        return embeds(_listed(served), advice)
    return Fault(kind="status", message=f"{model.endpoint} has no models.", advice=advice)


def embeds(name: str, advice: str) -> Fault:
    """A model that can't answer."""
    return Fault(kind="status", message=f"{name} only makes embeddings and can't chat.", advice=advice)


def lacking(model: Model, name: str, served: Collection[str]) -> Fault:
    """The model that was named is not there."""
    pull = f"Get it with `ollama pull {name}`, or choose" if model.provider == "ollama" else "Choose"
    advice = f"{pull} another one with `/model` or `--model`; available: {_listed(served)}."
    return Fault(kind="status", status=404, message=f"{model.endpoint} has no model {name}.", advice=advice)


def _listed(names: Collection[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(list(names)[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


CHOICES: tuple[Role, ...] = ("execution", "planning", "dispatcher", "summary", "title", "explorer")
"""Roles for which a model can be chosen; `execution` is the session's own."""
ASKED_AT_ONCE = 4
"""Models of which the server is asked for the facts at the same time."""
DESCRIBED = 300
"""Models of which it is asked at all."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the server, as far as is known."""

    name: str
    label: str = ""
    """What models.json calls it, where that is another name."""
    known: bool = False
    """The server was asked for its facts; None among them is what it did not say."""
    tools: bool | None = None
    thinks: bool | None = None
    sees: bool | None = None
    answers: bool = True
    """False for one that only makes embeddings."""
    window: int | None = None
    """Tokens that requests to it would have."""
    trained: int | None = None
    """Tokens that it has at most."""
    loaded: bool = False
    build: str = ""
    problem: str = ""
    """Why its facts are not to be had."""


class ModelChoice:
    """The models of a session that is open in this process; every choice is an event, so that a resume keeps it."""

    def __init__(self, roles: ModelRoles, stream: SessionStream) -> None:
        self._roles = roles
        self._stream = stream
        roles.chosen = dict(stream.state.roles)

    @property
    def endpoint(self) -> str:
        """The server, as the user is shown it."""
        return self._roles.model.endpoint

    @property
    def provider(self) -> str:
        """`ollama`, `openai` or `scripted`."""
        return self._roles.model.provider

    async def listed(self) -> list[Candidate] | Fault:
        """The server's models by name, asked now, without their facts; a fault says why there is no list."""
        names = await self._roles.model.list_models()
        return names if isinstance(names, Fault) else [self._candidate(name) for name in sorted(set(names))]

    async def describe(self, names: Sequence[str], tell: Callable[[Candidate], object]) -> None:
        """Ask the server for the facts of these models and `tell` each as it comes."""
        free = asyncio.Semaphore(ASKED_AT_ONCE)

        async def ask(name: str) -> None:
            async with free:
                info = await self._roles.model.describe(name)
            tell(self._candidate(name, info))

        await asyncio.gather(*(ask(name) for name in names[:DESCRIBED]))

    def _candidate(self, name: str, info: ModelInfo | Fault | None = None) -> Candidate:
        label = self._roles.catalog.current.label(name)
        bare = Candidate(name=name, label="" if label == name else label)
        if info is None:
            return bare
        if isinstance(info, Fault):
            return msgspec.structs.replace(bare, known=True, problem=info.message)
        able = info.capabilities
        return msgspec.structs.replace(
            bare,
            known=True,
            tools=None if able is None else "tools" in able,
            thinks=None if able is None else "thinking" in able,
            sees=None if able is None else "vision" in able,
            answers=can_answer(info),
            window=self._roles.window_asked(info),
            trained=info.context_window,
            loaded=bool(info.loaded_window),
            build=info.build,
        )

    async def current(self) -> dict[Role, tuple[str, bool]]:
        """The model of each role, and whether it was chosen for it in this session."""
        found: dict[Role, tuple[str, bool]] = {}
        state = self._stream.state
        for role in CHOICES:
            if role in OWN:
                found[role] = (self._roles.name, bool(state.chosen_model))
            else:
                selected = await self._roles.select(role, tell=False)
                found[role] = (selected.name, self._roles.chosen.get(role) == selected.name)
        return found

    async def window(self) -> int | None:
        """Tokens of the session's own requests; None as long as nothing is settled."""
        brain = await self._roles.brain()
        return brain.num_ctx if isinstance(brain, ModelConfig) else None

    async def choose(self, role: str, name: str) -> str:
        """Give a role a model; an empty name takes the choice back. Returns why it can't be, empty when it is done.

        The session's own counts from the next message on, since a run keeps the model that it began with.
        """
        if name:
            info = await self._roles.model.describe(name)
            if not isinstance(info, Fault) and not self._candidate(name, info).answers:
                return f"{name} only makes embeddings and can't chat."
        fault = await self._roles.choose(role, name)
        return "" if fault is None else fault.full_message


def outlook(
    now: Candidate | None, new: Candidate, *, role: str, window: int | None, used: int | None, provider: str
) -> list[str]:
    """What choosing `new` would mean, in sentences: `now` is the session's model, `window` that of its requests, `used`
    what the conversation takes of it."""
    if new.problem:
        return [new.problem]
    if not new.known:
        return []
    if not new.answers:
        return ["It only makes embeddings and can't chat."]
    own, said = role in OWN, []
    if now is not None and new.name == now.name:
        said.append("It is the session's model." if not own else "It is in use.")
    elif provider == "ollama" and not new.loaded:
        said.append(
            "It has to be loaded first."
            if own
            else "Switching between the two reloads a model, unless both fit in memory."
        )
    if own and new.window and window and new.window != window:
        said.append(f"A window of {new.window:,} tokens instead of {window:,}.")
        if used and used > 0.7 * new.window:
            said.append(f"The conversation has {used:,}: older parts will be summarized.")
    if own and new.tools is False:
        said.append("It has no native tool calls: they are requested as text.")
    return said


__all__ = ["CHOICES", "Candidate", "ModelChoice", "outlook"]
