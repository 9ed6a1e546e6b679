"""An edit in progress of one value of the plan: which it is, and what is typed so far (P6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from widgets.plan_edits import Edit, ListEdit, WordEdit
from widgets.plan_reading import LISTS, ListName, Value

FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "criterion": (("description", "criterion"), ("notes", "note")),
    "decision": (("title", "decision"), ("rationale", "reason")),
    "entry": (("action", "action"), ("details", "details"), ("result", "result")),
    "old": (("action", "action"), ("details", "details"), ("result", "result")),
    "goal": (("goal", "goal"),),
}
"""Kind of row → fields that can be edited, with their names for the user. The first one is never empty."""


@dataclass(slots=True)
class Draft:
    """An edit in progress. It lives in the panel alone, whatever happens on the screen."""

    kind: str
    section: ListName | None
    at: int
    old: Value | None
    """None while something is added."""
    texts: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
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
        names = ("kind", "section", "at", "texts", "before", "number")
        return {name: getattr(self, name) for name in names} | {"old": msgspec.to_builtins(self.old)}


def restored(data: dict[str, Any]) -> Draft | None:
    """The edit that was kept as `data`; None when that is none of ours."""
    from tui_agent.plan.document import Criterion, Decision, LogEntry

    kinds = dict(zip(LISTS, (Criterion, Decision, Decision, LogEntry), strict=True))
    try:
        section = data["section"]
        old = None if data["old"] is None else msgspec.convert(data["old"], kinds[section])
        texts, before = (msgspec.convert(data[name], dict[str, str]) for name in ("texts", "before"))
        draft = Draft(str(data["kind"]), section, int(data["at"]), old, texts, before, int(data["number"]))
        names = {name for name, _words in draft.fields}
        whole = names == set(texts) == set(before) and 0 <= draft.number < len(names)
        known = section in kinds if section is not None else draft.kind == "goal"
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError):
        return None
    return draft if whole and known else None
