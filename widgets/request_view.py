"""Requests of the agent: dialogs, and panels docked above the composer, that take no key too early (A9).

All of them follow one rule (`KeyGuard`): no key counts until none came for a while. What is typed before goes on in
the draft. A panel stands between transcript and composer, so that both stay in sight, and can be left with Tab.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import TextArea

from tui_agent.common.domain import Answer
from tui_agent.view.items import RequestItem
from widgets.dialog_keys import key_lines
from widgets.inputs import LineInput
from widgets.line_view import LinesView, LineView
from widgets.overlay import OverlayScreen
from widgets.styled_text import Line, Span, TextStyles, hanging
from widgets.textual_private import is_being_removed

if TYPE_CHECKING:
    Mixin = Widget
else:
    Mixin = object  # Textual takes its style sheet from the first base that is a widget

ValueT = TypeVar("ValueT")

STILLNESS = 0.4
"""Seconds without a key before a request takes one (A9)."""
SAVING = 0.3
"""Seconds after which the user is told that an answer is being saved."""
KEEP_AFTER = 0.3
"""Seconds after the last change until a draft is saved."""


def call_later_once(seconds: float, node: MessagePump, do: Callable[[], object]) -> TimerHandle:
    """`do` is called by `node`, once, not before `seconds` are over; `cancel()` of what comes back calls it off.

    Textual's own timer for one call is dropped without a call when the process is held up for longer than
    `seconds` just as it starts (it takes the call for one that was missed), which a busy machine does.
    """
    return get_running_loop().call_later(seconds, node.call_later, do)


class KeyGuard(Mixin):
    """Takes no key until none came for `stillness` seconds. Mixed into the dialog or panel that takes the keys."""

    @dataclass
    class TypedAhead(Message):
        """Text that was not meant for us."""

        text: str

    def __init__(
        self, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.clock = clock
        self.stillness = stillness
        self._quiet_since = inf
        """Infinite until it is on the screen."""
        self._listens = False
        self._arming: TimerHandle | None = None

    @property
    def armed(self) -> bool:
        """True once no key came for `stillness` seconds."""
        if not self._listens and self.clock() - self._quiet_since >= self.stillness:
            self._listens = True
        return self._listens

    def hush(self) -> None:
        """Take no key until things are still again."""
        self._listens = False
        self._quiet_since = self.clock()
        if self._arming is not None:
            self._arming.cancel()
        if self.stillness > 0:
            self._arming = call_later_once(self.stillness, self, self._arm)
        else:
            self.call_after_refresh(self._arm)
        self.show_keys()

    def _arm(self) -> None:
        if self.armed:
            self.listening()

    def listening(self) -> None:
        """Called when keys begin to count."""
        self.show_keys()

    def show_keys(self) -> None:
        """Paint the line of keys, if there is one now."""
        for keys in self.query("#keys, #dock-keys").results(LinesView):
            keys.relayout()

    def counts(self, event: events.Key) -> bool:
        """False for a key that came too early, also for one that had to wait while the program was busy."""
        if not self.armed:
            return False
        pressed = self.clock() - max(0.0, monotonic() - event.time)
        late = self.stillness > 0 and pressed - self._quiet_since < self.stillness
        self._listens = not late
        return not late

    def typed_ahead(self, event: events.Key) -> None:
        """A key that was not meant for us goes to the draft."""
        if event.key in ("enter", "ctrl+j"):
            self.post_message(self.TypedAhead("\n"))
        elif event.character and event.is_printable:
            self.post_message(self.TypedAhead(event.character))
        self.hush()


class GuardedModal(KeyGuard, OverlayScreen):
    """A dialog that takes no key too early."""

    AUTO_FOCUS = ""
    body: LineView

    def compose(self) -> ComposeResult:
        """Head, body and keys, painted by the methods `_head`, `_body` and `_keys`."""
        parts = {part: LinesView(getattr(self, f"_{part}"), id=part) for part in ("head", "body", "keys")}
        self.body = parts["body"]
        with Vertical(id="dialog"):
            yield from parts.values()

    def on_mount(self) -> None:
        """The time of stillness begins when the dialog is there."""
        self.hush()

    def on_screen_resume(self) -> None:
        """What was over it is gone: what is typed on is not meant for it either."""
        self.hush()

    def on_key(self, event: events.Key) -> None:
        """A key that no input took. Those that an input binds go on to it."""
        typing = isinstance(self.focused, LineInput | TextArea)
        if typing and event.key != "escape" and not self.takes(event.key):
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.escape()
        elif self.counts(event):
            self.pressed(event)
        else:
            self.typed_ahead(event)

    def on_paste(self, event: events.Paste) -> None:
        """A paste never answers."""
        event.stop()
        self.post_message(self.TypedAhead(event.text))
        if not self.armed:
            self.hush()

    def takes(self, key: str) -> bool:
        """True for a key that means the dialog also while its input has the focus."""
        return False

    def pressed(self, event: events.Key) -> None:
        """A key that counts."""
        raise NotImplementedError

    def escape(self) -> None:
        """Esc never consents, so it works at once."""
        raise NotImplementedError


class RequestView(KeyGuard):
    """Asks about one request, and is answered once."""

    class Interrupted(Message):
        """Esc: stop the run."""

    request: RequestItem
    answered = False
    decide: Callable[[str, Answer], object] = staticmethod(lambda request, answer: None)
    """Takes the id of the request and what the user decided."""

    @property
    def armed(self) -> bool:
        """Not any more once it was answered: what is typed then is meant for the composer."""
        return super().armed and not self.answered

    def answer(self, answer: Answer) -> None:
        """Decide, once."""
        if not self.answered:
            self.answered = True
            self.decide(self.request.id, answer)

    def interrupt(self) -> None:
        """Stop the run."""
        self.post_message(self.Interrupted())


class RequestModal(RequestView, GuardedModal):
    """A request as a dialog."""

    def __init__(self, request: RequestItem, **guard: Any) -> None:
        """`guard` are the options of `KeyGuard`."""
        super().__init__(**guard)
        self.request = request
        self.saving = False
        """The answer is on its way to the disk."""

    def save(self) -> None:
        """Stay until the answer is on disk; tell the user where that takes its time."""
        self.saving = True
        call_later_once(SAVING, self, self.still_saving)

    def still_saving(self) -> None:
        """Called when the answer has been on its way for a while."""

    def escape(self) -> None:
        """Stop the run."""
        self.interrupt()

    def look_again(self) -> None:
        """The request changed: it may have become void."""


class FittedModal(RequestModal):
    """Its body takes what the other parts leave, so that all of it and every key is in reach on a small screen too."""

    def on_mount(self) -> None:
        """Watch how far the user has read."""
        super().on_mount()
        self.watch(self.body, "scroll_y", self.fit, init=False)
        self._fit_soon()

    def _fit_soon(self) -> None:
        self.call_after_refresh(self.fit)

    on_resize = on_line_view_resized = _fit_soon
    """Another size; a part has its place, which may come later than our own size."""

    @property
    def middle(self) -> Widget:
        """What takes the room that the others leave."""
        return self.body

    def fit(self) -> None:
        """Give the body its height, and say how much is below."""
        if not (self.query("#dialog") and self.query("#keys")):  # answered meanwhile: it is being taken down
            return
        dialog, middle = self.query_one("#dialog"), self.middle
        others = dialog.gutter.height
        for part in dialog.displayed_children:
            if part is not middle:
                others += part.outer_size.height + part.styles.margin.height
        height = min(max(3, self.size.height - others), max(6, self.size.height * 3 // 5))
        for one in {self.body, middle}:
            if one.styles.max_height is None or one.styles.max_height.cells != height:
                one.styles.max_height = height
                self._fit_soon()
        self.show_keys()

    def show_keys(self) -> None:
        """Paint the keys; another number of lines leaves another room for the body."""
        for keys in self.query("#keys").results(LinesView):
            before = len(keys.lines)
            keys.relayout()
            if len(keys.lines) != before:
                self._fit_soon()


class RequestPanel(RequestView, Vertical, can_focus=True):
    """A request docked above the composer. Subclasses say what a key does and which draft to save."""

    def __init__(
        self,
        request: RequestItem,
        *,
        draft: dict[str, Any] | None = None,
        keep: Callable[[dict[str, Any]], None] = lambda draft: None,
        **guard: Any,
    ) -> None:
        """`draft` was saved of this request before; `keep` takes a new one after every change."""
        super().__init__(**guard)
        self.request = request
        self.draft = draft
        self._keep = keep
        self._keeping: TimerHandle | None = None
        self._inside = False
        """One of our own fields gives the focus back."""

    @property
    def leaving(self) -> bool:
        """True once it is being removed."""
        return is_being_removed(self)

    @property
    def whole(self) -> bool:
        """True while all of its parts are there: from its first moment until it is removed."""
        return self.is_attached and not self.leaving and bool(self.query("#dock-keys"))

    def answer(self, answer: Answer) -> None:
        """Decide, once, and hide: the panel is removed when the record of the answer arrives."""
        super().answer(answer)
        had_focus, self.display = self.has_focus_within, False
        if had_focus:
            self.screen.query_one("#prompt").focus()

    def on_mount(self) -> None:
        """Take the focus from the composer, but not from a field in which somebody types."""
        if not self.whole:  # it was removed before it was complete
            return
        focused = self.screen.focused
        if focused is None or focused.id == "prompt":
            self.screen.set_focus(self)  # `on_focus` begins the time of stillness
        else:
            self.hush()

    def show_keys(self) -> None:
        """Paint the keys of the moment."""
        if self.is_mounted and self.whole:
            super().show_keys()

    def on_focus(self) -> None:
        """What is typed on is not meant for it yet, unless one of its own fields had the focus."""
        if self._inside:
            self._inside = False
            self.show_keys()
        else:
            self.hush()

    def take_back(self) -> None:
        """The focus comes back from a field."""
        self._inside = not self.has_focus
        self.focus()

    def _focus_moved(self) -> None:
        self.call_after_refresh(self.show_keys)

    on_blur = on_descendant_focus = on_descendant_blur = _focus_moved

    def on_key(self, event: events.Key) -> None:
        """A key that no field took."""
        if not self.has_focus:
            if self.in_field(event):
                event.stop()
                event.prevent_default()
            return
        event.stop()
        event.prevent_default()
        if event.key == "tab":
            self.next_field(1)
        elif event.key == "escape":
            if self.armed:
                self.escape()
        elif self.counts(event):
            if not self.pressed(event):
                self.unmeant(event)
        else:
            self.typed_ahead(event)

    def on_paste(self, event: events.Paste) -> None:
        """A paste never decides."""
        if self.has_focus:
            event.stop()
            self.post_message(self.TypedAhead(event.text))

    def unmeant(self, event: events.Key) -> None:
        """A key that means nothing here."""

    def pressed(self, event: events.Key) -> bool:
        """A key, once we listen; True when it meant something."""
        raise NotImplementedError

    def in_field(self, event: events.Key) -> bool:
        """A key that the field with the focus did not take; True when it meant something."""
        raise NotImplementedError

    def escape(self) -> None:
        """Esc outside of all fields."""

    def fields(self) -> Sequence[Widget]:
        """What Tab goes through."""
        return ()

    def next_field(self, direction: int) -> None:
        """To the next field; from the last one, and where there is none, to the composer."""
        shown = [one for one in self.fields() if one.display]
        focused = self.screen.focused
        place = shown.index(focused) + direction if focused in shown else 0 if direction > 0 else -1
        if 0 <= place < len(shown):
            self.screen.set_focus(shown[place])
        elif place < 0 and shown:
            self.focus()
        else:
            self.screen.query_one("#prompt").focus()

    # --- the draft ---

    def kept(self) -> dict[str, Any]:
        """What must survive a crash, as plain data."""
        raise NotImplementedError

    def _restored(self, name: str, offered: ValueT) -> ValueT:
        """The value called `name` of the saved draft; the offered one where that is no such value."""
        try:
            return msgspec.convert((self.draft or {})[name], type(offered))
        except (KeyError, msgspec.ValidationError):
            return offered

    def changed(self) -> None:
        """Something was edited."""
        if self._keeping is not None:
            self._keeping.cancel()
        self._keeping = call_later_once(KEEP_AFTER, self, self._keep_draft)

    def _keep_draft(self) -> None:
        """Hand the draft on."""
        if not self.answered and self.whole:
            self._keep(self.kept())

    def keep_last(self) -> None:
        """Hand on what was edited without waiting for more: the program is about to end."""
        if self._keeping is not None:
            self._keep_draft()

    # --- the line of keys ---

    def keys(self) -> list[tuple[str, str]]:
        """Keys and what they do, the most wanted first."""
        raise NotImplementedError

    def paint_keys(self, width: int, styles: TextStyles) -> list[Line]:
        """As many as fit; without the accent while they do not work yet."""
        focused = self.screen.focused  # `has_focus` follows only with the event
        away = focused is None or self not in focused.ancestors_with_self
        pairs = [("tab", "switch to it")] if away else self.keys()
        lit = focused is not self or self.armed
        return key_lines(pairs, width, styles, gap=3, style=styles.accent if lit else styles.muted)[:1]


SHARE = 0.6
"""Part of the screen's height that it may take."""
AROUND = 6
"""Lines that head, keys, border and gaps take at most."""


def lines_available(viewport: Size) -> int:
    """Lines that what is decided about may take."""
    return max(3, int(viewport.height * SHARE) - AROUND)


class Body(LinesView):
    """As high as its lines, up to what is left of the share."""

    less = 0
    """Lines that something else needs."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Bounded by the screen."""
        most = max(3, lines_available(viewport) - self.less)
        return min(most, super().get_content_height(container, viewport, width))


class FieldsView(VerticalScroll, can_focus=False):
    """As high as its fields, up to what is left of the share."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Bounded by the screen."""
        return min(lines_available(viewport), super().get_content_height(container, viewport, width))


def hidden_hint(body: LineView, scrolls: str, styles: TextStyles, *, seen: bool) -> list[Span]:
    """The keys that scroll and how much is below; nothing where all of it is visible."""
    if not body.max_scroll_y:
        return []
    left = body.lines_below
    more = f"{left} more line{'s' * (left > 1)} below" if left else "end reached"
    return [(f"   {scrolls}", styles.accent), (f" {more}", styles.muted if seen else styles.warn)]


def option_lines(
    options: Iterable[tuple[str, str, str]],
    works: Callable[[str], bool],
    key_of: Callable[[str], str],
    width: int,
    styles: TextStyles,
) -> list[Line]:
    """The keys of actions with what they do and, behind it, the exact rule; those that do not work yet are muted."""
    rows = [(key, text, rule, works(action)) for action, text, rule in options if (key := key_of(action))]
    label = max((len(text) for _key, text, _rule, _on in rows), default=0)
    wide = max((len(key) for key, _text, _rule, _on in rows), default=1)
    lines: list[Line] = []
    for key, text, rule, on in rows:
        head: list[Span] = [(f"{key:<{wide}}  ", styles.accent + styles.strong.without_color if on else styles.muted)]
        style: Style = styles.text if on else styles.muted
        spans = [(f"{text:<{label}}  ", style), (rule, styles.muted)] if rule else [(text, style)]
        lines += hanging(head, spans, width, styles.text)
    return lines
