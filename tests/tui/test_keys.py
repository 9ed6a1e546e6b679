from __future__ import annotations

import asyncio
from itertools import count

import pytest
from textual import events

from tests.scenes import build
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.tui.app import TuiAgentApp


async def test_enter_sends_and_clears() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press(*"hi there", "enter")
        await wait_for(pilot, lambda: session.sent == [("hi there", False)])
        await wait_until_rendered(pilot)
        assert app.prompt.text == ""
        assert "hi there" in screen_text(app)


async def test_blank_messages_are_not_sent() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("enter", "space", "enter")
        assert session.sent == []


async def test_newlines_by_every_key_that_stands_for_one() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d", "backslash", "enter", "e", "enter")
        await wait_for(pilot, lambda: session.sent == [("a\nb\nc\nd\ne", False)])


async def test_a_paste_does_not_send() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        app.post_message(events.Paste("one\ntwo\n"))
        await wait_for(pilot, lambda: app.prompt.text == "one\ntwo\n")
        assert session.sent == []


async def test_the_composer_works_while_the_agent_does_and_guides_the_run() -> None:
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        await pilot.press(*"wait", "enter")
        await pilot.press(*"no json", "ctrl+t")
        await wait_for(pilot, lambda: session.sent == [("wait", False), ("no json", True)])


async def test_an_exclamation_mark_runs_a_command() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("!", *"git status", "enter")
        await wait_for(pilot, lambda: session.commands == ["git status"])


async def test_escape_stops_the_run_only_while_there_is_one() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("escape")
        assert session.interrupts == 0
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        await pilot.press("escape")
        await wait_for(pilot, lambda: session.interrupts == 1)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_command_of_the_users_own_is_stopped_too(key: str) -> None:
    app, session = app_for("answered")
    ended = asyncio.Event()

    async def run_shell(command: str) -> None:
        session.commands.append(command)
        await ended.wait()

    session.run_shell = run_shell  # type: ignore[method-assign]  # one that takes long
    async with run_app(app) as pilot:
        await pilot.press("!", *"make", "enter")
        await wait_for(pilot, lambda: session.commands == ["make"])
        await pilot.press(key)
        await wait_for(pilot, lambda: session.interrupts == 1)
        ended.set()
        await wait_for(pilot, lambda: app._running_shells == 0)
        await pilot.press(key)
        await wait_until_idle(pilot)
        assert session.interrupts == 1


async def test_the_ladder_of_ctrl_c_has_one_effect_a_press() -> None:
    clock = FakeClock()
    app, session = app_for("streaming", clock=clock)
    async with run_app(app) as pilot:
        await pilot.press(*"draft", "ctrl+c")
        await wait_for(pilot, lambda: session.interrupts == 1)
        assert app.prompt.text == "draft"
        session.push(e.RunEnded(outcome="interrupted"))
        clock.now += 1
        await wait_until_rendered(pilot)
        await pilot.press("ctrl+c")
        assert app.prompt.text == ""
        assert app.is_running
        await pilot.press("up")
        assert app.prompt.text == "draft"
        await pilot.press("ctrl+c", "ctrl+c")
        await wait_until_idle(pilot)
        assert "again quits" in screen_text(app)
        clock.now += 2.5
        await pilot.press("ctrl+c")
        await wait_until_idle(pilot)
        assert app.is_running
        clock.now += 1
        await pilot.press("ctrl+c")
        await wait_for(pilot, lambda: app.return_value == 0)


async def test_ctrl_c_copies_a_selection_first() -> None:
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        await pilot.press(*"abc", "shift+left", "shift+left", "ctrl+c")
        assert app.clipboard == "bc"
        assert session.interrupts == 0


async def test_ctrl_d_leaves_from_an_empty_composer_only() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("x", "left", "ctrl+d")
        assert app.prompt.text == ""
        assert app.is_running
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: app.return_value == 0)


async def test_history_comes_back_and_so_does_the_unsent_draft() -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press(*"first", "enter", *"second", "enter", *"draft", "up")
        assert app.prompt.text == "second"
        await pilot.press("up", "up")
        assert app.prompt.text == "first"
        await pilot.press("down", "down")
        assert app.prompt.text == "draft"


async def test_undo_of_a_big_paste_does_not_end_the_app() -> None:
    app, _session = app_for("empty")
    async with run_app(app, (40, 12)) as pilot:
        app.post_message(events.Paste("line\n" * 400))
        await wait_for(pilot, lambda: len(app.prompt.draft.full_text) == 2000)
        await pilot.press("alt+e")
        await wait_for(pilot, lambda: len(app.prompt.text) == 2000)
        await pilot.press("ctrl+underscore", "ctrl+underscore")
        await wait_until_idle(pilot)
        assert app.is_running


def long_talk(turns: int) -> build.Scene:
    scene = build.Scene().opened()
    for turn in range(turns):
        scene.ask(f"question {turn}").reply().write(f"answer {turn}\n\n- one\n- two", size=99)
        scene.end(f"answer {turn}\n\n- one\n- two").done(tool_calls=0)
    return scene


def first_line(app: TuiAgentApp) -> str:
    return screen_text(app).split("\n")[2].strip()


async def test_the_view_follows_the_end_until_the_user_scrolls_up() -> None:
    scene = long_talk(30)
    app, session = app_for(scene.records)
    async with run_app(app, (80, 24)) as pilot:
        assert "answer 29" in screen_text(app)
        await pilot.press("pageup", "pageup")
        await wait_until_idle(pilot)
        top = first_line(app)
        for number in range(20):
            session.push(e.UserMessageAdded(id=f"n{number}", text=f"more {number}"))
        await wait_until_rendered(pilot)
        assert first_line(app) == top
        assert "20 new" in screen_text(app)
        await pilot.resize_terminal(80, 30)
        await wait_until_idle(pilot)
        assert first_line(app) == top
        await pilot.press("ctrl+end")
        await wait_until_idle(pilot)
        assert "more 19" in screen_text(app)
        assert "new" not in screen_text(app).split("\n")[-5]
        session.push(e.UserMessageAdded(id="last", text="the very last"))
        await wait_until_rendered(pilot)
        assert "the very last" in screen_text(app)


async def test_scrolling_down_to_the_end_follows_again() -> None:
    app, session = app_for(long_talk(30).records)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("pageup", "pagedown", "pagedown")
        await wait_until_idle(pilot)
        session.push(e.UserMessageAdded(id="last", text="the very last"))
        await wait_until_rendered(pilot)
        assert "the very last" in screen_text(app)


async def test_scrolling_up_through_unpainted_messages_shows_every_line_once() -> None:
    app, _session = app_for(long_talk(200).records)
    seen: list[str] = []
    async with run_app(app, (80, 24)) as pilot:
        while app.transcript.scroll_offset.y > 0:
            rows = [row.strip() for row in screen_text(app).split("\n")[2:18]]
            seen.extend(row for row in rows if row.startswith("answer"))
            await pilot.press("pageup")
            await wait_until_idle(pilot)
        seen.extend(row.strip() for row in screen_text(app).split("\n") if row.startswith("  answer"))
    numbers = {int(row.split()[1]) for row in seen}
    assert numbers == set(range(200))


async def test_a_click_expands_a_thought() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        assert "Short answer." not in screen_text(app)
        row = next(n for n, text in enumerate(screen_text(app).split("\n")) if "Thought for" in text)
        await pilot.click("#transcript", offset=(6, row - 1))
        await wait_until_idle(pilot)
        assert "Short answer." in screen_text(app)


async def test_a_machine_that_holds_the_process_up_costs_no_paint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at Textual's clock finds it a second later: no timer of its own is in time."""
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        monkeypatch.setattr("textual._time.get_time", map(float, count()).__next__)
        for number in range(20):
            session.push(e.UserMessageAdded(id=f"m{number}", text=f"more {number}"))
            await wait_until_rendered(pilot)


async def test_idle_means_no_timer_runs() -> None:
    app, _session = app_for("answered")
    async with run_app(app):
        assert app._router._second_timer is not None
        assert not app._router._second_timer._active.is_set()
        assert app._router._next_paint is None


async def test_trouble_with_saving_is_said_until_it_is_over() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        session.on_saving("No space is left on the disk; nothing is done until there is.")
        await wait_for(pilot, lambda: "No space is left" in screen_text(app))
        session.on_saving(None)
        await wait_for(pilot, lambda: "No space is left" not in screen_text(app))


async def test_quitting_names_the_job_that_it_stops_and_no_hint_is_cut() -> None:
    app, session = app_for("answered")
    session.jobs = ("npm run dev -- --host 127.0.0.1 --port 5173 --open", "make watch")
    async with run_app(app, (90, 30)) as pilot:
        await pilot.press("ctrl+c")
        await wait_until_idle(pilot)
        text = " ".join(screen_text(app).split())
        assert "again quits and stops npm run dev" in text and "and 1 more" in text
        app.hints.show(
            "this session is not saved: /export FILE saves it elsewhere · " + "more words " * 5 + "at the end"
        )
        await wait_until_rendered(pilot)
        assert "at the end" in screen_text(app)
        await pilot.press("ctrl+d")
        await wait_until_idle(pilot)
        assert app.is_running


@pytest.mark.parametrize("between", ["x", "fix it", "paste"])
async def test_a_key_that_confirms_the_one_before_does_so_only_right_after_it(between: str) -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("escape")
        await wait_for(pilot, lambda: "esc again" in screen_text(app))
        if between == "paste":
            app.post_message(events.Paste("text"))
            await wait_for(pilot, lambda: app.prompt.text == "text")
        else:
            await pilot.press(*between)
        await wait_until_idle(pilot)
        assert "esc again" not in screen_text(app)
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert "esc again" in screen_text(app)  # it counts as the first one
        await pilot.press("escape")
        await wait_for(pilot, lambda: "no earlier message" in screen_text(app))
