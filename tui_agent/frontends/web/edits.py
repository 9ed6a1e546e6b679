"""What was changed in a browser before it was approved, laid over exactly what was offered.

A browser sees less than there is: secrets are hidden, long texts are cut. So it tells only what was touched, by places;
everything else stays as it was offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from tui_agent import events as e
from tui_agent.common.domain import Diff, EditAction, Hunk
from tui_agent.common.hunks import HunkChoice, counts, new_text, with_edits
from tui_agent.common.workplan import DecisionNote, InstructionPlan, PlanStep, Summary
from tui_agent.text import Mask, clean, reveal
from tui_agent.view.redactor import Redactor

TEXT_MAX = 60_000
"""Characters of one long text in a record; a page shows no more."""
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


class EditPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of what was changed. What is None stays as it was offered."""


class DecisionEdit(EditPart, frozen=True, forbid_unknown_fields=True):
    """A decision as it shall be remembered."""

    origin: Place | None = None
    """Its place among those offered, the rejected ones behind those made; None for a new one."""
    rejected: bool = False
    title: str | None = None
    rationale: str | None = None


class SummaryEdit(EditPart, frozen=True, forbid_unknown_fields=True):
    """What of a summary was changed (W9)."""

    action: str | None = None
    details: str | None = None
    result: str | None = None
    ticks: Annotated[list[bool], msgspec.Meta(max_length=MANY)] | None = None
    """Of each criterion, in their order."""
    decisions: Annotated[list[DecisionEdit], msgspec.Meta(max_length=MANY)] | None = None
    """All that shall be there."""


class StepEdit(EditPart, frozen=True, forbid_unknown_fields=True):
    """A step as it shall be carried out."""

    origin: Place | None = None
    """Its place in the plan as it was offered; None for a new one."""
    description: str | None = None
    expected: str | None = None
    fallback: str | None = None


class PlanEdit(EditPart, frozen=True, forbid_unknown_fields=True):
    """What of a plan was changed (W5)."""

    steps: Annotated[list[StepEdit], msgspec.Meta(min_length=1, max_length=MANY)]
    """All that shall be carried out, in their order."""
    check: str | None = None
    """The command that checks the whole; empty for none."""


class AnswerChange(EditPart, frozen=True, forbid_unknown_fields=True):
    """What comes with an approval; one of these."""

    alternative: Place | None = None
    """Another way instead of the plan."""
    take: Literal["ours", "theirs", "both"] | None = None
    """Which of two edits of the plan document holds."""
    hunks: Annotated[list[Place], msgspec.Meta(max_length=HUNKS)] | None = None
    """The parts of a change of a file that are taken."""
    edits: dict[str, str] | None = None
    """By the place of a part, the text that it shall have (`hunks.HunkChoice`)."""
    summary: SummaryEdit | None = None
    plan: PlanEdit | None = None


Asked = e.ApprovalRequested | e.SummaryProposed | e.PlanProposed | e.PlanDocConflict


def answer_data(asked: Asked, given: AnswerChange, mask: Mask) -> dict[str, Any] | None:
    """`Answer.data` for what is given with the approval of `asked`, which was shown behind `mask`; None when that takes
    it as it is.

    Raises ValueError with a sentence for what does not fit it.
    """
    named = {name for name in given.__struct_fields__ if getattr(given, name) is not None}
    data: dict[str, Any] | None
    match asked:
        case e.ApprovalRequested(action=EditAction() as action) if named and named <= {"hunks", "edits"}:
            data = _hunk_choice(action, given, mask)
        case e.SummaryProposed(summary=summary) if named == {"summary"} and given.summary is not None:
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
                raise ValueError("the change does not belong to this request")
            data = None
    return data


def _hunk_choice(action: EditAction, given: AnswerChange, mask: Mask) -> dict[str, Any] | None:
    diff: Diff = action.diff
    edits = {} if given.edits is None else typed_edits(given.edits, diff, mask)
    raw = {"hunks": given.hunks, "edits": {str(place): text for place, text in edits.items()}}
    choice = HunkChoice.read({name: one for name, one in raw.items() if one is not None}, diff)
    if choice.whole(diff):
        return None
    if not action.parts:
        raise ValueError("this change can only be approved as a whole")
    if not choice.taken:
        raise ValueError("no part of this change was selected; reject it instead")
    return choice.data()


def summary_with(offered: Summary, edit: SummaryEdit, mask: Mask) -> Summary:
    """The summary as it was edited. Raises ValueError with a sentence."""
    criteria = offered.criteria
    if edit.ticks is not None:
        if len(edit.ticks) != len(criteria):
            raise ValueError("the criteria don't match the summary")
        criteria = tuple(replace(one, completed=tick) for one, tick in zip(criteria, edit.ticks, strict=True))
    made, rejected = offered.decisions_made, offered.decisions_rejected
    if edit.decisions is not None:
        known = (*made, *rejected)
        _check_origins(edit.decisions, len(known))
        rows = enumerate(edit.decisions, start=1)
        notes = [(one.rejected, _decision(known, one, mask, number)) for number, one in rows]
        made = tuple(note for no, note in notes if not no)
        rejected = tuple(note for no, note in notes if no)
    touched = _changed_fields(edit, ("action", "details", "result"), offered, mask)
    if not touched.get("action", "it stays"):
        raise ValueError("the summary must say what was done")
    return replace(offered, **touched, criteria=criteria, decisions_made=made, decisions_rejected=rejected)


def _decision(known: tuple[DecisionNote, ...], edit: DecisionEdit, mask: Mask, number: int) -> DecisionNote:
    note = DecisionNote(title="") if edit.origin is None else known[edit.origin]
    note = replace(note, **_changed_fields(edit, ("title", "rationale"), note, mask, number))
    if not note.title:
        raise ValueError("a decision needs a title")
    return note


def plan_with(offered: InstructionPlan, edit: PlanEdit, mask: Mask) -> InstructionPlan:
    """The plan as it was edited, its steps numbered in their order. Raises ValueError with a sentence."""
    _check_origins(edit.steps, len(offered.steps))
    steps: list[PlanStep] = []
    for number, one in enumerate(edit.steps, start=1):
        step = PlanStep(number=0, description="") if one.origin is None else offered.steps[one.origin]
        touched = _changed_fields(one, ("description", "expected", "fallback"), step, mask, number)
        step = replace(step, number=number, **touched)
        if not step.description:
            raise ValueError("a step needs a description")
        steps.append(step)
    check = offered.check
    if edit.check is not None:
        _check_length("Check", edit.check, LINE)
        check = replace(check, command=_one_line(with_hidden_text(edit.check, check.command, mask)))
    return replace(offered, steps=tuple(steps), check=check)


def _changed_fields(
    edit: EditPart, names: tuple[str, ...], offered: msgspec.Struct, mask: Mask, row: int = 0
) -> dict[str, str]:
    typed = {name: getattr(edit, name) for name in names if getattr(edit, name) is not None}
    for name, text in typed.items():
        _check_length(LABELS.get(name, name.capitalize()).format(row), text, TEXT if name == "details" else LINE)
    whole = {name: with_hidden_text(text, getattr(offered, name), mask) for name, text in typed.items()}
    return {name: clean(text).strip() if name == "details" else _one_line(text) for name, text in whole.items()}


def _check_length(label: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise ValueError(f"“{label}” has {len(text):,} characters; shorten it to {limit:,} at most")


def _check_origins(edits: Iterable[DecisionEdit | StepEdit], count: int) -> None:
    places = [one.origin for one in edits if one.origin is not None]
    if len(set(places)) < len(places) or any(place >= count for place in places):
        raise ValueError("the changes don't match what was offered")


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


LONGEST = 200_000
"""Characters of a part that can be typed in a page."""


def part_text(action: EditAction, place: int, mask: Mask, *, exact: bool) -> str:
    """The new side of a part, to be typed in; with the marks of its secrets in their place unless it is `exact`.

    Raises ValueError with a sentence where it can't be changed here.
    """
    if not action.parts:
        raise ValueError("this change can only be approved as a whole")
    if not 0 <= place < len(action.diff.hunks):
        raise ValueError("the change has no such part")
    text = new_text(action.diff.hunks[place])
    if len(text) > LONGEST:
        raise ValueError(f"this part has {len(text):,} characters; up to {LONGEST:,} can be edited here")
    if clean(text) != text or reveal(text) != text:
        raise ValueError("this part contains characters that can't be edited here; approve or skip it as a whole")
    if exact:
        return text
    masked = mask.mask(text)
    try:
        certain = with_secrets(masked, text, mask) == text
    except ValueError:
        certain = False
    if not certain:
        raise ValueError("hidden secrets in this part would be lost; choose “Show hidden secrets” first")
    return masked


def typed_edits(typed: Mapping[str, str], diff: Diff, mask: Mask) -> dict[int, str]:
    """By place, the exact text of each part that is another one than was offered, secrets where their marks were left.

    Raises ValueError with a sentence.
    """
    made: dict[int, str] = {}
    for name, text in typed.items():
        place = int(name) if name.isascii() and name.isdigit() and len(name) < 9 else len(diff.hunks)
        if place >= len(diff.hunks):
            raise ValueError("the change has no such part")
        if len(text) > LONGEST:
            raise ValueError(f"part {place + 1} has {len(text):,} characters; up to {LONGEST:,} fit; shorten it")
        offered = new_text(diff.hunks[place])
        exact = with_secrets(clean(text), offered, mask)
        if exact != offered:
            made[place] = exact
    return made


def diff_with_edits(action: EditAction, typed: Mapping[str, str], mask: Mask, *, exact: bool) -> Diff:
    """The change as it would be with what was typed; without its secrets unless it is `exact`.

    Raises ValueError with a sentence.
    """
    diff = with_edits(action.diff, typed_edits(typed, action.diff, mask))
    marks = [counts(hunk) for hunk in diff.hunks]
    diff = replace(diff, added=sum(one for one, _ in marks), removed=sum(one for _, one in marks))
    return diff if exact else with_exact_signs(replace(diff, hunks=Redactor(mask).any(diff.hunks)), diff)


def with_exact_signs(shown: Diff, exact: Diff) -> Diff:
    """`shown` with the signs of `exact`, which a secret over several lines may have swallowed."""
    if shown.hunks == exact.hunks:
        return shown
    return replace(shown, hunks=tuple(_signed(*pair) for pair in zip(shown.hunks, exact.hunks, strict=True)))


def _signed(shown: Hunk, exact: Hunk) -> Hunk:
    lines = (one if one[:1] == real[:1] else real[:1] + one for one, real in zip(shown.lines, exact.lines, strict=True))
    return replace(shown, lines=tuple(lines))


_MARK = re.compile(r"⟨secret[^⟩\n]*⟩")


def bounded_text(text: str) -> str:
    """No longer than a page shows, and without what nobody would see."""
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + _more(text)
    return reveal(text)


def left_out_count(text: str) -> int:
    """How many characters of it `bounded` does not show."""
    return max(0, len(text) - TEXT_MAX)


def _more(text: str) -> str:
    return f"\n… {left_out_count(text):,} more characters"


def with_hidden_text(typed: str, offered: str, mask: Mask) -> str:
    """`typed`, which was made of what a page shows of `offered`, with what stands behind the marks that are left in it:
    the rest of a long text, and secrets (A7). Raises ValueError with a sentence where that can't be told.
    """
    masked = mask.mask(offered)
    if len(masked) > TEXT_MAX:
        more = _more(masked)
        place = more if more in typed else more.lstrip()
        typed = typed.replace(place, masked[TEXT_MAX:], 1)
    return typed if masked == offered else _with_secrets(typed, offered, masked)


def with_secrets(typed: str, offered: str, mask: Mask) -> str:
    """`with_hidden_text` for a text that a page shows from end to end, with its secrets or without them."""
    masked = mask.mask(offered)
    return typed if masked == offered or not _MARK.search(typed) else _with_secrets(typed, offered, masked)


def _with_secrets(typed: str, offered: str, masked: str) -> str:
    behind = _hidden_secrets(masked, offered)
    places = dict.fromkeys(behind, 0)

    def secret(found: re.Match[str]) -> str:
        mark = found[0]
        if mark not in behind:
            return mark
        at, several = places[mark], behind[mark]
        places[mark] += 1
        if len(set(several)) == 1:
            return several[0]
        if typed.count(mark) != len(several):
            raise ValueError("it is unclear which of the hidden secrets to keep; keep all or none")
        return several[at]

    return _MARK.sub(secret, typed)


def _hidden_secrets(masked: str, offered: str) -> dict[str, list[str]]:
    """Each mark with what stands behind it, in the order of the text."""
    marks, between = _MARK.findall(masked), _MARK.split(masked)
    found: dict[str, list[str]] = {}
    at = len(between[0])
    for number, (mark, then) in enumerate(zip(marks, between[1:], strict=True), start=1):
        last = number == len(marks)
        end = len(offered) - len(then) if last else offered.find(then, at)
        if not then and not last:
            end = -1  # where one ends and the next begins is not known
        if end < at:
            raise ValueError("a text with these secrets can't be edited here")
        found.setdefault(mark, []).append(offered[at:end])
        at = end + len(then)
    return found
