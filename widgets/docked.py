"""The base of what is decided with typing: it stands between transcript and composer, so that both stay in sight.

It takes no key until none came for a while (A9); what is typed before that goes on in the draft. Unlike a dialog it can
be left: Tab goes back and forth.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Size
from textual.widget import Widget

from tui_agent.domain import Answer
from tui_agent.view import RequestItem
from widgets.ink import Ink, Line, Span, line, width_of
from widgets.later import after
from widgets.line_view import LinesView
from widgets.modal import STILLNESS, RequestModal, StillModal

SHARE = 0.6
"""Part of the screen's height that it may take."""
AROUND = 6
"""Lines that head, keys, border and gaps take at most."""
KEEP_AFTER = 0.3
"""Seconds after the last change until a draft is kept."""

Keep = Callable[[dict[str, Any]], None]


def room(viewport: Size) -> int:
    """Lines that what is decided about may take."""
    return max(3, int(viewport.height * SHARE) - AROUND)


class Body(LinesView):
    """As high as its lines, up to what is left of the share."""

    less = 0
    """Lines that something else needs."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Bounded by the screen."""
        most = max(3, room(viewport) - self.less)
        return min(most, super().get_content_height(container, viewport, width))


class FieldsView(VerticalScroll, can_focus=False):
    """As high as its fields, up to what is left of the share."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Bounded by the screen."""
        return min(room(viewport), super().get_content_height(container, viewport, width))


class Still(Vertical, can_focus=True):
    """Takes the focus from the composer, and no key until none came for a while."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, *, clock: Callable[[], float], stillness: float, id: str | None = None) -> None:
        super().__init__(id=id)
        self.clock = clock
        self.stillness = stillness
        self._quiet_since = clock()
        self._listens = False
        self._lamp: TimerHandle | None = None
        self._inside = False
        """One of our own fields gives the focus back."""

    def show_keys(self) -> None:
        """Paint the keys of the moment."""
        raise NotImplementedError

    @property
    def armed(self) -> bool:
        """True once no key came for `stillness` seconds."""
        if not self._listens and self.clock() - self._quiet_since >= self.stillness:
            self._listens = True
        return self._listens

    @property
    def leaving(self) -> bool:
        """True once it is being taken away."""
        return self._pruning

    @property
    def whole(self) -> bool:
        """True while all of its parts are there: from its first moment until it is taken away."""
        return self.is_attached and not self._pruning and bool(self.query("#dock-keys"))

    def on_mount(self) -> None:
        """Take the focus from the composer, but not from a field in which somebody types."""
        if not self.whole:  # it was taken away before it stood
            return
        focused = self.screen.focused
        if focused is None or focused.id == "prompt":
            self.screen.set_focus(self)
        self.hush()

    def hush(self) -> None:
        """Take no key until things are still again."""
        self._listens = False
        self._quiet_since = self.clock()
        if self._lamp is not None:
            self._lamp.cancel()
        if self.stillness > 0:
            self._lamp = after(self.stillness, self, self._light)
        else:
            self.call_after_refresh(self._light)
        self.show_keys()

    def _light(self) -> None:
        if self.armed:
            self.show_keys()

    def _is_late(self, event: events.Key) -> bool:
        """True for a key that was pressed before we listened and had to wait while the program was busy."""
        pressed = self.clock() - max(0.0, monotonic() - event.time)
        late = self.stillness > 0 and pressed - self._quiet_since < self.stillness
        if late:
            self._listens = False
        return late

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

    def on_descendant_focus(self) -> None:
        """Other keys now."""
        self.call_after_refresh(self.show_keys)

    def on_descendant_blur(self) -> None:
        """Other keys now."""
        self.call_after_refresh(self.show_keys)

    def on_blur(self) -> None:
        """Other keys now."""
        self.call_after_refresh(self.show_keys)


class Docked(Still):
    """Asks about one request. Subclasses say what a key does and what is worth keeping."""

    def __init__(
        self,
        request: RequestItem,
        *,
        clock: Callable[[], float] = monotonic,
        stillness: float = STILLNESS,
        draft: dict[str, Any] | None = None,
        keep: Keep = lambda draft: None,
        id: str | None = None,
    ) -> None:
        """`draft` is what was kept of this request before; `keep` takes a new one after every change."""
        super().__init__(clock=clock, stillness=stillness, id=id)
        self.request = request
        self.draft = draft
        self._keep = keep
        self._keeping: TimerHandle | None = None
        self._answered = False

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
        elif self.armed and not self._is_late(event):
            if not self.pressed(event):
                self.unmeant(event)
        else:
            self.typed_ahead(event)

    def typed_ahead(self, event: events.Key) -> None:
        """A key that came too early belongs to the draft."""
        if event.key in ("enter", "ctrl+j"):
            self.post_message(StillModal.TypedAhead("\n"))
        elif event.character and event.is_printable:
            self.post_message(StillModal.TypedAhead(event.character))
        self.hush()

    def on_paste(self, event: events.Paste) -> None:
        """A paste never decides."""
        if self.has_focus:
            event.stop()
            self.post_message(StillModal.TypedAhead(event.text))

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

    # --- keeping and answering ---

    def kept(self) -> dict[str, Any]:
        """What must survive a crash, as plain data."""
        raise NotImplementedError

    def changed(self) -> None:
        """Something was edited."""
        if self._keeping is not None:
            self._keeping.cancel()
        self._keeping = after(KEEP_AFTER, self, self.keep_now)

    def keep_now(self) -> None:
        """Hand the draft on."""
        if not self._answered and self.whole:
            self._keep(self.kept())

    def keep_last(self) -> None:
        """Hand on what was edited without waiting for more: the program is about to end."""
        if self._keeping is not None:
            self.keep_now()

    def answer(self, answer: Answer) -> None:
        """Decide, once."""
        if not self._answered:
            self._answered = True
            self.post_message(RequestModal.Answered(self.request.id, answer))

    def interrupt(self) -> None:
        """Stop the run."""
        self.post_message(RequestModal.Interrupted())

    # --- the line of keys ---

    def show_keys(self) -> None:
        """Paint the keys of the moment."""
        if self.is_mounted and self.whole:
            for one in self.query("#dock-keys").results(LinesView):
                one.relayout()

    def keys(self) -> list[tuple[str, str]]:
        """Keys and what they do, the most wanted first."""
        raise NotImplementedError

    def paint_keys(self, width: int, ink: Ink) -> list[Line]:
        """As many as fit; without the accent while they do not work yet."""
        away = not self.has_focus and not self.has_focus_within
        pairs = [("tab", "goes there")] if away else self.keys()
        lit = away or not self.has_focus or self.armed
        spans: list[Span] = []
        for key, does in pairs:
            more: list[Span] = [("   " if spans else "", ink.text), (key, ink.accent if lit else ink.muted)]
            more.append((f" {does}", ink.muted))
            if width_of(spans) + width_of(more) > width:
                break
            spans += more
        return [line(*spans)]
