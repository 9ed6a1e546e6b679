"""A plan while it is edited: its rows, and what an edit makes of them. Knows nothing of the screen."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from tui_agent.workplan import InstructionPlan, PlanStep

Field: TypeAlias = Literal["description", "expected", "fallback", "command"]
STEP_FIELDS: tuple[Field, ...] = ("description", "expected", "fallback")


class Row(NamedTuple):
    """One line that can be edited; `step` is a place in the plan's steps, -1 for the check."""

    step: int
    field: Field


class PlanEdit:
    """Rewords, moves, drops and adds steps. `plan` is always whole: numbers follow the order."""

    def __init__(self, plan: InstructionPlan) -> None:
        self.plan = plan
        self.row = 0

    @property
    def rows(self) -> list[Row]:
        """All rows, from the top."""
        found = [Row(place, field) for place in range(len(self.plan.steps)) for field in STEP_FIELDS]
        return [*found, Row(-1, "command")]

    @property
    def now(self) -> Row:
        """The row with the cursor."""
        rows = self.rows
        self.row = max(0, min(self.row, len(rows) - 1))
        return rows[self.row]

    def text(self, row: Row) -> str:
        """What a row says."""
        if row.field == "command":
            return self.plan.check.command
        return str(getattr(self.plan.steps[row.step], row.field))

    def write(self, row: Row, text: str) -> None:
        """Reword a row. A step always says what to do: an empty description leaves it as it was."""
        text = " ".join(text.split())
        if row.field == "command":
            self.plan = replace(self.plan, check=replace(self.plan.check, command=text))
        elif text or row.field != "description":
            steps = list(self.plan.steps)
            steps[row.step] = replace(steps[row.step], **{row.field: text})
            self._set(steps)

    def move(self, direction: int) -> bool:
        """Move the step with the cursor up or down; False at the end."""
        place, steps = self.now.step, list(self.plan.steps)
        other = place + direction
        if place < 0 or not 0 <= other < len(steps):
            return False
        steps[place], steps[other] = steps[other], steps[place]
        self.row += direction * len(STEP_FIELDS)
        self._set(steps)
        return True

    def drop(self) -> bool:
        """Drop the step with the cursor; False for the last one there is."""
        place, steps = self.now.step, list(self.plan.steps)
        if place < 0 or len(steps) < 2:
            return False
        del steps[place]
        self._set(steps)
        self.row = min(place, len(steps) - 1) * len(STEP_FIELDS)
        return True

    def add(self) -> None:
        """A new step behind the one with the cursor; the cursor goes there."""
        place = self.now.step
        place = len(self.plan.steps) if place < 0 else place + 1
        steps = list(self.plan.steps)
        steps.insert(place, PlanStep(number=0, description=""))
        self._set(steps)
        self.row = place * len(STEP_FIELDS)

    def tidy(self) -> None:
        """Steps that say nothing are none."""
        steps = [step for step in self.plan.steps if step.description]
        if len(steps) < len(self.plan.steps):
            self._set(steps)

    def _set(self, steps: list[PlanStep]) -> None:
        numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, start=1))
        self.plan = replace(self.plan, steps=numbered)
