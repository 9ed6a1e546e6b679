"""Passes a letter on to a dialog only if it stands alone; typed text goes to the draft (A9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from textual import events
from textual.app import App

from widgets.lone_keys import LONE_SECONDS, TakesLetters, TypingFilter, Use
from widgets.request_view import call_later_once


class LoneKeys:
    """Holds keys before the app delivers them."""

    def __init__(
        self,
        app: App[int],
        deliver: Callable[[events.Key], Awaitable[None]],
        *,
        clock: Callable[[], float],
        quiet_seconds: float,
    ) -> None:
        """`deliver` passes a key on to the focused widget. `quiet_seconds` is that of `KeyGuard`."""
        self._app, self._deliver, self._clock = app, deliver, clock
        self._filter: TypingFilter[events.Key] = TypingFilter(min(LONE_SECONDS, quiet_seconds))
        self._shown_by: TakesLetters | None = None
        """What shows the held key."""

    def _target(self) -> TakesLetters | None:
        """Return what acts on letters now: a list or panel with the focus, or a dialog."""
        focused, screen = self._app.focused, self._app.screen
        if isinstance(focused, TakesLetters):
            return focused
        return screen if isinstance(screen, TakesLetters) else None

    async def process_key(self, event: events.Key) -> None:
        """Hold a key, or deliver it with the one that was held before it."""
        target = self._target()
        holds = target is not None and target.holds(event)
        character = event.character if event.character and event.is_printable else ""
        pressed_at = self._clock() - max(0.0, monotonic() - event.time)
        uses = self._filter.press(event, event.key, character, pressed_at, holds=holds)
        for use in uses:
            await self._apply(use)
        held = self._filter.held
        self._show(target if held is event else None, held)
        if held is event:
            call_later_once(self._filter.seconds, self._app, lambda: self._release(event))

    async def _apply(self, use: Use[events.Key]) -> None:
        target = self._target()
        if use.is_text and target is not None:
            target.post_message(TakesLetters.Typed(use.key))
        else:
            await self._deliver(use.key)

    async def _release(self, event: events.Key) -> None:
        """Deliver a key that stood alone. Keys that the app has received by now were handled before."""
        if self._filter.release(event):
            self._show(None, None)
            await self._deliver(event)

    async def end_hold(self) -> None:
        """Turn the held key into text: something else than a key followed it."""
        if (held := self._filter.held) is not None and self._filter.release(held):
            self._show(None, None)
            await self._apply(Use(held, is_text=True))

    def _show(self, target: TakesLetters | None, event: events.Key | None) -> None:
        if self._shown_by is not None and self._shown_by is not target and self._shown_by.is_attached:
            self._shown_by.show_held(None)
        self._shown_by = target
        if target is not None:
            target.show_held(event)
