"""Plans that worked, kept for the next request of the same kind (W17). All functions that touch the file block."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.safety import kept
from tui_agent.workplan import InstructionPlan

USES = 50
"""After so many successful uses a plan is made anew."""
LEAST_RATE = 0.7
"""Share of uses that must have succeeded."""
MOST = 300
"""Plans kept; the oldest go."""
_NAMED = re.compile(
    r"""
    `[^`\n]+` | "[^"\n]+" | '[^'\n]+' | [a-z]+://\S+ | [\w.\-]*/[\w./\-]+
    | \b[\w\-]+\.[a-z][a-z0-9]{0,4}\b | \b\d+\b
    """,
    re.VERBOSE,
)
_TRAILING = ".,;:!?"


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A plan from the cache, with the names of this request put in."""

    key: str
    plan: InstructionPlan
    uses: int


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two requests the same for a plan: the words, without the files, numbers and quotes in them."""

    key: str
    names: tuple[str, ...]
    """What stood at the places that may differ."""


def kind_of(task_type: str, request: str, tools: Iterable[str], prompt_version: str) -> Kind:
    """Task type + action pattern + tool set (W17), and the version of the planning prompt (H8): what another prompt led
    to is not what would be planned now."""
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        word = found.group().rstrip(_TRAILING).strip("`\"'")
        names.append(word)
        return " · "

    pattern = _NAMED.sub(place, request)
    words = " ".join(re.findall(r"[\w·]+", pattern.lower()))
    joined = "\n".join([prompt_version, task_type, words, *sorted(tools)])
    return Kind(key=hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:24], names=tuple(names))


class PlanCache:
    """The plans of one file; safe to share between processes."""

    def __init__(self, file: Path, *, days: int = 7, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._seconds = days * 86_400
        self._clock = clock

    def find(self, kind: Kind) -> Hit | None:
        """A plan for a request of that kind; None when there is none that is fresh and good enough."""
        row = self._rows("plans").get(kind.key)
        if not isinstance(row, dict) or not self._good(row):
            return None
        try:
            old = msgspec.convert(row["names"], tuple[str, ...])
            if len(old) != len(kind.names):
                return None
            plan = msgspec.convert(
                _renamed(row["plan"], dict(zip(old, kind.names, strict=True))), InstructionPlan
            )
        except (msgspec.ValidationError, KeyError):
            return None
        return Hit(key=kind.key, plan=plan, uses=int(row.get("uses", 0)))

    def settle(self, kind: Kind, plan: InstructionPlan, success: bool, *, choice: str = "") -> None:
        """A plan was carried out: keep it, or count against it. `choice` is the alternative that the user picked."""

        def edit(data: dict[str, Any]) -> None:
            plans = _table(data, "plans")
            row = plans.get(kind.key)
            if not isinstance(row, dict) or not self._good(row):
                if not success:
                    self._count(data, plan, success)
                    plans.pop(kind.key, None)
                    return
                row = {"made": self._clock(), "uses": 0, "good": 0}
            row |= {"plan": msgspec.to_builtins(plan), "names": list(kind.names)}
            row["uses"] += 1
            row["good"] += success
            if choice:
                row["choice"] = choice
            plans[kind.key] = row
            self._count(data, plan, success)
            for key in sorted(plans, key=lambda one: plans[one].get("made", 0))[:-MOST]:
                del plans[key]

        kept.change(self._file, edit)

    def adjusted(self, plan: InstructionPlan) -> InstructionPlan:
        """The plan with its confidence moved by how plans of the same tools fared: by 0.1 at the most."""
        row = self._rows("shapes").get(_shape(plan))
        if not isinstance(row, Mapping) or not (uses := int(row.get("uses", 0))):
            return plan
        weight = min(1.0, uses / 5)
        moved = plan.confidence + 0.2 * (int(row.get("good", 0)) / uses - 0.5) * weight
        return msgspec.structs.replace(plan, confidence=round(min(1.0, max(0.0, moved)), 3))

    def _rows(self, name: str) -> Mapping[str, Any]:
        rows = kept.read(self._file).get(name)
        return rows if isinstance(rows, dict) else {}

    def _good(self, row: Mapping[str, Any]) -> bool:
        try:
            uses, good, made = int(row["uses"]), int(row["good"]), float(row["made"])
        except (KeyError, TypeError, ValueError):
            return False
        fresh = 0 <= self._clock() - made < self._seconds and good < USES
        return fresh and uses > 0 and good / uses > LEAST_RATE

    def _count(self, data: dict[str, Any], plan: InstructionPlan, success: bool) -> None:
        shapes = _table(data, "shapes")
        row = shapes.setdefault(_shape(plan), {"uses": 0, "good": 0})
        row["uses"] += 1
        row["good"] += success
        for key in list(shapes)[:-MOST]:
            del shapes[key]


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    rows = data.get(name)
    if not isinstance(rows, dict):
        rows = data[name] = {}
    return rows


def _shape(plan: InstructionPlan) -> str:
    return ">".join(step.tool or "thought" for step in plan.steps)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Plain data with the old request's names replaced by the new one's, all at once."""
    changed = {old: new for old, new in names.items() if old and old != new}
    if not changed:
        return value
    pattern = re.compile("|".join(re.escape(old) for old in sorted(changed, key=len, reverse=True)))

    def inside(part: Any) -> Any:
        if isinstance(part, str):
            return pattern.sub(lambda found: changed[found.group()], part)
        if isinstance(part, dict):
            return {key: inside(one) for key, one in part.items()}
        return [inside(one) for one in part] if isinstance(part, list) else part

    return inside(value)
