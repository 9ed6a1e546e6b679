"""What a browser can do: each request is read into one of these, and handed to the session."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

import msgspec

from tui_agent.domain import Answer, ApprovalMode, Mode, Scope
from tui_agent.frontends.web.door import WebDoor
from tui_agent.frontends.web.feed import Feed, decisive

log = logging.getLogger(__name__)

STOPPING = 10.0
"""Seconds that a run gets to end before the conversation is cleared."""


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST."""


class Say(Wish, frozen=True, forbid_unknown_fields=True):
    """Something for the agent."""

    message: str
    steering: bool = False


class Decide(Wish, frozen=True, forbid_unknown_fields=True):
    """The answer to a request."""

    id: str
    verdict: Literal["approve", "reject", "reply", "withdrawn"]
    scope: Scope = Scope.ONCE
    text: str = ""
    data: dict[str, Any] | None = None


class Switch(Wish, frozen=True, forbid_unknown_fields=True):
    """Another mode, another approval mode, or both."""

    mode: Mode | None = None
    approval_mode: ApprovalMode | None = None


class Settle(Wish, frozen=True, forbid_unknown_fields=True):
    """What becomes of the proposal for the plan document; `seen` is the sha256 of what was shown."""

    accept: bool
    seen: str


class Shell(Wish, frozen=True, forbid_unknown_fields=True):
    """A command of the user's own."""

    command: str


class Named(Wish, frozen=True, forbid_unknown_fields=True):
    """A request or a message."""

    id: str


class Enter(Wish, frozen=True, forbid_unknown_fields=True):
    """A ticket, to be exchanged for the token."""

    ticket: str


class Nothing(Wish, frozen=True, forbid_unknown_fields=True):
    """`{}`."""


W = TypeVar("W", bound=Wish)


def read(body: bytes, kind: type[W]) -> W:
    """The wish that a body holds. Raises ValueError with a sentence."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the request was not understood: {error}") from error


class Doing:
    """Hands wishes on. What takes its time goes on behind the answer, and what comes of it is on the stream."""

    def __init__(self, door: WebDoor, feed: Feed) -> None:
        self._door = door
        self._feed = feed
        self._going: set[asyncio.Task[None]] = set()
        self._clearing = asyncio.Lock()

    async def say(self, wish: Say) -> str:
        """Returns the message's id. Raises ValueError for an empty message."""
        if not wish.message.strip():
            raise ValueError("an empty message says nothing")
        return await self._door.send(
            wish.message, steering=wish.steering, message=f"m-{secrets.token_hex(6)}"
        )

    def decide(self, wish: Decide) -> bool:
        """False when it was decided before, or is not asked any more."""
        answer = Answer(verdict=wish.verdict, scope=wish.scope, text=wish.text, data=wish.data)
        return self._door.answer(wish.id, answer)

    async def interrupt(self) -> None:
        """Stop what goes on."""
        await self._door.interrupt()

    def withdraw(self, message: str) -> bool:
        """Take a message back that waits; False when it does not."""
        return self._door.withdraw_message(message)

    async def switch(self, wish: Switch) -> None:
        """Nothing changes where nothing is given."""
        if wish.mode is not None or wish.approval_mode is not None:
            await self._door.set_modes(mode=wish.mode, approval_mode=wish.approval_mode)

    async def settle(self, wish: Settle) -> bool:
        """False when nothing was written or dropped."""
        return await self._door.settle_plan(wish.accept, wish.seen)

    def shell(self, wish: Shell) -> None:
        """Run it; its end is on the stream. Raises ValueError for an empty command."""
        if not wish.command.strip():
            raise ValueError("an empty command does nothing")
        self._behind(self._door.run_shell(wish.command))

    def reveal(self, wish: Named) -> Any:
        """The exact action of an open request, with its secrets. Raises ValueError when it is not open."""
        asked = self._feed.requests.get(wish.id)
        if asked is None:
            raise ValueError("this is not asked any more")
        return decisive(msgspec.to_builtins(asked.action))

    async def clear(self) -> None:
        """The model forgets what was said (seed 001): the run is stopped, and what waits is withdrawn. The record of it
        stays, and so do plan and files. Raises ValueError with a reason."""
        async with self._clearing:
            for message, _ in self._door.queue.order():
                self._door.withdraw_message(message)
            if self._door.busy:
                await self._stop()
            try:
                self._door.checkpoints.clear()
            except Exception as error:  # a sentence for the user: CannotUndo
                raise ValueError(str(error)) from error

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(STOPPING):
                while self._door.busy:  # the first stop may only end the planning
                    await self._door.interrupt()
                    await asyncio.sleep(0)
        except TimeoutError as error:
            raise ValueError("what goes on could not be stopped; nothing was cleared") from error

    def _behind(self, job: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await job
            except Exception:
                log.exception("a wish of the page's failed")

        task = asyncio.create_task(guarded())
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    async def close(self) -> None:
        """Stop what goes on behind."""
        for task in tuple(self._going):
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
