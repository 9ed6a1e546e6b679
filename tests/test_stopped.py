"""A stop has one word on every surface: stopped."""

from __future__ import annotations

import pytest

from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import RunAction, ToolResult

BY_USER = "Interrupted by the user."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (BY_USER, "stopped by the user."),
        ("Interrupted: the program was stopped by SIGTERM.", "stopped: the program was stopped by SIGTERM."),
        ("", "stopped."),
    ],
)
def test_how_a_run_ended(text: str, shown: str) -> None:
    assert e.RunEnded(outcome="interrupted", text=text).ending() == shown
    assert e.RunEnded(outcome="failed", text="Failed: no disk.").ending() == "failed: no disk."
    assert e.RunEnded(outcome="limit", text="25 calls.").ending() == "limit: 25 calls."


async def test_a_stopped_call() -> None:
    scene = build.Scene().opened().ask("look")
    call = scene.call("run_terminal_command", command="make")
    scene.reply().end("", call).start(call, "make", reads_only=False)
    scene.request(RunAction(command="make", cwd="/home/ada"), "ask").answer("withdrawn", by="interrupt")
    scene.finish(call, ToolResult(success=False, error=BY_USER, code="interrupted"))
    scene.done("interrupted", BY_USER)
    app, _session = app_for(scene.records)
    async with run_app(app, (80, 24)) as pilot:
        await wait_until_rendered(pilot)
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert text.lower().count("stopped") == 2, text
        assert "nterrupt" not in text and "withdrawn" not in text
