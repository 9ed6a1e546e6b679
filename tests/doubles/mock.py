"""The mock server in the event loop of the test, and functions that build scenarios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tui_agent.common.domain import program_text
from tui_agent.mock_server.app import MockServer
from tui_agent.mock_server.replies import ResponderReply
from tui_agent.models.scenario_matching import choose_reply, from_wire, reply_at
from tui_agent.models.scenarios import convert_scenarios

__all__ = [
    "FeedbackResponder",
    "MockServer",
    "SequenceResponder",
    "call",
    "control_packet",
    "scenario",
    "scenarios",
    "serve",
    "step",
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def step(content: str | None = None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A step that says `content` and makes `calls`; `more` goes to the response, but for fault, delay and pace."""
    outer: dict[str, Any] = {key: more.pop(key) for key in ("fault", "delay", "pace", "instead") if key in more}
    response: dict[str, Any] = {"content": content, **more}
    if calls:
        response["tool_calls"] = list(calls)
    return {"response": response, **outer}


def scenario(trigger: str | list[str], *steps: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    """A scenario named like its trigger; a plain string is a step that only says it. `more`: when, ignore_case."""
    made = [step(one) if isinstance(one, str) else one for one in steps]
    return {"name": str(trigger) or "anything", "trigger": trigger, "steps": made, **more}


def scenarios(*given: dict[str, Any], default: str = "no scenario fits") -> dict[str, Any]:
    return {"scenarios": list(given), "default_response": {"content": default}}


def serve(*given: dict[str, Any], **options: Any) -> MockServer:
    """`async with serve(scenario("hi", "hello"), strict=True) as server:` serves on a free port of this loop."""
    return MockServer(scenarios(*given), **options)


def control_packet(*, inside: bool = False, **fields: Any) -> str:
    """A message in the user's role as the program writes it between iterations, its directive inside or after."""
    packet, directive = json.dumps(fields), "Do not repeat calls that already have a result."
    if inside:
        return program_text("control", f"{packet}\n{directive}")
    return program_text("control", packet) + "\n" + directive


class FeedbackResponder:
    """A model that continues with its next step after feedback that it is not done yet."""

    def __init__(self, *given: dict[str, Any]) -> None:
        self.scenarios = convert_scenarios(scenarios(*given))

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        conversation = from_wire(payload)
        choice = choose_reply(self.scenarios, conversation)
        told = 0
        for said in reversed(conversation.messages):
            if said.role == "user":
                break
            told += "This is not done yet" in said.text
        scenario = next((one for one in self.scenarios.scenarios if one.name == choice.scenario), None)
        if told and scenario is not None:
            choice = reply_at(scenario, choice.index + told, "", conversation)
        return ResponderReply(choice=choice)


class SequenceResponder:
    """A model that gives its replies in turn, whatever the request, and repeats the last one."""

    def __init__(self, *replies: str) -> None:
        self.scenarios = convert_scenarios(scenarios(scenario("", *replies)))
        self._count = 0

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        (only,) = self.scenarios.scenarios
        index = min(self._count, len(only.steps) - 1)
        self._count += 1
        return ResponderReply(choice=reply_at(only, index, "", from_wire(payload)))
