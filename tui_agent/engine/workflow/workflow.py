"""The staged workflow of `agent` mode: classifies a request, plans, executes and summarizes it (W1 to W9)."""

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
from tui_agent.engine.loop.structured import Question
from tui_agent.engine.workflow.execution import Diagnosis, Execution, ExecutionResult, WorkflowDeps, stage
from tui_agent.engine.workflow.plan_reading import parse_classification
from tui_agent.engine.workflow.planning import (
    INTERRUPTED,
    PlanResult,
    elapsed_ms,
    needs_review,
    recent_actions,
    single_step_plan,
)
from tui_agent.engine.workflow.summary import summarize_run
from tui_agent.tools.registry import Registry

MAX_REQUEST = 4_000
"""Characters of the request that the dispatcher reads."""
MAX_SMALL_REQUEST = 240
"""Characters of a request that needs no plan."""
MAX_REJECTIONS = 3
"""Plans that the user may reject with a reason before the run ends."""
DEFAULT_CLASSIFICATION = Classification(guessed=True, reasoning="The request could not be sorted.")
"""Mixed, with writes: it forbids nothing, and a plan is made."""


def classify_by_wording(reading: RequestReading, why: str) -> Classification:
    """Classify a request without a model call; `why` is the reason for that."""
    if reading.kind == "question":
        return Classification(
            intent="analyze", needs_write=False, task_type="analysis", complexity="simple", reasoning=why
        )
    is_change = reading.kind == "change"
    return Classification(
        intent="modify" if is_change else "mixed", needs_write=is_change, complexity="simple", reasoning=why
    )


def correct_by_wording(classification: Classification, request: str) -> Classification:
    """Return a model's classification, but never a read-only one for a request that plainly asks for a change."""
    if classification.intent != "analyze" or classification.guessed or request_kind(request) != "change":
        return classification
    return msgspec.structs.replace(classification, intent="mixed", needs_write=True)


def is_small_change(reading: RequestReading, folder: str) -> bool:
    """Return whether a short request asks for a change in one existing file, which needs no plan (E8)."""
    if reading.kind != "change" or not reading.small or len(reading.text) > MAX_SMALL_REQUEST:
        return False
    return len(reading.paths) == 1 and os.path.isfile(os.path.join(folder, reading.paths[0]))


def plan_from_list(text: str) -> InstructionPlan | None:
    """Return a plan with a step for each item of the list in a request; None if it has no list of tasks."""
    items = list_items(text)
    if not items:
        return None
    steps = tuple(
        PlanStep(number=number, description=item, confidence=1.0, critical=True) for number, item in enumerate(items, 1)
    )
    return InstructionPlan(approach="The steps of the request, in its order", steps=steps, confidence=1.0)


class PlanRejected(Exception):
    """The user rejected a plan; the message is the reason, if any."""


class Workflow:
    """One run of the staged workflow for one user message."""

    def __init__(self, run: str, request: str, deps: WorkflowDeps) -> None:
        self._run = run
        self._request = request
        self._deps = deps
        self._started = time.monotonic()
        self._classification = DEFAULT_CLASSIFICATION
        self._planned: PlanResult | None = None
        self._plan: InstructionPlan | None = None
        """The plan to execute, as reviewed."""
        self._failures: list[str] = []
        self._rule_based = False
        """Classification, plan and summary are made without a model call (E8)."""
        self._rejections: list[str] = []
        """Why the user rejected plans of this run, oldest first."""
        self._planning: asyncio.Task[PlanResult | Fault] | None = None
        self.intent = ""
        """Name of the prompt added for the kind of request (W1)."""

    def skip_planning(self) -> bool:
        """Use a single step instead of waiting for the plan (W4); False if not planning."""
        task = self._planning
        return task is not None and not task.done() and task.cancel()

    async def work(self) -> events.RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        try:
            fault = await self._stage("planning", self._prepare)
            if isinstance(fault, Fault):
                return self._ended(ExecutionResult(outcome=fault.outcome, closing=fault.full_message))
            result = await self._stage("execution", self._execute)
        except PlanRejected as rejection:
            closing = "The plan was rejected" + (f": {rejection}" if str(rejection) else ".")
            return self._ended(ExecutionResult(outcome="refused", closing=closing))
        if self._planned is not None and self._plan is not None and not self._failures:
            # A plan that needed its fallback would fail in the same way the next time.
            success = result.outcome == "done" and not result.recovered
            await self._deps.planner.record_outcome(self._planned, self._plan, success)
        if self._deps.calls.count and not self._only_reads():
            summarize = partial(summarize_run, self._deps, self._request, result, self._rule_based, self._run)
            await self._stage("summary", summarize)
        return self._ended(result)

    # --- stage 1 ---

    async def _prepare(self, node: str) -> Fault | None:
        """Classify the request, and make and review a plan. Return a fault if there is no server."""
        deps = self._deps
        self._rule_based = deps.files or is_small_change(read_request(self._request), deps.context.folder)
        if self._rule_based:
            await self._prepare_by_rules(node)
            return None
        if (fault := await self._classify(node)) is not None:
            return fault
        if self._only_reads() or not deps.environment.settings.planning:
            return None
        while True:
            planned = await self._wait_for_plan(node)
            if isinstance(planned, Fault):
                return planned
            self._planned = planned
            if planned.depth == "simple":
                return None
            try:
                self._plan = await self._review(planned, node)
                return None
            except PlanRejected as rejection:
                if not str(rejection) or len(self._rejections) >= MAX_REJECTIONS:
                    raise
                self._rejections.append(str(rejection))

    async def _classify(self, node: str) -> Fault | None:
        """Classify the request with one short model call (W1). Return a fault if there is no server.

        If the call fails or the reply is malformed, the default applies."""
        request, conversation = self._request, self._deps.context.conversation
        excerpt = request if len(request) <= MAX_REQUEST else request[:MAX_REQUEST] + " …"
        preceding = (ProgramMessage(text=program_text("conversation", conversation)),) if conversation else ()
        messages = (SystemMessage(text=prompt("classify")), *preceding, UserMessage(text=excerpt))
        question = Question(alone=messages, task=prompt("classify"))
        reply = await self._deps.structured.ask(
            "dispatcher", question, parent=node, schema=reply_schema("classify"), idle_timeout=60.0, preamble=400
        )
        if not isinstance(reply, Fault):
            classification = parse_classification(reply.text) or DEFAULT_CLASSIFICATION
        elif reply.kind == "unreachable":
            return reply
        else:
            classification = DEFAULT_CLASSIFICATION
        self._emit_classification(classification, node, 0 if isinstance(reply, Fault) else reply.ms)
        self._classification = correct_by_wording(classification, request)
        return None

    def _emit_classification(self, classification: Classification, node: str, ms: int = 0) -> None:
        event = events.RequestClassified(classified=classification, ms=ms)
        self._deps.stream.emit(event, run=self._run, node=node)

    async def _prepare_by_rules(self, node: str) -> None:
        """Classify and plan without a model."""
        reading, deps = read_request(self._request), self._deps
        why = "read by the program, without calls for sorting, plan and summary"
        self._classification = classify_by_wording(reading, why)
        self._emit_classification(self._classification, node)
        plan = plan_from_list(self._request) if deps.environment.settings.planning else None
        if plan is not None:
            self._planned = PlanResult(plan=plan, depth="moderate")
            self._plan = await self._review(self._planned, node)

    async def _request_plan(
        self, request: str, node: str, *, replan: bool = True, purpose: str = ""
    ) -> PlanResult | Fault:
        deps = self._deps
        context = msgspec.structs.replace(
            deps.context,
            plan_doc="\n\n".join(filter(None, (deps.memory.text(), deps.memory.proposals()))),
            request=self._request,
            actions=recent_actions(deps.calls.results) if self._failures else (),
            failures=tuple(self._failures),
            rejected=tuple(self._rejections),
        )
        return await deps.planner.plan(
            request, self._classification, context, node=node, replan=replan, purpose=purpose
        )

    async def _wait_for_plan(self, node: str) -> PlanResult | Fault:
        """Return the plan, or a single step if the user interrupts planning."""
        planning = self._request_plan(self._request, node, replan=bool(self._rejections))
        self._planning = asyncio.create_task(planning)
        try:
            return await asyncio.shield(self._planning)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                await end_tasks(self._planning)
                raise
            depth = self._deps.planner.depth(self._classification)
            plan = single_step_plan(self._request)
            return PlanResult(plan=plan, depth=depth, fallback=True, faults=(INTERRUPTED,))
        finally:
            self._planning = None

    async def _review(self, planned: PlanResult, node: str, *, recovery: bool = False) -> InstructionPlan:
        """Return the plan to execute, as the user or a rule decides. Raises PlanRejected."""
        deps = self._deps
        must_ask, why = needs_review(planned, deps.environment.settings)
        asks = must_ask and deps.environment.attended
        if must_ask and not asks:
            why = f"{why}, but no user is present"
        decided, too_unsure = None, False
        if not asks:
            too_unsure = planned.plan.confidence < 0.6 and not deps.accept_plan
            decided = Answer(verdict="approve", by=f"{why}: a single step" if too_unsure else why)

        def propose(request: str) -> events.Event:
            return events.PlanProposed(
                id=request,
                plan=planned.plan,
                asks=asks,
                why=why,
                depth=planned.depth,
                cached=planned.cached,
                fallback=planned.fallback,
                recovery=recovery,
                ms=planned.ms,
                prompt_version=planned.prompt_version,
                faults=planned.faults,
            )

        def choose(answer: Answer) -> tuple[InstructionPlan, bool, int | None]:
            if too_unsure:
                return single_step_plan(self._request), True, None
            return _chosen_plan(planned.plan, answer)

        def settle(request: str, answer: Answer) -> events.Event:
            plan, edited, alternative = choose(answer)
            return events.PlanReviewed(id=request, answer=answer, plan=plan, edited=edited, alternative=alternative)

        answer = await deps.approvals.decide(propose, settle, run=self._run, node=node, decided=decided)
        if answer.verdict != "approve":
            raise PlanRejected(answer.text)
        plan, _, alternative = choose(answer)
        return plan if alternative is None else await self._plan_alternative(planned, alternative, node)

    async def _plan_alternative(self, planned: PlanResult, index: int, node: str) -> InstructionPlan:
        """Make and review a plan for the alternative that the user chose."""
        request = f"{self._request}\n\nDo it this way: {planned.plan.alternatives[index].approach}"
        alternative = await self._request_plan(request, node, purpose="replanning")
        if isinstance(alternative, Fault) or alternative.fallback:
            alternative = PlanResult(plan=single_step_plan(request), depth=planned.depth)
        self._planned = msgspec.structs.replace(alternative, pattern=planned.pattern)
        return await self._review(self._planned, node)

    # --- stage 2 ---

    async def _execute(self, node: str) -> ExecutionResult:
        deps = self._deps
        self.intent = intent_section(self._classification)
        if self.intent:
            deps.stream.emit(events.ProgramMessageAdded(kind="intent", text=prompt(self.intent)), run=self._run)
        execution = Execution(self._run, node, deps, self._tools, self._replan, self._divide)
        planned = self._planned
        if self._plan is None or (planned is not None and planned.fallback and self._plan == planned.plan):
            result = await execution.run_unplanned()
            if self._offer_all_tools():
                result = await execution.run_unplanned()
        else:
            result = await execution.run_plan(self._plan)
        if not self._only_reads() and not deps.files:
            needs_change = self._classification.needs_write and not self._classification.guessed
            deps.completion.needs_change = deps.completion.needs_change or needs_change
            await execution.apply_gate(deps.completion)
        return result

    async def _replan(self, step: PlanStep, diagnosis: Diagnosis, node: str) -> InstructionPlan | None:
        """Return a reviewed plan for the remaining work after a failed step, or None."""
        deps = self._deps
        self._failures.append(diagnosis.sentence(step))
        planned = await self._request_plan(self._request, node, purpose="replanning")
        if isinstance(planned, Fault) or planned.fallback or _repeats(planned.plan, step):
            return None
        if self._planned is not None and self._plan is not None:
            await deps.planner.record_outcome(self._planned, self._plan, False)
        try:
            return await self._review(planned, node, recovery=True)
        except PlanRejected:
            return None

    async def _divide(self, step: PlanStep, node: str) -> tuple[PlanStep, ...]:
        """Return the reviewed steps of a subtask (W2): the step itself without a plan, none if it was rejected."""
        request = f"{step.description}\n\nThis is a part of the request: {self._request}"
        planned = await self._request_plan(request, node)
        if isinstance(planned, Fault) or planned.fallback:
            steps: tuple[PlanStep, ...] = (step,)
        else:
            try:
                steps = (await self._review(planned, node)).steps
            except PlanRejected:
                return ()
        return tuple(msgspec.structs.replace(step, subtask=False) for step in steps)

    def _tools(self) -> Registry:
        """Return the tools that the intent allows (W1): read-only ones, also write_file, or all."""
        registry = self._deps.registry
        if self._classification.intent != "analyze" or self._classification.guessed:
            return registry
        read_only = registry.read_only().names
        return registry.only((*read_only, "write_file") if self._classification.needs_write else read_only)

    def _offer_all_tools(self) -> bool:
        """Offer all tools if the model called withheld ones: the classification was wrong (W1). False if it did not."""
        deps, offered = self._deps, self._tools().names
        rejected = {call.name for call, result in deps.calls.results if result.code == "unknown_tool"}
        if not (rejected & set(deps.registry.names)) - set(offered):
            return False
        self._classification = Classification(
            reasoning="the model went about a change", complexity=self._classification.complexity
        )
        self._emit_classification(self._classification, self._run)
        feedback = "This is not done yet. All tools are there now: make the change with them."
        deps.stream.emit(events.ProgramMessageAdded(kind="feedback", text=feedback), run=self._run)
        return True

    def _only_reads(self) -> bool:
        """Return whether the run only reads files for an answer, so that there is nothing to plan or summarize."""
        calls = self._deps.calls
        if self._rule_based and read_request(self._request).kind != "change":
            return all(calls.reads_only(call) for call, _ in calls.results)
        return self._classification.intent == "analyze" and not self._classification.needs_write

    # --- all stages ---

    async def _stage(self, name: str, work: Callable[[str], Any]) -> Any:
        """Run `work` with the node of a new stage, and return what it returns."""
        node = f"{self._run}.{name}"
        with stage(self._deps.stream, name, name.capitalize(), run=self._run, node=node, parent=self._run) as ended:
            try:
                result = await work(node)
            except PlanRejected:
                ended.outcome = "rejected"
                raise
            ended.outcome = "failed" if isinstance(result, Fault) else "done"
            if isinstance(result, ExecutionResult):
                ended.outcome = result.outcome
            return result

    def _ended(self, result: ExecutionResult) -> events.RunEnded:
        return events.RunEnded(
            outcome=result.outcome,  # type: ignore[arg-type]  # taken from a RunEnded, or one of its literals
            text=result.closing,
            said=result.said,
            iterations=result.iterations,
            tool_calls=self._deps.calls.count,
            ms=elapsed_ms(self._started),
        )


def _repeats(plan: InstructionPlan, failed: PlanStep) -> bool:
    """Return whether a recovery plan starts with the step that has just failed."""
    first = plan.steps[0]
    return (first.description, first.tool, first.arguments) == (failed.description, failed.tool, failed.arguments)


def _chosen_plan(plan: InstructionPlan, answer: Answer) -> tuple[InstructionPlan, bool, int | None]:
    """Return the plan of an answer, whether the user edited it, and the index of the chosen alternative, if any."""
    data = answer.data or {}
    alternative = data.get("alternative")
    if isinstance(alternative, int) and 0 <= alternative < len(plan.alternatives):
        return plan, False, alternative
    try:
        edited = msgspec.convert(data["plan"], InstructionPlan)
    except (KeyError, msgspec.ValidationError):
        return plan, False, None
    steps = tuple(msgspec.structs.replace(step, number=number) for number, step in enumerate(edited.steps, 1))
    return (msgspec.structs.replace(edited, steps=steps), True, None) if steps else (plan, False, None)
