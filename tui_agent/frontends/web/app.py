"""The web page of a session (X4): routes, commands from the browser, and the event stream."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tui_agent import events as e
from tui_agent.common.domain import Action, Answer, ApprovalMode, EditAction, Mode, Scope
from tui_agent.engine.api import SessionApi
from tui_agent.engine.undo import CannotUndo
from tui_agent.frontends.session_commands import SESSION_COMMANDS, clear_conversation, run_session_command
from tui_agent.frontends.web.choices import PAGE_COMMANDS, find_files, model_choices, session_choices, typing_data
from tui_agent.frontends.web.edits import AnswerEdit, answer_data, bounded_text, diff_with_edits, hunk_text
from tui_agent.frontends.web.feed import Feed, Reader, displayable_action
from tui_agent.frontends.web.guard import PageRefused
from tui_agent.frontends.web.history import EventFrame
from tui_agent.frontends.web.serving import EmptyBody, PageServer, RequestBody, read_body
from tui_agent.keys.slash import TypedCommand, message_of, read_command
from tui_agent.text import clean, make_visible, one_line, reveal

if TYPE_CHECKING:
    from tui_agent.engine.session import Session

log = logging.getLogger(__name__)

MAX_STREAMS = 8
PING_SECONDS = 15
"""Interval of keep-alive comments on a silent stream."""
SEND_SECONDS = 60.0
"""Seconds after which a browser that accepts no data is disconnected."""
PLAN_TEXT_MAX = 500_000
"""Characters of the plan document that can be shown and edited in the page."""
COMPARISONS_MAX = 4_000_000
"""Product of the numbers of lines up to which two versions of the plan document are compared line by line."""


class ChatBody(RequestBody, frozen=True):
    """A message for the agent."""

    message: str
    steering: bool = False


class AnswerBody(RequestBody, frozen=True):
    """The answer to a request."""

    id: str
    verdict: Literal["approve", "reject", "reply", "withdrawn"]
    scope: Scope = Scope.ONCE
    text: str = ""
    data: AnswerEdit | None = None
    """What was selected or edited before approving."""
    word: str = ""
    """The word that confirms a critical command."""


class ModesBody(RequestBody, frozen=True):
    """A new mode, approval mode, or both."""

    mode: Mode | None = None
    approval_mode: ApprovalMode | None = None


class ProposalBody(RequestBody, frozen=True):
    """A proposal for the plan document; `seen` is the sha256 of the one shown."""

    seen: str


class SettleBody(ProposalBody, frozen=True):
    """The decision on a proposal."""

    accept: bool


class PlanTextBody(RequestBody, frozen=True):
    """Request the plan document for editing; with `exact` its secrets are included."""

    exact: bool = False


class PlanEditBody(RequestBody, frozen=True):
    """The edited plan document; `base` is the sha256 of the text that was edited."""

    text: str
    base: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ShellBody(RequestBody, frozen=True):
    """A shell command of the user."""

    command: str


class IdBody(RequestBody, frozen=True):
    """A request or a message."""

    id: str


class MentionBody(RequestBody, frozen=True):
    """Request files for the mention at the end of `before`, the part of a line before the cursor."""

    before: Annotated[str, msgspec.Meta(max_length=4_000)]


class HunkTextBody(IdBody, frozen=True):
    """Request the text of one hunk of a pending edit; with `exact` its secrets are included."""

    index: int
    exact: bool = False


class PreviewBody(IdBody, frozen=True):
    """Preview a pending edit with changed hunks: index of the hunk → text."""

    edits: dict[str, str]
    exact: bool = False


COMMAND_NAMES = (*(command.name for command in PAGE_COMMANDS), "exit")
"""Names that can be typed after the `/`."""
SESSION_HEADER = "x-tui-agent-session"
"""Header with the id of the session whose history this is."""
REPLACED = "session.replaced"
"""Name of the frame that tells a browser that another session is shown now."""
SessionOpener = Callable[[str], Awaitable[SessionApi]]
"""Opens the session with an id, or a new one if that is empty. Raises ValueError with a sentence for the user."""
T = TypeVar("T")
CommandResult = dict[str, Any] | bool | None
"""Data; False: already settled elsewhere; True or None: done."""


class SessionPage(PageServer):
    """Serves a session's page.

    Long work continues after the response, and its outcome is on the stream. Commands raise ValueError with a sentence
    for the user if they can't be carried out.
    """

    def __init__(
        self, session: SessionApi, listener: socket.socket, *, draft: str = "", opener: SessionOpener | None = None
    ) -> None:
        """`listener` comes from `addresses.listen` and is closed by `stop`. A new session starts with `draft` typed.

        With an `opener` the page can change to another session; it closes the one before.
        """
        self._session = session
        self._opener = opener
        self._opening = asyncio.Lock()
        self._draft = draft
        self.feed = Feed(session)
        self._following: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        super().__init__(listener, *self._routes())

    def _routes(self) -> Iterator[Route]:
        commands: list[tuple[str, type[RequestBody], Callable[[Any], Awaitable[CommandResult]], int]] = [
            ("/clear", EmptyBody, self._clear, 409),
            ("/answer", AnswerBody, self._answer, 400),
            ("/interrupt", EmptyBody, self._interrupt, 400),
            ("/modes", ModesBody, self._set_modes, 400),
            ("/plan", SettleBody, self._settle_proposal, 400),
            ("/plan/proposal", ProposalBody, self._proposal, 409),
            ("/plan/text", PlanTextBody, self._plan_text, 409),
            ("/plan/edit", PlanEditBody, self._edit_plan, 400),
            ("/reveal", IdBody, self._reveal, 409),
            ("/part/text", HunkTextBody, self._hunk_text, 409),
            ("/part/preview", PreviewBody, self._preview_hunks, 409),
            ("/withdraw", IdBody, self._withdraw, 400),
            ("/mention", MentionBody, self._find_files, 409),
            ("/models", EmptyBody, self._models, 409),
            ("/sessions", EmptyBody, self._sessions, 409),
            ("/open", IdBody, self._open, 409),
        ]
        for path, kind, run, error_status in commands:
            yield Route(path, _command(kind, run, error_status), methods=["POST"])
        yield Route("/chat", self._chat, methods=["POST"])
        yield Route("/shell", self._shell, methods=["POST"])
        yield Route("/events", self._events, methods=["GET"])
        yield Route("/history", self._history, methods=["GET"])
        yield Route("/typing", self._typing, methods=["GET"])

    async def start(self) -> None:
        """Follow the session and start serving."""
        self._following = asyncio.create_task(self.feed.run())
        await super().start()

    async def ended(self) -> None:
        """Wait until the session is closed."""
        following = None
        while following is not self._following and self._following is not None:  # else another session was opened
            following = self._following
            await asyncio.wait([following])

    async def stop(self) -> None:
        """Close port and connections; streams and background work end at once."""
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
        if request.query_params.get("session", self._session.id) != self._session.id:
            return _stream_response(_one_frame(EventFrame(REPLACED, "{}")))
        return _stream_response(self._new_reader(_record_number(after, "Last-Event-ID")).frames())

    async def _history(self, request: Request) -> Response:
        """The newest part of the session, or the one before `before`; see `Feed.history`."""
        before = request.query_params.get("before")
        await self.feed.caught_up.wait()
        number = None if before is None else _record_number(before, "before")
        return Response(
            self.feed.history(number), media_type="application/json", headers={SESSION_HEADER: self._session.id}
        )

    async def _typing(self, _: Request) -> Response:
        """What typing needs; see `typing_data`. `draft` is the text that the composer starts with."""
        return JSONResponse({**typing_data(), "draft": self._draft})

    async def _find_files(self, body: MentionBody) -> dict[str, Any]:
        return await find_files(self._session, body.before)

    def _new_reader(self, after: int) -> Reader:
        if len(self.feed.readers) >= MAX_STREAMS:
            raise PageRefused(503, f"{MAX_STREAMS} pages are already open; close one")
        return self.feed.read(after)

    async def _chat(self, request: Request) -> Response:
        """Send a message. The response streams its run up to `done`; a client that wants JSON gets the message id.

        A slash command is carried out instead, and the response is what it says. It never reaches the model.
        """
        body = await read_body(request, ChatBody)
        if not body.message.strip():
            raise PageRefused(400, "the message is empty")
        if (command := read_command(body.message, COMMAND_NAMES)) is not None:
            return await self._run_command(command)
        message_id = f"m-{secrets.token_hex(6)}"
        reader = None
        if not request.headers.get("accept", "").startswith("application/json"):
            reader = self._new_reader(self.feed.last)
        try:
            text = message_of(body.message)
            message_id = await self._session.send(text, steering=body.steering, message=message_id)
            self._draft = ""
        except ValueError as error:
            raise PageRefused(400, str(error)) from error
        if reader is None:
            return JSONResponse({"id": message_id}, 202)
        return _stream_response(_until_done(reader.frames(), message_id))

    async def _run_command(self, command: TypedCommand) -> Response:
        """Carry out a command; it continues if the client leaves, since it may wait for an answer to a question."""
        name = command.name
        if command.problem:
            raise PageRefused(400, command.problem)
        if name not in SESSION_COMMANDS:
            raise PageRefused(
                400, f"/{name} is a command of the screen; tui-agent --resume continues this session there"
            )
        job = run_session_command(cast("Session", self._session), name, command.argument)
        reply = await asyncio.shield(self._in_background(job))
        if reply is None:
            raise PageRefused(500, f"/{name} failed; the debug log says why")
        text = bounded_text(make_visible(self._session.mask.mask(clean(reply.text)), lookalikes=False))
        return JSONResponse({"command": name, "text": text, "draft": reply.draft, "is_diff": reply.is_diff})

    async def _shell(self, request: Request) -> Response:
        """Run a shell command in the background; its output is on the stream."""
        body = await read_body(request, ShellBody)
        if not body.command.strip():
            raise PageRefused(400, "the command is empty")
        self._in_background(self._session.run_shell(body.command))
        return JSONResponse({"status": "ok"}, 202)

    # --- other sessions and models ---

    async def _models(self, _: EmptyBody) -> dict[str, Any]:
        return await model_choices(cast("Session", self._session))

    async def _sessions(self, _: EmptyBody) -> dict[str, Any]:
        return await session_choices(cast("Session", self._session), self._opener is not None)

    async def _open(self, body: IdBody) -> None:
        """Change to the session with an id, or to a new one if that is empty."""
        if self._opener is None:
            raise ValueError(f"tui-agent --resume {body.id} opens it, in a terminal")
        problem = await asyncio.shield(self._in_background(self._change_session(self._opener, body.id)))
        if problem is None:
            raise ValueError("the session could not be opened; the debug log says why")
        if problem:
            raise ValueError(problem)

    async def _change_session(self, opener: SessionOpener, id: str) -> str:
        """Show another session and close the one before; return why not, or ""."""
        async with self._opening:
            old, old_feed = self._session, self.feed
            if id == old.id:
                return ""
            if problem := _reason_to_stay(old):
                return problem
            try:
                opened = await opener(id)
            except ValueError as error:
                return str(error)
            if problem := _reason_to_stay(old):  # sent from another browser while it was opened
                await cast("Session", opened).close("it was not shown")
                return problem
            self._session = opened
            self.feed, self._draft = Feed(self._session), ""
            self._following = asyncio.create_task(self.feed.run())
            old_feed.end()
            await cast("Session", old).close("another session was opened")
            return ""

    # --- commands ---

    async def _answer(self, body: AnswerBody) -> bool:
        data: dict[str, Any] | None = None
        if body.data is not None:
            if body.verdict != "approve":
                raise ValueError("only an approved request can be edited")
            if (request := self.feed.requests.get(body.id)) is None:
                return False
            data = answer_data(request, body.data, self._session.mask)
        request = self.feed.requests.get(body.id)
        harm = request.harm if isinstance(request, e.ApprovalRequested) else None
        if body.verdict == "approve" and harm is not None and (body.word != harm.word or body.scope is not Scope.ONCE):
            raise ValueError(f"this command is critical: type {harm.word} to approve it")
        answer = Answer(verdict=body.verdict, scope=body.scope, text=body.text, data=data)
        return self._session.answer(body.id, answer)

    async def _interrupt(self, _: EmptyBody) -> None:
        await self._session.interrupt()

    async def _withdraw(self, body: IdBody) -> bool:
        return self._session.withdraw_message(body.id)

    async def _set_modes(self, body: ModesBody) -> None:
        if body.mode is not None or body.approval_mode is not None:
            await self._session.set_modes(mode=body.mode, approval_mode=body.approval_mode)

    async def _settle_proposal(self, body: SettleBody) -> bool:
        return await self._session.settle_plan(body.accept, body.seen)

    async def _proposal(self, body: ProposalBody) -> dict[str, Any]:
        """Return the masked document after the proposal, its changed lines, and the number of characters cut."""
        proposal, document = self.feed.proposal, self.feed.document
        if proposal is None or proposal.sha256 != body.seen:
            raise ValueError("the proposal has changed or was decided elsewhere")
        mask = self._session.mask

        def compare() -> dict[str, Any]:
            texts = [mask.mask(event.text) if event else "" for event in (document, proposal)]
            before, after = (reveal(text[:PLAN_TEXT_MAX]) for text in texts)
            cut = sum(max(0, len(text) - PLAN_TEXT_MAX) for text in texts)
            return {"text": after, "changes": changed_lines(before, after), "cut": cut}

        return await asyncio.to_thread(compare)

    async def _plan_text(self, body: PlanTextBody) -> dict[str, Any]:
        """Return the saved document with its sha256, or `hides_secrets` if it has secrets and `exact` is not set."""
        document = self.feed.document
        if document is None:
            raise ValueError("there is no plan document yet")
        if len(document.text) > PLAN_TEXT_MAX:
            raise ValueError("the plan document is too long to be edited here")
        if not body.exact and self._session.mask.mask(document.text) != document.text:
            return {"hides_secrets": True}
        return {"text": document.text, "base": document.sha256}

    async def _edit_plan(self, body: PlanEditBody) -> CommandResult:
        """Save the edited document; `merged` if it had changed since it was opened, False if it was not written.

        The reason for that, and conflicts to be resolved, are on the stream. Saving continues if the client leaves.
        """
        text, document = body.text, self.feed.document
        if len(text) > PLAN_TEXT_MAX:
            raise ValueError(
                f"plan_doc.md would have {len(text):,} characters; shorten it to {PLAN_TEXT_MAX:,} at most, "
                "or edit the file directly"
            )
        is_current = document is not None and document.sha256 == body.base
        if is_current and document is not None and "\r\n" in document.text:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")  # browsers normalize line ends to \n
        written = await asyncio.shield(self._in_background(self._session.edit_plan(text, body.base)))
        return {"status": "ok" if is_current else "merged"} if written else False

    async def _reveal(self, body: IdBody) -> dict[str, Any]:
        """Return the exact action of an open request, with its secrets."""
        return {"action": displayable_action(msgspec.to_builtins(self._action(body.id)))}

    async def _hunk_text(self, body: HunkTextBody) -> dict[str, Any]:
        return {"text": hunk_text(self._edit_action(body.id), body.index, self._session.mask, exact=body.exact)}

    async def _preview_hunks(self, body: PreviewBody) -> dict[str, Any]:
        """Return the diff that would be approved (A9)."""
        action, mask = self._edit_action(body.id), self._session.mask
        diff = await asyncio.to_thread(diff_with_edits, action, body.edits, mask, exact=body.exact)
        displayed: dict[str, Any] = displayable_action({"diff": msgspec.to_builtins(diff)})
        return {"diff": displayed["diff"]}

    def _action(self, id: str) -> Action:
        if (action := self.feed.action(id)) is None:
            raise ValueError("this request is closed")
        return action

    def _edit_action(self, id: str) -> EditAction:
        if not isinstance(action := self._action(id), EditAction):
            raise ValueError("this request has no text to change")
        return action

    async def _clear(self, _: EmptyBody) -> None:
        try:
            await clear_conversation(self._session)
        except CannotUndo as error:
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


def _reason_to_stay(session: SessionApi) -> str:
    """Why a session can't be closed for another one, since something would be lost; or ""."""
    if session.busy or session.queue.order():
        return "the run has to end first; stop it, or wait"
    if jobs := session.background_jobs():
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        name = make_visible(session.mask.mask(one_line(clean(jobs[0]), 100)))
        return f"{name}{more} still runs in the background and would end; ask the agent to stop it, or wait"
    return ""


def _record_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise PageRefused(400, f"{name} is not a number")
    return int(text)


_VOLATILE_FIELDS = ("updatedAt:", "createdAt:", "version:")
_UNIMPORTANT_LINE = re.compile(r"\s*$|---$|(?:- \[ \] )?\[(?:No |User will|Criteria will|Goal to be).*\]$")
"""Blank lines and placeholders."""


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    """The removed (−) and added (+) lines of a plan document, without its counters, blank lines and placeholders."""
    old, new = _compared_lines(before), _compared_lines(after)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    old, new = old[same:], new[same:]
    if len(old) * len(new) > COMPARISONS_MAX:
        return [*(("−", line) for line in old), *(("+", line) for line in new)]
    changes: list[tuple[str, str]] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            changes += [("−", line) for line in old[start:end]]
            changes += [("+", line) for line in new[new_start:new_end]]
    return changes


def _compared_lines(text: str) -> list[str]:
    front_matter, _, body = text.partition("\n---") if text.startswith("---") else ("", "", text)
    fields = [line for line in front_matter.splitlines() if not line.startswith(_VOLATILE_FIELDS)]
    return [line for line in (*fields, *body.splitlines()) if not _UNIMPORTANT_LINE.match(line)]


def _command(
    kind: type[RequestBody], run: Callable[[Any], Awaitable[CommandResult]], error_status: int
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that parses its body as `kind` and runs a command."""

    async def endpoint(request: Request) -> Response:
        body = await read_body(request, kind)
        try:
            result = await run(body)
        except ValueError as error:
            raise PageRefused(error_status, str(error)) from error
        if isinstance(result, dict):
            return JSONResponse(result)
        return JSONResponse({"status": "settled"}, 409) if result is False else JSONResponse({"status": "ok"})

    return endpoint


def _stream_response(frames: AsyncIterator[EventFrame]) -> Response:
    async def events() -> AsyncIterator[ServerSentEvent]:
        async for frame in frames:
            id = None if frame.id is None else str(frame.id)
            yield ServerSentEvent(frame.data, event=frame.name, id=id, sep="\n")

    return EventSourceResponse(events(), ping=PING_SECONDS, sep="\n", send_timeout=SEND_SECONDS)


async def _one_frame(frame: EventFrame) -> AsyncIterator[EventFrame]:
    yield frame


async def _until_done(frames: AsyncIterator[EventFrame], message_id: str) -> AsyncIterator[EventFrame]:
    """The frames up to the end of the run that the message started or steered, or until it is withdrawn."""
    id_field = f'"id":"{message_id}"'
    has_started = False
    async for frame in frames:
        yield frame
        if frame.name == "user.said" and id_field in frame.data:
            has_started = True
        elif frame.name == "message.withdrawn" and id_field in frame.data:
            yield EventFrame("done", "{}")
            return
        elif frame.name == "done" and has_started:
            return
