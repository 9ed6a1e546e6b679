"""Scenes of the staged workflow: a request is sorted, planned, reviewed, carried out in steps and summed up."""

from __future__ import annotations

from typing import Any

from tests.scenes.build import CHANGE, EDIT, READ, Scene
from tui_agent import events as e
from tui_agent.common.domain import Answer, Fault, ToolResult
from tui_agent.common.workplan import (
    Alternative,
    Check,
    Classification,
    CriterionChange,
    DecisionNote,
    InstructionPlan,
    PlanStep,
    Summary,
)

ASKED = "add a --json flag to the export command"
PLAN = InstructionPlan(
    approach="Give export() a JSON branch beside the table writer, then let the command line choose it.",
    prerequisites=("git is clean", "pytest is installed"),
    steps=(
        PlanStep(
            number=1,
            description="Read the exporter and who calls it",
            tool="read_file",
            expected="export() and all of its callers are known",
            confidence=0.95,
        ),
        PlanStep(
            number=2,
            description='Let export() write JSON when fmt is "json"',
            tool="edit_file",
            expected="src/export.py imports json and handles the format",
            fallback="write a new module src/json_export.py and call it",
            confidence=0.85,
            critical=True,
        ),
        PlanStep(
            number=3,
            description="Add the --json flag to the command line",
            tool="edit_file",
            expected="main() passes the format on",
            fallback="read the argument from the environment",
            critical=True,
        ),
        PlanStep(
            number=4,
            description="Test both formats, also with rows that hold Unicode",
            tool="write_file",
            expected="three tests pass",
        ),
    ),
    check=Check(command="python -m pytest -q tests/test_export.py", criteria="all tests pass"),
)
UNSURE = InstructionPlan(
    approach="Ask the export service for JSON; its documentation was not found, so its name is a guess.",
    prerequisites=("the service answers",),
    steps=(
        PLAN.steps[0],
        PlanStep(
            number=2,
            description="Call the service with Accept: application/json",
            tool="run_terminal_command",
            expected="one JSON array",
            fallback="convert the table to JSON here",
            confidence=0.45,
            critical=True,
        ),
    ),
    alternatives=(
        Alternative(approach="Convert rows to JSON in export()", when="when no service is wanted", confidence=0.8),
        Alternative(approach="Pipe the table through jq", when="for a quick look", confidence=0.5),
    ),
    confidence=0.45,
)
SUMMARY = Summary(
    action="Added --json to the export command",
    details="export() has a JSON branch, main() passes the format on, three tests cover both formats.",
    result="✓ all tests pass",
    tools=("read_file", "edit_file", "write_file", "run_terminal_command"),
    criteria=(
        CriterionChange(description="the parser accepts the flag"),
        CriterionChange(description="the output is valid JSON", notes="array, indent 2"),
        CriterionChange(description="the README mentions it", completed=False),
        CriterionChange(description="Unicode survives", added=True),
    ),
    decisions_made=(DecisionNote(title="one array over NDJSON", rationale="readers load the whole file anyway"),),
    decisions_rejected=(DecisionNote(title="a --format option", rationale="three spellings for two formats"),),
)


class Story(Scene):
    """A scene with the stages, steps and calls apart from the conversation."""

    def __init__(self) -> None:
        super().__init__()
        self.step_id = ""

    def _above(self, node: str) -> str:
        if self.step_id and node not in (self.step_id, self.stage_id, "") and not node.startswith("c"):
            return self.step_id
        return super()._above(node)

    def apart(self, role: str, *, thought: str = "", seconds: float = 1.2, fault: Fault | None = None) -> Story:
        """A structured call, from its beginning to its end."""
        count = sum(isinstance(r.event, e.ReplyStarted) for r in self.records)
        self.node = f"{self.stage_id}.{role}{count}"
        self.emit(e.ReplyStarted(model="qwen2.5-coder:7b", iteration=0, messages=2, estimate=900, role=role))
        self.emit(e.ReplyPhase(phase="reading", detail=role), seconds=0.3)
        if thought:
            self.think(thought, seconds)
        self.emit(e.ReplyPhase(phase="writing", detail=role), seconds=0.2)
        self.wait(seconds)
        ms = round(seconds * 1000) + 500
        self.emit(e.ReplyEnded(text="", thought=thought, role=role, fault=fault, ms=ms))
        return self

    def begin(self, text: str = ASKED) -> Story:
        self.opened(mode="agent").ask(text)
        self.enter("planning", "Planning")
        self.apart("dispatcher", seconds=0.6)
        found = Classification(intent="modify", task_type="coding", complexity="moderate")
        self.emit(e.RequestClassified(classified=found, ms=600), node=self.stage_id)
        return self

    def propose(self, plan: InstructionPlan, *, key: str = "p1", **more: Any) -> Story:
        fields: dict[str, Any] = {"asks": True, "why": "changes files", "ms": 5200}
        self.apart("planning", thought="The exporter has a table writer only.\nA flag is enough.", seconds=5)
        self.emit(e.PlanProposed(id=key, plan=plan, **(fields | more)), node=self.stage_id)
        return self

    def review(self, plan: InstructionPlan, verdict: Any = "approve", *, key: str = "p1", **more: Any) -> Story:
        answer = Answer(verdict=verdict, text=more.pop("text", ""), by=more.pop("by", "user"))
        self.emit(e.PlanReviewed(id=key, answer=answer, plan=plan, **more), node=self.stage_id, seconds=6)
        return self

    def step(self, step: PlanStep, of: int) -> Story:
        self.step_id = f"{self.run}.s{step.number}" if step.number else f"{self.run}.check"
        self.emit(e.StepStarted(step=step, of=of), node=self.step_id)
        return self

    def verify(self, met: bool, actual: str, *, expected: str = "", by: Any = "facts", command: str = "") -> Story:
        event = e.StepVerified(met=met, expected=expected, actual=actual, by=by, command=command, ms=300)
        self.emit(event, node=self.step_id)
        return self

    def over(self, outcome: Any = "done", ms: int = 3200) -> Story:
        self.emit(e.StepFinished(outcome=outcome, iterations=1, ms=ms), node=self.step_id)
        self.step_id = ""
        return self

    def tool(self, name: str, title: str, result: ToolResult, *, reads_only: bool = False, ms: int = 40) -> Story:
        self.reply()
        call = self.call(name, path=title)
        self.end("", call).start(call, title, reads_only=reads_only)
        if result.changes:
            self.emit(e.FileChanged(change=CHANGE, diff=EDIT.diff))
        self.finish(call, result, ms)
        return self


def plan_waits() -> Story:
    return Story().begin().propose(PLAN)


def plan_unsure() -> Story:
    return Story().begin().propose(UNSURE, why="confidence below 60%")


def plan_rejected() -> Story:
    story = plan_waits().review(PLAN, "reject", text="use the csv module's dialects instead")
    story.leave("planning", 14_000)
    story.done("refused", "The plan was rejected: use the csv module's dialects instead", tool_calls=0)
    return story


def plan_planning() -> Story:
    story = Story().begin()
    story.node = f"{story.stage_id}.planning9"
    started = e.ReplyStarted(model="qwen2.5-coder:7b", iteration=0, messages=2, estimate=900, role="planning")
    story.emit(started).emit(e.ReplyPhase(phase="reading", detail="planning"), seconds=0.3)
    story.think("The exporter has a table writer only.", 4)
    return story


def steps_running() -> Story:
    """The first step is done, the second one goes on with its fallback."""
    story = plan_waits().review(PLAN)
    story.leave("planning", 14_000).enter("execution", "Execution")
    first, second = PLAN.steps[:2]
    story.step(first, 4).tool("read_file", "src/export.py", ToolResult(success=True, data=READ), reads_only=True)
    story.verify(True, "read 2 lines", expected=first.expected).over(ms=2400)
    story.step(second, 4)
    failed = ToolResult(success=False, error="src/export.py is read-only", code="permission")
    story.tool("edit_file", "src/export.py", failed)
    story.verify(False, "src/export.py is read-only", expected=second.expected)
    recovering = e.StepRecoveryStarted(
        by="fallback", error_class="permission", cause="the file is read-only", strategy=second.fallback
    )
    story.emit(recovering, node=story.step_id)
    story.reply().write("I'll write a module of its own.")
    return story


def _carried() -> Story:
    story = steps_running()
    story.end("I'll write a module of its own.")
    done = ToolResult(success=True, data="Edited.", changes=(CHANGE,))
    story.tool("write_file", "src/json_export.py", done)
    story.verify(True, "src/json_export.py was written", expected=PLAN.steps[1].expected).over(ms=9000)
    third, fourth = PLAN.steps[2:]
    story.step(third, 4).tool("edit_file", "src/main.py", done)
    story.verify(True, "src/main.py was edited", expected=third.expected).over()
    story.step(fourth, 4)
    story.tool("write_file", "tests/test_export.py", ToolResult(success=False, error="No such folder: tests/"))
    story.verify(False, "the folder tests/ is missing", expected=fourth.expected).over("failed")
    recovering = e.StepRecoveryStarted(
        by="recovery", error_class="not_found", cause="no tests yet", strategy="make the folder first"
    )
    story.emit(recovering, node=story.stage_id)
    return story


def steps_recovered() -> Story:
    """A failed step, a new plan by itself, the run's check."""
    story = _carried()
    fifth = PlanStep(number=1, description="Make tests/ and write the tests", tool="write_file", expected="3 tests")
    again = InstructionPlan(approach="Make the folder first.", steps=(fifth,), check=PLAN.check)
    story.apart("planning", seconds=2)
    story.emit(
        e.PlanProposed(id="p2", plan=again, asks=False, why="the setting plan_approval", recovery=True),
        node=f"s-{'planning'}",
    )
    answer = Answer(verdict="approve", by="the setting plan_approval")
    story.emit(e.PlanReviewed(id="p2", answer=answer, plan=again), node="s-planning")
    numbered = PlanStep(number=5, description=fifth.description, tool="write_file", expected="3 tests")
    story.step(numbered, 5).tool("write_file", "tests/test_export.py", ToolResult(success=True, data="Written."))
    story.verify(True, "tests/test_export.py was written", expected="3 tests").over()
    story.step(PlanStep(number=0, description=f"Check: {PLAN.check.command}", expected="all tests pass"), 0)
    story.tool("run_terminal_command", PLAN.check.command, ToolResult(success=True, data="3 passed"), ms=1240)
    story.verify(True, "exit code 0", expected="all tests pass", by="command", command=PLAN.check.command)
    story.over(ms=1300)
    text = "The export command takes --json now; three tests pass."
    story.reply().write(text).end(text)
    return story


def completion_refused() -> Story:
    story = plan_waits().review(PLAN)
    story.leave("planning", 14_000).enter("execution", "Execution").reply()
    story.write("All done.").end("All done.")
    why = "the request needs a change, and nothing was written or run that changes anything"
    story.emit(e.CompletionRefused(why=why), node=story.stage_id)
    return story


def summary_waits() -> Story:
    story = steps_recovered()
    story.leave("execution", 42_000).enter("summary", "Summary")
    story.apart("summary", seconds=2)
    story.emit(e.SummaryProposed(id="s1", summary=SUMMARY), node=story.stage_id)
    return story


def _settled(outcome: Any, summary: Summary = SUMMARY) -> Story:
    story = summary_waits()
    story.emit(e.SummaryReviewed(id="s1", outcome=outcome, summary=summary), node=story.stage_id, seconds=5)
    story.leave("summary", 8_000)
    story.done(text="The export command takes --json now; three tests pass.", tool_calls=7, ms=71_000)
    return story


def summary_accepted() -> Story:
    return _settled("accepted")


def summary_discarded() -> Story:
    return _settled("discarded")


def summary_again() -> Story:
    """Nobody was there; offered again at the next start."""
    story = _settled("pending")
    story.emit(e.SessionClosed(reason="user"), node="")
    story.opened(mode="agent", resumed=True)
    story.emit(e.SummaryProposed(id="s1", summary=SUMMARY, by="program"), node="")
    return story
