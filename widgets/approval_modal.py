"""The approval dialog: exactly what will be written, run, read or trusted, and the keys that decide (A3, A9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from tui_agent.domain import Action, Answer, Editing, Grant, Reading, Running, Scope, Severity, Trusting
from tui_agent.text import visible
from tui_agent.view import RequestItem
from widgets.dialog_keys import Keys
from widgets.diff_view import DiffView
from widgets.ink import Ink, Line, Span, chop, indent, line, width_of, wrap
from widgets.line_view import LinesView
from widgets.modal import STILLNESS, LineInput, RequestModal, below, options, room_for, scrolled
from widgets.status_line import apart

VOID = "This file changed on disk while this was open. It can't be approved any more; nothing was written."
KEYS = Keys("approval")
SCOPES = {
    "approve_once": Scope.ONCE,
    "approve_session": Scope.SESSION,
    "approve_always": Scope.ALWAYS,
}
DECIDES = (*SCOPES, "reject", "again")
SCROLLS = ("up", "down", "page_up", "page_down", "top", "bottom")
LONG_RULE = 160
"""Characters from which on a command that is shown is not shown once more as a rule."""
VERBS = {"create": "Create", "modify": "Edit", "delete": "Delete"}


class ApprovalModal(RequestModal):
    """Approve once, for the session, always, or reject with a reason. Space and Enter never approve."""

    def __init__(
        self, request: RequestItem, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS
    ) -> None:
        super().__init__(request, clock=clock, stillness=stillness)
        self.unveiled = False
        """The user wants to see the secrets (A7)."""
        self.body: LinesView | DiffView = self._make_body()
        self.end_seen = False
        """True once the end of what will happen was on screen."""
        self._room = 0
        self._told_void = self._slow = False
        self.reasoning = False
        """True while the reason for a rejection is typed."""

    def _make_body(self) -> LinesView | DiffView:
        """What shows the thing itself."""
        return LinesView(self._what, id="body")

    def compose(self) -> ComposeResult:
        """Head, the thing itself, keys."""
        with Vertical(id="dialog"):
            yield LinesView(self._head, id="head")
            yield self.body
            yield LinesView(self._keys, id="keys")
            yield LineInput(id="reason", placeholder="why not? the model reads it")

    def on_mount(self) -> None:
        """Watch how far the user has read."""
        super().on_mount()
        self.query_one("#reason").display = False
        self.watch(self.body, "scroll_y", self._read, init=False)
        self.call_after_refresh(self._read)

    def on_resize(self) -> None:
        """Another size may show the end."""
        self.call_after_refresh(self._read)

    def on_line_view_resized(self) -> None:
        """A part has its place, which may come later than our own size."""
        self.call_after_refresh(self._read)

    def _give_room(self) -> None:
        """The body takes what head and keys leave."""
        middle = self._middle()
        height = room_for(middle)
        if height != self._room:
            self._room = height
            for one in {self.body, middle}:
                one.styles.max_height = height
            self.call_after_refresh(self._read)

    def _middle(self) -> Widget:
        """What takes the room that the others leave."""
        return self.body

    def _read(self) -> None:
        if not (self.query("#dialog") and self.query("#keys")):  # answered meanwhile: it is being taken down
            return
        self._give_room()
        if self.body.size.height and self.body.end_seen and self.body.virtual_size.height:
            self.end_seen = True
        self._repaint_keys()

    def listening(self) -> None:
        """Light the keys."""
        self._repaint_keys()

    def still_saving(self) -> None:
        """Said where the keys were."""
        self._slow = self.saving
        self._repaint_keys()

    def look_again(self) -> None:
        """Said at once when it became void; what is typed just then is not meant for that (A9)."""
        if self.request.void and not self._told_void:
            self._told_void = True
            if not self._typing:
                self.hush()
            self._repaint_head()

    @property
    def _typing(self) -> bool:
        """True while a text is typed."""
        return self.reasoning

    def _repaint_head(self) -> None:
        for head in self.query("#head").results(LinesView):
            head.relayout()
            self._repaint_keys()
            self.call_after_refresh(self._read)

    def _repaint_keys(self) -> None:
        for keys in self.query("#keys").results(LinesView):
            before = len(keys.lines)
            keys.relayout()
            if len(keys.lines) != before:
                self.call_after_refresh(self._read)

    # --- what is shown ---

    def _head(self, width: int, ink: Ink) -> list[Line]:
        right: list[Span] = []
        match self.shown:
            case Editing(display=name, diff=diff) as action:
                title, right = f"{VERBS[diff.kind]} {visible(name)}", self._measure(ink)
                flags = _flags(outside=action.outside, protected=action.protected, sensitive=action.sensitive)
            case Reading(display=name) as action:
                title = f"Read {visible(name)}"
                flags = _flags(outside=action.outside, credentials=action.credentials)
            case Running(severity=severity):
                title, flags = "Run a command", []
                style = {Severity.HIGH: ink.warn, Severity.CRITICAL: ink.bad}.get(severity, ink.muted)
                right = [(f"severity {severity.value}", style)]
            case _:
                title, flags = "Trust this folder?", []
        lines = [apart([(title, ink.heading)], right, width, ink)]
        if flags:
            lines += wrap([("This file is " + " and ".join(flags) + ".", ink.warn)], width)
        if self.request.why:
            lines += wrap([(visible(self.request.why), ink.muted)], width)
        if self.request.void:
            lines += wrap([(VOID, ink.warn)], width)
        return lines

    def _measure(self, ink: Ink) -> list[Span]:
        """How much changes."""
        return []

    @property
    def shown(self) -> Action | None:
        """The action as it is shown: without its secrets until the user wants to see them (A7)."""
        request = self.request
        return request.exact if self.unveiled and request.exact is not None else request.action

    def _what(self, width: int, ink: Ink) -> list[Line]:
        match self.shown:
            case Running() as action:
                return _command(action, width, ink)
            case Reading(path=path):
                return chop([(visible(path), ink.text)], width)
            case Trusting(folder=folder, found=found):
                lines = [*chop([(visible(folder), ink.strong)], width), Line([])]
                lines += (
                    wrap([("Once trusted, these are read and obeyed:", ink.muted)], width) if found else []
                )
                for one in found:
                    named = chop([(visible(one), ink.text)], width - 2)
                    lines += indent(named, [("• ", ink.accent)], [("  ", ink.text)])
                return lines
            case _:
                return []

    def _keys(self, width: int, ink: Ink) -> list[Line]:
        if self._slow:
            why: Span = (" your answer; nothing is done before it is on disk", ink.muted)
            stop: list[Span] = [("esc", ink.accent), (" stops the run", ink.muted)]
            return [*wrap([("saving", ink.accent), why], width), Line([]), *wrap(stop, width)]
        if self.reasoning:
            again: list[Span] = [("   esc", ink.accent), (" goes back", ink.muted)]
            return [line(("enter", ink.accent), (" rejects", ink.muted), *again)]
        trusting = isinstance(self.request.action, Trusting)
        hint: list[Span] = [("esc", ink.accent), (" not now" if trusting else " stops the run", ink.muted)]
        scrolls = KEYS.arrows("down", "page_down", "bottom")
        hint += below(self.body, scrolls, ink, seen=self.end_seen)
        offered = {key: action for action, _text, _rule in self._options() if (key := KEYS.of(action))}
        rows = [(key, text, rule) for action, text, rule in self._options() if (key := KEYS.of(action))]
        listed = options(rows, width, ink, lit=lambda key: self._works(offered[key]))
        return [*listed, *self._more_keys(width, ink), Line([]), *wrap(hint, width)]

    def _more_keys(self, width: int, ink: Ink) -> list[Line]:
        """Keys that decide nothing, the most wanted first."""
        pairs = [(KEYS.both(*actions), does) for actions, does in self._looking()]
        pairs = [(keys, does) for keys, does in pairs if keys]
        return [Line([]), *flow(pairs, width, ink, lit=self.armed)] if pairs else []

    def _looking(self) -> list[tuple[tuple[str, ...], str]]:
        """What can be done without deciding: actions, with what they do now."""
        says = "hide the secrets" if self.unveiled else "show the secrets"
        return [(("secrets",), says)] if self.request.hides else []

    def _options(self) -> list[tuple[str, str, str]]:
        """Actions that decide, each with what it means now and its rule."""
        reject = ("reject", "reject, with a reason", "")
        if self.request.void:
            return [("again", "go on: the change is worked out anew", ""), reject]
        if isinstance(self.request.action, Trusting):
            no = ("reject", "do not trust it: read only", "")
            return [("approve_once", "trust it from now on", ""), no]
        pairs = [("approve_once", "approve once", "")]
        for action, text in (("approve_session", "for this session"), ("approve_always", "always")):
            if rules := self._rules(SCOPES[action]):
                pairs.append((action, text, rules))
        return [*pairs, reject]

    def _rules(self, scope: Scope) -> str:
        action = self.request.action
        above = action.command if isinstance(action, Running) else ""
        return ", ".join(_rule(grant, above) for grant in self.request.grants if grant.scope is scope)

    # --- what is pressed ---

    def _works(self, action: str) -> bool:
        return self.armed and (action in ("reject", "again") or self.end_seen)

    def pressed(self, event: events.Key) -> None:
        """One of the offered keys, or a key that scrolls; while a reason is typed, nothing but that."""
        if self.reasoning:
            self._type_reason(event)
            return
        action = KEYS.does(event)
        if action in DECIDES:
            if action in {one for one, _text, _rule in self._options()} and self._works(action):
                self._decide(action)
        elif action in SCROLLS:
            self.body.scroll_to(y=scrolled(self.body, action), animate=False)
        elif self.armed and any(action in actions for actions, _does in self._looking()):
            self._look(action)

    def _look(self, action: str) -> None:
        """Something that decides nothing."""
        if action == "secrets":
            self.unveiled = not self.unveiled
            self._unveil()
            self._repaint_keys()
            self.call_after_refresh(self._read)

    def _unveil(self) -> None:
        """Show the thing itself with its secrets, or without."""
        if isinstance(self.body, LinesView):
            self.body.relayout()

    def _decide(self, action: str) -> None:
        if action == "reject" and not isinstance(self.request.action, Trusting):
            self._ask_reason()
        elif action == "reject":
            self.answer(Answer(verdict="reject"))
        elif action == "again":
            self.answer(Answer(verdict="withdrawn"))
        elif not self.request.void:
            self._approve(SCOPES[action])

    def _approve(self, scope: Scope) -> None:
        self.answer(Answer(verdict="approve", scope=scope))

    def _ask_reason(self) -> None:
        self.reasoning = True
        reason = self.query_one("#reason", LineInput)
        reason.display = True
        self._focus_reason()
        self._repaint_keys()

    def _focus_reason(self) -> None:
        """Once the keys that were pressed before are typed, or they would stand behind those that follow."""
        if self.message_queue_size or self._pending_message is not None:
            self.call_later(self._focus_reason)
        elif self.reasoning:
            self.set_focus(self.query_one("#reason"))

    def _type_reason(self, event: events.Key) -> None:
        """A key that was pressed before the input had the focus."""
        reason = self.query_one("#reason", LineInput)
        if event.key == "enter":
            self._reject(reason.value)
        elif event.key == "backspace":
            reason.action_delete_left()
        elif event.character and event.is_printable:
            reason.insert_text_at_cursor(event.character)

    def _reject(self, reason: str) -> None:
        self.answer(Answer(verdict="reject", text=reason.strip()))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the reason rejects, also without one."""
        event.stop()
        if self.reasoning:
            self._reject(event.value)

    def escape(self) -> None:
        """Back from the reason, else stop the run."""
        if isinstance(self.request.action, Trusting):
            self.answer(Answer(verdict="reject"))
        if not self.reasoning:
            super().escape()
            return
        self.reasoning = False
        self.set_focus(None)
        self.query_one("#reason").display = False
        self.hush()
        self._repaint_keys()


def flow(pairs: Sequence[tuple[str, str]], width: int, ink: Ink, *, lit: bool) -> list[Line]:
    """Keys with what they do, side by side, as many on a line as fit."""
    lines: list[list[Span]] = [[]]
    for key, does in pairs:
        more: list[Span] = [(key, ink.accent if lit else ink.muted), (f" {does}", ink.muted)]
        if lines[-1] and width_of(lines[-1]) + 3 + width_of(more) > width:
            lines.append([])
        lines[-1] += ([("   ", ink.text)] if lines[-1] else []) + more
    return [line(*spans) for spans in lines]


def _flags(**flags: bool) -> list[str]:
    words = {
        "outside": "outside the workspace",
        "protected": "protected",
        "sensitive": "sensitive",
        "credentials": "known to hold secrets",
    }
    return [words[name] for name, on in flags.items() if on]


def _command(action: Running, width: int, ink: Ink) -> list[Line]:
    lines: list[Line] = []
    for number, text in enumerate(visible(action.command).split("\n")):
        head: list[Span] = [("$ " if number == 0 else "  ", ink.accent)]
        lines += indent(chop([(text, ink.strong)], width - 2), head, [("  ", ink.text)])
    notes: list[tuple[str, str]] = [("in", visible(action.cwd))]
    notes += [("why", visible(reason)) for reason in action.reasons]
    notes += [("env", visible(change)) for change in action.env_changes]
    lines.append(Line([]))
    for label, text in notes:
        style = ink.warn if label == "env" else ink.muted
        lines += indent(chop([(text, style)], width - 5), [(f"{label:<5}", ink.muted)], [("     ", ink.text)])
    return lines


def _rule(grant: Grant, above: str) -> str:
    """What would be allowed. A long command is not said again: the keys have to stay in sight below it."""
    where = f" in {visible(grant.cwd)}" if grant.cwd else ""
    changed = f" with {', '.join(visible(one) for one in grant.env_changes)}" if grant.env_changes else ""
    whole = grant.pattern == above and ("\n" in above or len(above) > LONG_RULE)
    what = "exactly the command above" if whole else visible(grant.pattern)
    return f"{grant.kind} {what}{where}{changed}"
