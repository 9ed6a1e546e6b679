"""Layout of transcript, plan and progress: in two or three columns if there is room, otherwise on top of each other."""

from __future__ import annotations

from typing import Literal

from textual import events
from textual.containers import Horizontal, Vertical

from tui_agent.view.items import Item, PlanView
from widgets.line_view import ListView
from widgets.plan_panel import PlanPanel
from widgets.plan_run import plan_run
from widgets.prompt_input import PromptInput
from widgets.textual_private import forward_key
from widgets.tool_tree import ToolTree
from widgets.transcript import Transcript

WIDE = 100
"""Screen width from which plan and progress are shown beside the transcript."""
LOW_SCREEN = 24
"""Screen height below which gaps are left out."""
VERY_WIDE = 160
"""Screen width from which plan and progress have a column each."""
SIDE_SHARE, SPLIT_SHARE = 0.3, 0.5
"""Share of the screen that one column beside the transcript takes, and that two of them take."""
SHARE = 0.55
"""Share of the column's height that the plan may always use."""


class Columns(Horizontal):
    """Lays out transcript, plan and progress, and decides which are visible."""

    def __init__(self, transcript: Transcript, plan: PlanPanel, progress: ToolTree, *, id: str | None = None) -> None:
        self.side = Vertical(plan, progress, id="side")
        super().__init__(transcript, id=id)
        self.home: PromptInput
        """Gets the focus back from plan and progress."""
        self.transcript = transcript
        self.plan = plan
        self.progress = progress
        self.side_enabled = True
        """Whether the second column is enabled."""
        self.overlay_part: Literal["", "plan", "progress"] = ""
        """The part shown over the transcript in a narrow terminal."""
        self._plan_view = PlanView()
        self._was_wide = False
        self._asked_for_plan = False
        """The user opened the plan, so it is shown even if empty."""
        for part in (self.side, plan, progress):
            part.display = False

    async def mount_side(self) -> None:
        """Add plan and progress. Separate from composing, as the first paint does not show them."""
        await self.mount(self.side)

    @property
    def is_wide(self) -> bool:
        """Whether there is room for two columns."""
        return self.app.size.width >= WIDE

    @property
    def has_three_columns(self) -> bool:
        """Whether plan and progress stand side by side."""
        return self.app.size.width >= VERY_WIDE and self.plan.display and self.progress.display

    @property
    def _side_width(self) -> int:
        """Width in cells of what is beside the transcript."""
        return int(self.app.size.width * (SPLIT_SHARE if self.has_three_columns else SIDE_SHARE))

    # --- what is shown ---

    def load_older(self, items: list[Item], older: int, *, complete: bool = True) -> None:
        """Replace the items, of which the first `older` were not loaded before."""
        self.transcript.load_older(items, older, complete=complete)
        self.progress.reset()

    @property
    def may_drop(self) -> bool:
        """Whether nothing older than the end is looked at."""
        return self.transcript.at_rest and not self.progress.has_focus

    def drop_older(self, count: int) -> None:
        """Forget the first `count` items, which were dropped."""
        self.transcript.drop_older(count)
        self.progress.reset()
        self.progress.show(())

    def show_plan(self, view: PlanView) -> None:
        """Show a changed plan document or proposal."""
        self._plan_view = view
        self.fit_in()

    def fit_in(self) -> None:
        """Update the visible parts."""
        is_wide, was_wide = self.is_wide, self._was_wide
        self._was_wide = is_wide
        if was_wide and not is_wide and not self.overlay_part:  # the focused part stays visible
            self.overlay_part = "plan" if self.plan.has_keys else "progress" if self.progress.has_focus else ""
        self.progress.display = (
            (self.side_enabled and bool(self.progress.rows)) if is_wide else self.overlay_part == "progress"
        )
        if self._plan_view.changed_by and (self.side_enabled if is_wide else self.overlay_part == "plan"):
            run = plan_run(self.progress.view, with_steps=not self.progress.display)
            self.plan.show(self._plan_view, run)
        content = self.plan.content
        has_plan = content is not None and (self._asked_for_plan or not content.empty or bool(content.change_count))
        self.side.set_class(not is_wide, "-over")
        self.plan.display = (
            (self.side_enabled and has_plan) if is_wide else self.overlay_part == "plan" and content is not None
        )
        self.side.display = self.plan.display or self.progress.display
        self.side.set_class(self.has_three_columns, "-split")
        self.side.styles.width = self._side_width if is_wide else None
        if self.plan.display:
            self._share_out()

    def _share_out(self) -> None:
        """Set the height of the plan."""
        if self.has_three_columns:
            self.plan.styles.height = "100%"
            return
        room = self.size.height
        inner = self.plan.content_size.width or self._side_width - 3
        preferred = self.plan.preferred_height(max(1, inner - 1)) + 1
        below = len(self.progress.rows) + 2 if self.progress.display else 0
        limit = max(room - below, int(room * SHARE))
        height = max(1, min(preferred, limit))
        if self.plan.styles.height is None or self.plan.styles.height.cells != height:
            self.plan.styles.height = height

    def on_resize(self) -> None:
        """Update the layout."""
        self.fit_in()

    def on_plan_panel_height_changed(self) -> None:
        """Update the layout."""
        self.fit_in()

    # --- what the user does ---

    def toggle(self) -> None:
        """Show or hide the second column."""
        if self.is_wide:
            self.side_enabled = not self.side_enabled
        else:
            self.overlay_part = "" if self.overlay_part else "progress"
        self.fit_in()

    def visit(self) -> None:
        """Show the progress and go there; from there, back."""
        if self.app.focused is self.progress:
            self.go_home()  # not deferred, as the next keys are for the composer
            return
        self.side_enabled, self.overlay_part = True, "progress"
        self.fit_in()
        if self.progress.rows:
            self.progress.take_focus()  # not deferred, as the next keys are for the tree

    def visit_plan(self) -> bool:
        """Show the plan and go there; from there, back. Return False if there is no plan."""
        if self.plan.has_keys:
            self.plan.leave()
            return True
        if not self._plan_view.changed_by and self._plan_view.proposal is None:
            return False
        was_visible = self.plan.display
        self.side_enabled, self.overlay_part, self._asked_for_plan = True, "plan", True
        self.fit_in()
        if was_visible:  # not deferred, as the next keys are for the plan
            self.plan.take_focus()
        else:
            self.call_after_refresh(self.plan.take_focus)
        return True

    def on_list_view_left(self, message: ListView.Left) -> None:
        """Return to the composer with the typed text or key."""
        message.stop()
        self.go_home()
        self.home.append_text(message.text)
        if message.key is not None:
            forward_key(self.home, message.key)

    def go_home(self) -> None:
        """Focus the composer."""
        self.close_over()
        self.screen.set_focus(self.home)

    def handle_key_in_tree(self, event: events.Key) -> bool:
        """Leave the tree on Esc, or on a letter, which goes to the composer; return whether the key was handled.

        The focus moves before the next key is handled, to keep the order of keys.
        """
        if event.is_forwarded or self.app.focused is not self.progress:
            return False
        if (escape := event.key == "escape") or self.progress.leaves(event):
            self.go_home()
        return escape

    @property
    def focused_keys(self) -> list[tuple[str, str]] | None:
        """Keys of the panel that has the focus, as far as it does not show them; None while no panel has it."""
        focused = self.screen.focused
        if focused is not None and self.plan in focused.ancestors:
            return []
        return self.progress.key_hints() if focused is self.progress else None

    def close_over(self) -> None:
        """Hide the part over the transcript, and an empty plan."""
        self.overlay_part, self._asked_for_plan = "", False
        self.fit_in()

    def show_item(self, index: int) -> None:
        """Expand an item of the transcript and scroll to it."""
        self.transcript.blocks[index].user_expanded = True
        self.transcript.blocks[index].changed()
        self.transcript.reveal(index, 0)
