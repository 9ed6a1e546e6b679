"""From a run to its summary: the model's reply read kindly, or one made from the facts alone (W9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tui_agent.plan.document import (
    DONE,
    NOT_DONE,
    UNDERWAY,
    Criterion,
    Decision,
    LogEntry,
    Plan,
    PlanStatus,
    minute,
)
from tui_agent.text import one_line
from tui_agent.workplan import CriterionChange, DecisionNote, PlanChange, Summary

_MARKS = (DONE, UNDERWAY, NOT_DONE)


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run without asking a model."""

    request: str
    outcome: str
    closing: str = ""
    """The agent's last words, or why the run ended."""
    tools: tuple[str, ...] = ()
    """Names of the tools that ran, in order, each once."""
    files: tuple[str, ...] = ()
    """Files that changed, as they are shown."""
    steps_done: int = 0
    steps: int = 0
    check_met: bool | None = None

    @property
    def done(self) -> bool:
        """The facts say that the work is done."""
        return self.outcome == "done" and self.check_met is not False


def read_summary(text: str, facts: RunFacts) -> Summary:
    """The summary in a model's reply (seed 000's form, or flat). Raises protocols.repair.Unreadable or ValueError.

    Tools are taken from the facts, since a model may name ones that never ran.
    """
    from tui_agent.engine.plan_reading import find_object  # with the first reply, not with the program

    given = find_object(text, ("log_entry", "acceptance_criteria_updates", "action"))
    entry = given.get("log_entry", given)
    action = _text(entry.get("action")) if isinstance(entry, Mapping) else ""
    if not action:
        raise ValueError("the summary needs `log_entry` with an `action`")
    return Summary(
        action=one_line(action, 200),
        details=_text(entry.get("details")),
        result=_marked(_text(entry.get("result")), facts),
        tools=facts.tools,
        criteria=_by_facts(
            _criteria(given.get("acceptance_criteria_updates") or given.get("criteria")), facts
        ),
        decisions_made=_decisions(given.get("decisions_made")),
        decisions_rejected=_decisions(given.get("decisions_rejected")),
    )


def plain_summary(facts: RunFacts) -> Summary:
    """The deterministic summary that is offered when the model has none (W9)."""
    parts = []
    if facts.steps:
        parts.append(f"{facts.steps_done} of {facts.steps} steps done.")
    if facts.files and not facts.closing.startswith("Changed: "):
        parts.append(f"Changed: {', '.join(facts.files[:20])}.")
    if facts.check_met is not None:
        parts.append("The check passed." if facts.check_met else "The check failed.")
    closing = facts.closing.strip()
    if closing:
        parts.append(closing if len(closing) <= 1_000 else closing[:999] + "…")
    words = "Done" if facts.outcome == "done" else f"Ended early: {facts.outcome}"
    return Summary(
        action=one_line(facts.request, 200),
        details=" ".join(parts),
        result=_marked(words, facts),
        tools=facts.tools,
    )


def applied(plan: Plan, summary: Summary, now: datetime) -> Plan:
    """The plan with what the user accepted: one more log entry, ticks, decisions, status."""
    moment = minute(now)
    entry = LogEntry(
        action=summary.action,
        details=summary.details,
        result=summary.result,
        tools=summary.tools,
        when=moment,
    )
    criteria = _ticked(plan.acceptance_criteria, summary.criteria)
    return msgspec.structs.replace(
        plan,
        goal=summary.goal or plan.goal,
        status=_status(plan, summary, criteria),
        acceptance_criteria=criteria,
        decisions_made=(*plan.decisions_made, *_dated(summary.decisions_made, moment)),
        decisions_rejected=(*plan.decisions_rejected, *_dated(summary.decisions_rejected, moment)),
        execution_log=(*plan.execution_log, entry),
    )


def applied_changes(plan: Plan, change: PlanChange, now: datetime) -> Plan:
    """The plan with what the model proposes: ticks, criteria, decisions; status only where it says so."""
    moment = minute(now)
    return msgspec.structs.replace(
        plan,
        goal=change.goal or plan.goal,
        status=PlanStatus(change.status) if change.status else plan.status,
        acceptance_criteria=_ticked(plan.acceptance_criteria, change.criteria),
        decisions_made=(*plan.decisions_made, *_dated(change.decisions_made, moment)),
        decisions_rejected=(*plan.decisions_rejected, *_dated(change.decisions_rejected, moment)),
    )


def same_criterion(one: str, other: str) -> bool:
    """Whether two wordings mean the same row: case, spaces and a full stop do not count."""
    return _key(one) == _key(other)


def _ticked(criteria: tuple[Criterion, ...], changes: Iterable[CriterionChange]) -> tuple[Criterion, ...]:
    rows = list(criteria)
    for change in changes:
        key = _key(change.description)
        at = next((index for index, row in enumerate(rows) if _key(row.description) == key), None)
        if at is not None:
            notes = change.notes or rows[at].notes
            rows[at] = msgspec.structs.replace(rows[at], completed=change.completed, notes=notes)
        elif change.description.strip():
            new = Criterion(
                description=change.description.strip(), completed=change.completed, notes=change.notes
            )
            rows.append(new)
    return tuple(rows)


def _status(plan: Plan, summary: Summary, criteria: tuple[Criterion, ...]) -> PlanStatus:
    if summary.status in list(PlanStatus):
        return PlanStatus(summary.status)
    if criteria and all(row.completed for row in criteria):
        return PlanStatus.COMPLETED
    return (
        PlanStatus.IN_PROGRESS if plan.status in (PlanStatus.PLANNING, PlanStatus.COMPLETED) else plan.status
    )


def _dated(notes: Iterable[DecisionNote], when: datetime) -> list[Decision]:
    return [
        Decision(title=one.title, rationale=one.rationale, alternatives=one.alternatives, when=when)
        for one in notes
    ]


def _marked(result: str, facts: RunFacts) -> str:
    """A result with its mark: that of the facts, or the model's own where it says less (E2)."""
    said = next((mark for mark in _MARKS if result.startswith(mark)), None)
    words = result.removeprefix(said or "").strip()
    mark = DONE if facts.done else UNDERWAY if facts.outcome in ("limit", "interrupted") else NOT_DONE
    if said is not None and _MARKS.index(said) > _MARKS.index(mark):
        mark = said
    elif said == DONE and mark != DONE:
        words = ""  # they say that it is done
    return f"{mark} {words or ('Done' if mark == DONE else 'Not finished')}"


def _criteria(given: Any) -> tuple[CriterionChange, ...]:
    rows = given if isinstance(given, list) else []
    return tuple(
        CriterionChange(
            description=_text(row.get("description")),
            completed=row.get("completed") is not False,
            notes=_text(row.get("notes")),
        )
        for row in rows[:50]
        if isinstance(row, Mapping) and _text(row.get("description"))
    )


def _by_facts(rows: tuple[CriterionChange, ...], facts: RunFacts) -> tuple[CriterionChange, ...]:
    """Without the ticks of a run that is not done."""
    return rows if facts.done else tuple(row for row in rows if not row.completed)


def _decisions(given: Any) -> tuple[DecisionNote, ...]:
    found = []
    for row in given[:20] if isinstance(given, list) else []:
        if isinstance(row, str) and row.strip():
            found.append(DecisionNote(title=one_line(row, 200)))
        elif isinstance(row, Mapping) and (title := _text(row.get("title") or row.get("decision"))):
            others = row.get("alternatives")
            texts = [_text(one) for one in (others if isinstance(others, list) else [others])]
            note = DecisionNote(
                title=title, rationale=_text(row.get("rationale")), alternatives=tuple(filter(None, texts))
            )
            found.append(note)
    return tuple(found)


def _key(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def _text(given: Any) -> str:
    return given.strip() if isinstance(given, str) else ("" if given is None else str(given))
