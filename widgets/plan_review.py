"""The review of a plan: approve it, edit its steps, choose an alternative, or reject it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Region
from textual.widgets import Input

from tui_agent.common.domain import Answer
from tui_agent.common.workplan import InstructionPlan, PlanStep
from tui_agent.text import one_line, pluralize
from widgets.blocks.plan import LABEL_WIDTH, MIN_CONFIDENCE, plan_lines
from widgets.dialog_keys import Keys
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.request_view import Body, RequestPanel
from widgets.styled_text import (
    Line,
    Span,
    TextStyles,
    fit,
    highlighted_line,
    justified_line,
    line,
    strip_untypable,
    width_of,
    wrap,
)

Field: TypeAlias = Literal["description", "expected", "fallback", "command"]
STEP_FIELDS: tuple[Field, ...] = ("description", "expected", "fallback")


class StepRow(NamedTuple):
    """An editable line; `step` is an index into the plan's steps, -1 for the check command."""

    step: int
    field: Field


class StepsEditor:
    """Edits the steps of `plan`, which stays valid: steps are renumbered after each edit."""

    def __init__(self, plan: InstructionPlan) -> None:
        self.plan = plan
        self.row = 0

    @property
    def rows(self) -> list[StepRow]:
        """All editable rows in order."""
        found = [StepRow(index, field) for index in range(len(self.plan.steps)) for field in STEP_FIELDS]
        return [*found, StepRow(-1, "command")]

    @property
    def now(self) -> StepRow:
        """The row with the cursor."""
        rows = self.rows
        self.row = max(0, min(self.row, len(rows) - 1))
        return rows[self.row]

    def text(self, row: StepRow) -> str:
        """Return the text of a row."""
        if row.field == "command":
            return self.plan.check.command
        return str(getattr(self.plan.steps[row.step], row.field))

    def write(self, row: StepRow, text: str) -> None:
        """Change the text of a row; an empty description is ignored."""
        text = " ".join(text.split())
        if row.field == "command":
            self.plan = replace(self.plan, check=replace(self.plan.check, command=text))
        elif text or row.field != "description":
            steps = list(self.plan.steps)
            steps[row.step] = replace(steps[row.step], **{row.field: text})
            self._set(steps)

    def move(self, direction: int) -> bool:
        """Move the current step up or down; return False at the end."""
        index, steps = self.now.step, list(self.plan.steps)
        other = index + direction
        if index < 0 or not 0 <= other < len(steps):
            return False
        steps[index], steps[other] = steps[other], steps[index]
        self.row += direction * len(STEP_FIELDS)
        self._set(steps)
        return True

    def drop(self) -> bool:
        """Remove the current step; return False if it is the only one."""
        index, steps = self.now.step, list(self.plan.steps)
        if index < 0 or len(steps) < 2:
            return False
        del steps[index]
        self._set(steps)
        self.row = min(index, len(steps) - 1) * len(STEP_FIELDS)
        return True

    def add(self) -> None:
        """Insert an empty step after the current one and select it."""
        index = self.now.step
        index = len(self.plan.steps) if index < 0 else index + 1
        steps = list(self.plan.steps)
        steps.insert(index, PlanStep(number=0, description=""))
        self._set(steps)
        self.row = index * len(STEP_FIELDS)

    def tidy(self) -> None:
        """Remove steps without a description."""
        steps = [step for step in self.plan.steps if step.description]
        if len(steps) < len(self.plan.steps):
            self._set(steps)

    def _set(self, steps: list[PlanStep]) -> None:
        numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, start=1))
        self.plan = replace(self.plan, steps=numbered)


LABELS = {"expected": "expect", "fallback": "if not", "command": "check $"}
REVIEW, STEPS = Keys("review"), Keys("steps")
ALTERNATIVE_KEYS = ("1", "2", "3", "4", "5")
"""Keys that choose an alternative."""
MOVES = {"up": -1, "down": 1, "top": -(10**6), "bottom": 10**6}
INDENT = 3
"""Indentation of the fields of a step, in cells."""


class PlanReview(RequestPanel):
    """Shows the plan, or its rows while it is edited; an input overlays the row being typed."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        assert self.request.proposal is not None
        self.proposal = self.request.proposal
        self.edit = StepsEditor(self._restored("plan", self.proposal.plan))
        self.state: Literal["look", "list", "field", "reason"] = "look"
        self._row: StepRow | None = None
        """The row that the input edits."""
        self._typed = ""
        """The initial text of the input."""

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, plan with the input over it, reason, keys."""
        yield LinesView(self._head, id="dock-head")
        with Container(id="plan-place"):
            yield Body(self._body, id="plan-body")
            yield self._hidden(LineInput(id="plan-input"))
        yield self._hidden(LineInput(id="plan-reason", placeholder="why not? the model reads your reason"))
        yield LinesView(self.paint_keys, id="dock-keys")

    @staticmethod
    def _hidden(field: LineInput) -> LineInput:
        field.display = False
        return field

    @property
    def edited(self) -> bool:
        """Whether the plan differs from the proposal."""
        return self.edit.plan != self.proposal.plan

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        plan, proposal = self.edit.plan, self.proposal
        name = "New plan after the failure" if proposal.recovery else "Plan"
        left: list[Span] = [(name, styles.heading), (f" · {pluralize(len(plan.steps), 'step')}", styles.muted)]
        left += [(" · edited", styles.accent)] if self.edited else []
        left += [(f" · {one_line(proposal.why, 400)}", styles.muted)] if proposal.why else []
        left += [(" · from cache", styles.muted)] if proposal.cached else []
        style = styles.warn if plan.confidence < MIN_CONFIDENCE else styles.muted
        lines = [justified_line(left, [(f"confidence {plan.confidence:.0%}", style)], width, styles)]
        if proposal.fallback and self.state == "look":
            lines += wrap([("No valid plan was produced: this is the request as one step.", styles.warn)], width)[:2]
        return lines

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        if self.state in ("look", "reason"):
            return plan_lines(self.edit.plan, width, styles)
        return [self._paint_row(index, row, width, styles) for index, row in enumerate(self.edit.rows)]

    def _paint_row(self, index: int, row: StepRow, width: int, styles: TextStyles) -> Line:
        text = self.edit.text(row)
        if row.field == "description":
            step = self.edit.plan.steps[row.step]
            head: list[Span] = [(f"{step.number:>2} ", styles.accent)]
            marks: list[Span] = [(f"  {one_line(step.tool, 40)}", styles.muted)] if step.tool else []
            marks += [(f"  unsure {step.confidence:.0%}", styles.warn)] if step.confidence < MIN_CONFIDENCE else []
        else:
            head, marks = [(" " * INDENT + f"{LABELS[row.field]:<{LABEL_WIDTH}}", styles.muted)], []
        style = styles.text if row.field in ("description", "command") else styles.muted
        room = width - width_of(head) - width_of(marks)
        body: Span = (fit(text, max(1, room)), style) if text else ("—", styles.faint)
        if index != self.edit.row:
            return line(*head, body, *marks)
        return highlighted_line([*head, body, *marks], styles)

    def _repaint_all(self) -> None:
        """Repaint all parts."""
        if not self.is_complete:
            return
        for name in ("#dock-head", "#plan-body", "#dock-keys"):
            self.query_one(name, LinesView).relayout()
        if self.state in ("list", "field"):
            self.call_after_refresh(self._show_row)

    def _show_row(self) -> None:
        if not self.is_complete:
            return
        body = self.query_one("#plan-body", Body)
        body.scroll_to_region(Region(0, self.edit.row, 1, 1), animate=False, force=True)
        self._place_input()

    def _place_input(self) -> None:
        """Move the input over its row."""
        if self._row is None or not self.is_complete:
            return
        body, field = self.query_one("#plan-body", Body), self.query_one("#plan-input", LineInput)
        left = INDENT if self._row.field == "description" else INDENT + LABEL_WIDTH
        field.styles.offset = (left, self.edit.row - int(body.scroll_offset.y))
        field.styles.width = max(4, body.columns - left)

    def on_resize(self) -> None:
        """Reposition the input and update the key hints."""
        self.call_after_refresh(self._place_input)
        self.call_after_refresh(self.repaint_keys)

    def keys(self) -> list[tuple[str, str]]:
        """Return the keys of the current state."""
        if self.state == "reason":
            return [("enter", "rejects"), ("esc", "goes back")]
        if self.state == "field":
            return [("enter", "save"), ("tab", "next"), ("esc", "leave the field")]
        if self.state == "list":
            moves = STEPS.labels("move_up", "move_down")
            pairs = [*STEPS.hints([("reword", "reword")]), (moves, "move")]
            return [*pairs, *STEPS.hints([("drop", "drop"), ("add", "add")]), ("esc", "done")]
        others = len(self.proposal.plan.alternatives[:5])
        pairs = REVIEW.hints([("approve", "approve" + " as edited" * self.edited), ("edit", "edit")])
        pairs += [("1" if others == 1 else f"1–{others}", "alternatives")] if others else []
        pairs += REVIEW.hints([("reject", "reject")])
        body = self.query_one("#plan-body", Body)
        if left := body.lines_below:
            pairs.append((REVIEW.arrow_labels("down"), f"{left} more line{'s' * (left > 1)}"))
        return [*pairs, ("esc", "stops the run")]

    # --- keys ---

    def process_key(self, event: events.Key) -> bool:
        """Handle a key by state; only the listed keys decide."""
        if self.state in ("field", "reason"):
            return self._handle_late_key(event)
        if self.state == "list":
            return self._handle_list_action(STEPS.action_for(event))
        if event.key in ALTERNATIVE_KEYS:
            return self._choose_alternative(int(event.key))
        return self._handle_review_action(REVIEW.action_for(event))

    def _handle_late_key(self, event: events.Key) -> bool:
        """Handle a key that was pressed before the field opened."""
        field = self.query_one("#plan-input" if self.state == "field" else "#plan-reason", LineInput)
        if event.key == "enter" and self.state == "field":
            self._close_field()
        else:
            field.press(event)
        return True

    def _choose_alternative(self, number: int) -> bool:
        if there := number <= len(self.proposal.plan.alternatives):
            self.answer(Answer(verdict="approve", data={"alternative": number - 1}))
        return there

    def _handle_review_action(self, action: str) -> bool:
        match action:
            case "approve":
                data = {"plan": msgspec.to_builtins(self.edit.plan), "edited": True} if self.edited else None
                self.answer(Answer(verdict="approve", data=data))
            case "edit":
                self._enter("list")
            case "reject":
                self._enter("reason")
            case _ if self.query_one("#plan-body", Body).scroll_for(action):
                self.call_after_refresh(self.repaint_keys)
            case _:
                return False
        return True

    def _handle_list_action(self, action: str) -> bool:
        edit = self.edit
        if action in MOVES:
            edit.row = max(0, min(len(edit.rows) - 1, edit.row + MOVES[action]))
            self._repaint_all()
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
        self.schedule_save()
        self._repaint_all()
        return True

    def escape(self) -> None:
        """Out of the list; from there, stop the run."""
        if self.state == "field":
            self._close_field()
        elif self.state == "look":
            self.interrupt()
        else:
            self._enter("look")
            self.disarm()

    def _enter(self, state: Literal["look", "list", "field", "reason"]) -> None:
        self.state = state
        reason = self.query_one("#plan-reason", LineInput)
        reason.display = state == "reason"
        body = self.query_one("#plan-body", Body)
        body.reserved_lines = 2 if state == "reason" else 0
        body.refresh(layout=True)
        if state == "reason":
            self.screen.set_focus(reason)
        self._repaint_all()

    # --- the fields ---

    def _open_field(self) -> None:
        self._row = self.edit.now
        field = self.query_one("#plan-input", LineInput)
        self.state = "field"
        field.value = self._typed = strip_untypable(self.edit.text(self._row))
        field.cursor_position = len(field.value)
        field.display = True
        self.screen.set_focus(field)
        self._repaint_all()

    def _close_field(self) -> None:
        field = self.query_one("#plan-input", LineInput)
        if self._row is not None:
            if field.value != self._typed:
                self.edit.write(self._row, field.value)
            self._row = None
            self.edit.tidy()
        field.display = False
        self.state = "list"
        self.regain_focus()
        self.schedule_save()
        self._repaint_all()

    def handle_field_key(self, event: events.Key) -> bool:
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
            self.schedule_save()

    def draft_data(self) -> dict[str, Any]:
        """The plan with what stands in the input."""
        edit = StepsEditor(self.edit.plan)
        if self._row is not None:
            edit.write(self._row, self.query_one("#plan-input", LineInput).value)
        edit.tidy()
        return {"plan": msgspec.to_builtins(edit.plan)}
