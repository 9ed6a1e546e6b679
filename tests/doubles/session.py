"""A session that replays recorded events, records commands and answers as the engine does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Answer, FolderTrustState, Grant
from tui_agent.common.workplan import InstructionPlan, Summary
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.session import MessageQueue
from tui_agent.events import Event, Record
from tui_agent.storage.lines import to_line
from tui_agent.text import SecretMask


def _settled(key: str, asked: Event | None, answer: Answer) -> Event:
    """Return the event that the engine emits for an answer."""
    data = answer.data or {}
    if isinstance(asked, e.PlanProposed):
        plan = msgspec.convert(data["plan"], InstructionPlan) if "plan" in data else asked.plan
        return e.PlanReviewed(
            id=key, answer=answer, plan=plan, edited=plan != asked.plan, alternative=data.get("alternative")
        )
    if isinstance(asked, e.SummaryProposed):
        if answer.verdict == "reject":
            return e.SummaryReviewed(id=key, outcome="discarded", summary=asked.summary)
        summary = msgspec.convert(data["summary"], Summary) if "summary" in data else asked.summary
        outcome: Literal["accepted", "edited"] = "edited" if summary != asked.summary else "accepted"
        return e.SummaryReviewed(id=key, outcome=outcome, summary=summary)
    if isinstance(asked, e.PlanDocConflict):
        return e.PlanDocResolved(id=key, answer=answer)
    return e.ApprovalAnswered(id=key, answer=answer)


class FakeGrants:
    """Grants that can be revoked."""

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.revoked: list[Grant] = []

    def listed(self) -> tuple[Grant, ...]:
        return tuple(self.grants)

    async def revoke(self, grant: Grant) -> bool:
        self.revoked.append(grant)
        self.grants.remove(grant)
        return True


class FakeTrust:
    """Folders whose trust can be given and revoked."""

    def __init__(self) -> None:
        self.folders: list[FolderTrustState] = []
        self.done: list[tuple[str, str]] = []

    async def states(self) -> tuple[FolderTrustState, ...]:
        return tuple(self.folders)

    async def ask(self, folder: str) -> bool:
        self.done.append(("ask", folder))
        return True

    async def revoke(self, folder: str) -> bool:
        self.done.append(("revoke", folder))
        return True


class FakeQueue:
    """The message queue of the recorded events."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.sends = 0

    def order(self) -> list[tuple[str, bool]]:
        return self._waiting().order()

    def _waiting(self) -> MessageQueue:
        state = EngineState()
        for record in self.session.records:
            if isinstance(record.event, QUEUE):
                state.fold(record.event)
        return MessageQueue(state, self.session.push, lambda: None)

    def move(self, message: str, before: str = "") -> bool:
        return self._waiting().move(message, before)

    def set_steering(self, message: str, steering: bool) -> bool:
        return self._waiting().set_steering(message, steering)

    def send(self) -> bool:
        self.sends += 1
        return True


class FakeSubagents:
    def __init__(self) -> None:
        self.stopped: list[str] = []

    def interrupt(self, node: str) -> bool:
        self.stopped.append(node)
        return True


class FakeCheckpoints:
    def __init__(self) -> None:
        self.clears = 0

    def clear(self) -> None:
        self.clears += 1

    def conversation(self) -> tuple[()]:
        return ()


QUEUE = (e.MessageQueued, e.MessageChanged, e.MessageMoved, e.MessageWithdrawn, e.UserMessageAdded)


class FakeSession:
    def __init__(self, records: list[Record] | None = None) -> None:
        self.records = list(records or [])
        self.sent: list[tuple[str, bool]] = []
        self.answers: list[tuple[str, Answer]] = []
        self.jobs: tuple[str, ...] = ()
        self.modes: list[tuple[str | None, str | None]] = []
        self.commands: list[str] = []
        self.plans: list[str] = []
        """Text of plan_doc.md after each edit."""
        self.bases: list[str] = []
        """Digest of the text that each edit is based on."""
        self.settlements: list[bool] = []
        self.grants = FakeGrants()
        self.trust = FakeTrust()
        self.queue = FakeQueue(self)
        self.subagents = FakeSubagents()
        self.checkpoints = FakeCheckpoints()
        self.busy = False
        self.interrupts = 0
        self.stopped_at_once = False
        self.disk = asyncio.Event()
        """Cleared while an answer is being saved."""
        self.disk.set()
        self.compactions = 0
        self.looks = 0
        self.closed = ""
        self.replay_end = 0
        self.mask = SecretMask({})
        self.on_saving: Callable[[str | None], None] = lambda text: None
        self._more = asyncio.Event()
        self._answered: set[str] = set()

    def can_be_resumed(self) -> bool:
        return True

    @property
    def unsaved(self) -> object | None:
        return None

    @property
    def last(self) -> int:
        return self.records[-1].seq if self.records else 0

    @property
    def id(self) -> str:
        return "2026-01-05T09:00:00.000+0000"

    def watch_saving(self, tell: Callable[[str | None], None]) -> None:
        self.on_saving = tell

    def push(self, event: Event, *, node: str = "", run: str = "", seconds: float = 0.0) -> None:
        last = self.records[-1].at if self.records else "2026-01-05T09:00:00.000+00:00"
        at = datetime.fromisoformat(last).astimezone(UTC) + timedelta(seconds=seconds)
        record = Record(
            seq=len(self.records) + 1, at=at.isoformat(timespec="milliseconds"), event=event, run=run, node=node
        )
        self.records.append(record)
        self._more.set()

    def wake(self) -> None:
        self._more.set()

    async def follow(self, after: int = 0) -> AsyncGenerator[Record, None]:
        place = after
        while True:
            while place < len(self.records):
                yield self.records[place]
                place += 1
            if self.closed:
                return
            self._more.clear()
            await self._more.wait()

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        self.sent.append((text, steering))
        key = message or f"m{100 + len(self.sent)}"
        self.push(e.UserMessageAdded(id=key, text=text, steering=steering))
        return key

    def withdraw_message(self, message: str) -> bool:
        told = [one.event for one in self.records]
        queued = any(isinstance(one, e.MessageQueued) and one.id == message for one in told)
        gone = any(isinstance(one, e.UserMessageAdded | e.MessageWithdrawn) and one.id == message for one in told)
        if queued and not gone:
            self.push(e.MessageWithdrawn(id=message))
        return queued and not gone

    async def interrupt(self, *, at_once: bool = False) -> None:
        self.interrupts += 1
        self.stopped_at_once = at_once

    def answer(self, request_id: str, answer: Answer) -> bool:
        self.answers.append((request_id, answer))
        if request_id in self._answered:
            return False
        self._answered.add(request_id)
        asked = next((r.event for r in reversed(self.records) if getattr(r.event, "id", "") == request_id), None)
        self.push(_settled(request_id, asked, answer))
        return True

    async def edit_plan(self, text: str, base: str = "") -> bool:
        self.plans.append(text)
        self.bases.append(base)
        self.push(e.PlanDocChanged(text=text, by="user"))
        return True

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        self.settlements.append(accept)
        told = [one.event for one in self.records if isinstance(one.event, e.PlanDocChanged)]
        text = next(one.text for one in reversed(told) if one.pending is accept)
        self.push(e.PlanDocChanged(text=text, by="review"))
        return True

    async def copy_journal(self, path: Path) -> None:
        path.write_bytes(b"".join(to_line(record, 0) for record in self.records))

    async def saved(self, request: str) -> None:
        await self.disk.wait()

    def background_jobs(self) -> tuple[str, ...]:
        return self.jobs

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        self.modes.append((mode, approval_mode))
        self.push(e.ModeChanged(mode=mode or "direct", approval_mode=approval_mode or "ask"))

    def compact(self) -> None:
        self.compactions += 1
        self.push(e.Notice(level="info", text="There is nothing to compact.", code="context.compacted"))

    def look_for_model(self) -> None:
        self.looks += 1

    async def run_shell(self, command: str) -> None:
        self.commands.append(command)
        self.push(e.UserShellCommand(command=command, cwd="/home/ada/exporter", output="done\n", exit_code=0))

    async def wait(self) -> None:
        return None

    async def close(self, reason: str = "user") -> None:
        self.closed = reason
        self._more.set()
