"""The dispatcher: what kind of work a request is, found out by one short model call (W1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from tui_agent import events
from tui_agent.common.domain import Answer, Fault, ProgramMessage, SystemMessage, UserMessage, program_text
from tui_agent.common.workplan import Classification, InstructionPlan, PlanStep
from tui_agent.engine.checks.request_reading import RequestReading, list_items, read_request, request_kind
from tui_agent.engine.context.modes import intent_section
from tui_agent.engine.core.prompts import prompt, reply_schema
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.loop.structured import Question, Structured
from tui_agent.engine.workflow.execution import Diagnosis, Execution, ExecutionResult, WorkflowDeps, stage
from tui_agent.engine.workflow.plan_reading import classified
from tui_agent.engine.workflow.planning import Background, PlanResult, actions_of, elapsed_ms, needs_review, one_step
from tui_agent.engine.workflow.summary import summarize_run
from tui_agent.tools.registry import Registry

REQUEST_MAX = 4_000
"""Characters of the request that the dispatcher reads."""
GUESS = Classification(guessed=True, reasoning="The request could not be sorted.")
"""Mixed, with writing: the reading that forbids nothing and plans with care."""


async def classify(
    request: str, structured: Structured, stream: EventStream, *, run: str, node: str, before: str = ""
) -> Classification | Fault:
    """How the request is to be worked on, `before` being the conversation up to it.

    A failed or malformed reply is `GUESS`; a missing server is a fault."""
    shown = request if len(request) <= REQUEST_MAX else request[:REQUEST_MAX] + " …"
    talk = (ProgramMessage(text=program_text("conversation", before)),) if before else ()
    question = Question(
        alone=(SystemMessage(text=prompt("classify")), *talk, UserMessage(text=shown)), task=prompt("classify")
    )
    reply = await structured.ask(
        "dispatcher", question, parent=node, schema=reply_schema("classify"), idle_timeout=60.0, preamble=400
    )
    if isinstance(reply, Fault):
        if reply.kind == "unreachable":
            return reply
        found, ms = GUESS, 0
    else:
        found, ms = classified(reply.text) or GUESS, reply.ms
    stream.emit(events.RequestClassified(classified=found, ms=ms), run=run, node=node)
    return found


SMALL = 240
"""Characters of a request that needs no plan."""


def classified_by_words(reading: RequestReading, why: str) -> Classification:
    """How a request is to be worked on, without a model call; `why` there is none."""
    if reading.kind == "question":
        return Classification(
            intent="analyze", needs_write=False, task_type="analysis", complexity="simple", reasoning=why
        )
    return Classification(
        intent="modify" if reading.kind == "change" else "mixed",
        needs_write=reading.kind == "change",
        complexity="simple",
        reasoning=why,
    )


def by_words(found: Classification, request: str) -> Classification:
    """How a model sorted a request, where its words do not say otherwise: one that plainly asks for a change is never
    only looked into."""
    if found.intent != "analyze" or found.guessed or request_kind(request) != "change":
        return found
    return msgspec.structs.replace(found, intent="mixed", needs_write=True)


def names_one_small_change(reading: RequestReading, folder: str) -> bool:
    """Whether a request asks in a sentence or two for a change in one file that is there: it needs no plan (E8)."""
    if reading.kind != "change" or not reading.small or len(reading.text) > SMALL or len(reading.paths) != 1:
        return False
    return os.path.isfile(os.path.join(folder, reading.paths[0]))


def listed_plan(text: str) -> InstructionPlan | None:
    """The plan that a request is: a step for each item of its list; None where it is no list of things to do."""
    items = list_items(text)
    if not items:
        return None
    steps = tuple(
        PlanStep(number=number, description=item, confidence=1.0, critical=True) for number, item in enumerate(items, 1)
    )
    return InstructionPlan(approach="The steps of the request, in its order", steps=steps, confidence=1.0)


REJECTIONS = 3
"""How often a plan that was rejected with a reason is made anew."""


class Rejected(Exception):
    """The user turned a plan down; the message is the reason."""


class Workflow:
    """One run of the staged workflow for one user message."""

    def __init__(self, run: str, request: str, deps: WorkflowDeps) -> None:
        self._run = run
        self._request = request
        self._deps = deps
        self._began = time.monotonic()
        self._sorted: Classification = GUESS
        self._planned: PlanResult | None = None
        self._plan: InstructionPlan | None = None
        self._failures: list[str] = []
        self._by_words = False
        """The program sorts, plans and sums up, without a model call (E8)."""
        self._rejected: list[str] = []
        """Why the user rejected plans of this run, the latest last."""
        self._planning: asyncio.Task[PlanResult | Fault] | None = None
        self.intent = ""
        """Name of the text that the kind of request adds to what the model is told (W1)."""

    def skip_planning(self) -> bool:
        """Give up waiting for the plan: the cached one or a single step is taken (W4). False when it is not waited
        for."""
        task = self._planning
        return task is not None and not task.done() and task.cancel()

    async def work(self) -> events.RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        carried = ExecutionResult()
        try:
            found = await self._stage("planning", self._prepare)
            if isinstance(found, Fault):
                return self._ended(ExecutionResult(outcome=found.outcome, closing=found.full_message))
            carried = await self._stage("execution", self._carry_out)
        except Rejected as rejected:
            closing = "The plan was rejected" + (f": {rejected}" if str(rejected) else ".")
            return self._ended(ExecutionResult(outcome="refused", closing=closing))
        if self._planned is not None and self._plan is not None and not self._failures:
            # A plan that needed its fallback would make the next one of its kind stumble again.
            worked = carried.outcome == "done" and not carried.recovered
            await self._deps.planner.settle(self._planned, self._plan, worked)
        if self._deps.calls.count and not self._only_looks():
            summarize = partial(summarize_run, self._deps, self._request, carried, self._by_words, self._run)
            await self._stage("summary", summarize)
        return self._ended(carried)

    # --- stage 1 ---

    async def _prepare(self, node: str) -> Fault | None:
        deps = self._deps
        self._by_words = deps.files or names_one_small_change(read_request(self._request), deps.background.folder)
        if self._by_words:
            await self._prepare_by_words(node)
            return None
        found = await classify(
            self._request, deps.structured, deps.stream, run=self._run, node=node, before=deps.background.conversation
        )
        if isinstance(found, Fault):
            return found
        self._sorted = by_words(found, self._request)
        if self._only_looks() or not deps.environment.settings.planning:
            return None
        while True:
            planned = await self._wait_for_plan(node)
            if isinstance(planned, Fault):
                return planned
            self._planned = planned
            if planned.depth == "simple":
                return None
            try:
                self._plan = await self._reviewed(planned, node)
                return None
            except Rejected as rejected:
                if not str(rejected) or len(self._rejected) >= REJECTIONS:
                    raise
                self._rejected.append(str(rejected))

    async def _prepare_by_words(self, node: str) -> None:
        """Sort and plan without a model."""
        reading, deps = read_request(self._request), self._deps
        self._sorted = classified_by_words(reading, "read by the program, without calls for sorting, plan and summary")
        deps.stream.emit(events.RequestClassified(classified=self._sorted, ms=0), run=self._run, node=node)
        plan = listed_plan(self._request) if deps.environment.settings.planning else None
        if plan is not None:
            self._planned = PlanResult(plan=plan, depth="moderate")
            self._plan = await self._reviewed(self._planned, node)

    async def _wait_for_plan(self, node: str) -> PlanResult | Fault:
        deps = self._deps
        making = deps.planner.plan(
            self._request, self._sorted, self._background(), node=node, again=bool(self._rejected)
        )
        self._planning = asyncio.create_task(making)
        try:
            return await asyncio.shield(self._planning)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                await end_tasks(self._planning)
                raise
            return PlanResult(
                plan=one_step(self._request),
                depth=deps.planner.depth(self._sorted),
                fallback=True,
                faults=("planning was interrupted",),
            )
        finally:
            self._planning = None

    async def _reviewed(self, planned: PlanResult, node: str, *, recovery: bool = False) -> InstructionPlan:
        """The plan that will be carried out. Raises Rejected."""
        deps = self._deps
        must, why = needs_review(planned, deps.environment.settings, self._sorted)
        skipped = "planning was interrupted" in planned.faults
        must, why = (True, "planning was interrupted") if skipped else (must, why)
        asking = must and deps.environment.attended
        if must and not asking:
            why = f"{why}; no user is present"

        def proposed(request: str) -> events.Event:
            return events.PlanProposed(
                id=request,
                plan=planned.plan,
                asks=asking,
                why=why,
                depth=planned.depth,
                cached=planned.cached,
                fallback=planned.fallback,
                recovery=recovery,
                ms=planned.ms,
                prompt_version=planned.prompt_version,
                faults=planned.faults,
            )

        decided, unsure = None, False
        if not asking:
            unsure = planned.plan.confidence < 0.6 and not deps.accept_plan
            by = f"{why}: a single step" if unsure else why
            decided = Answer(verdict="approve", by=by)

        def result(answer: Answer) -> tuple[InstructionPlan, bool, int | None]:
            return (one_step(self._request), True, None) if unsure else _answered(planned.plan, answer)

        def reviewed(request: str, answer: Answer) -> events.Event:
            plan, edited, choice = result(answer)
            return events.PlanReviewed(id=request, answer=answer, plan=plan, edited=edited, alternative=choice)

        answer = await deps.approvals.decide(proposed, reviewed, run=self._run, node=node, decided=decided)
        if answer.verdict != "approve":
            raise Rejected(answer.text)
        plan, _, choice = result(answer)
        return plan if choice is None else await self._other_way(planned, choice, node)

    async def _other_way(self, planned: PlanResult, choice: int, node: str) -> InstructionPlan:
        """The plan for the alternative that the user picked, shown again."""
        way = planned.plan.alternatives[choice]
        request = f"{self._request}\n\nDo it this way: {way.approach}"
        made = await self._planned_again(request, node)
        if isinstance(made, Fault) or made.fallback:
            made = PlanResult(plan=one_step(request), depth=planned.depth)
        self._planned = msgspec.structs.replace(made, kind=planned.kind)
        return await self._reviewed(self._planned, node)

    # --- stage 2 ---

    async def _carry_out(self, node: str) -> ExecutionResult:
        deps = self._deps
        self.intent = intent_section(self._sorted)
        if self.intent:
            deps.stream.emit(events.ProgramMessageAdded(kind="intent", text=prompt(self.intent)), run=self._run)
        execution = Execution(self._run, node, deps, self._tools, self._replan, self._divide)
        planned = self._planned
        if self._plan is None or (planned is not None and planned.fallback and self._plan == planned.plan):
            carried = await execution.alone()
            if self._wanted_more():
                carried = await execution.alone()
        else:
            carried = await execution.steps(self._plan)
        if not self._only_looks() and not deps.files:
            wanted = self._sorted.needs_write and not self._sorted.guessed
            deps.completion.needs_change = deps.completion.needs_change or wanted
            await execution.gate(deps.completion)
        return carried

    async def _replan(self, step: PlanStep, found: Diagnosis, node: str) -> InstructionPlan | None:
        """A plan for what is left after a failure, reviewed like the first one."""
        deps = self._deps
        self._failures.append(found.sentence(step))
        planned = await self._planned_again(self._request, node)
        if isinstance(planned, Fault) or planned.fallback or _begins_with(planned.plan, step):
            return None
        if self._planned is not None and self._plan is not None:
            await deps.planner.settle(self._planned, self._plan, False)
        try:
            return await self._reviewed(planned, node, recovery=True)
        except Rejected:
            return None

    async def _planned_again(self, request: str, node: str) -> PlanResult | Fault:
        return await self._deps.planner.plan(
            request, self._sorted, self._background(), node=node, again=True, purpose="replanning"
        )

    async def _divide(self, step: PlanStep, node: str) -> tuple[PlanStep, ...]:
        """The steps of a subtask, planned when it is reached and reviewed (W2); itself where there are none."""
        request = f"{step.description}\n\nThis is a part of the request: {self._request}"
        itself = (msgspec.structs.replace(step, subtask=False),)
        made = await self._deps.planner.plan(request, self._sorted, self._background(), node=node, again=True)
        if isinstance(made, Fault) or made.fallback:
            return itself
        try:
            plan = await self._reviewed(made, node)
        except Rejected:
            return ()
        return tuple(msgspec.structs.replace(one, subtask=False) for one in plan.steps)

    def _tools(self) -> Registry:
        """What the intent allows (W1): only reading, reading and writing files, or all."""
        registry = self._deps.registry
        if self._sorted.intent != "analyze" or self._sorted.guessed:
            return registry
        reading = registry.read_only().names
        return registry.only((*reading, "write_file") if self._sorted.needs_write else reading)

    def _wanted_more(self) -> bool:
        """Whether the model called tools that the reading of the request kept from it: then the reading was wrong, and
        the request is worked on with all tools (W1)."""
        deps, offered = self._deps, self._tools().names
        called = {call.name for call, result in deps.calls.results if result.code == "unknown_tool"}
        if not (called & set(deps.registry.names)) - set(offered):
            return False
        self._sorted = Classification(reasoning="the model went about a change", complexity=self._sorted.complexity)
        deps.stream.emit(events.RequestClassified(classified=self._sorted, ms=0), run=self._run, node=self._run)
        told = "This is not done yet. All tools are there now: make the change with them."
        deps.stream.emit(events.ProgramMessageAdded(kind="feedback", text=told), run=self._run)
        return True

    def _only_looks(self) -> bool:
        """Whether there is nothing to sum up: files were read for an answer."""
        calls = self._deps.calls
        if self._by_words and read_request(self._request).kind != "change":
            return all(calls.reads_only(call) for call, _ in calls.results)
        return self._sorted.intent == "analyze" and not self._sorted.needs_write

    # --- what all stages share ---

    def _background(self) -> Background:
        deps = self._deps
        return msgspec.structs.replace(
            deps.background,
            plan_doc="\n\n".join(filter(None, (deps.memory.text(), deps.memory.proposals()))),
            request=self._request,
            actions=actions_of(deps.calls.results) if self._failures else (),
            failures=tuple(self._failures),
            rejected=tuple(self._rejected),
        )

    async def _stage(self, name: str, work: Callable[[str], Any]) -> Any:
        node = f"{self._run}.{name}"
        with stage(self._deps.stream, name, name.capitalize(), run=self._run, node=node, parent=self._run) as end:
            try:
                found = await work(node)
            except Rejected:
                end.outcome = "rejected"
                raise
            failed = "failed" if isinstance(found, Fault) else "done"
            end.outcome = found.outcome if isinstance(found, ExecutionResult) else failed
            return found

    def _ended(self, carried: ExecutionResult) -> events.RunEnded:
        return events.RunEnded(
            outcome=carried.outcome,  # type: ignore[arg-type]  # taken from a RunEnded, or one of its literals
            text=carried.closing,
            said=carried.said,
            iterations=carried.iterations,
            tool_calls=self._deps.calls.count,
            ms=elapsed_ms(self._began),
        )


def _begins_with(plan: InstructionPlan, failed: PlanStep) -> bool:
    """Whether a recovery plan would only do again what has just failed, fallback and all."""
    first = plan.steps[0]
    return (first.description, first.tool, first.arguments) == (failed.description, failed.tool, failed.arguments)


def _answered(plan: InstructionPlan, answer: Answer) -> tuple[InstructionPlan, bool, int | None]:
    """The plan that an answer chooses: as it was, edited, or another way."""
    data = answer.data or {}
    choice = data.get("alternative")
    if isinstance(choice, int) and 0 <= choice < len(plan.alternatives):
        return plan, False, choice
    try:
        edited = msgspec.convert(data["plan"], InstructionPlan)
    except (KeyError, msgspec.ValidationError):
        return plan, False, None
    steps = tuple(msgspec.structs.replace(step, number=number) for number, step in enumerate(edited.steps, 1))
    return (msgspec.structs.replace(edited, steps=steps), True, None) if steps else (plan, False, None)
