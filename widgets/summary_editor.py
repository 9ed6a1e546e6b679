"""The summary of a run, edited in place before it is added to the plan: accept or discard it (W9).

Letters always type. One key accepts; another discards when pressed twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui_agent.common.domain import Answer
from tui_agent.common.workplan import CriterionChange, DecisionNote, Summary
from tui_agent.text import one_line
from widgets.blocks.plan import decision_text
from widgets.dialog_keys import Keys, context_bindings
from widgets.inputs import LineInput, PlainTextArea
from widgets.line_view import LinesView
from widgets.request_body import FieldsView
from widgets.request_view import PRESSED_TOO_SOON, RequestPanel
from widgets.styled_text import Line, Span, TextStyles, fit, highlighted_line, justified_line, line, strip_untypable

KEYS = Keys("summary")
SCROLLS = {"pageup": "scroll_page_up", "pagedown": "scroll_page_down", "home": "scroll_home", "end": "scroll_end"}
"""Keys that scroll the fields while none has the focus, and how."""
MADE, REJECTED = "+", "-"
"""Prefixes of the lines with decisions."""
REASON_SEPARATOR = re.compile(r"\s(?:—|–|--?)\s")
"""Separates a decision from its reason."""


class Ticks(LinesView, can_focus=True):
    """A checklist of criteria: up and down move, Space toggles."""

    class Changed(Message):
        """A criterion was toggled."""

    def __init__(self, criteria: Sequence[CriterionChange], *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.criteria = list(criteria)
        self.cursor = 0

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        return [self._paint_row(index, width, styles) for index in range(len(self.criteria))]

    def _paint_row(self, index: int, width: int, styles: TextStyles) -> Line:
        criterion = self.criteria[index]
        mark: Span = ("[x] ", styles.ok) if criterion.completed else ("[ ] ", styles.muted)
        new: list[Span] = [("  new", styles.accent)] if criterion.added else []
        text = one_line(criterion.description, 1_000)
        text += f" · {one_line(criterion.notes, 500)}" if criterion.notes else ""
        spans: list[Span] = [mark, (fit(text, max(1, width - 4 - 5 * len(new))), styles.text), *new]
        return highlighted_line(spans, styles) if self.has_focus and index == self.cursor else line(*spans)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.repaint()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.repaint()

    def on_key(self, event: events.Key) -> None:
        """Move or toggle; at the ends the arrows leave the field."""
        moves = {"up": -1, "down": 1}
        index = self.cursor + moves.get(event.key, 0)
        if event.key in moves and 0 <= index < len(self.criteria):
            self.cursor = index
        elif KEYS.action_for(event) == "tick":
            criterion = self.criteria[self.cursor]
            self.criteria[self.cursor] = msgspec.structs.replace(criterion, completed=not criterion.completed)
            self.post_message(self.Changed())
        else:
            return
        event.stop()
        event.prevent_default()
        self.repaint()


class SummaryEditor(RequestPanel):
    """Inputs for action, details, result, criteria and decisions, in Tab order."""

    BINDINGS: ClassVar[list[BindingType]] = [*context_bindings("summary", {"accept": "accept", "discard": "discard"})]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self.request.summary is not None
        self.proposed = self.request.summary.summary
        self._by_program = self.request.summary.by == "program"
        self._discard_pressed = False
        self._unseen_note = ""
        """The note that says what was not seen when the summary should have been accepted."""
        summary = self._restored("summary", self.proposed)
        self._head = LinesView(self._paint_head, id="dock-head")
        self._action = _line_input(summary.action, "what was done", "action")
        self._details = _text_area(summary.details, "details")
        self._result = _line_input(summary.result, "outcome", "result")
        self._ticks = Ticks(summary.criteria, id="criteria")
        self._decisions = _text_area(format_decisions(summary), "decisions")
        self._last_summary = summary
        self._place = FieldsView(id="summary-place")

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, fields, keys."""
        labels = ("Action", "Details", "Result", *(["Criteria"] if self._ticks.criteria else []), "Decisions")
        yield self._head
        with self._place, Grid(id="summary-fields"):
            for name, field in zip(labels, self.fields(), strict=True):
                yield _label(name)
                yield field
            for name, text in self._read_only_fields():
                yield _label(name)
                yield _muted_text(text)
        yield LinesView(self.paint_keys, id="dock-keys")

    def _read_only_fields(self) -> list[tuple[str, str]]:
        pairs = [("Goal", self.proposed.goal), ("Status", self.proposed.status)]
        pairs.append(("Tools", ", ".join(self.proposed.tools)))
        return [(name, one_line(text, 1_000)) for name, text in pairs if text]

    def _paint_head(self, width: int, styles: TextStyles) -> list[Line]:
        left: list[Span] = [("Summary", styles.heading), (" · added to the plan when you accept it", styles.muted)]
        left += [(" · edited", styles.accent)] if self.summary() != self.proposed else []
        right: list[Span] = [("written by the program", styles.warn)] if self._by_program else []
        return [justified_line(left, right, width, styles)]

    def keys(self) -> list[tuple[str, str]]:
        """Return the keys for the focused field."""
        if self._discard_pressed:
            return [(KEYS.label("discard"), "again to discard"), ("any other key", "keeps it")]
        accept = "show the rest" if self.unseen() else "accept"
        pairs = [*KEYS.hints([("accept", accept)]), ("tab", "edit" if self.has_focus else "next field")]
        if self.screen.focused is self._ticks:
            pairs += KEYS.hints([("tick", "ticks")])
        pairs += [] if self.has_focus else [("esc", "back")]
        return [*pairs, *KEYS.hints([("discard", "discard")])]

    def fields(self) -> Sequence[Widget]:
        """Return the fields in Tab order."""
        ticks = [self._ticks] if self._ticks.criteria else []
        return [self._action, self._details, self._result, *ticks, self._decisions]

    # --- content ---

    def summary(self) -> Summary:
        """Return the summary from the fields."""
        details = self._details.text.strip()
        made, rejected = _parse_decisions(self._decisions.text, self.proposed)
        return msgspec.structs.replace(
            self.proposed,
            action=self._action.value.strip(),
            details=details if details != self.proposed.details.strip() else self.proposed.details,
            result=self._result.value.strip(),
            criteria=tuple(self._ticks.criteria),
            decisions_made=made,
            decisions_rejected=rejected,
        )

    def draft_data(self) -> dict[str, Any]:
        """Return the edited summary."""
        return {"summary": msgspec.to_builtins(self.summary())}

    # --- keys ---

    def action_accept(self) -> None:
        """Accept the summary, with edits, once all of it was in sight; before that, show what was not."""
        if not self.armed and self.has_focus:
            return
        self._place.note_seen()
        if not self.check_seen():
            if text := self.unseen_text():
                self._unseen_note = f"{text}: {KEYS.labels('accept')} shows them, then accepts"
            self.tell(self._unseen_note if text else PRESSED_TOO_SOON)
            return
        self.answer(Answer(verdict="approve", data=self.draft_data() if self.summary() != self.proposed else None))

    def on_line_view_seen(self) -> None:
        """Update what is still to be seen, and remove the note about it once that is nothing."""
        if not self.unseen() and self.note == self._unseen_note:
            self.tell("")
        super().on_line_view_seen()

    def action_discard(self) -> None:
        """Discard on the second press; a held key counts as one press."""
        is_new_press = self.clock() - self._quiet_since >= self.quiet_seconds
        if self._discard_pressed and is_new_press:
            self.answer(Answer(verdict="reject"))
            return
        self._discard_pressed = self._discard_pressed or self.armed or not self.has_focus
        self._quiet_since = self.clock()
        self.repaint_keys()

    async def on_event(self, event: events.Event) -> None:
        """Cancel the discard on any other key."""
        if isinstance(event, events.Key | events.Paste):
            self._cancel_discard()
        await super().on_event(event)

    def _cancel_discard(self) -> None:
        if self._discard_pressed:
            self._discard_pressed = False
            self.repaint_keys()

    def process_key(self, event: events.Key) -> bool:
        """Focus the first field on Enter, and scroll."""
        if event.key in ("enter", "down"):
            self.focus_field(1)
            return True
        if event.key in SCROLLS:
            if self.unseen() and event.key in ("pagedown", "end"):  # also what a long text hides
                self.show_unseen()
            else:
                getattr(self._place, SCROLLS[event.key])(animate=False)
            self.call_after_refresh(self.repaint_keys)
            return True
        return False

    def unseen(self) -> int:
        """Return how many lines were never in sight."""
        return len(self._place.unseen())

    def show_unseen(self) -> None:
        """Scroll to the first of them."""
        self._place.show_unseen()

    def escape(self) -> None:
        """Focus the composer, where Esc stops the run."""
        self.screen.query_one("#prompt").focus()

    def unbound_key(self, event: events.Key) -> None:
        """Send letters to the draft."""
        self.forward_to_draft(event)

    def handle_field_key(self, event: events.Key) -> bool:
        """Handle Tab, Esc and the arrows of one-line fields."""
        if event.key == "escape":
            self.regain_focus()
        elif event.key in ("tab", "shift+tab", "down", "up"):
            self.focus_field(1 if event.key in ("tab", "down") else -1)
        else:
            return False
        return True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Focus the next field; Enter never accepts."""
        event.stop()
        self.focus_field(1)

    @on(Input.Changed)
    @on(TextArea.Changed)
    @on(Ticks.Changed)
    def _on_field_changed(self, event: Message) -> None:
        """Save the draft and update the head."""
        event.stop()
        if not self.is_complete:
            return
        self._cancel_discard()
        summary = self.summary()
        if summary != self._last_summary:
            self._last_summary = summary
            self.schedule_save()
        self._head.relayout()


def _label(text: str) -> LinesView:
    label = _muted_text(text)
    label.add_class("summary-label")
    return label


def _muted_text(text: str) -> LinesView:
    return LinesView(lambda width, styles: [line((fit(text, width), styles.muted))])


def _line_input(text: str, placeholder: str, id: str) -> LineInput:
    field = LineInput(id=id, placeholder=placeholder)
    field.value = strip_untypable(" ".join(text.split("\n")))
    return field


def _text_area(text: str, id: str) -> TextArea:
    area = PlainTextArea(strip_untypable(text), id=id)
    area.move_cursor(area.document.end)
    return area


def format_decisions(summary: Summary) -> str:
    """Format decisions as lines: `+ made — why`, `- rejected — why`."""
    lines = [f"{MADE} {decision_text(decision)}" for decision in summary.decisions_made]
    lines += [f"{REJECTED} {decision_text(decision)}" for decision in summary.decisions_rejected]
    return "\n".join(lines)


def _parse_decisions(text: str, proposed: Summary) -> tuple[tuple[DecisionNote, ...], tuple[DecisionNote, ...]]:
    """Parse decisions as (made, rejected). An unchanged line keeps all fields of the proposed decision."""
    decisions = (*proposed.decisions_made, *proposed.decisions_rejected)
    unchanged = {decision_text(decision): decision for decision in decisions}
    made: list[DecisionNote] = []
    rejected: list[DecisionNote] = []
    for row in map(str.strip, text.split("\n")):
        if not row.strip("+- "):
            continue
        target = rejected if row.startswith(REJECTED) else made
        decision = row[1:].strip() if row[0] in (MADE, REJECTED) else row
        title, *why = REASON_SEPARATOR.split(decision, maxsplit=1)
        target.append(unchanged.get(decision) or DecisionNote(title=title.strip(), rationale="".join(why).strip()))
    return tuple(made), tuple(rejected)
