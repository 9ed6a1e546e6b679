"""The page of a session (X4): its routes, what a browser may ask for, and the stream of events."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tui_agent.common.domain import Action, Answer, ApprovalMode, EditAction, Mode, Scope
from tui_agent.engine.api import SessionApi
from tui_agent.frontends.web.edits import AnswerChange, answer_data, diff_with_edits, part_text
from tui_agent.frontends.web.feed import EventFrame, Feed, Reader, displayable_action
from tui_agent.frontends.web.guard import PageRefused
from tui_agent.frontends.web.serving import EmptyBody, PageServer, RequestBody, read_body
from tui_agent.text import reveal

log = logging.getLogger(__name__)

STREAMS = 8
"""Event streams at once."""
PING = 15
"""Seconds between signs of life on a silent stream."""
STUCK = 60.0
"""Seconds after which a browser that takes nothing is given up."""
STOPPING = 10.0
"""Seconds that a run gets to end before the conversation is cleared."""
PLAN_TEXT = 500_000
"""Characters of the plan document that can be shown and edited in a page when that is asked for."""


class ChatBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """A message for the agent."""

    message: str
    steering: bool = False


class AnswerBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """The answer to a request."""

    id: str
    verdict: Literal["approve", "reject", "reply", "withdrawn"]
    scope: Scope = Scope.ONCE
    text: str = ""
    data: AnswerChange | None = None
    """What was chosen or changed before approving."""


class ModesBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """Another mode, another approval mode, or both."""

    mode: Mode | None = None
    approval_mode: ApprovalMode | None = None


class ProposalBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """The proposal for the plan document; `seen` is the sha256 of what was shown."""

    seen: str


class SettleBody(ProposalBody, frozen=True, forbid_unknown_fields=True):
    """What becomes of the proposal."""

    accept: bool


class PlanTextBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """The text of the plan document, to be edited; with its secrets only when `exact` asks for that."""

    exact: bool = False


class PlanEditBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """All of the plan document as it shall be; `base` is the sha256 of the text that the edit started from."""

    text: str
    base: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ShellBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """A command of the user's own."""

    command: str


class IdBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """A request or a message."""

    id: str


class PartTextBody(IdBody, frozen=True, forbid_unknown_fields=True):
    """The text of a part of an edit that waits, to be changed; with its secrets only when `exact` asks for that."""

    place: int
    exact: bool = False


class PartsBody(IdBody, frozen=True, forbid_unknown_fields=True):
    """How an edit that waits would be with what was typed: by the place of a part, its text."""

    edits: dict[str, str]
    exact: bool = False


T = TypeVar("T")
Reply = dict[str, Any] | bool | None
"""What a route answers: data; whether it was done (False: somebody else was first); None: it was done."""


class SessionPage(PageServer):
    """A session's page while it is served.

    What takes long continues behind the answer, and its outcome is on the stream. Routes raise ValueError with a
    sentence for what can't be done.
    """

    def __init__(self, session: SessionApi, listener: socket.socket) -> None:
        """`listener` is what `addresses.listen` gave; it is closed with the server."""
        self._session = session
        self.feed = Feed(session)
        self._following: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clearing = asyncio.Lock()
        super().__init__(listener, *self._routes())

    def _routes(self) -> Iterator[Route]:
        commands: list[tuple[str, type[RequestBody], Callable[[Any], Awaitable[Reply]], int]] = [
            ("/clear", EmptyBody, self._clear, 409),
            ("/answer", AnswerBody, self._answer, 400),
            ("/interrupt", EmptyBody, self._interrupt, 400),
            ("/modes", ModesBody, self._modes, 400),
            ("/plan", SettleBody, self._settle, 400),
            ("/plan/proposal", ProposalBody, self._proposal, 409),
            ("/plan/text", PlanTextBody, self._plan_text, 409),
            ("/plan/edit", PlanEditBody, self._edit_plan, 400),
            ("/reveal", IdBody, self._reveal, 409),
            ("/part/text", PartTextBody, self._part_text, 409),
            ("/part/typed", PartsBody, self._preview_parts, 409),
            ("/withdraw", IdBody, self._withdraw, 400),
        ]
        for path, kind, run, status in commands:
            yield Route(path, _command(kind, run, status), methods=["POST"])
        yield Route("/chat", self._chat, methods=["POST"])
        yield Route("/shell", self._shell, methods=["POST"])
        yield Route("/events", self._events, methods=["GET"])

    async def start(self) -> None:
        """Follow the session and answer browsers."""
        self._following = asyncio.create_task(self.feed.run())
        await super().start()

    async def ended(self) -> None:
        """Until the session is closed, by whomever."""
        if self._following is not None:
            await asyncio.wait([self._following])

    async def stop(self) -> None:
        """Let go of port and connections; streams end at once, and so does what continues behind an answer."""
        self.feed.end()
        for task in (tasks := [*self._tasks]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._following is not None:
            self._following.cancel()
            (result,) = await asyncio.gather(self._following, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("the page could not follow the session", exc_info=result)
        await super().stop()

    # --- streams ---

    async def _events(self, request: Request) -> Response:
        after = request.headers.get("last-event-id", "") or request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 16):
            raise PageRefused(400, "Last-Event-ID is not a number")
        return _streamed(self._reader(int(after)).frames())

    def _reader(self, after: int) -> Reader:
        if len(self.feed.readers) >= STREAMS:
            raise PageRefused(503, f"{STREAMS} pages are already open; close one")
        return self.feed.read(after)

    async def _chat(self, request: Request) -> Response:
        """Send a message. The answer is its run, up to `done`; who wants JSON gets the message's id at once."""
        body = await read_body(request, ChatBody)
        if not body.message.strip():
            raise PageRefused(400, "the message is empty")
        message = f"m-{secrets.token_hex(6)}"
        reader = None
        if not request.headers.get("accept", "").startswith("application/json"):
            reader = self._reader(self.feed.last)
        try:
            message = await self._session.send(body.message, steering=body.steering, message=message)
        except ValueError as error:
            raise PageRefused(400, str(error)) from error
        if reader is None:
            return JSONResponse({"id": message}, 202)
        return _streamed(_until_done(reader.frames(), message))

    async def _shell(self, request: Request) -> Response:
        """Run a command; its end is on the stream."""
        body = await read_body(request, ShellBody)
        if not body.command.strip():
            raise PageRefused(400, "the command is empty")
        self._in_background(self._session.run_shell(body.command))
        return JSONResponse({"status": "ok"}, 202)

    # --- commands ---

    async def _answer(self, body: AnswerBody) -> bool:
        data: dict[str, Any] | None = None
        if body.data is not None:
            if body.verdict != "approve":
                raise ValueError("only an approved request can be edited")
            if (asked := self.feed.requests.get(body.id)) is None:
                return False
            data = answer_data(asked, body.data, self._session.mask)
        answer = Answer(verdict=body.verdict, scope=body.scope, text=body.text, data=data)
        return self._session.answer(body.id, answer)

    async def _interrupt(self, _: EmptyBody) -> None:
        await self._session.interrupt()

    async def _withdraw(self, body: IdBody) -> bool:
        return self._session.withdraw_message(body.id)

    async def _modes(self, body: ModesBody) -> None:
        if body.mode is not None or body.approval_mode is not None:
            await self._session.set_modes(mode=body.mode, approval_mode=body.approval_mode)

    async def _settle(self, body: SettleBody) -> bool:
        return await self._session.settle_plan(body.accept, body.seen)

    async def _proposal(self, body: ProposalBody) -> dict[str, Any]:
        """The plan document before and after the proposal, without their secrets, and in `cut` how many characters of
        them are not there."""
        proposal, document = self.feed.proposal, self.feed.document
        if proposal is None or proposal.sha256 != body.seen:
            raise ValueError("the proposal has changed or was decided elsewhere")
        mask = self._session.mask

        def sides() -> dict[str, Any]:
            before, after = (mask.mask(one.text) if one else "" for one in (document, proposal))
            cut = sum(max(0, len(text) - PLAN_TEXT) for text in (before, after))
            return {"before": reveal(before[:PLAN_TEXT]), "after": reveal(after[:PLAN_TEXT]), "cut": cut}

        return await asyncio.to_thread(sides)

    async def _plan_text(self, body: PlanTextBody) -> dict[str, Any]:
        """The document as it is saved, with its sha256; `hides` instead of a text whose secrets were not asked for."""
        document = self.feed.document
        if document is None:
            raise ValueError("there is no plan document yet")
        if len(document.text) > PLAN_TEXT:
            raise ValueError("the plan document is too long to be edited here")
        if not body.exact and self._session.mask.mask(document.text) != document.text:
            return {"hides": True}
        return {"text": document.text, "base": document.sha256}

    async def _edit_plan(self, body: PlanEditBody) -> Reply:
        """`merged` when others changed it meanwhile, so that not all may stand as it was typed; False when it was not
        written. Why not is on the stream, and so is what must be asked before. Whoever asked may leave then."""
        text, document = body.text, self.feed.document
        if len(text) > PLAN_TEXT:
            raise ValueError(
                f"plan_doc.md would have {len(text):,} characters; shorten it to {PLAN_TEXT:,} at most, "
                "or edit the file directly"
            )
        newest = document is not None and document.sha256 == body.base
        if newest and document is not None and "\r\n" in document.text:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")  # a browser's field knows line feeds only
        written = await asyncio.shield(self._in_background(self._session.edit_plan(text, body.base)))
        return {"status": "ok" if newest else "merged"} if written else False

    async def _reveal(self, body: IdBody) -> dict[str, Any]:
        """The exact action of an open request, with its secrets."""
        return {"action": displayable_action(msgspec.to_builtins(self._action(body.id)))}

    async def _part_text(self, body: PartTextBody) -> dict[str, Any]:
        return {"text": part_text(self._edit(body.id), body.place, self._session.mask, exact=body.exact)}

    async def _preview_parts(self, body: PartsBody) -> dict[str, Any]:
        """The difference, to be seen before it is approved (A9)."""
        action, mask = self._edit(body.id), self._session.mask
        diff = await asyncio.to_thread(diff_with_edits, action, body.edits, mask, exact=body.exact)
        shown: dict[str, Any] = displayable_action({"diff": msgspec.to_builtins(diff)})
        return {"diff": shown["diff"]}

    def _action(self, id: str) -> Action:
        if (action := self.feed.action(id)) is None:
            raise ValueError("this request is closed")
        return action

    def _edit(self, id: str) -> EditAction:
        if not isinstance(action := self._action(id), EditAction):
            raise ValueError("this request has no text to change")
        return action

    async def _clear(self, _: EmptyBody) -> None:
        """The model forgets the conversation: the run is stopped, and what waits is withdrawn. The record of it stays,
        and so do plan and files."""
        session = self._session
        async with self._clearing:
            for message, _steering in session.queue.order():
                session.withdraw_message(message)
            try:
                async with asyncio.timeout(STOPPING):
                    while session.busy:  # the first stop may only end the planning
                        await session.interrupt()
                        await asyncio.sleep(0)
            except TimeoutError as error:
                raise ValueError("the run could not be stopped; nothing was cleared") from error
            try:
                session.checkpoints.clear()
            except Exception as error:  # a sentence for the user: CannotUndo
                raise ValueError(str(error)) from error

    def _in_background(self, job: Coroutine[Any, Any, T]) -> asyncio.Task[T | None]:
        async def guarded() -> T | None:
            try:
                return await job
            except Exception:
                log.exception("a request from the page failed")
                return None

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _command(
    kind: type[RequestBody], run: Callable[[Any], Awaitable[Reply]], status: int
) -> Callable[[Request], Awaitable[Response]]:
    """A route that reads its body as `kind`; `status` is that of what can't be done."""

    async def route(request: Request) -> Response:
        body = await read_body(request, kind)
        try:
            reply = await run(body)
        except ValueError as error:
            raise PageRefused(status, str(error)) from error
        if isinstance(reply, dict):
            return JSONResponse(reply)
        return JSONResponse({"status": "settled"}, 409) if reply is False else JSONResponse({"status": "ok"})

    return route


def _streamed(frames: AsyncIterator[EventFrame]) -> Response:
    return EventSourceResponse(_sent_events(frames), ping=PING, sep="\n", send_timeout=STUCK)


async def _sent_events(frames: AsyncIterator[EventFrame]) -> AsyncIterator[ServerSentEvent]:
    async for frame in frames:
        id = None if frame.id is None else str(frame.id)
        yield ServerSentEvent(frame.data, event=frame.name, id=id, sep="\n")


async def _until_done(frames: AsyncIterator[EventFrame], message: str) -> AsyncIterator[EventFrame]:
    """Up to the end of the run that the message started or steered; a withdrawn message has no run."""
    named = f'"id":"{message}"'
    begun = False
    async for frame in frames:
        yield frame
        if frame.name == "user.said" and named in frame.data:
            begun = True
        elif frame.name == "message.withdrawn" and named in frame.data:
            yield EventFrame("done", "{}")
            return
        elif frame.name == "done" and begun:
            return
