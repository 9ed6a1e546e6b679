"""The plan panel (F3): shows the plan document, and edits it by keyboard (U2)."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from dataclasses import dataclass
from time import time
from typing import Any, Literal, TypeAlias

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import TextArea

from tui_agent.plan.state import plan_state
from tui_agent.view.items import PlanView
from widgets.dialog_keys import key_lines
from widgets.inputs import EditField
from widgets.line_view import LinesView, ListView
from widgets.plan_document import (
    Edit,
    EditDraft,
    ListEdit,
    PlanContent,
    apply_edit,
    plan_content,
    read_plan,
    value_name,
)
from widgets.plan_list import GROUPS, KEYS, PlanList, PlanRow, plan_head_lines
from widgets.plan_run import PlanRun
from widgets.request_view import SAVE_DELAY, call_later_once
from widgets.styled_text import Line, TextStyles, line

PlanChange: TypeAlias = Edit | Literal["accept", "discard", "undo"]
"""What the user wants to change: a value, a proposal, or the last edit."""

FIELD_KEYS = {"enter": "save", "escape": "cancel", "tab": "next"}
"""Keys that end the editing of a field."""
MAX_SYNC_CHARACTERS = 24_000
"""Longer documents are parsed in a thread."""


class PlanPanel(Vertical):
    """Head, rows, the field of an edit, and key hints."""

    @dataclass
    class Update(Message):
        """A change to carry out, a hint for the user, or a draft to save."""

        change: PlanChange | None = None
        hint: str = ""
        draft: dict[str, Any] | None = None
        """The unfinished edit; empty when it is finished."""

    class HeightChanged(Message):
        """The preferred height may have changed."""

    def __init__(self, *, now: Callable[[], float] = time, id: str | None = None) -> None:
        super().__init__(id=id)
        self._now = now
        self._run = PlanRun()
        self.content: PlanContent | None = None
        self.draft: EditDraft | None = None
        self._restored_draft: EditDraft | None = None
        """The draft of an earlier process, until its row is selected."""
        self._save_timer: TimerHandle | None = None
        self._source: tuple[str, str | None, str] = ("", None, "")
        """What `content` was parsed from."""
        self._leaving = False
        """The focus is about to return to the composer; keys are forwarded to it."""
        self._head = LinesView(self._paint_head, id="plan-head")
        self._list = PlanList(self._handle_key, id="plan-list")
        self._list.cursor_moved, self._list.activated = self._repaint_keys, self._row_activated
        self._label = LinesView(self._paint_label, id="plan-label")
        self._field = EditField(lambda key: FIELD_KEYS.get(key, ""), self._end_field, self._handle_key, id="plan-field")
        self._list.intercept = self._field.intercept = self._forward_key
        self._keys = LinesView(self._paint_keys, id="plan-keys")

    def compose(self) -> ComposeResult:
        """The style sheet gives the list the remaining height."""
        yield self._head
        yield self._list
        yield self._label
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        """Hide the field."""
        self._update_parts()

    # --- what is shown ---

    def show(self, view: PlanView, run: PlanRun | None = None, *, force: bool = False) -> None:
        """Show the document, the proposal and the newest run if they changed; with `force`, always."""
        source = (view.text, view.proposal, view.proposal_base)
        is_new_run = run is not None and run != self._run
        self._run = run or self._run
        if source == self._source and not force:
            if is_new_run and self.content is not None:
                self._show_content(self.content)
            return
        self._source = source
        if len(view.text) + len(view.proposal or "") <= MAX_SYNC_CHARACTERS:
            self._show_content(read_plan(*source))
        else:
            self.run_worker(self._read_in_thread(*source), exclusive=True, group="plan")

    async def _read_in_thread(self, text: str, proposal: str | None, proposal_base: str) -> None:
        self._show_content(await asyncio.to_thread(read_plan, text, proposal, proposal_base))

    def _show_content(self, content: PlanContent) -> None:
        self.content = content
        self._list.show(content, self._run)
        self._select_restored_row()
        self._head.relayout()
        self._repaint_keys()
        self.post_message(self.HeightChanged())

    def preferred_height(self, width: int) -> int:
        """Return the number of lines needed to show everything in a width."""
        if self.content is None:
            return 0
        lines = self._head.get_content_height(self.size, self.size, width) + self._list.natural_height(width)
        for part in (self._label, self._keys):
            lines += part.get_content_height(self.size, self.size, width) if part.display else 0
        return lines + (max(2, self._field.outer_size.height) if self._field.display else 0)

    def _paint_head(self, width: int, styles: TextStyles) -> list[Line]:
        if self.content is None:
            return [line()]
        run = self._run
        state = plan_state(self.content.plan, self._now(), is_running=run.is_running, has_steps=run.has_plan)
        lines = plan_head_lines(self.content, state, width, styles, focused=self._list.has_focus)
        return lines[:1] if self._is_low and not self.content.change_count else lines

    @property
    def _is_low(self) -> bool:
        """Whether the screen is too low for gaps."""
        return self.screen.has_class("-low")

    def on_resize(self) -> None:
        """Lay out head and keys for the new height."""
        self._head.relayout()
        self._repaint_keys()

    def _paint_label(self, width: int, styles: TextStyles) -> list[Line]:
        if self.draft is None:
            return [line()]
        label = self.draft.fields[self.draft.field_index][1]
        is_new = self.draft.old is None and self.draft.kind != "goal"
        return [line(), line((f"new {label}" if is_new else label, styles.muted))]

    def _paint_keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self.draft is not None:
            keys = [("enter", "save"), ("esc", "cancel")]
            if len(self.draft.fields) > 1:
                keys.insert(1, ("tab", self.draft.fields[self.draft.next_field][1]))
        else:
            tick, row = "tick", self._list.current
            if row is not None and row.kind in GROUPS:
                tick = "collapse" if row.kind in self._list.expanded else "expand"
            actions = [("tick", tick), ("edit", "edit"), ("add", "add"), ("remove", "remove"), ("undo", "undo")]
            keys = [*KEYS.hints(actions), ("esc", "back")]
        return (
            key_lines(keys, width, styles, gap=2) if self._is_low else [line(), *key_lines(keys, width, styles, gap=3)]
        )

    def _repaint_keys(self) -> None:
        if self._keys.display:
            self._keys.relayout()

    def _update_parts(self) -> None:
        """Show or hide field and keys, depending on draft and focus."""
        editing = self.draft is not None
        self._label.display = self._field.display = editing
        self._keys.display = editing or self._list.has_focus
        self._list.editing = editing
        if not self._keys.display:
            self._list.collapse_done()
        if self.content is not None and self.content.change_count:
            self._head.relayout()
        for part in (self._label, self._keys):
            if part.display:
                part.relayout()
        self._list.repaint()
        self.post_message(self.HeightChanged())

    # --- the focus ---

    @property
    def has_keys(self) -> bool:
        """Whether the list or the field has the focus."""
        return self._list.has_focus or self._field.has_focus

    def take_focus(self) -> None:
        """Take the focus, at the request of the user."""
        if self.draft is not None:
            self.screen.set_focus(self._field)
        else:
            self._list.take_focus()

    def leave(self) -> None:
        """Return to the composer after the keys that were pressed before."""
        (self._field if self._field.has_focus else self._list).call_later(self._leave)

    def _leave(self, text: str = "") -> None:
        self._leaving = True
        self.post_message(ListView.Left(text))

    def _forward_key(self, event: events.Key) -> bool:
        """Forward a key to the composer if the focus is about to return there."""
        if self._leaving:
            self.post_message(ListView.Left("", events.Key(event.key, event.character)))
        return self._leaving

    def scroll_pages(self, direction: int) -> bool:
        """Move the cursor a page up or down; return whether the panel has the focus."""
        if self._list.has_focus:
            self._list.move(direction * max(1, self._list.size.height - 2))
        return self.has_keys

    def on_descendant_focus(self) -> None:
        """Show the keys."""
        self._update_parts()

    def on_descendant_blur(self) -> None:
        """Hide the keys."""
        self._leaving = self._leaving and self.has_keys
        self._update_parts()

    # --- keys of the list ---

    def _handle_key(self, event: events.Key) -> None:
        character = event.character or "" if event.is_printable else ""
        if self.draft is not None:  # pressed before the field had the focus
            self._field.press(event)
        elif event.key == "escape":
            self._leave()
        else:
            self._do(KEYS.action_for_key(event.key, character), character)

    def _row_activated(self) -> None:
        if self.draft is None:
            self._do("tick", "")

    def _do(self, action: str, character: str) -> None:
        """Run an action of the list. Without one, a typed `character` goes to the composer."""
        row = self._list.current
        match action:
            case "tick" | "edit" if row is not None and row.kind in GROUPS:
                self._list.toggle(row.kind)
                self._repaint_keys()
                self.post_message(self.HeightChanged())
            case "tick":
                self._tick(row)
            case "edit":
                self._edit(row)
            case "add":
                self._add(row)
            case "remove":
                self._remove(row)
            case "undo":
                self.post_message(self.Update("undo"))
            case "accept" | "discard" as decision:
                has_proposal = self.content is not None and self.content.change_count
                self.post_message(self.Update(decision) if has_proposal else self.Update(hint="no proposal"))
            case _ if character:
                self._leave(character)

    def _hint(self, text: str) -> None:
        self.post_message(self.Update(hint=text))

    def _can_edit(self, row: PlanRow | None) -> bool:
        """Return whether a row can be changed; if not, tell the user why."""
        if self.content is not None and self.content.problem:
            self._hint("plan_doc.md can't be read: fix it in an editor")
        elif row is not None and row.mark:
            self._hint(f"only proposed so far · {KEYS.label('accept')} accepts, {KEYS.label('discard')} discards")
        else:
            return row is not None
        return False

    def _tick(self, row: PlanRow | None) -> None:
        if row is None or row.kind != "criterion" or row.listed is None or not self._can_edit(row):
            return
        old = row.listed.value
        new = msgspec.structs.replace(old, completed=not getattr(old, "completed", False))
        self._change(ListEdit("acceptance_criteria", row.listed.position, old, new))

    def _remove(self, row: PlanRow | None) -> None:
        if row is None or row.section is None or row.listed is None:
            self._hint("the goal can be reworded, not removed" if row is not None else "")
        elif self._can_edit(row):
            self._change(ListEdit(row.section, row.listed.position, row.listed.value, None))
            self._hint(f"removed · {KEYS.label('undo')} restores it")

    def _change(self, edit: Edit) -> None:
        """Show an edit immediately, and report it; the document follows."""
        content = self.content
        if content is not None:
            saved = apply_edit(content.saved, edit)
            plan = saved if content.plan is content.saved else apply_edit(content.plan, edit)
            if saved is not None and plan is not None:
                self._show_content(plan_content(saved, plan, content.custom_sections, content.problem))
        self.post_message(self.Update(edit))

    # --- the field ---

    def _edit(self, row: PlanRow | None) -> None:
        if row is None or not self._can_edit(row):
            return
        index, old = (row.listed.position, row.listed.value) if row.listed is not None else (-1, None)
        draft = EditDraft(row.kind, row.section, index, old)
        for name, _label in draft.fields:
            draft.texts[name] = row.text if old is None else str(getattr(old, name))
        self._begin(draft)

    def _add(self, row: PlanRow | None) -> None:
        if self.content is None or not self._can_edit(row or PlanRow("goal")):
            return
        index = len(self.content.saved.acceptance_criteria)
        if row is not None and row.kind == "criterion" and row.listed is not None:
            index = row.listed.position + 1
        self._begin(EditDraft("criterion", "acceptance_criteria", index, None, {"description": "", "notes": ""}))

    def _begin(self, draft: EditDraft) -> None:
        draft.before = dict(draft.texts)
        self.draft = draft
        self._show_field()
        self._update_parts()
        self.screen.set_focus(self._field)

    def _show_field(self) -> None:
        if self.draft is not None:
            name, label = self.draft.fields[self.draft.field_index]
            self._field.edit_text(self.draft.texts[name], f"the {label}")
            self._field.move_cursor(self._field.document.end)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Save the draft soon."""
        event.stop()
        if self.draft is not None and self._field.text != self.draft.texts[self.draft.field]:
            if self._save_timer is not None:
                self._save_timer.cancel()
            self._save_timer = call_later_once(SAVE_DELAY, self, self._save_draft)

    def _save_draft(self) -> None:
        if self.draft is not None:
            self.draft.texts[self.draft.field] = self._field.text
            self.post_message(self.Update(draft=msgspec.to_builtins(self.draft)))

    def restore(self, draft: EditDraft) -> bool:
        """Show the draft of an earlier process, without taking the focus; return False if another edit is open."""
        if self.draft is not None:
            return False
        self.draft = self._restored_draft = draft
        self._show_field()
        self._select_restored_row()
        self._update_parts()
        return True

    def _select_restored_row(self) -> None:
        """Select the row of a restored draft once there are rows."""
        draft = self._restored_draft
        if draft is not None and self.content is not None:
            self._restored_draft = None
            if draft.old is not None or draft.section is None:
                self._list.select((draft.kind, draft.section or "", value_name(draft.old)))

    def _end_field(self, action: str) -> None:
        """Handle one of `FIELD_KEYS`."""
        draft = self.draft
        if draft is None:
            return
        draft.texts[draft.field] = self._field.text.strip()
        if action == "next":
            draft.field_index = draft.next_field
            self._show_field()
            self._update_parts()
        elif action == "cancel":
            self._close_field()
            self.post_message(self.Update(hint="nothing changed", draft={}))
        elif not draft.texts[draft.fields[0][0]] and draft.kind != "goal":
            self._hint(f"a {draft.fields[0][1]} can't be empty · esc cancels")
        else:
            self._save(draft)

    def _save(self, draft: EditDraft) -> None:
        self._close_field()
        edit = draft.edit()
        if edit is None:
            self._hint("nothing changed")
        else:
            self._change(edit)
            if isinstance(edit, ListEdit) and edit.new is not None:
                self._list.select((draft.kind, edit.section, value_name(edit.new)))
        self.post_message(self.Update(draft={}))  # after the edit, which is saved before the draft is deleted

    def _close_field(self) -> None:
        self.draft = None
        if self._save_timer is not None:
            self._save_timer.cancel()
        self._field.open = self._list.editing = False
        self._list.take_focus()
        self._update_parts()
