"""Stage 1: the instruction plan, from the cache, from the planning model, or as a single step (W2 to W4, W17)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from tui_agent.domain import (
    Fault,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tui_agent.engine.condensing import cut_text
from tui_agent.engine.plan_cache import Kind, PlanCache, kind_of
from tui_agent.engine.plan_reading import BadPlan, read_plan
from tui_agent.engine.prompts import prompt, version
from tui_agent.engine.structured import Question, Structured
from tui_agent.settings import Settings
from tui_agent.tools.registry import Registry
from tui_agent.workplan import Classified, InstructionPlan, PlanStep

TRIES = 2
"""A bad plan goes back once with what is wrong with it (W4)."""
BUDGET = 5_000 * 4
"""Characters of a planning request beside the tools (H2)."""
DEPTHS = {"simple": "Use 1 or 2 steps.", "moderate": "Use 2 or 3 steps.", "complex": "Use 4 to 7 steps."}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approach": {"type": "string"},
        "prerequisites": {"type": "array", "items": {"type": "string"}},
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "step_number": {"type": "integer"},
                    "description": {"type": "string"},
                    "tool": {"type": "string"},
                    "args": {"type": "object"},
                    "expected_outcome": {"type": "string"},
                    "error_handling": {"type": "string"},
                    "confidence": {"type": "number"},
                    "critical": {"type": "boolean"},
                    "subtask": {"type": "boolean"},
                },
                "required": ["description", "tool", "expected_outcome", "error_handling", "confidence"],
            },
        },
        "verification": {
            "type": "object",
            "properties": {"check_command": {"type": "string"}, "success_criteria": {"type": "string"}},
        },
        "alternatives": {"type": "array", "items": {"type": "object"}},
        "confidence": {"type": "number"},
    },
    "required": ["approach", "steps"],
}


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and how it came about."""

    plan: InstructionPlan
    depth: str
    cached: bool = False
    fallback: bool = False
    ms: int = 0
    faults: tuple[str, ...] = ()
    prompt_version: str = ""
    kind: Kind | None = None
    """Under which the cache keeps it."""


class Background(msgspec.Struct, frozen=True, kw_only=True):
    """What the planning model is told beside the request (W2)."""

    rules: str
    """The agent's system text."""
    plan_doc: str
    folder: str
    request: str = ""
    """The user's message, as it stands in the conversation."""
    actions: tuple[str, ...] = ()
    """When it plans again: the last things done in this run."""
    failures: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    """Why the user rejected the plans before."""
    conversation: str = ""
    """What was talked about before the request."""
    attached: str = ""
    """What the user attached to the request (H7)."""


class Planner:
    """Makes plans for one run."""

    def __init__(
        self, structured: Structured, registry: Registry, settings: Settings, cache: PlanCache | None
    ) -> None:
        self._structured = structured
        self._registry = registry
        self._settings = settings
        self._cache = cache

    def depth(self, sorted_as: Classified) -> str:
        """How finely to plan: the setting, or as complex as the request is (W3)."""
        chosen = self._settings.plan_depth
        return sorted_as.complexity if chosen == "auto" else chosen

    async def plan(
        self,
        request: str,
        sorted_as: Classified,
        background: Background,
        *,
        node: str,
        again: bool = False,
        purpose: str = "",
    ) -> Planned | Fault:
        """The plan for a request, or for what is left of it (`again`). A fault only where no server is there."""
        began, depth = time.monotonic(), self.depth(sorted_as)
        if depth == "simple" and not again:
            return Planned(plan=one_step(request), depth=depth)
        kind = kind_of(sorted_as.task_type, request, self._registry.names, version("plan_steps"))
        if self._cache is not None and not again:
            hit = await asyncio.to_thread(self._cache.find, kind)
            if hit is not None:
                return Planned(plan=hit.plan, depth=depth, cached=True, kind=kind, ms=_since(began))
        faults = list[str]()
        question = Question(
            alone=self._messages(request, background, depth), task=_task(request, background, depth)
        )
        plan = await self._asked(question, faults, sorted_as.task_type, node, purpose)
        if isinstance(plan, Fault):
            return plan
        return Planned(
            plan=plan or one_step(request),
            depth=depth,
            kind=kind if plan else None,
            fallback=plan is None,
            ms=_since(began),
            faults=tuple(faults),
            prompt_version=version("plan_steps"),
        )

    async def _asked(
        self, question: Question, faults: list[str], task: str, node: str, purpose: str
    ) -> InstructionPlan | Fault | None:
        """The model's plan; its faults go back to it, and into `faults`. None when no plan came of it."""
        for _ in range(TRIES):
            said = await self._structured.ask(
                "planning",
                question,
                parent=node,
                schema=SCHEMA,
                quiet=self._settings.timeouts.planning,
                task=task,
                purpose=purpose,
            )
            if isinstance(said, Fault):
                if said.kind == "unreachable":
                    return said
                faults.append(said.message)
                break
            try:
                plan = read_plan(said.text, self._sketch)
            except BadPlan as bad:
                faults.extend(bad.faults)
                told = "\n".join(
                    [prompt("plan_faults"), *(f"- {fault}" for fault in bad.faults), self._tools_line()]
                )
                since = (*question.since, (said.text[:8_000], told))
                question = msgspec.structs.replace(question, since=since)
                continue
            if self._cache is not None:
                plan = await asyncio.to_thread(self._cache.adjusted, plan)
            return plan
        return None

    async def settle(
        self, planned: Planned, carried_out: InstructionPlan, success: bool, choice: str = ""
    ) -> None:
        """Tell the cache how a plan fared."""
        if self._cache is not None and planned.kind is not None and not planned.fallback:
            from tui_agent.safety.kept import CannotKeep

            try:
                await asyncio.to_thread(self._cache.settle, planned.kind, carried_out, success, choice=choice)
            except CannotKeep:
                return  # a cache that can't be written is no cache

    def _messages(self, request: str, background: Background, depth: str) -> tuple[Message, ...]:
        rules = "\n\n".join([background.rules, prompt("plan_steps"), DEPTHS[depth]])
        parts = [f"Working folder: {background.folder}", self._tools_text(), *_so_far(background)]
        if background.conversation:
            parts.append(f"The conversation before the request:\n{background.conversation}")
        room = max(2_000, BUDGET - len(rules) - sum(map(len, parts)))
        if background.attached:
            parts.append(cut_text(background.attached, max(1_000, room - len(request) - 200)))
        parts.append("The request:\n" + (request if len(request) <= room else request[:room] + " …"))
        messages: list[Message] = [SystemMessage(text=rules)]
        if background.plan_doc:
            messages.append(SystemMessage(text=background.plan_doc))
        return (*messages, UserMessage(text="\n\n".join(parts)))

    def _tools_text(self) -> str:
        rows = []
        for spec in self._registry.specs():
            names = ", ".join(spec.parameters.get("properties", {}))
            about = spec.description.split("\n", 1)[0]
            rows.append(f"- {spec.name}({names}): {about}")
        return "Tools:\n" + "\n".join(
            [*rows, "- analyze(): a step of thought", "- show_diff(): show all changes"]
        )

    def _tools_line(self) -> str:
        return f"The tools are: {', '.join(self._registry.names)}, analyze, show_diff. Send the whole plan again."

    def _sketch(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool, str]:
        """The tool that is meant, and what is wrong with the arguments that are given already."""
        tool = self._registry.find(name)
        if tool is None:
            parsed = self._registry.parse(ToolCall(id="", name=name, arguments={}))
            return name, True, parsed.error or "" if isinstance(parsed, ToolResult) else ""
        return tool.name, tool.reads_only, self._registry.misfit(tool.name, arguments)


def _task(request: str, background: Background, depth: str) -> str:
    """What is asked behind the conversation, where rules, tools, plan document and the user's message stand."""
    parts = [prompt("plan_steps"), DEPTHS[depth], *_so_far(background)]
    if request != background.request:
        parts.append(f"What to plan now:\n{request}")
    return "\n\n".join(parts)


def _so_far(background: Background) -> list[str]:
    """What came of this run until now."""
    parts = []
    if background.actions:
        parts.append("Done so far in this run:\n" + _rows(background.actions[-3:]))
    if background.failures:
        parts.append(f"What failed, and why. Plan another way around it:\n{_rows(background.failures[-5:])}")
    if background.rejected:
        parts.append(
            f"The user rejected the plan before. Follow their reasons:\n{_rows(background.rejected)}"
        )
    return parts


def _rows(lines: Sequence[str]) -> str:
    return "\n".join(f"- {one}" for one in lines)


def one_step(request: str) -> InstructionPlan:
    """The request itself as the only step, in the direct loop: for simple ones, and where no plan could be made."""
    step = PlanStep(number=1, description=request, confidence=1.0, critical=True)
    return InstructionPlan(approach="Do it in one step", steps=(step,), confidence=1.0)


def asks(planned: Planned, settings: Settings, sorted_as: Classified) -> tuple[bool, str]:
    """Whether somebody must look at the plan before it is carried out, and by which rule (W5)."""
    if planned.plan.confidence < 0.6:
        return True, f"its confidence is {planned.plan.confidence:.2f}, below 0.6"
    if planned.fallback and not settings.plan_fallback:
        return True, "no valid plan could be made"
    if planned.depth == "simple" or planned.fallback:
        return False, "a single step"
    if settings.plan_auto_approve:
        return False, "the setting plan_auto_approve"
    return True, "plans are shown before they are carried out"


def actions_of(done: Sequence[tuple[ToolCall, ToolResult]]) -> tuple[str, ...]:
    """The last things that were done, a line each."""
    return tuple(
        f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)[:200]}): "
        f"{'ok' if result.success else (result.error or 'failed')[:200]}"
        for call, result in done[-3:]
    )


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
