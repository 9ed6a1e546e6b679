from __future__ import annotations

import asyncio

import pytest
from rich.style import Style
from textual.events import Key
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tests.nightly import POSTERS, sampled
from tests.scenes import names
from tests.tui.kit import FakeClock, app_for, run_app
from tui_agent.tui.routing import FRAME, IDLE_FACTOR, MAX_PAUSE
from widgets.line_view import LineView


def cells(strips: list[Strip]) -> list[list[tuple[str, Style | None]]]:
    return [[(letter, segment.style) for segment in strip for letter in segment.text] for strip in strips]


@pytest.mark.parametrize("size", sampled([(120, 40), (80, 24)], 1))
@pytest.mark.parametrize("scene", sampled(names(), POSTERS))
async def test_lines_are_finished_as_textual_would(scene: str, size: tuple[int, int]) -> None:
    app, _session = app_for(scene)
    async with run_app(app, size):
        views = [view for view in app.screen.query(LineView) if view.display and view._has_only_padding]
        assert views
        for view in views:
            whole = view.region.size.region
            view._styles_cache.clear()
            for crop in (whole, whole.shrink((1, 3, 1, 2))):
                if crop:
                    assert cells(view.render_lines(crop)) == cells(ScrollView.render_lines(view, crop))


async def test_a_line_that_moved_is_the_same_strip() -> None:
    app, _session = app_for("answered")
    async with run_app(app, (80, 24)):
        view = app.transcript
        crop = view.region.size.region
        end = view.max_scroll_y
        view.scroll_to(y=end - 1, animate=False, force=True)
        before = view.render_lines(crop)
        view.scroll_to(y=end, animate=False, force=True)
        after = view.render_lines(crop)
        pairs = list(zip(before[2:-1], after[1:-2], strict=True))
        assert len(pairs) > 10
        assert all(one is other for one, other in pairs)


async def test_after_a_slow_paint_the_next_one_waits_longer() -> None:
    clock = FakeClock()
    app, _session = app_for("answered", clock=clock)
    async with run_app(app, (80, 24)):
        router = app._router
        assert router.seconds_until_paint() == pytest.approx(FRAME)
        assert router.seconds_until_paint(0.02) == pytest.approx(IDLE_FACTOR * 0.02)
        assert router.seconds_until_paint(9.0) == pytest.approx(MAX_PAUSE)
        clock.now += 1
        assert router.seconds_until_paint(9.0) == 0.0


async def test_a_typed_key_is_painted_without_waiting_for_the_next_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _session = app_for("answered")
    async with run_app(app, (80, 24)):
        painted = asyncio.Event()
        monkeypatch.setattr(app.screen, "_compositor_refresh", painted.set)
        monkeypatch.setattr(app.screen._update_timer, "resume", lambda: None)  # no more frames
        app.prompt.post_message(Key("x", "x"))
        await asyncio.wait_for(painted.wait(), 10)
        assert app.prompt.text == "x"
