"""The plan before anything runs: approve, edit, pick another way, reject with a reason (W5)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Region
from textual.widgets import Input

from tui_agent.domain import Answer
from tui_agent.text import one_line
from tui_agent.view import Proposal
from tui_agent.workplan import InstructionPlan
from widgets.blocks.plan import LABEL, UNSURE, plan_lines, steps_of
from widgets.dialog_keys import Keys
from widgets.docked import Body, Docked
from widgets.ink import Ink, Line, Span, fit, line, typable, width_of, wrap
from widgets.line_view import LinesView
from widgets.modal import LineInput
from widgets.plan_edit import PlanEdit, Row
from widgets.status_line import apart

LABELS = {"expected": "expect", "fallback": "if not", "command": "check $"}
REVIEW, STEPS = Keys("review"), Keys("steps")
OTHERS = ("1", "2", "3", "4", "5")
"""Keys of the other ways."""
MOVES = {"up": -1, "down": 1, "top": -(10**6), "bottom": 10**6}
INDENT = 3
"""Cells in front of what belongs to a step."""


class PlanReview(Docked):
    """Looking: a, e, r and numbers. Editing: a list of rows, one of them a real input on demand."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.proposal: Proposal = self.request.proposal or Proposal(InstructionPlan(approach=""))
        self.edit = PlanEdit(_restored(self.draft) or self.proposal.plan)
        self.state: Literal["look", "list", "field", "reason"] = "look"
        self._row: Row | None = None
        """The row in the input."""
        self._typed = ""
        """What the input said at first."""

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, plan with the input over it, reason, keys."""
        yield LinesView(self._head, id="dock-head")
        with Container(id="plan-place"):
            yield Body(self._body, id="plan-body")
            yield self._hidden(LineInput(id="plan-input"))
        yield self._hidden(LineInput(id="plan-reason", placeholder="why not? the model reads it"))
        yield LinesView(self.paint_keys, id="dock-keys")

    @staticmethod
    def _hidden(field: LineInput) -> LineInput:
        field.display = False
        return field

    @property
    def edited(self) -> bool:
        """True when the plan is not as it was proposed."""
        return self.edit.plan != self.proposal.plan

    def _head(self, width: int, ink: Ink) -> list[Line]:
        plan, proposal = self.edit.plan, self.proposal
        name = "A new plan after the failure" if proposal.recovery else "Plan"
        left: list[Span] = [(name, ink.heading), (f" · {steps_of(plan)}", ink.muted)]
        left += [(" · edited", ink.accent)] if self.edited else []
        left += [(f" · {one_line(proposal.why, 400)}", ink.muted)] if proposal.why else []
        left += [(" · made before", ink.muted)] if proposal.cached else []
        style = ink.warn if plan.confidence < UNSURE else ink.muted
        lines = [apart(left, [(f"confidence {plan.confidence:.0%}", style)], width, ink)]
        if proposal.fallback and self.state == "look":
            lines += wrap([("No usable plan came: this is the request as one step.", ink.warn)], width)[:2]
        return lines

    def _body(self, width: int, ink: Ink) -> list[Line]:
        if self.state in ("look", "reason"):
            return plan_lines(self.edit.plan, width, ink)
        return [self._paint_row(place, row, width, ink) for place, row in enumerate(self.edit.rows)]

    def _paint_row(self, place: int, row: Row, width: int, ink: Ink) -> Line:
        text = self.edit.text(row)
        if row.field == "description":
            step = self.edit.plan.steps[row.step]
            head: list[Span] = [(f"{step.number:>2} ", ink.accent)]
            marks: list[Span] = [(f"  {one_line(step.tool, 40)}", ink.muted)] if step.tool else []
            marks += [(f"  unsure {step.confidence:.0%}", ink.warn)] if step.confidence < UNSURE else []
        else:
            head, marks = [(" " * INDENT + f"{LABELS[row.field]:<{LABEL}}", ink.muted)], []
        style = ink.text if row.field in ("description", "command") else ink.muted
        room = width - width_of(head) - width_of(marks)
        body: Span = (fit(text, max(1, room)), style) if text else ("—", ink.faint)
        if place != self.edit.row:
            return line(*head, body, *marks)
        ground = Style(bgcolor=ink.panel.bgcolor)
        return line(*((part, one + ground) for part, one in (*head, body, *marks)), fill=ink.panel)

    def _again(self) -> None:
        """Paint all of it after a change."""
        if not self.whole:
            return
        for name in ("#dock-head", "#plan-body", "#dock-keys"):
            self.query_one(name, LinesView).relayout()
        if self.state in ("list", "field"):
            self.call_after_refresh(self._show_row)

    def _show_row(self) -> None:
        if not self.whole:
            return
        body = self.query_one("#plan-body", Body)
        body.scroll_to_region(Region(0, self.edit.row, 1, 1), animate=False, force=True)
        self._place_input()

    def _place_input(self) -> None:
        """The input lies over its row."""
        if self._row is None or not self.whole:
            return
        body, field = self.query_one("#plan-body", Body), self.query_one("#plan-input", LineInput)
        left = INDENT if self._row.field == "description" else INDENT + LABEL
        field.styles.offset = (left, self.edit.row - int(body.scroll_offset.y))
        field.styles.width = max(4, body.columns - left)

    def on_resize(self) -> None:
        """The row may stand elsewhere, and more or less is in sight."""
        self.call_after_refresh(self._place_input)
        self.call_after_refresh(self.show_keys)

    def keys(self) -> list[tuple[str, str]]:
        """Those of the state."""
        if self.state == "reason":
            return [("enter", "rejects"), ("esc", "goes back")]
        if self.state == "field":
            return [("enter", "takes it"), ("tab", "next"), ("esc", "leaves the field")]
        if self.state == "list":
            moves = STEPS.both("move_up", "move_down")
            pairs = [*STEPS.pairs([("reword", "reword")]), *([(moves, "move")] if moves else [])]
            return [*pairs, *STEPS.pairs([("drop", "drop"), ("add", "add")]), ("esc", "done")]
        others = len(self.proposal.plan.alternatives[:5])
        pairs = REVIEW.pairs([("approve", "approve" + " as edited" * self.edited), ("edit", "edit")])
        pairs += [("1" if others == 1 else f"1–{others}", "another way")] if others else []
        pairs += REVIEW.pairs([("reject", "reject")])
        body = self.query_one("#plan-body", Body)
        if left := int(body.max_scroll_y - body.scroll_offset.y):
            pairs.append((REVIEW.arrows("down"), f"{left} more line{'s' * (left > 1)}"))
        return [*pairs, ("esc", "stops the run")]

    # --- keys ---

    def pressed(self, event: events.Key) -> bool:
        """By the state; nothing but the offered letters decides."""
        if self.state in ("field", "reason"):
            return self._late(event)
        if self.state == "list":
            return self._list(STEPS.does(event))
        if event.key in OTHERS:
            return self._take_other(int(event.key))
        return self._look(REVIEW.does(event))

    def _late(self, event: events.Key) -> bool:
        """A key that was on its way here when the field opened."""
        field = self.query_one("#plan-input" if self.state == "field" else "#plan-reason", LineInput)
        if event.key == "enter" and self.state == "field":
            self._close_field()
        elif event.is_printable and event.character:
            field.insert_text_at_cursor(event.character)
        return True

    def _take_other(self, number: int) -> bool:
        if there := number <= len(self.proposal.plan.alternatives):
            self.answer(Answer(verdict="approve", data={"alternative": number - 1}))
        return there

    def _look(self, action: str) -> bool:
        match action:
            case "approve":
                data = {"plan": msgspec.to_builtins(self.edit.plan), "edited": True} if self.edited else None
                self.answer(Answer(verdict="approve", data=data))
            case "edit":
                self._enter("list")
            case "reject":
                self._enter("reason")
            case "up" | "down" | "top" | "bottom":
                body = self.query_one("#plan-body", Body)
                body.scroll_to(y=body.scroll_offset.y + MOVES[action], animate=False)
                self.call_after_refresh(self.show_keys)
            case _:
                return False
        return True

    def _list(self, action: str) -> bool:
        edit = self.edit
        if action in MOVES:
            edit.row = max(0, min(len(edit.rows) - 1, edit.row + MOVES[action]))
            self._again()
            return True
        match action:
            case "move_up" | "move_down":
                edit.move(-1 if action == "move_up" else 1)
            case "drop":
                edit.drop()
            case "add":
                edit.add()
                self._open_field()
            case "reword":
                self._open_field()
            case _:
                return False
        self.changed()
        self._again()
        return True

    def escape(self) -> None:
        """Out of the list; from there, stop the run."""
        if self.state == "field":
            self._close_field()
        elif self.state == "look":
            self.interrupt()
        else:
            self._enter("look")
            self.hush()

    def _enter(self, state: Literal["look", "list", "field", "reason"]) -> None:
        self.state = state
        reason = self.query_one("#plan-reason", LineInput)
        reason.display = state == "reason"
        body = self.query_one("#plan-body", Body)
        body.less = 2 if state == "reason" else 0
        body.refresh(layout=True)
        if state == "reason":
            self.screen.set_focus(reason)
        self._again()

    # --- the fields ---

    def _open_field(self) -> None:
        self._row = self.edit.now
        field = self.query_one("#plan-input", LineInput)
        self.state = "field"
        field.value = self._typed = typable(self.edit.text(self._row))
        field.cursor_position = len(field.value)
        field.display = True
        self.screen.set_focus(field)
        self._again()

    def _close_field(self) -> None:
        field = self.query_one("#plan-input", LineInput)
        if self._row is not None:
            if field.value != self._typed:
                self.edit.write(self._row, field.value)
            self._row = None
            self.edit.tidy()
        field.display = False
        self.state = "list"
        self.take_back()
        self.changed()
        self._again()

    def in_field(self, event: events.Key) -> bool:
        """Esc and Tab; nothing that is typed decides."""
        if event.key == "escape":
            if self.state == "field":
                self._close_field()
            else:
                self._enter("look")
                self.focus()
            return True
        if event.key in ("tab", "shift+tab", "up", "down") and self.state == "field":
            step = -1 if event.key in ("shift+tab", "up") else 1
            self._close_field()
            self.edit.row = max(0, min(len(self.edit.rows) - 1, self.edit.row + step))
            self._open_field()
            return True
        return event.key == "tab"

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter takes the text; in the reason it rejects."""
        event.stop()
        if event.input.id == "plan-reason":
            self.answer(Answer(verdict="reject", text=event.value.strip()))
        else:
            self._close_field()

    def on_input_changed(self, event: Input.Changed) -> None:
        """What is typed survives a crash."""
        event.stop()
        if self.state == "field":
            self.changed()

    def kept(self) -> dict[str, Any]:
        """The plan with what stands in the input."""
        edit = PlanEdit(self.edit.plan)
        if self._row is not None:
            edit.write(self._row, self.query_one("#plan-input", LineInput).value)
        edit.tidy()
        return {"plan": msgspec.to_builtins(edit.plan)}


def _restored(draft: dict[str, Any] | None) -> InstructionPlan | None:
    try:
        return msgspec.convert((draft or {})["plan"], InstructionPlan)
    except (KeyError, msgspec.ValidationError):
        return None
