"""Plans that worked, kept for the next request of the same kind (W17). All functions that touch the file block."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.domain import Fault, Message, SystemMessage, ToolCall, ToolResult, UserMessage
from tui_agent.common.workplan import Classification, InstructionPlan, PlanStep
from tui_agent.engine.core.history import cut_text
from tui_agent.engine.core.prompts import prompt, reply_schema, version
from tui_agent.engine.loop.structured import Question, Structured
from tui_agent.engine.workflow.plan_reading import BadPlan, read_instruction_plan
from tui_agent.safety import decision_files as kept
from tui_agent.settings import Settings
from tui_agent.tools.registry import Registry

USES = 50
"""After so many successful uses a plan is made anew."""
LEAST_RATE = 0.7
"""Share of uses that must have succeeded."""
MOST = 300
"""Plans kept; the oldest go."""
_NAMED = re.compile(
    r"""
    `[^`\n]+` | "[^"\n]+" | '[^'\n]+' | [a-z]+://\S+ | [\w.\-]*/[\w./\-]+
    | \b[\w\-]+\.[a-z][a-z0-9]{0,4}\b | \b\d+\b
    """,
    re.VERBOSE,
)
_TRAILING = ".,;:!?"


class _CachedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan of the file fared."""

    plan: InstructionPlan
    names: tuple[str, ...]
    made: float
    uses: int = 0
    good: int = 0


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two requests the same for a plan: the words, without the files, numbers and quotes in them."""

    key: str
    names: tuple[str, ...]
    """What stood at the places that may differ."""


def plan_kind(task_type: str, request: str, tools: Iterable[str], prompt_version: str) -> Kind:
    """Task type + action pattern + tool set (W17), and the version of the planning prompt (H8): what another prompt led
    to is not what would be planned now."""
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        word = found.group().rstrip(_TRAILING).strip("`\"'")
        names.append(word)
        return " · "

    pattern = _NAMED.sub(place, request)
    words = " ".join(re.findall(r"[\w·]+", pattern.lower()))
    joined = "\n".join([prompt_version, task_type, words, *sorted(tools)])
    return Kind(key=hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:24], names=tuple(names))


class PlanCache:
    """The plans of one file; safe to share between processes."""

    def __init__(self, file: Path, *, days: int = 7, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._seconds = days * 86_400
        self._clock = clock

    def find(self, kind: Kind) -> InstructionPlan | None:
        """A plan for a request of that kind, with its names put in; None when there is none that is fresh and good."""
        row = self._good(self._rows("plans").get(kind.key))
        if row is None or len(row.names) != len(kind.names):
            return None
        renamed = _renamed(msgspec.to_builtins(row.plan), dict(zip(row.names, kind.names, strict=True)))
        return msgspec.convert(renamed, InstructionPlan)

    def settle(self, kind: Kind, plan: InstructionPlan, success: bool) -> None:
        """A plan was carried out: keep it, or count against it."""

        def edit(data: dict[str, Any]) -> None:
            plans, shapes = _table(data, "plans"), _table(data, "shapes")
            row = self._good(plans.pop(kind.key, None))
            if row is not None or success:
                row = row or _CachedPlan(plan=plan, names=(), made=self._clock())
                uses, good = row.uses + 1, row.good + success
                row = msgspec.structs.replace(row, plan=plan, names=kind.names, uses=uses, good=good)
                plans[kind.key] = msgspec.to_builtins(row)
            shape = shapes.setdefault(_shape(plan), {"uses": 0, "good": 0})
            shape["uses"] += 1
            shape["good"] += success
            for key in list(shapes)[:-MOST]:
                del shapes[key]
            for key in sorted(plans, key=lambda one: plans[one].get("made", 0))[:-MOST]:
                del plans[key]

        kept.change_decisions(self._file, edit)

    def adjusted(self, plan: InstructionPlan) -> InstructionPlan:
        """The plan with its confidence moved by how plans of the same tools fared: by 0.1 at the most."""
        row = self._rows("shapes").get(_shape(plan))
        if not isinstance(row, Mapping) or not (uses := int(row.get("uses", 0))):
            return plan
        weight = min(1.0, uses / 5)
        moved = plan.confidence + 0.2 * (int(row.get("good", 0)) / uses - 0.5) * weight
        return msgspec.structs.replace(plan, confidence=round(min(1.0, max(0.0, moved)), 3))

    def _rows(self, name: str) -> Mapping[str, Any]:
        rows = kept.read_decisions(self._file).get(name)
        return rows if isinstance(rows, dict) else {}

    def _good(self, given: object) -> _CachedPlan | None:
        try:
            row = msgspec.convert(given, _CachedPlan)
        except msgspec.ValidationError:
            return None
        fresh = 0 <= self._clock() - row.made < self._seconds and row.good < USES
        return row if fresh and row.uses > 0 and row.good / row.uses > LEAST_RATE else None


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    rows = data.get(name)
    if not isinstance(rows, dict):
        rows = data[name] = {}
    return rows


def _shape(plan: InstructionPlan) -> str:
    return ">".join(step.tool or "thought" for step in plan.steps)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Plain data with the old request's names replaced by the new one's, all at once."""
    changed = {old: new for old, new in names.items() if old and old != new}
    if not changed:
        return value
    pattern = re.compile("|".join(re.escape(old) for old in sorted(changed, key=len, reverse=True)))

    def inside(part: Any) -> Any:
        if isinstance(part, str):
            return pattern.sub(lambda found: changed[found.group()], part)
        if isinstance(part, dict):
            return {key: inside(one) for key, one in part.items()}
        return [inside(one) for one in part] if isinstance(part, list | tuple) else part

    return inside(value)


TRIES = 2
"""A bad plan goes back once with what is wrong with it (W4)."""
BUDGET = 5_000 * 4
"""Characters of a planning request beside the tools (H2)."""
DEPTHS = {"simple": "Use 1 or 2 steps.", "moderate": "Use 2 or 3 steps.", "complex": "Use 4 to 7 steps."}


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
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
    folder: str
    plan_doc: str = ""
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

    def __init__(self, structured: Structured, registry: Registry, settings: Settings, cache: PlanCache | None) -> None:
        self._structured = structured
        self._registry = registry
        self._settings = settings
        self._cache = cache

    def depth(self, sorted_as: Classification) -> str:
        """How finely to plan: the setting, or as complex as the request is (W3)."""
        chosen = self._settings.plan_depth
        return sorted_as.complexity if chosen == "auto" else chosen

    async def plan(
        self,
        request: str,
        sorted_as: Classification,
        background: Background,
        *,
        node: str,
        again: bool = False,
        purpose: str = "",
    ) -> PlanResult | Fault:
        """The plan for a request, or for what is left of it (`again`). A fault only where no server is there."""
        started, depth = time.monotonic(), self.depth(sorted_as)
        if depth == "simple" and not again:
            return PlanResult(plan=one_step(request), depth=depth)
        kind = plan_kind(sorted_as.task_type, request, self._registry.names, version("plan_steps"))
        if self._cache is not None and not again:
            hit = await asyncio.to_thread(self._cache.find, kind)
            if hit is not None:
                return PlanResult(plan=hit, depth=depth, cached=True, kind=kind, ms=elapsed_ms(started))
        faults = list[str]()
        question = Question(alone=self._messages(request, background, depth), task=_task(request, background, depth))
        plan = await self._asked(question, faults, sorted_as.task_type, node, purpose)
        if isinstance(plan, Fault):
            return plan
        return PlanResult(
            plan=plan or one_step(request),
            depth=depth,
            kind=kind if plan else None,
            fallback=plan is None,
            ms=elapsed_ms(started),
            faults=tuple(faults),
            prompt_version=version("plan_steps"),
        )

    async def _asked(
        self, question: Question, faults: list[str], task: str, node: str, purpose: str
    ) -> InstructionPlan | Fault | None:
        """The model's plan; its faults go back to it, and into `faults`. None when no plan came of it."""
        for _ in range(TRIES):
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
                plan = read_instruction_plan(reply.text, self._sketch)
            except BadPlan as bad:
                faults.extend(bad.faults)
                feedback = "\n".join(
                    [prompt("plan_faults"), *(f"- {fault}" for fault in bad.faults), self._tools_line()]
                )
                rejected = (*question.rejected, (reply.text[:8_000], feedback))
                question = msgspec.structs.replace(question, rejected=rejected)
                continue
            if self._cache is not None:
                plan = await asyncio.to_thread(self._cache.adjusted, plan)
            return plan
        return None

    async def settle(self, planned: PlanResult, carried_out: InstructionPlan, success: bool) -> None:
        """Tell the cache how a plan fared."""
        if self._cache is not None and planned.kind is not None and not planned.fallback:
            from tui_agent.safety.decision_files import DecisionsNotSaved

            try:
                await asyncio.to_thread(self._cache.settle, planned.kind, carried_out, success)
            except DecisionsNotSaved:
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
        return "Tools:\n" + "\n".join([*rows, "- analyze(): a step of thought", "- show_diff(): show all changes"])

    def _tools_line(self) -> str:
        return f"The tools are: {', '.join(self._registry.names)}, analyze, show_diff. Send the whole plan again."

    def _sketch(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool, str]:
        """The tool that is meant, and what is wrong with the arguments that are given already."""
        tool = self._registry.find(name)
        if tool is None:
            parsed = self._registry.parse(ToolCall(id="", name=name, arguments={}))
            return name, True, parsed.error or "" if isinstance(parsed, ToolResult) else ""
        return tool.name, tool.reads_only, self._registry.check_partial(tool.name, arguments)


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
        parts.append(f"The user rejected the plan before. Follow their reasons:\n{_rows(background.rejected)}")
    return parts


def _rows(lines: Sequence[str]) -> str:
    return "\n".join(f"- {one}" for one in lines)


def one_step(request: str) -> InstructionPlan:
    """The request itself as the only step, in the direct loop: for simple ones, and where no plan could be made."""
    step = PlanStep(number=1, description=request, confidence=1.0, critical=True)
    return InstructionPlan(approach="Do it in one step", steps=(step,), confidence=1.0)


def needs_review(planned: PlanResult, settings: Settings, sorted_as: Classification) -> tuple[bool, str]:
    """Whether somebody must look at the plan before it is carried out, and by which rule (W5)."""
    if planned.plan.confidence < 0.6:
        return True, f"its confidence is {planned.plan.confidence:.2f}, below 0.6"
    if planned.fallback and not settings.plan_fallback:
        return True, "no valid plan could be made"
    if planned.depth == "simple" or planned.fallback:
        return False, "a single step"
    if settings.plan_auto_approve:
        return False, "the setting plan_auto_approve"
    return True, "plans need your approval"


def actions_of(done: Sequence[tuple[ToolCall, ToolResult]]) -> tuple[str, ...]:
    """The last things that were done, a line each."""
    return tuple(
        f"{call.name}({json.dumps(call.arguments, ensure_ascii=False)[:200]}): "
        f"{'ok' if result.success else (result.error or 'failed')[:200]}"
        for call, result in done[-3:]
    )


def elapsed_ms(started: float) -> int:
    """Milliseconds since a reading of `time.monotonic`."""
    return round((time.monotonic() - started) * 1000)
