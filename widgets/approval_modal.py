"""The approval dialogs: show exactly what will be written, run, read or trusted, and ask for a decision (A3, A9)."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from tui_agent.common.domain import (
    Action,
    Answer,
    EditAction,
    Harm,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.events.grant_texts import DURATIONS, grants_text
from tui_agent.events.narration import file_warning, harm_texts, trust_texts
from tui_agent.text import make_visible, pluralize
from tui_agent.view.items import RequestItem
from widgets.dialog_frame import hidden_hint, option_lines
from widgets.dialog_keys import Keys, held_label, key_lines, key_spans
from widgets.diff_view import DiffView
from widgets.inputs import ConfirmInput, EditField, LineInput
from widgets.line_view import LinesView
from widgets.request_view import RequestModal
from widgets.styled_text import Line, Span, TextStyles, chop, hanging, justified_line, line, wrap
from widgets.textual_private import keys_waiting

VOID = (
    "The file changed on disk while this dialog was open, so this edit can no longer be approved. Nothing was written."
)
KEYS = Keys("approval")
SCOPES = {"approve_once": Scope.ONCE, "approve_session": Scope.SESSION, "approve_always": Scope.ALWAYS}
UNREAD = "unread"
"""Word that approves what was not read."""
MAX_UNSEEN = 500
"""Lines not seen from which they can be approved unread, by typing a word."""
SHOW_REST = "show the rest"
"""What the key for approving does while something was not on the screen."""
LOW_SCREEN = 20
"""Screen height below which gaps between keys are omitted."""
SHORT_TEXTS = {"for this session": "this session", "reject, with a reason": "reject"}
"""What options are called where a line is too short for all of them."""
CRITICAL_TITLE = "!! CRITICAL !!"
VERBS = {"create": "Create", "modify": "Edit", "delete": "Delete"}


class ApprovalModal(RequestModal):
    """Approves once, for the session, always, or rejects with a reason. Space and Enter never approve."""

    body: LinesView | DiffView

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        super().__init__(request, **guard)
        self.secrets_shown = False
        """Whether secrets are shown (A7)."""
        self.body = LinesView(self._action_lines, id="body")
        self.word = ConfirmInput(id="word")
        self._asked_word = ""
        """The word that the open field asks for; scrolling may have made it unnecessary since."""
        self._wrong_word = False
        """Whether something else was entered."""
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
        """Mark the frame of a critical command."""
        if self._is_critical:
            dialog = self.query_one("#dialog")
            dialog.add_class("-critical")
            dialog.border_title = dialog.border_subtitle = CRITICAL_TITLE

    @property
    def edge_title(self) -> str:
        """See DialogFrame."""
        return CRITICAL_TITLE if self._is_critical else ""

    def on_resize(self) -> None:
        """Move the notes when a screen becomes low, or high enough."""
        if self._is_critical:
            self._repaint_head()
            self._repaint_action()

    # --- what was in sight ---

    def _is_unseen_above(self) -> bool:
        """Return whether some of the unseen lines are above the visible ones."""
        assert isinstance(self.body, LinesView)
        return any(index < self.body.scroll_offset.y for index in self.body.unseen())

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
            case EditAction(display=name, diff=diff):
                title, right = f"{VERBS[diff.kind]} {make_visible(name)}", self._change_size(styles)
            case ReadAction(display=name):
                title = f"Read {make_visible(name)}"
            case RunAction() as action:
                title = "Run a critical command?" if self._is_critical else "Run a command"
                right = self._command_facts(action, styles)
            case _:
                title = "Trust this folder?"
        lines = [justified_line([(title, styles.heading)], right, width, styles)]
        if not self._scrolls_notes:
            lines += self._notes(width, styles)
        if self.request.void_reason:
            lines += wrap([(VOID, styles.warn)], width)
        return lines

    def _command_facts(self, action: RunAction, styles: TextStyles) -> list[Span]:
        """Return how severe a command is, and whether it would run in the sandbox; the notes of a critical one say
        that."""
        style = {Severity.HIGH: styles.warn, Severity.CRITICAL: styles.bad}.get(action.severity, styles.muted)
        spans = [] if action.severity is Severity.NONE else [(f"severity {action.severity.value}", style)]
        if self._is_critical:
            return spans
        spans += [(" · ", styles.faint)] if spans else []
        return [*spans, ("sandboxed" if action.sandboxed else "no sandbox", styles.muted)]

    @property
    def _scrolls_notes(self) -> bool:
        """Whether the notes are above the command, to keep the keys visible on a low screen."""
        return self._is_critical and self.size.height < LOW_SCREEN

    def _notes(self, width: int, styles: TextStyles) -> list[Line]:
        """Return why the user is asked, and what a critical command would destroy."""
        action, why = self.request.action, self.request.why
        warning, says_flag = file_warning(action, why) if isinstance(action, EditAction | ReadAction) else ("", False)
        lines = wrap([(warning, styles.warn)], width) if warning else []
        lines += wrap([(make_visible(why), styles.warn if says_flag else styles.muted)], width) if why else []
        if self._is_critical:
            for text in harm_texts(self.request.harm or Harm()):
                lines += wrap([(make_visible(text), styles.bad + styles.strong.without_color)], width)
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
                notes = [*self._notes(width, styles), Line([])] if self._scrolls_notes else []
                return [*notes, *_command(action, width, styles)]
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
            note = wrap(self._word_note(styles), width)
            return [*note, line(*key_spans([("enter", "confirms"), ("esc", "goes back")], styles))]
        held = held_label(self.held_key)
        if self._is_critical and self.armed and held in ("", "enter"):
            held = KEYS.label("reject")
        lines = self._option_lines(self._options(), width, styles, held)
        others = [(KEYS.labels(*actions), effect) for actions, effect in self._other_actions()]
        if any(keys for keys, _effect in others):
            style = styles.accent if self.armed else styles.muted
            lines += [*self._gap, *key_lines(others, width, styles, gap=3, style=style, held=held)]
        hint = key_spans(
            [("esc", "does the same: you are asked again next time" if self._is_trust else "stops the run")], styles
        )
        return [*lines, *self._gap, *wrap([*hint, *self._sight_hint(styles)], width)]

    def _option_lines(
        self, options: list[tuple[str, str, str]], width: int, styles: TextStyles, held: str
    ) -> list[Line]:
        """Paint the options. While something is unseen, the key for approving scrolls to it, and the places of the
        options that approve more are blank."""
        beside = self._fit_beside(options, width, styles)
        lines = self._choices(options, width, styles, held, beside=beside)
        if not self._is_blocked:
            return lines
        rest = [
            (name, SHOW_REST if name == "approve_once" else text, rule)
            for name, text, rule in options
            if SCOPES.get(name, Scope.ONCE) is Scope.ONCE
        ]
        shown = self._choices(rest, width, styles, held, beside=beside)
        return [*shown, *(Line([]) for _ in range(len(lines) - len(shown)))]

    def _choices(
        self, options: list[tuple[str, str, str]], width: int, styles: TextStyles, held: str, *, beside: bool
    ) -> list[Line]:
        """Paint options one below the other, or `beside` each other with what they allow on the next line."""
        if not beside:
            return option_lines(options, self._acts, KEYS.label, width, styles, held=held)
        enabled = any(self._acts(action) for action, _text, _rule in options)
        style = styles.accent + styles.strong.without_color if enabled else styles.muted
        lines: list[Line] = []
        for shorter in (False, True):
            texts = [(action, SHORT_TEXTS.get(text, text) if shorter else text) for action, text, _rule in options]
            lines = key_lines(KEYS.hints(texts), width, styles, gap=3, style=style, held=held)
            if len(lines) == 1:
                break
        keys_by_rule: dict[str, list[str]] = {}
        for action, _text, rule in options:
            if rule and KEYS.label(action):
                keys_by_rule.setdefault(rule, []).append(KEYS.label(action))
        rules = " · ".join(f"{', '.join(keys)}: {rule}" for rule, keys in keys_by_rule.items())
        return [*lines, *(wrap([(rules, styles.muted)], width) if rules else [])]

    def _fit_beside(self, options: list[tuple[str, str, str]], width: int, styles: TextStyles) -> bool:
        """Return whether options stand beside each other: on a low screen, if that takes less room."""
        if self._is_critical or self._is_trust or self.size.height >= LOW_SCREEN:
            return False
        lines = self._choices(options, width, styles, "", beside=True)
        return len(lines) <= min(3, len(options)) and all(cell_len(painted.text) <= width for painted in lines)

    @property
    def _gap(self) -> list[Line]:
        """A blank line between groups of keys; none on a low screen."""
        return [] if self.size.height < LOW_SCREEN else [Line([])]

    def _sight_hint(self, styles: TextStyles) -> list[Span]:
        """Return the keys that scroll, and how much is still to be seen before approving."""
        key = KEYS.label("page_up" if self._is_unseen_above() else "page_down")
        hint = [] if self.request.void_reason else self.unseen_hint(key, styles)
        scroll_keys = KEYS.arrow_labels("down", "page_down", "bottom")
        return hint or hidden_hint(self.body, scroll_keys, styles, seen=True)

    def _word_note(self, styles: TextStyles) -> list[Span]:
        """Return what to type, and that the last attempt was something else."""
        count = pluralize(self.unseen(), self.UNSEEN_NOUN)
        start = "Type " if self._is_critical else f"{count} not seen. Type "
        end = " to run this command." if self._is_critical else " to approve without reading them."
        if self._wrong_word:
            start, end = "That is not the word. Type ", f" exactly{end}"
        word = (f'"{make_visible(self._asked_word)}"', styles.accent + styles.strong.without_color)
        return [(start, styles.warn), word, (end, styles.warn)]

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
        for action, scope in SCOPES.items():
            if rules := self._rules(scope):
                options.append((action, DURATIONS[scope], rules))
        return [*options, reject]

    def _rules(self, scope: Scope) -> str:
        return grants_text(self.request.grants, self.request.action, scope)

    # --- keys ---

    @property
    def _is_blocked(self) -> bool:
        """Whether something must be seen before approving."""
        return bool(self.unseen()) and not self._may_skip and not self.request.void_reason

    @property
    def _may_skip(self) -> bool:
        """Whether a word approves what was not seen."""
        return not self._is_critical and bool(self._needed_word())

    def _acts(self, action: str) -> bool:
        """Return whether the key of an option has an effect."""
        return self.armed and (not self._is_blocked or action in ("reject", "again", "approve_once"))

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
        elif any(action == option[0] for option in self._options()):
            if action in ("reject", "again") or self._may_skip or self.check_seen():
                self._decide(action)
            self.repaint_keys()
        elif any(action in actions for actions, _ in self._other_actions()):
            getattr(self, f"_action_{action}")()
            self.repaint_keys()
        elif not self.body.scroll_for(action):
            self.tell(self._why_not(action))
            return False
        return True

    def _why_not(self, action: str) -> str:
        """Return why an action of this kind of dialog is not available now; empty for no action."""
        if action == "again":
            return "the file has not changed since this was shown"
        if action in SCOPES:
            return "this can only be approved once" if action != "approve_once" else VOID
        if action == "secrets":
            return "nothing is masked here"
        return "only an edit has that" if action else ""

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
        elif action != "reject" and (word := self._needed_word()):
            self.word.value, self._asked_word, self._wrong_word = "", word, False
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
        """Approve once if the word that was asked for was typed; otherwise say what is needed, and keep the text.

        If no word is needed any more, go back to the keys: an empty field never approves (A9).
        """
        if self.word.value.strip().strip("\"'") == self._asked_word:
            self.answer(Answer(verdict="approve", data=self._approved_part()))
        elif self._needed_word():
            self._wrong_word = True
        else:
            self._end_typing()
        self.repaint_keys()
        self._fit_soon()

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
