"""The staged workflow: sort the request, plan it, carry it out, sum it up (W1 to W9)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tui_agent.domain import Answer, Fault, ToolCall
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.calls import Calls
from tui_agent.engine.completion import Completion
from tui_agent.engine.dispatcher import GUESS, classify
from tui_agent.engine.execution import FINAL, Carried, Execution, Worker
from tui_agent.engine.modes import intent_section
from tui_agent.engine.offering import Offering
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.planning import Background, Planned, Planner, actions_of, asks, one_step
from tui_agent.engine.prompts import prompt
from tui_agent.engine.recovery import Diagnosis
from tui_agent.engine.request_reading import read_request
from tui_agent.engine.shortcut import by_words, classified_by_words, listed_plan, names_one_small_change
from tui_agent.engine.state import SessionStream
from tui_agent.engine.structured import Structured
from tui_agent.engine.summarization import summarise
from tui_agent.engine.summary_reading import RunFacts
from tui_agent.events import (
    Event,
    PlanProposed,
    PlanReviewed,
    ProgramSaid,
    RequestClassified,
    RunEnded,
    StageEntered,
    StageLeft,
)
from tui_agent.settings import Settings
from tui_agent.tools.registry import Registry
from tui_agent.workplan import Classified, InstructionPlan, PlanStep

_TITLES = {"planning": "Planning", "execution": "Execution", "summary": "Summary"}


REJECTIONS = 3
"""How often a plan that was rejected with a reason is made anew."""


class Rejected(Exception):
    """The user turned a plan down; the message is the reason."""


class Crew(msgspec.Struct, frozen=True):
    """Who takes part in the workflow of one run; filled in by the session."""

    stream: SessionStream
    approvals: Approvals
    settings: Settings
    registry: Registry
    """All tools of the mode."""
    calls: Calls
    completion: Completion
    """Accepts that the work is done, or not (W8)."""
    structured: Structured
    planner: Planner
    memory: PlanMemory
    loop: Callable[[str, Registry], Worker]
    """A direct loop whose replies hang below the node, with these tools."""
    new_call: Callable[[ToolCall], ToolCall]
    rules: str
    """The system text."""
    folder: str
    attended: bool
    accept_plan: bool
    """Without a user: carry out plans that would ask (X3)."""
    accept_summary: bool
    """Without a user: take summaries as they are (X3)."""
    attached: str = ""
    """What the user attached to the request, for whoever plans (H7)."""
    conversation: str = ""
    """What was talked about before the request, for whoever sorts and plans."""
    files: bool = False
    """The model is asked for whole files (E4): the program sorts, plans and sums up."""


class Workflow:
    """One run of the staged workflow for one user message."""

    def __init__(self, run: str, request: str, crew: Crew) -> None:
        self._run = run
        self._request = request
        self._crew = crew
        self._began = time.monotonic()
        self._sorted: Classified = GUESS
        self._planned: Planned | None = None
        self._plan: InstructionPlan | None = None
        self._failures: list[str] = []
        self._by_words = False
        """The program sorts, plans and sums up, without a model call (E8)."""
        self._rejected: list[str] = []
        """Why the user rejected plans of this run, the latest last."""
        self._planning: asyncio.Task[Planned | Fault] | None = None
        self.intent = ""
        """Name of the text that the kind of request adds to what the model is told (W1)."""

    def skip_planning(self) -> bool:
        """Give up waiting for the plan: the cached one or a single step is taken (W4). False when it is not waited
        for."""
        task = self._planning
        return task is not None and not task.done() and task.cancel()

    async def work(self) -> RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        carried = Carried()
        try:
            found = await self._stage("planning", self._prepare)
            if isinstance(found, Fault):
                outcome = "unreachable" if found.kind == "unreachable" else "failed"
                return self._ended(
                    Carried(outcome=outcome, closing=f"{found.message} {found.advice}".strip())
                )
            carried = await self._stage("execution", self._carry_out)
        except Rejected as rejected:
            closing = "The plan was rejected" + (f": {rejected}" if str(rejected) else ".")
            return self._ended(Carried(outcome="refused", closing=closing))
        if self._planned is not None and self._plan is not None and not self._failures:
            # A plan that needed its fallback would make the next one of its kind stumble again.
            worked = carried.outcome == "done" and not carried.recovered
            await self._crew.planner.settle(self._planned, self._plan, worked)
        if self._crew.calls.count and not self._only_looks():
            await self._stage("summary", lambda node: self._summarise(carried, node))
        return self._ended(carried)

    # --- stage 1 ---

    async def _prepare(self, node: str) -> Fault | None:
        crew = self._crew
        self._by_words = crew.files or names_one_small_change(read_request(self._request), crew.folder)
        if self._by_words:
            await self._prepare_by_words(node)
            return None
        found = await classify(
            self._request, crew.structured, crew.stream, run=self._run, node=node, before=crew.conversation
        )
        if isinstance(found, Fault):
            return found
        self._sorted = by_words(found, self._request)
        if self._only_looks() or not crew.settings.planning:
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
        reading, crew = read_request(self._request), self._crew
        self._sorted = classified_by_words(
            reading, "read by the program, without calls for sorting, plan and summary"
        )
        crew.stream.emit(RequestClassified(classified=self._sorted, ms=0), run=self._run, node=node)
        plan = listed_plan(self._request) if crew.settings.planning else None
        if plan is not None:
            self._planned = Planned(plan=plan, depth="moderate")
            self._plan = await self._reviewed(self._planned, node)

    async def _wait_for_plan(self, node: str) -> Planned | Fault:
        crew = self._crew
        making = crew.planner.plan(
            self._request, self._sorted, self._background(), node=node, again=bool(self._rejected)
        )
        self._planning = asyncio.create_task(making)
        try:
            return await asyncio.shield(self._planning)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._planning.cancel()
                await asyncio.wait([self._planning])
                raise
            return Planned(
                plan=one_step(self._request),
                depth=crew.planner.depth(self._sorted),
                fallback=True,
                faults=("planning was interrupted",),
            )
        finally:
            self._planning = None

    async def _reviewed(self, planned: Planned, node: str, *, recovery: bool = False) -> InstructionPlan:
        """The plan that will be carried out. Raises Rejected."""
        crew = self._crew
        must, why = asks(planned, crew.settings, self._sorted)
        skipped = "planning was interrupted" in planned.faults
        must, why = (True, "planning was interrupted") if skipped else (must, why)
        asking = must and crew.attended

        def proposed(request: str) -> Event:
            return PlanProposed(
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

        def reviewed(request: str, answer: Answer) -> Event:
            plan, edited, choice = _answered(planned.plan, answer)
            return PlanReviewed(id=request, answer=answer, plan=plan, edited=edited, alternative=choice)

        if asking:
            answer = await crew.approvals.decide(proposed, reviewed, run=self._run, node=node)
            if answer.verdict != "approve":
                raise Rejected(answer.text)
            plan, _, choice = _answered(planned.plan, answer)
            return plan if choice is None else await self._other_way(planned, choice, node)
        unsure = planned.plan.confidence < 0.6 and not crew.accept_plan
        plan = one_step(self._request) if unsure else planned.plan
        by = "nobody is there and the plan is unsure: a single step" if unsure else why
        crew.stream.emit(proposed(f"{self._run}.plan"), run=self._run, node=node)
        event = PlanReviewed(
            id=f"{self._run}.plan", answer=Answer(verdict="approve", by=by), plan=plan, edited=unsure
        )
        crew.stream.emit(event, run=self._run, node=node)
        return plan

    async def _other_way(self, planned: Planned, choice: int, node: str) -> InstructionPlan:
        """The plan for the alternative that the user picked, shown again."""
        way = planned.plan.alternatives[choice]
        request = f"{self._request}\n\nDo it this way: {way.approach}"
        made = await self._planned_again(request, node)
        if isinstance(made, Fault) or made.fallback:
            made = Planned(plan=one_step(request), depth=planned.depth)
        self._planned = msgspec.structs.replace(made, kind=planned.kind)
        return await self._reviewed(self._planned, node)

    # --- stage 2 ---

    async def _carry_out(self, node: str) -> Carried:
        crew = self._crew
        self.intent = intent_section(self._sorted)
        if self.intent:
            crew.stream.emit(ProgramSaid(kind="intent", text=prompt(self.intent)), run=self._run)
        execution = Execution(
            run=self._run,
            stage=node,
            stream=crew.stream,
            structured=crew.structured,
            calls=crew.calls,
            loop=lambda place: crew.loop(place, self._tools()),
            replan=None if crew.files else self._replan,
            divide=self._divide,
            final=FINAL | {"limit"} if crew.attended else FINAL,
            new_call=lambda name, given: crew.new_call(ToolCall(id="", name=name, arguments=dict(given))),
        )
        planned = self._planned
        if self._plan is None or (planned is not None and planned.fallback and self._plan == planned.plan):
            carried = await execution.alone()
            if self._wanted_more():
                carried = await execution.alone()
        else:
            carried = await execution.steps(self._plan)
        if not self._only_looks() and not crew.files:
            wanted = self._sorted.needs_write and not self._sorted.guessed
            crew.completion.needs_change = crew.completion.needs_change or wanted
            await execution.gate(crew.completion)
        return carried

    async def _replan(self, step: PlanStep, found: Diagnosis, node: str) -> InstructionPlan | None:
        """A plan for what is left after a failure, reviewed like the first one."""
        crew = self._crew
        self._failures.append(found.sentence(step))
        planned = await self._planned_again(self._request, node)
        if isinstance(planned, Fault) or planned.fallback or _begins_with(planned.plan, step):
            return None
        if self._planned is not None and self._plan is not None:
            await crew.planner.settle(self._planned, self._plan, False)
        try:
            return await self._reviewed(planned, node, recovery=True)
        except Rejected:
            return None

    async def _planned_again(self, request: str, node: str) -> Planned | Fault:
        return await self._crew.planner.plan(
            request, self._sorted, self._background(), node=node, again=True, purpose="replanning"
        )

    async def _divide(self, step: PlanStep, node: str) -> tuple[PlanStep, ...]:
        """The steps of a subtask, planned when it is reached and reviewed (W2); itself where there are none."""
        request = f"{step.description}\n\nThis is a part of the request: {self._request}"
        itself = (msgspec.structs.replace(step, subtask=False),)
        made = await self._crew.planner.plan(request, self._sorted, self._background(), node=node, again=True)
        if isinstance(made, Fault) or made.fallback:
            return itself
        try:
            plan = await self._reviewed(made, node)
        except Rejected:
            return ()
        return tuple(msgspec.structs.replace(one, subtask=False) for one in plan.steps)

    def _tools(self) -> Registry:
        """What the intent allows (W1): only reading, reading and writing files, or all."""
        registry = self._crew.registry
        if self._sorted.intent != "analyze" or self._sorted.guessed:
            return registry
        reading = registry.reading().names
        return registry.only((*reading, "write_file") if self._sorted.needs_write else reading)

    def _wanted_more(self) -> bool:
        """Whether the model called tools that the reading of the request kept from it: then the reading was wrong, and
        the request is worked on with all tools (W1)."""
        crew, offered = self._crew, self._tools().names
        called = {call.name for call, result in crew.calls.results if result.code == "unknown_tool"}
        if not (called & set(crew.registry.names)) - set(offered):
            return False
        self._sorted = Classified(
            reasoning="the model went about a change", complexity=self._sorted.complexity
        )
        crew.stream.emit(RequestClassified(classified=self._sorted, ms=0), run=self._run, node=self._run)
        told = "This is not done yet. All tools are there now: make the change with them."
        crew.stream.emit(ProgramSaid(kind="feedback", text=told), run=self._run)
        return True

    def _only_looks(self) -> bool:
        """Whether there is nothing to sum up: files were read for an answer."""
        calls = self._crew.calls
        if self._by_words and read_request(self._request).kind != "change":
            return all(calls.reads_only(call) for call, _ in calls.results)
        return self._sorted.intent == "analyze" and not self._sorted.needs_write

    # --- stage 3 ---

    async def _summarise(self, carried: Carried, node: str) -> None:
        crew = self._crew
        facts = RunFacts(
            request=self._request,
            outcome=carried.outcome,
            closing=carried.closing.removeprefix(carried.said or "").strip()
            if self._by_words
            else carried.closing,
            tools=tuple(dict.fromkeys(call.name for call, _ in crew.calls.results)),
            files=tuple(dict.fromkeys(crew.calls.changed)),
            steps_done=carried.done,
            steps=carried.steps,
            check_met=carried.check_met,
        )
        summary, by = await summarise(
            facts,
            crew.calls.results,
            carried.outcomes,
            crew.memory.text(),
            None if self._by_words else crew.structured,
            node=node,
        )
        offering = Offering(crew.stream, crew.approvals, crew.memory)
        if crew.attended:
            await offering.ask(summary, by, run=self._run, node=node)
        else:
            await offering.without_user(summary, by, crew.accept_summary, run=self._run, node=node)

    # --- what all stages share ---

    def _background(self) -> Background:
        crew = self._crew
        done = crew.calls.results
        return Background(
            rules=crew.rules,
            plan_doc="\n\n".join(filter(None, (crew.memory.text(), crew.memory.proposals()))),
            folder=crew.folder,
            request=self._request,
            actions=actions_of(done) if self._failures else (),
            failures=tuple(self._failures),
            rejected=tuple(self._rejected),
            attached=crew.attached,
            conversation=crew.conversation,
        )

    async def _stage(self, name: str, work: Callable[[str], Any]) -> Any:
        node = f"{self._run}.{name}"
        async with self._told(name, node) as left:
            found = await work(node)
            left["outcome"] = _how(found)
            return found

    @asynccontextmanager
    async def _told(self, name: str, node: str) -> AsyncIterator[dict[str, str]]:
        """The stage's beginning and end on the stream, whatever happens between."""
        stream, began = self._crew.stream, time.monotonic()
        stream.emit(StageEntered(stage=name, title=_TITLES[name]), run=self._run, node=node, parent=self._run)
        left = {"outcome": "interrupted"}
        try:
            yield left
        except Rejected:
            left["outcome"] = "rejected"
            raise
        finally:
            ms = round((time.monotonic() - began) * 1000)
            event = StageLeft(stage=name, outcome=left["outcome"], ms=ms)
            stream.emit(event, run=self._run, node=node, parent=self._run)

    def _ended(self, carried: Carried) -> RunEnded:
        return RunEnded(
            outcome=carried.outcome,  # type: ignore[arg-type]  # taken from a RunEnded, or one of its literals
            text=carried.closing,
            said=carried.said,
            iterations=carried.iterations,
            tool_calls=self._crew.calls.count,
            ms=round((time.monotonic() - self._began) * 1000),
        )


def _begins_with(plan: InstructionPlan, failed: PlanStep) -> bool:
    """Whether a recovery plan would only do again what has just failed, fallback and all."""
    first = plan.steps[0]
    return (first.description, first.tool, first.arguments) == (
        failed.description,
        failed.tool,
        failed.arguments,
    )


def _how(found: object) -> str:
    if isinstance(found, Fault):
        return "failed"
    return found.outcome if isinstance(found, Carried) else "done"


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
