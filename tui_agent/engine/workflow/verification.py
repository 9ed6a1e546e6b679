"""Whether a step came out as expected: facts first, a model only where they settle nothing (W7)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.common.workplan import PlanStep
from tui_agent.engine.host.tool_context import NO_WORKAROUND
from tui_agent.engine.workflow.plan_reading import find_object
from tui_agent.protocols.repair import UnreadableJson
from tui_agent.text.patterns import Patterns

RAN_COMMANDS = "run_terminal_command"
_TAIL = 400
"""Characters of a failed command's output that are quoted."""

_ERRORS = Patterns("tui_agent.engine.workflow", "errors")


class StepVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the facts, or a model, say of an outcome."""

    met: bool | None
    """None: the facts don't settle it."""
    actual: str
    """What was seen, in a line or two."""
    error_class: str = ""


def error_class(result: ToolResult) -> str:
    """The kind of a failed call, by its code and by what programs write. No knowledge of any particular task."""
    code = result.code or ""
    if code in ("refused", "interrupted", "timeout"):
        return code
    text = f"{result.error or ''}\n{result.data if isinstance(result.data, str) else ''}"
    for kind in _ERRORS.source("kinds").split():
        if getattr(_ERRORS, kind).search(text):
            return kind
    if code in ("bad_arguments", "unknown_tool"):
        return "bad_arguments"
    return code if code in ("not_found", "not_unique") else "other"


def by_facts(step: PlanStep, done: Sequence[tuple[ToolCall, ToolResult]], outcome: str) -> StepVerdict:
    """What the calls of a step say by themselves: a refusal, an error or a bad exit code that nothing made good."""
    if outcome in ("failed", "unreachable", "limit", "interrupted"):
        last = _last_failure(done)
        actual = f"the step ended early ({outcome})" + (f": {brief(last)}" if last else "")
        return StepVerdict(met=False, actual=actual, error_class=error_class(last) if last else "other")
    planned = [result for call, result in done if step.tool and call.name == step.tool]
    decisive = planned or [result for _, result in done]
    if not decisive:
        wants_tool = bool(step.tool) and step.tool != "show_diff"
        if wants_tool:
            return StepVerdict(met=False, actual=f"{step.tool} was never called", error_class="other")
        return StepVerdict(met=None, actual="no tool was needed")
    last = decisive[-1]
    if not last.success:
        return StepVerdict(met=False, actual=brief(last), error_class=error_class(last))
    # A call that went well says nothing about what was expected beyond its going well.
    settled = not step.expected.strip() or _only_expects_success(step)
    return StepVerdict(met=True if settled else None, actual=brief(last))


def _only_expects_success(step: PlanStep) -> bool:
    """Writes and reads: when the call went well the file is there or its text was seen; there is nothing to judge."""
    return step.tool in ("read_file", "write_file", "edit_file", "list_files", "show_diff")


def read_verdict(text: str, fallback: StepVerdict) -> StepVerdict:
    """A model's `{met, evidence}`. Unreadable: what went well counts as met, since nothing spoke against it."""
    try:
        given = find_object(text, ("met",))
    except UnreadableJson:
        return StepVerdict(met=True, actual=fallback.actual)
    met = given.get("met")
    if isinstance(met, str):
        met = met.strip().lower() in ("true", "yes", "1", "met")
    evidence = given.get("evidence")
    said = evidence.strip() if isinstance(evidence, str) and evidence.strip() else fallback.actual
    return StepVerdict(met=bool(met), actual=said[:_TAIL], error_class="" if met else "other")


def brief(result: ToolResult) -> str:
    """A result in a line or two: how it ended, and the end of what it printed; without what only a model is told."""
    text = result.data if isinstance(result.data, str) else ""
    tail = text.strip()[-_TAIL:]
    if result.success:
        return tail.splitlines()[-1] if tail else "it worked"
    return f"{(result.error or 'it failed').removesuffix(NO_WORKAROUND)}" + (f"\n{tail}" if tail else "")


def _last_failure(done: Sequence[tuple[ToolCall, ToolResult]]) -> ToolResult | None:
    return next((result for _, result in reversed(done) if not result.success), None)
