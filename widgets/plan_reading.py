"""What the plan panel shows: the values of a plan, what of them is only proposed, the reader's own sections."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:  # read when the first plan comes: a screen without one starts without them
    from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan
    from tui_agent.plan.markdown import Document

Value: TypeAlias = "Criterion | Decision | LogEntry"
Mark: TypeAlias = Literal["", "added", "changed", "removed"]
ListName: TypeAlias = Literal["acceptance_criteria", "decisions_made", "decisions_rejected", "execution_log"]
LISTS: tuple[ListName, ...] = (
    "acceptance_criteria",
    "decisions_made",
    "decisions_rejected",
    "execution_log",
)


class Sighted(NamedTuple):
    """One value of a list."""

    value: Value
    at: int
    """Place in the saved list; -1 for one that is only proposed."""
    mark: Mark = ""


class Own(NamedTuple):
    """A section of the reader's own."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A plan document, read for the panel."""

    saved: Plan
    plan: Plan
    """With what is proposed in it."""
    lists: dict[ListName, tuple[Sighted, ...]]
    own: tuple[Own, ...] = ()
    problem: str = ""
    """Why the text is not taken for a plan; empty when it is one."""
    proposed: int = 0
    """How many values the proposal would change."""

    @property
    def empty(self) -> bool:
        """True while nothing is in it."""
        said = (self.plan.goal, self.own, *self.lists.values())
        return not any(said) and self.plan.status == "planning"


def read(text: str, proposal: str | None = None, ground: str = "") -> Reading:
    """Read `text`, and in it what of `proposal` differs from `ground`. Costs milliseconds for every 10 kB."""
    from tui_agent.plan.markdown import parse

    document = parse(text)
    saved = plan = document.plan
    if proposal is not None and proposal != text:
        from tui_agent.plan.merge import merge

        ours = parse(proposal).plan
        base = saved if ground == text else parse(ground).plan
        plan = merge(base, ours, saved).plan if base != saved else ours
    return seen(saved, plan, _own(document), document.problem)


def seen(saved: Plan, plan: Plan, own: tuple[Own, ...] = (), problem: str = "") -> Reading:
    """The panel's view of a plan and of what is proposed to become of it."""
    lists = {name: _sighted(getattr(saved, name), getattr(plan, name)) for name in LISTS}
    proposed = sum(bool(one.mark) for some in lists.values() for one in some)
    proposed += (saved.goal != plan.goal) + (saved.status != plan.status)
    return Reading(saved, plan, lists, own, problem, proposed)


def _sighted(saved: tuple[Value, ...], wanted: tuple[Value, ...]) -> tuple[Sighted, ...]:
    if saved == wanted:
        return tuple(Sighted(value, at) for at, value in enumerate(saved))
    from tui_agent.plan.matching import align

    pairs = align(saved, wanted)  # type: ignore[type-var]  # all values of one list are of one kind
    partner = {there: here for here, there in pairs.items()}
    result: list[Sighted] = []
    told = 0
    nexts = sorted(partner)
    for there, value in enumerate(wanted):
        here = partner.get(there, -1)
        following = bisect_left(nexts, there)
        until = partner[nexts[following]] if following < len(nexts) else len(saved)
        result += [Sighted(saved[at], at, "removed") for at in range(told, until)]
        told = max(told, until)
        if here < 0:
            result.append(Sighted(value, -1, "added"))
            continue
        told = here + 1
        result.append(Sighted(value, here, "" if saved[here] == value else "changed"))
    return (*result, *(Sighted(saved[at], at, "removed") for at in range(told, len(saved))))


def _own(document: Document) -> tuple[Own, ...]:
    found = []
    for section in document.sections:
        if not section.name:
            title = document.lines[section.head].lstrip(" #").strip()
            body = "\n".join(document.lines[section.head + 1 : section.end]).strip("\n")
            found.append(Own(title, tuple(body.split("\n")) if body else ()))
    return tuple(found)
