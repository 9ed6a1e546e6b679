"""Plans, steps and summaries as sections of a document."""

from __future__ import annotations

from collections.abc import Iterator

from tui_agent.export.content import Facts, Fold, Part, Prose, Section, Text
from tui_agent.export.words import duration, noted, shown, verdict
from tui_agent.text import one_line, visible
from tui_agent.view import Offer, Proposal, RequestItem, StepItem
from tui_agent.workplan import InstructionPlan, PlanStep, Summary

STEP_TONES = {"done": "ok", "failed": "bad", "skipped": "warn", "interrupted": "warn", "": ""}
OUTCOMES = {
    "": ("", "waiting"),
    "accepted": ("ok", "accepted"),
    "edited": ("ok", "accepted, edited by the user"),
    "discarded": ("warn", "discarded"),
    "pending": ("", "not decided yet"),
}


def plan_section(item: RequestItem, proposal: Proposal) -> Section:
    """A plan, as it was taken or as it was made."""
    name = "Recovery plan" if proposal.recovery else "Plan"
    marks = ["edited by the user"] if proposal.edited else []
    marks += ["made before"] if proposal.cached else []
    marks += ["no usable plan came"] if proposal.fallback else []
    decided = (
        verdict(item.answer) if item.answer is not None else "carried out" if not proposal.asks else "waiting"
    )
    rejected = item.answer is not None and item.answer.verdict == "reject"
    parts = _plan_parts(proposal.taken or proposal.plan)
    if proposal.asks and item.why:
        parts.insert(0, Facts((("asked", shown(item.why)),)))
    if proposal.faults:
        parts.append(Fold("What was wrong with it", tuple(Text(shown(one)) for one in proposal.faults)))
    tone = "warn" if rejected else "ok"
    return Section("plan", name, note=noted(decided, *marks), tone=tone, parts=tuple(parts))


def _plan_parts(plan: InstructionPlan) -> list[Part]:
    parts: list[Part] = [Text(shown(plan.approach))] if plan.approach else []
    if plan.prerequisites:
        parts.append(Facts(tuple(("needs", shown(one)) for one in plan.prerequisites)))
    for step in plan.steps:
        parts += _plan_step(step)
    check = tuple(
        (name, shown(text))
        for name, text in (("check", plan.check.command), ("so that", plan.check.criteria))
        if text
    )
    parts += [Facts(check)] if check else []
    for one in plan.alternatives:
        when = f" ({shown(one.when)})" if one.when else ""
        parts.append(Facts((("or", f"{shown(one.approach)}{when}"),)))
    return parts


def _plan_step(step: PlanStep) -> list[Part]:
    tool = f" [{step.tool}]" if step.tool else ""
    rows = [(str(step.number), shown(step.description + tool))]
    rows += [("expected", shown(step.expected))] if step.expected else []
    rows += [("if not", shown(step.fallback))] if step.fallback else []
    return [Facts(tuple(rows))]


def step_section(item: StepItem) -> Section:
    """A step of a plan, and how it was checked."""
    parts: list[Part] = []
    for number, one in enumerate(item.verdicts):
        rows = [("expected", shown(one.expected))] if one.expected else []
        rows.append(("actual", ("✓ " if one.met else "✗ ") + (shown(one.actual) or "as expected" * one.met)))
        rows += [("command", visible(one.command))] if one.command else []
        parts.append(Facts(tuple(rows)))
        for other in item.recoveries:
            if other.after == number + 1:
                told = (other.error_class.replace("_", " "), other.cause, other.strategy)
                words = " · ".join(filter(None, told))
                parts.append(Facts((("instead" if other.by == "fallback" else "new plan", shown(words)),)))
    if item.text.strip() and item.outcome != "done":  # what a done step says is the last reply
        parts.append(Prose(shown(item.text)))
    number_of = f"Step {item.step.number}" + (f" of {item.of}" if item.of else "")
    said = one_line(item.step.description, 500)
    title = ": ".join(filter(None, [number_of, said])) if item.step.number else said or "Check"
    note = noted("" if item.outcome == "done" else item.outcome, duration(item.ms))
    return Section("step", title, note=note, tone=STEP_TONES[item.outcome], parts=tuple(parts))


def summary_section(item: RequestItem, offer: Offer) -> Section:
    """A summary of the work, as it was taken or as it was offered."""
    tone, words = OUTCOMES[offer.outcome]
    by = "" if offer.by == "model" else "made by the program"
    return Section(
        "summary",
        "Summary",
        note=noted(words, by),
        tone=tone,
        parts=tuple(_summary_parts(offer.taken or offer.summary)),
    )


def _summary_parts(summary: Summary) -> Iterator[Part]:
    rows = [
        (name, shown(text))
        for name, text in (
            ("action", summary.action),
            ("details", summary.details),
            ("result", summary.result),
            ("tools", ", ".join(summary.tools)),
            ("goal", summary.goal),
            ("status", summary.status),
        )
        if text
    ]
    for one in summary.criteria:
        notes = f" ({one.notes})" if one.notes else ""
        rows.append(("criterion", shown(f"{'✓' if one.completed else '○'} {one.description}{notes}")))
    for name, decisions in (("decided", summary.decisions_made), ("rejected", summary.decisions_rejected)):
        for note in decisions:
            others = f" (instead of {', '.join(note.alternatives)})" if note.alternatives else ""
            why = f" — {note.rationale}" if note.rationale else ""
            rows.append((name, shown(note.title + why + others)))
    yield Facts(tuple(rows))
