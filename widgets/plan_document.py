"""The plan document as the panel uses it: its values, what is proposed, and edits of single values (P6)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan
    from tui_agent.plan.markdown import Document

Value: TypeAlias = "Criterion | Decision | LogEntry"
Mark: TypeAlias = Literal["", "added", "changed", "removed"]
ListName: TypeAlias = Literal["acceptance_criteria", "decisions_made", "decisions_rejected", "execution_log"]
LISTS: tuple[ListName, ...] = ("acceptance_criteria", "decisions_made", "decisions_rejected", "execution_log")


class ListedValue(NamedTuple):
    """One value of a list."""

    value: Value
    at: int
    """Place in the saved list; -1 for one that is only proposed."""
    mark: Mark = ""


class OwnSection(NamedTuple):
    """A section of the reader's own."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanReading:
    """A plan document, read for the panel."""

    saved: Plan
    plan: Plan
    """With what is proposed in it."""
    lists: dict[ListName, tuple[ListedValue, ...]]
    own: tuple[OwnSection, ...] = ()
    problem: str = ""
    """Why the text is not taken for a plan; empty when it is one."""
    proposed: int = 0
    """How many values the proposal would change."""

    @property
    def empty(self) -> bool:
        """True while nothing is in it."""
        said = (self.plan.goal, self.own, *self.lists.values())
        return not any(said) and self.plan.status == "planning"


def read_plan(text: str, proposal: str | None = None, ground: str = "") -> PlanReading:
    """Read `text`, and in it what of `proposal` differs from `ground`. Costs milliseconds for every 10 kB."""
    from tui_agent.plan.markdown import parse

    document = parse(text)
    saved = plan = document.plan
    if proposal is not None and proposal != text:
        from tui_agent.plan.merge import merge_plans

        ours = parse(proposal).plan
        base = saved if ground == text else parse(ground).plan
        plan = merge_plans(base, ours, saved).plan if base != saved else ours
    return plan_reading(saved, plan, _own_sections(document), document.problem)


def plan_reading(saved: Plan, plan: Plan, own: tuple[OwnSection, ...] = (), problem: str = "") -> PlanReading:
    """The panel's view of a plan and of what is proposed to become of it."""
    lists = {name: _listed_values(getattr(saved, name), getattr(plan, name)) for name in LISTS}
    proposed = sum(bool(listed.mark) for some in lists.values() for listed in some)
    proposed += (saved.goal != plan.goal) + (saved.status != plan.status)
    return PlanReading(saved, plan, lists, own, problem, proposed)


def _listed_values(saved: tuple[Value, ...], wanted: tuple[Value, ...]) -> tuple[ListedValue, ...]:
    if saved == wanted:
        return tuple(ListedValue(value, at) for at, value in enumerate(saved))
    from tui_agent.plan.merge import align

    pairs = align(saved, wanted)  # type: ignore[type-var]  # all values of one list are of one kind
    partner = {there: here for here, there in pairs.items()}
    result: list[ListedValue] = []
    told = 0
    nexts = sorted(partner)
    for there, value in enumerate(wanted):
        here = partner.get(there, -1)
        following = bisect_left(nexts, there)
        until = partner[nexts[following]] if following < len(nexts) else len(saved)
        result += [ListedValue(saved[at], at, "removed") for at in range(told, until)]
        told = max(told, until)
        if here < 0:
            result.append(ListedValue(value, -1, "added"))
            continue
        told = here + 1
        result.append(ListedValue(value, here, "" if saved[here] == value else "changed"))
    return (*result, *(ListedValue(saved[at], at, "removed") for at in range(told, len(saved))))


def _own_sections(document: Document) -> tuple[OwnSection, ...]:
    found = []
    for section in document.sections:
        if not section.name:
            title = document.lines[section.head].lstrip(" #").strip()
            body = "\n".join(document.lines[section.head + 1 : section.end]).strip("\n")
            found.append(OwnSection(title, tuple(body.split("\n")) if body else ()))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ListEdit:
    """`old` becomes `new`. Without `old` it is added at `at`, without `new` removed."""

    section: ListName
    at: int
    """Place in the list."""
    old: Value | None
    new: Value | None


@dataclass(frozen=True, slots=True)
class WordEdit:
    """Goal or status."""

    section: Literal["goal", "status"]
    old: str
    new: str


Edit: TypeAlias = ListEdit | WordEdit


def inverse_edit(edit: Edit) -> Edit:
    """What undoes it."""
    if isinstance(edit, WordEdit):
        return WordEdit(edit.section, edit.new, edit.old)
    return ListEdit(edit.section, edit.at, edit.new, edit.old)


def apply_edit(plan: Plan, edit: Edit) -> Plan | None:
    """The plan after the edit; None when what was to be edited is not there any more.

    Of a value that others changed meanwhile only the fields change that the edit changes.
    """
    if isinstance(edit, WordEdit):
        if getattr(plan, edit.section) != edit.old:
            return None
        new: Any = type(plan.status)(edit.new) if edit.section == "status" else edit.new
        return msgspec.structs.replace(plan, **{edit.section: new})
    values: list[Any] = list(getattr(plan, edit.section))
    if edit.old is None:
        values.insert(min(edit.at, len(values)) if edit.at >= 0 else len(values), edit.new)
    else:
        at = _find_value(values, edit)
        if at is None:
            return None
        values[at : at + 1] = [] if edit.new is None else [_merge_fields(values[at], edit.old, edit.new)]
    return msgspec.structs.replace(plan, **{edit.section: tuple(values)})


def _find_value(values: list[Any], edit: ListEdit) -> int | None:
    from tui_agent.plan.merge import label

    if 0 <= edit.at < len(values) and values[edit.at] == edit.old:
        return edit.at
    if edit.old in values:
        return values.index(edit.old)
    if edit.new is None:
        return None  # never remove what is another thing by now
    name = label(edit.old) if edit.old is not None else ""
    return next((at for at, value in enumerate(values) if label(value) == name), None)


def _merge_fields(now: Value, old: Value, new: Value) -> Value:
    names = [name for name in new.__struct_fields__ if getattr(new, name) != getattr(old, name)]
    return msgspec.structs.replace(now, **{name: getattr(new, name) for name in names})


FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "criterion": (("description", "criterion"), ("notes", "note")),
    "decision": (("title", "decision"), ("rationale", "reason")),
    "entry": (("action", "action"), ("details", "details"), ("result", "result")),
    "old": (("action", "action"), ("details", "details"), ("result", "result")),
    "goal": (("goal", "goal"),),
}
"""Kind of row → fields that can be edited, with their names for the user. The first one is never empty."""


class EditDraft(msgspec.Struct):
    """An edit in progress. It lives in the panel alone, whatever happens on the screen."""

    kind: str
    section: ListName | None
    at: int
    old: Any
    """The value; None while something is added."""
    texts: dict[str, str] = {}
    before: dict[str, str] = {}
    number: int = 0
    """Which field is shown."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Those of its kind."""
        return FIELDS[self.kind]

    @property
    def following(self) -> int:
        """The field that Tab goes to."""
        return (self.number + 1) % len(self.fields)

    @property
    def shown(self) -> str:
        """Name of the field that is shown."""
        return self.fields[self.number][0]

    def edit(self) -> Edit | None:
        """What it comes to; None when nothing was changed."""
        changed = {name: text for name, text in self.texts.items() if text != self.before[name].strip()}
        if not changed:
            return None
        if self.section is None:
            return WordEdit("goal", self.before["goal"], changed["goal"])
        if self.old is not None:
            return ListEdit(self.section, self.at, self.old, msgspec.structs.replace(self.old, **changed))
        from tui_agent.plan.document import Criterion

        added = Criterion(description=changed["description"], notes=changed.get("notes", ""))
        return ListEdit(self.section, self.at, None, added)

    def data(self) -> dict[str, Any]:
        """As plain data, to be kept."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def restore_draft(data: dict[str, Any]) -> EditDraft | None:
    """The edit that was kept as `data`; None when that is none of ours."""
    from tui_agent.plan.document import Criterion, Decision, LogEntry

    kinds = dict(zip(LISTS, (Criterion, Decision, Decision, LogEntry), strict=True))
    try:
        draft = msgspec.convert(data, EditDraft)
        names = {name for name, _words in draft.fields}
        if draft.old is not None and draft.section is not None:
            draft.old = msgspec.convert(draft.old, kinds[draft.section])
    except (KeyError, msgspec.ValidationError):
        return None
    whole = names == set(draft.texts) == set(draft.before) and 0 <= draft.number < len(names)
    return draft if whole and (draft.section is not None or draft.kind == "goal") else None
