"""After a failure: why it happened, and what to do instead (W7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tui_agent.domain import Fault, SystemMessage, ToolCall, ToolResult, UserMessage
from tui_agent.engine.plan_reading import find_object
from tui_agent.engine.planning import actions_of
from tui_agent.engine.prompts import prompt
from tui_agent.engine.structured import Question, Structured
from tui_agent.engine.verification import Verdict, read_verdict
from tui_agent.protocols.repair import Unreadable
from tui_agent.workplan import PlanStep

_FIELD = {"type": "string"}
DIAGNOSIS: dict[str, Any] = {
    "type": "object",
    "properties": {"cause": _FIELD, "prerequisite": _FIELD, "strategy": _FIELD},
    "required": ["cause", "strategy"],
}
VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {"met": {"type": "boolean"}, "evidence": _FIELD},
    "required": ["met", "evidence"],
}
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
    verdict: Verdict,
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
        alone=(SystemMessage(text=prompt("diagnose")), UserMessage(text=record)),
        task=f"{prompt('diagnose')}\n{record}",
    )
    said = await structured.ask("planning", question, parent=node, schema=DIAGNOSIS, purpose="diagnosing")
    if isinstance(said, Fault):
        return plain
    try:
        given = find_object(said.text, ("strategy", "cause"))
    except Unreadable:
        return plain
    texts = {key: str(given.get(key) or "").strip()[:500] for key in ("cause", "prerequisite", "strategy")}
    return Diagnosis(
        error_class=kind,
        cause=texts["cause"] or plain.cause,
        prerequisite=texts["prerequisite"],
        strategy=texts["strategy"] or plain.strategy,
    )


async def judged(
    step: PlanStep,
    verdict: Verdict,
    done: Sequence[tuple[ToolCall, ToolResult]],
    closing: str,
    structured: Structured,
    *,
    node: str,
) -> Verdict:
    """The verdict of a short model call, for an outcome that the facts leave open."""
    record = _record(step, verdict, done) + (f"\nThe agent's words: {closing[:1_500]}" if closing else "")
    question = Question(
        alone=(SystemMessage(text=prompt("verify_step")), UserMessage(text=record)),
        task=f"{prompt('verify_step')}\n{_record(step, verdict, ())}",
    )
    said = await structured.ask("dispatcher", question, parent=node, schema=VERDICT, purpose="judging")
    return (
        Verdict(met=True, actual=verdict.actual)
        if isinstance(said, Fault)
        else read_verdict(said.text, verdict)
    )


def _record(step: PlanStep, verdict: Verdict, done: Sequence[tuple[ToolCall, ToolResult]]) -> str:
    lines = [f"Step {step.number}: {step.description}", f"Expected: {step.expected or 'that it works'}"]
    lines += [f"Done: {one}" for one in actions_of(done)]
    lines.append(f"Seen: {verdict.actual}")
    return "\n".join(lines)
