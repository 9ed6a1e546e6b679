"""What of a run became memory, or did not (W9)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.text import one_line
from tui_agent.view import Offer, RequestItem
from tui_agent.workplan import DecisionNote, Summary
from widgets.blocks.base import Block
from widgets.blocks.plan import labelled
from widgets.ink import Ink, Line, Span, indent, wrap

STATES = {
    "": ("?", "warn", "Summary · waiting for you"),
    "accepted": ("✓", "ok", "Summary accepted"),
    "edited": ("✓", "ok", "Summary accepted · edited"),
    "discarded": ("⊘", "muted", "Summary discarded · the plan stays as it was"),
    "pending": ("·", "muted", "Summary not decided yet · offered again at the next start"),
}


def summary_lines(summary: Summary, width: int, ink: Ink) -> list[Line]:
    """All that a summary says."""
    lines: list[Line] = []
    for label, text in (("action", summary.action), ("details", summary.details), ("result", summary.result)):
        if text:
            lines += labelled(label, text, width, ink)
    for change in summary.criteria:
        mark: Span = ("✓ ", ink.ok) if change.completed else ("○ ", ink.faint)
        lines += indent(
            wrap([(one_line(change.description, 1_000), ink.muted)], max(8, width - 2)),
            [mark],
            [("  ", ink.text)],
        )
    for made, notes in ((True, summary.decisions_made), (False, summary.decisions_rejected)):
        for note in notes:
            lines += labelled("decided" if made else "not", decision(note), width, ink)
    for label, text in (("goal", summary.goal), ("status", summary.status)):
        if text:
            lines += labelled(label, text, width, ink)
    return lines


def decision(note: DecisionNote) -> str:
    """`title — rationale` on one line."""
    title, why = one_line(note.title, 500), one_line(note.rationale, 2_000)
    return f"{title} — {why}" if why else title


class SummaryBlock(Block[RequestItem]):
    """The summary in the transcript."""

    @property
    def _offer(self) -> Offer:
        return self.item.offer if self.item.offer is not None else Offer(Summary(action=""))

    @property
    def _state(self) -> tuple[str, str, str]:
        offer = self._offer
        if not offer.outcome and self.item.answer is not None:
            return "■", "muted", "Summary not decided"
        return STATES.get(offer.outcome, STATES[""])

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """What became of it; what was saved stands below."""
        symbol, role, words = self._state
        style = ink.muted if role == "muted" else ink.text
        lines = indent(
            wrap([(words, style)], max(8, width - 2)),
            [(symbol + " ", getattr(ink, role))],
            [("  ", ink.text)],
        )
        offer = self._offer
        if offer.outcome in ("accepted", "edited") or (self.open and offer.outcome):
            saved = summary_lines(offer.taken or offer.summary, max(8, width - 2), ink)
            lines += indent(saved, [("  ", ink.text)])
        return lines

    def plain(self) -> str:
        """What became of it, and what it says."""
        offer = self._offer
        summary = offer.taken or offer.summary
        lines = [self._state[2], summary.action, summary.details, summary.result]
        lines += [f"[{'x' if one.completed else ' '}] {one.description}" for one in summary.criteria]
        lines += [decision(one) for one in (*summary.decisions_made, *summary.decisions_rejected)]
        return "\n".join(one for one in lines if one)
