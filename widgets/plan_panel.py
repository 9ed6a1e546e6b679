"""The plan panel (F3): shows the plan document, and edits it by keyboard (U2)."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import TextArea

from tui_agent.view.items import PlanView
from widgets.inputs import EditField
from widgets.line_view import LinesView, ListView
from widgets.plan_document import Edit, EditDraft, ListEdit, PlanReading, apply_edit, plan_reading, read_plan
from widgets.plan_list import FOLDS, KEYS, PlanList, PlanRow, caption, plan_head_lines
from widgets.request_view import SAVE_DELAY, call_later_once
from widgets.styled_text import Line, Span, TextStyles, line, wrap


class KeyTarget(Protocol):
    """Takes keys, and asks before each whether it is for somebody else."""

    passes: Callable[[events.Key], bool]


class FocusHandover:
    """Knows whether the keys of a panel are about to go elsewhere. `left` tells that they do: with a text that was
    typed, or with a key that came after the one that left; `followed` are the widgets that take keys there."""

    def __init__(self, left: Callable[[str, events.Key | None], object], *followed: KeyTarget) -> None:
        self._left = left
        self._handover = False
        for watched in followed:
            watched.passes = self.passes

    def leave(self, text: str = "") -> None:
        """The keys go elsewhere from here on."""
        self._handover = True
        self._left(text, None)

    def after_keys(self, widget: Widget) -> None:
        """Leave when the widget has had the keys that came before."""
        widget.call_later(self.leave)

    def passes(self, event: events.Key) -> bool:
        """True for a key that is not for the panel any more."""
        if self._handover:
            self._left("", events.Key(event.key, event.character))
        return self._handover

    def settle(self, here: bool) -> None:
        """The focus moved; `here` says whether the panel has it."""
        self._handover = self._handover and here


WAYS = {"enter": "keep", "escape": "leave", "tab": "next"}
"""How a key ends the text of the field."""


Wish: TypeAlias = Edit | Literal["accept", "discard", "undo"]

SOON = 24_000
"""Characters that are read at once; longer documents are read in a thread."""


class PlanPanel(Vertical):
    """Head, rows, the field of an edit, keys."""

    @dataclass
    class Said(Message):
        """What the user wants done, and a word for the user."""

        wish: Wish | None = None
        hint: str = ""
        draft: dict[str, Any] | None = None
        """An edit in progress, to be kept; an empty one is done with."""

    class Reshaped(Message):
        """It wants another height now."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.reading: PlanReading | None = None
        self.draft: EditDraft | None = None
        self._taken_up: EditDraft | None = None
        """An edit of before a crash, until its row is found."""
        self._keeping: TimerHandle | None = None
        self._read_from: tuple[str, str | None, str] = ("", None, "")
        self._head = LinesView(self._paint_head, id="plan-head")
        self._list = PlanList(self._handle_key, id="plan-list")
        self._label = LinesView(self._paint_label, id="plan-label")
        self._field = EditField(lambda key: WAYS.get(key, ""), self._field_done, self._handle_key, id="plan-field")
        self._handover = FocusHandover(lambda *said: self.post_message(ListView.Left(*said)), self._list, self._field)
        self._keys = LinesView(self._paint_keys, id="plan-keys")

    def compose(self) -> ComposeResult:
        """The rows take what is left."""
        yield self._head
        yield self._list
        yield self._label
        yield self._field
        yield self._keys

    def on_mount(self) -> None:
        """Nothing is edited yet."""
        self._list.moved, self._list.clicked = self._repaint_keys, self._clicked
        self._arrange()

    # --- what is shown ---

    def show(self, view: PlanView, *, force: bool = False) -> None:
        """The document or the proposal is another one; `force` also when they are not."""
        source = (view.text, view.proposal, view.proposal_base)
        if source == self._read_from and not force:
            return
        self._read_from = source
        if len(view.text) + len(view.proposal or "") <= SOON:
            self._show_reading(read_plan(*source))
        else:
            self.run_worker(self._read(*source), exclusive=True, group="plan")

    async def _read(self, text: str, proposal: str | None, ground: str) -> None:
        self._show_reading(await asyncio.to_thread(read_plan, text, proposal, ground))

    def _show_reading(self, reading: PlanReading) -> None:
        self.reading = reading
        self._list.show(reading)
        self._find_taken_up()
        self._head.relayout()
        self._repaint_keys()
        self.post_message(self.Reshaped())

    def preferred_height(self, width: int) -> int:
        """Lines that it would like to have when it is `width` cells wide."""
        if self.reading is None:
            return 0
        lines = self._head.get_content_height(self.size, self.size, width) + self._list.natural_height(width)
        for part in (self._label, self._keys):
            lines += part.get_content_height(self.size, self.size, width) if part.display else 0
        return lines + (max(2, self._field.outer_size.height) if self._field.display else 0)

    def _paint_head(self, width: int, styles: TextStyles) -> list[Line]:
        if self.reading is None:
            return [line()]
        return plan_head_lines(self.reading, width, styles, deciding=self._list.has_focus)

    def _paint_label(self, width: int, styles: TextStyles) -> list[Line]:
        if self.draft is None:
            return [line()]
        name = self.draft.fields[self.draft.number][1]
        words = name if self.draft.old is not None or self.draft.kind == "goal" else f"new {name}"
        return [line(), line((words, styles.muted))]

    def _paint_keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self.draft is not None:
            keys = [("enter", "save"), ("esc", "cancel")]
            if len(self.draft.fields) > 1:
                keys.insert(1, ("tab", self.draft.fields[self.draft.following][1]))
        else:
            row = self._list.current
            first = "tick"
            if row is not None and row.kind in FOLDS:
                first = "close" if row.kind in self._list.unfolded else "open"
            named = [("tick", first), ("edit", "edit"), ("add", "add"), ("remove", "remove"), ("undo", "undo")]
            keys = [*KEYS.hints(named), ("esc", "back")]
        spans: list[Span] = []
        for key, does in keys:
            spans += [
                ("   " if spans else "", styles.text),
                (key, styles.accent),
                (f"\N{NO-BREAK SPACE}{does}", styles.muted),
            ]
        return [line(), *wrap(spans, width)]

    def _repaint_keys(self) -> None:
        if self._keys.display:
            self._keys.relayout()

    def _arrange(self) -> None:
        """What is displayed of the parts, by what the user does."""
        editing = self.draft is not None
        self._label.display = self._field.display = editing
        self._keys.display = editing or self._list.has_focus
        self._list.held = editing
        if not self._keys.display:
            self._list.fold()
        if self.reading is not None and self.reading.proposed:
            self._head.relayout()
        for part in (self._label, self._keys):
            if part.display:
                part.relayout()
        self._list.repaint()
        self.post_message(self.Reshaped())

    # --- the focus ---

    @property
    def has_keys(self) -> bool:
        """True while keys come here."""
        return self._list.has_focus or self._field.has_focus

    def take_focus(self) -> None:
        """The user asked for it."""
        if self.draft is not None:
            self.screen.set_focus(self._field)
        else:
            self._list.take_focus()

    def leave(self) -> None:
        """Back to the composer, after the keys that came before."""
        self._handover.after_keys(self._field if self._field.has_focus else self._list)

    def page(self, direction: int) -> bool:
        """Scroll a page up or down when the keys come here; False when they do not."""
        if self._list.has_focus:
            self._list.move(direction * max(1, self._list.size.height - 2))
        return self.has_keys

    def on_descendant_focus(self) -> None:
        """Show the keys."""
        self._arrange()

    def on_descendant_blur(self) -> None:
        """Hide the keys."""
        self._handover.settle(self.has_keys)
        self._arrange()

    # --- keys of the list ---

    def _handle_key(self, event: events.Key) -> None:
        character = event.character or "" if event.is_printable else ""
        if self.draft is not None:  # it was on its way to the list when the field opened
            self._field.press(event)
        elif event.key == "escape":
            self._handover.leave()
        else:
            self._do(KEYS.action_for_key(event.key, character), character)

    def _clicked(self) -> None:
        if self.draft is None:
            self._do("tick", "")

    def _do(self, action: str, character: str) -> None:
        """An action of the list; what means nothing there and was typed is the composer's."""
        row = self._list.current
        match action:
            case "tick" | "edit" if row is not None and row.kind in FOLDS:
                self._list.toggle(row.kind)
                self._repaint_keys()
                self.post_message(self.Reshaped())
            case "tick":
                self._tick(row)
            case "edit":
                self._edit(row)
            case "add":
                self._add(row)
            case "remove":
                self._remove(row)
            case "undo":
                self._say("undo")
            case "accept" | "discard" as way:
                self._decide(way == "accept")
            case _ if character:
                self._handover.leave(character)

    def _say(self, wish: Wish | None, hint: str = "") -> None:
        self.post_message(self.Said(wish, hint))

    def _decide(self, accept: bool) -> None:
        if self.reading is None or not self.reading.proposed:
            self._say(None, "no proposal")
        else:
            self._say("accept" if accept else "discard")

    def _free(self, row: PlanRow | None) -> bool:
        """True when the row can be changed; otherwise says why not."""
        if self.reading is not None and self.reading.problem:
            self._say(None, "plan_doc.md can't be read: fix it in an editor")
        elif row is not None and row.mark:
            self._say(None, f"only proposed so far · {KEYS.label('accept')} accepts, {KEYS.label('discard')} discards")
        else:
            return row is not None
        return False

    def _tick(self, row: PlanRow | None) -> None:
        if row is None or row.kind != "criterion" or row.seen is None or not self._free(row):
            return
        old = row.seen.value
        new = msgspec.structs.replace(old, completed=not getattr(old, "completed", False))
        self._change(ListEdit("acceptance_criteria", row.seen.at, old, new))

    def _remove(self, row: PlanRow | None) -> None:
        if row is None or row.section is None or row.seen is None:
            self._say(None, "the goal can be reworded, not removed" if row is not None else "")
        elif self._free(row):
            self._change(ListEdit(row.section, row.seen.at, row.seen.value, None))
            self._say(None, f"removed · {KEYS.label('undo')} restores it")

    def _change(self, edit: Edit) -> None:
        """Show it at once; the document follows."""
        reading = self.reading
        if reading is not None:
            saved = apply_edit(reading.saved, edit)
            plan = saved if reading.plan is reading.saved else apply_edit(reading.plan, edit)
            if saved is not None and plan is not None:
                self._show_reading(plan_reading(saved, plan, reading.own, reading.problem))
        self._say(edit)

    # --- the field ---

    def _edit(self, row: PlanRow | None) -> None:
        if row is None or not self._free(row):
            return
        old = row.seen.value if row.seen is not None else None
        draft = EditDraft(row.kind, row.section, row.seen.at if row.seen is not None else -1, old)
        for name, _words in draft.fields:
            draft.texts[name] = row.text if old is None else str(getattr(old, name))
        self._begin(draft)

    def _add(self, row: PlanRow | None) -> None:
        if self.reading is None or not self._free(row or PlanRow("goal")):
            return
        at = len(self.reading.saved.acceptance_criteria)
        if row is not None and row.kind == "criterion" and row.seen is not None:
            at = row.seen.at + 1
        self._begin(EditDraft("criterion", "acceptance_criteria", at, None, {"description": "", "notes": ""}))

    def _begin(self, draft: EditDraft) -> None:
        draft.before = dict(draft.texts)
        self.draft = draft
        self._show_field()
        self._arrange()
        self.screen.set_focus(self._field)

    def _show_field(self) -> None:
        if self.draft is not None:
            name, words = self.draft.fields[self.draft.number]
            self._field.take(self.draft.texts[name], f"the {words}")
            self._field.move_cursor(self._field.document.end)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """What is typed survives a crash."""
        event.stop()
        if self.draft is not None and self._field.text != self.draft.texts[self.draft.shown]:
            if self._keeping is not None:
                self._keeping.cancel()
            self._keeping = call_later_once(SAVE_DELAY, self, self._keep_draft)

    def _keep_draft(self) -> None:
        if self.draft is not None:
            self.draft.texts[self.draft.shown] = self._field.text
            self.post_message(self.Said(draft=self.draft.data()))

    def take_up(self, draft: EditDraft) -> bool:
        """Go on with an edit of before, without the focus; False while another one is made."""
        if self.draft is not None:
            return False
        self.draft = self._taken_up = draft
        self._show_field()
        self._find_taken_up()
        self._arrange()
        return True

    def _find_taken_up(self) -> None:
        """Mark the row that is edited, as soon as there are rows."""
        draft = self._taken_up
        if draft is not None and self.reading is not None:
            self._taken_up = None
            if draft.old is not None or draft.section is None:
                self._list.select((draft.kind, draft.section or "", caption(draft.old) if draft.old else ""))

    def _field_done(self, way: str) -> None:
        draft = self.draft
        if draft is None:
            return
        draft.texts[draft.shown] = self._field.text.strip()
        if way == "next":
            draft.number = draft.following
            self._show_field()
            self._arrange()
        elif way == "leave":
            self._close_field()
            self.post_message(self.Said(hint="nothing changed", draft={}))
        elif not draft.texts[draft.fields[0][0]] and draft.kind != "goal":
            self._say(None, f"a {draft.fields[0][1]} can't be empty · esc cancels")
        else:
            self._keep(draft)

    def _keep(self, draft: EditDraft) -> None:
        self._close_field()
        edit = draft.edit()
        if edit is None:
            self._say(None, "nothing changed")
        else:
            self._change(edit)
            if isinstance(edit, ListEdit) and edit.new is not None:
                self._list.select((draft.kind, edit.section, caption(edit.new)))
        self.post_message(self.Said(draft={}))  # after the edit: until that is taken the text is kept

    def _close_field(self) -> None:
        self.draft = None
        if self._keeping is not None:
            self._keeping.cancel()
        self._field.open = self._list.held = False
        self._list.take_focus()
        self._arrange()
