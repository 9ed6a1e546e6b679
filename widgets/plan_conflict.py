"""The plan was changed by two at once: both texts, and the keys that say which one holds (P4)."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from tui_agent.domain import Answer
from tui_agent.text import visible
from tui_agent.view import Dispute
from widgets.blocks.notice import place
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, line, width_of, wrap
from widgets.line_view import LinesView
from widgets.modal import RequestModal, options

KEYS = Keys("conflict")
TAKES = ("ours", "theirs", "both")
ABREAST = 84
"""Columns from which on the two texts stand side by side."""


class ConflictModal(RequestModal):
    """Ours, theirs or both. No key is the default, and Enter decides nothing."""

    def compose(self) -> ComposeResult:
        """What it is about, the two texts, keys."""
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield LinesView(self._texts, id="body")
            yield LinesView(self._keys, id="keys")

    def on_resize(self) -> None:
        """The texts get what is left of the screen."""
        self.query_one("#body").styles.max_height = max(3, self.size.height - 13)
        self.call_after_refresh(self._repaint_keys)

    def listening(self) -> None:
        """Light the keys."""
        self._repaint_keys()

    def _repaint_keys(self) -> None:
        if self.is_mounted:
            self.query_one("#keys", LinesView).relayout()

    @property
    def _dispute(self) -> Dispute:
        return self.request.dispute or Dispute("", "", "")

    # --- what is shown ---

    def _head(self, width: int, ink: Ink) -> list[Line]:
        lines = wrap([("The plan was changed by two at once", ink.heading)], width)
        return lines + wrap([(visible(place(self._dispute.where), lookalikes=False), ink.muted)], width)

    def _texts(self, width: int, ink: Ink) -> list[Line]:
        dispute = self._dispute
        half = (width - 3) // 2 if width >= ABREAST else width
        ours = self._text("ours · what the agent writes", dispute.ours, half, ink)
        theirs = self._text("theirs · what the file says", dispute.theirs, half, ink)
        if half == width:
            return [*ours, line(), *theirs]
        height = max(len(ours), len(theirs))
        lines = []
        for at in range(height):
            left = _spans(ours[at], ink) if at < len(ours) else []
            right = _spans(theirs[at], ink) if at < len(theirs) else []
            gap = (" " * (half - width_of(left)) + " ", ink.text)
            lines.append(line(*left, gap, ("│ ", ink.faint), *right))
        return lines

    @staticmethod
    def _text(title: str, text: str, width: int, ink: Ink) -> list[Line]:
        return [line((title, ink.muted)), *wrap([(visible(text, lookalikes=False), ink.text)], width)]

    def _keys(self, width: int, ink: Ink) -> list[Line]:
        said = (
            ("ours", "ours: write what the agent says"),
            ("theirs", "theirs: leave what the file says"),
            ("both", "both, one after the other"),
        )
        pairs = [(key, text, "") for key, text in KEYS.pairs(said)]
        lines = options(pairs, width, ink, lit=lambda key: self.armed)
        body = self.query_one("#body", LinesView)
        hint: list[Span] = [("esc", ink.accent), (" stops the run; nothing is written", ink.muted)]
        if left := int(body.max_scroll_y - body.scroll_offset.y):
            hint += [(f"   {KEYS.arrows('down')}", ink.accent), (f" {left} more lines", ink.muted)]
        return [*lines, line(), *wrap(hint, width)]

    # --- keys ---

    def pressed(self, event: events.Key) -> None:
        """One of the three, or a look at the rest."""
        body = self.query_one("#body", LinesView)
        steps = {"up": -1, "down": 1, "top": -(10**6), "bottom": 10**6}
        action = KEYS.does(event)
        if action in TAKES:
            self.answer(Answer(verdict="approve", data={"take": action}))
        elif action in steps:
            body.scroll_to(y=body.scroll_offset.y + steps[action], animate=False)
            self._repaint_keys()


def _spans(one: Line, ink: Ink) -> list[Span]:
    return [(segment.text, segment.style or ink.text) for segment in one.segments]
