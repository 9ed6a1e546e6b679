"""What the user changes in the plan: one value of it, found again in whatever the document says by then (P6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from widgets.plan_reading import ListName, Value

if TYPE_CHECKING:
    from tui_agent.plan.document import Plan


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


def inverse(edit: Edit) -> Edit:
    """What undoes it."""
    if isinstance(edit, WordEdit):
        return WordEdit(edit.section, edit.new, edit.old)
    return ListEdit(edit.section, edit.at, edit.new, edit.old)


def edited(plan: Plan, edit: Edit) -> Plan | None:
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
        at = _place(values, edit)
        if at is None:
            return None
        values[at : at + 1] = [] if edit.new is None else [_changed(values[at], edit.old, edit.new)]
    return msgspec.structs.replace(plan, **{edit.section: tuple(values)})


def _place(values: list[Any], edit: ListEdit) -> int | None:
    from tui_agent.plan.matching import label

    if 0 <= edit.at < len(values) and values[edit.at] == edit.old:
        return edit.at
    if edit.old in values:
        return values.index(edit.old)
    if edit.new is None:
        return None  # never remove what is another thing by now
    name = label(edit.old) if edit.old is not None else ""
    return next((at for at, one in enumerate(values) if label(one) == name), None)


def _changed(now: Value, old: Value, new: Value) -> Value:
    names = [name for name in new.__struct_fields__ if getattr(new, name) != getattr(old, name)]
    return msgspec.structs.replace(now, **{name: getattr(new, name) for name in names})
