"""A session for the page that only records its calls."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.doubles.session import FakeSession
from tui_agent.common.domain import Answer
from tui_agent.events import Event, Record, SessionOpened

OPENED = SessionOpened(
    id="s-1",
    version="0",
    workspace="/w",
    roots=("/w",),
    provider="openai",
    model="m",
    mode="direct",
    approval_mode="ask",
    trusted=True,
)


class FakePageSession(FakeSession):
    """Replays given events and records every call in `done`."""

    def __init__(self, *events: Event) -> None:
        super().__init__()
        self.done: list[Any] = []
        self.tell(OPENED, *events)

    @property
    def id(self) -> str:
        return "s-1"

    def tell(self, *events: Event, **place: str) -> None:
        for event in events:
            seq = len(self.records) + 1
            at = "2026-01-01T10:00:00.000+00:00"
            self.records.append(Record(seq=seq, at=at, event=event, **place))
        self.wake()

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        self.done.append(("send", text))
        return message

    def withdraw_message(self, message: str) -> bool:
        self.done.append(("withdraw", message))
        return False

    async def interrupt(self, *, at_once: bool = False) -> None:
        self.done.append("interrupt")

    def answer(self, request_id: str, answer: Answer) -> bool:
        self.done.append(("answer", request_id))
        return False

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        self.done.append(("modes", mode, approval_mode))

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        self.done.append(("settle", accept))
        return False

    async def edit_plan(self, text: str, base: str = "") -> bool:
        self.done.append(("edit", text, base))
        return False

    async def run_shell(self, command: str) -> None:
        self.done.append(("shell", command))


class AnsweredPageSession(FakePageSession):
    """Accepts answers while `takes` is true, and records them."""

    takes = True

    def __init__(self, *events: Event, records: list[Record] | None = None) -> None:
        super().__init__(*events)
        self.records = self.records if records is None else list(records)
        self.received: list[Answer] = []
        self._new_answer = asyncio.Event()

    def answer(self, request_id: str, answer: Answer) -> bool:
        self.received.append(answer)
        self._new_answer.set()
        return self.takes

    async def next_answer(self) -> Answer:
        """Wait for the next answer."""
        async with asyncio.timeout(60):
            await self._new_answer.wait()
        self._new_answer.clear()
        return self.received[-1]
