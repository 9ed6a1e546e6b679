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
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui_agent.common.domain import Answer
from tui_agent.common.workplan import CriterionChange, DecisionNote, Summary
from tui_agent.text import one_line
from widgets.blocks.plan import decision_text
from widgets.dialog_keys import Keys, context_bindings
from widgets.inputs import LineInput, PlainTextArea
from widgets.line_view import LinesView
from widgets.request_view import FieldsView, RequestPanel
from widgets.styled_text import Line, Span, TextStyles, fit, highlighted_line, justified_line, line, strip_untypable

KEYS = Keys("summary")
MADE, REJECTED = "+", "-"
"""Prefixes of the lines with decisions."""
ABOUT = re.compile(r"\s(?:—|–|--?)\s")
"""Separates a decision from its reason."""


class Ticks(LinesView, can_focus=True):
    """A checklist of criteria: up and down move, Space toggles."""

    def __init__(self, criteria: Sequence[CriterionChange], *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.criteria = list(criteria)
        self.index = 0

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        return [self._row(index, width, styles) for index in range(len(self.criteria))]

    def _row(self, index: int, width: int, styles: TextStyles) -> Line:
        criterion = self.criteria[index]
        mark: Span = ("[x] ", styles.ok) if criterion.completed else ("[ ] ", styles.muted)
        new: list[Span] = [("  new", styles.accent)] if criterion.added else []
        text = one_line(criterion.description, 1_000) + (
            f" · {one_line(criterion.notes, 500)}" if criterion.notes else ""
        )
        spans: list[Span] = [mark, (fit(text, max(1, width - 4 - 5 * len(new))), styles.text), *new]
        return highlighted_line(spans, styles) if self.has_focus and index == self.index else line(*spans)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.repaint()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.repaint()

    def on_key(self, event: events.Key) -> None:
        """Move or toggle; at the ends the arrows leave the field."""
        moves = {"up": -1, "down": 1}
        index = self.index + moves.get(event.key, 0)
        if event.key in moves and 0 <= index < len(self.criteria):
            self.index = index
        elif KEYS.action_for(event) == "tick":
            criterion = self.criteria[self.index]
            self.criteria[self.index] = msgspec.structs.replace(criterion, completed=not criterion.completed)
            self.post_message(Input.Changed(Input(), ""))
        else:
            return
        event.stop()
        event.prevent_default()
        self.repaint()


class SummaryEditor(RequestPanel):
    """Inputs for action, details, result, criteria and decisions, in Tab order."""

    BINDINGS: ClassVar[list[BindingType]] = [*context_bindings("summary", {"accept": "accept", "discard": "discard"})]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        offer = self.request.summary
        assert offer is not None
        self.offered = offer.summary
        self.by = offer.by
        self.start = self._restored("summary", self.offered)
        self._discarding = False
        """The discard key was pressed once."""

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, fields, keys."""
        summary = self.start
        yield LinesView(self._head, id="dock-head")
        with FieldsView(id="summary-place"), Grid(id="summary-fields"):
            yield _label("Action")
            yield _input(summary.action, "what was done", "action")
            yield _label("Details")
            yield _area(summary.details, "details")
            yield _label("Result")
            yield _input(summary.result, "outcome", "result")
            if summary.criteria:
                yield _label("Criteria")
                yield Ticks(summary.criteria, id="criteria")
            yield _label("Decisions")
            yield _area(decisions_text(summary), "decisions")
            for name, text in self._read_only_fields():
                yield _label(name)
                yield LinesView(lambda width, styles, text=text: [line((fit(text, width), styles.muted))])  # type: ignore[misc]  # a painter with its text bound
        yield LinesView(self.paint_keys, id="dock-keys")

    def _read_only_fields(self) -> list[tuple[str, str]]:
        pairs = [("Goal", self.offered.goal), ("Status", self.offered.status)]
        pairs.append(("Tools", ", ".join(self.offered.tools)))
        return [(name, one_line(text, 1_000)) for name, text in pairs if text]

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        left: list[Span] = [("Summary", styles.heading), (" · added to the plan when you accept it", styles.muted)]
        left += (
            [(" · edited", styles.accent)]
            if self.is_mounted and self.is_complete and self.summary() != self.offered
            else []
        )
        right: list[Span] = [("written by the program", styles.warn)] if self.by == "program" else []
        return [justified_line(left, right, width, styles)]

    def keys(self) -> list[tuple[str, str]]:
        """Return the keys for the focused field."""
        if self._discarding:
            return [(KEYS.label("discard"), "again to discard"), ("any other key", "keep")]
        pairs = [*KEYS.hints([("accept", "accept")]), ("tab", "edit" if self.has_focus else "next field")]
        if isinstance(self.screen.focused, Ticks):
            pairs += KEYS.hints([("tick", "ticks")])
        pairs += [] if self.has_focus else [("esc", "back")]
        return [*pairs, *KEYS.hints([("discard", "discard")])]

    def fields(self) -> Sequence[Widget]:
        """Return the fields in Tab order."""
        names = ("action", "details", "result", "criteria", "decisions")
        return [field for name in names for field in self.query(f"#summary-{name}, #{name}")]

    # --- content ---

    def summary(self) -> Summary:
        """Return the summary from the fields."""
        ticks = self.query(Ticks)
        details, decisions = (self.query_one(f"#{name}", TextArea).text for name in ("details", "decisions"))
        made, rejected = _decisions(decisions, self.offered)
        return msgspec.structs.replace(
            self.offered,
            action=self.query_one("#action", Input).value.strip(),
            details=details.strip() if details.strip() != self.offered.details.strip() else self.offered.details,
            result=self.query_one("#result", Input).value.strip(),
            criteria=tuple(ticks.first().criteria) if ticks else self.offered.criteria,
            decisions_made=made,
            decisions_rejected=rejected,
        )

    def draft_data(self) -> dict[str, Any]:
        """Return the edited summary."""
        return {"summary": msgspec.to_builtins(self.summary())}

    # --- keys ---

    def action_accept(self) -> None:
        """Accept the summary, with edits."""
        if not self.armed and self.has_focus:
            return
        summary = self.summary()
        edited = summary != self.offered
        self.answer(Answer(verdict="approve", data={"summary": msgspec.to_builtins(summary)} if edited else None))

    def action_discard(self) -> None:
        """Discard on the second press; a held key counts as one press."""
        still = self.clock() - self._quiet_since >= self.stillness
        if self._discarding and still:
            self.answer(Answer(verdict="reject"))
            return
        self._discarding = self._discarding or self.armed or not self.has_focus
        self._quiet_since = self.clock()
        self.repaint_keys()

    async def on_event(self, event: events.Event) -> None:
        """Cancel the discard on any other key."""
        if self._discarding and isinstance(event, events.Key | events.Paste):
            self._cancel_discard()
        await super().on_event(event)

    def _cancel_discard(self) -> None:
        self._discarding = False
        self.repaint_keys()

    def process_key(self, event: events.Key) -> bool:
        """Focus the first field on Enter."""
        if event.key in ("enter", "down"):
            self.focus_field(1)
            return True
        return False

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
    def _field_edited(self, event: Input.Changed | TextArea.Changed) -> None:
        """Save the draft and update the head."""
        event.stop()
        if not self.is_complete:
            return
        if self._discarding:
            self._cancel_discard()
        if self.summary() != self.start:
            self.start = self.summary()
            self.schedule_save()
        self.query_one("#dock-head", LinesView).relayout()


def _label(text: str) -> LinesView:
    label = LinesView(lambda width, styles: [line((text, styles.muted))])
    label.add_class("summary-label")
    return label


def _input(text: str, placeholder: str, id: str) -> LineInput:
    field = LineInput(id=id, placeholder=placeholder)
    field.value = strip_untypable(" ".join(text.split("\n")))
    return field


def _area(text: str, id: str) -> TextArea:
    area = PlainTextArea(strip_untypable(text), id=id)
    area.move_cursor(area.document.end)
    return area


def decisions_text(summary: Summary) -> str:
    """Format decisions as lines: `+ made — why`, `- rejected — why`."""
    lines = [f"{MADE} {decision_text(decision)}" for decision in summary.decisions_made]
    lines += [f"{REJECTED} {decision_text(decision)}" for decision in summary.decisions_rejected]
    return "\n".join(lines)


def _decisions(text: str, offered: Summary) -> tuple[tuple[DecisionNote, ...], tuple[DecisionNote, ...]]:
    """Parse decisions as (made, rejected). An unchanged line keeps all fields of the offered decision."""
    cached = {decision_text(decision): decision for decision in (*offered.decisions_made, *offered.decisions_rejected)}
    made: list[DecisionNote] = []
    rejected: list[DecisionNote] = []
    for raw in text.split("\n"):
        row = raw.strip()
        if not row.strip("+- "):
            continue
        target = rejected if row.startswith(REJECTED) else made
        row = row[1:].strip() if row[0] in (MADE, REJECTED) else row
        title, *why = ABOUT.split(row, maxsplit=1)
        target.append(cached.get(row) or DecisionNote(title=title.strip(), rationale="".join(why).strip()))
    return tuple(made), tuple(rejected)
