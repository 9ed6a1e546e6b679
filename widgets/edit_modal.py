"""The dialog for a change of a file: hunk by hunk, side by side, edited before it is applied (A3, R4.6)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from tui_agent.domain import Answer, Diff, Editing, Hunk, Scope
from tui_agent.hunks import Choice, counts, new_text, with_edits
from tui_agent.view import RequestItem
from widgets.approval_modal import ApprovalModal
from widgets.dialog_keys import Keys
from widgets.diff_sides import NARROWEST
from widgets.diff_view import DiffView
from widgets.hunk_field import HunkField, editable
from widgets.ink import Ink, Line, Span, fit, line, wrap
from widgets.line_view import LinesView
from widgets.modal import STILLNESS, LineInput

TEXT = Keys("change")
FIELD_AROUND = 8
"""Columns of the dialog that are not the diff's."""


class EditModal(ApprovalModal):
    """What is approved is what is shown: the hunks that are taken, with the text that was given to them."""

    def __init__(
        self, request: RequestItem, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS
    ) -> None:
        action, shown = request.exact or request.action, request.action
        assert isinstance(action, Editing) and isinstance(shown, Editing)
        self.action = action
        """What will be done, exactly."""
        self._veiled = tuple(_signed(*pair) for pair in zip(shown.diff.hunks, action.diff.hunks, strict=True))
        self.taken = set(range(len(action.diff.hunks)))
        self.edits: dict[int, str] = {}
        self.current = 0
        """The hunk that the keys are for."""
        self.editing = False
        """True while the text of a hunk is changed."""
        self.diff = action.diff
        """Every hunk, with the edits in them."""
        self._counts = [counts(hunk) for hunk in action.diff.hunks]
        super().__init__(request, clock=clock, stillness=stillness)
        self.field = HunkField(self._edited, self._late, id="hunk")

    def _make_body(self) -> DiffView:
        self.view = DiffView(self._to_show(), head=self._hunk_head if self._many else None, id="body")
        return self.view

    def compose(self) -> ComposeResult:
        """Head, the diff or a field with the text of one hunk, keys."""
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield self.body
            yield self.field
            yield LinesView(self._keys, id="keys")
            yield LineInput(id="reason", placeholder="why not? the model reads it")

    def on_mount(self) -> None:
        """Nothing is edited yet."""
        self.field.display = False
        super().on_mount()

    @property
    def _many(self) -> bool:
        """True where hunks can be taken one by one."""
        return self.action.parts and len(self.action.diff.hunks) > 1

    @property
    def choice(self) -> Choice:
        """What is taken, as it is shown."""
        return Choice(
            tuple(sorted(self.taken)), {at: self.edits[at] for at in self.edits if at in self.taken}
        )

    @property
    def _changed(self) -> bool:
        return not self.choice.whole(self.action.diff)

    def _middle(self) -> Widget:
        return self.field if self.editing else self.body

    @property
    def _typing(self) -> bool:
        return self.reasoning or self.editing

    # --- what is shown ---

    def _measure(self, ink: Ink) -> list[Span]:
        left = len(self.action.diff.hunks) - len(self.taken)
        said = f"{left} left out  " if left else ""
        said += "edited by you  " if self.choice.edits else ""
        added, removed = (sum(self._counts[place][which] for place in self.taken) for which in (0, 1))
        return [(said, ink.warn), (f"+{added}", ink.ok), (f" −{removed}", ink.bad)]

    def _hunk_head(self, place: int, width: int, ink: Ink) -> Line:
        hunk = self.diff.hunks[place]
        here, taken = place == self.current, place in self.taken
        first, last = hunk.old_start, hunk.old_start + max(hunk.old_count, 1) - 1
        about = f"hunk {place + 1} of {len(self.diff.hunks)}  lines {first}–{last}"
        said = ("  edited by you" if place in self.edits else "") + ("" if taken else "  left out")
        text = fit(f"{'▸' if here else ' '} [{'x' if taken else ' '}] {about}", max(1, width - len(said)))
        style = ink.accent if here else ink.muted
        return line((text, style), (fit(said, max(0, width - len(text))), ink.warn))

    def _to_show(self) -> Diff:
        """The diff without the secrets that are hidden now; what the user typed is shown as it is."""
        if self.unveiled or self._veiled == self.action.diff.hunks:
            return self.diff
        hunks = tuple(
            now if at in self.edits else msgspec.structs.replace(now, lines=hidden.lines)
            for at, (now, hidden) in enumerate(zip(self.diff.hunks, self._veiled, strict=True))
        )
        return msgspec.structs.replace(self.diff, hunks=hunks)

    def _holds_secret(self, place: int) -> bool:
        return self._veiled[place].lines != self.action.diff.hunks[place].lines

    def _unveil(self) -> None:
        self.view.show(self._to_show())

    def _keys(self, width: int, ink: Ink) -> list[Line]:
        if not self.editing:
            return super()._keys(width, ink)
        which = f"hunk {self.current + 1}" if self._many else "the text"
        note = wrap(
            [(f"You change {which} as it will be; it is shown once more to be approved.", ink.muted)], width
        )
        keys: list[Span] = []
        for key, does in TEXT.pairs([("take", "takes the text")]):
            keys = [(key, ink.accent), (f" {does}", ink.muted), ("   ", ink.accent)]
        return [*note, Line([]), line(*keys, ("esc", ink.accent), (" drops it", ink.muted))]

    def _options(self) -> list[tuple[str, str, str]]:
        if self.request.void or not self._changed:
            return super()._options()
        rejecting = ("reject", "reject all of it, with a reason", "")
        if not self.taken:
            return [rejecting]
        count = f"{len(self.taken)} of {len(self.action.diff.hunks)} hunks, " if self._many else ""
        edited = "with your text, " if self.choice.edits else ""
        return [("approve_once", f"approve {count}{edited}once", ""), rejecting]

    def _looking(self) -> list[tuple[tuple[str, ...], str]]:
        pairs: list[tuple[tuple[str, ...], str]] = []
        if not self.request.void and self._many:
            taken = self.current in self.taken
            pairs = [
                (("next_hunk", "previous_hunk"), f"hunk {self.current + 1} of {len(self.diff.hunks)}"),
                (("leave_out",), "leave it out" if taken else "take it"),
            ]
        if not self.request.void and self._can_edit():
            pairs.append((("edit",), "edit it"))
        if self.diff.hunks and self.size.width - FIELD_AROUND >= NARROWEST:
            pairs.append((("sides",), "one column" if self.view.split else "side by side"))
        bare = any(self._holds_secret(place) for place in self.edits)  # what was edited can't be hidden again
        return pairs if bare else pairs + super()._looking()

    def _can_edit(self) -> bool:
        """No secret is hidden in the hunk, and nothing that a field can't show."""
        if not self.action.parts or not self.diff.hunks or self.current not in self.taken:
            return False
        if self._holds_secret(self.current) and not self.unveiled:
            return False
        return editable(new_text(self.diff.hunks[self.current]))

    # --- what is pressed ---

    def pressed(self, event: events.Key) -> None:
        """While a text is typed, nothing but that."""
        if self.editing:
            self.field.press(event)
        else:
            super().pressed(event)

    def _look(self, action: str) -> None:
        if action in ("next_hunk", "previous_hunk"):
            self._go(self.current + (1 if action == "next_hunk" else -1))
        elif action == "leave_out":
            self.taken ^= {self.current}
            self.view.leave_out(set(range(len(self.diff.hunks))) - self.taken)
            self._repaint_head()
        elif action == "sides":
            self.view.split = not self.view.split
            self.query_one("#dialog").set_class(self.view.split, "-wide")
            self.call_after_refresh(self._read)
        elif action == "edit":
            self._edit()
        else:
            super()._look(action)
        self._repaint_keys()

    def _go(self, hunk: int) -> None:
        self.current = min(max(0, hunk), len(self.diff.hunks) - 1)
        self.view.go_to(self.current)
        self.view.repaint_lines()

    def _read(self) -> None:
        """The keys are for a hunk that can be seen."""
        seen = self.view.hunks_seen() if self._many and self.view.size.height else []
        if seen and self.current not in seen:
            self.current = seen[0] if self.current < seen[0] else seen[-1]
            self.view.repaint_lines()
        super()._read()

    def on_diff_view_laid(self) -> None:
        """Perhaps its end is in view now."""
        self.call_after_refresh(self._read)

    # --- editing ---

    def _edit(self) -> None:
        self.editing = True
        self.field.take(new_text(self.diff.hunks[self.current]))
        self.body.display, self.field.display = False, True
        self._focus_field()
        self._repaint_head()

    def _focus_field(self) -> None:
        """Once the keys that were pressed before are typed, or they would stand behind those that follow."""
        if self.message_queue_size or self._pending_message is not None:
            self.call_later(self._focus_field)
        elif self.editing:
            self.set_focus(self.field)

    def _edited(self, keep: bool) -> None:
        """The text is done with. What is applied has to be seen first, and what is typed on decides nothing (A9)."""
        self.editing = False
        self.set_focus(None)
        self.body.display, self.field.display = True, False
        if keep and self.field.text != new_text(self.diff.hunks[self.current]):
            self._take_text(self.field.text)
        self.hush()
        self._repaint_head()

    def _take_text(self, text: str) -> None:
        if text == new_text(self.action.diff.hunks[self.current]):
            self.edits.pop(self.current, None)
        else:
            self.edits[self.current] = text
        self.end_seen = False
        self.diff = with_edits(self.action.diff, self.edits)
        self._counts = [counts(hunk) for hunk in self.diff.hunks]
        self.view.show(self._to_show())
        self.view.go_to(self.current)

    def _late(self, event: events.Key) -> None:
        """A key that was pressed when the text was done with already."""
        self.typed_ahead(event)

    def escape(self) -> None:
        """Back from the field, else as in every dialog."""
        if self.editing:
            self.field.open = False
            self._edited(False)
        else:
            super().escape()

    def _approve(self, scope: Scope) -> None:
        choice = self.choice
        if choice.whole(self.action.diff):
            super()._approve(scope)
        elif choice.taken:
            self.answer(Answer(verdict="approve", data=choice.data()))


def _signed(shown: Hunk, exact: Hunk) -> Hunk:
    """`shown` with the signs of `exact`, which a secret over several lines may have swallowed."""
    lines = tuple(
        one if one[:1] == real[:1] else real[:1] + one
        for one, real in zip(shown.lines, exact.lines, strict=True)
    )
    return msgspec.structs.replace(exact, lines=lines)
