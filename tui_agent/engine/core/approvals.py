"""Open requests to the user: registered by id, journaled, settled once (A5)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from tui_agent.common.domain import Action, Answer, Grant, Harm, action_digest
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.stream import EventStream
from tui_agent.events import ApprovalAnswered, ApprovalRequested, ApprovalVoided, Event, QuestionAnswered, QuestionAsked

WITHDRAWN = Answer(verdict="withdrawn", by="interrupt")
"""Settles a request whose asker was cancelled."""


class Approvals:
    """The open requests of a session.

    A request is registered before its event is emitted, so an answer never arrives too early. Surfaces see the events
    and call `answer`; the first answer wins.
    """

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._void: dict[str, str] = {}
        """Open requests that can't be approved anymore, with the reason."""
        self._saving: dict[str, asyncio.Event] = {}
        """Approved requests whose answer is not durable yet."""

    def settle(self, action: Action, answer: Answer, *, run: str, node: str) -> str:
        """Journal a decision made by a rule, setting or grant without asking; return its id."""
        request = f"a-{secrets.token_hex(6)}"
        event = ApprovalAnswered(id=request, answer=answer, digest=action_digest(action))
        self._stream.emit(event, run=run, node=node)
        return request

    async def question(
        self, text: str, options: tuple[str, ...], *, run: str, node: str, about: str = "", otherwise: str = ""
    ) -> Answer:
        """Ask the user a question and return the answer (T8). `about` and `otherwise` as in `QuestionAsked`."""
        return await self.decide(
            lambda request: QuestionAsked(id=request, question=text, options=options, about=about, otherwise=otherwise),
            lambda request, answer: QuestionAnswered(id=request, answer=answer),
            run=run,
            node=node,
        )

    async def decide(
        self,
        ask: Callable[[str], Event],
        settle: Callable[[str, Answer], Event],
        *,
        run: str,
        node: str,
        decided: Answer | None = None,
    ) -> Answer:
        """Emit a request, wait for its answer, and return the answer once it is durable.

        `ask(id)` creates the request's event, `settle(id, answer)` the answer's. With `decided` a rule has answered
        already. Cancellation settles the request as withdrawn. Raises JournalBroken if nothing can be saved.
        """
        request = f"a-{secrets.token_hex(6)}"
        await self._stream.durable()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request] = future
        try:
            try:
                seq = self._stream.emit(ask(request), run=run, node=node)
                answer = decided or await self._answer_to(future, seq)
            except (asyncio.CancelledError, JournalBroken):
                self._stream.emit(settle(request, WITHDRAWN), run=run, node=node)
                raise
            finally:
                del self._open[request]
                self._void.pop(request, None)
            self._stream.emit(settle(request, answer), run=run, node=node)
            await self._stream.durable()
        finally:
            if (saved := self._saving.pop(request, None)) is not None:
                saved.set()
        return answer

    async def _answer_to(self, future: asyncio.Future[Answer], seq: int) -> Answer:
        """Wait for the answer to the request with the number `seq`.

        Raises JournalBroken if that can't be written, as nobody sees it then.
        """
        written = asyncio.create_task(self._stream.written(seq))
        pending: list[asyncio.Future[Any]] = [future, written]
        try:
            await asyncio.wait(pending, return_when="FIRST_COMPLETED")
            if not future.done():
                await written
            return await future
        finally:
            written.cancel()

    def answer(self, request: str, answer: Answer) -> bool:
        """Settle a request; False if it is not open. A void request is withdrawn by any answer but a rejection."""
        future = self._open.get(request)
        if future is None or future.done():
            return False
        void = self._void.get(request)
        if void is not None and answer.verdict != "reject":
            future.set_result(Answer(verdict="withdrawn", by=void))
            return answer.verdict == "withdrawn"
        future.set_result(answer)
        if answer.verdict == "approve":
            self._saving[request] = asyncio.Event()
        return True

    async def saved(self, request: str) -> None:
        """Wait until an approval is durable, or can't be saved. Nothing is executed before."""
        if (saved := self._saving.get(request)) is not None:
            await saved.wait()

    def void(self, request: str, reason: str, *, run: str, node: str) -> None:
        """Prevent the approval of an open request, because its facts have changed."""
        future = self._open.get(request)
        if future is None or future.done() or request in self._void:
            return
        self._void[request] = reason
        self._stream.emit(ApprovalVoided(id=request, reason=reason), run=run, node=node)

    def withdraw(self, requests: Iterable[str] | None = None, by: str = "interrupt") -> None:
        """Withdraw these open requests, or all: nothing is executed."""
        for request in tuple(self._open) if requests is None else tuple(requests):
            self.answer(request, Answer(verdict="withdrawn", by=by))


def approval_events(
    action: Action, why: str, grants: tuple[Grant, ...] = (), harm: Harm | None = None
) -> tuple[Callable[[str], ApprovalRequested], Callable[[str, Answer], ApprovalAnswered]]:
    """Return the `ask` and `settle` arguments of `Approvals.decide` for permission to perform exactly this action."""
    digest = action_digest(action)

    def ask(request: str) -> ApprovalRequested:
        return ApprovalRequested(id=request, action=action, digest=digest, why=why, grants=grants, harm=harm)

    def settle(request: str, answer: Answer) -> ApprovalAnswered:
        return ApprovalAnswered(id=request, answer=answer, digest=digest, grant=granted(grants, answer))

    return ask, settle


def granted(grants: tuple[Grant, ...], answer: Answer) -> Grant | None:
    """Return which of the offered grants the answer gives; a partial approval gives none."""
    if answer.verdict != "approve" or answer.data:
        return None
    return next((grant for grant in grants if grant.scope == answer.scope), None)
