from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent.common.domain import ToolResult
from tui_agent.tui.app import TuiAgentApp
from widgets.search_bar import SearchBar


def talk(turns: int = 30) -> build.Scene:
    scene = build.Scene().opened()
    for turn in range(turns):
        scene.ask(f"question {turn}").reply()
        text = f"answer {turn}, with a needle" if turn % 10 == 3 else f"answer {turn}"
        scene.write(text, size=99).end(text).done(tool_calls=0)
    return scene


async def searched(pilot: Pilot[int], app: TuiAgentApp, text: str) -> None:
    await pilot.press("ctrl+f")
    await wait_for(pilot, lambda: app.query_one(SearchBar).display)
    await pilot.press(*text)
    await wait_for(pilot, lambda: app.transcript.finder is not None and app.transcript.finder.query == text)
    await wait_for(pilot, lambda: app.transcript.finder is not None and app.transcript.finder.done)
    await wait_until_idle(pilot)


async def test_matches_are_walked_through_over_the_whole_history() -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (80, 24)) as pilot:
        await searched(pilot, app, "needle")
        seen = []
        for key in ("enter", "up", "enter", "down"):
            number = screen_text(app).split(" of 3")[0].split()[-1]
            seen.append(number)
            await pilot.press(key)
            await wait_until_idle(pilot)
        assert seen == ["3", "2", "1", "3"]
        assert "1 of 3" in screen_text(app)
        assert "answer 3, with a needle" in screen_text(app)


async def test_escape_closes_and_the_place_stays() -> None:
    app, session = app_for(talk().records)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press(*"draft")
        await searched(pilot, app, "needle")
        await pilot.press("up", "up", "escape")
        await wait_until_idle(pilot)
        assert "answer 3, with a needle" in screen_text(app)
        assert not app.query_one(SearchBar).display
        assert app.transcript.finder is None
        assert app.prompt.has_focus
        assert app.prompt.text == "draft"
        assert session.interrupts == 0


async def test_capital_letters_are_only_minded_when_one_is_typed() -> None:
    app, _session = app_for(talk(5).records)
    async with run_app(app, (80, 40)) as pilot:
        await searched(pilot, app, "ANSWER")
        assert "no match" in screen_text(app)


async def test_a_match_in_collapsed_output_expands_it() -> None:
    scene = build.Scene().opened().ask("look")
    call = scene.call("read_file", path="a.py")
    scene.reply().end("", call).start(call, "a.py", reads_only=True)
    scene.finish(call, ToolResult(success=True), text="first\nhidden words\nlast").done()
    app, _session = app_for(scene.records)
    async with run_app(app) as pilot:
        await searched(pilot, app, "hidden")
        assert "hidden words" in screen_text(app)
        assert "1 of 1" in screen_text(app)


@pytest.mark.parametrize("text", ["thought for", "run by the program", "recovery plan", "step", "1 of ", "**"])
async def test_what_is_counted_is_what_is_marked(text: str) -> None:
    """The words of the program are found like those of the model, and the markup of a reply is not."""
    app, _session = app_for("steps_recovered")
    async with run_app(app, (120, 80)) as pilot:
        drawn = "\n".join(line.partition("▏")[0] for line in screen_text(app).split("\n")).lower().count(text)
        await searched(pilot, app, text)
        finder = app.transcript.finder
        assert finder is not None
        assert finder.total == drawn
        bar = next(line for line in screen_text(app).split("\n") if "⌕" in line)
        assert (f"of {drawn} " if drawn else "no match") in bar


async def test_words_of_the_program_are_found_where_nothing_was_painted_yet() -> None:
    scene = build.Scene().opened().ask("look")
    call = scene.call("read_file", path="a.py")
    scene.reply().think("hm").end("", call).start(call, "a.py", reads_only=True)
    scene.finish(call, ToolResult(success=True), text="text").done()
    for turn in range(150):
        scene.ask(f"question {turn}").reply().write("answer", size=99).end("answer").done(tool_calls=0)
    app, _session = app_for(scene.records)
    async with run_app(app, (80, 24)) as pilot:
        await searched(pilot, app, "thought for")
        assert "1 of 1" in screen_text(app) and "Thought for" in screen_text(app)


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize(("name", "text"), [("found", "needle"), ("nothing", "nowhere")])
def test_bar(name: str, text: str, theme: str, snap_compare) -> None:
    app, _session = app_for(talk().records, theme=theme)

    async def search(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press(*["pageup"] * 12)  # the scroll bar shows guesses of what was never looked at
        await pilot.press("ctrl+end")
        await searched(pilot, app, text)
        await pilot.press("up")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=search)
