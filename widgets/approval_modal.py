"""The approval dialog: exactly what will be written, run, read or trusted, and the keys that decide (A3, A9)."""

from __future__ import annotations

from typing import Any

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
    Hunk,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.common.hunks import HunkChoice, count_changes, new_side_text, with_edits
from tui_agent.text import make_visible
from tui_agent.view.items import RequestItem
from widgets.dialog_keys import Keys, key_lines, key_spans
from widgets.diff_lines import NARROWEST
from widgets.diff_view import DiffView
from widgets.inputs import EditField, LineInput
from widgets.line_view import LinesView
from widgets.request_view import FittedModal, hidden_hint, option_lines
from widgets.styled_text import HIDDEN, Line, Span, TextStyles, chop, fit, hanging, justified_line, line, wrap
from widgets.textual_private import keys_waiting

VOID = (
    "The file changed on disk while this dialog was open, so this edit can no longer be approved. Nothing was written."
)
KEYS = Keys("approval")
SCOPES = {"approve_once": Scope.ONCE, "approve_session": Scope.SESSION, "approve_always": Scope.ALWAYS}
DECIDES = (*SCOPES, "reject", "again")
LONG_RULE = 160
"""Characters from which on a command that is shown is not shown once more as a rule."""
VERBS = {"create": "Create", "modify": "Edit", "delete": "Delete"}


class ApprovalModal(FittedModal):
    """Approve once, for the session, always, or reject with a reason. Space and Enter never approve."""

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        super().__init__(request, **guard)
        self.secrets_shown = False
        """The user wants to see the secrets (A7)."""
        self.body: LinesView | DiffView = self._make_body()
        self.end_seen = False
        """True once the end of what will happen was on screen."""
        self._void_shown = self._saves_slowly = False
        self.reason = LineInput(id="reason", placeholder="why not? the model reads your reason")
        self.field: EditField | None = None
        """For the text of a part, where that can be changed."""
        self.typing: LineInput | EditField | None = None
        """The field that a text is typed into."""

    def _make_body(self) -> LinesView | DiffView:
        """What shows the thing itself."""
        return LinesView(self._action_lines, id="body")

    def compose(self) -> ComposeResult:
        """Head, the thing itself, keys."""
        self.reason.display = False
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield self.body
            if self.field is not None:
                self.field.display = False
                yield self.field
            yield LinesView(self._keys, id="keys")
            yield self.reason

    @property
    def middle(self) -> Widget:
        """The text of a part while it is changed."""
        return self.field if self.field is not None and self.editing else self.body

    def fit(self) -> None:
        """See FittedModal; the end may have come into view."""
        if self.body.size.height and self.body.end_seen and self.body.virtual_size.height:
            self.end_seen = True
        super().fit()

    def still_saving(self) -> None:
        """Said where the keys were."""
        self._saves_slowly = self.saving
        self.show_keys()

    def look_again(self) -> None:
        """Said at once when it became void; what is typed just then is not meant for that (A9)."""
        if self.request.void and not self._void_shown:
            self._void_shown = True
            if self.typing is None:
                self.hush()
            self._repaint_head()

    @property
    def reasoning(self) -> bool:
        """True while the reason for a rejection is typed."""
        return self.typing is self.reason

    @property
    def editing(self) -> bool:
        """True while the text of a part is changed."""
        return self.typing is not None and self.typing is self.field

    def _repaint_head(self) -> None:
        for head in self.query("#head").results(LinesView):
            head.relayout()
            self.show_keys()
            self._fit_soon()

    # --- what is shown ---

    def _head(self, width: int, styles: TextStyles) -> list[Line]:
        right: list[Span] = []
        match self.shown:
            case EditAction(display=name, diff=diff) as action:
                title, right = f"{VERBS[diff.kind]} {make_visible(name)}", self._measure(styles)
                flags = _flags(outside=action.outside, protected=action.protected, sensitive=action.sensitive)
            case ReadAction(display=name) as action:
                title = f"Read {make_visible(name)}"
                flags = _flags(outside=action.outside, credentials=action.credentials)
            case RunAction(severity=severity):
                title, flags = "Run a command", []
                style = {Severity.HIGH: styles.warn, Severity.CRITICAL: styles.bad}.get(severity, styles.muted)
                right = [(f"severity {severity.value}", style)]
            case _:
                title, flags = "Trust this folder?", []
        lines = [justified_line([(title, styles.heading)], right, width, styles)]
        if flags:
            lines += wrap([("This file is " + " and ".join(flags) + ".", styles.warn)], width)
        if self.request.why:
            lines += wrap([(make_visible(self.request.why), styles.muted)], width)
        if self.request.void:
            lines += wrap([(VOID, styles.warn)], width)
        return lines

    def _measure(self, styles: TextStyles) -> list[Span]:
        """How much changes."""
        return []

    @property
    def shown(self) -> Action | None:
        """The action as it is shown: without its secrets until the user wants to see them (A7)."""
        request = self.request
        return request.exact if self.secrets_shown and request.exact is not None else request.action

    def _action_lines(self, width: int, styles: TextStyles) -> list[Line]:
        match self.shown:
            case RunAction() as action:
                return _command(action, width, styles)
            case ReadAction(path=path):
                return chop([(make_visible(path), styles.text)], width)
            case TrustAction(folder=folder, contents=found):
                lines = [*chop([(make_visible(folder), styles.strong)], width), Line([])]
                lines += wrap([("If you trust it, these are read and followed:", styles.muted)], width) if found else []
                for one in found:
                    name = [(make_visible(one), styles.text)]
                    lines += hanging([("• ", styles.accent)], name, width, styles.text, cut=True)
                return lines
            case _:
                return []

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if self._saves_slowly:
            why = key_spans([("saving", "your answer to disk before acting on it")], styles)
            return [*wrap(why, width), Line([]), *wrap(key_spans([("esc", "stops the run")], styles), width)]
        if self.reasoning:
            return [line(*key_spans([("enter", "rejects"), ("esc", "goes back")], styles))]
        trusting = isinstance(self.request.action, TrustAction)
        hint = key_spans([("esc", "not now" if trusting else "stops the run")], styles)
        scrolls = KEYS.arrows("down", "page_down", "bottom")
        hint += hidden_hint(self.body, scrolls, styles, seen=self.end_seen)
        listed = option_lines(self._options(), self._works, KEYS.of, width, styles)
        return [*listed, *self._more_keys(width, styles), Line([]), *wrap(hint, width)]

    def _more_keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Keys that decide nothing, the most wanted first."""
        pairs = [(keys, does) for actions, does in self._other_actions() if (keys := KEYS.both(*actions))]
        style = styles.accent if self.armed else styles.muted
        return [Line([]), *key_lines(pairs, width, styles, gap=3, style=style)] if pairs else []

    def _other_actions(self) -> list[tuple[tuple[str, ...], str]]:
        """What can be done without deciding: actions, with what they do now."""
        says = "hide the secrets" if self.secrets_shown else "show the secrets"
        return [(("secrets",), says)] if self.request.hides else []

    def _options(self) -> list[tuple[str, str, str]]:
        """Actions that decide, each with what it means now and its rule."""
        reject = ("reject", "reject, with a reason", "")
        if self.request.void:
            return [("again", "recompute the change and continue", ""), reject]
        if isinstance(self.request.action, TrustAction):
            no = ("reject", "don't trust it: read-only", "")
            return [("approve_once", "trust it", ""), no]
        pairs = [("approve_once", "approve once", "")]
        for action, text in (("approve_session", "for this session"), ("approve_always", "always")):
            if rules := self._rules(SCOPES[action]):
                pairs.append((action, text, rules))
        return [*pairs, reject]

    def _rules(self, scope: Scope) -> str:
        action = self.request.action
        above = action.command if isinstance(action, RunAction) else ""
        return ", ".join(_rule(grant, above) for grant in self.request.grants if grant.scope is scope)

    # --- what is pressed ---

    def _works(self, action: str) -> bool:
        return self.armed and (action in ("reject", "again") or self.end_seen)

    def pressed(self, event: events.Key) -> None:
        """One of the offered keys, or a key that scrolls; while a text is typed, nothing but that."""
        action = KEYS.does(event)
        if self.reasoning and event.key == "enter":
            self._reject(self.reason.value)
        elif self.typing is not None:
            self.typing.press(event)
        elif action in DECIDES:
            if action in {one for one, _text, _rule in self._options()} and self._works(action):
                self._decide(action)
        elif not self.body.scroll_for(action) and any(action in actions for actions, _does in self._other_actions()):
            self._do_other(action)

    def _do_other(self, action: str) -> None:
        """Something that decides nothing."""
        if action == "secrets":
            self.secrets_shown = not self.secrets_shown
            self._repaint_secrets()
            self.show_keys()
            self._fit_soon()

    def _repaint_secrets(self) -> None:
        """Show the thing itself with its secrets, or without."""
        if isinstance(self.body, LinesView):
            self.body.relayout()

    def _decide(self, action: str) -> None:
        if action == "again":
            self.answer(Answer(verdict="withdrawn"))
        elif action != "reject":
            self.answer(Answer(verdict="approve", scope=SCOPES[action], data=self.hunks_chosen()))
        elif isinstance(self.request.action, TrustAction):
            self.answer(Answer(verdict="reject"))
        else:
            self._type_into(self.reason)

    def hunks_chosen(self) -> dict[str, Any] | None:
        """What is approved of an edit; None for all of it as it is."""
        return None

    def _type_into(self, field: LineInput | EditField) -> None:
        """Show a field and give it the keys."""
        self.typing, field.display = field, True
        self._focus_typing()
        self.show_keys()

    def _focus_typing(self) -> None:
        """Once the keys that were pressed before are typed, or they would stand behind those that follow."""
        if keys_waiting(self):
            self.call_later(self._focus_typing)
        elif self.typing is not None:
            self.set_focus(self.typing)

    def _end_typing(self) -> None:
        """What is typed on decides nothing (A9)."""
        if self.typing is not None:
            self.typing.display = False
        self.typing = None
        self.set_focus(None)
        self.hush()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the reason rejects, also without one."""
        event.stop()
        if self.reasoning:
            self._reject(event.value)

    def _reject(self, reason: str) -> None:
        self.answer(Answer(verdict="reject", text=reason.strip()))

    def escape(self) -> None:
        """Back from the reason, else stop the run."""
        if isinstance(self.request.action, TrustAction):
            self.answer(Answer(verdict="reject"))
        if self.reasoning:
            self._end_typing()
        else:
            super().escape()


def _flags(**flags: bool) -> list[str]:
    words = {
        "outside": "outside the workspace",
        "protected": "protected",
        "sensitive": "sensitive",
        "credentials": "known to contain secrets",
    }
    return [words[name] for name, on in flags.items() if on]


def _command(action: RunAction, width: int, styles: TextStyles) -> list[Line]:
    lines: list[Line] = []
    for number, text in enumerate(make_visible(action.command).split("\n")):
        head = [("$ " if number == 0 else "  ", styles.accent)]
        lines += hanging(head, [(text, styles.strong)], width, styles.text, cut=True)
    notes: list[tuple[str, str]] = [("in", make_visible(action.cwd))]
    notes += [("why", make_visible(reason)) for reason in action.reasons]
    notes += [("env", make_visible(change)) for change in action.env_changes]
    lines.append(Line([]))
    for label, text in notes:
        style = styles.warn if label == "env" else styles.muted
        lines += hanging([(f"{label:<5}", styles.muted)], [(text, style)], width, styles.text, cut=True)
    return lines


def _rule(grant: Grant, above: str) -> str:
    """What would be allowed. A long command is not said again: the keys have to stay in sight below it."""
    where = f" in {make_visible(grant.cwd)}" if grant.cwd else ""
    changed = f" with {', '.join(make_visible(one) for one in grant.env_changes)}" if grant.env_changes else ""
    whole = grant.pattern == above and ("\n" in above or len(above) > LONG_RULE)
    what = "exactly the command above" if whole else make_visible(grant.pattern)
    return f"{grant.kind} {what}{where}{changed}"


LONGEST = 200_000
"""Characters of a hunk that can be edited."""


def editable(text: str) -> bool:
    """Whether a text can be shown in a field as it is: what can't be seen would be edited unseen."""
    return len(text) <= LONGEST and not any(
        ord(character) in HIDDEN or "\ud800" <= character <= "\udfff" for character in set(text)
    )


TEXT = Keys("change")
FIELD_AROUND = 8
"""Columns of the dialog that are not the diff's."""


def _ends(key: str) -> str:
    return "drop" if key == "escape" else TEXT.named(key)


class EditModal(ApprovalModal):
    """What is approved is what is shown: the hunks that are taken, with the text that was given to them."""

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        action, shown = request.exact or request.action, request.action
        assert isinstance(action, EditAction) and isinstance(shown, EditAction)
        self.action = action
        """What will be done, exactly."""
        self._masked = tuple(_with_signs(*pair) for pair in zip(shown.diff.hunks, action.diff.hunks, strict=True))
        self.taken = set(range(len(action.diff.hunks)))
        self.edits: dict[int, str] = {}
        self.current = 0
        """The hunk that the keys are for."""
        self.diff = action.diff
        """Every hunk, with the edits in them."""
        self._counts = [count_changes(hunk) for hunk in action.diff.hunks]
        super().__init__(request, **guard)
        self.field: EditField = EditField(_ends, self._edited, self.typed_ahead, id="hunk", tab_behavior="indent")

    def _make_body(self) -> DiffView:
        self.view = DiffView(self._to_show(), head=self._hunk_head if self._many else None, id="body")
        return self.view

    @property
    def _many(self) -> bool:
        """True where hunks can be taken one by one."""
        return self.action.splittable and len(self.action.diff.hunks) > 1

    @property
    def choice(self) -> HunkChoice:
        """What is taken, as it is shown."""
        return HunkChoice(tuple(sorted(self.taken)), {at: self.edits[at] for at in self.edits if at in self.taken})

    @property
    def _changed(self) -> bool:
        return not self.choice.selects_all(self.action.diff)

    # --- what is shown ---

    def _measure(self, styles: TextStyles) -> list[Span]:
        left = len(self.action.diff.hunks) - len(self.taken)
        said = f"{left} skipped  " if left else ""
        said += "edited by you  " if self.choice.edits else ""
        added, removed = (sum(self._counts[place][which] for place in self.taken) for which in (0, 1))
        return [(said, styles.warn), (f"+{added}", styles.ok), (f" −{removed}", styles.bad)]

    def _hunk_head(self, place: int, width: int, styles: TextStyles) -> Line:
        hunk = self.diff.hunks[place]
        here, taken = place == self.current, place in self.taken
        first, last = hunk.old_start, hunk.old_start + max(hunk.old_count, 1) - 1
        about = f"hunk {place + 1} of {len(self.diff.hunks)}  lines {first}–{last}"
        said = ("  edited by you" if place in self.edits else "") + ("" if taken else "  skipped")
        text = fit(f"{'▸' if here else ' '} [{'x' if taken else ' '}] {about}", max(1, width - len(said)))
        style = styles.accent if here else styles.muted
        return line((text, style), (fit(said, max(0, width - len(text))), styles.warn))

    def _to_show(self) -> Diff:
        """The diff without the secrets that are hidden now; what the user typed is shown as it is."""
        if self.secrets_shown or self._masked == self.action.diff.hunks:
            return self.diff
        hunks = tuple(
            now if at in self.edits else msgspec.structs.replace(now, lines=hidden.lines)
            for at, (now, hidden) in enumerate(zip(self.diff.hunks, self._masked, strict=True))
        )
        return msgspec.structs.replace(self.diff, hunks=hunks)

    def _holds_secret(self, place: int) -> bool:
        return self._masked[place].lines != self.action.diff.hunks[place].lines

    def _repaint_secrets(self) -> None:
        self.view.show(self._to_show())

    def _keys(self, width: int, styles: TextStyles) -> list[Line]:
        if not self.editing:
            return super()._keys(width, styles)
        which = f"hunk {self.current + 1}" if self._many else "the text"
        note = wrap([(f"You are editing {which}; you approve the result in the next step.", styles.muted)], width)
        pairs = [*TEXT.pairs([("take", "use the text")]), ("esc", "discards it")]
        return [*note, Line([]), line(*key_spans(pairs, styles))]

    def _options(self) -> list[tuple[str, str, str]]:
        if self.request.void or not self._changed:
            return super()._options()
        rejecting = ("reject", "reject all of it, with a reason", "")
        if not self.taken:
            return [rejecting]
        count = f"{len(self.taken)} of {len(self.action.diff.hunks)} hunks, " if self._many else ""
        edited = "with your text, " if self.choice.edits else ""
        return [("approve_once", f"approve {count}{edited}once", ""), rejecting]

    def _other_actions(self) -> list[tuple[tuple[str, ...], str]]:
        pairs: list[tuple[tuple[str, ...], str]] = []
        if not self.request.void and self._many:
            taken = self.current in self.taken
            pairs = [
                (("next_hunk", "previous_hunk"), f"hunk {self.current + 1} of {len(self.diff.hunks)}"),
                (("leave_out",), "skip it" if taken else "include it"),
            ]
        if not self.request.void and self._can_edit():
            pairs.append((("edit",), "edit it"))
        if self.diff.hunks and self.size.width - FIELD_AROUND >= NARROWEST:
            pairs.append((("sides",), "one column" if self.view.split else "side by side"))
        bare = any(self._holds_secret(place) for place in self.edits)  # what was edited can't be hidden again
        return pairs if bare else pairs + super()._other_actions()

    def _can_edit(self) -> bool:
        """No secret is hidden in the hunk, and nothing that a field can't show."""
        if not self.action.splittable or not self.diff.hunks or self.current not in self.taken:
            return False
        if self._holds_secret(self.current) and not self.secrets_shown:
            return False
        return editable(new_side_text(self.diff.hunks[self.current]))

    # --- what is pressed ---

    def _do_other(self, action: str) -> None:
        if action in ("next_hunk", "previous_hunk"):
            self._go(self.current + (1 if action == "next_hunk" else -1))
        elif action == "leave_out":
            self.taken ^= {self.current}
            self.view.leave_out(set(range(len(self.diff.hunks))) - self.taken)
            self._repaint_head()
        elif action == "sides":
            self.view.split = not self.view.split
            self.query_one("#dialog").set_class(self.view.split, "-wide")
            self._fit_soon()
        elif action == "edit":
            self._edit()
        else:
            super()._do_other(action)
        self.show_keys()

    def _go(self, hunk: int) -> None:
        self.current = min(max(0, hunk), len(self.diff.hunks) - 1)
        self.view.go_to(self.current)
        self.view.repaint_lines()

    def fit(self) -> None:
        """The keys are for a hunk that can be seen."""
        seen = self.view.hunks_seen() if self._many and self.view.size.height else []
        if seen and self.current not in seen:
            self.current = seen[0] if self.current < seen[0] else seen[-1]
            self.view.repaint_lines()
        super().fit()

    # --- editing ---

    def _edit(self) -> None:
        self.field.take(new_side_text(self.diff.hunks[self.current]))
        self.body.display = False
        self._type_into(self.field)
        self._repaint_head()

    def _edited(self, way: str) -> None:
        """The text is done with. What is applied has to be seen first, and what is typed on decides nothing (A9)."""
        self.body.display = True
        self._end_typing()
        self.field.open = False
        if way == "take" and self.field.text != new_side_text(self.diff.hunks[self.current]):
            self._take_text(self.field.text)
        self._repaint_head()

    def _take_text(self, text: str) -> None:
        if text == new_side_text(self.action.diff.hunks[self.current]):
            self.edits.pop(self.current, None)
        else:
            self.edits[self.current] = text
        self.end_seen = False
        self.diff = with_edits(self.action.diff, self.edits)
        self._counts = [count_changes(hunk) for hunk in self.diff.hunks]
        self.view.show(self._to_show())
        self.view.go_to(self.current)

    def escape(self) -> None:
        """Back from the field, else as in every dialog."""
        if self.editing:
            self._edited("drop")
        else:
            super().escape()

    def hunks_chosen(self) -> dict[str, Any] | None:
        """The hunks that are taken and their texts, unless that is all of it as it is."""
        return self.choice.to_answer() if self._changed else None


def _with_signs(shown: Hunk, exact: Hunk) -> Hunk:
    """`shown` with the signs of `exact`, which a secret over several lines may have swallowed."""
    lines = tuple(
        one if one[:1] == real[:1] else real[:1] + one for one, real in zip(shown.lines, exact.lines, strict=True)
    )
    return msgspec.structs.replace(exact, lines=lines)
