from __future__ import annotations

import pytest
from textual import events

from tests.scenes import build
from tests.tui.kit import app_for, running, settled, still
from tui_agent import events as e
from tui_agent.settings import Loaded, Settings
from tui_agent.tui.notifying import payload


async def test_it_calls_only_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    app, session = app_for("answered")
    session.begins = len(session.records)
    asked = next(one.event for one in build.trust().records if one.event.type == "approval.asked")
    async with running(app) as pilot:
        assert app._driver is not None
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)

        async def told(*news: e.Event) -> list[str]:
            written.clear()
            for one in news:
                session.push(one)
            await settled(pilot)
            return [one for one in written if not one.startswith("\x1b]22;")]  # the shape of the mouse

        async def focus(event: events.Event) -> None:
            app.post_message(event)
            await still(pilot)

        assert await told(e.RunEnded(outcome="done")) == []
        await focus(events.AppBlur())
        assert await told(e.RunEnded(outcome="done")) == ["\a"]
        assert await told(e.UserSaid(id="m1", text="hi"), e.RunEnded(outcome="interrupted")) == []
        app.preferences.take(
            Loaded(settings=Settings(notifications="desktop", notify_of=("questions", "failures")))
        )
        assert await told(e.RunEnded(outcome="done")) == []
        assert await told(e.RunEnded(outcome="failed")) == ["\a", "\x1b]9;tui-agent · exporter failed\a"]
        assert await told(asked) == ["\a", "\x1b]9;tui-agent · exporter waits for you\a"]
        app.preferences.take(Loaded(settings=Settings(notifications="off")))
        assert await told(e.RunEnded(outcome="failed")) == []
        app.preferences.take(Loaded(settings=Settings()))
        await focus(events.AppFocus())
        assert await told(e.RunEnded(outcome="failed")) == []


def test_what_the_desktop_shows_is_only_text() -> None:
    said = payload("/w/a\x1b]52;c;x\x07\x9c\u202eb" + "n" * 300, "failed")
    assert said.isprintable() and ";" not in said and len(said) < 140 and said.endswith("failed")
