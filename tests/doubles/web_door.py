"""A session as the page knows it that only writes down what it is asked to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tui_agent.domain import Answer
from tui_agent.events import Event, Record, SessionOpened
from tui_agent.text import Mask

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


class _Queue:
    def order(self) -> list[tuple[str, bool]]:
        return []

    def send(self) -> bool:
        return False


class _Checkpoints:
    def __init__(self, done: list[Any]) -> None:
        self._done = done

    def clear(self) -> None:
        self._done.append("clear")


class FakeDoor:
    """Tells what it is given, and notes every wish in `done`."""

    id = "s-1"
    mask = Mask({})
    begins = 0
    busy = False
    queue = _Queue()

    def __init__(self, *events: Event) -> None:
        self.done: list[Any] = []
        self.checkpoints = _Checkpoints(self.done)
        self.records: list[Record] = []
        self._more = asyncio.Event()
        self._closed = False
        self.tell(OPENED, *events)

    def tell(self, *events: Event, **place: str) -> None:
        for event in events:
            seq = len(self.records) + 1
            at = "2026-01-01T10:00:00.000+00:00"
            self.records.append(Record(seq=seq, at=at, event=event, **place))
        self._more.set()

    def close(self) -> None:
        self._closed = True
        self._more.set()

    async def follow(self, after: int = 0) -> AsyncIterator[Record]:
        while True:
            self._more.clear()
            for record in self.records[after:]:
                yield record
                after = record.seq
            if self._closed:
                return
            await self._more.wait()

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        self.done.append(("send", text))
        return message

    def withdraw_message(self, message: str) -> bool:
        self.done.append(("withdraw", message))
        return False

    async def interrupt(self) -> None:
        self.done.append("interrupt")

    async def wait(self) -> None:
        return None

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


class AnsweredDoor(FakeDoor):
    """Takes every answer while it `takes` them, and keeps it."""

    takes = True

    def __init__(self, *events: Event, records: list[Record] | None = None) -> None:
        super().__init__(*events)
        self.records = self.records if records is None else list(records)
        self.answers: list[Answer] = []
        self._answered = asyncio.Event()

    def answer(self, request_id: str, answer: Answer) -> bool:
        self.answers.append(answer)
        self._answered.set()
        return self.takes

    async def next_answer(self) -> Answer:
        """The one that comes next."""
        async with asyncio.timeout(60):
            await self._answered.wait()
        self._answered.clear()
        return self.answers[-1]
