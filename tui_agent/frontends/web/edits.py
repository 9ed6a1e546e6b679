"""Convert what a user edited in the browser to the exact content of an answer.

The browser sees less than the request contains: secrets are masked and long texts are cut. Each text that it returns is
compared with the proposed one, to restore what it did not see; what it never shows is taken from the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from tui_agent import events as e
from tui_agent.common.domain import Diff, EditAction, Hunk
from tui_agent.common.hunks import HunkChoice, count_changes, new_side_text, with_edits
from tui_agent.common.workplan import DecisionNote, InstructionPlan, PlanStep, Summary
from tui_agent.text import SecretMask, clean, displayable, reveal
from tui_agent.text.masking import restore_secrets
from tui_agent.view.redactor import Redactor

TEXT_MAX = 60_000
"""Characters of a long text that a page shows."""
LINE_INPUT_MAX = 4_000
"""Characters of a single-line field."""
TEXT_INPUT_MAX = TEXT_MAX + 4_000
"""Characters of a multi-line field: all that a page shows of one, and additions."""
HUNK_INPUT_MAX = 200_000
"""Characters of a hunk's text."""
MAX_ROWS = 200
"""Steps, criteria or decisions."""
MAX_HUNKS = 20_000

T = TypeVar("T")
Index = Annotated[int, msgspec.Meta(ge=0, lt=MAX_HUNKS)]


class EditValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The values of a form."""


class DecisionEdit(EditValues, frozen=True):
    """A decision of an edited summary."""

    title: str
    rationale: str = ""
    rejected: bool = False
    origin: Index | None = None
    """Its index among the decisions made, then rejected; None for a new one."""


class SummaryEdit(EditValues, frozen=True):
    """An edited summary (W9)."""

    action: str
    details: str
    result: str
    ticks: Annotated[list[bool], msgspec.Meta(max_length=MAX_ROWS)]
    """Whether each criterion is met."""
    decisions: Annotated[list[DecisionEdit], msgspec.Meta(max_length=MAX_ROWS)]


class StepEdit(EditValues, frozen=True):
    """A step of an edited plan."""

    description: str
    expected: str = ""
    fallback: str = ""
    removed: bool = False
    origin: Index | None = None
    """Its index in the proposed plan; None for a new step."""


class PlanEdit(EditValues, frozen=True):
    """An edited plan (W5)."""

    steps: Annotated[list[StepEdit], msgspec.Meta(max_length=MAX_ROWS)]
    check: str
    """The check command of the whole plan; "" for none."""


class AnswerEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The selection or change that comes with an approval; which fields apply depends on the request."""

    alternative: Index | None = None
    """Index of the alternative to use instead of the plan."""
    take: Literal["ours", "theirs", "both"] | None = None
    """How a plan document conflict is resolved."""
    hunks: Annotated[list[Index], msgspec.Meta(max_length=MAX_HUNKS)] | None = None
    """Indexes of the approved hunks."""
    edits: dict[str, str] | None = None
    """Index of a hunk → its edited text (`hunks.HunkChoice`)."""
    summary: SummaryEdit | None = None
    plan: PlanEdit | None = None


EditableRequest = e.ApprovalRequested | e.SummaryProposed | e.PlanProposed | e.PlanDocConflict


def answer_data(request: EditableRequest, edit: AnswerEdit, mask: SecretMask) -> dict[str, Any] | None:
    """Return `Answer.data` for an approval of `request`, which was shown masked; None if nothing was changed.

    Raises ValueError with a sentence for the user if the edit does not fit the request.
    """
    fields = {name for name in edit.__struct_fields__ if getattr(edit, name) is not None}
    match request:
        case e.ApprovalRequested(action=EditAction() as action) if fields and fields <= {"hunks", "edits"}:
            return _hunk_data(action, edit, mask)
        case e.SummaryProposed(summary=proposed) if fields == {"summary"} and edit.summary is not None:
            summary = edit_summary(proposed, edit.summary, mask)
            return None if summary == proposed else {"summary": msgspec.to_builtins(summary)}
        case e.PlanProposed(plan=proposed_plan) if fields == {"plan"} and edit.plan is not None:
            plan = edit_plan(proposed_plan, edit.plan, mask)
            return None if plan == proposed_plan else {"plan": msgspec.to_builtins(plan), "edited": True}
        case e.PlanProposed(plan=plan) if fields == {"alternative"} and edit.alternative is not None:
            if edit.alternative >= len(plan.alternatives):
                raise ValueError("the plan has no such alternative")
            return {"alternative": edit.alternative}
        case e.PlanDocConflict() if fields == {"take"}:
            return {"take": edit.take}
    if fields:
        raise ValueError("the change does not belong to this request")
    return None


def _hunk_data(action: EditAction, edit: AnswerEdit, mask: SecretMask) -> dict[str, Any] | None:
    diff = action.diff
    data: dict[str, Any] = {} if edit.hunks is None else {"hunks": edit.hunks}
    data["edits"] = {str(index): text for index, text in exact_edits(edit.edits or {}, diff, mask).items()}
    choice = HunkChoice.from_answer(data, diff)
    if choice.selects_all(diff):
        return None
    if not action.splittable:
        raise ValueError("this change can only be approved as a whole")
    if not choice.selected:
        raise ValueError("no hunk of this change was selected; reject it instead")
    return choice.to_answer()


# --- summaries and plans --------------------------------------------------------------------


def edit_summary(proposed: Summary, edit: SummaryEdit, mask: SecretMask) -> Summary:
    """Apply an edit. Raises ValueError with a sentence for the user."""
    if len(edit.ticks) != len(proposed.criteria):
        raise ValueError("the criteria don't match the summary")
    originals = (*proposed.decisions_made, *proposed.decisions_rejected)
    made: list[DecisionNote] = []
    rejected: list[DecisionNote] = []
    for number, decision in enumerate(edit.decisions, start=1):
        note = _original(originals, decision.origin, DecisionNote(title=""))
        title = _exact_line(f"Decision {number}", decision.title, note.title, mask)
        if not title:
            raise ValueError("a decision needs a title")
        rationale = _exact_line(f"Reason of decision {number}", decision.rationale, note.rationale, mask)
        (rejected if decision.rejected else made).append(replace(note, title=title, rationale=rationale))
    if not (action := _exact_line("Action", edit.action, proposed.action, mask)):
        raise ValueError("the summary must say what was done")
    criteria = zip(proposed.criteria, edit.ticks, strict=True)
    return replace(
        proposed,
        action=action,
        details=_exact_text("Details", edit.details, proposed.details, mask, TEXT_INPUT_MAX),
        result=_exact_line("Result", edit.result, proposed.result, mask),
        criteria=tuple(replace(criterion, completed=tick) for criterion, tick in criteria),
        decisions_made=tuple(made),
        decisions_rejected=tuple(rejected),
    )


def edit_plan(proposed: InstructionPlan, edit: PlanEdit, mask: SecretMask) -> InstructionPlan:
    """Apply an edit and renumber the steps. Raises ValueError with a sentence for the user."""
    steps: list[PlanStep] = []
    for number, values in enumerate((step for step in edit.steps if not step.removed), start=1):
        step = _original(proposed.steps, values.origin, PlanStep(number=0, description=""))
        description = _exact_line(f"Step {number}", values.description, step.description, mask)
        if not description:
            raise ValueError("a step needs a description")
        expected = _exact_line(f"Expected of step {number}", values.expected, step.expected, mask)
        fallback = _exact_line(f"If it fails of step {number}", values.fallback, step.fallback, mask)
        steps.append(replace(step, number=number, description=description, expected=expected, fallback=fallback))
    if not steps:
        raise ValueError("a plan needs at least one step")
    command = _exact_line("Check", edit.check, proposed.check.command, mask)
    return replace(proposed, steps=tuple(steps), check=replace(proposed.check, command=command))


def _original(originals: Sequence[T], origin: int | None, new: T) -> T:
    if origin is not None and origin >= len(originals):
        raise ValueError("the changes don't match what was proposed")
    return new if origin is None else originals[origin]


def _exact_line(label: str, typed: str, proposed: str, mask: SecretMask) -> str:
    """The exact text of a single-line field."""
    text = _exact_text(label, typed, proposed, mask, LINE_INPUT_MAX)
    return text if text == proposed else " ".join(text.split())


def _exact_text(label: str, typed: str, proposed: str, mask: SecretMask, limit: int) -> str:
    """The exact text of a field: the proposed one unless it was changed."""
    if typed == bounded_text(mask.mask(proposed)):
        return proposed
    if len(typed) > limit:
        raise ValueError(f"“{label}” has {len(typed):,} characters; shorten it to {limit:,} at most")
    return clean(restore_hidden_text(typed, proposed, mask)).strip()


# --- hunks ----------------------------------------------------------------------------------


def hunk_text(action: EditAction, index: int, mask: SecretMask, *, exact: bool) -> str:
    """The new text of a hunk for editing, masked unless `exact`.

    Raises ValueError with a sentence for the user if it can't be edited in the page.
    """
    if not action.splittable:
        raise ValueError("this change can only be approved as a whole")
    if not 0 <= index < len(action.diff.hunks):
        raise ValueError("the change has no such part")
    text = new_side_text(action.diff.hunks[index])
    if len(text) > HUNK_INPUT_MAX:
        raise ValueError(f"this hunk has {len(text):,} characters; up to {HUNK_INPUT_MAX:,} can be edited here")
    if clean(text) != text or reveal(text, start=False) != text:
        raise ValueError("this hunk contains characters that can't be edited here; approve or skip it as a whole")
    if exact:
        return text
    masked = mask.mask(text)
    try:
        is_reversible = restore_secrets(masked, text, mask) == text
    except ValueError:
        is_reversible = False
    if not is_reversible:
        raise ValueError("hidden secrets in this hunk would be lost; choose “Show hidden secrets” first")
    return masked


def exact_edits(typed: Mapping[str, str], diff: Diff, mask: SecretMask) -> dict[int, str]:
    """Return index → exact text of each hunk that was really changed, with secrets in place of their marks.

    Raises ValueError with a sentence for the user.
    """
    changed: dict[int, str] = {}
    for key, text in typed.items():
        index = int(key) if key.isascii() and key.isdigit() and len(key) < 9 else len(diff.hunks)
        if index >= len(diff.hunks):
            raise ValueError("the change has no such part")
        if len(text) > HUNK_INPUT_MAX:
            raise ValueError(f"hunk {index + 1} has {len(text):,} characters; up to {HUNK_INPUT_MAX:,} fit; shorten it")
        proposed = new_side_text(diff.hunks[index])
        exact = restore_secrets(clean(text), proposed, mask)
        if exact != proposed:
            changed[index] = exact
    return changed


def diff_with_edits(action: EditAction, typed: Mapping[str, str], mask: SecretMask, *, exact: bool) -> Diff:
    """The diff with edited hunks, masked unless `exact`. Raises ValueError with a sentence for the user."""
    diff = with_edits(action.diff, exact_edits(typed, action.diff, mask))
    line_counts = [count_changes(hunk) for hunk in diff.hunks]
    diff = replace(diff, added=sum(added for added, _ in line_counts), removed=sum(gone for _, gone in line_counts))
    return diff if exact else with_exact_signs(replace(diff, hunks=Redactor(mask).redact(diff.hunks)), diff)


def with_exact_signs(masked: Diff, exact: Diff) -> Diff:
    """`masked` with the +/- signs of `exact`, which masking a multi-line secret may have removed."""
    if masked.hunks == exact.hunks:
        return masked
    return replace(masked, hunks=tuple(map(_with_signs, masked.hunks, exact.hunks)))


def _with_signs(masked: Hunk, exact: Hunk) -> Hunk:
    pairs = zip(masked.lines, exact.lines, strict=True)
    return replace(masked, lines=tuple(line if line[:1] == real[:1] else real[:1] + line for line, real in pairs))


# --- hidden text ----------------------------------------------------------------------------


def bounded_text(text: str) -> str:
    """`text` cut to the length that a page shows, with invisible characters made visible."""
    return displayable(text[:TEXT_MAX] + _cut_notice(text) if len(text) > TEXT_MAX else text)


def _cut_notice(text: str) -> str:
    return f"\n… {len(text) - TEXT_MAX:,} more characters"


def restore_hidden_text(typed: str, proposed: str, mask: SecretMask) -> str:
    """Replace the marks left in `typed` with the text they stand for in `proposed`: secrets (A7), and the cut end.

    Raises ValueError with a sentence for the user if that is ambiguous.
    """
    masked = mask.mask(proposed)
    if len(masked) > TEXT_MAX:
        notice = _cut_notice(masked)
        typed = typed.replace(notice if notice in typed else notice.lstrip(), masked[TEXT_MAX:], 1)
    return restore_secrets(typed, proposed, mask)
