"""Stage 2: the steps of a plan, each verified; what fails is diagnosed and tried another way (W6, W7, W8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol

import msgspec

from tui_agent import events
from tui_agent.common.domain import Fault, SystemMessage, ToolCall, ToolResult, UserMessage
from tui_agent.common.workplan import Check, InstructionPlan, PlanStep, format_plan
from tui_agent.engine.checks.relevant_files import readable_text
from tui_agent.engine.checks.request_reading import request_kind
from tui_agent.engine.core.prompts import prompt, reply_schema
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.deps import SessionDeps
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.loop.calls import ToolCalls
from tui_agent.engine.loop.completion import Completion, CompletionRefusal
from tui_agent.engine.loop.structured import Question, Structured
from tui_agent.engine.workflow.plan_reading import SHOW_DIFF, find_object
from tui_agent.engine.workflow.planning import Background, Planner, actions_of, elapsed_ms
from tui_agent.engine.workflow.verification import RAN_COMMANDS, StepVerdict, brief, by_facts, error_class, read_verdict
from tui_agent.protocols.repair import UnreadableJson
from tui_agent.text import clean, mark_invisible
from tui_agent.tools.registry import Registry

RECOVERIES = 2
"""How often a run plans anew after a failure."""
STEPS_MAX = 30
"""Steps of one run, all plans together."""
FINAL = frozenset({"unreachable"})
"""Ends of a step after which trying another way makes no sense."""


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
"""What helps against a kind of error in general, where the model says nothing."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step failed, and the next strategy."""

    error_class: str
    cause: str
    strategy: str
    prerequisite: str = ""

    def sentence(self, step: PlanStep) -> str:
        """What recovery planning is told."""
        need = f" Needed first: {self.prerequisite}." if self.prerequisite else ""
        return (
            f"Step {step.number} ({step.description}) failed (class of the error: {self.error_class}): {self.cause}"
            f"{need} Next: {self.strategy}"
        )


async def diagnose(
    step: PlanStep,
    verdict: StepVerdict,
    done: Sequence[tuple[ToolCall, ToolResult]],
    structured: Structured,
    *,
    node: str,
) -> Diagnosis:
    """The cause by a short model call; by the error's class alone where the model gives none."""
    kind = verdict.error_class or "other"
    plain = Diagnosis(
        error_class=kind, cause=verdict.actual, strategy=_ADVICE.get(kind, "take another way to the same end")
    )
    record = _record(step, verdict, done) + f"\nClass of the error: {kind}"
    question = Question(
        alone=(SystemMessage(text=prompt("diagnose")), UserMessage(text=record)), task=f"{prompt('diagnose')}\n{record}"
    )
    reply = await structured.ask(
        "planning", question, parent=node, schema=reply_schema("diagnose"), purpose="diagnosing"
    )
    if isinstance(reply, Fault):
        return plain
    try:
        given = find_object(reply.text, ("strategy", "cause"))
    except UnreadableJson:
        return plain
    texts = {key: str(given.get(key) or "").strip()[:500] for key in ("cause", "prerequisite", "strategy")}
    return Diagnosis(
        error_class=kind,
        cause=texts["cause"] or plain.cause,
        prerequisite=texts["prerequisite"],
        strategy=texts["strategy"] or plain.strategy,
    )


async def judge_step(
    step: PlanStep,
    verdict: StepVerdict,
    done: Sequence[tuple[ToolCall, ToolResult]],
    closing: str,
    structured: Structured,
    *,
    node: str,
) -> StepVerdict:
    """The verdict of a short model call, for an outcome that the facts leave open."""
    record = _record(step, verdict, done) + (f"\nThe agent's words: {closing[:1_500]}" if closing else "")
    question = Question(
        alone=(SystemMessage(text=prompt("verify_step")), UserMessage(text=record)),
        task=f"{prompt('verify_step')}\n{_record(step, verdict, ())}",
    )
    reply = await structured.ask(
        "dispatcher", question, parent=node, schema=reply_schema("verify_step"), purpose="judging"
    )
    return (
        StepVerdict(met=True, actual=verdict.actual) if isinstance(reply, Fault) else read_verdict(reply.text, verdict)
    )


def _record(step: PlanStep, verdict: StepVerdict, done: Sequence[tuple[ToolCall, ToolResult]]) -> str:
    lines = [f"Step {step.number}: {step.description}", f"Expected: {step.expected or 'that it works'}"]
    lines += [f"Done: {one}" for one in actions_of(done)]
    lines.append(f"Seen: {verdict.actual}")
    return "\n".join(lines)


class Worker(Protocol):
    """A direct loop that is ready to run."""

    claimed: bool
    """Its last reply held the mark that the work is done."""

    async def work(self) -> events.RunEnded:
        """Run to the end."""
        ...


Replan = Callable[[PlanStep, Diagnosis, str], Awaitable[InstructionPlan | None]]
"""Makes and reviews a plan for what is left, below that node; None when there is none or the user rejected it."""
Divide = Callable[[PlanStep, str], Awaitable[tuple[PlanStep, ...]]]
"""Makes and reviews the plan of a subtask, below that node; nothing when the user rejected it."""


class ExecutionResult(msgspec.Struct, kw_only=True):
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


class WorkflowDeps(SessionDeps, frozen=True, kw_only=True):
    """Who takes part in the workflow of one run; filled in by the session."""

    registry: Registry
    """All tools of the mode."""
    calls: ToolCalls
    completion: Completion
    """Accepts that the work is done, or not (W8)."""
    structured: Structured
    planner: Planner
    loop: Callable[[str, Registry], Worker]
    """A direct loop whose replies hang below the node, with these tools."""
    new_call: Callable[[ToolCall], ToolCall]
    background: Background
    """What planning is told beside the request."""
    files: bool = False
    """The model is asked for whole files (E4): the program sorts, plans and sums up."""


class StageEnd(msgspec.Struct):
    """How a stage that goes on will have ended."""

    outcome: str = "interrupted"


@contextmanager
def stage(stream: SessionStream, name: str, title: str, *, run: str, node: str, parent: str) -> Iterator[StageEnd]:
    """A stage's beginning and end on the stream, whatever happens between."""
    end, started = StageEnd(), time.monotonic()
    stream.emit(events.StageStarted(stage=name, title=title), run=run, node=node, parent=parent)
    try:
        yield end
    finally:
        left = events.StageEnded(stage=name, outcome=end.outcome, ms=elapsed_ms(started))
        stream.emit(left, run=run, node=node, parent=parent)


class Execution:
    """The steps of one run, with the tools that `tools` gives."""

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
        self._final = FINAL | {"limit"} if deps.environment.attended else FINAL
        self._recoveries = 0
        self._count = 0
        self._checks = self._inner = 0
        self._claimed = False
        self.carried = ExecutionResult()

    async def alone(self) -> ExecutionResult:
        """The request itself in the direct loop, without steps."""
        await self._work(self._stage)
        return self.carried

    async def steps(self, plan: InstructionPlan) -> ExecutionResult:
        """All steps, then the check."""
        waiting = list(plan.steps)
        check = plan.check
        self._emit(events.ProgramMessageAdded(kind="plan", text=format_plan(plan)), self._stage)
        while waiting:
            step = waiting.pop(0)
            if step.subtask:
                node = self._inside("subtask")
                title = f"Planning: {step.description}"
                with stage(self._stream, "subtask", title, run=self._run, node=node, parent=self._stage) as end:
                    parts = await self._divide(step, node)
                    end.outcome = "done" if parts else "rejected"
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

    def _stopped(self, step: PlanStep, outcome: str, why: str, left: int) -> ExecutionResult:
        """`left` steps were not begun."""
        self.carried.outcome = outcome
        said = f"Stopped at step {self._count} ({step.description}): {why}"
        if left:
            said += f"\n{left} more {'step was' if left == 1 else 'steps were'} not begun."
        self.carried.closing = f"{self.carried.closing}\n\n{said}".strip()
        return self.carried

    # --- one step ---

    async def _step(self, step: PlanStep, of: int) -> tuple[StepVerdict, int]:
        """The verdict, and where the step's calls begin."""
        self._count += 1
        node, started = f"{self._run}.s{self._count}", time.monotonic()
        self._emit(events.StepStarted(step=msgspec.structs.replace(step, number=self._count), of=of), node)
        mark, iterations = len(self._calls.results), self.carried.iterations
        if step.tool == SHOW_DIFF:
            verdict = self._show_diff(step, node)
        else:
            verdict = await self._attempt(step, _told(step, self._count), node)
        if verdict.met is False and step.fallback and self._may_retry(verdict):
            self.carried.recovered = True
            trying = events.StepRecoveryStarted(
                by="fallback", error_class=verdict.error_class, cause=verdict.actual, strategy=step.fallback
            )
            self._emit(trying, node)
            told = (
                f"The step did not come out as expected ({verdict.error_class or 'other'}): {verdict.actual}\n"
                f"Do this instead: {step.fallback}\nWhen it is done, answer in a sentence, without a call."
            )
            verdict = await self._attempt(step, told, node, any_tool=True)
        finished = events.StepFinished(
            outcome="done" if verdict.met is not False else "failed",
            text=self.carried.closing if verdict.met is not False else verdict.actual,
            iterations=self.carried.iterations - iterations,
            ms=elapsed_ms(started),
        )
        self._emit(finished, node)
        self.carried.steps += 1
        self.carried.done += verdict.met is not False
        line = f"{self._count}. {step.description}: {'done' if verdict.met is not False else 'failed'}"
        self.carried.outcomes.append(f"{line} ({verdict.actual[:300]})")
        return verdict, mark

    def _show_diff(self, step: PlanStep, node: str) -> StepVerdict:
        """The files that the run changed, with how much; the diffs stand where they were made."""
        changes = [change for _, result in self._calls.results for change in result.changes]
        lines = [f"{one.kind} {one.display} +{one.added} −{one.removed}" for one in changes]
        self.carried.closing = text = "\n".join(lines) or "Nothing was changed."
        self.carried.said = ""
        self._emit(events.Notice(level="info", text=f"Changes of this run:\n{text}", code="run.diff"), node)
        return StepVerdict(met=True, actual=text)

    async def _attempt(self, step: PlanStep, told: str, node: str, *, any_tool: bool = False) -> StepVerdict:
        await self._show_files(node)
        self._emit(events.ProgramMessageAdded(kind="step", text=told), node)
        mark, started = len(self._calls.results), time.monotonic()
        ended = await self._work(node)
        done = self._calls.results[mark:]
        seen = msgspec.structs.replace(step, tool="") if any_tool else step
        verdict = by_facts(seen, done, ended.outcome)
        if any_tool and not done:
            verdict = StepVerdict(met=False, actual="nothing was done about the failure", error_class="other")
        by: Literal["facts", "model"] = "facts"
        if verdict.met is None and not done and not step.expected and _wants_doing(step):
            verdict = StepVerdict(met=False, actual="nothing was done for it", error_class="other")
        elif verdict.met is None and step.expected:
            by = "model"
            verdict = await judge_step(step, verdict, done, ended.text, self._deps.structured, node=node)
        verified = events.StepVerified(
            met=verdict.met is not False, expected=step.expected, actual=verdict.actual, by=by, ms=elapsed_ms(started)
        )
        self._emit(verified, node)
        return verdict

    async def _show_files(self, node: str) -> None:
        """Show what the steps before read and wrote as it is now: their results are gone from the request (E6)."""
        done = self._calls.results
        window = self._stream.state.context_window
        shown = await asyncio.to_thread(working_set, self._calls.environment, tuple(done), window)
        if shown:
            text = f"The files of this run as they are now:\n\n{shown}"
            self._emit(events.ProgramMessageAdded(kind="files", text=text), node)

    def _may_retry(self, verdict: StepVerdict) -> bool:
        return self.carried.outcome not in self._final and verdict.error_class not in ("refused", "interrupted")

    async def _work(self, node: str) -> events.RunEnded:
        loop = self._deps.loop(node, self._tools())
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

    async def _recover(self, step: PlanStep, verdict: StepVerdict, mark: int, above: str) -> InstructionPlan | None:
        """Find out why, and plan what is left anew, all below the node `above` that failed; None where that is of no
        use or was tried often enough."""
        if (
            self._deps.files
            or self._recoveries >= RECOVERIES
            or self._count >= STEPS_MAX
            or not self._may_retry(verdict)
        ):
            return None
        self._recoveries += 1
        self.carried.recovered = True
        node = self._inside("recovery")
        with stage(self._stream, "recovery", "Recovery planning", run=self._run, node=node, parent=above) as end:
            found = await diagnose(step, verdict, self._calls.results[mark:], self._deps.structured, node=node)
            event = events.StepRecoveryStarted(
                by="recovery", error_class=found.error_class, cause=found.cause, strategy=found.strategy
            )
            self._emit(event, above)
            plan = await self._replan(step, found, node)
            end.outcome = "failed" if plan is None else "done"
        return plan

    def _inside(self, name: str) -> str:
        """The node of the next stage within the execution, for what is asked and planned there."""
        self._inner += 1
        return f"{self._run}.{name}{self._inner}"

    # --- the check ---

    async def _checked(self, check: Check) -> ExecutionResult:
        """Run the plan's check command as any command; a failed one is a failure like a step's."""
        verdict, mark = await self._check(check)
        while verdict is not None and verdict.met is False:
            step = PlanStep(number=self._count, description=f"the check `{check.command}`", expected=check.criteria)
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

    async def _check(self, check: Check) -> tuple[StepVerdict | None, int]:
        """The verdict; None when the command was not allowed, which says nothing of the work."""
        mark, started = len(self._calls.results), time.monotonic()
        self._checks += 1
        node = f"{self._run}.check{self._checks}"
        call = self._deps.new_call(ToolCall(id="", name=RAN_COMMANDS, arguments={"command": check.command}))
        step = PlanStep(number=0, description=f"Check: {check.command}", expected=check.criteria)
        self._emit(events.StepStarted(step=step, of=0), node)
        await self._calls.carry_out((call,), node)
        done = self._calls.results[mark:]
        ms = elapsed_ms(started)
        result = done[-1][1] if done else None
        refused = result is None or result.code in ("refused", "unknown_tool")
        met = result is not None and result.success
        actual = "it was not run" if result is None else brief(result)
        if not refused:
            self.carried.check_met = met
            self._emit(
                events.StepVerified(
                    met=met, expected=check.criteria, actual=actual, by="command", command=check.command, ms=ms
                ),
                node,
            )
        outcome: Literal["done", "failed", "skipped"] = "skipped" if refused else "done" if met else "failed"
        self._emit(events.StepFinished(outcome=outcome, text=actual, ms=ms), node)
        if refused or result is None:
            return None, mark
        return StepVerdict(met=met, actual=actual, error_class="" if met else error_class(result)), mark

    # --- the completion gate ---

    async def gate(self, completion: Completion) -> None:
        """Settle by the facts whether the work is done; what is missing goes back to the model first (E2, W8)."""
        carried = self.carried
        while isinstance(
            ruling := await completion.evaluate(carried.outcome, carried.closing, self._claimed), CompletionRefusal
        ):
            self._emit(events.CompletionRefused(why=ruling.why), self._stage)
            self._emit(events.ProgramMessageAdded(kind="feedback", text=ruling.feedback), self._stage)
            carried.outcome = (await self._work(self._stage)).outcome
        if isinstance(ruling, events.Notice):
            self._emit(ruling, self._stage)
        missing = completion.missing(carried.closing, self._claimed) if carried.outcome == "done" else ""
        if missing and completion.next_strategy():
            carried.outcome = (await self._work(self._stage)).outcome
            missing = completion.missing(carried.closing, self._claimed) if carried.outcome == "done" else ""
        if missing:
            carried.outcome, carried.said = "failed", carried.closing
            carried.closing = f"{carried.closing}\n\nNot done: {missing}".strip()

    def _emit(self, event: events.Event, node: str) -> None:
        parent = self._stage if node != self._stage else self._run
        self._stream.emit(event, run=self._run, node=node, parent=parent)


def _wants_doing(step: PlanStep) -> bool:
    """Whether a step asks for more than words, by its own."""
    return step.tool == "" and request_kind(step.description) in ("change", "command")


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


SHARE = 0.12
"""Of the window: what the working set may take."""
MOST = 16_000
"""Characters of it at most."""
PER_TOKEN = 3
"""Characters that a token of code has at the least."""
_TOUCHING = ("read_file", "write_file", "edit_file")


def working_set(place: ToolEnvironment, done: Sequence[tuple[ToolCall, ToolResult]], window: int | None) -> str:
    """The files that calls of a run read or wrote, the newest first, as far as there is room; empty where there are
    none. What is shown counts as seen. Does file IO."""
    room = MOST if window is None else min(MOST, round(SHARE * PER_TOKEN * window))
    shown: list[str] = []
    names: set[str] = set()
    for call, result in reversed(done):
        path = call.arguments.get("path")
        if call.name not in _TOUCHING or not result.success or not isinstance(path, str):
            continue
        found = readable_text(place.roots, path, MOST * 4)
        if found is None or found[0].display in names:
            continue
        target, file, text = found
        names.add(target.display)
        if len(text) > room:
            continue
        room -= len(text)
        place.mark_seen(target.path, file.sha256)
        shown.append(f"{target.display}\n```\n{mark_invisible(clean(text))}\n```")
    return "\n\n".join(reversed(shown))
