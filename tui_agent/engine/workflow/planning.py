"""Planning: requests an instruction plan from a model, and caches plans that worked (W2 to W5, W17)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.domain import Fault, Message, SystemMessage, ToolCall, ToolResult, UserMessage
from tui_agent.common.workplan import ONE_STEP, Classification, InstructionPlan, PlanStep
from tui_agent.engine.core.history import cut_text
from tui_agent.engine.core.prompts import prompt, reply_schema, version
from tui_agent.engine.loop.structured import Question, Structured
from tui_agent.engine.workflow.plan_reading import InvalidPlan, parse_plan
from tui_agent.safety.decision_files import DecisionsNotSaved, change_decisions, read_decisions
from tui_agent.settings import Settings
from tui_agent.tools.registry import Registry

MAX_USES = 50
"""Successful uses after which a cached plan expires."""
MIN_SUCCESS_RATE = 0.7
"""The share of successful uses of a cached plan must be higher."""
MAX_ENTRIES = 300
"""Entries in each section of the cache file; the oldest are dropped."""
_SPECIFIC = re.compile(
    r"""
    `[^`\n]+` | "[^"\n]+" | '[^'\n]+' | [a-z]+://\S+ | [\w.\-]*/[\w./\-]+
    | \b[\w\-]+\.[a-z][a-z0-9]{0,4}\b | \b\d+\b
    """,
    re.VERBOSE,
)
"""Quoted text, URLs, paths, file names and numbers."""


class _CacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A cached plan and its record of success, as stored in the file."""

    plan: InstructionPlan
    names: tuple[str, ...]
    made: float
    uses: int = 0
    good: int = 0


class RequestPattern(msgspec.Struct, frozen=True, kw_only=True):
    """What similar requests have in common: their words without specific files, numbers and quotes."""

    key: str
    names: tuple[str, ...]
    """The specific parts, in order."""


def request_pattern(task_type: str, request: str, tools: Iterable[str], prompt_version: str) -> RequestPattern:
    """Return the pattern of a request: task type, action pattern and tool set (W17).

    The version of the planning prompt is part of it (H8): a plan made with another prompt is not reused."""
    names: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        names.append(match.group().rstrip(".,;:!?").strip("`\"'"))
        return " · "

    words = " ".join(re.findall(r"[\w·]+", _SPECIFIC.sub(placeholder, request).lower()))
    joined = "\n".join([prompt_version, task_type, words, *sorted(tools)])
    return RequestPattern(key=hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:24], names=tuple(names))


class PlanCache:
    """The cached plans in one file. Several processes may share it; all methods that access it block."""

    def __init__(self, file: Path, *, days: int = 7, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._max_age = days * 86_400
        self._clock = clock

    def find(self, pattern: RequestPattern) -> InstructionPlan | None:
        """Return a plan for requests of this pattern, with the names of the new request, or None.

        Only recent plans that mostly succeeded are returned."""
        entry = self._usable(_section(read_decisions(self._file), "plans").get(pattern.key))
        if entry is None or len(entry.names) != len(pattern.names):
            return None
        renamed = _rename(msgspec.to_builtins(entry.plan), dict(zip(entry.names, pattern.names, strict=True)))
        return msgspec.convert(renamed, InstructionPlan)

    def record_outcome(self, pattern: RequestPattern, plan: InstructionPlan, success: bool) -> None:
        """Count a use of the plan, and store the plan if it succeeded. Raises DecisionsNotSaved."""

        def edit(data: dict[str, Any]) -> None:
            plans = data["plans"] = _section(data, "plans")
            shapes = data["shapes"] = _section(data, "shapes")
            entry = self._usable(plans.pop(pattern.key, None))
            if entry is not None or success:
                entry = entry or _CacheEntry(plan=plan, names=(), made=self._clock())
                uses, good = entry.uses + 1, entry.good + success
                entry = msgspec.structs.replace(entry, plan=plan, names=pattern.names, uses=uses, good=good)
                plans[pattern.key] = msgspec.to_builtins(entry)
            shape = shapes.setdefault(_shape(plan), {"uses": 0, "good": 0})
            shape["uses"] += 1
            shape["good"] += success
            for key in list(shapes)[:-MAX_ENTRIES]:
                del shapes[key]
            for key in sorted(plans, key=lambda key: plans[key].get("made", 0))[:-MAX_ENTRIES]:
                del plans[key]

        change_decisions(self._file, edit)

    def adjust_confidence(self, plan: InstructionPlan) -> InstructionPlan:
        """Return the plan with its confidence changed, by at most 0.1, for the success of plans with the same tools."""
        shape = _section(read_decisions(self._file), "shapes").get(_shape(plan))
        if not isinstance(shape, Mapping) or not (uses := int(shape.get("uses", 0))):
            return plan
        weight = min(1.0, uses / 5)
        confidence = plan.confidence + 0.2 * (int(shape.get("good", 0)) / uses - 0.5) * weight
        return msgspec.structs.replace(plan, confidence=round(min(1.0, max(0.0, confidence)), 3))

    def _usable(self, row: object) -> _CacheEntry | None:
        """Return the entry of a row of the file; None if it is damaged, expired or failed too often."""
        try:
            entry = msgspec.convert(row, _CacheEntry)
        except msgspec.ValidationError:
            return None
        is_current = 0 <= self._clock() - entry.made < self._max_age and entry.good < MAX_USES
        return entry if is_current and entry.uses > 0 and entry.good / entry.uses > MIN_SUCCESS_RATE else None


def _section(data: dict[str, Any], name: str) -> dict[str, Any]:
    rows = data.get(name)
    return rows if isinstance(rows, dict) else {}


def _shape(plan: InstructionPlan) -> str:
    return ">".join(step.tool or "thought" for step in plan.steps)


def _rename(data: Any, names: Mapping[str, str]) -> Any:
    """Return plain data with each name replaced by its new one, all at once."""
    changed = {old: new for old, new in names.items() if old and old != new}
    if not changed:
        return data
    pattern = re.compile("|".join(re.escape(old) for old in sorted(changed, key=len, reverse=True)))

    def rename(part: Any) -> Any:
        if isinstance(part, str):
            return pattern.sub(lambda match: changed[match.group()], part)
        if isinstance(part, dict):
            return {key: rename(item) for key, item in part.items()}
        return [rename(item) for item in part] if isinstance(part, list | tuple) else part

    return rename(data)


MAX_ATTEMPTS = 2
"""An invalid plan is returned to the model once, with its faults (W4)."""
BUDGET = 5_000 * 4
"""Characters of a planning request, not counting the tools (H2)."""
DEPTHS = {"simple": "Use 1 or 2 steps.", "moderate": "Use 2 or 3 steps.", "complex": "Use 4 to 7 steps."}
INTERRUPTED = "planning was interrupted"
"""Fault of a plan that the user did not wait for (W4)."""


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and how it was made."""

    plan: InstructionPlan
    depth: str
    cached: bool = False
    fallback: bool = False
    """A single step, because no valid plan could be made."""
    ms: int = 0
    faults: tuple[str, ...] = ()
    prompt_version: str = ""
    pattern: RequestPattern | None = None
    """The pattern under which the cache stores it."""


class PlanningContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the planning model gets in addition to the request (W2)."""

    rules: str
    """The agent's system message."""
    folder: str
    plan_doc: str = ""
    request: str = ""
    """The user's message, as in the conversation."""
    actions: tuple[str, ...] = ()
    """For another plan in the same run: the latest actions."""
    failures: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    """Why the user rejected the previous plans."""
    conversation: str = ""
    """The conversation before the request."""
    attached: str = ""
    """The attachments of the request (H7)."""


class Planner:
    """Makes plans for one run."""

    def __init__(self, structured: Structured, registry: Registry, settings: Settings, cache: PlanCache | None) -> None:
        self._structured = structured
        self._registry = registry
        self._settings = settings
        self._cache = cache

    def depth(self, classification: Classification) -> str:
        """Return how detailed the plan is: the setting, or the complexity of the request (W3)."""
        setting = self._settings.plan_depth
        return classification.complexity if setting == "auto" else setting

    async def plan(
        self,
        request: str,
        classification: Classification,
        context: PlanningContext,
        *,
        node: str,
        replan: bool = False,
        purpose: str = "",
    ) -> PlanResult | Fault:
        """Return a plan for a request, or for the remaining work (`replan`). Return a fault only without a server."""
        started, depth = time.monotonic(), self.depth(classification)
        if depth == "simple" and not replan:
            return PlanResult(plan=single_step_plan(request), depth=depth)
        pattern = request_pattern(classification.task_type, request, self._registry.names, version("plan_steps"))
        if self._cache is not None and not replan:
            cached = await asyncio.to_thread(self._cache.find, pattern)
            if cached is not None:
                return PlanResult(plan=cached, depth=depth, cached=True, pattern=pattern, ms=elapsed_ms(started))
        faults = list[str]()
        question = Question(alone=self._messages(request, context, depth), task=_task(request, context, depth))
        plan = await self._request_plan(question, faults, classification.task_type, node, purpose)
        if isinstance(plan, Fault):
            return plan
        return PlanResult(
            plan=plan or single_step_plan(request),
            depth=depth,
            pattern=pattern if plan else None,
            fallback=plan is None,
            ms=elapsed_ms(started),
            faults=tuple(faults),
            prompt_version=version("plan_steps"),
        )

    async def _request_plan(
        self, question: Question, faults: list[str], task: str, node: str, purpose: str
    ) -> InstructionPlan | Fault | None:
        """Return the model's plan, or None if it made no valid one. Faults go back to it, and are added to `faults`."""
        for _ in range(MAX_ATTEMPTS):
            reply = await self._structured.ask(
                "planning",
                question,
                parent=node,
                schema=reply_schema("plan_steps"),
                idle_timeout=self._settings.timeouts.planning,
                task=task,
                purpose=purpose,
            )
            if isinstance(reply, Fault):
                if reply.kind == "unreachable":
                    return reply
                faults.append(reply.message)
                break
            try:
                plan = parse_plan(reply.text, self._resolve_tool)
            except InvalidPlan as error:
                faults.extend(error.faults)
                names = (
                    f"The tools are: {', '.join(self._registry.names)}, analyze, show_diff. Send the whole plan again."
                )
                feedback = "\n".join([prompt("plan_faults"), *(f"- {fault}" for fault in error.faults), names])
                rejected = (*question.rejected, (reply.text[:8_000], feedback))
                question = msgspec.structs.replace(question, rejected=rejected)
                continue
            return plan if self._cache is None else await asyncio.to_thread(self._cache.adjust_confidence, plan)
        return None

    async def record_outcome(self, planned: PlanResult, executed: InstructionPlan, success: bool) -> None:
        """Record in the cache whether a plan, as it was executed, succeeded. A read-only cache is ignored."""
        if self._cache is not None and planned.pattern is not None and not planned.fallback:
            with contextlib.suppress(DecisionsNotSaved):
                await asyncio.to_thread(self._cache.record_outcome, planned.pattern, executed, success)

    def _messages(self, request: str, context: PlanningContext, depth: str) -> tuple[Message, ...]:
        rules = "\n\n".join([context.rules, prompt("plan_steps"), DEPTHS[depth]])
        parts = [f"Working folder: {context.folder}", self._tool_list(), *_progress(context)]
        if context.conversation:
            parts.append(f"The conversation before the request:\n{context.conversation}")
        room = max(2_000, BUDGET - len(rules) - sum(map(len, parts)))
        if context.attached:
            parts.append(cut_text(context.attached, max(1_000, room - len(request) - 200)))
        parts.append("The request:\n" + (request if len(request) <= room else request[:room] + " …"))
        messages: list[Message] = [SystemMessage(text=rules)]
        if context.plan_doc:
            messages.append(SystemMessage(text=context.plan_doc))
        return (*messages, UserMessage(text="\n\n".join(parts)))

    def _tool_list(self) -> str:
        rows = []
        for spec in self._registry.specs():
            parameters = ", ".join(spec.parameters.get("properties", {}))
            purpose = spec.description.split("\n", 1)[0]
            rows.append(f"- {spec.name}({parameters}): {purpose}")
        return "Tools:\n" + "\n".join([*rows, "- analyze(): a step of thought", "- show_diff(): show all changes"])

    def _resolve_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool, str]:
        """See ToolResolver."""
        tool = self._registry.find(name)
        if tool is None:
            parsed = self._registry.parse(ToolCall(id="", name=name, arguments={}))
            return name, True, parsed.error or "" if isinstance(parsed, ToolResult) else ""
        return tool.name, tool.reads_only, self._registry.check_partial(tool.name, arguments)


def _task(request: str, context: PlanningContext, depth: str) -> str:
    """Return the task to append to the conversation, which has rules, tools, plan document and request already."""
    parts = [prompt("plan_steps"), DEPTHS[depth], *_progress(context)]
    if request != context.request:
        parts.append(f"What to plan now:\n{request}")
    return "\n\n".join(parts)


def _progress(context: PlanningContext) -> list[str]:
    """Return what happened so far in this run."""
    parts = []
    if context.actions:
        parts.append("Done so far in this run:\n" + _bullets(context.actions[-3:]))
    if context.failures:
        parts.append(f"What failed, and why. Plan another way around it:\n{_bullets(context.failures[-5:])}")
    if context.rejected:
        parts.append(f"The user rejected the plan before. Follow their reasons:\n{_bullets(context.rejected)}")
    return parts


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def single_step_plan(request: str) -> InstructionPlan:
    """Return a plan with the request as its only step: for simple requests, and if no valid plan could be made."""
    step = PlanStep(number=1, description=request, confidence=1.0, critical=True)
    return InstructionPlan(approach=ONE_STEP, steps=(step,), confidence=1.0)


def needs_review(planned: PlanResult, settings: Settings) -> tuple[bool, str]:
    """Return whether the user must review the plan before it is executed, and the rule that decides it (W5)."""
    if INTERRUPTED in planned.faults:
        return True, INTERRUPTED
    if planned.plan.confidence < 0.6:
        return True, "confidence below 60%"
    if planned.fallback and not settings.plan_fallback:
        return True, "no valid plan could be made"
    if planned.depth == "simple" or planned.fallback:
        return False, "a single step"
    if settings.plan_auto_approve:
        return False, "the setting plan_auto_approve"
    return True, "plans need your approval"


def recent_actions(results: Sequence[tuple[ToolCall, ToolResult]]) -> tuple[str, ...]:
    """Return the last three calls with their outcome, one line each."""
    return tuple(
        f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)[:200]}): "
        f"{'ok' if result.success else (result.error or 'failed')[:200]}"
        for call, result in results[-3:]
    )


def elapsed_ms(started: float) -> int:
    """Return the milliseconds since a reading of `time.monotonic`."""
    return round((time.monotonic() - started) * 1000)
