"""The scripted model: answers from a scenario file, without a server (M3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    ModelRequest,
    Phase,
    ReasoningFragment,
    ReplyPart,
    Stop,
    TextFragment,
    UsageReport,
)
from tui_agent.models.decoding import build_call
from tui_agent.models.scenario_matching import FaultCounter, ScriptedReply, choose_reply, fragments, from_messages
from tui_agent.models.scenarios import Scenarios, SimulatedFault
from tui_agent.models.scenarios import load_scenarios as load_scenarios

DEMO_FILE = Path(__file__).with_name("demo.json")
"""The built-in scenarios: a sample task in the demo workspace, and a short conversation."""
MODEL_NAME = "scripted"
CONTEXT_WINDOW = 32_768
FOREVER = 86_400.0
PACE = 0.015
"""Seconds between two fragments: about 65 tokens per second, fast but readable."""


def load_scripted_model(path: Path | None = None, pace: float = PACE) -> ScriptedModel:
    """Return the model for a scenario file, or for the built-in demo. Raises ScenarioError."""
    return ScriptedModel(load_scenarios(path or DEMO_FILE), pace=pace)


class ScriptedModel:
    """Implements `models.base.Model`. `pace` is the time between fragments in seconds; 0 streams at once."""

    provider = "scripted"
    endpoint = "scripted model"

    def __init__(self, scenarios: Scenarios, *, pace: float = PACE) -> None:
        self._scenarios = scenarios
        self._pace = pace
        self._faults = FaultCounter()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """See Model. Stream the scenarios' reply to this conversation."""
        conversation = from_messages(request.messages, request.model, bool(request.tools))
        choice = choose_reply(self._scenarios, conversation)
        yield Phase(phase="reading")
        fault = self._faults.next_fault(choice)
        await asyncio.sleep(choice.step.delay + ((fault.seconds or 0) if fault and fault.kind == "delay" else 0))
        disruption = fault if fault is not None and fault.kind not in ("delay", "drip") else None
        sent_bytes = 0
        async with aclosing(self._reply_parts(choice, request)) as parts:
            async for part in parts:
                size = len(part.text.encode()) if isinstance(part, TextFragment | ReasoningFragment) else 0
                if disruption is not None and _is_due(disruption, part, sent_bytes + size):
                    break
                sent_bytes += size
                yield part
        if disruption is None:
            return
        if disruption.kind == "stall":
            await asyncio.sleep(FOREVER if disruption.seconds is None else disruption.seconds)
        yield Failed(fault=_failure(disruption, nothing_sent=not sent_bytes))

    async def _reply_parts(self, choice: ScriptedReply, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        step, response = choice.step, choice.step.response
        pace = self._pace if step.pace is None else step.pace
        for fragment in fragments(response.thinking or "" if request.think is not False else ""):
            await asyncio.sleep(pace)
            yield ReasoningFragment(text=fragment)
        for fragment in fragments(response.content or ""):
            await asyncio.sleep(pace)
            yield TextFragment(text=fragment)
        for scripted_call in choice.calls:
            call = build_call(scripted_call.id, scripted_call.name, scripted_call.raw)
            yield CallProgress(name=call.name, arguments={})
            arguments: dict[str, object] = {}
            for name, value in call.arguments.items():
                await asyncio.sleep(pace * min(60, len(fragments(json.dumps(value)))))
                arguments[name] = value
                yield CallProgress(name=call.name, arguments=dict(arguments))
            yield CallReady(call=call)
        prompt = [message.text for message in request.messages]
        prompt += [tool.description + json.dumps(tool.parameters) for tool in request.tools]
        yield UsageReport(usage=choice.usage("".join(prompt), think=request.think is not False))
        yield Stop(reason=choice.finish_reason)

    async def describe(self, model: str) -> ModelInfo:
        """See Model. It has tools, reasoning and a window of 32k."""
        return ModelInfo(
            name=model,
            capabilities=("completion", "tools", "thinking"),
            context_window=CONTEXT_WINDOW,
            loaded_window=CONTEXT_WINDOW,
        )

    async def list_models(self) -> tuple[str, ...]:
        """See Model."""
        return (MODEL_NAME,)

    async def aclose(self) -> None:
        """See Model."""


def _is_due(fault: SimulatedFault, part: ReplyPart, size: int) -> bool:
    return fault.after is None or size > fault.after or isinstance(part, UsageReport | Stop)


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
