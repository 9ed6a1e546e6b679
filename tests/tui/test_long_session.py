"""Ten thousand messages on one screen. Some hundred by default; `TUI_AGENT_MESSAGES=10000` for all of them."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.transcript import talk
from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for
from tui_agent import events as e
from tui_agent.events import Record

MESSAGES = int(os.environ.get("TUI_AGENT_MESSAGES", "400"))
AT_ONCE = 250
"""Records between two looks at the screen."""
GROWS = 40 * 1024 + MESSAGES * 4
"""KiB: what a screen may take that was not there after a tenth of it, and the text of the messages with their events."""


def memory() -> int:
    """KiB in use."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.timeout(300 + MESSAGES)
async def test_f19_ten_thousand_messages_leave_keys_and_memory_as_they_were() -> None:
    past = talk(MESSAGES)
    app, session = app_for(past[:2])
    early = 0
    async with run_app(app) as pilot:
        for start in range(2, len(past), AT_ONCE):
            said = push(session, past[start : start + AT_ONCE])
            await wait_for(pilot, lambda: app.view.seq >= session.records[-1].seq and not app._router.dirty)
            await pilot.press("x", "backspace")
            assert app.prompt.text == ""
            assert said in screen_text(app)
            if not early and start > len(past) // 10:
                early = memory()
        assert early and memory() - early < GROWS
        await pilot.press("ctrl+home")
        await wait_for(pilot, lambda: "What about number 0?" in screen_text(app))


def push(session: FakeSession, records: Sequence[Record]) -> str:
    """Let them happen; the end of the last whole answer among them."""
    said = ""
    for record in records:
        session.push(record.event, run=record.run, node=record.node)
        if isinstance(record.event, e.ReplyEnded):
            said = record.event.text
    return said[-30:]
