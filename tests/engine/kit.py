"""A session in the test's event loop that talks HTTP to the mock server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tui_agent.common.domain import Answer
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.engine.session import Session
from tui_agent.events import (
    ApprovalRequested,
    Event,
    PlanDocConflict,
    PlanProposed,
    QuestionAsked,
    Record,
    RunEnded,
    SummaryProposed,
)

E = TypeVar("E", bound=Event)


class ModelServer(Protocol):
    """A server that a session can use."""

    @property
    def url(self) -> str: ...


def session_options(
    server: ModelServer, workspace: Path | None, *, provider: str = "openai", **more: Any
) -> SessionOptions:
    url = server.url + ("/v1" if provider == "openai" else "")
    flags = {
        "provider": provider, "base_url": url, "model": "mock-model", "mode": "direct", **more.pop("flags", {})
    }  # fmt: skip
    flags = {name: value for name, value in flags.items() if value is not None}
    return SessionOptions(workspace=workspace, flags=flags, trust=more.pop("trust", True), **more)


@asynccontextmanager
async def run_session(server: ModelServer, workspace: Path | None, **more: Any) -> AsyncIterator[Session]:
    session = await open_session(session_options(server, workspace, **more))
    try:
        yield session
    finally:
        await session.close()


class SessionDriver:
    """Follows a session and answers its requests."""

    def __init__(self, session: Session, answer: Callable[[Event], Answer | None] | None = None) -> None:
        self.session = session
        self.records: list[Record] = []
        self._answer = answer or (lambda event: Answer(verdict="approve"))
        self._follower = session.follow(session.replay_end)

    async def until(self, stop: Callable[[Record], bool]) -> Record:
        async for record in self._follower:
            self.records.append(record)
            if _needs_answer(record.event):
                answer = self._answer(record.event)
                if answer is not None:
                    self.session.answer(record.event.id, answer)  # type: ignore[attr-defined]  # it asks
            if stop(record):
                return record
        raise AssertionError("the session ended first")

    async def until_event(self, kind: type[E], **fields: Any) -> E:
        def matches(record: Record) -> bool:
            return isinstance(record.event, kind) and all(
                getattr(record.event, name) == value for name, value in fields.items()
            )

        event = (await self.until(matches)).event
        assert isinstance(event, kind)
        return event

    async def ended(self) -> RunEnded:
        return await self.until_event(RunEnded)

    def of(self, kind: type[E]) -> list[E]:
        return [record.event for record in self.records if isinstance(record.event, kind)]


def _needs_answer(event: Event) -> bool:
    if isinstance(event, PlanProposed):
        return event.asks
    return isinstance(event, ApprovalRequested | QuestionAsked | PlanDocConflict | SummaryProposed)
