"""The plan document for the panel: its content, proposed changes, and edits of single values (P6)."""

from __future__ import annotations

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
    """An item of a list, with its proposed change."""

    value: Value
    position: int
    """Index in the saved list; -1 if only proposed."""
    mark: Mark = ""


class CustomSection(NamedTuple):
    """A section that the user added to the document."""

    title: str
    lines: tuple[str, ...]


class PlanContent(msgspec.Struct, frozen=True):
    """A parsed plan document with the changes proposed for it."""

    saved: Plan
    plan: Plan
    """The saved plan with the proposed changes."""
    lists: dict[ListName, tuple[ListedValue, ...]]
    custom_sections: tuple[CustomSection, ...] = ()
    problem: str = ""
    """Why the text is not a valid plan; empty if it is."""
    change_count: int = 0
    """Number of proposed changes."""

    @property
    def empty(self) -> bool:
        """Whether the document is an empty template."""
        content = (self.plan.goal, self.custom_sections, *self.lists.values())
        return not any(content) and self.plan.status == "planning"


def read_plan(text: str, proposal: str | None = None, proposal_base: str = "") -> PlanContent:
    """Parse `text` and apply the changes from `proposal_base` to `proposal`. Takes milliseconds per 10 kB."""
    from tui_agent.plan.markdown import parse

    document = parse(text)
    saved = plan = document.plan
    if proposal is not None and proposal != text:
        from tui_agent.plan.merge import merge_plans

        plan = parse(proposal).plan
        base = saved if proposal_base == text else parse(proposal_base).plan
        if base != saved:
            plan = merge_plans(base, plan, saved).plan
    return plan_content(saved, plan, _custom_sections(document), document.problem)


def plan_content(
    saved: Plan, plan: Plan, custom_sections: tuple[CustomSection, ...] = (), problem: str = ""
) -> PlanContent:
    """Return the content of the saved plan, with the changes that lead to `plan` marked as proposed."""
    lists = {name: _listed_values(getattr(saved, name), getattr(plan, name)) for name in LISTS}
    change_count = sum(bool(listed.mark) for values in lists.values() for listed in values)
    change_count += (saved.goal != plan.goal) + (saved.status != plan.status)
    return PlanContent(saved, plan, lists, custom_sections, problem, change_count)


def _listed_values(saved: tuple[Value, ...], proposed: tuple[Value, ...]) -> tuple[ListedValue, ...]:
    if saved == proposed:
        return tuple(ListedValue(value, index) for index, value in enumerate(saved))
    from tui_agent.plan.merge import align

    pairs = align(saved, proposed)  # type: ignore[type-var]  # all values of a list have the same type
    result: list[ListedValue] = []
    next_old = next_new = 0
    for old, new in [*sorted(pairs.items()), (len(saved), len(proposed))]:
        result += [ListedValue(saved[index], index, "removed") for index in range(next_old, old)]
        result += [ListedValue(value, -1, "added") for value in proposed[next_new:new]]
        if old < len(saved):
            result.append(ListedValue(proposed[new], old, "" if saved[old] == proposed[new] else "changed"))
        next_old, next_new = old + 1, new + 1
    return tuple(result)


def _custom_sections(document: Document) -> tuple[CustomSection, ...]:
    sections = []
    for section in document.sections:
        if not section.name:
            title = document.lines[section.head].lstrip(" #").strip()
            body = "\n".join(document.lines[section.head + 1 : section.end]).strip("\n")
            sections.append(CustomSection(title, tuple(body.split("\n")) if body else ()))
    return tuple(sections)


def value_name(value: Value) -> str:
    """Return the main text of a value."""
    for field in ("description", "title", "action"):
        if (text := getattr(value, field, None)) is not None:
            return str(text)
    return ""


class ListEdit(msgspec.Struct, frozen=True):
    """Replaces `old` by `new`. Without `old`, adds `new` at `index`; without `new`, removes `old`."""

    section: ListName
    index: int
    old: Value | None
    new: Value | None


class FieldEdit(msgspec.Struct, frozen=True):
    """Changes the goal or the status."""

    section: Literal["goal", "status"]
    old: str
    new: str


Edit: TypeAlias = ListEdit | FieldEdit


def inverse_edit(edit: Edit) -> Edit:
    """Return the edit that undoes `edit`."""
    if isinstance(edit, FieldEdit):
        return FieldEdit(edit.section, edit.new, edit.old)
    return ListEdit(edit.section, edit.index, edit.new, edit.old)


def apply_edit(plan: Plan, edit: Edit) -> Plan | None:
    """Return the edited plan, or None if the edited value does not exist anymore.

    If the value was changed in the meantime, only the fields that differ between `old` and `new` are replaced.
    """
    if isinstance(edit, FieldEdit):
        if getattr(plan, edit.section) != edit.old:
            return None
        new: Any = type(plan.status)(edit.new) if edit.section == "status" else edit.new
        return msgspec.structs.replace(plan, **{edit.section: new})
    values: list[Any] = list(getattr(plan, edit.section))
    if edit.old is None:
        values.insert(min(edit.index, len(values)) if edit.index >= 0 else len(values), edit.new)
    else:
        index = _find_value(values, edit.old, edit)
        if index is None:
            return None
        values[index : index + 1] = [] if edit.new is None else [_merge_fields(values[index], edit.old, edit.new)]
    return msgspec.structs.replace(plan, **{edit.section: tuple(values)})


def _find_value(values: list[Any], old: Value, edit: ListEdit) -> int | None:
    if 0 <= edit.index < len(values) and values[edit.index] == old:
        return edit.index
    if old in values:
        return values.index(old)
    if edit.new is None:
        return None  # a value that was changed in the meantime must not be removed
    name = value_name(old)
    return next((index for index, value in enumerate(values) if value_name(value) == name), None)


def _merge_fields(current: Value, old: Value, new: Value) -> Value:
    names = [name for name in new.__struct_fields__ if getattr(new, name) != getattr(old, name)]
    return msgspec.structs.replace(current, **{name: getattr(new, name) for name in names})


_ENTRY_FIELDS = (("action", "action"), ("details", "details"), ("result", "result"))
FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "criterion": (("description", "criterion"), ("notes", "note")),
    "decision": (("title", "decision"), ("rationale", "reason")),
    "entry": _ENTRY_FIELDS,
    "old": _ENTRY_FIELDS,
    "goal": (("goal", "goal"),),
}
"""Kind of row → editable fields with their labels. The first one must not be empty."""


class EditDraft(msgspec.Struct, rename={"index": "at", "field_index": "number"}):
    """An unfinished edit, shown in the field of the panel. Saved to disk under the encoded names."""

    kind: str
    section: ListName | None
    index: int
    old: Any
    """The edited value; None for a new one."""
    texts: dict[str, str] = {}
    before: dict[str, str] = {}
    """The texts before the edit."""
    field_index: int = 0
    """Index of the field that is shown."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Names and labels of the editable fields."""
        return FIELDS[self.kind]

    @property
    def next_field(self) -> int:
        """Index of the field that Tab goes to."""
        return (self.field_index + 1) % len(self.fields)

    @property
    def field(self) -> str:
        """Name of the field that is shown."""
        return self.fields[self.field_index][0]

    def edit(self) -> Edit | None:
        """Return the edit, or None if nothing was changed."""
        changed = {name: text for name, text in self.texts.items() if text != self.before[name].strip()}
        if not changed:
            return None
        if self.section is None:
            return FieldEdit("goal", self.before["goal"], changed["goal"])
        if self.old is not None:
            return ListEdit(self.section, self.index, self.old, msgspec.structs.replace(self.old, **changed))
        from tui_agent.plan.document import Criterion

        added = Criterion(description=changed["description"], notes=changed.get("notes", ""))
        return ListEdit(self.section, self.index, None, added)


def restore_draft(data: dict[str, Any]) -> EditDraft | None:
    """Return the draft saved as plain data, or None if it is not valid."""
    from tui_agent.plan.document import Criterion, Decision, LogEntry

    types = dict(zip(LISTS, (Criterion, Decision, Decision, LogEntry), strict=True))
    try:
        draft = msgspec.convert(data, EditDraft)
        names = {name for name, _label in draft.fields}
        if draft.old is not None and draft.section is not None:
            draft.old = msgspec.convert(draft.old, types[draft.section])
    except (KeyError, msgspec.ValidationError):
        return None
    is_complete = names == set(draft.texts) == set(draft.before) and 0 <= draft.field_index < len(names)
    return draft if is_complete and (draft.section is not None or draft.kind == "goal") else None
