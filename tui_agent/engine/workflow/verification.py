"""Verification: whether a step had the expected outcome. Facts decide; a model only if they are inconclusive (W7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.common.workplan import PlanStep
from tui_agent.engine.host.tool_context import NO_WORKAROUND
from tui_agent.engine.workflow.plan_reading import SHOW_DIFF, find_object
from tui_agent.protocols.repair import UnreadableJson
from tui_agent.text.patterns import Patterns

COMMAND_TOOL = "run_terminal_command"
CallResults: TypeAlias = Sequence[tuple[ToolCall, ToolResult]]
_MAX_TAIL = 400
"""Characters quoted from the end of an output."""
_SELF_EVIDENT = ("read_file", "write_file", "edit_file", "list_files", SHOW_DIFF)
"""Tools whose success leaves nothing to verify."""
_RE = Patterns("tui_agent.engine.workflow", "errors")


class StepVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a step had the expected outcome."""

    met: bool | None
    """None if the facts are inconclusive."""
    actual: str
    """The outcome, in a line or two."""
    error_class: str = ""


def error_class(result: ToolResult) -> str:
    """Return the class of a failed call's error, from its code and from what programs usually print."""
    code = result.code or ""
    if code in ("refused", "interrupted", "timeout"):
        return code
    text = f"{result.error or ''}\n{result.data if isinstance(result.data, str) else ''}"
    for name in _RE.source("kinds").split():
        if getattr(_RE, name).search(text):
            return name
    if code in ("bad_arguments", "unknown_tool"):
        return "bad_arguments"
    return code if code in ("not_found", "not_unique") else "other"


def verdict_from_results(step: PlanStep, results: CallResults, outcome: str) -> StepVerdict:
    """Return the verdict on a step from the results of its calls and the outcome of its loop.

    The last call decides: that of the planned tool if there is one."""
    if outcome in ("failed", "unreachable", "limit", "interrupted"):
        failure = next((result for _, result in reversed(results) if not result.success), None)
        actual = f"the step ended early ({outcome})" + (f": {summarize_result(failure)}" if failure else "")
        return StepVerdict(met=False, actual=actual, error_class=error_class(failure) if failure else "other")
    planned = [result for call, result in results if step.tool and call.name == step.tool]
    decisive = planned or [result for _, result in results]
    if not decisive:
        if step.tool and step.tool != SHOW_DIFF:
            return StepVerdict(met=False, actual=f"{step.tool} was never called", error_class="other")
        return StepVerdict(met=None, actual="no tool was needed")
    last = decisive[-1]
    if not last.success:
        return StepVerdict(met=False, actual=summarize_result(last), error_class=error_class(last))
    # A successful call says nothing about expectations that go beyond its success.
    is_conclusive = not step.expected.strip() or step.tool in _SELF_EVIDENT
    return StepVerdict(met=True if is_conclusive else None, actual=summarize_result(last))


def parse_verdict(text: str, fallback: StepVerdict) -> StepVerdict:
    """Return the verdict in a model's `{met, evidence}`; an unreadable one counts as met, since no call failed."""
    try:
        fields = find_object(text, ("met",))
    except UnreadableJson:
        return StepVerdict(met=True, actual=fallback.actual)
    met = fields.get("met")
    if isinstance(met, str):
        met = met.strip().lower() in ("true", "yes", "1", "met")
    evidence = fields.get("evidence")
    actual = (isinstance(evidence, str) and evidence.strip()) or fallback.actual
    return StepVerdict(met=bool(met), actual=actual[:_MAX_TAIL], error_class="" if met else "other")


def summarize_result(result: ToolResult) -> str:
    """Return a result in a line or two: its error and the end of its output, without hints for the model."""
    text = result.data if isinstance(result.data, str) else ""
    tail = text.strip()[-_MAX_TAIL:]
    if result.success:
        return tail.splitlines()[-1] if tail else "it worked"
    return f"{(result.error or 'it failed').removesuffix(NO_WORKAROUND)}" + (f"\n{tail}" if tail else "")
