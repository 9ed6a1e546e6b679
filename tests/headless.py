"""What apps in tests need not do: parse the same style sheets again, paint what nobody sees, wait by the clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual._compositor import Compositor
from textual._context import active_app, visible_screen_stack
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

RESTS = (0.0, 0.0, 0.0, 0.001, 0.001)
"""Seconds between the looks in a row at which nothing is left to do: a callback may ask for another one."""
MANY, MOST = 60, 500
"""Looks after which it is something that takes its time, and looks in all."""
LEFT = ("_layout_required", "_scroll_required", "_repaint_required", "_recompose_required")
"""What Textual notes of a widget that has something to do."""

_parse_rules = Stylesheet._parse_rules
_painted = Screen._compositor_refresh
_render_strips = Compositor.render_strips
_parsed: dict[object, Any] = {}


def apply(patch: pytest.MonkeyPatch) -> None:
    """For every app of the process."""
    patch.setattr(Stylesheet, "_parse_rules", _parsed_once)
    patch.setattr(RuleSet, "__hash__", object.__hash__)  # the same, not computed in Python for each rule and widget
    patch.setattr("textual.app.wait_for_idle", idle)
    patch.setattr("textual.pilot.wait_for_idle", idle)


def leave_unpainted(patch: pytest.MonkeyPatch) -> None:
    """Headless apps compose no frames."""
    patch.setattr(Screen, "_compositor_refresh", _unpainted)
    patch.setattr(Compositor, "render_strips", _looked_at)


def _parsed_once(self, css, read_from, is_default_rules=False, tie_breaker=0, scope=""):
    """Hundreds of apps are made of the same style sheets, and reading those is a fifth of making one: what Textual
    parsed for one app serves the next. Rules are only read once they are parsed; errors are never kept."""
    variables = tuple(sorted(self._variables.items()))
    key = (css, read_from, is_default_rules, tie_breaker, scope, variables)
    if key not in _parsed:
        _parsed[key] = _parse_rules(self, css, read_from, is_default_rules, tie_breaker, scope)
    return _parsed[key]


def _unpainted(screen: Screen[Any]) -> None:
    """A headless app writes nothing, but it composes every frame: a quarter of the time of these tests. What a test
    looks at it asks the compositor for itself, `paints` tests keep the frames, and so do apps with a driver that writes."""
    if screen is not screen.app.screen or not screen.app.is_headless:
        _painted(screen)
        return
    screen._compositor._dirty_regions.clear()
    screen._dirty_widgets.clear()
    screen.app._update_mouse_over(screen)


def _looked_at(compositor: Compositor, size: Size | None = None) -> list[Strip]:
    """With what is seen through a dialog, which painting makes known."""
    visible_screen_stack.set(compositor.root.app._background_screens if compositor.root else [])
    return _render_strips(compositor, size)


async def idle(_min_sleep: float = 0.0) -> None:
    """Instead of Textual's own, which after each key looks by the clock, 40 ms at least, whether the process works:
    until no widget has anything left to do."""
    app = active_app.get()
    rests = 0
    for look in range(MOST):
        await asyncio.sleep(RESTS[rests] if look < MANY else 0.002)
        rests = 0 if has_work(app) else rests + 1
        if rests == len(RESTS):
            return


def has_work(app: App[Any]) -> bool:
    """A widget has a message, a callback or a change of itself that it has not dealt with."""
    if not (app.is_running and app._screen_stacks[app._current_mode]):
        return False  # it has ended
    screen = app.screen
    if (
        screen._dirty_widgets
        or screen._callbacks
        or app._resize_timer
        or getattr(getattr(app, "_router", None), "dirty", False)
    ):
        return True
    for node in (app, screen, *screen.walk_children()):
        if not (node.is_running and node._mounted_event.is_set()):
            return True  # its parts are not there yet
        if node.message_queue_size or node._next_callbacks:
            return True
        if any(getattr(node, name, False) for name in LEFT):
            node.check_idle()  # what it noted of itself it does after its next message
            return True
    return False
