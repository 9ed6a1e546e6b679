"""The approval dialog: exactly what will be written, run, read or trusted, and the keys that decide (A3, A9)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from tui_agent.domain import Answer, Editing, Grant, Reading, Running, Scope, Severity, Trusting
from tui_agent.text import visible
from tui_agent.view import RequestItem
from widgets.diff_view import DiffView
from widgets.ink import Ink, Line, Span, chop, indent, line, wrap
from widgets.line_view import LinesView
from widgets.modal import STILLNESS, LineInput, RequestModal, options
from widgets.status_line import apart

VERBS = {"create": "Create", "modify": "Edit", "delete": "Delete"}


class ApprovalModal(RequestModal):
    """Approve once, for the session, always, or reject with a reason. Space and Enter never approve."""

    def __init__(
        self, request: RequestItem, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS
    ) -> None:
        super().__init__(request, clock=clock, stillness=stillness)
        action = request.action
        self.body: LinesView | DiffView = LinesView(self._what, id="body")
        if isinstance(action, Editing):
            self.body = DiffView(action.diff, id="body")
        self.end_seen = False
        """True once the end of what will happen was on screen."""
        self._room = 0
        self.reasoning = False
        """True while the reason for a rejection is typed."""

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

    def _give_room(self) -> None:
        """The body takes what head and keys leave: all of it is in reach on a small screen too (R4.1)."""
        dialog = self.query_one("#dialog")
        others = dialog.gutter.height
        for part in dialog.displayed_children:
            if part is not self.body:
                others += part.outer_size.height + part.styles.margin.height
        room = max(3, self.size.height - others)
        height = min(room, max(6, self.size.height * 3 // 5))
        if height != self._room:
            self._room = height
            self.body.styles.max_height = height
            self.call_after_refresh(self._read)

    def _read(self) -> None:
        self._give_room()
        if self.body.size.height and self.body.end_seen and self.body.virtual_size.height:
            self.end_seen = True
        self._repaint_keys()

    def listening(self) -> None:
        """Light the keys."""
        self._repaint_keys()

    def _repaint_keys(self) -> None:
        if self.is_mounted:
            self.query_one("#keys", LinesView).relayout()

    # --- what is shown ---

    def _head(self, width: int, ink: Ink) -> list[Line]:
        right: list[Span] = []
        match self.request.action:
            case Editing(display=name, diff=diff) as action:
                title = f"{VERBS[diff.kind]} {visible(name)}"
                right = [(f"+{diff.added}", ink.ok), (f" −{diff.removed}", ink.bad)]
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
        return lines

    def _what(self, width: int, ink: Ink) -> list[Line]:
        match self.request.action:
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
        if self.reasoning:
            again: list[Span] = [("   esc", ink.accent), (" goes back", ink.muted)]
            return [line(("enter", ink.accent), (" rejects", ink.muted), *again)]
        trusting = isinstance(self.request.action, Trusting)
        hint: list[Span] = [("esc", ink.accent), (" not now" if trusting else " stops the run", ink.muted)]
        if self.body.max_scroll_y:
            left = int(self.body.max_scroll_y - self.body.scroll_offset.y)
            more = f"{left} more line{'s' * (left > 1)} below" if left else "end reached"
            hint += [("   ↓ pgdn end", ink.accent), (f" {more}", ink.muted if self.end_seen else ink.warn)]
        listed = options(self._options(), width, ink, lit=self._works)
        return [*listed, Line([]), *wrap(hint, width)]

    def _options(self) -> list[tuple[str, str, str]]:
        if isinstance(self.request.action, Trusting):
            return [("a", "trust it from now on", ""), ("r", "do not trust it: read only", "")]
        pairs = [("a", "approve once", "")]
        for scope, key, text in ((Scope.SESSION, "s", "for this session"), (Scope.ALWAYS, "A", "always")):
            if rules := self._rules(scope):
                pairs.append((key, text, rules))
        return [*pairs, ("r", "reject, with a reason", "")]

    def _rules(self, scope: Scope) -> str:
        return ", ".join(_rule(grant) for grant in self.request.grants if grant.scope is scope)

    # --- what is pressed ---

    def _works(self, key: str) -> bool:
        return self.armed and (key == "r" or self.end_seen)

    def pressed(self, event: events.Key) -> None:
        """One of the offered keys, or a key that scrolls; while a reason is typed, nothing but that."""
        if self.reasoning:
            self._type_reason(event)
            return
        key = event.character if event.is_printable and event.character else event.key
        offered = {pair[0] for pair in self._options()}
        if key in offered and self._works(key):
            self._decide(key)
        elif event.key in ("up", "down", "pageup", "pagedown", "home", "end"):
            self._scroll(event.key)

    def _decide(self, key: str) -> None:
        if key == "r" and not isinstance(self.request.action, Trusting):
            self._ask_reason()
        elif key == "r":
            self.answer(Answer(verdict="reject"))
        else:
            scope = {"a": Scope.ONCE, "s": Scope.SESSION, "A": Scope.ALWAYS}[key]
            self.answer(Answer(verdict="approve", scope=scope))

    def _scroll(self, key: str) -> None:
        body = self.body
        page = max(1, body.size.height - 1)
        y = body.scroll_offset.y
        target = {
            "up": y - 1,
            "down": y + 1,
            "pageup": y - page,
            "pagedown": y + page,
            "home": 0,
            "end": body.max_scroll_y,
        }[key]
        body.scroll_to(y=target, animate=False)

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
        self._repaint_keys()


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
        lines += indent(chop([(text, style)], width - 5), [(f"{label:<5}", ink.faint)], [("     ", ink.text)])
    return lines


def _rule(grant: Grant) -> str:
    where = f" in {visible(grant.cwd)}" if grant.cwd else ""
    changed = f" with {', '.join(visible(one) for one in grant.env_changes)}" if grant.env_changes else ""
    return f"{grant.kind} {visible(grant.pattern)}{where}{changed}"
