from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.waiting import wait_for as soon
from tui_agent.mentions.search import MentionMatches, Mentions
from tui_agent.safety.roots import Roots
from tui_agent.tui import mention_completion
from tui_agent.tui.app import TuiAgentApp

NAMES = ("src/app.py", "src/apple pie.md", "src/parts/", "src/parts/wheel.py", "README.md", "src/", "docs/app.md")


class FakeMentions:
    """Files that are found when a test says so."""

    def __init__(self, names: tuple[str, ...] = NAMES) -> None:
        self.names = names
        self.asked: list[str] = []
        self.used: list[str] = []
        self.late = False
        """Answers wait for `answer`."""
        self._tell: Callable[[MentionMatches], object] = lambda found: None

    def find(self, query: str, tell: Callable[[MentionMatches], object]) -> None:
        self.asked.append(query)
        self._tell = tell
        if not self.late:
            self.answer()

    def answer(self, query: str | None = None, *, whole: bool = True) -> None:
        query = self.asked[-1] if query is None else query
        names = tuple(one for one in self.names if query.lower() in one.lower())
        self._tell(MentionMatches(query=query, names=names, complete=whole, listing=not whole))

    def cancel(self) -> None:
        pass

    def use(self, name: str) -> None:
        self.used.append(name)


def listed(app: TuiAgentApp) -> list[str]:
    picker = app.composer.completion.picker
    return list(picker.names) if picker.display else []


@asynccontextmanager
async def writing(late: bool = False) -> AsyncIterator[tuple[Pilot[int], TuiAgentApp, FakeSession, FakeMentions]]:
    app, session = app_for("answered")
    session.mentions = finder = FakeMentions()  # type: ignore[attr-defined]  # only some sessions have files
    finder.late = late
    async with run_app(app, (80, 24)) as pilot:
        yield pilot, app, session, finder


async def test_a_name_is_chosen_taken_and_sent() -> None:
    async with writing() as (pilot, app, session, finder):
        await pilot.press(*"see @app")
        assert listed(app) == ["src/app.py", "src/apple pie.md", "docs/app.md"]
        await wait_until_idle(pilot)
        assert "1 of" not in screen_text(app) and "enter inserts it" in screen_text(app)
        await pilot.press("down", "enter")
        assert app.prompt.text == 'see @"src/apple pie.md" '
        assert listed(app) == [] and finder.used == ["src/apple pie.md"]
        await pilot.press(*"and @wheel", "tab", ":", *"L3-L9 too", "enter")
        await wait_for(pilot, lambda: bool(session.sent))
        assert session.sent == [('see @"src/apple pie.md" and @src/parts/wheel.py:L3-L9 too', False)]
        await pilot.press(*"@app", "down", "down", ":", *"L1 x")
        assert app.prompt.text == "@docs/app.md:L1 x"
        await pilot.press("ctrl+underscore", "ctrl+underscore")
        assert "docs/app.md:L1" not in app.prompt.text


async def test_a_folder_is_gone_into_and_what_is_in_it_follows() -> None:
    async with writing() as (pilot, app, _session, finder):
        await pilot.press(*"@par", "tab")
        assert app.prompt.text == "@src/parts/"
        assert finder.asked[-1] == "src/parts/"
        assert listed(app) == ["src/parts/", "src/parts/wheel.py"]
        await pilot.press("enter")
        assert app.prompt.text == "@src/parts/ "
        assert listed(app) == []
        await pilot.press("backspace", "down", "enter")
        assert app.prompt.text == "@src/parts/wheel.py "


async def test_keys_that_come_before_the_answer_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mention_completion, "MAX_WAIT", 60)
    async with writing(late=True) as (pilot, app, session, finder):
        for key in ("@", "a", "p", "enter", "o", "k"):
            app.prompt._forward_event(events.Key(key, "\r" if key == "enter" else key))
        await soon(lambda: finder.asked[-1:] == ["ap"])
        finder.answer("a")  # too late: it is not what stands there
        finder.answer("ap", whole=False)
        await soon(lambda: listed(app) != [])
        assert app.prompt.text == "@ap" and session.sent == []
        finder.answer("ap")
        await wait_for(pilot, lambda: app.prompt.text == "@src/app.py ok")
        assert session.sent == []


async def test_a_key_gives_up_waiting_but_never_sends_half_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mention_completion, "MAX_WAIT", 0.01)
    async with writing(late=True) as (pilot, app, session, finder):
        await pilot.press(*"@ap", "enter")
        await wait_for(pilot, lambda: "still finding files" in screen_text(app))
        assert app.prompt.text == "@ap" and session.sent == []
        finder.answer(whole=False)  # the listing goes on, but this is about what stands there
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.prompt.text == "@src/app.py ")
        await pilot.press(*"@zz", "escape", "enter")
        await wait_for(pilot, lambda: session.sent == [("@src/app.py @zz", False)])


async def test_the_list_opens_for_typed_mentions_only_and_esc_keeps_it_closed() -> None:
    async with writing() as (pilot, app, session, finder):
        await pilot.press(*"@app", "escape")
        assert app.prompt.text == "@app" and listed(app) == []
        await pilot.press("l")
        assert listed(app) == []
        await pilot.press(" ", "@", "r")
        assert listed(app) != []
        await pilot.press("ctrl+c")
        assert listed(app) == []
        for text in ("me@app", "!ls @app", "`@app", "@app:L3", "@app.xyz"):
            await pilot.press(*text)
            assert listed(app) == [], text
            await pilot.press("ctrl+c")
        finder.asked.clear()
        app.prompt.insert_paste("look at @app")
        await wait_until_idle(pilot)
        assert finder.asked == []
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.sent == [("look at @app", False)])
        await pilot.press("up", "up", "down")
        assert finder.asked == []


async def test_a_list_of_real_files_has_nothing_of_them_but_names(tmp_path: Path) -> None:
    for name in ("plain.py", "[red]x[b].py", "bell\x07.py", "日本.py", "long" * 40 + ".py"):
        (tmp_path / name).write_text("")
    app, session = app_for("answered")
    session.mentions = Mentions(Roots((tmp_path,)))  # type: ignore[attr-defined]  # see above
    async with run_app(app, (60, 20)) as pilot:
        await pilot.press("@")
        await wait_for(pilot, lambda: len(listed(app)) == 4)
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert "[red]x[b].py" in text and "…long" in text and "bell" not in text
        await pilot.press(*"red", "enter")
        assert app.prompt.text == "@[red]x[b].py "
        await pilot.resize_terminal(9, 5)
        await pilot.press("@")
        await wait_until_idle(pilot)
    await session.mentions.close()  # type: ignore[attr-defined]  # see above


@pytest.mark.parametrize(
    ("size", "theme"),
    [((80, 24), "dark"), ((120, 40), "dark"), ((80, 24), "light")],
    ids=["80x24", "120x40", "80x24-light"],
)
def test_pictures(size: tuple[int, int], theme: str, snap_compare: Any) -> None:
    app, session = app_for("tests_ok", theme=theme)
    names = (
        "src/exporter/formats.py",
        "src/exporter/export.py",
        "src/exporter/",
        "tests/test_export.py",
        "docs/guide/exporting tables to other programs.md",
        "src/exporter/very/deep/down/where/paths/get/longer/than/any/terminal/is/wide/export_settings.toml",
        *(f"samples/export_{number}.csv" for number in range(20)),
    )
    session.mentions = FakeMentions(names)  # type: ignore[attr-defined]  # see above

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press(*"compare this with @exp", "down", "down")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)


async def test_names_that_are_found_when_the_screen_has_ended_are_nothing() -> None:
    async with writing(late=True) as (pilot, _app, _session, finder):
        await pilot.press(*"see @app")
    finder.answer()
