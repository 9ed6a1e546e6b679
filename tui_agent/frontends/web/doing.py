"""What a browser can do: each request is read into one of these, and handed to the session."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from tui_agent.domain import Answer, ApprovalMode, Editing, Mode, Scope
from tui_agent.frontends.web.door import WebDoor
from tui_agent.frontends.web.edits import Given, answered
from tui_agent.frontends.web.feed import Feed, decisive
from tui_agent.frontends.web.parts import part_text, with_parts
from tui_agent.text import reveal

log = logging.getLogger(__name__)

STOPPING = 10.0
"""Seconds that a run gets to end before the conversation is cleared."""
PLAN_TEXT = 500_000
"""Characters of the plan document that can be shown and edited in a page when that is asked for."""


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
    data: Given | None = None
    """What was chosen or changed before approving."""


class Switch(Wish, frozen=True, forbid_unknown_fields=True):
    """Another mode, another approval mode, or both."""

    mode: Mode | None = None
    approval_mode: ApprovalMode | None = None


class Settle(Wish, frozen=True, forbid_unknown_fields=True):
    """What becomes of the proposal for the plan document; `seen` is the sha256 of what was shown."""

    accept: bool
    seen: str


class Seen(Wish, frozen=True, forbid_unknown_fields=True):
    """The proposal for the plan document, from end to end; `seen` is its sha256."""

    seen: str


class PlanText(Wish, frozen=True, forbid_unknown_fields=True):
    """The text of the plan document, to be edited; with its secrets only when `exact` asks for that."""

    exact: bool = False


class PlanEdited(Wish, frozen=True, forbid_unknown_fields=True):
    """All of the plan document as it shall be; `base` is the sha256 of the text that the edit began with."""

    text: str
    base: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Shell(Wish, frozen=True, forbid_unknown_fields=True):
    """A command of the user's own."""

    command: str


class Named(Wish, frozen=True, forbid_unknown_fields=True):
    """A request or a message."""

    id: str


class PartText(Wish, frozen=True, forbid_unknown_fields=True):
    """The text of a part of an edit that waits, to be changed; with its secrets only when `exact` asks for that."""

    id: str
    place: int
    exact: bool = False


class PartsTyped(Wish, frozen=True, forbid_unknown_fields=True):
    """How an edit that waits would be with what was typed: by the place of a part, its text."""

    id: str
    edits: dict[str, str]
    exact: bool = False


class Enter(Wish, frozen=True, forbid_unknown_fields=True):
    """A ticket, to be exchanged for the token."""

    ticket: str


class Nothing(Wish, frozen=True, forbid_unknown_fields=True):
    """`{}`."""


T = TypeVar("T")
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
        self._going: set[asyncio.Task[Any]] = set()
        self._clearing = asyncio.Lock()

    async def say(self, wish: Say) -> str:
        """Returns the message's id. Raises ValueError for an empty message."""
        if not wish.message.strip():
            raise ValueError("an empty message says nothing")
        return await self._door.send(
            wish.message, steering=wish.steering, message=f"m-{secrets.token_hex(6)}"
        )

    def decide(self, wish: Decide) -> bool:
        """False when it was decided before, or is not asked any more. Raises ValueError for changes that do not fit."""
        data: dict[str, Any] | None = None
        if wish.data is not None:
            if wish.verdict != "approve":
                raise ValueError("only what is approved can be changed")
            if (asked := self._feed.asked(wish.id)) is None:
                return False
            data = answered(asked, wish.data, self._door.mask)
        return self._door.answer(
            wish.id, Answer(verdict=wish.verdict, scope=wish.scope, text=wish.text, data=data)
        )

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

    async def proposed(self, wish: Seen) -> dict[str, Any]:
        """The plan document before and after the proposal, without their secrets, and in `cut` how many characters of
        them are not there. Raises ValueError with a sentence when it is another one."""
        proposal, document = self._feed.proposal, self._feed.document
        if proposal is None or proposal.sha256 != wish.seen:
            raise ValueError("the proposal is another one by now, or was decided elsewhere")
        mask = self._door.mask

        def shown() -> dict[str, Any]:
            before, after = (mask.mask(one.text) if one else "" for one in (document, proposal))
            cut = sum(max(0, len(text) - PLAN_TEXT) for text in (before, after))
            return {"before": reveal(before[:PLAN_TEXT]), "after": reveal(after[:PLAN_TEXT]), "cut": cut}

        return await asyncio.to_thread(shown)

    def plan_text(self, wish: PlanText) -> dict[str, Any]:
        """The document as it is saved, with its sha256. Where secrets are in it and were not asked for, `hides` says so
        in the place of the text. Raises ValueError while there is none."""
        document = self._feed.document
        if document is None:
            raise ValueError("there is no plan document yet")
        if len(document.text) > PLAN_TEXT:
            raise ValueError("the plan document is too long to be edited here")
        if not wish.exact and self._door.mask.mask(document.text) != document.text:
            return {"hides": True}
        return {"text": document.text, "base": document.sha256}

    async def edit_plan(self, wish: PlanEdited) -> Literal["ok", "merged", "settled"]:
        """`merged` when others changed it meanwhile, so that not all may stand as it was typed; `settled` when it was
        not written. Why not is on the stream, and so is what must be asked before. Whoever asked may go away then.

        Raises ValueError with a sentence for a text that is too long."""
        text, document = wish.text, self._feed.document
        if len(text) > PLAN_TEXT:
            raise ValueError(
                f"plan_doc.md would have {len(text):,} characters; shorten it to {PLAN_TEXT:,} at most, "
                "or edit the file itself"
            )
        newest = document is not None and document.sha256 == wish.base
        if newest and document is not None and "\r\n" in document.text:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")  # a browser's field knows line feeds only
        written = await asyncio.shield(self._behind(self._door.edit_plan(text, wish.base)))
        return ("ok" if newest else "merged") if written else "settled"

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

    def part_text(self, wish: PartText) -> str:
        """What there is to type in. Raises ValueError with a sentence where there is nothing."""
        return part_text(self._edit(wish.id), wish.place, self._door.mask, exact=wish.exact)

    async def parts_typed(self, wish: PartsTyped) -> Any:
        """The difference, to be seen before it is approved (A9). Raises ValueError with a sentence."""
        action, mask = self._edit(wish.id), self._door.mask
        diff = await asyncio.to_thread(with_parts, action, wish.edits, mask, exact=wish.exact)
        return decisive({"diff": msgspec.to_builtins(diff)})["diff"]

    def _edit(self, id: str) -> Editing:
        asked = self._feed.requests.get(id)
        if asked is None:
            raise ValueError("this is not asked any more")
        if not isinstance(asked.action, Editing):
            raise ValueError("this has no text to be changed")
        return asked.action

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

    def _behind(self, job: Coroutine[Any, Any, T]) -> asyncio.Task[T | None]:
        async def guarded() -> T | None:
            try:
                return await job
            except Exception:
                log.exception("a wish of the page's failed")
                return None

        task = asyncio.create_task(guarded())
        self._going.add(task)
        task.add_done_callback(self._going.discard)
        return task

    async def close(self) -> None:
        """Stop what goes on behind."""
        for task in tuple(self._going):
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
