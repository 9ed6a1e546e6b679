"""Transcript, plan and progress: side by side where there is room for two columns, else one over the other."""

from __future__ import annotations

from typing import Literal

from textual import events
from textual.containers import Horizontal, Vertical

from tui_agent.view.items import Item, PlanView
from widgets.line_view import ListView
from widgets.plan_panel import PlanPanel
from widgets.prompt_input import PromptInput
from widgets.textual_private import forward_key
from widgets.tool_tree import ToolTree
from widgets.transcript import Transcript

WIDE = 100
"""Columns from which on plan and progress stand beside the transcript."""
SHARE = 0.55
"""Of the column's height, what the plan may take although the progress below it would need more."""


class Columns(Horizontal):
    """Owns which of them show; each of them owns how."""

    def __init__(self, transcript: Transcript, plan: PlanPanel, progress: ToolTree, *, id: str | None = None) -> None:
        self.side = Vertical(plan, progress, id="side")
        super().__init__(transcript, self.side, id=id)
        self.home: PromptInput
        """Where the keys go from plan and progress."""
        self.transcript = transcript
        self.plan = plan
        self.progress = progress
        self.beside = True
        """The user wants the second column where there is room for it."""
        self.over: Literal["", "plan", "progress"] = ""
        """What the user looks at where there is room for one column."""
        self._sight = PlanView()
        self._was_wide = False
        self._asked_for_plan = False
        """The user wants to see the plan, empty as it may be."""
        for part in (self.side, plan, progress):
            part.display = False

    @property
    def wide(self) -> bool:
        """True where there is room for two columns."""
        return self.app.size.width >= WIDE

    # --- what shows ---

    def look_back(self, items: list[Item], older: int) -> None:
        """All items come anew, `older` ones before those that are shown so far."""
        self.transcript.look_back(items, older)
        self.progress.begin_anew()

    def show_plan(self, sight: PlanView) -> None:
        """The plan document or a proposal changed."""
        self._sight = sight
        self.fit_in()

    def fit_in(self) -> None:
        """Show what there is, by the width and by what the user wants."""
        wide, before = self.wide, self._was_wide
        self._was_wide = wide
        if before and not wide and not self.over:  # what has the keys stays in sight
            self.over = "plan" if self.plan.has_keys else "progress" if self.progress.has_focus else ""
        if self._sight.by and (self.beside if wide else self.over == "plan"):
            self.plan.show(self._sight)
        reading = self.plan.reading
        there = reading is not None and (self._asked_for_plan or not reading.empty or bool(reading.proposed))
        self.side.set_class(not wide, "-over")
        self.plan.display = (self.beside and there) if wide else self.over == "plan" and reading is not None
        self.progress.display = (self.beside and bool(self.progress.rows)) if wide else self.over == "progress"
        self.side.display = self.plan.display or self.progress.display
        if self.plan.display:
            self._share_out()

    def _share_out(self) -> None:
        """The plan gets the lines it wants, within its share."""
        room = self.size.height
        inner = self.plan.content_size.width or min(44, max(36, self.size.width * 34 // 100)) - 3
        wanted = self.plan.natural(max(1, inner - 1)) + 1
        below = len(self.progress.rows) + 2 if self.progress.display else 0
        most = max(room - below, int(room * SHARE))
        height = max(1, min(wanted, most))
        if self.plan.styles.height is None or self.plan.styles.height.value != height:
            self.plan.styles.height = height

    def on_resize(self) -> None:
        """The width decides."""
        self.fit_in()

    def on_plan_panel_reshaped(self) -> None:
        """More rows, fewer, or an edit."""
        self.fit_in()

    # --- what the user does ---

    def toggle(self) -> None:
        """Show or hide the second column."""
        if self.wide:
            self.beside = not self.beside
        else:
            self.over = "" if self.over else "progress"
        self.fit_in()

    def visit(self) -> None:
        """Show the progress and go there; from there, back."""
        if self.app.focused is self.progress:
            self.go_home()  # at once: keys that follow are meant for the composer
            return
        self.beside, self.over = True, "progress"
        self.fit_in()
        if self.progress.rows:
            self.progress.take_focus()  # at once: keys that follow are meant for it, and none for others comes to it

    def visit_plan(self) -> bool:
        """Show the plan and go there; from there, back. False when there is none."""
        if self.plan.has_keys:
            self.plan.leave()
            return True
        if not self._sight.by and self._sight.proposal is None:
            return False
        there = self.plan.display
        self.beside, self.over, self._asked_for_plan = True, "plan", True
        self.fit_in()
        if there:  # at once: keys that follow are meant for it, and none for it comes later
            self.plan.take_focus()
        else:
            self.call_after_refresh(self.plan.take_focus)
        return True

    def on_list_view_left(self, message: ListView.Left) -> None:
        """The composer goes on with what was typed."""
        message.stop()
        self.go_home()
        self.home.take_typed(message.text)
        if message.key is not None:
            forward_key(self.home, message.key)

    def go_home(self) -> None:
        """The composer has the keys again."""
        self.close_over()
        self.screen.set_focus(self.home)

    def takes(self, event: events.Key) -> bool:
        """The tree is left by a letter, which is the composer's, and by Esc: the focus moves before the next key, so
        that none overtakes another. True for a key that is done with that."""
        if event.is_forwarded or self.app.focused is not self.progress:
            return False
        if (escape := event.key == "escape") or self.progress.leaves(event):
            self.go_home()
        return escape

    def close_over(self) -> None:
        """What lies over the transcript makes room, and so does an empty plan."""
        self.over, self._asked_for_plan = "", False
        self.fit_in()

    def show_item(self, place: int) -> None:
        """Bring an item of the transcript into view, unfolded."""
        self.transcript.blocks[place].unfolded = True
        self.transcript.blocks[place].changed()
        self.transcript.reveal(place, 0)
