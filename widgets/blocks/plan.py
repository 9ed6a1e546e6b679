"""The instruction plan and its steps: a quiet line each, with all of it on demand (W2, W5, W7)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from tui_agent.text import one_line
from tui_agent.view import Proposal, RequestItem, StepItem
from tui_agent.workplan import InstructionPlan, PlanStep, as_text
from widgets.blocks.base import Block, duration
from widgets.ink import Ink, Line, Span, indent, wrap

UNSURE = 0.6
"""Confidence below which a step is marked and a plan always asks (W5)."""
LABEL = 10
"""Cells of the words in front of what belongs to a step."""

STATES = {
    "": ("●", "accent"),
    "done": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "skipped": ("⊘", "muted"),
    "interrupted": ("■", "warn"),
}
"""How a step came out → its symbol and the role of its colour."""


def steps_of(plan: InstructionPlan) -> str:
    """`4 steps`."""
    return "1 step" if len(plan.steps) == 1 else f"{len(plan.steps)} steps"


def labelled(label: str, text: str, width: int, ink: Ink, *, inset: int = 0) -> list[Line]:
    """A muted word with text hanging beside it."""
    head: list[Span] = [(" " * inset + f"{label:<{LABEL}}", ink.muted)]
    room = max(8, width - inset - LABEL)
    return indent(wrap([(text, ink.muted)], room), head, [(" " * (inset + LABEL), ink.text)])


def step_head(step: PlanStep, width: int, ink: Ink) -> list[Line]:
    """Number, what to do, the tool, and the marks."""
    spans: list[Span] = [(one_line(step.description, 2_000), ink.text)]
    if step.tool and step.tool != "analyze":
        spans.append((f"  {one_line(step.tool, 60)}", ink.muted))
    if step.critical:
        spans.append(("  critical", ink.muted))
    if step.confidence < UNSURE:
        spans.append((f"  unsure {step.confidence:.0%}", ink.warn))
    number: list[Span] = [(f"{step.number:>2} ", ink.accent)]
    return indent(wrap(spans, max(8, width - 3)), number, [("   ", ink.text)])


def step_lines(step: PlanStep, width: int, ink: Ink) -> list[Line]:
    """A step with what is expected of it and what is done when it fails."""
    lines = step_head(step, width, ink)
    for label, text in (("expect", step.expected), ("if not", step.fallback)):
        if text:
            lines += labelled(label, one_line(text, 2_000), width, ink, inset=3)
    return lines


def plan_lines(plan: InstructionPlan, width: int, ink: Ink) -> list[Line]:
    """All of a plan."""
    lines = wrap([(one_line(plan.approach, 4_000), ink.text)], width) if plan.approach else []
    for number, one in enumerate(plan.prerequisites):
        lines += labelled("" if number else "needs", one_line(one, 1_000), width, ink)
    lines += [Line([])] if lines else []
    for step in plan.steps:
        lines += step_lines(step, width, ink)
    return [*lines, *check_lines(plan, width, ink), *other_lines(plan, width, ink)]


def check_lines(plan: InstructionPlan, width: int, ink: Ink) -> list[Line]:
    """How the whole is verified."""
    check = plan.check
    if not (check.command or check.criteria):
        return []
    lines = [Line([])]
    if check.command:
        head: list[Span] = [(f"{'check':<{LABEL}}", ink.muted), ("$ ", ink.accent)]
        body = wrap([(one_line(check.command, 2_000), ink.text)], max(8, width - LABEL - 2))
        lines += indent(body, head, [(" " * (LABEL + 2), ink.text)])
    if check.criteria:
        lines += labelled("" if check.command else "check", one_line(check.criteria, 2_000), width, ink)
    return lines


def other_lines(plan: InstructionPlan, width: int, ink: Ink) -> list[Line]:
    """Other ways to do it, by number."""
    lines: list[Line] = [Line([])] if plan.alternatives else []
    for number, other in enumerate(plan.alternatives, start=1):
        spans: list[Span] = [(one_line(other.approach, 1_000), ink.text)]
        if other.when:
            spans.append((f"  {one_line(other.when, 500)}", ink.muted))
        spans.append((f"  {other.confidence:.0%}", ink.warn if other.confidence < UNSURE else ink.muted))
        head: list[Span] = [
            (f"{'or' if number == 1 else '':<{LABEL}}", ink.muted),
            (f"{number} ", ink.accent),
        ]
        lines += indent(wrap(spans, max(8, width - LABEL - 2)), head, [(" " * (LABEL + 2), ink.text)])
    return lines


class PlanBlock(Block[RequestItem]):
    """A plan in the transcript: what became of it, and all of it when unfolded."""

    @property
    def _proposal(self) -> Proposal:
        found = self.item.proposal
        return found if found is not None else Proposal(InstructionPlan(approach=""))

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """One line, unfolded the plan below it."""
        symbol, role, words, more = self._state()
        style = getattr(ink, role)
        spans: list[Span] = [(words, ink.text if role in ("ok", "accent", "warn") else ink.muted)]
        spans += [(f" · {one}", ink.muted) for one in more]
        if self._folds:
            spans.append((" ▾" if self.open else " ▸", ink.muted))
        lines = indent(wrap(spans, max(8, width - 2)), [(symbol + " ", style)], [("  ", ink.text)])
        if self._folds and self.open:
            lines += indent(plan_lines(self._plan, max(8, width - 2), ink), [("  ", ink.text)])
        return lines

    @property
    def _plan(self) -> InstructionPlan:
        return self._proposal.taken or self._proposal.plan

    @property
    def _folds(self) -> bool:
        return self.item.answer is not None

    def _state(self) -> tuple[str, str, str, list[str]]:
        item, proposal = self.item, self._proposal
        name = "Recovery plan" if proposal.recovery else "Plan"
        count = steps_of(self._plan)
        if item.answer is None:
            return "?", "warn", name, [count, "waiting for you"] if proposal.asks else [count]
        if item.answer.verdict == "reject":
            reason = one_line(item.answer.text, 500)
            return "⊘", "warn", f"{name} rejected" + (f": {reason}" if reason else ""), []
        if item.answer.verdict != "approve":
            return "■", "muted", f"{name} withdrawn", []
        if proposal.alternative is not None and proposal.alternative < len(proposal.plan.alternatives):
            way = proposal.plan.alternatives[proposal.alternative]
            return "✓", "ok", "Another way picked", [one_line(way.approach, 300)]
        more = [count]
        more += ["edited"] if proposal.edited and proposal.asks else []
        more += ["made before"] if proposal.cached else []
        more += ["no usable plan came"] if proposal.fallback else []
        if not proposal.asks and item.answer.by:
            more.append(one_line(item.answer.by, 200))
        return "✓", "ok", f"{name} approved" if proposal.asks else name, more

    def plain(self) -> str:
        """What became of it, and the plan."""
        _symbol, _role, words, more = self._state()
        return "\n".join([" · ".join([words, *more]), as_text(self._plan)])

    def guess(self, width: int) -> int:
        """One line while it is folded."""
        return super().guess(width) if self.open else 1


class StepBlock(Block[StepItem]):
    """A step as a heading over what is done for it."""

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """State, number, description; expected and actual when it failed or is unfolded."""
        item = self.item
        symbol, role = STATES.get(item.outcome, ("·", "muted"))
        spans: list[Span] = [] if not item.step.number else [(f"{self._number()}  ", ink.muted)]
        spans.append((one_line(item.step.description, 2_000), ink.strong))
        if item.ms >= 1_000:
            spans.append((f" · {duration(item.ms)}", ink.muted))
        if item.outcome in ("skipped", "interrupted"):
            spans.append((f" · {item.outcome}", ink.muted))
        lines = indent(
            wrap(spans, max(8, width - 2)), [(symbol + " ", getattr(ink, role))], [("  ", ink.text)]
        )
        return lines + self._told(width, ink)

    def _number(self) -> str:
        return f"{self.item.step.number} of {self.item.of}" if self.item.of else str(self.item.step.number)

    def _told(self, width: int, ink: Ink) -> list[Line]:
        item, lines = self.item, list[Line]()
        for place, verdict in enumerate(item.verdicts):
            if self.open or not verdict.met:
                lines += self._verdict(place, width, ink)
            for one in item.recoveries:
                if one.after == place + 1:
                    word = "instead" if one.by == "fallback" else "new plan"
                    text = " · ".join(
                        part
                        for part in (one.error_class.replace("_", " "), one.strategy or one.cause)
                        if part
                    )
                    lines += self._row(word, text, width, ink, ink.warn)
        if self.open and not item.verdicts and item.step.expected:
            lines += self._row("expected", item.step.expected, width, ink, ink.muted)
        return lines

    def _verdict(self, place: int, width: int, ink: Ink) -> list[Line]:
        verdict = self.item.verdicts[place]
        style = ink.muted if verdict.met else ink.text
        lines = self._row("expected", verdict.expected, width, ink, ink.muted) if verdict.expected else []
        mark: Span = ("✓ ", ink.ok) if verdict.met else ("✗ ", ink.bad)
        head: list[Span] = [("  ", ink.text), (f"{'actual':<{LABEL}}", ink.muted), mark]
        text = one_line(verdict.actual, 1_000) or ("as expected" if verdict.met else "not as expected")
        body = wrap([(text, style)], max(8, width - LABEL - 4))
        return lines + indent(body, head, [(" " * (LABEL + 4), ink.text)])

    @staticmethod
    def _row(word: str, text: str, width: int, ink: Ink, style: Style) -> list[Line]:
        head: list[Span] = [("  ", ink.text), (f"{word:<{LABEL}}", style)]
        body = wrap([(one_line(text, 1_000), ink.muted)], max(8, width - LABEL - 2))
        return indent(body, head, [(" " * (LABEL + 2), ink.text)])

    def plain(self) -> str:
        """The step, and expected and actual."""
        item = self.item
        lines = [
            f"{item.step.number}. {item.step.description}" if item.step.number else item.step.description
        ]
        for one in item.verdicts:
            lines += [f"expected: {one.expected}", f"actual: {one.actual}"]
        return "\n".join(lines)

    def guess(self, width: int) -> int:
        """One line as long as all went well."""
        return 1 + 2 * sum(self.open or not one.met for one in self.item.verdicts)
