"""Runs scripted tool calls through the real engine and records requests, decisions and results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Action, Answer, ToolResult
from tui_agent.events import ApprovalAnswered, ApprovalExecuted, ApprovalRequested, Event, ToolFinished, ToolStarted

APPROVE = Answer(verdict="approve")
REJECT = Answer(verdict="reject", text="no")


def approve(_: Event) -> Answer:
    return APPROVE


def reject(_: Event) -> Answer:
    return REJECT


class RunTrace:
    """What happened to each call of a run."""

    def __init__(self, watch: SessionDriver) -> None:
        self.watch = watch
        self.asked: dict[str, Action] = {}
        self.decided: dict[str, str] = {}
        """Decision by call: `run`, `ask` or `refuse`, as in the matrix of A4."""
        self.executed: list[str] = []
        self.results: dict[str, ToolResult] = {}
        requests: dict[str, str] = {}
        for record in watch.records:
            event, node = record.event, record.node
            match event:
                case ApprovalRequested(id=request, action=action):
                    requests[request] = node
                    self.asked[node] = action
                    self.decided[node] = "ask"
                case ApprovalAnswered(id=request, answer=answer):
                    requests[request] = node
                    self.decided.setdefault(node, "run" if answer.verdict == "approve" else "refuse")
                case ApprovalExecuted(id=request):
                    self.executed.append(requests[request])
                case ToolFinished(call_id=key, result=result):
                    self.results[key] = result

    def decision(self, key: str) -> str:
        """Return the decision about a call; reads inside the roots need no approval."""
        return self.decided.get(key, "run" if self.results[key].success else "none")

    @property
    def order(self) -> list[str]:
        """Ids of the calls, in order."""
        return [event.call.id for event in self.watch.of(ToolStarted)]

    def text(self, place: int = -1) -> str:
        """Return the result text that the model received."""
        texts = {event.call_id: event.text for event in self.watch.of(ToolFinished)}
        return texts[self.order[place]]

    def result(self, place: int = -1) -> ToolResult:
        return self.results[self.order[place]]


async def run_calls(
    workspace: Path,
    *calls: dict[str, Any],
    answer: Callable[[Event], Answer | None] = approve,
    at_once: int = 1,
    flags: dict[str, Any] | None = None,
    **more: Any,
) -> RunTrace:
    """Run `calls` in a new session, `at_once` per reply, and return what happened."""
    groups = [calls[first : first + at_once] for first in range(0, len(calls), at_once)]
    steps: list[dict[str, Any] | str] = []
    for group in groups:  # every result moves a scenario on by one step
        steps += [step("", *group), *["?"] * (len(group) - 1)]
    chosen = {"mode": "direct", "sandbox": "off", "iterations": {"direct": len(calls) + 10}, **(flags or {})}
    async with (
        serve(scenario("go", *steps, "done"), strict=True) as server,
        run_session(server, workspace, flags=chosen, **more) as session,
    ):
        watch = SessionDriver(session, answer)
        await session.send("go")
        await watch.ended()
    return RunTrace(watch)


def command(text: str, **more: Any) -> dict[str, Any]:
    return call("run_terminal_command", command=text, **more)
