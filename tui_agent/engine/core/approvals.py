"""Requests that somebody must answer: registered by id, journaled, settled once (A5)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

from tui_agent.common.domain import Action, Answer, Grant, action_digest
from tui_agent.engine.core.stream import EventStream
from tui_agent.events import ApprovalAnswered, ApprovalRequested, ApprovalVoided, Event, QuestionAnswered, QuestionAsked

WITHDRAWN = Answer(verdict="withdrawn", by="interrupt")
"""How a request is settled whose asker was stopped."""


class Approvals:
    """The open requests of a session.

    A future is registered before its event is emitted, so that an answer can never arrive too early. It never leaves
    this class: front ends see events and call `answer(id, …)`, and the first one wins.
    """

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._void: dict[str, str] = {}
        """Open requests that can't be approved any more, each with the reason."""
        self._saving: dict[str, asyncio.Event] = {}
        """Requests that were approved and whose answer is not durable yet."""

    def settle(self, action: Action, answer: Answer, *, run: str, node: str) -> str:
        """Journal a decision that a rule, setting or grant made without asking; returns its id."""
        request = f"a-{secrets.token_hex(6)}"
        event = ApprovalAnswered(id=request, answer=answer, digest=action_digest(action))
        self._stream.emit(event, run=run, node=node)
        return request

    async def question(self, text: str, options: tuple[str, ...], *, run: str, node: str, about: str = "") -> Answer:
        """Put a question to the user and wait for the answer (T8)."""
        return await self.decide(
            lambda request: QuestionAsked(id=request, question=text, options=options, about=about),
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
        """Put anything before the user: `ask(id)` makes the event that asks, `settle(id, answer)` the one that tells
        what was decided. The decision is durable when this returns.

        `decided` is the answer where a rule decides and nobody is asked. Cancelling the waiting task settles it as
        withdrawn.
        """
        request = f"a-{secrets.token_hex(6)}"
        await self._stream.durable()
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request] = waiting
        try:
            try:
                self._stream.emit(ask(request), run=run, node=node)
                answer = decided or await waiting
            except asyncio.CancelledError:
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

    def answer(self, request: str, answer: Answer) -> bool:
        """Settle a request. False when it is not open: unknown, answered before, or withdrawn.

        One that became void can't be approved: whatever else than a rejection comes withdraws it.
        """
        waiting = self._open.get(request)
        if waiting is None or waiting.done():
            return False
        void = self._void.get(request)
        if void is not None and answer.verdict != "reject":
            waiting.set_result(Answer(verdict="withdrawn", by=void))
            return answer.verdict == "withdrawn"
        waiting.set_result(answer)
        if answer.verdict == "approve":
            self._saving[request] = asyncio.Event()
        return True

    async def saved(self, request: str) -> None:
        """Wait until an approval that was given is durable, as nothing is done before it is, or can't be made so."""
        if (saved := self._saving.get(request)) is not None:
            await saved.wait()

    def void(self, request: str, reason: str, *, run: str, node: str) -> None:
        """Tell that an open request can't be approved any more, and see to it."""
        waiting = self._open.get(request)
        if waiting is None or waiting.done() or request in self._void:
            return
        self._void[request] = reason
        self._stream.emit(ApprovalVoided(id=request, reason=reason), run=run, node=node)

    def withdraw(self, requests: Iterable[str] | None = None, by: str = "interrupt") -> None:
        """Settle open requests without anybody's consent: nothing is executed."""
        for request in tuple(self._open) if requests is None else tuple(requests):
            self.answer(request, Answer(verdict="withdrawn", by=by))


def approval_events(
    action: Action, why: str, grants: tuple[Grant, ...] = ()
) -> tuple[Callable[[str], ApprovalRequested], Callable[[str, Answer], ApprovalAnswered]]:
    """What `Approvals.decide` takes to ask for permission, bound to exactly this action."""
    bound = action_digest(action)

    def asked(request: str) -> ApprovalRequested:
        return ApprovalRequested(id=request, action=action, digest=bound, why=why, grants=grants)

    def answered(request: str, answer: Answer) -> ApprovalAnswered:
        return ApprovalAnswered(id=request, answer=answer, digest=bound, grant=granted(grants, answer))

    return asked, answered


def granted(grants: tuple[Grant, ...], answer: Answer) -> Grant | None:
    """The grant that an answer gives, of those that were offered."""
    if answer.verdict != "approve" or answer.data:  # leave for a part is leave for nothing else
        return None
    return next((grant for grant in grants if grant.scope == answer.scope), None)
