from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from textual import events

from tests.doubles.job import environment
from tests.doubles.terminal import Terminal
from tests.scenes import build
from tests.tui.kit import app_for, run_app, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.settings import LoadedSettings, Settings
from tui_agent.tui.driver import POP_TITLE, PUSH_TITLE
from tui_agent.tui.notifications import notification_text


async def test_it_calls_only_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    app, session = app_for("answered")
    session.replay_end = len(session.records)
    asked = next(one.event for one in build.trust().records if one.event.type == "approval.asked")
    async with run_app(app) as pilot:
        assert app._driver is not None
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)

        async def told(*news: e.Event) -> list[str]:
            written.clear()
            for one in news:
                session.push(one)
            await wait_until_rendered(pilot)
            return [one for one in written if not one.startswith("\x1b]22;")]  # the shape of the mouse

        async def focus(event: events.Event) -> None:
            app.post_message(event)
            await wait_until_idle(pilot)

        assert await told(e.RunEnded(outcome="done")) == []
        await focus(events.AppBlur())
        assert await told(e.RunEnded(outcome="done")) == ["\a"]
        assert await told(e.UserMessageAdded(id="m1", text="hi"), e.RunEnded(outcome="interrupted")) == []
        app.preferences.apply(
            LoadedSettings(settings=Settings(notifications="desktop", notify_of=("questions", "failures")))
        )
        assert await told(e.RunEnded(outcome="done")) == []
        assert await told(e.RunEnded(outcome="failed")) == ["\a", "\x1b]9;tui-agent · exporter failed\a"]
        assert await told(asked) == ["\a", "\x1b]9;tui-agent · exporter is waiting for you\a"]
        app.preferences.apply(LoadedSettings(settings=Settings(notifications="off")))
        assert await told(e.RunEnded(outcome="failed")) == []
        app.preferences.apply(LoadedSettings(settings=Settings()))
        await focus(events.AppFocus())
        assert await told(e.RunEnded(outcome="failed")) == []


async def test_a_terminal_that_tells_no_focus_calls_after_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    app, session = app_for("answered")
    session.replay_end = len(session.records)
    async with run_app(app) as pilot:
        assert app._driver is not None
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)

        async def took(seconds: float) -> list[str]:
            written.clear()
            session.push(e.UserMessageAdded(id=f"m{seconds}", text="hi"))
            session.push(e.RunEnded(outcome="done"), seconds=seconds)
            await wait_until_rendered(pilot)
            return [one for one in written if not one.startswith("\x1b]22;")]

        assert await took(9.9) == []
        assert await took(10.0) == ["\a"]
        said = "tui-agent · exporter is done"
        for how, shown in {
            "desktop-777": f"\x1b]777;notify;tui-agent;{said}\x1b\\",
            "desktop-99": f"\x1b]99;;{said}\x1b\\",
        }.items():
            app.preferences.apply(LoadedSettings(settings=Settings.model_validate({"notifications": how})))
            assert await took(11.0) == ["\a", shown]
        session.push(e.UserMessageAdded(id="m", text="hi"))
        app.post_message(events.AppBlur())
        app.post_message(events.AppFocus())
        await wait_until_idle(pilot)
        assert await took(60.0) == [], "it has said that it is in front"


async def test_the_window_that_calls_is_marked_until_one_is_back(tmp_path: Path) -> None:
    env = environment(tmp_path, TUI_AGENT_MODE="agent")
    program = Terminal("-m", "tui_agent", "--demo", env=env, whole_env=True, cwd=tmp_path, size=(100, 32))
    back = POP_TITLE.encode()

    def marks() -> list[bytes]:
        return re.findall(rb"\x1b\]2;([^\x07]*)\x07", program.bytes)

    try:
        await program.wait_for_text("Find the bug")
        program.type("\r\x1b[O")  # what follows Enter: the terminal says that it is not in front any more
        await program.wait_for_text("Plan · 3 steps")
        await program.wait_for_text(lambda: b"\x07" in program.bytes and bool(marks()))
        (mark,) = marks()
        assert re.fullmatch("● tui-agent · .* is waiting for you", mark.decode())
        assert program.bytes.count(PUSH_TITLE.encode()) == 1 and back not in program.bytes
        program.type("\x1b[I")
        await program.wait_for_text(lambda: back in program.bytes)
        assert marks() == [mark, b"tui-agent"]
        program.kill(signal.SIGTERM)
        await program.end()
        assert program.bytes.count(back) == 1
    finally:
        program.close()


def test_what_the_desktop_shows_is_only_text() -> None:
    said = notification_text("/w/a\x1b]52;c;x\x07\x9c\u202eb" + "n" * 300, "failed")
    assert said.isprintable() and ";" not in said and len(said) < 140 and said.endswith("failed")
