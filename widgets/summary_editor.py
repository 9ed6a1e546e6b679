"""What of the run shall become memory, edited in place: accept it, or discard it (W9).

Letters only ever type. One key accepts; another one discards when it is pressed a second time.
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
from widgets.styled_text import Line, Span, TextStyles, fit, highlighted_line, justified_line, line, typable

KEYS = Keys("summary")
MADE, REJECTED = "+", "-"
"""How a line of the decisions begins."""
ABOUT = re.compile(r"\s(?:—|–|--?)\s")
"""Between a decision and its reason."""


class Ticks(LinesView, can_focus=True):
    """Criteria with a tick each: up and down move, Space ticks."""

    def __init__(self, criteria: Sequence[CriterionChange], *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.criteria = list(criteria)
        self.place = 0

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        return [self._row(place, width, styles) for place in range(len(self.criteria))]

    def _row(self, place: int, width: int, styles: TextStyles) -> Line:
        one = self.criteria[place]
        mark: Span = ("[x] ", styles.ok) if one.completed else ("[ ] ", styles.muted)
        new: list[Span] = [("  new", styles.accent)] if one.added else []
        text = one_line(one.description, 1_000) + (f" · {one_line(one.notes, 500)}" if one.notes else "")
        spans: list[Span] = [mark, (fit(text, max(1, width - 4 - 5 * len(new))), styles.text), *new]
        return highlighted_line(spans, styles) if self.has_focus and place == self.place else line(*spans)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.repaint()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.repaint()

    def on_key(self, event: events.Key) -> None:
        """Move and tick; at the ends the arrows go on to the next field."""
        moves = {"up": -1, "down": 1}
        place = self.place + moves.get(event.key, 0)
        if event.key in moves and 0 <= place < len(self.criteria):
            self.place = place
        elif KEYS.does(event) == "tick":
            one = self.criteria[self.place]
            self.criteria[self.place] = msgspec.structs.replace(one, completed=not one.completed)
            self.post_message(Input.Changed(Input(), ""))
        else:
            return
        event.stop()
        event.prevent_default()
        self.repaint()


class SummaryEditor(RequestPanel):
    """Action, details, result, criteria, decisions: real inputs, one Tab after the other."""

    BINDINGS: ClassVar[list[BindingType]] = [*context_bindings("summary", {"accept": "accept", "discard": "discard"})]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        offer = self.request.offer
        assert offer is not None
        self.offered = offer.summary
        self.by = offer.by
        self.start = self._restored("summary", self.offered)
        self._discarding = False
        """The key that discards was the last one."""

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, a field under the other, keys."""
        one = self.start
        yield LinesView(self._head, id="dock-head")
        with FieldsView(id="summary-place"), Grid(id="summary-fields"):
            yield _label("Action")
            yield _input(one.action, "what was done", "action")
            yield _label("Details")
            yield _area(one.details, "details")
            yield _label("Result")
            yield _input(one.result, "outcome", "result")
            if one.criteria:
                yield _label("Criteria")
                yield Ticks(one.criteria, id="criteria")
            yield _label("Decisions")
            yield _area(decisions_text(one), "decisions")
            for name, text in self._fixed():
                yield _label(name)
                yield LinesView(lambda width, styles, text=text: [line((fit(text, width), styles.muted))])  # type: ignore[misc]  # a painter with its text bound
        yield LinesView(self.paint_keys, id="dock-keys")

    def _fixed(self) -> list[tuple[str, str]]:
        pairs = [("Goal", self.offered.goal), ("Status", self.offered.status)]
        pairs.append(("Tools", ", ".join(self.offered.tools)))
        return [(name, one_line(text, 1_000)) for name, text in pairs if text]

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        left: list[Span] = [("Summary", styles.heading), (" · added to the plan when you accept it", styles.muted)]
        left += (
            [(" · edited", styles.accent)] if self.is_mounted and self.whole and self.summary() != self.offered else []
        )
        right: list[Span] = [("written by the program", styles.warn)] if self.by == "program" else []
        return [justified_line(left, right, width, styles)]

    def keys(self) -> list[tuple[str, str]]:
        """Those of the field with the focus."""
        if self._discarding:
            return [(KEYS.of("discard"), "again to discard"), ("any other key", "keep")]
        pairs = [*KEYS.pairs([("accept", "accept")]), ("tab", "edit" if self.has_focus else "next field")]
        if isinstance(self.screen.focused, Ticks):
            pairs += KEYS.pairs([("tick", "ticks")])
        pairs += [] if self.has_focus else [("esc", "back")]
        return [*pairs, *KEYS.pairs([("discard", "discard")])]

    def fields(self) -> Sequence[Widget]:
        """In the order in which they stand."""
        names = ("action", "details", "result", "criteria", "decisions")
        return [one for name in names for one in self.query(f"#summary-{name}, #{name}")]

    # --- what it says now ---

    def summary(self) -> Summary:
        """The summary as it stands in the fields."""
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

    def kept(self) -> dict[str, Any]:
        """All fields as they stand."""
        return {"summary": msgspec.to_builtins(self.summary())}

    # --- keys ---

    def action_accept(self) -> None:
        """Take it as it stands."""
        if not self.armed and self.has_focus:
            return
        summary = self.summary()
        edited = summary != self.offered
        self.answer(Answer(verdict="approve", data={"summary": msgspec.to_builtins(summary)} if edited else None))

    def action_discard(self) -> None:
        """The first press asks, the second one does it; a key that is held down is one press."""
        still = self.clock() - self._quiet_since >= self.stillness
        if self._discarding and still:
            self.answer(Answer(verdict="reject"))
            return
        self._discarding = self._discarding or self.armed or not self.has_focus
        self._quiet_since = self.clock()
        self.show_keys()

    async def on_event(self, event: events.Event) -> None:
        """Any other key takes the question back."""
        if self._discarding and isinstance(event, events.Key | events.Paste):
            self._keep_it()
        await super().on_event(event)

    def _keep_it(self) -> None:
        self._discarding = False
        self.show_keys()

    def pressed(self, event: events.Key) -> bool:
        """Enter goes to the first field."""
        if event.key in ("enter", "down"):
            self.next_field(1)
            return True
        return False

    def escape(self) -> None:
        """To the composer, where Esc stops the run: it takes one more than leaving a field does."""
        self.screen.query_one("#prompt").focus()

    def unmeant(self, event: events.Key) -> None:
        """Letters are for the composer."""
        self.typed_ahead(event)

    def in_field(self, event: events.Key) -> bool:
        """Tab and Esc; the arrows where a field has one line."""
        if event.key == "escape":
            self.take_back()
        elif event.key in ("tab", "shift+tab", "down", "up"):
            self.next_field(1 if event.key in ("tab", "down") else -1)
        else:
            return False
        return True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on; it never accepts."""
        event.stop()
        self.next_field(1)

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _touched(self, event: Input.Changed | TextArea.Changed) -> None:
        """What is typed survives a crash."""
        event.stop()
        if not self.whole:
            return
        if self._discarding:
            self._keep_it()
        if self.summary() != self.start:
            self.start = self.summary()
            self.changed()
        self.query_one("#dock-head", LinesView).relayout()


def _label(text: str) -> LinesView:
    label = LinesView(lambda width, styles: [line((text, styles.muted))])
    label.add_class("summary-label")
    return label


def _input(text: str, placeholder: str, id: str) -> LineInput:
    field = LineInput(id=id, placeholder=placeholder)
    field.value = typable(" ".join(text.split("\n")))
    return field


def _area(text: str, id: str) -> TextArea:
    area = PlainTextArea(typable(text), id=id)
    area.move_cursor(area.document.end)
    return area


def decisions_text(summary: Summary) -> str:
    """A line each: `+ made — why`, `- rejected — why`."""
    lines = [f"{MADE} {decision_text(one)}" for one in summary.decisions_made]
    lines += [f"{REJECTED} {decision_text(one)}" for one in summary.decisions_rejected]
    return "\n".join(lines)


def _decisions(text: str, offered: Summary) -> tuple[tuple[DecisionNote, ...], tuple[DecisionNote, ...]]:
    """Decisions made and rejected. A line that was left as it was keeps all that it stood for."""
    known = {decision_text(one): one for one in (*offered.decisions_made, *offered.decisions_rejected)}
    made: list[DecisionNote] = []
    rejected: list[DecisionNote] = []
    for raw in text.split("\n"):
        row = raw.strip()
        if not row.strip("+- "):
            continue
        place = rejected if row.startswith(REJECTED) else made
        row = row[1:].strip() if row[0] in (MADE, REJECTED) else row
        title, *why = ABOUT.split(row, maxsplit=1)
        place.append(known.get(row) or DecisionNote(title=title.strip(), rationale="".join(why).strip()))
    return tuple(made), tuple(rejected)
