"""The dialog for an edit: every hunk can be left out or edited, and only what was in sight can be approved (A3, A9)."""

from __future__ import annotations

from typing import Any

import msgspec

from tui_agent.common.domain import Diff, EditAction, Hunk
from tui_agent.common.hunks import HunkChoice, count_changes, new_side_text, with_edits
from tui_agent.text import clean, strip_invisible
from tui_agent.view.items import RequestItem
from widgets.approval_modal import ApprovalModal
from widgets.dialog_keys import Keys, key_spans
from widgets.diff_lines import MIN_SPLIT_COLUMNS
from widgets.diff_view import DiffView
from widgets.inputs import EditField
from widgets.styled_text import Line, Span, TextStyles, fit, line, wrap

MAX_EDITABLE_CHARACTERS = 200_000
"""Maximum characters of an editable hunk."""


def editable(text: str) -> bool:
    """Return whether a field can show the text exactly: no invisible characters, not too long."""
    return len(text) <= MAX_EDITABLE_CHARACTERS and strip_invisible(clean(text)) == text


FIELD_KEYS = Keys("change")
FRAME_COLUMNS = 8
"""Columns of the dialog outside the diff."""


def _closing_action(key: str) -> str:
    """Return the action of a key that closes the field of a hunk: `take`, `drop`, or empty."""
    return "drop" if key == "escape" else FIELD_KEYS.action_for_key(key)


class EditModal(ApprovalModal):
    """Approves exactly what is shown: the selected hunks with their edited texts."""

    body: DiffView
    field: EditField
    UNSEEN_NOUN = "changed line"

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        super().__init__(request, **guard)
        action, masked = request.exact_action or request.action, request.action
        assert isinstance(action, EditAction) and isinstance(masked, EditAction)
        self.action = action
        """The exact action, without masking."""
        self._masked = tuple(_with_signs(*pair) for pair in zip(masked.diff.hunks, action.diff.hunks, strict=True))
        self.included = set(range(len(action.diff.hunks)))
        """Indexes of the hunks to approve."""
        self.edits: dict[int, str] = {}
        self.current = 0
        """Index of the hunk that keys act on."""
        self._opening_offsets: tuple[int, ...] = (0,)
        """Scroll offsets that the dialog chose itself; empty once the user has scrolled."""
        self.diff = action.diff
        """All hunks, with edits applied."""
        self.body = DiffView(self._visible_diff(), head=self._hunk_head if self._selectable else None, id="body")
        self.field = EditField(
            _closing_action, self._field_closed, self.forward_to_draft, id="hunk", tab_behavior="indent"
        )

    @property
    def _selectable(self) -> bool:
        """Whether hunks can be selected individually."""
        return self.action.splittable and len(self.action.diff.hunks) > 1

    @property
    def choice(self) -> HunkChoice:
        """The selected hunks and their edits."""
        edits = {index: text for index, text in self.edits.items() if index in self.included}
        return HunkChoice(tuple(sorted(self.included)), edits)

    @property
    def _is_changed(self) -> bool:
        """Whether the user left out or edited hunks."""
        return not self.choice.selects_all(self.action.diff)

    # --- painting ---

    def _change_size(self, styles: TextStyles) -> list[Span]:
        skipped = len(self.diff.hunks) - len(self.included)
        note = f"{skipped} skipped  " if skipped else ""
        note += "edited by you  " if self.choice.edits else ""
        counts = [count_changes(self.diff.hunks[index]) for index in self.included]
        added, removed = map(sum, zip((0, 0), *counts, strict=True))
        return [(note, styles.warn), (f"+{added}", styles.ok), (f" −{removed}", styles.bad)]

    def _hunk_head(self, index: int, width: int, styles: TextStyles) -> Line:
        hunk, is_current, is_included = self.diff.hunks[index], index == self.current, index in self.included
        first, last = hunk.old_start, hunk.old_start + max(hunk.old_count, 1) - 1
        title = f"hunk {index + 1} of {len(self.diff.hunks)}  lines {first}–{last}"
        note = ("  edited by you" if index in self.edits else "") + ("" if is_included else "  skipped")
        text = fit(f"{'▸' if is_current else ' '} [{'x' if is_included else ' '}] {title}", max(1, width - len(note)))
        style = styles.accent if is_current else styles.muted
        return line((text, style), (fit(note, max(0, width - len(text))), styles.warn))

    def _visible_diff(self) -> Diff:
        """Return the diff with secrets masked, except in hunks the user edited."""
        if self.secrets_shown or self._masked == self.action.diff.hunks:
            return self.diff
        hunks = tuple(
            exact if index in self.edits else msgspec.structs.replace(exact, lines=masked.lines)
            for index, (exact, masked) in enumerate(zip(self.diff.hunks, self._masked, strict=True))
        )
        return msgspec.structs.replace(self.diff, hunks=hunks)

    def _holds_secret(self, index: int) -> bool:
        return self._masked[index].lines != self.action.diff.hunks[index].lines

    def _repaint_action(self) -> None:
        self.body.show(self._visible_diff())

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if not self.editing:
            return super()._keys(width, styles)
        target = f"hunk {self.current + 1}" if self._selectable else "the text"
        note = wrap([(f"You are editing {target}; you approve the result in the next step.", styles.muted)], width)
        pairs = [*FIELD_KEYS.hints([("take", "use the text")]), ("esc", "discards it")]
        return [*note, Line([]), line(*key_spans(pairs, styles))]

    def _options(self) -> list[tuple[str, str, str]]:
        if self.request.void_reason or not self._is_changed:
            return super()._options()
        reject = ("reject", "reject all of it, with a reason", "")
        if not self.included:
            return [reject]
        count = f"{len(self.included)} of {len(self.diff.hunks)} hunks, " if self._selectable else ""
        edited = "with your text, " if self.choice.edits else ""
        return [("approve_once", f"approve {count}{edited}once", ""), reject]

    def _other_actions(self) -> list[tuple[tuple[str, ...], str]]:
        actions: list[tuple[tuple[str, ...], str]] = []
        if not self.request.void_reason and self._selectable:
            actions = [
                (("next_hunk", "previous_hunk"), f"hunk {self.current + 1} of {len(self.diff.hunks)}"),
                (("leave_out",), "skip it" if self.current in self.included else "include it"),
            ]
            unseen = [bool(self.body.unseen({index})) for index in self.included]
            actions += [(("only_seen",), "skip what you have not seen")] if any(unseen) and not all(unseen) else []
        if not self.request.void_reason and self._can_edit():
            actions.append((("edit",), "edit it"))
        if self.diff.hunks and self.size.width - FRAME_COLUMNS >= MIN_SPLIT_COLUMNS:
            actions.append((("sides",), "one column" if self.body.split else "side by side"))
        if any(map(self._holds_secret, self.edits)):  # an edited hunk can't be masked again
            return actions
        return actions + super()._other_actions()

    def _why_not(self, action: str) -> str:
        """See ApprovalModal."""
        if self.request.void_reason and action not in ("sides", "secrets"):
            return "the file has changed: this edit can't be approved any more"
        if action == "sides":
            return f"side by side needs {MIN_SPLIT_COLUMNS + FRAME_COLUMNS} columns, not {self.size.width}"
        if action in ("next_hunk", "previous_hunk", "leave_out", "only_seen"):
            return "there is only one hunk" if not self._selectable else "no hunk was left out of sight"
        if action == "edit":
            return "this text can't be edited here: a skipped hunk, a masked secret or special characters"
        if action in ("approve_session", "approve_always") and self._is_changed:
            return "an edit that you changed can only be approved once"
        if action == "approve_once" and not self.included:
            return "every hunk is skipped: include one, or reject"
        return super()._why_not(action)

    def _can_edit(self) -> bool:
        """Return whether the current hunk has no masked secret and only text that a field can show."""
        if not self.action.splittable or not self.diff.hunks or self.current not in self.included:
            return False
        if self._holds_secret(self.current) and not self.secrets_shown:
            return False
        return editable(new_side_text(self.diff.hunks[self.current]))

    # --- keys ---

    def _action_next_hunk(self, step: int = 1) -> None:
        self.current = min(max(0, self.current + step), len(self.diff.hunks) - 1)
        self.body.go_to(self.current)
        self.body.repaint_lines()

    def _action_previous_hunk(self) -> None:
        self._action_next_hunk(-1)

    def _action_leave_out(self) -> None:
        """Skip or include the current hunk."""
        self.included ^= {self.current}
        self.body.leave_out(set(range(len(self.diff.hunks))) - self.included)
        self._repaint_head()

    def _action_sides(self) -> None:
        """Show old and new lines side by side, or in one column."""
        self.body.split = not self.body.split
        self.query_one("#dialog").set_class(self.body.split, "-wide")
        self._fit_soon()

    def unseen(self) -> int:
        """Return how many changed lines of the selected hunks were never on the screen."""
        if not self.body.size.height and not self.editing:
            return 1
        return len(self.body.unseen(self.included))

    def _is_unseen_above(self) -> bool:
        return any(map(self.body.is_above, self.body.unseen(self.included)))

    def show_unseen(self) -> None:
        """See RequestView."""
        self.body.show_row(min(self.body.unseen(self.included), default=0))

    def _show_first_change(self) -> None:
        """Scroll the first changed line into view, until the user scrolls."""
        offset = round(self.body.scroll_offset.y)
        if offset not in self._opening_offsets:
            self._opening_offsets = ()
        elif (goal := self.body.show_first_change()) is not None:
            self._opening_offsets = (offset, goal)
        elif offset:
            self._opening_offsets = (offset,)

    def _action_only_seen(self) -> None:
        """Skip the hunks with lines that were never on the screen."""
        self.included = {index for index in self.included if not self.body.unseen({index})}
        self.body.leave_out(set(range(len(self.diff.hunks))) - self.included)
        self._repaint_head()

    def fit(self) -> None:
        """Fit the body, show the first changed line at the beginning, and move to a visible hunk."""
        if self._opening_offsets and self.body.size.height and self.body.virtual_size.height:
            self._show_first_change()
        visible = self.body.visible_hunks() if self._selectable and self.body.size.height else []
        if visible and self.current not in visible:
            self.current = visible[0] if self.current < visible[0] else visible[-1]
            self.body.repaint_lines()
        super().fit()

    # --- editing ---

    def _action_edit(self) -> None:
        self.field.edit_text(new_side_text(self.diff.hunks[self.current]))
        self.body.display = False
        self._type_into(self.field)
        self._repaint_head()

    def _field_closed(self, action: str) -> None:
        """Apply or discard the edited text. The result must be seen before it can be approved (A9)."""
        self.body.display = True
        self._end_typing()
        self.field.open = False
        if action == "take" and self.field.text != new_side_text(self.diff.hunks[self.current]):
            self._apply_text(self.field.text)
        self._repaint_head()

    def _apply_text(self, text: str) -> None:
        if text == new_side_text(self.action.diff.hunks[self.current]):
            self.edits.pop(self.current, None)
        else:
            self.edits[self.current] = text
        self.diff = with_edits(self.action.diff, self.edits)
        self.body.show(self._visible_diff())
        self.body.go_to(self.current)

    def escape(self) -> None:
        """Leave the hunk field, or handle Esc as in every dialog."""
        if self.editing:
            self._field_closed("drop")
        else:
            super().escape()

    def _approved_part(self) -> dict[str, Any] | None:
        return self.choice.to_answer() if self._is_changed else None


def _with_signs(masked: Hunk, exact: Hunk) -> Hunk:
    """Return `masked` with the line signs of `exact`, which masking a multi-line secret may have removed."""
    lines = tuple(
        text if text[:1] == original[:1] else original[:1] + text
        for text, original in zip(masked.lines, exact.lines, strict=True)
    )
    return msgspec.structs.replace(exact, lines=lines)
