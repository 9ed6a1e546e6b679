from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.stats.journals import Journal, approval_answer, plan, reply, step_verified, three_runs, tool
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.tui.app import TuiAgentApp
from widgets.dashboard import Dashboard, spark


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path))
    return tmp_path


async def opened(pilot: Pilot[int], app: TuiAgentApp) -> Dashboard:
    await pilot.press(*"/stats", "enter")
    await wait_for(pilot, lambda: isinstance(app.screen, Dashboard) and app.screen.tally is not None)
    await wait_until_idle(pilot)
    assert isinstance(app.screen, Dashboard)
    return app.screen


async def test_the_numbers_of_all_sessions_are_shown_and_read_again(home: Path) -> None:
    app, session = app_for("answered")
    async with run_app(app, (120, 50)) as pilot:
        await opened(pilot, app)
        assert "No session has run a task yet" in screen_text(app)
        three_runs().write(home, "2026-01-05T09:00:00.000Z")
        broken = Journal().begin().end().write(home, "2026-01-06T09:00:00.000Z")
        broken.write_bytes(b"no journal\n" + broken.read_bytes())
        await pilot.press("r")
        await wait_for(pilot, lambda: "4 runs" in screen_text(app))
        await wait_until_idle(pilot)
        text = screen_text(app)
        for part in ("first attempt      50%", "p95             9.0 s", "passed            75%", "large", "rules bbbb"):
            assert part in text
        assert "1 record is damaged and not counted" in text
        await pilot.resize_terminal(40, 12)
        await wait_until_idle(pilot)
        await pilot.press("end", "pageup", "home")
        await wait_until_idle(pilot)
        assert "Statistics" in screen_text(app)
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(app.screen, Dashboard))
        assert session.sent == []


def test_a_curve_is_as_high_as_its_values() -> None:
    assert spark([0, 4, 8]) == "▁▅█"
    assert spark([None, 0.0, 0.5, 1.0], 1.0) == " ▁▅█"
    assert spark([0, 0]) == "▁▁"
    assert spark([]) == ""


MODELS = ("qwen2.5-coder:7b", "qwen2.5-coder:7b", "llama3.1:8b", "gpt-oss:20b")
CODES = (None, None, "not_found", None, "timeout", None, None)


def some_weeks(home: Path) -> None:
    """Thirty sessions, the same at every start."""
    for number in range(30):
        journal = Journal()
        journal.day = f"2026-01-{1 + number * 11 % 28:02d}"
        for turn in range(1 + number % 3):
            key = number * 3 + turn
            journal.begin(MODELS[key % 4]).put(reply("planning", 900 + key * 7, 200), reply("dispatcher", 240, 30))
            journal.put(*(plan(3, cached=True) if key % 9 == 0 else plan(2 + key % 4, 700 + key * key * 3)))
            for step in range(2 + key % 5):
                journal.put(reply(prompt=2_000 + step * 300, completion=90), tool(CODES[(key + step) % 7]))
            journal.put(step_verified(key % 8 != 0), step_verified(True, "command"))
            if key % 8 == 0:
                journal.put(e.StepRecoveryStarted(by="recovery", error_class="not_found"))
            if key % 13 == 0:
                journal.put(approval_answer("reject"), e.ReplyRejected(kind="unreadable"))
            outcome = "limit" if key % 17 == 5 else "done"
            prompts = {"rules": "5117da4b" if number < 12 else "8fe01c22", "tools": "0102bc84"}
            journal.end(outcome, iterations=2 + key % 5, tool_calls=2 + key % 5, ms=9_000 + key * 300, prompts=prompts)
        journal.write(home, f"2026-01-05T09:00:{number:02d}.000Z")


PICTURES = [
    ((60, 16), "dark"),
    ((80, 24), "light"),
    ((120, 40), "dark"),
    ((240, 60), "high-contrast"),
    ((100, 30), "ansi"),
    ((100, 30), "no-colour"),
]


@pytest.mark.parametrize(("size", "theme"), PICTURES, ids=[f"{w}x{h}-{theme}" for (w, h), theme in PICTURES])
def test_pictures(snap_compare, home: Path, size: tuple[int, int], theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    some_weeks(home)
    if theme == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app = app_for("answered", theme="dark" if theme == "no-colour" else theme)[0]

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        if theme != "no-colour":
            app.theme = f"tui-agent-{theme}"
        await opened(pilot, app)

    assert snap_compare(app, terminal_size=size, run_before=show)
