from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.nightly import crossed
from tests.scenes import build, load
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Usage
from tui_agent.tui.app import TuiAgentApp
from widgets.context_meter import ContextPanel

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


def measured(app: TuiAgentApp) -> bool:
    return isinstance(app.screen, ContextPanel)


@pytest.mark.parametrize(("scene", "size"), crossed([*build.WINDOWS[:-1], "retrying"], SIZES))
def test_window(scene: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for(scene)
    assert snap_compare(app, terminal_size=size, run_before=wait_until_rendered)


@pytest.mark.parametrize(("scene", "size"), crossed(["context_compacted", "reply_rejected"], SIZES))
def test_window_open(scene: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for(scene)

    async def expand(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press("ctrl+o")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=expand)


@pytest.mark.parametrize(("theme", "size"), crossed(["dark", "light"], SIZES))
def test_meter(theme: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for("context_measured", theme=theme)

    async def look(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press("f9")
        await wait_for(pilot, lambda: measured(app))
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=look)


def test_meter_of_a_truncated_prompt(snap_compare) -> None:
    app, _session = app_for("prompt_truncated")

    async def look(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press(*"/context", "enter")
        await wait_for(pilot, lambda: measured(app))
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=look)


async def test_the_meter_opens_by_key_and_by_name_and_closes() -> None:
    app, _session = app_for("context_measured")
    async with run_app(app) as pilot:
        for opening, closing in ((("f9",), "f9"), ((*"/context", "enter"), "escape")):
            await pilot.press(*opening)
            await wait_for(pilot, lambda: measured(app))
            await wait_until_idle(pilot)
            text = screen_text(app)
            assert "files read" in text and "14,618" in text and "45%" in text
            await pilot.press(closing)
            await wait_for(pilot, lambda: not measured(app))


async def test_before_the_first_request_nothing_is_measured() -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("f9")
        await wait_for(pilot, lambda: measured(app))
        await wait_until_idle(pilot)
        assert "Nothing has been sent" in screen_text(app)


async def test_requests_that_sort_and_plan_count_as_sent_before_anything_is_measured() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        for node, role in (("run1.d", "dispatcher"), ("run1.p", "planning")):
            started = e.ReplyStarted(model="m", iteration=0, messages=2, estimate=256, role=role)
            session.push(started, run="run1", node=node)
            ended = e.ReplyEnded(text="", role=role, usage=Usage(prompt_tokens=256))
            session.push(ended, run="run1", node=node)
        await wait_until_rendered(pilot)
        await pilot.press("f9")
        await wait_for(pilot, lambda: measured(app))
        await wait_until_idle(pilot)
        text = " ".join(screen_text(app).split())
        assert "Nothing has been sent" not in text
        assert "2 requests, 512 tokens read (classifying the request, planning)" in text.replace("│ ", "")


async def test_the_warning_of_a_cut_prompt_stays_until_the_next_message() -> None:
    app, session = app_for("prompt_truncated")
    async with run_app(app) as pilot:
        assert "truncated the prompt to 4,098" in screen_text(app)
        session.push(e.ContextMeasured(used=9_000, limit=8_192), run="run1")
        await wait_until_rendered(pilot)
        assert "truncated the prompt to 4,098" in screen_text(app)
        session.push(e.RunEnded(outcome="done", text="x"), run="run1")
        await wait_until_rendered(pilot)
        assert "truncated the prompt to 4,098" in screen_text(app)
        session.push(e.UserMessageAdded(id="m-2", text="and now?"))
        session.push(e.RunStarted(message_id="m-2", mode="direct", model="m"), run="run2")
        await wait_until_rendered(pilot)
        assert "truncated the prompt to 4,098" not in screen_text(app)


async def test_the_summary_of_a_compaction_can_be_read() -> None:
    app, _session = app_for("context_compacted")
    async with run_app(app, (100, 50)) as pilot:
        assert "23,690 to 8,214" in screen_text(app)
        assert "Failed approaches" not in screen_text(app)
        await pilot.press("ctrl+o")
        await wait_until_idle(pilot)
        assert "Failed approaches" in screen_text(app)


async def test_a_retry_counts_down() -> None:
    app, _session = app_for("retrying", later=0.0)
    async with run_app(app) as pilot:
        assert "in 8 s" in screen_text(app)
        app.activity.now = app.transcript.options.now = lambda: app.view.reply.retry.until - 2  # type: ignore[union-attr]  # it waits
        app._router._tick()
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert "retrying in 2 s" in text
        assert "waiting to retry · 2 of 5 · in 2 s" in text


def test_only_whole_replies_are_marked_as_useless() -> None:
    from tui_agent.view.fold import fold_record
    from tui_agent.view.items import ReplyItem, SessionView

    view = SessionView()
    for record in load("reply_rejected"):
        fold_record(view, record)
    kinds = [item.rejected for item in view.items if isinstance(item, ReplyItem)]
    assert kinds == ["unreadable", "thinking_only", ""]
