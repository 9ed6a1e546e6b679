"""The plan panel: status and progress, goal, criteria, decisions, log; ticked and edited by keyboard (U2, P6).

It shows what the view says and speaks upward of what the user wants; nothing here writes a document.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from tui_agent.view import PlanSight
from widgets.ink import Ink, Line, Span, line, wrap
from widgets.line_view import LinesView
from widgets.plan_edits import Edit, ListEdit, WordEdit, edited
from widgets.plan_field import WAYS, PlanField, Way
from widgets.plan_list import PlanList
from widgets.plan_reading import ListName, Reading, Value, read, seen
from widgets.plan_rows import Row, caption, head

Wish: TypeAlias = Edit | Literal["accept", "discard", "undo"]

SOON = 24_000
"""Characters that are read at once; longer documents are read in a thread."""
FIELDS: dict[str, tuple[tuple[str, str], ...]] = {
    "criterion": (("description", "criterion"), ("notes", "note")),
    "decision": (("title", "decision"), ("rationale", "reason")),
    "entry": (("action", "action"), ("details", "details"), ("result", "result")),
    "old": (("action", "action"), ("details", "details"), ("result", "result")),
    "goal": (("goal", "goal"),),
}
"""Kind of row → fields that can be edited, with their names for the user. The first one is never empty."""


@dataclass(slots=True)
class Draft:
    """An edit in progress. It lives here alone, whatever happens on the screen."""

    kind: str
    section: ListName | None
    at: int
    old: Value | None
    """None while something is added."""
    texts: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    number: int = 0
    """Which field is shown."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Those of its kind."""
        return FIELDS[self.kind]


class PlanPanel(Vertical):
    """Head, rows, the field of an edit, keys."""

    @dataclass
    class Said(Message):
        """What the user wants done, and a word for the user."""

        wish: Wish | None = None
        hint: str = ""

    @dataclass
    class Left(Message):
        """The focus goes back to the composer, with what was typed."""

        text: str = ""

    class Reshaped(Message):
        """It wants another height now."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.reading: Reading | None = None
        self.draft: Draft | None = None
        self._read_from: tuple[str, str | None, str] = ("", None, "")
        self._head = LinesView(self._paint_head, id="plan-head")
        self._list = PlanList(self._pressed, id="plan-list")
        self._label = LinesView(self._paint_label, id="plan-label")
        self._field = PlanField(self._field_done, self._pressed, id="plan-field")
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
        self._arrange()

    # --- what is shown ---

    def show(self, sight: PlanSight, *, anew: bool = False) -> None:
        """The document or the proposal is another one; `anew` also when they are not."""
        source = (sight.text, sight.proposal, sight.ground)
        if source == self._read_from and not anew:
            return
        self._read_from = source
        if len(sight.text) + len(sight.proposal or "") <= SOON:
            self._take(read(*source))
        else:
            self.run_worker(self._read(*source), exclusive=True, group="plan")

    async def _read(self, text: str, proposal: str | None, ground: str) -> None:
        self._take(await asyncio.to_thread(read, text, proposal, ground))

    def _take(self, reading: Reading) -> None:
        self.reading = reading
        self._list.show(reading)
        self._head.relayout()
        self.post_message(self.Reshaped())

    def natural(self, width: int) -> int:
        """Lines that it would like to have when it is `width` cells wide."""
        if self.reading is None:
            return 0
        lines = self._head.get_content_height(self.size, self.size, width) + self._list.natural(width)
        for part in (self._label, self._keys):
            lines += part.get_content_height(self.size, self.size, width) if part.display else 0
        return lines + (max(2, self._field.outer_size.height) if self._field.display else 0)

    def _paint_head(self, width: int, ink: Ink) -> list[Line]:
        if self.reading is None:
            return [line()]
        return head(self.reading, width, ink, deciding=self._list.has_focus)

    def _paint_label(self, width: int, ink: Ink) -> list[Line]:
        if self.draft is None:
            return [line()]
        name = self.draft.fields[self.draft.number][1]
        words = name if self.draft.old is not None or self.draft.kind == "goal" else f"new {name}"
        return [line(), line((words, ink.muted))]

    def _paint_keys(self, width: int, ink: Ink) -> list[Line]:
        if self.draft is not None:
            keys = [("enter", "keeps"), ("esc", "leaves")]
            if len(self.draft.fields) > 1:
                keys.insert(1, ("tab", self.draft.fields[self._following][1]))
        else:
            keys = [
                ("space", "tick"),
                ("e", "edit"),
                ("a", "add"),
                ("del", "remove"),
                ("u", "undo"),
                ("esc", "back"),
            ]
        spans: list[Span] = []
        for key, does in keys:
            spans += [
                ("   " if spans else "", ink.text),
                (key, ink.accent),
                (f"\N{NO-BREAK SPACE}{does}", ink.muted),
            ]
        return [line(), *wrap(spans, width)]

    def _arrange(self) -> None:
        """What is displayed of the parts, by what the user does."""
        editing = self.draft is not None
        self._label.display = self._field.display = editing
        self._keys.display = editing or self._list.has_focus
        self._list.held = editing
        if self._head.is_attached and self.reading is not None and self.reading.proposed:
            self._head.relayout()
        for part in (self._label, self._keys):
            if part.display and part.is_attached:
                part.relayout()
        self._list.refresh()
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
        self._arrange()

    # --- keys of the list ---

    def _pressed(self, key: str, character: str) -> None:
        if self.draft is not None:
            self._late(key, character)
            return
        row = self._list.chosen
        match key:
            case "escape":
                self.post_message(self.Left())
            case "space" | "enter" if row is not None and row.kind == "older":
                self._list.toggle_older()
                self.post_message(self.Reshaped())
            case "space":
                self._tick(row)
            case "enter" | "e":
                self._edit(row)
            case "a" | "plus":
                self._add(row)
            case "delete":
                self._remove(row)
            case "u":
                self._say("undo")
            case "ctrl+s" | "ctrl+d":
                self._decide(key == "ctrl+s")
            case _ if character:
                self.post_message(self.Left(character))

    def _late(self, key: str, character: str) -> None:
        """A key that was on its way to the list when the field opened."""
        if key in WAYS:
            self._field_done(WAYS[key])
        elif character:
            self._field.insert(character)

    def _say(self, wish: Wish | None, hint: str = "") -> None:
        self.post_message(self.Said(wish, hint))

    def _decide(self, accept: bool) -> None:
        if self.reading is None or not self.reading.proposed:
            self._say(None, "nothing is proposed")
        else:
            self._say("accept" if accept else "discard")

    def _free(self, row: Row | None) -> bool:
        """True when the row can be changed; otherwise says why not."""
        if self.reading is not None and self.reading.problem:
            self._say(None, "plan_doc.md can't be read: mend it in an editor")
        elif row is not None and row.mark:
            self._say(None, "only proposed yet · ctrl+s accepts, ctrl+d discards")
        else:
            return row is not None
        return False

    def _tick(self, row: Row | None) -> None:
        if row is None or row.kind != "criterion" or row.seen is None or not self._free(row):
            return
        old = row.seen.value
        new = msgspec.structs.replace(old, completed=not getattr(old, "completed", False))
        self._change(ListEdit("acceptance_criteria", row.seen.at, old, new))

    def _remove(self, row: Row | None) -> None:
        if row is None or row.section is None or row.seen is None:
            self._say(None, "the goal can be reworded, not removed" if row is not None else "")
        elif self._free(row):
            self._change(ListEdit(row.section, row.seen.at, row.seen.value, None))
            self._say(None, "removed · u brings it back")

    def _change(self, edit: Edit) -> None:
        """Show it at once; the document follows."""
        reading = self.reading
        if reading is not None:
            saved = edited(reading.saved, edit)
            plan = saved if reading.plan is reading.saved else edited(reading.plan, edit)
            if saved is not None and plan is not None:
                self._take(seen(saved, plan, reading.own, reading.problem))
        self._say(edit)

    # --- the field ---

    def _edit(self, row: Row | None) -> None:
        if row is None or not self._free(row):
            return
        old = row.seen.value if row.seen is not None else None
        draft = Draft(row.kind, row.section, row.seen.at if row.seen is not None else -1, old)
        for name, _words in draft.fields:
            draft.texts[name] = row.text if old is None else str(getattr(old, name))
        self._begin(draft)

    def _add(self, row: Row | None) -> None:
        if self.reading is None or not self._free(row or Row("goal")):
            return
        at = len(self.reading.saved.acceptance_criteria)
        if row is not None and row.kind == "criterion" and row.seen is not None:
            at = row.seen.at + 1
        self._begin(Draft("criterion", "acceptance_criteria", at, None, {"description": "", "notes": ""}))

    def _begin(self, draft: Draft) -> None:
        draft.before = dict(draft.texts)
        self.draft = draft
        self._show_field()
        self._arrange()
        self.screen.set_focus(self._field)

    @property
    def _following(self) -> int:
        return (self.draft.number + 1) % len(self.draft.fields) if self.draft is not None else 0

    def _show_field(self) -> None:
        if self.draft is not None:
            name, words = self.draft.fields[self.draft.number]
            self._field.take(self.draft.texts[name], f"the {words}")

    def _field_done(self, way: Way) -> None:
        draft = self.draft
        if draft is None:
            return
        draft.texts[draft.fields[draft.number][0]] = self._field.text.strip()
        if way == "next":
            draft.number = self._following
            self._show_field()
            self._arrange()
        elif way == "leave":
            self._close_field()
            self._say(None, "nothing was changed")
        elif not draft.texts[draft.fields[0][0]] and draft.kind != "goal":
            self._say(None, f"a {draft.fields[0][1]} needs words · esc leaves")
        else:
            self._keep(draft)

    def _keep(self, draft: Draft) -> None:
        self._close_field()
        edit = self._edit_of(draft)
        if edit is None:
            self._say(None, "nothing was changed")
            return
        self._change(edit)
        if isinstance(edit, ListEdit) and edit.new is not None:
            self._list.select((draft.kind, edit.section, caption(edit.new)))

    def _edit_of(self, draft: Draft) -> Edit | None:
        changed = {name: text for name, text in draft.texts.items() if text != draft.before[name].strip()}
        if not changed:
            return None
        if draft.section is None:
            return WordEdit("goal", draft.before["goal"], changed["goal"])
        if draft.old is not None:
            new = msgspec.structs.replace(draft.old, **changed)
            return ListEdit(draft.section, draft.at, draft.old, new)
        from tui_agent.plan.document import Criterion

        return ListEdit(
            draft.section,
            draft.at,
            None,
            Criterion(description=changed["description"], notes=changed.get("notes", "")),
        )

    def _close_field(self) -> None:
        self.draft = None
        self._field.open = self._list.held = False
        self._list.take_focus()
        self._arrange()
