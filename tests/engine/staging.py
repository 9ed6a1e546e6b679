"""Scenarios for tests of the staged workflow: replies of dispatcher, planner, summary model, and in plan steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.doubles.mock import MockServer, scenario
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer
from tui_agent.events import Event, RunEnded
from tui_agent.models.scenario_matching import from_wire

DISPATCHER = "You sort requests"
PLANNING = "You write the plan"
SUMMARY = "You write the entry"
VERIFY = "Say whether what was expected"
DIAGNOSE = "A step of a plan failed"


def side_reply(system: str, *replies: Any, trigger: str | list[str] = "", **more: Any) -> dict[str, Any]:
    """Return a scenario for a side request, recognized by its system message or task."""
    texts = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]
    when = {"system": system, **more}
    return {**scenario(trigger, *texts, when=when), "name": f"{system}:{trigger}"}


def classified_as(intent: str = "modify", complexity: str = "moderate", **more: Any) -> dict[str, Any]:
    given = {"intent": intent, "needs_write": True, "task_type": "coding", "complexity": complexity, **more}
    return side_reply(DISPATCHER, given)


def plan_reply(*steps: dict[str, Any], trigger: str = "", check: str = "", **more: Any) -> dict[str, Any]:
    return side_reply(PLANNING, plan_json(*steps, check=check, **more), trigger=trigger)


def plan_json(*steps: dict[str, Any], check: str = "", **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"approach": "step by step", "steps": list(steps), **more}
    if check:
        given["verification"] = {"check_command": check, "success_criteria": "it ends well"}
    return given


def plan_step(description: str, tool: str = "", **more: Any) -> dict[str, Any]:
    return {
        "description": description,
        "tool": tool,
        "args": {},
        "expected_outcome": "",
        "error_handling": "",
        "confidence": 0.9,
        **more,
    }


def step_reply(words: str, *steps: Any, **more: Any) -> dict[str, Any]:
    """Return a scenario for requests whose current step contains `words`."""
    return {**scenario("", *steps, when={"step": words, **more}), "name": f"step:{words}"}


def summarized(action: str = "Did it", **more: Any) -> dict[str, Any]:
    entry = {"action": action, "details": "As asked.", "result": "✓ it works"}
    return side_reply(SUMMARY, {"log_entry": entry, **more})


def request_roles(server: MockServer) -> list[str]:
    """Return the role of each request."""
    names = {DISPATCHER: "dispatcher", PLANNING: "planning", SUMMARY: "summary", VERIFY: "verify", DIAGNOSE: "diagnose"}
    roles = []
    for request in server.requests:
        conversation = from_wire(request.body)
        text = f"{conversation.system}\n{conversation.task}"
        roles.append(next((name for start, name in names.items() if start in text), "execution"))
    return roles


def requests_of_role(server: MockServer, role: str) -> list[Any]:
    """Return the requests of one role."""
    return [request for request, other in zip(server.requests, request_roles(server), strict=True) if other == role]


async def run_agent(
    server: MockServer, workspace: Path, text: str, answer: Callable[[Event], Answer | None] | None = None, **more: Any
) -> tuple[SessionDriver, RunEnded, str]:
    """Send a message in agent mode; return the watch, the end of the run and the plan document."""
    flags = {"mode": "agent", **more.pop("flags", {})}
    async with run_session(server, workspace, flags=flags, **more) as session:
        watch = SessionDriver(session, answer)
        await session.send(text)
        ended = await watch.ended()
        await session.wait()
        doc = (session.folder / "plan_doc.md").read_text(encoding="utf-8")
    return watch, ended, doc
