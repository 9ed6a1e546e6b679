"""Speeds up apps in tests: style sheets are parsed once, unseen frames are not composed, and idle is detected exactly."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest
from textual._compositor import Compositor
from textual._context import active_app, visible_screen_stack
from textual.app import App, _PrintCapture
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

IDLE_CHECKS = (0.0, 0.0, 0.0, 0.001, 0.001)
"""Seconds before each of the checks that must find no work in a row, since a callback may schedule another one."""
SLOW_AFTER, MAX_CHECKS = 60, 500
"""Checks after which the pause between them gets longer, and checks in all."""
PENDING_FLAGS = ("_layout_required", "_scroll_required", "_repaint_required", "_recompose_required")
"""Attributes in which Textual records pending work of a widget."""

_parse_rules = Stylesheet._parse_rules
_compositor_refresh = Screen._compositor_refresh
_render_strips = Compositor.render_strips
_cache: dict[object, Any] = {}
_updates_early = False
"""Whether `idle` updates the screen instead of waiting for the screen's timer."""


class _WeakPrintCapture(_PrintCapture):
    """The `sys.stderr` of an app, which every thread keeps: a strong reference would keep the app and its idle threads."""

    def __init__(self, app: App[Any], stderr: bool = False) -> None:
        super().__init__(weakref.proxy(app), stderr)


def apply(patch: pytest.MonkeyPatch) -> None:
    """Patch Textual for every app of the process."""
    patch.setattr(Stylesheet, "_parse_rules", _parse_rules_cached)
    patch.setattr(RuleSet, "__hash__", object.__hash__)  # equivalent, without a computation per rule and widget
    patch.setattr("textual.app._PrintCapture", _WeakPrintCapture)
    patch.setattr("textual.app.wait_for_idle", idle)
    patch.setattr("textual.pilot.wait_for_idle", idle)


def leave_unpainted(patch: pytest.MonkeyPatch) -> None:
    """Patch Textual so that headless apps compose no frames."""
    patch.setattr(Screen, "_compositor_refresh", _skip_painting)
    patch.setattr(Compositor, "render_strips", _render_with_background)
    patch.setattr("tests.headless._updates_early", True)


def _parse_rules_cached(self, css, read_from, is_default_rules=False, tie_breaker=0, scope=""):
    """Parse each style sheet once per process, since that is a fifth of the cost of creating an app. Rules are not
    modified after parsing; errors are not cached."""
    variables = tuple(sorted(self._variables.items()))
    key = (css, read_from, is_default_rules, tie_breaker, scope, variables)
    if key not in _cache:
        _cache[key] = _parse_rules(self, css, read_from, is_default_rules, tie_breaker, scope)
    return _cache[key]


def _skip_painting(screen: Screen[Any]) -> None:
    """Compose no frame for a headless app, which would take a quarter of the time of these tests and write nothing.

    Tests render what they inspect themselves. Tests marked `paints`, apps with a writing driver and approvals, which
    note what was painted, are not affected."""
    if screen is not screen.app.screen or not screen.app.is_headless or _notes_what_is_painted(screen):
        _compositor_refresh(screen)
        return
    screen._compositor._dirty_regions.clear()
    screen._dirty_widgets.clear()
    screen.app._update_mouse_over(screen)


def _notes_what_is_painted(screen: Screen[Any]) -> bool:
    """Return whether the screen is or holds a request, which only what was painted can approve."""
    from widgets.request_view import RequestPanel, RequestView

    return isinstance(screen, RequestView) or bool(screen.query(RequestPanel))


def _render_with_background(compositor: Compositor, size: Size | None = None) -> list[Strip]:
    """Render with the screens behind a dialog, which painting would have set."""
    visible_screen_stack.set(compositor.root.app._background_screens if compositor.root else [])
    return _render_strips(compositor, size)


async def idle(_min_sleep: float = 0.0) -> None:
    """Wait until no widget has work left. Textual's own function waits at least 40 ms for the process to use no CPU."""
    app = active_app.get()
    idle_checks = 0
    for check in range(MAX_CHECKS):
        await asyncio.sleep(IDLE_CHECKS[idle_checks] if check < SLOW_AFTER else 0.002)
        idle_checks = 0 if has_work(app) else idle_checks + 1
        if idle_checks == len(IDLE_CHECKS):
            return
        if idle_checks == 0 and _updates_early and app._screen_stacks[app._current_mode]:
            app.screen._on_timer_update()


def has_work(app: App[Any]) -> bool:
    """Return whether a widget has unprocessed messages, callbacks or changes."""
    if not (app.is_running and app._screen_stacks[app._current_mode]):
        return False
    screen = app.screen
    if (
        screen._dirty_widgets
        or screen._callbacks
        or any(below._layout_required or below._scroll_required for below in app._background_screens)
        or app._resize_timer
        or getattr(getattr(app, "_router", None), "dirty", False)
    ):
        return True
    for node in (app, screen, *screen.walk_children()):
        if not (node.is_running and node._mounted_event.is_set()):
            return True
        if node.message_queue_size or node._next_callbacks:
            return True
        if any(getattr(node, name, False) for name in PENDING_FLAGS):
            node.check_idle()  # otherwise it would be done only after the next message
            return True
    return False
