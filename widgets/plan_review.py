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
from widgets.blocks.plan import LABEL_WIDTH, MIN_CONFIDENCE, compact_plan_lines, plan_lines
from widgets.columns import LOW_SCREEN
from widgets.dialog_keys import Keys
from widgets.inputs import LineInput
from widgets.line_view import MAX_MOVE, LinesView
from widgets.request_body import Body
from widgets.request_view import WIDE, RequestPanel
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
        self.cursor = 0
        """Index of the current row."""
        self.earlier: list[tuple[InstructionPlan, int]] = []
        """The plans before each edit, with the cursor."""

    def _change(self, plan: InstructionPlan) -> None:
        if plan != self.plan:
            self.earlier.append((self.plan, self.cursor))
            self.plan = plan

    def undo(self) -> None:
        """Take the last edit back, if there is one. A step that was added is removed with its text."""
        while self.earlier:
            self.plan, self.cursor = self.earlier.pop()
            if all(step.description for step in self.plan.steps):
                return

    @property
    def rows(self) -> list[StepRow]:
        """All editable rows in order."""
        steps = range(len(self.plan.steps))
        return [*(StepRow(index, field) for index in steps for field in STEP_FIELDS), StepRow(-1, "command")]

    @property
    def current(self) -> StepRow:
        """The row at the cursor."""
        return self.rows[self.cursor]

    def move_cursor(self, by: int) -> None:
        """Move the cursor by a number of rows, at most to either end."""
        self.cursor = max(0, min(self.cursor + by, len(self.plan.steps) * len(STEP_FIELDS)))

    def text(self, row: StepRow) -> str:
        """Return the text of a row."""
        if row.field == "command":
            return self.plan.check.command
        return str(getattr(self.plan.steps[row.step], row.field))

    def write(self, row: StepRow, text: str) -> None:
        """Change the text of a row; an empty description is ignored."""
        text = " ".join(text.split())
        if row.field == "command":
            self._change(replace(self.plan, check=replace(self.plan.check, command=text)))
        elif text or row.field != "description":
            steps = list(self.plan.steps)
            steps[row.step] = replace(steps[row.step], **{row.field: text})
            self._set_steps(steps)

    def move_step(self, direction: int) -> bool:
        """Move the current step up or down; return False at the end."""
        index, steps = self.current.step, list(self.plan.steps)
        other = index + direction
        if index < 0 or not 0 <= other < len(steps):
            return False
        steps[index], steps[other] = steps[other], steps[index]
        self._set_steps(steps)
        self.move_cursor(direction * len(STEP_FIELDS))
        return True

    def drop_step(self) -> bool:
        """Remove the current step; return False if it is the only one."""
        index, steps = self.current.step, list(self.plan.steps)
        if index < 0 or len(steps) < 2:
            return False
        del steps[index]
        self._set_steps(steps)
        self.cursor = min(index, len(steps) - 1) * len(STEP_FIELDS)
        return True

    def add_step(self) -> None:
        """Insert an empty step after the current one and select it."""
        steps = list(self.plan.steps)
        index = self.current.step + 1 or len(steps)
        steps.insert(index, PlanStep(number=0, description=""))
        self._set_steps(steps)
        self.cursor = index * len(STEP_FIELDS)

    def remove_empty_steps(self) -> None:
        """Remove steps without a description."""
        steps = [step for step in self.plan.steps if step.description]
        if len(steps) < len(self.plan.steps):
            self._set_steps(steps)
            if len(self.earlier) > 1 and self.earlier[-2][0] == self.plan:  # nothing came of the added step
                del self.earlier[-2:]

    def _set_steps(self, steps: list[PlanStep]) -> None:
        numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, start=1))
        self._change(replace(self.plan, steps=numbered))
        self.move_cursor(0)  # stay within the rows


State: TypeAlias = Literal["review", "list", "field", "reason"]
LABELS = {"expected": "expect", "fallback": "if not", "command": "check $"}
REVIEW_KEYS, STEP_KEYS = Keys("review"), Keys("steps")
ALTERNATIVE_KEYS = ("1", "2", "3", "4", "5")
CURSOR_MOVES = {"up": -1, "down": 1, "top": -MAX_MOVE, "bottom": MAX_MOVE}
INDENT = 3
"""Indentation of the fields of a step, in cells."""


class PlanReview(RequestPanel):
    """Shows the plan, or its rows while it is edited; an input overlays the row being typed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self.request.proposal is not None
        self.proposal = self.request.proposal
        self.editor = StepsEditor(self._restored("plan", self.proposal.plan))
        self.state: State = "review"
        self._row: StepRow | None = None
        """The row that the input edits."""
        self._is_low = False
        """Whether the plan begins with one line for each step."""
        self._initial_text = ""
        """The text with which the input was opened."""
        self._head = LinesView(self._paint_head, id="dock-head")
        self.body = self._body = Body(self._paint_body, id="plan-body")
        self._input = LineInput(id="plan-input")
        self._reason = LineInput(id="plan-reason", placeholder="why not? the model reads your reason")
        self._input.display = self._reason.display = False

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """Head, plan with the input over it, reason, keys."""
        yield self._head
        with Container(id="plan-place"):
            yield self._body
            yield self._input
        yield self._reason
        yield LinesView(self.paint_keys, id="dock-keys")

    @property
    def edited(self) -> bool:
        """Whether the plan differs from the proposal."""
        return self.editor.plan != self.proposal.plan

    @property
    def key_rows(self) -> int:
        """Two lines of keys on a narrow screen, where they would not fit on one."""
        return 2 if self.state == "review" and self.app.size.width < WIDE else 1

    @property
    def _has_warning(self) -> bool:
        """Whether the head says that this is no plan of the model."""
        return self.proposal.fallback and self.state == "review"

    def _paint_head(self, width: int, styles: TextStyles) -> list[Line]:
        plan, proposal = self.editor.plan, self.proposal
        name = "New plan after the failure" if proposal.recovery else "Plan"
        left: list[Span] = [(name, styles.heading), (f" · {pluralize(len(plan.steps), 'step')}", styles.muted)]
        left += [(" · edited", styles.accent)] if self.edited else []
        left += [(f" · {one_line(proposal.why, 400)}", styles.muted)] if proposal.why else []
        left += [(" · from cache", styles.muted)] if proposal.cached else []
        style = styles.warn if plan.confidence < MIN_CONFIDENCE else styles.muted
        lines = [justified_line(left, [(f"confidence {plan.confidence:.0%}", style)], width, styles)]
        if self._has_warning:
            lines += wrap([("No valid plan was produced: this is the request as one step.", styles.warn)], width)[:2]
        return lines

    def _paint_body(self, width: int, styles: TextStyles) -> list[Line]:
        if self.state in ("review", "reason"):
            lines_of = compact_plan_lines if self._is_low else plan_lines
            return lines_of(self.editor.plan, width, styles)
        return [self._paint_row(index, row, width, styles) for index, row in enumerate(self.editor.rows)]

    def _paint_row(self, index: int, row: StepRow, width: int, styles: TextStyles) -> Line:
        text = self.editor.text(row)
        if row.field == "description":
            step = self.editor.plan.steps[row.step]
            head: list[Span] = [(f"{step.number:>2} ", styles.accent)]
            marks: list[Span] = [(f"  {one_line(step.tool, 40)}", styles.muted)] if step.tool else []
            marks += [(f"  unsure {step.confidence:.0%}", styles.warn)] if step.confidence < MIN_CONFIDENCE else []
        else:
            head, marks = [(" " * INDENT + f"{LABELS[row.field]:<{LABEL_WIDTH}}", styles.muted)], []
        style = styles.text if row.field in ("description", "command") else styles.muted
        room = width - width_of(head) - width_of(marks)
        body: Span = (fit(text, max(1, room)), style) if text else ("—", styles.faint)
        if index != self.editor.cursor:
            return line(*head, body, *marks)
        return highlighted_line([*head, body, *marks], styles)

    def _repaint_all(self) -> None:
        if not self.is_complete:
            return
        self._head.relayout()
        self._body.relayout()
        self.repaint_keys()
        if self.state in ("list", "field"):
            self.call_after_refresh(self._show_row)

    def _show_row(self) -> None:
        """Scroll to the current row."""
        if self.is_complete:
            self._body.scroll_to_region(Region(0, self.editor.cursor, 1, 1), animate=False, force=True)
            self._place_input()

    def _place_input(self) -> None:
        """Move the input over its row."""
        if self._row is None or not self.is_complete:
            return
        left = INDENT if self._row.field == "description" else INDENT + LABEL_WIDTH
        self._input.styles.offset = (left, self.editor.cursor - int(self._body.scroll_offset.y))
        self._input.styles.width = max(4, self._body.columns - left)

    def on_mount(self) -> None:
        """Begin with the steps on a low screen, and track what was on the screen."""
        self._fit_height()
        self._body.track_seen()

    def _fit_height(self) -> None:
        """Give the plan the lines that gaps would take on a low screen."""
        self._is_low = self.app.size.height < LOW_SCREEN
        is_reason = self.state == "reason"
        self._body.reserved_lines = (2 if is_reason else 0) - self._is_low
        around = 3 + is_reason + self.key_rows + (2 if self._has_warning else 0)  # its border and the head
        self._body.lines_around = around if self._is_low else 0
        self._body.relayout()

    def on_resize(self) -> None:
        """Reposition the input and update the key hints, and the plan if the screen becomes low or high enough."""
        if (self.app.size.height < LOW_SCREEN) is not self._is_low:
            self._fit_height()
        self.call_after_refresh(self._place_input)
        self.call_after_refresh(self.repaint_keys)

    def keys(self) -> list[tuple[str, str]]:
        """Return the keys of the current state."""
        if self.state == "reason":
            return [("enter", "rejects"), ("esc", "goes back")]
        if self.state == "field":
            return [("enter", "save"), ("tab", "next"), ("esc", "leave the field")]
        if self.state == "list":
            moves = STEP_KEYS.labels("move_up", "move_down")
            pairs = [*STEP_KEYS.hints([("reword", "reword")]), (moves, "move")]
            undo = [("undo", "undo")] if self.editor.earlier else []
            return [*pairs, *STEP_KEYS.hints([("drop", "drop"), ("add", "add"), *undo]), ("esc", "done")]
        count = len(self.proposal.plan.alternatives[:5])
        approve = "show the rest" if self.unseen() else "approve as edited" if self.edited else "approve"
        pairs = REVIEW_KEYS.hints([("approve", approve), ("reject", "reject"), ("edit", "edit")])
        if count:
            pairs.append(("1", "alternative") if count == 1 else (f"1–{count}", "alternatives"))
        pairs.append(("esc", "stops the run"))
        if left := self._body.lines_below:
            pairs.append((REVIEW_KEYS.arrow_labels("down"), f"{left} more line{'s' * (left > 1)}"))
        return pairs

    # --- keys ---

    def process_key(self, event: events.Key) -> bool:
        """Handle a key by state; only the listed keys decide."""
        if self.state == "list":
            return self._handle_list_action(STEP_KEYS.action_for(event))
        if self.state == "review":
            if event.key in ALTERNATIVE_KEYS:
                return self._choose_alternative(int(event.key) - 1)
            return self._handle_review_action(REVIEW_KEYS.action_for(event))
        if self.state == "reason":  # in this and the last case, the key was pressed before the field had the focus
            self._reason.press(event)
        elif event.key == "enter":
            self._close_field()
        else:
            self._input.press(event)
        return True

    def _choose_alternative(self, index: int) -> bool:
        exists = index < len(self.proposal.plan.alternatives)
        if exists and self.check_seen():
            self.answer(Answer(verdict="approve", data={"alternative": index}))
        elif exists:
            self.call_after_refresh(self._tell_rest, str(index + 1))
        return exists

    def _handle_review_action(self, action: str) -> bool:
        match action:
            case "approve" if not self.check_seen():
                self.call_after_refresh(self._tell_rest, REVIEW_KEYS.label("approve"))
            case "approve":
                data = {"plan": msgspec.to_builtins(self.editor.plan), "edited": True} if self.edited else None
                self.answer(Answer(verdict="approve", data=data))
            case "edit":
                self._enter("list")
            case "reject":
                self._enter("reason")
            case _ if self._body.scroll_for(action):
                self.call_after_refresh(self.repaint_keys)
            case _:
                return False
        return True

    def _tell_rest(self, key: str) -> None:
        """Say how to see the rest; if it is in view now, the same `key` approves in a moment."""
        if count := self._body.lines_below:
            more = f"{count} more line{'s' * (count > 1)}"
            self.tell(f"↓ {more}: {REVIEW_KEYS.labels('bottom')} shows {'them' if count > 1 else 'it'}")
        else:
            self.tell(f"this is the rest: press {key} again")

    def _handle_list_action(self, action: str) -> bool:
        editor = self.editor
        if action in CURSOR_MOVES:
            editor.move_cursor(CURSOR_MOVES[action])
            self._repaint_all()
            return True
        match action:
            case "move_up" | "move_down":
                editor.move_step(-1 if action == "move_up" else 1)
            case "drop":
                editor.drop_step()
            case "undo":
                editor.undo()
            case "add":
                editor.add_step()
                self._open_field()
            case "reword":
                self._open_field()
            case _:
                return False
        self.schedule_save()
        self._repaint_all()
        return True

    def escape(self) -> None:
        """Close the field or the list; otherwise stop the run."""
        if self.state == "field":
            self._close_field()
        elif self.state == "review":
            self.interrupt()
        else:
            self._enter("review")
            self.disarm()

    def _enter(self, state: State) -> None:
        self.state = state
        self._reason.display = state == "reason"
        self._fit_height()
        self._body.refresh(layout=True)
        if state == "reason":
            self.screen.set_focus(self._reason)
        self._repaint_all()

    # --- the fields ---

    def _open_field(self) -> None:
        """Edit the current row in the input."""
        self._row = self.editor.current
        self.state = "field"
        self._input.value = self._initial_text = strip_untypable(self.editor.text(self._row))
        self._input.cursor_position = len(self._input.value)
        self._input.display = True
        self.screen.set_focus(self._input)
        self._repaint_all()

    def _close_field(self) -> None:
        if self._row is not None:
            if self._input.value != self._initial_text:
                self.editor.write(self._row, self._input.value)
            self._row = None
            self.editor.remove_empty_steps()
        self._input.display = False
        self.state = "list"
        self.regain_focus()
        self.schedule_save()
        self._repaint_all()

    def handle_field_key(self, event: events.Key) -> bool:
        """Handle Esc and the keys that go to another row; no other key has a function in a field."""
        if event.key == "escape":
            if self.state == "field":
                self._close_field()
            else:
                self._enter("review")
                self.focus()
            return True
        if event.key in ("tab", "shift+tab", "up", "down") and self.state == "field":
            self._close_field()
            self.editor.move_cursor(-1 if event.key in ("shift+tab", "up") else 1)
            self._open_field()
            return True
        return event.key == "tab"

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the field, or reject with the reason."""
        event.stop()
        if event.input is self._reason:
            self.answer(Answer(verdict="reject", text=event.value.strip()))
        else:
            self._close_field()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Save the draft."""
        event.stop()
        if self.state == "field":
            self.schedule_save()

    def draft_data(self) -> dict[str, Any]:
        """Return the plan with the text in the input."""
        editor = StepsEditor(self.editor.plan)
        if self._row is not None:
            editor.write(self._row, self._input.value)
        editor.remove_empty_steps()
        return {"plan": msgspec.to_builtins(editor.plan)}
