"""Stage 2: the steps of a plan, one after the other, each verified; what fails is tried another way (W6, W7, W8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import msgspec

from tui_agent.domain import ToolCall
from tui_agent.engine.calls import Calls
from tui_agent.engine.completion import Completion, Refusal
from tui_agent.engine.plan_reading import SHOW_DIFF
from tui_agent.engine.prompts import prompt
from tui_agent.engine.recovery import Diagnosis, diagnose, judged
from tui_agent.engine.request_reading import kind_of
from tui_agent.engine.state import SessionStream
from tui_agent.engine.structured import Structured
from tui_agent.engine.verification import RAN_COMMANDS, Verdict, brief, by_facts, error_class
from tui_agent.engine.working_set import working_set
from tui_agent.events import (
    CompletionRefused,
    Event,
    Notice,
    ProgramSaid,
    RunEnded,
    StageEntered,
    StageLeft,
    StepFinished,
    StepRecovering,
    StepStarted,
    StepVerified,
)
from tui_agent.workplan import Check, InstructionPlan, PlanStep, as_text

RECOVERIES = 2
"""How often a run plans anew after a failure."""
STEPS_MAX = 30
"""Steps of one run, all plans together."""
FINAL = frozenset({"unreachable"})
"""Ends of a step after which trying another way makes no sense."""


class Worker(Protocol):
    """A direct loop that is ready to run."""

    claimed: bool
    """Its last reply held the mark that the work is done."""

    async def work(self) -> RunEnded:
        """Run to the end."""
        ...


Replan = Callable[[PlanStep, Diagnosis, str], Awaitable[InstructionPlan | None]]
"""Makes and reviews a plan for what is left, below that node; None when there is none or the user rejected it."""
Divide = Callable[[PlanStep, str], Awaitable[tuple[PlanStep, ...]]]
"""Makes and reviews the plan of a subtask, below that node; nothing when the user rejected it."""


class Carried(msgspec.Struct, kw_only=True):
    """How the steps came out."""

    outcome: str = "done"
    """As of RunEnded."""
    closing: str = ""
    """The agent's last words, or why it ended."""
    said: str | None = None
    """As of RunEnded."""
    outcomes: list[str] = msgspec.field(default_factory=list)
    """A line for each step."""
    done: int = 0
    steps: int = 0
    iterations: int = 0
    check_met: bool | None = None
    recovered: bool = False
    """A fallback or a recovery plan was needed."""


class _Inside(msgspec.Struct):
    """A stage within the execution."""

    node: str
    outcome: str = "interrupted"


class Execution:
    """The steps of one run. `loop(node)` makes the direct loop of a step."""

    def __init__(
        self,
        *,
        run: str,
        stage: str,
        stream: SessionStream,
        structured: Structured,
        calls: Calls,
        loop: Callable[[str], Worker],
        replan: Replan | None,
        divide: Divide,
        new_call: Callable[[str, dict[str, str]], ToolCall],
        final: frozenset[str] = FINAL,
    ) -> None:
        """Without `replan`, a step that failed is not planned anew."""
        self._run = run
        self._stage = stage
        self._stream = stream
        self._structured = structured
        self._calls = calls
        self._loop = loop
        self._replan = replan
        self._divide = divide
        self._final = final
        self._new_call = new_call
        self._recoveries = 0
        self._count = 0
        self._checks = self._inner = 0
        self._claimed = False
        self.carried = Carried()

    async def alone(self) -> Carried:
        """The request itself in the direct loop, without steps."""
        await self._work(self._stage)
        return self.carried

    async def steps(self, plan: InstructionPlan) -> Carried:
        """All steps, then the check."""
        waiting = list(plan.steps)
        check = plan.check
        self._emit(ProgramSaid(kind="plan", text=as_text(plan)), self._stage)
        while waiting:
            step = waiting.pop(0)
            if step.subtask:
                async with self._inside("subtask", f"Planning: {step.description}", self._stage) as place:
                    parts = await self._divide(step, place.node)
                    place.outcome = "done" if parts else "rejected"
                if not parts:
                    return self._stopped(step, "refused", "its plan was rejected", len(waiting) + 1)
                waiting = [*parts, *waiting]
                continue
            verdict, mark = await self._step(step, self._count + len(waiting) + 1)
            if self.carried.outcome in self._final:
                return self.carried
            if verdict.met is not False:
                continue
            again = await self._recover(step, verdict, mark, f"{self._run}.s{self._count}")
            if again is not None:
                waiting, check = list(again.steps), again.check if again.check.command else check
            elif step.critical or verdict.error_class == "refused":
                outcome = "refused" if verdict.error_class == "refused" else "failed"
                return self._stopped(step, outcome, verdict.actual, len(waiting))
        return self.carried if not check.command else await self._checked(check)

    def _stopped(self, step: PlanStep, outcome: str, why: str, left: int) -> Carried:
        """`left` steps were not begun."""
        self.carried.outcome = outcome
        said = f"Stopped at step {self._count} ({step.description}): {why}"
        if left:
            said += f"\n{left} more {'step was' if left == 1 else 'steps were'} not begun."
        self.carried.closing = f"{self.carried.closing}\n\n{said}".strip()
        return self.carried

    # --- one step ---

    async def _step(self, step: PlanStep, of: int) -> tuple[Verdict, int]:
        """The verdict, and where the step's calls begin."""
        self._count += 1
        node, began = f"{self._run}.s{self._count}", time.monotonic()
        self._emit(StepStarted(step=msgspec.structs.replace(step, number=self._count), of=of), node)
        mark, iterations = len(self._calls.results), self.carried.iterations
        if step.tool == SHOW_DIFF:
            verdict = self._show_diff(step, node)
        else:
            verdict = await self._attempt(step, _told(step, self._count), node)
        if verdict.met is False and step.fallback and self._may_retry(verdict):
            self.carried.recovered = True
            trying = StepRecovering(
                by="fallback",
                error_class=verdict.error_class,
                cause=verdict.actual,
                strategy=step.fallback,
            )
            self._emit(trying, node)
            told = (
                f"The step did not come out as expected ({verdict.error_class or 'other'}): {verdict.actual}\n"
                f"Do this instead: {step.fallback}\nWhen it is done, answer in a sentence, without a call."
            )
            verdict = await self._attempt(step, told, node, any_tool=True)
        finished = StepFinished(
            outcome="done" if verdict.met is not False else "failed",
            text=self.carried.closing if verdict.met is not False else verdict.actual,
            iterations=self.carried.iterations - iterations,
            ms=round((time.monotonic() - began) * 1000),
        )
        self._emit(finished, node)
        self.carried.steps += 1
        self.carried.done += verdict.met is not False
        line = f"{self._count}. {step.description}: {'done' if verdict.met is not False else 'failed'}"
        self.carried.outcomes.append(f"{line} ({verdict.actual[:300]})")
        return verdict, mark

    def _show_diff(self, step: PlanStep, node: str) -> Verdict:
        """The files that the run changed, with how much; the diffs stand where they were made."""
        changes = [change for _, result in self._calls.results for change in result.changes]
        lines = [f"{one.kind} {one.display} +{one.added} −{one.removed}" for one in changes]
        self.carried.closing = text = "\n".join(lines) or "Nothing was changed."
        self.carried.said = ""
        self._emit(Notice(level="info", text=f"Changes of this run:\n{text}", code="run.diff"), node)
        return Verdict(met=True, actual=text)

    async def _attempt(self, step: PlanStep, told: str, node: str, *, any_tool: bool = False) -> Verdict:
        await self._show_files(node)
        self._emit(ProgramSaid(kind="step", text=told), node)
        mark, began = len(self._calls.results), time.monotonic()
        ended = await self._work(node)
        done = self._calls.results[mark:]
        seen = msgspec.structs.replace(step, tool="") if any_tool else step
        verdict = by_facts(seen, done, ended.outcome)
        if any_tool and not done:
            verdict = Verdict(met=False, actual="nothing was done about the failure", error_class="other")
        by: Literal["facts", "model"] = "facts"
        if verdict.met is None and not done and not step.expected and _wants_doing(step):
            verdict = Verdict(met=False, actual="nothing was done for it", error_class="other")
        elif verdict.met is None and step.expected:
            by = "model"
            verdict = await judged(step, verdict, done, ended.text, self._structured, node=node)
        verified = StepVerified(
            met=verdict.met is not False,
            expected=step.expected,
            actual=verdict.actual,
            by=by,
            ms=round((time.monotonic() - began) * 1000),
        )
        self._emit(verified, node)
        return verdict

    async def _show_files(self, node: str) -> None:
        """Show what the steps before read and wrote as it is now: their results are gone from the request (E6)."""
        done = self._calls.results
        window = self._stream.state.context_window
        shown = await asyncio.to_thread(working_set, self._calls.workplace, tuple(done), window)
        if shown:
            text = f"The files of this run as they are now:\n\n{shown}"
            self._emit(ProgramSaid(kind="files", text=text), node)

    def _may_retry(self, verdict: Verdict) -> bool:
        return self.carried.outcome not in self._final and verdict.error_class not in (
            "refused",
            "interrupted",
        )

    async def _work(self, node: str) -> RunEnded:
        loop = self._loop(node)
        ended = await loop.work()
        self._claimed = loop.claimed
        own = ended.text if ended.said is None and ended.outcome == "done" else ended.said
        self.carried.closing, self.carried.said = ended.text, own
        self.carried.iterations += ended.iterations
        # A step that failed is judged by its verdict; only what ends the run as a whole is taken over here.
        self.carried.outcome = ended.outcome if ended.outcome in self._final else "done"
        if self._count == 0:
            self.carried.outcome = ended.outcome
        return ended

    # --- after a failure ---

    async def _recover(
        self, step: PlanStep, verdict: Verdict, mark: int, above: str
    ) -> InstructionPlan | None:
        """Find out why, and plan what is left anew, all below the node `above` that failed; None where that is of no
        use or was tried often enough."""
        if (
            self._replan is None
            or self._recoveries >= RECOVERIES
            or self._count >= STEPS_MAX
            or not self._may_retry(verdict)
        ):
            return None
        self._recoveries += 1
        self.carried.recovered = True
        async with self._inside("recovery", "Recovery planning", above) as place:
            found = await diagnose(
                step, verdict, self._calls.results[mark:], self._structured, node=place.node
            )
            event = StepRecovering(
                by="recovery", error_class=found.error_class, cause=found.cause, strategy=found.strategy
            )
            self._emit(event, above)
            plan = await self._replan(step, found, place.node)
            place.outcome = "failed" if plan is None else "done"
        return plan

    @asynccontextmanager
    async def _inside(self, stage: str, title: str, above: str) -> AsyncIterator[_Inside]:
        """A stage of its own below a node of the execution, for what is asked and planned there."""
        self._inner += 1
        place, began = _Inside(f"{self._run}.{stage}{self._inner}"), time.monotonic()
        self._stream.emit(
            StageEntered(stage=stage, title=title), run=self._run, node=place.node, parent=above
        )
        try:
            yield place
        finally:
            ms = round((time.monotonic() - began) * 1000)
            left = StageLeft(stage=stage, outcome=place.outcome, ms=ms)
            self._stream.emit(left, run=self._run, node=place.node, parent=above)

    # --- the check ---

    async def _checked(self, check: Check) -> Carried:
        """Run the plan's check command as any command; a failed one is a failure like a step's."""
        verdict, mark = await self._check(check)
        while verdict is not None and verdict.met is False:
            step = PlanStep(
                number=self._count, description=f"the check `{check.command}`", expected=check.criteria
            )
            again = await self._recover(step, verdict, mark, f"{self._run}.check{self._checks}")
            if again is None:
                self.carried.outcome = "failed"
                self.carried.closing = f"{self.carried.closing}\n\nThe check failed: {verdict.actual}".strip()
                break
            await self.steps(msgspec.structs.replace(again, check=Check()))
            if self.carried.outcome != "done":
                break
            verdict, mark = await self._check(check)
        return self.carried

    async def _check(self, check: Check) -> tuple[Verdict | None, int]:
        """The verdict; None when the command was not allowed, which says nothing of the work."""
        mark, began = len(self._calls.results), time.monotonic()
        self._checks += 1
        node = f"{self._run}.check{self._checks}"
        call = self._new_call(RAN_COMMANDS, {"command": check.command})
        step = PlanStep(number=0, description=f"Check: {check.command}", expected=check.criteria)
        self._emit(StepStarted(step=step, of=0), node)
        await self._calls.carry_out((call,), node)
        done = self._calls.results[mark:]
        ms = round((time.monotonic() - began) * 1000)
        result = done[-1][1] if done else None
        refused = result is None or result.code in ("refused", "unknown_tool")
        met = result is not None and result.success
        actual = "it was not run" if result is None else brief(result)
        if not refused:
            self.carried.check_met = met
            self._emit(
                StepVerified(
                    met=met,
                    expected=check.criteria,
                    actual=actual,
                    by="command",
                    command=check.command,
                    ms=ms,
                ),
                node,
            )
        outcome: Literal["done", "failed", "skipped"] = "skipped" if refused else "done" if met else "failed"
        self._emit(StepFinished(outcome=outcome, text=actual, ms=ms), node)
        if refused or result is None:
            return None, mark
        return Verdict(met=met, actual=actual, error_class="" if met else error_class(result)), mark

    # --- the completion gate ---

    async def gate(self, completion: Completion) -> None:
        """Settle by the facts whether the work is done; what is missing goes back to the model first (E2, W8)."""
        carried = self.carried
        while isinstance(
            judged := await completion.judged(carried.outcome, carried.closing, self._claimed), Refusal
        ):
            self._emit(CompletionRefused(why=judged.why), self._stage)
            self._emit(ProgramSaid(kind="feedback", text=judged.told), self._stage)
            carried.outcome = (await self._work(self._stage)).outcome
        if isinstance(judged, Notice):
            self._emit(judged, self._stage)
        missing = completion.missing(carried.closing, self._claimed) if carried.outcome == "done" else ""
        if missing and completion.next_strategy():
            carried.outcome = (await self._work(self._stage)).outcome
            missing = completion.missing(carried.closing, self._claimed) if carried.outcome == "done" else ""
        if missing:
            carried.outcome, carried.said = "failed", carried.closing
            carried.closing = f"{carried.closing}\n\nNot done: {missing}".strip()

    def _emit(self, event: Event, node: str) -> None:
        parent = self._stage if node != self._stage else self._run
        self._stream.emit(event, run=self._run, node=node, parent=parent)


def _wants_doing(step: PlanStep) -> bool:
    """Whether a step asks for more than words, by its own."""
    return step.tool == "" and kind_of(step.description) in ("change", "command")


def _told(step: PlanStep, number: int) -> str:
    lines = [prompt("step"), f"Step {number}: {step.description}"]
    if step.tool:
        given = msgspec.json.encode(step.arguments).decode() if step.arguments else ""
        lines.append(f"Tool thought of: {step.tool} {given}".rstrip())
    if step.expected:
        lines.append(f"Expected afterwards: {step.expected}")
    if step.fallback:
        lines.append(f"If that fails: {step.fallback}")
    return "\n".join(lines)
