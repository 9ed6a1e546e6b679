"""The base of all dialogs that ask for consent: deaf until things are still, bound to one request (R-17, R-18)."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tui_agent.domain import Answer
from tui_agent.view import RequestItem
from widgets.dimmed import OverScreen
from widgets.in_order import press_bound
from widgets.ink import Ink, Line, Span, indent, wrap
from widgets.later import after

STILLNESS = 0.4
"""Seconds without a key before a dialog takes one (A9)."""


SAVING = 0.3
"""Seconds from which on it is said that an answer is being saved."""


class StillModal(OverScreen):
    """Takes no key until none came for a while. What is typed before that goes back to the draft."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = []

    @dataclass
    class TypedAhead(Message):
        """Text that was not meant for the dialog."""

        text: str

    def __init__(self, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS) -> None:
        super().__init__()
        self.clock = clock
        self.stillness = stillness
        self._quiet_since = clock()
        self._listens = False
        self._lamp: TimerHandle | None = None

    @property
    def armed(self) -> bool:
        """True once no key came for `stillness` seconds."""
        if not self._listens and self.clock() - self._quiet_since >= self.stillness:
            self._listens = True
        return self._listens

    def on_mount(self) -> None:
        """The time of stillness begins when the dialog is there."""
        self._be_quiet()

    def on_screen_resume(self) -> None:
        """What lay over it is gone: what is typed on is not meant for it either."""
        self.hush()

    def hush(self) -> None:
        """Take no key until things are still again."""
        self._listens = False
        self._be_quiet()

    def _be_quiet(self) -> None:
        self._quiet_since = self.clock()
        if self._lamp is not None:
            self._lamp.cancel()
        self._lamp = after(self.stillness, self, self._light) if self.stillness > 0 else None
        if self._lamp is None:
            self.call_after_refresh(self._light)

    def _light(self) -> None:
        """Show that the dialog listens now."""
        if self.armed:
            self.listening()

    def listening(self) -> None:
        """Called when the dialog begins to listen."""

    def on_key(self, event: events.Key) -> None:
        """A key that no input took. Those that an input binds go on to it."""
        typing = isinstance(self.focused, LineInput | TextArea)
        if typing and event.key != "escape" and not self.takes(event.key):
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.escape()
        elif self.armed and not self._is_late(event):
            self.pressed(event)
        else:
            self.typed_ahead(event)

    def _is_late(self, event: events.Key) -> bool:
        """True for a key that was pressed before the dialog listened and had to wait while the program was busy."""
        pressed = self.clock() - max(0.0, monotonic() - event.time)
        late = self.stillness > 0 and pressed - self._quiet_since < self.stillness
        if late:
            self._listens = False
        return late

    def takes(self, key: str) -> bool:
        """True for a key that means the dialog also while its input has the focus."""
        return False

    def typed_ahead(self, event: events.Key) -> None:
        """A key that was not meant for the dialog goes to the draft."""
        if event.key in ("enter", "ctrl+j"):
            self.post_message(self.TypedAhead("\n"))
        elif event.character and event.is_printable:
            self.post_message(self.TypedAhead(event.character))
        self._be_quiet()

    def on_paste(self, event: events.Paste) -> None:
        """A paste never answers."""
        event.stop()
        self.post_message(self.TypedAhead(event.text))
        if not self.armed:
            self._be_quiet()

    def pressed(self, event: events.Key) -> None:
        """A key, once the dialog listens."""
        raise NotImplementedError

    def escape(self) -> None:
        """Esc never consents, so it works at once."""
        raise NotImplementedError


class RequestModal(StillModal):
    """Asks about one request."""

    @dataclass
    class Answered(Message):
        """The user decided."""

        request: str
        answer: Answer

    class Interrupted(Message):
        """Esc: stop the run."""

    def __init__(
        self, request: RequestItem, *, clock: Callable[[], float] = monotonic, stillness: float = STILLNESS
    ) -> None:
        super().__init__(clock=clock, stillness=stillness)
        self.request = request
        self.saving = False
        """The answer is on its way to the disk."""
        self._answered = False

    @property
    def armed(self) -> bool:
        """Not any more once it was answered: what is typed then is meant for the composer."""
        return super().armed and not self._answered

    def save(self) -> None:
        """Stay until the answer is on disk; where that takes its time, say so."""
        self.saving = True
        after(SAVING, self, self.still_saving)

    def still_saving(self) -> None:
        """Called when the answer has been on its way for a while."""

    def escape(self) -> None:
        """Stop the run."""
        self.post_message(self.Interrupted())

    def look_again(self) -> None:
        """The request is another one by now: it may have become void."""

    def answer(self, answer: Answer) -> None:
        """Decide, once."""
        if not self._answered:
            self._answered = True
            self.post_message(self.Answered(self.request.id, answer))


def room_for(middle: Widget) -> int:
    """Lines that what is asked about may take: what the other parts of the dialog leave, so that all of it and every
    key is in reach on a small screen too (R4.1)."""
    screen = middle.screen
    dialog = screen.query_one("#dialog")
    others = dialog.gutter.height
    for part in dialog.displayed_children:
        if part is not middle:
            others += part.outer_size.height + part.styles.margin.height
    return min(max(3, screen.size.height - others), max(6, screen.size.height * 3 // 5))


def scrolled(body: ScrollView, way: str) -> float:
    """The line that a body begins with when it was scrolled `way`: up, down, page_up, page_down, top or bottom."""
    page, y = max(1, body.size.height - 1), body.scroll_offset.y
    steps = {"up": y - 1, "down": y + 1, "page_up": y - page, "page_down": y + page, "top": 0}
    return steps.get(way, body.max_scroll_y)


def below(body: ScrollView, scrolls: str, ink: Ink, *, seen: bool) -> list[Span]:
    """The keys that scroll and how much is below; nothing where all of it is visible."""
    if not body.max_scroll_y:
        return []
    left = int(body.max_scroll_y - body.scroll_offset.y)
    more = f"{left} more line{'s' * (left > 1)} below" if left else "end reached"
    return [(f"   {scrolls}", ink.accent), (f" {more}", ink.muted if seen else ink.warn)]


TAKING_BACK = ("backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+h")
"""Keys that no dialog has a use for while something is typed."""


class LineInput(Input):
    """One line of text within a dialog. `picks` are keys that are the dialog's while nothing is typed; `first` is asked
    about every key by its name, in their order, and says whether it took it."""

    def __init__(
        self,
        *,
        id: str | None = None,
        placeholder: str = "",
        picks: str = "",
        first: Callable[[str], bool] = lambda key: False,
    ) -> None:
        super().__init__(id=id, placeholder=placeholder, compact=True, select_on_focus=False)
        self._first = first
        self.cursor_blink = False
        self.picks = picks

    async def _on_key(self, event: events.Key) -> None:
        if self._first(event.key):
            event.stop()
            event.prevent_default()
        elif event.character and event.character in self.picks and not self.value:
            event.prevent_default()  # so that it bubbles up to the dialog instead of being typed
        elif event.key in TAKING_BACK:
            await press_bound(self, event)


def options(
    pairs: Sequence[tuple[str, str, str]], width: int, ink: Ink, *, lit: Callable[[str], bool]
) -> list[Line]:
    """Keys with what they do and, behind it, the exact rule; those that do not work yet are muted."""
    label = max((len(text) for _key, text, _rule in pairs), default=0)
    wide = max((len(key) for key, _text, _rule in pairs), default=1)
    lines: list[Line] = []
    for key, text, rule in pairs:
        on = lit(key)
        head: list[Span] = [(f"{key:<{wide}}  ", ink.accent + ink.strong.without_color if on else ink.muted)]
        style: Style = ink.text if on else ink.muted
        if not rule:
            lines += indent(wrap([(text, style)], width - wide - 2), head, [(" " * (wide + 2), ink.text)])
            continue
        room = width - wide - 2
        spans = [(f"{text:<{label}}  ", style), (rule, ink.muted)]
        lines += indent(wrap(spans, room), head, [(" " * (wide + 2), ink.text)])
    return lines
