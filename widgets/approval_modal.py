"""The approval dialogs: show exactly what will be written, run, read or trusted, and ask for a decision (A3, A9)."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from tui_agent.common.domain import (
    Action,
    Answer,
    Diff,
    EditAction,
    Grant,
    Harm,
    Hunk,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.common.hunks import HunkChoice, count_changes, new_side_text, with_edits
from tui_agent.events.narration import harm_texts, trust_texts
from tui_agent.text import clean, make_visible, pluralize, strip_invisible
from tui_agent.view.items import RequestItem
from widgets.dialog_keys import Keys, held_label, key_lines, key_spans
from widgets.diff_lines import MIN_SPLIT_COLUMNS
from widgets.diff_view import DiffView
from widgets.inputs import ConfirmInput, EditField, LineInput
from widgets.line_view import LinesView
from widgets.request_view import RequestModal, hidden_hint, option_lines
from widgets.styled_text import Line, Span, TextStyles, chop, fit, hanging, justified_line, line, wrap
from widgets.textual_private import keys_waiting

VOID = (
    "The file changed on disk while this dialog was open, so this edit can no longer be approved. Nothing was written."
)
KEYS = Keys("approval")
SCOPES = {"approve_once": Scope.ONCE, "approve_session": Scope.SESSION, "approve_always": Scope.ALWAYS}
DECISIONS = (*SCOPES, "reject", "again")
UNREAD = "unread"
"""Word that approves what was not read."""
MAX_UNSEEN = 500
"""Lines not seen from which they can be approved unread, by typing a word."""
LOW_SCREEN = 20
"""Screen height below which gaps between keys are omitted."""
MAX_RULE_CHARACTERS = 160
"""Maximum characters of a command that is repeated as the rule that an approval saves."""
VERBS = {"create": "Create", "modify": "Edit", "delete": "Delete"}


class ApprovalModal(RequestModal):
    """Approves once, for the session, always, or rejects with a reason. Space and Enter never approve."""

    body: LinesView | DiffView
    UNSEEN_NOUN: ClassVar[str] = "line"

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        super().__init__(request, **guard)
        self.secrets_shown = False
        """Whether secrets are shown (A7)."""
        self.body = LinesView(self._action_lines, id="body")
        self._body_texts: tuple[str, ...] = ()
        self._seen: set[int] = set()
        """Lines of the action that were on the screen since it was painted with these texts."""
        self._asked_too_early = False
        """Whether the user tried to approve what was not in sight."""
        self.word = ConfirmInput(id="word")
        self._void_shown = False
        self.reason = LineInput(id="reason", placeholder="why not? the model reads your reason")
        self.field: EditField | None = None
        """Edits the text of a hunk; None if the action has no hunks."""
        self.typing: LineInput | EditField | None = None
        """The field that is open for typing."""

    def compose(self) -> ComposeResult:
        """Yield head, action, keys and the field for a reason."""
        self.reason.display = self.word.display = False
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield self.body
            if self.field is not None:
                self.field.display = False
                yield self.field
            yield LinesView(self._keys, id="keys")
            yield self.reason
            yield self.word

    def on_mount(self) -> None:
        """Mark the frame of a critical command, and note what comes into sight."""
        if isinstance(self.body, LinesView):
            self.body.on_seen = self._note_seen
        if self._is_critical:
            dialog = self.query_one("#dialog")
            dialog.add_class("-critical")
            dialog.border_title = dialog.border_subtitle = "!! CRITICAL !!"

    # --- what was in sight ---

    def _note_seen(self, lines: range) -> None:
        """Note which lines of the action were painted."""
        assert isinstance(self.body, LinesView)
        texts = tuple(line.text for line in self.body.lines)
        if texts != self._body_texts:
            self._body_texts, self._seen = texts, set()
        before = len(self._seen)
        self._seen.update(index for index in lines if 0 <= index < len(texts))
        if len(self._seen) != before:
            self.call_later(self.repaint_keys)

    def unseen(self) -> int:
        """Return how many lines that must be seen before approving were never on the screen."""
        assert isinstance(self.body, LinesView)
        return max(1, len(self.body.lines)) - len(self._seen)

    def _is_unseen_above(self) -> bool:
        """Return whether some of them are above the visible ones."""
        return any(index not in self._seen for index in range(int(self.body.scroll_offset.y)))

    @property
    def _is_critical(self) -> bool:
        """Whether the action is a critical command."""
        return isinstance(self.request.action, RunAction) and self.request.action.severity is Severity.CRITICAL

    def _needed_word(self) -> str:
        """Return the word that approving needs; empty if a key is enough."""
        if self._is_critical:
            return (self.request.harm or Harm()).word
        return UNREAD if self.unseen() > MAX_UNSEEN else ""

    @property
    def flexible_part(self) -> Widget:
        """The hunk field while it is edited, otherwise the body."""
        return self.field if self.field is not None and self.editing else self.body

    def request_updated(self) -> None:
        """Show at once that the request became void, and restart the quiet period (A9)."""
        if self.request.void_reason and not self._void_shown:
            self._void_shown = True
            if self.typing is None:
                self.disarm()
            self._repaint_head()

    @property
    def typing_reason(self) -> bool:
        """Whether the reason for a rejection is being typed."""
        return self.typing is self.reason

    @property
    def typing_word(self) -> bool:
        """Whether the word that approves is being typed."""
        return self.typing is self.word

    @property
    def editing(self) -> bool:
        """Whether the text of a hunk is being edited."""
        return self.typing is not None and self.typing is self.field

    def _repaint_head(self) -> None:
        for head in self.query("#head").results(LinesView):
            head.relayout()
            self.repaint_keys()
            self._fit_soon()

    # --- painting ---

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        right: list[Span] = []
        match self.shown:
            case EditAction(display=name, diff=diff) as action:
                title, right = f"{VERBS[diff.kind]} {make_visible(name)}", self._change_size(styles)
                flags = _flags(outside=action.outside, protected=action.protected, sensitive=action.sensitive)
            case ReadAction(display=name) as action:
                title = f"Read {make_visible(name)}"
                flags = _flags(outside=action.outside, credentials=action.credentials)
            case RunAction(severity=severity):
                title, flags = "Run a critical command?" if self._is_critical else "Run a command", []
                style = {Severity.HIGH: styles.warn, Severity.CRITICAL: styles.bad}.get(severity, styles.muted)
                right = [(f"severity {severity.value}", style)]
            case _:
                title, flags = "Trust this folder?", []
        lines = [justified_line([(title, styles.heading)], right, width, styles)]
        if flags:
            lines += wrap([("This file is " + " and ".join(flags) + ".", styles.warn)], width)
        if self.request.why:
            lines += wrap([(make_visible(self.request.why), styles.muted)], width)
        if self._is_critical:
            for text in harm_texts(self.request.harm or Harm()):
                lines += wrap([(make_visible(text), styles.bad + styles.strong.without_color)], width)
        if self.request.void_reason:
            lines += wrap([(VOID, styles.warn)], width)
        return lines

    def _change_size(self, styles: TextStyles) -> list[Span]:
        """Return the number of added and removed lines."""
        return []

    @property
    def shown(self) -> Action | None:
        """The action as shown: secrets are masked until the user reveals them (A7)."""
        request = self.request
        return request.exact_action if self.secrets_shown and request.exact_action is not None else request.action

    def _action_lines(self, width: int, styles: TextStyles) -> list[Line]:
        match self.shown:
            case RunAction() as action:
                return _command(action, width, styles)
            case ReadAction(path=path):
                return chop([(make_visible(path), styles.text)], width)
            case TrustAction() as action:
                return _trust(action, width, styles)
            case _:
                return []

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self.save_is_slow:
            notice = key_spans([("saving", "your answer to disk before acting on it")], styles)
            return [*wrap(notice, width), Line([]), *wrap(key_spans([("esc", "stops the run")], styles), width)]
        if self.typing_reason:
            return [line(*key_spans([("enter", "rejects"), ("esc", "goes back")], styles))]
        if self.typing_word:
            note = wrap([(self._word_note(), styles.warn)], width)
            return [*note, line(*key_spans([("enter", "approves if it is that"), ("esc", "goes back")], styles))]
        held = held_label(self.held_key) or (KEYS.label("reject") if self._is_critical and self.armed else "")
        lines = option_lines(self._options(), self._is_enabled, KEYS.label, width, styles, held=held)
        others = [(KEYS.labels(*actions), effect) for actions, effect in self._other_actions()]
        if any(keys for keys, _effect in others):
            style = styles.accent if self.armed else styles.muted
            lines += [*self._gap, *key_lines(others, width, styles, gap=3, style=style, held=held)]
        hint = key_spans([("esc", "not now" if self._is_trust else "stops the run")], styles)
        return [*lines, *self._gap, *wrap([*hint, *self._sight_hint(styles)], width)]

    @property
    def _gap(self) -> list[Line]:
        """A blank line between groups of keys; none on a low screen."""
        return [] if self.size.height < LOW_SCREEN else [Line([])]

    def _sight_hint(self, styles: TextStyles) -> list[Span]:
        """Return the keys that scroll, and how much is still to be seen before approving."""
        unseen = 0 if self.request.void_reason else self.unseen()
        if not unseen:
            return hidden_hint(self.body, KEYS.arrow_labels("down", "page_down", "bottom"), styles, seen=True)
        key = KEYS.label("page_up" if self._is_unseen_above() else "page_down")
        text = f" {pluralize(unseen, self.UNSEEN_NOUN)} not seen yet"
        return [(f"   {key}", styles.accent), (text, styles.held if self._asked_too_early else styles.warn)]

    def _word_note(self) -> str:
        word = self._needed_word()
        if self._is_critical:
            return f"Type {word} to run this command."
        return f"{pluralize(self.unseen(), self.UNSEEN_NOUN)} not seen. Type {word} to approve without reading them."

    @property
    def _is_trust(self) -> bool:
        """Whether the request is for trust in a folder."""
        return isinstance(self.request.action, TrustAction)

    def _other_actions(self) -> list[tuple[tuple[str, ...], str]]:
        """Return the available actions that do not decide, most important first, with their current effect.

        The action `name` calls the method `_action_<name>`.
        """
        effect = "hide the secrets" if self.secrets_shown else "show the secrets"
        return [(("secrets",), effect)] if self.request.hides_secrets else []

    def _options(self) -> list[tuple[str, str, str]]:
        """Return the actions that decide as (action, effect, rule)."""
        reject = ("reject", "reject, with a reason", "")
        if self.request.void_reason:
            return [("again", "recompute the change and continue", ""), reject]
        if isinstance(self.request.action, TrustAction):
            no = ("reject", "don't trust it: read-only", "")
            return [no, _TRUST_ANYWAY] if self.request.action.risks else [_TRUST_IT, no]
        if self._is_critical:
            return [("reject", "reject, with a reason (enter)", ""), ("approve_once", "approve, by typing a word", "")]
        if self._needed_word():
            return [("approve_once", "approve without reading all of it, by typing a word", ""), reject]
        options = [("approve_once", "approve once", "")]
        for action, text in (("approve_session", "for this session"), ("approve_always", "always")):
            if rules := self._rules(SCOPES[action]):
                options.append((action, text, rules))
        return [*options, reject]

    def _rules(self, scope: Scope) -> str:
        action = self.request.action
        command = action.command if isinstance(action, RunAction) else ""
        return ", ".join(_rule(grant, command) for grant in self.request.grants if grant.scope is scope)

    # --- keys ---

    def _is_enabled(self, action: str) -> bool:
        can_approve = not self.unseen() or (not self._is_critical and bool(self._needed_word()))
        return self.armed and (action in ("reject", "again") or can_approve)

    def process_key(self, event: events.Key) -> bool:
        """Decide, scroll, or type if a field is open; return False for a key without a function."""
        action = KEYS.action_for(event)
        if self.typing is None and event.key == "enter" and self._is_critical:
            action = "reject"
        if self.typing_reason and event.key == "enter":
            self._reject(self.reason.value)
        elif self.typing_word and event.key == "enter":
            self._confirm()
        elif self.typing is not None:
            self.typing.press(event)
        elif action in DECISIONS:
            is_offered = any(action == option[0] for option in self._options())
            if is_offered and self._is_enabled(action):
                self._decide(action)
            self._asked_too_early = is_offered and self.typing is None
            self.repaint_keys()
        elif not self.body.scroll_for(action) and any(action in actions for actions, _ in self._other_actions()):
            getattr(self, f"_action_{action}")()
            self.repaint_keys()
        return bool(action) or self.typing is not None

    def take_text(self, event: events.Key) -> None:
        """Take a key that is text, for the open field or the draft."""
        if self.typing is not None:
            self.typing.press(event)
        else:
            super().take_text(event)

    def _action_secrets(self) -> None:
        """Show or mask secrets."""
        self.secrets_shown = not self.secrets_shown
        self._repaint_action()
        self._fit_soon()

    def _repaint_action(self) -> None:
        if isinstance(self.body, LinesView):
            self.body.relayout()

    def _decide(self, action: str) -> None:
        if action == "again":
            self.answer(Answer(verdict="withdrawn"))
        elif action != "reject" and self._needed_word():
            self.word.value = ""
            self._type_into(self.word)
        elif action != "reject":
            self.answer(Answer(verdict="approve", scope=SCOPES[action], data=self._approved_part()))
        elif self._is_trust:
            self.answer(Answer(verdict="reject"))
        else:
            self._type_into(self.reason)

    def _approved_part(self) -> dict[str, Any] | None:
        """Return the approved part of an edit as plain data; None for all of it, unchanged."""
        return None

    def _type_into(self, field: LineInput | EditField) -> None:
        """Show a field and focus it."""
        self.typing, field.display = field, True
        self._focus_typing()
        self.repaint_keys()

    def _focus_typing(self) -> None:
        """Focus the field after pending keys are processed, to keep their order."""
        if keys_waiting(self):
            self.call_later(self._focus_typing)
        elif self.typing is not None:
            self.set_focus(self.typing)

    def _end_typing(self) -> None:
        """Close the field and restart the quiet period (A9)."""
        if self.typing is not None:
            self.typing.display = False
        self.typing = None
        self.set_focus(None)
        self.disarm()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Reject with the typed reason, which may be empty."""
        event.stop()
        if self.typing_reason:
            self._reject(event.value)
        elif self.typing_word:
            self._confirm()

    def _confirm(self) -> None:
        """Approve once if the needed word was typed; otherwise clear the field."""
        if self.word.value.strip() == self._needed_word():
            self.answer(Answer(verdict="approve", data=self._approved_part()))
        else:
            self.word.value = ""

    def _reject(self, reason: str) -> None:
        self.answer(Answer(verdict="reject", text=reason.strip()))

    def escape(self) -> None:
        """Leave the reason field, or stop the run."""
        if self._is_trust:
            self.answer(Answer(verdict="reject"))
        if self.typing_reason or self.typing_word:
            self._end_typing()
        else:
            super().escape()


def _flags(**flags: bool) -> list[str]:
    texts = {"outside": "outside the workspace", "credentials": "known to contain secrets"}
    return [texts.get(name, name) for name, is_set in flags.items() if is_set]


def _command(action: RunAction, width: int, styles: TextStyles) -> list[Line]:
    lines: list[Line] = []
    for number, text in enumerate(make_visible(action.command).split("\n")):
        prompt = [("  " if number else "$ ", styles.accent)]
        lines += hanging(prompt, [(text, styles.strong)], width, styles.text, cut=True)
    lines.append(Line([]))
    notes = [("in", action.cwd), *(("why", reason) for reason in action.reasons)]
    for label, text in [*notes, *(("env", change) for change in action.env_changes)]:
        note = (make_visible(text), styles.warn if label == "env" else styles.muted)
        lines += hanging([(f"{label:<5}", styles.muted)], [note], width, styles.text, cut=True)
    return lines


_TRUST_IT = ("approve_once", "trust it", "")
_TRUST_ANYWAY = ("approve_once", "trust it all the same", "")


def _trust(action: TrustAction, width: int, styles: TextStyles) -> list[Line]:
    lines = chop([(make_visible(action.folder), styles.strong)], width)
    for risk in action.risks:
        lines += hanging([("! ", styles.warn)], [(make_visible(risk), styles.warn)], width, styles.text)
    head, foot = trust_texts(action)
    lines += [Line([]), *wrap([(head, styles.muted)], width)]
    for entry in action.contents:
        lines += hanging([("• ", styles.accent)], [(make_visible(entry), styles.text)], width, styles.text)
    return [*lines, *wrap([(foot, styles.muted)], width)]


def _rule(grant: Grant, command: str) -> str:
    """Describe what a grant allows. A long command is not repeated, to keep the keys visible."""
    is_repetition = grant.pattern == command and ("\n" in command or len(command) > MAX_RULE_CHARACTERS)
    pattern = "exactly the command above" if is_repetition else make_visible(grant.pattern)
    folder = f" in {make_visible(grant.cwd)}" if grant.cwd else ""
    changes = f" with {', '.join(map(make_visible, grant.env_changes))}" if grant.env_changes else ""
    return f"{grant.kind} {pattern}{folder}{changes}"


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

    def on_diff_view_seen(self) -> None:
        """Update what is still to be seen."""
        self.repaint_keys()

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
