"""The instruction plan, its steps, and the summary: one line each, with details when expanded (W2, W5, W7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style

from tui_agent.common.workplan import DecisionNote, InstructionPlan, PlanStep, Summary, format_plan
from tui_agent.events import PlanProposed
from tui_agent.text import one_line, pluralize
from tui_agent.view.items import RequestItem, StepItem
from widgets.blocks.base import TranscriptBlock, format_duration
from widgets.styled_text import Line, Span, TextStyles, fit, hanging, indent, line, wrap
from widgets.words import WORDS

MIN_CONFIDENCE = 0.6
"""Steps below this confidence are marked, and their plan always needs approval (W5)."""
LABEL_WIDTH = 10
"""Width of the labels of details."""


def labeled_lines(label: str, text: str, width: int, styles: TextStyles, *, inset: int = 0) -> list[Line]:
    """Paint a muted label followed by text with a hanging indent."""
    head = [(" " * inset + f"{label:<{LABEL_WIDTH}}", styles.muted)]
    return hanging(head, [(text, styles.muted)], width, styles.text)


def step_head(step: PlanStep, width: int, styles: TextStyles, *, is_essential: bool) -> list[Line]:
    """Paint number, description, tool and marks of a step; without an essential step the run ends."""
    spans: list[Span] = [(one_line(step.description, 2_000), styles.text)]
    if step.tool and step.tool != "analyze":
        spans.append((f"  {one_line(step.tool, 60)}", styles.muted))
    if is_essential:
        spans.append(("  essential", styles.muted))
    if step.confidence < MIN_CONFIDENCE:
        spans.append((f"  unsure {step.confidence:.0%}", styles.warn))
    return hanging([(f"{step.number:>2} ", styles.accent)], spans, width, styles.text)


def step_lines(step: PlanStep, width: int, styles: TextStyles, *, is_essential: bool = False) -> list[Line]:
    """Paint a step with its expected result and fallback."""
    lines = step_head(step, width, styles, is_essential=is_essential)
    for label, text in (("expect", step.expected), ("if not", step.fallback)):
        if text:
            lines += labeled_lines(label, one_line(text, 2_000), width, styles, inset=3)
    return lines


def plan_lines(plan: InstructionPlan, width: int, styles: TextStyles) -> list[Line]:
    """Paint a complete plan."""
    lines = wrap([(one_line(plan.approach, 4_000), styles.text)], width) if plan.approach else []
    for number, prerequisite in enumerate(plan.prerequisites):
        lines += labeled_lines("" if number else "needs", one_line(prerequisite, 1_000), width, styles)
    lines += [Line([])] if lines else []
    some_are_not = not all(step.critical for step in plan.steps)  # otherwise it tells nothing
    for step in plan.steps:
        lines += step_lines(step, width, styles, is_essential=step.critical and some_are_not)
    return [*lines, *check_lines(plan, width, styles), *alternative_lines(plan, width, styles)]


def compact_plan_lines(plan: InstructionPlan, width: int, styles: TextStyles) -> list[Line]:
    """Paint a complete plan for a low screen: first one line for each step, then everything."""
    heads: list[Line] = []
    for step in plan.steps:
        text = fit(one_line(step.description, 2_000), max(4, width - 3))
        heads.append(line((f"{step.number:>2} ", styles.accent), (text, styles.text)))
    return [*heads, Line([]), *plan_lines(plan, width, styles)]


def check_lines(plan: InstructionPlan, width: int, styles: TextStyles) -> list[Line]:
    """Paint how the result is verified."""
    check = plan.check
    if not (check.command or check.criteria):
        return []
    lines = [Line([])]
    if check.command:
        head: list[Span] = [(f"{'check':<{LABEL_WIDTH}}", styles.muted), ("$ ", styles.accent)]
        lines += hanging(head, [(one_line(check.command, 2_000), styles.text)], width, styles.text)
    if check.criteria:
        lines += labeled_lines("" if check.command else "check", one_line(check.criteria, 2_000), width, styles)
    return lines


def alternative_lines(plan: InstructionPlan, width: int, styles: TextStyles) -> list[Line]:
    """Paint the numbered alternatives."""
    lines: list[Line] = [Line([])] if plan.alternatives else []
    for number, alternative in enumerate(plan.alternatives, start=1):
        spans: list[Span] = [(one_line(alternative.approach, 1_000), styles.text)]
        if alternative.when:
            spans.append((f"  {one_line(alternative.when, 500)}", styles.muted))
        style = styles.warn if alternative.confidence < MIN_CONFIDENCE else styles.muted
        spans.append((f"  {alternative.confidence:.0%}", style))
        head: list[Span] = [
            (f"{'or' if number == 1 else '':<{LABEL_WIDTH}}", styles.muted),
            (f"{number} ", styles.accent),
        ]
        lines += hanging(head, spans, width, styles.text)
    return lines


class PlanBlock(TranscriptBlock[RequestItem]):
    """A plan: its outcome, and the complete plan when expanded."""

    @property
    def _proposal(self) -> PlanProposed:
        assert self.item.proposal is not None
        return self.item.proposal

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint the outcome, and the plan when expanded."""
        symbol, role, title, facts = self._state()
        spans: list[Span] = [(title, styles.text if role in ("ok", "accent", "warn") else styles.muted)]
        spans += [(f" · {fact}", styles.muted) for fact in facts]
        if self._is_collapsible:
            spans.append((" ▾" if self.open else " ▸", styles.muted))
        lines = hanging([(symbol + " ", getattr(styles, role))], spans, width, styles.text)
        if self._is_collapsible and self.open:
            lines += indent(plan_lines(self._plan, max(8, width - 2), styles), [("  ", styles.text)])
        return lines

    @property
    def _plan(self) -> InstructionPlan:
        return self.item.plan_review.plan if self.item.plan_review is not None else self._proposal.plan

    @property
    def _is_collapsible(self) -> bool:
        return self.item.answer is not None

    def _state(self) -> tuple[str, str, str, list[str]]:
        item, proposal = self.item, self._proposal
        name = "Recovery plan" if proposal.recovery else "Plan"
        count = pluralize(len(self._plan.steps), "step")
        if item.answer is None:
            return "?", "warn", name, [count, "waiting for you"] if proposal.asks else [count]
        if item.answer.verdict == "reject":
            reason = one_line(item.answer.text, 500)
            return "⊘", "warn", f"{name} rejected" + (f": {reason}" if reason else ""), []
        if item.answer.verdict != "approve":
            return "■", "muted", f"{name} withdrawn", []
        index = item.plan_review.alternative if item.plan_review is not None else None
        if index is not None and index < len(proposal.plan.alternatives):
            alternative = proposal.plan.alternatives[index]
            return "✓", "ok", "Alternative chosen", [one_line(alternative.approach, 300)]
        facts = [count]
        facts += ["edited"] if item.plan_review is not None and item.plan_review.edited and proposal.asks else []
        facts += ["from cache"] if proposal.cached else []
        facts += ["no valid plan"] if proposal.fallback else []
        if not proposal.asks and item.answer.by:
            facts.append(one_line(item.answer.by, 200))
        return "✓", "ok", f"{name} approved" if proposal.asks else name, facts

    def plain_text(self) -> str:
        """Return outcome and plan."""
        _symbol, _role, title, facts = self._state()
        return "\n".join([" · ".join([title, *facts]), format_plan(self._plan)])

    def guess(self, width: int) -> int:
        """Estimate the number of lines: one while collapsed."""
        return super().guess(width) if self.open else 1


class StepBlock(TranscriptBlock[StepItem]):
    """A step, as a heading above its replies and calls."""

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint state, number and description; expected and actual result if it failed or is expanded."""
        item = self.item
        symbol, role = WORDS.step_states.get(item.outcome, ("·", "muted"))
        spans: list[Span] = [] if not item.step.number else [(f"{self._number()}  ", styles.muted)]
        spans.append((one_line(item.step.description, 2_000), styles.strong))
        spans += [(f" · {fact}", styles.muted) for fact in self._facts()]
        lines = hanging([(symbol + " ", getattr(styles, role))], spans, width, styles.text)
        return lines + self._details(width, styles)

    def _facts(self) -> Iterator[str]:
        """Yield what is said after the description."""
        if not self.item.step.number:
            yield "run by the program"
        if self.item.ms >= 1_000:
            yield format_duration(self.item.ms)
        if self.item.outcome in ("skipped", "interrupted"):
            yield WORDS.not_done[self.item.outcome]

    def _number(self) -> str:
        return f"{self.item.step.number} of {self.item.of}" if self.item.of else str(self.item.step.number)

    def _details(self, width: int, styles: TextStyles) -> list[Line]:
        item, lines = self.item, list[Line]()
        for index, verdict in enumerate(item.verifications):
            if self.open or not verdict.met:
                lines += self._verdict(index, width, styles)
            for verdict_count, recovery in item.recoveries:
                if verdict_count == index + 1:
                    label = "instead" if recovery.by == "fallback" else "new plan"
                    text = " · ".join(
                        part
                        for part in (recovery.error_class.replace("_", " "), recovery.strategy or recovery.cause)
                        if part
                    )
                    lines += self._row(label, text, width, styles, styles.warn)
        if self.open and not item.verifications and item.step.expected:
            lines += self._row("expected", item.step.expected, width, styles, styles.muted)
        return lines

    def _verdict(self, index: int, width: int, styles: TextStyles) -> list[Line]:
        verdict = self.item.verifications[index]
        style = styles.muted if verdict.met else styles.text
        lines = self._row("expected", verdict.expected, width, styles, styles.muted) if verdict.expected else []
        mark: Span = ("✓ ", styles.ok) if verdict.met else ("✗ ", styles.bad)
        head: list[Span] = [("  ", styles.text), (f"{'actual':<{LABEL_WIDTH}}", styles.muted), mark]
        text = one_line(verdict.actual, 1_000) or ("as expected" if verdict.met else "not as expected")
        return lines + hanging(head, [(text, style)], width, styles.text)

    @staticmethod
    def _row(label: str, text: str, width: int, styles: TextStyles, style: Style) -> list[Line]:
        head: list[Span] = [("  ", styles.text), (f"{label:<{LABEL_WIDTH}}", style)]
        return hanging(head, [(one_line(text, 1_000), styles.muted)], width, styles.text)

    def plain_text(self) -> str:
        """Return the step with expected and actual results."""
        item = self.item
        heading = f"{self._number()}  {item.step.description}" if item.step.number else item.step.description
        lines = [" · ".join([heading, *self._facts()])]
        for verdict in item.verifications:
            lines += [f"expected: {verdict.expected}", f"actual: {verdict.actual}"]
        return "\n".join(lines)

    def guess(self, width: int) -> int:
        """Estimate the number of lines from the verdicts that are shown."""
        return 1 + 2 * sum(self.open or not verdict.met for verdict in self.item.verifications)


def summary_lines(summary: Summary, width: int, styles: TextStyles) -> list[Line]:
    """Paint a complete summary."""
    lines: list[Line] = []
    for label, text in (("action", summary.action), ("details", summary.details), ("result", summary.result)):
        if text:
            lines += labeled_lines(label, text, width, styles)
    for change in summary.criteria:
        mark: Span = ("✓ ", styles.ok) if change.completed else ("○ ", styles.faint)
        lines += hanging([mark], [(one_line(change.description, 1_000), styles.muted)], width, styles.text)
    for made, notes in ((True, summary.decisions_made), (False, summary.decisions_rejected)):
        for note in notes:
            lines += labeled_lines("decided" if made else "rejected", decision_text(note), width, styles)
    for label, text in (("goal", summary.goal), ("status", summary.status)):
        if text:
            lines += labeled_lines(label, text, width, styles)
    return lines


def decision_text(note: DecisionNote) -> str:
    """Return `title — rationale` on one line."""
    title, why = one_line(note.title, 500), one_line(note.rationale, 2_000)
    return f"{title} — {why}" if why else title


class SummaryBlock(TranscriptBlock[RequestItem]):
    """A summary."""

    @property
    def _state(self) -> tuple[str, str, str]:
        if self.item.summary_review is not None:
            return WORDS.summary_states[self.item.summary_review.outcome]
        return ("■", "muted", "Summary not decided") if self.item.answer is not None else WORDS.summary_states[""]

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint the outcome, and the summary if it was saved or is expanded."""
        symbol, role, title = self._state
        style = styles.muted if role == "muted" else styles.text
        lines = hanging([(symbol + " ", getattr(styles, role))], [(title, style)], width, styles.text)
        settled = self.item.summary_review
        if settled is not None and (self.open or settled.outcome in ("accepted", "edited")):
            saved = summary_lines(settled.summary, max(8, width - 2), styles)
            lines += indent(saved, [("  ", styles.text)])
        return lines

    def plain_text(self) -> str:
        """Return outcome and summary."""
        source = self.item.summary_review or self.item.summary
        assert source is not None
        summary = source.summary
        lines = [self._state[2], summary.action, summary.details, summary.result]
        lines += [f"[{'x' if criterion.completed else ' '}] {criterion.description}" for criterion in summary.criteria]
        lines += [decision_text(decision) for decision in (*summary.decisions_made, *summary.decisions_rejected)]
        return "\n".join(text for text in lines if text)
