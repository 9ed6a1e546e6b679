"""Stage 2: executes the steps of a plan, verifies each one, and diagnoses and recovers from failures (W6, W7, W8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol

import msgspec

from tui_agent import events
from tui_agent.common.domain import Fault, SystemMessage, ToolCall, UserMessage
from tui_agent.common.workplan import Check, InstructionPlan, PlanStep, format_plan
from tui_agent.engine.checks.project_checks import COMMAND_TOOL
from tui_agent.engine.checks.relevant_files import read_workspace_text
from tui_agent.engine.checks.request_reading import request_kind
from tui_agent.engine.core.prompts import prompt, reply_schema
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.core.tokens import characters_in_window
from tui_agent.engine.deps import SessionDeps
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.loop.calls import ToolCalls
from tui_agent.engine.loop.completion import Completion, CompletionRefusal
from tui_agent.engine.loop.structured import Question, Structured
from tui_agent.engine.workflow.plan_reading import SHOW_DIFF, find_object, value_text
from tui_agent.engine.workflow.planning import Planner, PlanningContext, elapsed_ms, recent_actions
from tui_agent.engine.workflow.verification import (
    CallResults,
    StepVerdict,
    error_class,
    parse_verdict,
    summarize_result,
    verdict_from_results,
)
from tui_agent.protocols.repair import UnreadableJson
from tui_agent.text import clean, mark_invisible
from tui_agent.tools.registry import Registry

MAX_RECOVERIES = 2
"""Recovery plans per run."""
MAX_STEPS = 30
"""Steps per run after which no recovery plan is made, counting all plans."""
FINAL_OUTCOMES = frozenset({"unreachable"})
"""Outcomes of a step after which recovery makes no sense."""
_ADVICE = {
    "authentication": "find out which login is there, or take a way that needs none",
    "missing_program": "check which programs are there, and use one of those or install it first",
    "missing_module": "install it, or use what is there",
    "not_found": "look where it is before using it",
    "network": "work with what is on this machine",
    "permission": "use a place that may be written",
    "already_exists": "use what is there instead of making it again",
    "refused": "do not try the same by another way; ask, or leave it out",
}
"""General advice by class of error, if the model gives none."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step failed, and the next strategy."""

    error_class: str
    cause: str
    strategy: str
    prerequisite: str = ""

    def sentence(self, step: PlanStep) -> str:
        """Return the failure as a sentence for the planning model."""
        need = f" Needed first: {self.prerequisite}." if self.prerequisite else ""
        return (
            f"Step {step.number} ({step.description}) failed (class of the error: {self.error_class}): {self.cause}"
            f"{need} Next: {self.strategy}"
        )


async def diagnose(
    step: PlanStep, verdict: StepVerdict, results: CallResults, structured: Structured, *, node: str
) -> Diagnosis:
    """Return the diagnosis of a short model call, completed from the class of the error."""
    kind = verdict.error_class or "other"
    record = _record(step, verdict, results) + f"\nClass of the error: {kind}"
    reply = await structured.ask(
        "planning",
        _question("diagnose", record, record),
        parent=node,
        schema=reply_schema("diagnose"),
        purpose="diagnosing",
    )
    fields: dict[str, Any] = {}
    if not isinstance(reply, Fault):
        with suppress(UnreadableJson):
            fields = find_object(reply.text, ("strategy", "cause"))
    cause, prerequisite, strategy = (value_text(fields.get(key))[:500] for key in ("cause", "prerequisite", "strategy"))
    return Diagnosis(
        error_class=kind,
        cause=cause or verdict.actual,
        prerequisite=prerequisite,
        strategy=strategy or _ADVICE.get(kind, "take another way to the same end"),
    )


async def judge_step(
    step: PlanStep, verdict: StepVerdict, results: CallResults, closing: str, structured: Structured, *, node: str
) -> StepVerdict:
    """Return the verdict of a short model call, for an outcome that the facts do not decide."""
    record = _record(step, verdict, results) + (f"\nThe agent's words: {closing[:1_500]}" if closing else "")
    question = _question("verify_step", record, _record(step, verdict, ()))
    reply = await structured.ask(
        "dispatcher", question, parent=node, schema=reply_schema("verify_step"), purpose="judging"
    )
    return parse_verdict("" if isinstance(reply, Fault) else reply.text, verdict)


def _question(name: str, record: str, appended_record: str) -> Question:
    """Return the question of a prompt about a step; the conversation already has what `appended_record` leaves out."""
    messages = (SystemMessage(text=prompt(name)), UserMessage(text=record))
    return Question(alone=messages, task=f"{prompt(name)}\n{appended_record}")


def _record(step: PlanStep, verdict: StepVerdict, results: CallResults) -> str:
    lines = [f"Step {step.number}: {step.description}", f"Expected: {step.expected or 'that it works'}"]
    lines += [f"Done: {action}" for action in recent_actions(results)]
    lines.append(f"Seen: {verdict.actual}")
    return "\n".join(lines)


class Worker(Protocol):
    """A loop that is ready to run."""

    claimed: bool
    """The last reply claimed that the work is done."""

    async def work(self) -> events.RunEnded:
        """Run to the end."""
        ...


Replan = Callable[[PlanStep, Diagnosis, str], Awaitable[InstructionPlan | None]]
"""Makes and reviews a plan for the remaining work under the given node; None if there is none or it was rejected."""
Divide = Callable[[PlanStep, str], Awaitable[tuple[PlanStep, ...]]]
"""Makes and reviews the plan of a subtask under the given node; no steps if it was rejected."""


class ExecutionResult(msgspec.Struct, kw_only=True):
    """The result of stage 2."""

    outcome: str = "done"
    """See RunEnded."""
    closing: str = ""
    """The agent's last words, or why the run ended."""
    said: str | None = None
    """See RunEnded."""
    outcomes: list[str] = msgspec.field(default_factory=list)
    """One line per step."""
    done: int = 0
    steps: int = 0
    iterations: int = 0
    check_met: bool | None = None
    recovered: bool = False
    """A fallback or a recovery plan was needed."""


class WorkflowDeps(SessionDeps, frozen=True, kw_only=True):
    """What the workflow of one run needs; filled in by the session."""

    registry: Registry
    """All tools of the mode."""
    calls: ToolCalls
    completion: Completion
    structured: Structured
    planner: Planner
    create_loop: Callable[[str, Registry], Worker]
    """Creates a loop whose replies are children of the node, with these tools."""
    new_call_id: Callable[[ToolCall], ToolCall]
    context: PlanningContext
    files: bool = False
    """The strategy is `files` (E4): classification, plan and summary are made without a model."""


class StageResult(msgspec.Struct):
    """The outcome of a stage, to be set before it ends."""

    outcome: str = "interrupted"


@contextmanager
def stage(stream: SessionStream, name: str, title: str, *, run: str, node: str, parent: str) -> Iterator[StageResult]:
    """Emit the start of a stage, and its end even after an exception."""
    result, started = StageResult(), time.monotonic()
    stream.emit(events.StageStarted(stage=name, title=title), run=run, node=node, parent=parent)
    try:
        yield result
    finally:
        ended = events.StageEnded(stage=name, outcome=result.outcome, ms=elapsed_ms(started))
        stream.emit(ended, run=run, node=node, parent=parent)


class Execution:
    """Executes the steps of one run. `tools` returns the tools of the next loop."""

    def __init__(
        self, run: str, node: str, deps: WorkflowDeps, tools: Callable[[], Registry], replan: Replan, divide: Divide
    ) -> None:
        self._run = run
        self._stage = node
        self._deps = deps
        self._stream = deps.stream
        self._calls = deps.calls
        self._tools = tools
        self._replan = replan
        self._divide = divide
        self._final_outcomes = FINAL_OUTCOMES | {"limit"} if deps.environment.attended else FINAL_OUTCOMES
        self._recovery_count = 0
        self._step_count = 0
        self._check_count = 0
        self._stage_count = 0
        self._claimed = False
        self.result = ExecutionResult()

    async def run_unplanned(self) -> ExecutionResult:
        """Work on the request in one loop, without steps."""
        await self._run_loop(self._stage)
        return self.result

    async def run_plan(self, plan: InstructionPlan) -> ExecutionResult:
        """Execute all steps, then the plan's check."""
        pending = list(plan.steps)
        check = plan.check
        self._emit(events.ProgramMessageAdded(kind="plan", text=format_plan(plan)), self._stage)
        while pending:
            step = pending.pop(0)
            if step.subtask:
                node = self._stage_node("subtask")
                title = f"Planning: {step.description}"
                with stage(self._stream, "subtask", title, run=self._run, node=node, parent=self._stage) as ended:
                    parts = await self._divide(step, node)
                    ended.outcome = "done" if parts else "rejected"
                if not parts:
                    return self._stopped(step, "refused", "its plan was rejected", len(pending) + 1)
                pending = [*parts, *pending]
                continue
            verdict, first_call = await self._run_step(step, self._step_count + len(pending) + 1)
            if self.result.outcome in self._final_outcomes:
                return self.result
            if verdict.met is not False:
                continue
            recovery = await self._recover(step, verdict, first_call, f"{self._run}.s{self._step_count}")
            if recovery is not None:
                pending, check = list(recovery.steps), recovery.check if recovery.check.command else check
            elif step.critical or verdict.error_class == "refused":
                outcome = "refused" if verdict.error_class == "refused" else "failed"
                return self._stopped(step, outcome, verdict.actual, len(pending))
        if check.command:
            await self._run_check(check)
        return self.result

    def _stopped(self, step: PlanStep, outcome: str, why: str, remaining: int) -> ExecutionResult:
        """Set the result of a run that ends at a step, with `remaining` steps not started."""
        text = f"Stopped at step {self._step_count} ({step.description}): {why}"
        if remaining:
            text += f"\n{remaining} more {'step was' if remaining == 1 else 'steps were'} not started."
        self.result.outcome = outcome
        self._append_to_closing(text)
        return self.result

    def _append_to_closing(self, text: str) -> None:
        self.result.closing = f"{self.result.closing}\n\n{text}".strip()

    # --- one step ---

    async def _run_step(self, step: PlanStep, total: int) -> tuple[StepVerdict, int]:
        """Execute one of `total` steps; return the verdict and the index of its first call in the results."""
        self._step_count += 1
        node, started = f"{self._run}.s{self._step_count}", time.monotonic()
        self._emit(events.StepStarted(step=msgspec.structs.replace(step, number=self._step_count), of=total), node)
        result, first_call, iterations = self.result, len(self._calls.results), self.result.iterations
        if step.tool == SHOW_DIFF:
            verdict = self._show_diff(node)
        else:
            verdict = await self._attempt(step, _step_instructions(step, self._step_count), node)
        if verdict.met is False and step.fallback and self._is_recoverable(verdict):
            verdict = await self._attempt_fallback(step, verdict, node)
        failed = verdict.met is False
        outcome: Literal["done", "failed"] = "failed" if failed else "done"
        finished = events.StepFinished(
            outcome=outcome,
            text=verdict.actual if failed else result.closing,
            iterations=result.iterations - iterations,
            ms=elapsed_ms(started),
        )
        self._emit(finished, node)
        result.steps += 1
        result.done += not failed
        result.outcomes.append(f"{self._step_count}. {step.description}: {outcome} ({verdict.actual[:300]})")
        return verdict, first_call

    def _show_diff(self, node: str) -> StepVerdict:
        """List the changed files with the size of each change; the diffs are shown where they were made."""
        changes = [change for _, result in self._calls.results for change in result.changes]
        lines = [f"{change.kind} {change.display} +{change.added} −{change.removed}" for change in changes]
        self.result.closing = text = "\n".join(lines) or "Nothing was changed."
        self.result.said = ""
        self._emit(events.Notice(level="info", text=f"Changes of this run:\n{text}", code="run.diff"), node)
        return StepVerdict(met=True, actual=text)

    async def _attempt_fallback(self, step: PlanStep, verdict: StepVerdict, node: str) -> StepVerdict:
        self.result.recovered = True
        event = events.StepRecoveryStarted(
            by="fallback", error_class=verdict.error_class, cause=verdict.actual, strategy=step.fallback
        )
        self._emit(event, node)
        instructions = (
            f"The step did not come out as expected ({verdict.error_class or 'other'}): {verdict.actual}\n"
            f"Do this instead: {step.fallback}\nWhen it is done, answer in a sentence, without a call."
        )
        return await self._attempt(step, instructions, node, is_fallback=True)

    async def _attempt(self, step: PlanStep, instructions: str, node: str, *, is_fallback: bool = False) -> StepVerdict:
        await self._show_files(node)
        self._emit(events.ProgramMessageAdded(kind="step", text=instructions), node)
        first_call, started = len(self._calls.results), time.monotonic()
        ended = await self._run_loop(node)
        results = self._calls.results[first_call:]
        # A fallback may use any tool.
        planned = msgspec.structs.replace(step, tool="") if is_fallback else step
        verdict = verdict_from_results(planned, results, ended.outcome)
        by: Literal["facts", "model"] = "facts"
        if is_fallback and not results:
            verdict = StepVerdict(met=False, actual="nothing was done about the failure", error_class="other")
        elif verdict.met is None and not results and not step.expected and _requires_action(step):
            verdict = StepVerdict(met=False, actual="nothing was done for it", error_class="other")
        elif verdict.met is None and step.expected:
            by = "model"
            verdict = await judge_step(step, verdict, results, ended.text, self._deps.structured, node=node)
        verified = events.StepVerified(
            met=verdict.met is not False, expected=step.expected, actual=verdict.actual, by=by, ms=elapsed_ms(started)
        )
        self._emit(verified, node)
        return verdict

    async def _show_files(self, node: str) -> None:
        """Show the model the current content of the run's files: earlier results are not in the request (E6)."""
        results, window = tuple(self._calls.results), self._stream.state.context_window
        text = await asyncio.to_thread(working_set, self._calls.environment, results, window)
        if text:
            text = f"The files of this run as they are now:\n\n{text}"
            self._emit(events.ProgramMessageAdded(kind="files", text=text), node)

    def _is_recoverable(self, verdict: StepVerdict) -> bool:
        is_final = self.result.outcome in self._final_outcomes
        return not is_final and verdict.error_class not in ("refused", "interrupted")

    async def _run_loop(self, node: str) -> events.RunEnded:
        loop = self._deps.create_loop(node, self._tools())
        ended = await loop.work()
        self._claimed = loop.claimed
        result = self.result
        result.closing = ended.text
        result.said = ended.text if ended.said is None and ended.outcome == "done" else ended.said
        result.iterations += ended.iterations
        # The verdict decides whether a step failed; only outcomes that end the whole run count here.
        is_final = ended.outcome in self._final_outcomes or self._step_count == 0
        result.outcome = ended.outcome if is_final else "done"
        return ended

    # --- after a failure ---

    async def _recover(
        self, step: PlanStep, verdict: StepVerdict, first_call: int, parent: str
    ) -> InstructionPlan | None:
        """Diagnose the failure of the node `parent` and return a plan for the remaining work.

        Return None if recovery is impossible or was tried too often."""
        is_exhausted = self._recovery_count >= MAX_RECOVERIES or self._step_count >= MAX_STEPS
        if self._deps.files or is_exhausted or not self._is_recoverable(verdict):
            return None
        self._recovery_count += 1
        self.result.recovered = True
        node = self._stage_node("recovery")
        with stage(self._stream, "recovery", "Recovery planning", run=self._run, node=node, parent=parent) as ended:
            results = self._calls.results[first_call:]
            diagnosis = await diagnose(step, verdict, results, self._deps.structured, node=node)
            event = events.StepRecoveryStarted(
                by="recovery", error_class=diagnosis.error_class, cause=diagnosis.cause, strategy=diagnosis.strategy
            )
            self._emit(event, parent)
            plan = await self._replan(step, diagnosis, node)
            ended.outcome = "failed" if plan is None else "done"
        return plan

    def _stage_node(self, name: str) -> str:
        """Return a new node for a stage within the execution."""
        self._stage_count += 1
        return f"{self._run}.{name}{self._stage_count}"

    # --- the check ---

    async def _run_check(self, check: Check) -> None:
        """Run the plan's check command; if it fails, recover as from a failed step and repeat it."""
        while True:
            first_call = len(self._calls.results)
            verdict = await self._check_once(check)
            if verdict is None or verdict.met:
                return
            step = PlanStep(
                number=self._step_count, description=f"the check `{check.command}`", expected=check.criteria
            )
            plan = await self._recover(step, verdict, first_call, f"{self._run}.check{self._check_count}")
            if plan is None:
                self.result.outcome = "failed"
                self._append_to_closing(f"The check failed: {verdict.actual}")
                return
            await self.run_plan(msgspec.structs.replace(plan, check=Check()))
            if self.result.outcome != "done":
                return

    async def _check_once(self, check: Check) -> StepVerdict | None:
        """Return the verdict, or None if the command was not allowed, which says nothing about the work."""
        started = time.monotonic()
        self._check_count += 1
        node = f"{self._run}.check{self._check_count}"
        call = self._deps.new_call_id(ToolCall(id="", name=COMMAND_TOOL, arguments={"command": check.command}))
        step = PlanStep(number=0, description=f"Check: {check.command}", expected=check.criteria)
        self._emit(events.StepStarted(step=step, of=0), node)
        await self._calls.execute((call,), node)
        result, ms = self._calls.results[-1][1], elapsed_ms(started)
        met, actual = result.success, summarize_result(result)
        if result.code in ("refused", "unknown_tool"):
            self._emit(events.StepFinished(outcome="skipped", text=actual, ms=ms), node)
            return None
        self.result.check_met = met
        verified = events.StepVerified(
            met=met, expected=check.criteria, actual=actual, by="command", command=check.command, ms=ms
        )
        self._emit(verified, node)
        self._emit(events.StepFinished(outcome="done" if met else "failed", text=actual, ms=ms), node)
        return StepVerdict(met=met, actual=actual, error_class="" if met else error_class(result))

    # --- the completion gate ---

    async def apply_gate(self, completion: Completion) -> None:
        """Decide from facts whether the work is done; first, unmet requirements go back to the model (E2, W8)."""
        result = self.result

        def missing() -> str:
            return completion.missing(result.closing, self._claimed) if result.outcome == "done" else ""

        while isinstance(
            ruling := await completion.evaluate(result.outcome, result.closing, self._claimed), CompletionRefusal
        ):
            self._emit(events.CompletionRefused(why=ruling.why), self._stage)
            self._emit(events.ProgramMessageAdded(kind="feedback", text=ruling.feedback), self._stage)
            result.outcome = (await self._run_loop(self._stage)).outcome
        if ruling is not None:
            self._emit(ruling, self._stage)
        unmet = missing()
        if unmet and completion.next_strategy():
            result.outcome = (await self._run_loop(self._stage)).outcome
            unmet = missing()
        if unmet:
            result.outcome, result.said = "failed", result.closing
            self._append_to_closing(f"Not done: {unmet}")

    def _emit(self, event: events.Event, node: str) -> None:
        parent = self._stage if node != self._stage else self._run
        self._stream.emit(event, run=self._run, node=node, parent=parent)


def _requires_action(step: PlanStep) -> bool:
    """Return whether a step without a planned tool needs more than an answer."""
    return step.tool == "" and request_kind(step.description) in ("change", "command")


def _step_instructions(step: PlanStep, number: int) -> str:
    lines = [prompt("step"), f"Step {number}: {step.description}"]
    if step.tool:
        arguments = msgspec.json.encode(step.arguments).decode() if step.arguments else ""
        lines.append(f"Tool thought of: {step.tool} {arguments}".rstrip())
    if step.expected:
        lines.append(f"Expected afterwards: {step.expected}")
    if step.fallback:
        lines.append(f"If that fails: {step.fallback}")
    return "\n".join(lines)


WINDOW_SHARE = 0.12
"""Share of the context window that the working set may use."""
MAX_WORKING_SET = 16_000
"""Characters of the working set at most."""


def working_set(environment: ToolEnvironment, results: CallResults, window: int | None) -> str:
    """Return the current content of the files that the calls read or wrote, the newest that fit; may be empty.

    The model has then seen these files. Blocks on file IO."""
    room = characters_in_window(window, WINDOW_SHARE, MAX_WORKING_SET)
    sections: list[str] = []
    names: set[str] = set()
    for call, result in reversed(results):
        path = call.arguments.get("path")
        if call.name not in ("read_file", "write_file", "edit_file") or not result.success or not isinstance(path, str):
            continue
        readable = read_workspace_text(environment.roots, path, MAX_WORKING_SET * 4)
        if readable is None or readable[0].display in names:
            continue
        target, file, text = readable
        names.add(target.display)
        if len(text) > room:
            continue
        room -= len(text)
        environment.mark_seen(target.path, file.sha256, file.data)
        sections.append(f"{target.display}\n```\n{mark_invisible(clean(text))}\n```")
    return "\n\n".join(reversed(sections))
