"""Which models there are to choose from, what choosing one would mean, and the choice itself (M5, M6, U4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from tui_agent.domain import Fault, ModelInfo
from tui_agent.engine.brain import Brain
from tui_agent.engine.roles import OWN, Roles
from tui_agent.engine.state import SessionStream
from tui_agent.models.catalog import answers
from tui_agent.models.selection import Role

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

    def __init__(self, roles: Roles, stream: SessionStream) -> None:
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
            answers=answers(info),
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
        return brain.num_ctx if isinstance(brain, Brain) else None

    async def choose(self, role: str, name: str) -> str:
        """Give a role a model; an empty name takes the choice back. Returns why it can't be, empty when it is done.

        The session's own counts from the next message on, since a run keeps the model that it began with.
        """
        if name:
            info = await self._roles.model.describe(name)
            if not isinstance(info, Fault) and not self._candidate(name, info).answers:
                return f"{name} makes embeddings; it can't answer."
        fault = await self._roles.choose(role, name)
        return "" if fault is None else f"{fault.message} {fault.advice}".strip()


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
        return ["It makes embeddings; it can't answer."]
    own, said = role in OWN, []
    if now is not None and new.name == now.name:
        said.append("It is the session's model." if not own else "It is in use.")
    elif provider == "ollama" and not new.loaded:
        said.append(
            "It has to be loaded first." if own else "Each change between the two loads one, unless both fit."
        )
    if own and new.window and window and new.window != window:
        said.append(f"A window of {new.window:,} tokens instead of {window:,}.")
        if used and used > 0.7 * new.window:
            said.append(f"The conversation has {used:,}: older parts of it will be summed up.")
    if own and new.tools is False:
        said.append("It takes no tool calls: they are asked for as text.")
    return said


__all__ = ["CHOICES", "Candidate", "ModelChoice", "outlook"]
