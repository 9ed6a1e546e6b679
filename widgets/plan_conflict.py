"""The agent and you both changed the plan: both texts, and the keys that say which one holds (P4)."""

from __future__ import annotations

from textual import events

from tui_agent.common.domain import Answer
from tui_agent.events import PlanDocConflict
from tui_agent.text import make_visible
from widgets.blocks.notice import plan_place_name
from widgets.dialog_keys import Keys, key_spans
from widgets.request_view import FittedModal, option_lines
from widgets.styled_text import Line, TextStyles, beside, line, wrap

KEYS = Keys("conflict")
OPTIONS = (
    ("ours", "ours: use the agent's text", ""),
    ("theirs", "theirs: keep the file's text", ""),
    ("both", "both, one after the other", ""),
)
"""Actions that decide."""
ABREAST = 84
"""Columns from which on the two texts stand side by side."""


class ConflictModal(FittedModal):
    """Ours, theirs or both. No key is the default, and Enter decides nothing."""

    @property
    def _dispute(self) -> PlanDocConflict:
        assert self.request.conflict is not None
        return self.request.conflict

    # --- what is shown ---

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        lines = wrap([("The agent and you both changed the plan", styles.heading)], width)
        return lines + wrap(
            [(make_visible(plan_place_name(self._dispute.where), lookalikes=False), styles.muted)], width
        )

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        dispute = self._dispute
        half = (width - 3) // 2 if width >= ABREAST else width
        ours = self._text("ours · the agent's text", dispute.ours, half, styles)
        theirs = self._text("theirs · the text in the file", dispute.theirs, half, styles)
        if half == width:
            return [*ours, line(), *theirs]
        return beside([ours, theirs], [half], [(" ", styles.text), ("│ ", styles.faint)], styles)

    @staticmethod
    def _text(title: str, text: str, width: int, styles: TextStyles) -> list[Line]:
        return [line((title, styles.muted)), *wrap([(make_visible(text, lookalikes=False), styles.text)], width)]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        lines = option_lines(OPTIONS, lambda action: self.armed, KEYS.label, width, styles)
        pairs = [("esc", "stops the run; nothing is written")]
        if left := self.body.lines_below:
            pairs.append((KEYS.arrow_labels("down"), f"{left} more lines"))
        return [*lines, line(), *wrap(key_spans(pairs, styles), width)]

    # --- keys ---

    def process_key(self, event: events.Key) -> None:
        """One of the three, or a look at the rest."""
        action = KEYS.action_for(event)
        if action in {name for name, _text, _rule in OPTIONS}:
            self.answer(Answer(verdict="approve", data={"take": action}))
        else:
            self.body.scroll_for(action)
