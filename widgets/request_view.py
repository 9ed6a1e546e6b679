"""Requests of the agent: modal dialogs and panels docked above the composer, guarded against early keys (A9).

All of them are a `KeyGuard`: keys are ignored until no key was pressed for a while, and text typed before that goes
to the draft. A panel sits between transcript and composer, both of which stay visible; Tab leaves it.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, ClassVar, TypeVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import TextArea

from tui_agent.common.domain import Answer
from tui_agent.keys import keymap
from tui_agent.keys.key_names import key_label, pressed_key
from tui_agent.text import pluralize
from tui_agent.view.items import RequestItem
from widgets.dialog_frame import DialogFrame
from widgets.dialog_keys import held_label, key_lines, key_span
from widgets.inputs import LineInput
from widgets.line_view import LinesView, LineView
from widgets.lone_keys import LINE_BREAKS, TakesLetters
from widgets.overlay import OverlayScreen
from widgets.styled_text import Line, Span, TextStyles
from widgets.textual_private import forward_mouse, is_being_removed

ValueT = TypeVar("ValueT")

QUIET_SECONDS = 0.4
"""Seconds without a key press before a request accepts keys (A9)."""
SAVING_NOTICE_DELAY = 0.3
"""Seconds before the dialog shows that an answer is still being saved."""
WIDE = 80
"""Screen width from which it is said what unseen lines mean."""
SCROLLING = ("page-up", "page-down")
"""Actions of the session whose keys a dialog may have for itself; with others they scroll the transcript."""
MAX_FITS = 20
"""Maximum number of layouts before a dialog is shown."""
SAVE_DELAY = 0.3
"""Seconds between the last change and saving the draft."""


def call_later_once(seconds: float, node: MessagePump, callback: Callable[[], object]) -> TimerHandle:
    """Let `node` call `callback` once, after `seconds`; return the timer, whose `cancel()` prevents the call.

    Textual's own one-shot timer never fires when the process stalls for longer than `seconds` as it starts
    (the call counts as missed), which happens on a busy machine.
    """
    return get_running_loop().call_later(seconds, node.call_later, callback)


NOT_BEFORE_DECISION = "does nothing until you have decided"
TOO_SOON = "pressed too soon: it went to your message"
PRESSED_TOO_SOON = "pressed too soon: press it again"
TYPED = "typed text goes to your message"


class KeyGuard(DialogFrame, TakesLetters):
    """Mixin for a dialog or panel: ignores keys until none was pressed for `quiet_seconds`."""

    typed_note = TYPED
    """What is said when text was typed."""

    @dataclass
    class Scrolled(Message):
        """A key that scrolls the transcript was pressed."""

        name: str
        """Name of the action of the session."""

    def __init__(self, *, clock: Callable[[], float] = monotonic, quiet_seconds: float = QUIET_SECONDS) -> None:
        super().__init__()
        self.clock = clock
        self.quiet_seconds = quiet_seconds
        self._quiet_since = inf
        """Infinite until the widget is on the screen."""
        self._armed = False
        self._arm_timer: TimerHandle | None = None

    @property
    def armed(self) -> bool:
        """Whether keys are accepted: none was pressed for `quiet_seconds`."""
        if not self._armed and self.clock() - self._quiet_since >= self.quiet_seconds:
            self._armed = True
        return self._armed

    def disarm(self) -> None:
        """Ignore keys until none was pressed for `quiet_seconds` again."""
        self._armed = False
        self._quiet_since = self.clock()
        if self._arm_timer is not None:
            self._arm_timer.cancel()
        if self.quiet_seconds > 0:
            self._arm_later()
        else:
            self.call_after_refresh(self._arm)
        self.repaint_keys()

    def _arm_later(self) -> None:
        self._arm_timer = call_later_once(self.quiet_seconds, self, self._arm)

    def _arm(self) -> None:
        if self.armed:
            self.on_armed()
        elif self.quiet_seconds > 0:  # by the clock, the timer was early
            self._arm_later()

    def on_armed(self) -> None:
        """Called when keys start being accepted."""
        self.repaint_keys()

    def repaint_keys(self) -> None:
        """Repaint the key hints, if they are mounted."""
        for keys in self.query("#keys, #dock-keys").results(LinesView):
            keys.relayout()

    def accepts_key(self, event: events.Key) -> bool:
        """Return False for a key pressed too early, including one delivered late because the program was busy."""
        if not self.armed:
            return False
        pressed_at = self.clock() - max(0.0, monotonic() - event.time)
        self._armed = self.quiet_seconds <= 0 or pressed_at - self._quiet_since >= self.quiet_seconds
        return self._armed

    def holds(self, event: events.Key) -> bool:
        """Return whether a key acts here if it stands alone; earlier keys go to the draft anyway."""
        return self.armed and super().holds(event)

    def forward_to_draft(self, event: events.Key) -> None:
        """Send a key that is early or text to the draft."""
        super().forward_to_draft(event)
        self.disarm()

    def unbound_key(self, event: events.Key) -> None:
        """Say that a key has no function here; one that types a character goes to the draft."""
        key = pressed_key(event.key, event.character)
        name = keymap.current().action_for(keymap.SESSION.name, key)
        super().unbound_key(event)
        if name in SCROLLING:
            self.post_message(self.Scrolled(name))
        elif self.note:
            pass  # the dialog said why
        elif key == "backspace":
            self.tell(self.typed_note)
        elif key in ("space", *LINE_BREAKS):
            self.tell(f"{key_label(key)} decides nothing here")
        elif name:
            self.tell(f"{key_label(key)} ({name.replace('-', ' ')}) {NOT_BEFORE_DECISION}")
        else:
            self.tell(f"{key_label(key)} has no function here")

    def take_text(self, event: events.Key) -> None:
        """Take a key that is text: it goes to the draft."""
        super().take_text(event)
        self.tell(self.typed_note)

    def press_clicked(self, event: events.Key) -> None:
        """Handle the key of a clicked hint like a pressed one, which never acts too early (A9)."""
        self.tell("")
        if event.key == "escape":
            self.escape()
        elif not self.accepts_key(event):
            self.tell("clicked too soon: click again")
        elif not self.process_key(event):
            self.unbound_key(event)

    def process_key(self, event: events.Key) -> bool:
        """Handle an accepted key; return False if it has no function."""
        raise NotImplementedError

    def escape(self) -> None:
        """Handle Esc, which never approves and so is not guarded."""
        raise NotImplementedError


class GuardedModal(KeyGuard, OverlayScreen):
    """A modal dialog guarded against early keys."""

    body: LineView

    def compose(self) -> ComposeResult:
        """Yield head, body and keys, painted by the methods `_head`, `_body` and `_keys`."""
        parts = {part: LinesView(getattr(self, f"_{part}"), id=part) for part in ("head", "body", "keys")}
        self.body = parts["body"]
        with Vertical(id="dialog"):
            yield from parts.values()

    def on_mount(self) -> None:
        """Start the quiet period."""
        self.disarm()

    def on_screen_resume(self) -> None:
        """Restart the quiet period: the user may still be typing into the screen above, which has just closed."""
        self.disarm()

    def on_key(self, event: events.Key) -> None:
        """Handle a key that no input consumed; keys that an input binds are passed on to it."""
        if self.is_typing and event.key != "escape" and not self.overrides_field(event.key):
            return
        event.stop()
        event.prevent_default()
        self.tell("")
        if event.key == "escape":
            self.escape()
        elif not self.accepts_key(event):
            self.forward_to_draft(event)
            self.tell(TOO_SOON if event.is_printable else PRESSED_TOO_SOON)
        elif not self.process_key(event):
            self.unbound_key(event)

    @property
    def is_typing(self) -> bool:
        """Whether characters are typed into a field."""
        return isinstance(self.focused, LineInput | TextArea)

    def holds(self, event: events.Key) -> bool:
        """Return whether a key acts here if it stands alone; those of a field do not."""
        return super().holds(event) and (not self.is_typing or self.overrides_field(event.key))

    def on_paste(self, event: events.Paste) -> None:
        """Send a paste to the draft; it never decides."""
        event.stop()
        self.post_message(self.TypedAhead(event.text))
        if not self.armed:
            self.disarm()

    def overrides_field(self, key: str) -> bool:
        """Return whether the dialog handles a key even while its input has the focus."""
        return False


class RequestView(KeyGuard):
    """Shows one request; can be answered once."""

    class Interrupted(Message):
        """The user pressed Esc to stop the run."""

    request: RequestItem
    body: LineView
    UNSEEN_NOUN: ClassVar[str] = "line"
    answered = False
    asked_too_early = False
    """Whether the user tried to approve what was not on the screen yet."""
    _unseen_shown_at = -inf
    """When the first unseen line was scrolled to, in seconds."""
    on_answer: Callable[[str, Answer], object] = staticmethod(lambda request, answer: None)
    """Called with the id of the request and the answer."""

    @property
    def armed(self) -> bool:
        """Whether keys are accepted; not after the answer, as they are meant for the composer then."""
        return super().armed and not self.answered

    def answer(self, answer: Answer) -> None:
        """Send the answer, once."""
        if not self.answered:
            self.answered = True
            self.on_answer(self.request.id, answer)

    def interrupt(self) -> None:
        """Stop the run."""
        self.post_message(self.Interrupted())

    # --- what was on the screen ---

    def unseen(self) -> int:
        """Return how many lines that must be seen before approving were never on the screen."""
        return len(self.body.unseen()) if isinstance(self.body, LinesView) else 0

    def show_unseen(self) -> None:
        """Scroll to the first line that was never on the screen."""
        if isinstance(self.body, LinesView):
            self.body.scroll_to(y=self.body.unseen()[0], animate=False)

    def check_seen(self) -> bool:
        """Return whether everything was on the screen; otherwise scroll to the first unseen line and say so.

        Also False shortly after that, so that a key pressed twice does not approve unread.
        """
        self.asked_too_early = bool(self.unseen())
        if self.asked_too_early:
            self.show_unseen()
            self._unseen_shown_at = self.clock()
            self.call_after_refresh(self.repaint_keys)
        return not self.asked_too_early and self.clock() - self._unseen_shown_at >= self.quiet_seconds

    def unseen_text(self) -> str:
        """Return how much is still to be seen before approving; empty if nothing is."""
        count = self.unseen()
        end = ", so not approved" if self.asked_too_early and self.size.width >= WIDE else ""
        return f"{pluralize(count, self.UNSEEN_NOUN)} not seen yet{end}" if count else ""

    def unseen_hint(self, key: str, styles: TextStyles) -> list[Span]:
        """Return `key`, which scrolls, and how much is still to be seen; empty if nothing is."""
        text = self.unseen_text()
        style = styles.held if self.asked_too_early else styles.warn
        return key_span(key, text, styles.accent, style, "   ") if text else []

    def on_line_view_seen(self) -> None:
        """Update what is still to be seen."""
        self.repaint_keys()


class RequestModal(RequestView, GuardedModal):
    """A request shown as a modal dialog; its body is as high as the other parts and the screen permit.

    The screen below stays in use: it gets the wheel and the clicks beside the dialog.
    """

    @dataclass
    class Placed(Message):
        """The dialog has another height: that much of the screen below is covered."""

        height: int

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        """`guard` are the options of `KeyGuard`."""
        super().__init__(**guard)
        self.request = request
        self._is_fitted = False
        """Whether every part has its place: nothing of the dialog is painted before."""
        self._fits = 0
        """Number of layouts before that."""
        self._placed: tuple[Size, int] | None = None
        """Size of the screen and height of the dialog that were reported."""
        self.saving = False
        """Whether the answer is being saved; the dialog stays open until it is on disk."""
        self.save_is_slow = False
        """Whether to tell the user that the answer is being saved."""

    def save(self) -> None:
        """Note that the answer is being saved; `saving` is reset when it is on disk."""
        self.saving = True
        call_later_once(SAVING_NOTICE_DELAY, self, self._check_save)

    def _check_save(self) -> None:
        self.save_is_slow = self.saving
        self.repaint_keys()

    def escape(self) -> None:
        """Stop the run."""
        self.interrupt()

    def request_updated(self) -> None:
        """Called when the request changed; it may have become void."""

    def _pass_below(self, event: events.MouseEvent) -> None:
        """Forward a mouse event beside the dialog to the screen of the session."""
        if not self.frame.region.contains(*event.screen_offset):
            forward_mouse(self.app.screen_stack[0], event)

    on_mouse_scroll_up = on_mouse_scroll_down = on_click = _pass_below

    # --- layout ---

    def on_mount(self) -> None:
        """Track how far the user has scrolled, and what was on the screen."""
        if isinstance(self.body, LinesView):
            self.body.track_seen()
        self.watch(self.body, "scroll_y", self.fit, init=False)
        self.watch(self.frame, "scroll_y", self._fit_soon, init=False)  # while it is animated, it can't be scrolled
        self._fit_soon()

    def disarm(self) -> None:
        """Restart the quiet period, which begins with the first complete frame (A9)."""
        super().disarm()
        if not self._is_fitted:
            self._quiet_since = inf

    def _fit_soon(self) -> None:
        self.call_after_refresh(self.fit)

    on_resize = on_line_view_resized = _fit_soon
    """The parts may be laid out after the screen, and again when their number of lines changes."""

    @property
    def flexible_part(self) -> Widget:
        """The part that gets the remaining height."""
        return self.body

    def fit(self) -> None:
        """Set the height of the body, and update how many lines are hidden."""
        if not (self.query("#dialog") and self.query("#keys")):  # already answered and being removed
            return
        dialog, flexible_part = self.query_one("#dialog"), self.flexible_part
        fixed_parts = [part for part in dialog.displayed_children if part is not flexible_part]
        reserved = sum(part.outer_size.height + part.styles.margin.height for part in fixed_parts)
        room = self.size.height - dialog.gutter.height - reserved
        height = min(max(3, room), max(6, self.size.height * 3 // 5))
        for widget in {self.body, flexible_part}:
            limit = widget.styles.max_height
            if limit is None or limit.cells != height:
                widget.styles.max_height = height
                self._fit_soon()
        self.repaint_keys()
        scrolled = int(dialog.scroll_offset.y)  # by a layout in which the field with the focus was out of sight
        if scrolled and (self.focused is None or self.focused.region.bottom + scrolled <= dialog.content_region.bottom):
            dialog.scroll_to(y=0, animate=False)
        if not self._is_fitted:
            self._show_if_fitted(dialog)
        elif self._placed != (placed := (self.size, dialog.outer_size.height)):
            self._placed = placed
            self.post_message(self.Placed(dialog.outer_size.height))

    def _show_if_fitted(self, dialog: Widget) -> None:
        """Show the dialog once a layout has changed nothing."""
        self._fits += 1
        body = self.body
        is_settled = body.virtual_size.width == body.columns
        if not is_settled:  # its scroll bar has just appeared; the event that tells it may come late
            body.lay_out()
        if body.size.height and body.on_seen is not None:  # these lines are in the first frame
            top = int(body.scroll_offset.y)
            body.forget_seen()
            body.on_seen(range(top, top + body.size.height))
            self.repaint_keys()
        limit = body.styles.max_height
        goals: list[tuple[Widget, int]] = [
            (part, len(part.lines)) for part in dialog.query(LinesView) if part is not body
        ]
        goals.append((body, min(body.virtual_size.height, int(limit.cells or 0) if limit is not None else 0)))
        is_settled = is_settled and all(part.size.height == height > 0 for part, height in goals)
        is_settled = is_settled and body.show_vertical_scrollbar == (body.virtual_size.height > body.size.height)
        if not is_settled and self._fits < MAX_FITS:
            self._fit_soon()
            return
        self._is_fitted = True
        self._fit_soon()
        dialog.add_class("-fitted")
        self.call_after_refresh(self.disarm)


class RequestPanel(RequestView, Vertical, can_focus=True):
    """A request docked above the composer. Subclasses define the keys and the draft to save."""

    typed_note = f"{TYPED} · tab goes there"

    def __init__(
        self,
        request: RequestItem,
        *,
        draft: dict[str, Any] | None = None,
        on_draft: Callable[[dict[str, Any]], None] = lambda draft: None,
        **guard: Any,
    ) -> None:
        """`draft` is the one saved for this request earlier; `on_draft` gets a new one to save after changes."""
        super().__init__(**guard)
        self.request = request
        self.draft = draft
        self._on_draft = on_draft
        self._save_timer: TimerHandle | None = None
        self._regaining_focus = False
        """Whether the focus is coming back from a field of the panel."""

    @property
    def is_complete(self) -> bool:
        """Whether all parts are mounted."""
        return self.is_attached and not is_being_removed(self) and bool(self.query("#dock-keys"))

    def answer(self, answer: Answer) -> None:
        """Send the answer, once, and hide; the panel is removed when the answer is recorded."""
        super().answer(answer)
        had_focus, self.display = self.has_focus_within, False
        if had_focus:
            self.screen.query_one("#prompt").focus()

    def on_mount(self) -> None:
        """Take the focus, unless a field other than the composer has it."""
        if not self.is_complete:  # removed before it was mounted completely
            return
        focused = self.screen.focused
        if focused is None or focused.id == "prompt":
            self.screen.set_focus(self)  # `on_focus` starts the quiet period
        else:
            self.disarm()
        self.call_after_refresh(self.disarm)  # counts from the first complete frame

    def repaint_keys(self) -> None:
        """Repaint the key hints."""
        if self.is_mounted and self.is_complete:
            super().repaint_keys()

    def on_focus(self) -> None:
        """Restart the quiet period, unless the focus came back from a field of the panel."""
        if self._regaining_focus:
            self._regaining_focus = False
            self.repaint_keys()
        else:
            self.disarm()

    def regain_focus(self) -> None:
        """Take the focus back from a field."""
        self._regaining_focus = not self.has_focus
        self.focus()

    def _focus_moved(self) -> None:
        self.call_after_refresh(self.repaint_keys)

    on_blur = on_descendant_focus = on_descendant_blur = _focus_moved

    def on_key(self, event: events.Key) -> None:
        """Handle a key that no field consumed."""
        if not self.has_focus:
            if self.handle_field_key(event):
                event.stop()
                event.prevent_default()
            return
        event.stop()
        event.prevent_default()
        self.tell("")
        if event.key == "tab":
            self.focus_field(1)
        elif event.key == "escape":
            if self.armed:
                self.escape()
        elif self.accepts_key(event):
            if not self.process_key(event):
                self.unbound_key(event)
        else:
            self.forward_to_draft(event)
            self.tell(TOO_SOON if event.is_printable else PRESSED_TOO_SOON)

    def on_paste(self, event: events.Paste) -> None:
        """Send a paste to the draft; it never decides."""
        if self.has_focus:
            event.stop()
            self.post_message(self.TypedAhead(event.text))

    def handle_field_key(self, event: events.Key) -> bool:
        """Handle a key that the focused field did not consume; return False if it has no function."""
        raise NotImplementedError

    def escape(self) -> None:
        """Handle Esc while no field has the focus."""

    def focus_field(self, direction: int) -> None:
        """Focus the next (1) or previous (-1) field: the panel before the first one, the composer after the last."""
        move = self.screen.focus_next if direction > 0 else self.screen.focus_previous
        move("RequestPanel, RequestPanel *, #prompt")

    # --- the draft ---

    def draft_data(self) -> dict[str, Any]:
        """Return the draft, which must survive a crash, as plain data."""
        raise NotImplementedError

    def _restored(self, name: str, default: ValueT) -> ValueT:
        """Return the value `name` of the saved draft, or `default` if it is missing or invalid."""
        try:
            return msgspec.convert((self.draft or {})[name], type(default))
        except (KeyError, msgspec.ValidationError):
            return default

    def schedule_save(self) -> None:
        """Save the draft soon."""
        if self._save_timer is not None:
            self._save_timer.cancel()
        self._save_timer = call_later_once(SAVE_DELAY, self, self._save_draft)

    def _save_draft(self) -> None:
        if not self.answered and self.is_complete:
            self._on_draft(self.draft_data())

    def flush_draft(self) -> None:
        """Save a pending draft immediately: the program is about to exit."""
        if self._save_timer is not None:
            self._save_draft()

    # --- key hints ---

    @property
    def key_rows(self) -> int:
        """Maximum lines of key hints."""
        return 1

    def keys(self) -> list[tuple[str, str]]:
        """Return keys and what they do, most important first."""
        raise NotImplementedError

    def paint_keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint as many key hints as fit; muted while keys are not accepted."""
        focused = self.screen.focused  # `has_focus` is only updated by a later event
        is_elsewhere = focused is None or self not in focused.ancestors_with_self
        pairs = [("tab", "switch to it")] if is_elsewhere else self.keys()
        style = styles.accent if focused is not self or self.armed else styles.muted
        return key_lines(pairs, width, styles, gap=3, style=style, held=held_label(self.held_key))[: self.key_rows]
