"""Handmade journals with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tui_agent import events as e
from tui_agent.common.domain import Answer, Fault, ToolResult, Usage
from tui_agent.common.workplan import InstructionPlan, PlanStep
from tui_agent.events import Event, Record
from tui_agent.storage.lines import to_line


class Journal:
    """Builds records as a session writes them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.runs = 0
        self.run = ""
        self.day = "2026-01-05"

    def put(self, *events: Event, run: str | None = None) -> Journal:
        for event in events:
            seq = len(self.records) + 1
            at = f"{self.day}T09:00:00.000+00:00"
            self.records.append(Record(seq=seq, at=at, event=event, run=self.run if run is None else run, node=""))
        return self

    def begin(self, model: str = "small") -> Journal:
        self.runs += 1
        self.run = f"run-{self.runs}"
        return self.put(
            e.UserMessageAdded(id=f"m{self.runs}", text="do it"),
            e.RunStarted(message_id=f"m{self.runs}", mode="agent", model=model),
        )

    def end(self, outcome: Any = "done", **more: Any) -> Journal:
        return self.put(e.RunEnded(outcome=outcome, **more))

    @property
    def data(self) -> bytes:
        return b"".join(to_line(record, 0) for record in self.records)

    def write(self, home: Path, name: str) -> Path:
        folder = home / "sessions" / name
        folder.mkdir(parents=True)
        path = folder / "events.jsonl"
        path.write_bytes(self.data)
        return path


def plan(steps: int, ms: int = 0, *, user: Answer | None = None, **more: Any) -> tuple[Event, ...]:
    """Add a proposed plan and its review."""
    reviewed: dict[str, Any] = {name: more.pop(name) for name in ("edited", "alternative") if name in more}
    made = InstructionPlan(approach="so", steps=tuple(PlanStep(number=n + 1, description="x") for n in range(steps)))
    asked: dict[str, Any] = {} if more.get("cached") or "prompt_version" in more else {"prompt_version": "v1"}
    return (
        e.PlanProposed(id="p", plan=made, asks=user is not None, ms=ms, **asked, **more),
        e.PlanReviewed(id="p", answer=user or Answer(verdict="approve", by="a rule"), plan=made, **reviewed),
    )


def reply(role: str = "", prompt: int | None = 100, completion: int | None = 10, **more: Any) -> Event:
    usage = Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=more.pop("cached", None))
    kind = more.pop("fault", None)
    fault = None if kind is None else Fault(kind=kind, message="it broke")
    return e.ReplyEnded(text="", role=role, usage=usage, fault=fault, **more)


def step_verified(met: bool, by: Any = "facts") -> Event:
    return e.StepVerified(met=met, expected="a", actual="b", by=by)


def tool(code: str | None = None) -> Event:
    result = ToolResult(success=code is None, error=None if code is None else "no", code=code)
    return e.ToolFinished(call_id="c", name="read_file", result=result, text="", ms=3)


def approval_answer(verdict: Any = "approve", by: str = "user", **more: Any) -> Event:
    return e.ApprovalAnswered(id="a", answer=Answer(verdict=verdict, by=by, **more))


def three_runs() -> Journal:
    """Return runs of two models: a first-try success, a success after a setback, an interrupted run."""
    journal = Journal().begin()
    journal.put(
        e.ReplyStarted(model="small", iteration=0, messages=2, estimate=50, role="planning"),
        reply("planning", 300, 90),
        *plan(3, 1_234),
        reply(prompt=1_000, completion=50, cached=800),
        tool(),
        approval_answer(),
        step_verified(True),
        step_verified(True, "command"),
    )
    journal.end(iterations=4, tool_calls=2, ms=5_000, prompts={"rules": "aaaa", "tools": "tttt"})
    journal.day = "2026-01-06"
    journal.begin().put(
        e.ReplyStarted(model="large", iteration=1, messages=2, estimate=50),
        reply("planning", 300, 90),
        *plan(2, 9_000),
        reply(prompt=None, completion=None),
        e.ReplyRejected(kind="unreadable"),
        e.ReplyRejected(kind="duplicate"),
        e.RetryScheduled(attempt=1, of=5, seconds=1.0, why="slow"),
        tool("not_found"),
        tool("not_found"),
        tool("duplicate"),
        step_verified(False, "model"),
        e.StepRecoveryStarted(by="recovery", error_class="missing_program"),
        *plan(1, 100, recovery=True),
        approval_answer("reject"),
        approval_answer("reject", by="Approval mode read-only"),
        step_verified(True),
    )
    journal.end(iterations=6, tool_calls=3, ms=7_000, prompts={"rules": "bbbb", "tools": "tttt"})
    journal.begin().put(
        *plan(4, cached=True),
        reply(fault="timeout", prompt=20, completion=0),
        e.QuestionAnswered(id="q", answer=Answer(verdict="reply", text="yes")),
    )
    return journal.end("interrupted", iterations=1, ms=500)
