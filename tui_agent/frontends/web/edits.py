"""What was changed in a browser before it was approved, laid over exactly what was offered.

A browser sees less than there is: secrets are hidden, long texts are cut. So it tells only what was touched, by places;
everything else stays as it was offered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from tui_agent import events as e
from tui_agent.domain import Diff, Editing
from tui_agent.frontends.web.covered import TEXT_MAX, restored
from tui_agent.frontends.web.parts import typed_parts
from tui_agent.hunks import Choice
from tui_agent.text import Mask, clean
from tui_agent.workplan import DecisionNote, InstructionPlan, PlanStep, Summary

LINE = 4_000
"""Characters that can be typed in a field of one line. They are counted here: it is said which one has too many."""
TEXT = TEXT_MAX + 4_000
"""Characters that can be typed in a field of several: all that a page shows of one, and what is added."""
LABELS = {
    "title": "Decision {}",
    "rationale": "Reason of decision {}",
    "description": "Step {}",
    "expected": "Expected of step {}",
    "fallback": "If it fails of step {}",
}
"""What the fields are called in the page, by the number of the row; the others after themselves."""
MANY = 200
"""Steps, criteria or decisions."""
HUNKS = 20_000
"""Parts of a diff."""

Place = Annotated[int, msgspec.Meta(ge=0, lt=HUNKS)]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of what was changed. What is None stays as it was offered."""


class DecisionEdit(Part, frozen=True, forbid_unknown_fields=True):
    """A decision as it shall be remembered."""

    origin: Place | None = None
    """Its place among those offered, the rejected ones behind those made; None for a new one."""
    rejected: bool = False
    title: str | None = None
    rationale: str | None = None


class SummaryEdit(Part, frozen=True, forbid_unknown_fields=True):
    """What of a summary was changed (W9)."""

    action: str | None = None
    details: str | None = None
    result: str | None = None
    ticks: Annotated[list[bool], msgspec.Meta(max_length=MANY)] | None = None
    """Of each criterion, in their order."""
    decisions: Annotated[list[DecisionEdit], msgspec.Meta(max_length=MANY)] | None = None
    """All that shall be there."""


class StepEdit(Part, frozen=True, forbid_unknown_fields=True):
    """A step as it shall be carried out."""

    origin: Place | None = None
    """Its place in the plan as it was offered; None for a new one."""
    description: str | None = None
    expected: str | None = None
    fallback: str | None = None


class PlanEdit(Part, frozen=True, forbid_unknown_fields=True):
    """What of a plan was changed (W5)."""

    steps: Annotated[list[StepEdit], msgspec.Meta(min_length=1, max_length=MANY)]
    """All that shall be carried out, in their order."""
    check: str | None = None
    """The command that checks the whole; empty for none."""


class Given(Part, frozen=True, forbid_unknown_fields=True):
    """What comes with an approval; one of these."""

    alternative: Place | None = None
    """Another way instead of the plan."""
    take: Literal["ours", "theirs", "both"] | None = None
    """Which of two edits of the plan document holds."""
    hunks: Annotated[list[Place], msgspec.Meta(max_length=HUNKS)] | None = None
    """The parts of a change of a file that are taken."""
    edits: dict[str, str] | None = None
    """By the place of a part, the text that it shall have (`hunks.Choice`)."""
    summary: SummaryEdit | None = None
    plan: PlanEdit | None = None


Asked = e.ApprovalAsked | e.SummaryOffered | e.PlanProposed | e.PlanDocConflict


def answered(asked: Asked, given: Given, mask: Mask) -> dict[str, Any] | None:
    """`Answer.data` for what is given with the approval of `asked`, which was shown behind `mask`; None when that takes
    it as it is.

    Raises ValueError with a sentence for what does not fit it.
    """
    named = {name for name in given.__struct_fields__ if getattr(given, name) is not None}
    data: dict[str, Any] | None
    match asked:
        case e.ApprovalAsked(action=Editing() as action) if named and named <= {"hunks", "edits"}:
            data = _parts(action, given, mask)
        case e.SummaryOffered(summary=summary) if named == {"summary"} and given.summary is not None:
            edited = summary_with(summary, given.summary, mask)
            data = None if edited == summary else {"summary": msgspec.to_builtins(edited)}
        case e.PlanProposed(plan=plan) if named == {"plan"} and given.plan is not None:
            made = plan_with(plan, given.plan, mask)
            data = None if made == plan else {"plan": msgspec.to_builtins(made), "edited": True}
        case e.PlanProposed(plan=plan) if named == {"alternative"} and given.alternative is not None:
            if given.alternative >= len(plan.alternatives):
                raise ValueError("the plan has no such alternative")
            data = {"alternative": given.alternative}
        case e.PlanDocConflict() if named == {"take"}:
            data = {"take": given.take}
        case _:
            if named:
                raise ValueError("what was changed does not belong to what is asked")
            data = None
    return data


def _parts(action: Editing, given: Given, mask: Mask) -> dict[str, Any] | None:
    diff: Diff = action.diff
    edits = {} if given.edits is None else typed_parts(given.edits, diff, mask)
    raw = {"hunks": given.hunks, "edits": {str(place): text for place, text in edits.items()}}
    choice = Choice.read({name: one for name, one in raw.items() if one is not None}, diff)
    if choice.whole(diff):
        return None
    if not action.parts:
        raise ValueError("this change can only be taken as a whole")
    if not choice.taken:
        raise ValueError("nothing of this change was chosen; reject it instead")
    return choice.data()


def summary_with(offered: Summary, edit: SummaryEdit, mask: Mask) -> Summary:
    """The summary as it was edited. Raises ValueError with a sentence."""
    criteria = offered.criteria
    if edit.ticks is not None:
        if len(edit.ticks) != len(criteria):
            raise ValueError("a summary has other criteria")
        criteria = tuple(replace(one, completed=tick) for one, tick in zip(criteria, edit.ticks, strict=True))
    made, rejected = offered.decisions_made, offered.decisions_rejected
    if edit.decisions is not None:
        known = (*made, *rejected)
        _once(edit.decisions, len(known))
        rows = enumerate(edit.decisions, start=1)
        notes = [(one.rejected, _decision(known, one, mask, number)) for number, one in rows]
        made = tuple(note for no, note in notes if not no)
        rejected = tuple(note for no, note in notes if no)
    touched = _touched(edit, ("action", "details", "result"), offered, mask)
    if not touched.get("action", "it stays"):
        raise ValueError("a summary says what was done")
    return replace(
        offered,
        **touched,
        criteria=criteria,
        decisions_made=made,
        decisions_rejected=rejected,
    )


def _decision(known: tuple[DecisionNote, ...], edit: DecisionEdit, mask: Mask, number: int) -> DecisionNote:
    note = DecisionNote(title="") if edit.origin is None else known[edit.origin]
    note = replace(note, **_touched(edit, ("title", "rationale"), note, mask, number))
    if not note.title:
        raise ValueError("a decision says what was decided")
    return note


def plan_with(offered: InstructionPlan, edit: PlanEdit, mask: Mask) -> InstructionPlan:
    """The plan as it was edited, its steps numbered in their order. Raises ValueError with a sentence."""
    _once(edit.steps, len(offered.steps))
    steps: list[PlanStep] = []
    for number, one in enumerate(edit.steps, start=1):
        step = PlanStep(number=0, description="") if one.origin is None else offered.steps[one.origin]
        touched = _touched(one, ("description", "expected", "fallback"), step, mask, number)
        step = replace(step, number=number, **touched)
        if not step.description:
            raise ValueError("a step says what to do")
        steps.append(step)
    check = offered.check
    if edit.check is not None:
        _fits("Check", edit.check, LINE)
        check = replace(check, command=_line(restored(edit.check, check.command, mask)))
    return replace(offered, steps=tuple(steps), check=check)


def _touched(
    edit: Part, names: tuple[str, ...], offered: msgspec.Struct, mask: Mask, row: int = 0
) -> dict[str, str]:
    typed = {name: getattr(edit, name) for name in names if getattr(edit, name) is not None}
    for name, text in typed.items():
        _fits(LABELS.get(name, name.capitalize()).format(row), text, TEXT if name == "details" else LINE)
    whole = {name: restored(text, getattr(offered, name), mask) for name, text in typed.items()}
    return {name: clean(text).strip() if name == "details" else _line(text) for name, text in whole.items()}


def _fits(label: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise ValueError(f"“{label}” has {len(text):,} characters; shorten it to {limit:,} at most")


def _once(edits: Iterable[DecisionEdit | StepEdit], count: int) -> None:
    places = [one.origin for one in edits if one.origin is not None]
    if len(set(places)) < len(places) or any(place >= count for place in places):
        raise ValueError("what was changed is not what was offered")


def _line(text: str) -> str:
    return " ".join(clean(text).split())
