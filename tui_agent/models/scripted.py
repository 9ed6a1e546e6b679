"""The scripted model: answers from a scenario file, without any server (M3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from tui_agent.common.domain import Fault, ModelInfo, Usage
from tui_agent.models.base import (
    CallReady,
    CallStarted,
    Failed,
    ModelRequest,
    Phase,
    Piece,
    Stop,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from tui_agent.models.choosing import (
    ScriptedReply,
    choose_reply,
    estimate_tokens,
    finish_reason,
    fragments,
    from_messages,
)
from tui_agent.models.decoding import read_call
from tui_agent.models.scenarios import Scenarios, SimulatedFault
from tui_agent.models.scenarios import load_scenarios as load_scenarios

DEMO_FILE = Path(__file__).with_name("demo.json")
"""The scenarios that are shipped: the main job in a scratch workspace, and a little conversation."""
MODEL_NAME = "scripted"
CONTEXT_WINDOW = 32_768
FOR_EVER = 86_400.0
PACE = 0.015
"""Seconds between two fragments: about 65 tokens a second, quick but readable."""


def load_scripted_model(path: Path | None = None, pace: float = PACE) -> ScriptedModel:
    """The model on a scenario file, or on the shipped demonstration. Raises ScenarioError for a bad file."""
    return ScriptedModel(load_scenarios(path or DEMO_FILE), pace=pace)


class ScriptedModel:
    """Implements `models.base.Model`. `pace` is the time between fragments in seconds; 0 streams at once."""

    provider = "scripted"
    endpoint = "scripted model"

    def __init__(self, scenarios: Scenarios, *, pace: float = PACE) -> None:
        self._scenarios = scenarios
        self._pace = pace
        self._met: dict[tuple[str, int], int] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """The reply that the scenarios hold for this conversation, in fragments."""
        conversation = from_messages(request.messages, request.model, bool(request.tools))
        choice = choose_reply(self._scenarios, conversation)
        yield Phase(phase="reading")
        fault = self._fault(choice)
        await asyncio.sleep(choice.step.delay + ((fault.seconds or 0) if fault and fault.kind == "delay" else 0))
        spoilt = fault if fault is not None and fault.kind not in ("delay", "drip") else None
        sent = 0
        async with aclosing(self._whole(choice, request)) as pieces:
            async for piece in pieces:
                size = len(piece.text.encode()) if isinstance(piece, TextPiece | ThinkingPiece) else 0
                if spoilt is not None and _strikes(spoilt, piece, sent + size):
                    break
                sent += size
                yield piece
        if spoilt is None:
            return
        if spoilt.kind == "stall":
            await asyncio.sleep(FOR_EVER if spoilt.seconds is None else spoilt.seconds)
        yield Failed(fault=_failure(spoilt, nothing_sent=not sent))

    def _fault(self, choice: ScriptedReply) -> SimulatedFault | None:
        fault = choice.step.fault
        if fault is None or fault.kind == "none":
            return None
        place = (choice.scenario, choice.index)
        met = self._met[place] = self._met.get(place, 0) + 1
        return fault if fault.times is None or met <= fault.times else None

    async def _whole(self, choice: ScriptedReply, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        step, response = choice.step, choice.step.response
        pace = self._pace if step.pace is None else step.pace
        for fragment in fragments(response.thinking or "" if request.think is not False else ""):
            await asyncio.sleep(pace)
            yield ThinkingPiece(text=fragment)
        for fragment in fragments(response.content or ""):
            await asyncio.sleep(pace)
            yield TextPiece(text=fragment)
        for chosen in choice.calls:
            call = read_call(chosen.id, chosen.name, chosen.raw)
            yield CallStarted(name=call.name, arguments={})
            known: dict[str, object] = {}
            for name, value in call.arguments.items():
                await asyncio.sleep(pace * min(60, len(fragments(json.dumps(value)))))
                known[name] = value
                yield CallStarted(name=call.name, arguments=dict(known))
            yield CallReady(call=call)
        yield UsagePiece(usage=_usage(choice, request))
        yield Stop(reason=finish_reason(choice))

    async def describe(self, model: str) -> ModelInfo:
        """A model that can call tools and think, with a window of 32k."""
        return ModelInfo(
            name=model,
            capabilities=("completion", "tools", "thinking"),
            context_window=CONTEXT_WINDOW,
            loaded_window=CONTEXT_WINDOW,
        )

    async def list_models(self) -> tuple[str, ...]:
        """Its own name alone."""
        return (MODEL_NAME,)

    async def aclose(self) -> None:
        """Nothing to close."""


def _usage(choice: ScriptedReply, request: ModelRequest) -> Usage:
    response = choice.step.response
    given = response.usage
    sent = "".join(message.text for message in request.messages)
    sent += "".join(tool.description + json.dumps(tool.parameters) for tool in request.tools)
    made = (response.thinking or "") + (response.content or "") + "".join(call.raw for call in choice.calls)
    counted = Usage(prompt_tokens=estimate_tokens(sent), completion_tokens=estimate_tokens(made))
    if given is None:
        return counted
    return Usage(
        prompt_tokens=counted.prompt_tokens if given.prompt_tokens is None else given.prompt_tokens,
        completion_tokens=counted.completion_tokens if given.completion_tokens is None else given.completion_tokens,
        cached_tokens=given.cached_tokens,
    )


def _strikes(fault: SimulatedFault, piece: Piece, size: int) -> bool:
    return fault.after is None or size > fault.after or isinstance(piece, UsagePiece | Stop)


def _failure(fault: SimulatedFault, *, nothing_sent: bool) -> Fault:
    message = fault.body if isinstance(fault.body, str) else f"The scenario's fault `{fault.kind}`."
    if fault.code is not None:
        retryable = nothing_sent and (fault.code in (408, 429) or fault.code >= 500)
        return Fault(
            kind="status", message=message, status=fault.code, retry_after=fault.retry_after, retryable=retryable
        )
    if fault.kind in ("error", "garbage"):
        return Fault(kind="protocol", message=message)
    return Fault(kind="broken", message=message, retryable=nothing_sent)
