"""The conflict dialog: two versions of a plan value, by the agent and by the user, and the keys to choose (P4)."""

from __future__ import annotations

from textual import events

from tui_agent.common.domain import Answer
from tui_agent.events import PlanDocConflict
from tui_agent.text import make_visible
from widgets.blocks.notice import plan_place_name
from widgets.dialog_frame import option_lines
from widgets.dialog_keys import Keys, held_label, key_spans
from widgets.request_view import RequestModal
from widgets.styled_text import Line, TextStyles, line, side_by_side, wrap

KEYS = Keys("conflict")
OPTIONS = (
    ("ours", "ours: use the agent's text", ""),
    ("theirs", "theirs: keep the file's text", ""),
    ("both", "both, one after the other", ""),
)
"""Action, its description and no rule, as for `option_lines`."""
SIDE_BY_SIDE_WIDTH = 84
"""Width from which the two texts are shown side by side."""


class ConflictModal(RequestModal):
    """Asks for the agent's text, the file's text, or both. There is no default, and Enter has no function."""

    @property
    def _conflict(self) -> PlanDocConflict:
        assert self.request.conflict is not None
        return self.request.conflict

    # --- what is shown ---

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        place = make_visible(plan_place_name(self._conflict.where), lookalikes=False)
        lines = wrap([("The agent and you both changed the plan", styles.heading)], width)
        return lines + wrap([(place, styles.muted)], width)

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        column_width = (width - 3) // 2 if width >= SIDE_BY_SIDE_WIDTH else width
        ours = self._text("ours · the agent's text", self._conflict.ours, column_width, styles)
        theirs = self._text("theirs · the text in the file", self._conflict.theirs, column_width, styles)
        if column_width == width:
            return [*ours, line(), *theirs]
        return side_by_side([ours, theirs], [column_width], [(" ", styles.text), ("│ ", styles.faint)], styles)

    @staticmethod
    def _text(title: str, text: str, width: int, styles: TextStyles) -> list[Line]:
        return [line((title, styles.muted)), *wrap([(make_visible(text, lookalikes=False), styles.text)], width)]

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        lines = option_lines(
            OPTIONS, lambda action: self.armed, KEYS.label, width, styles, held=held_label(self.held_key)
        )
        pairs = [("esc", "stops the run; nothing is written")]
        if hidden := self.body.lines_below:
            pairs.append((KEYS.arrow_labels("down"), f"{hidden} more lines"))
        return [*lines, line(), *wrap(key_spans(pairs, styles), width)]

    # --- keys ---

    def process_key(self, event: events.Key) -> bool:
        """Choose a text, or scroll; return False for a key without a function."""
        action = KEYS.action_for(event)
        if action in ("ours", "theirs", "both"):
            self.answer(Answer(verdict="approve", data={"take": action}))
        else:
            return self.body.scroll_for(action)
        return True
