"""Keys that shells and other agents have taught, with the bytes that terminals send."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from tests.doubles.terminal import Terminal
from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_undoing import FakeCheckpoints, prepared
from tui_agent import events as e
from tui_agent.checkpoints.ledger import Checkpoint, Ledger
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.composer_files import append_history
from tui_agent.tui.paste import PasteGuard
from widgets.checkpoints import RewindPanel
from widgets.composer_history import DraftText
from widgets.history_search import HistorySearch
from widgets.inputs import KillRing


@asynccontextmanager
async def typing(scene: str = "told") -> AsyncIterator[Terminal]:
    """The real screen in a pty; what it sends is shown as Python would write it."""
    with tempfile.TemporaryDirectory(prefix="keys-") as home:
        env = {"TUI_AGENT_HOME": home, "HOME": home, "TMPDIR": home}
        terminal = Terminal("-m", "tests.tui.pty_app", "empty", scene, size=(100, 30), env=env)
        try:
            await terminal.wait_for_text("Ask for a change")
            yield terminal
        finally:
            terminal.close()


# --- editing text ---

LINE = "one two-three  four"


@pytest.mark.parametrize(
    ("keys", "text", "column"),
    [
        (["ctrl+w"], "one two-three  ", 15),
        (["ctrl+w", "ctrl+w"], "one ", 4),
        (["alt+backspace", "alt+backspace"], "one two-", 8),
        (["alt+b"], LINE, 15),
        (["alt+b", "alt+b", "alt+d"], "one two-  four", 8),
        (["ctrl+a", "alt+f", "alt+f"], LINE, 7),
        (["ctrl+a", "alt+d"], " two-three  four", 0),
        (["alt+b", "ctrl+u"], "four", 0),
        (["ctrl+a", "alt+f", "ctrl+k"], "one", 3),
        (["ctrl+a", "ctrl+d"], LINE[1:], 0),
        (["ctrl+b", "ctrl+b"], LINE, 17),
        (["ctrl+w", "ctrl+w", "ctrl+y"], LINE, 19),
        (["ctrl+a", "alt+d", "alt+d", "ctrl+e", "ctrl+y"], "-three  fourone two", 19),
        (["ctrl+w", "ctrl+b", "ctrl+k", "ctrl+a", "ctrl+y", "alt+y"], "fourone two-three ", 4),
        (["ctrl+w", "ctrl+underscore"], LINE, 19),
        (["ctrl+w", "ctrl+minus", "ctrl+shift+z"], "one two-three  ", 15),
        (["ctrl+a", "ctrl+w", "ctrl+u", "alt+b"], LINE, 0),
        (["ctrl+k", "alt+d", "alt+f"], LINE, 19),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_a_line_is_edited_as_in_a_shell(keys: list[str], text: str, column: int) -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        app.prompt.insert(LINE)
        await pilot.press(*keys)
        assert (app.prompt.text, app.prompt.cursor_location) == (text, (0, column))


async def test_deleting_goes_on_over_line_breaks_and_gives_all_of_it_back() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"ab", "ctrl+j", *"cd", "ctrl+u", "ctrl+u", "ctrl+u")
        assert app.prompt.text == ""
        await pilot.press("ctrl+y")
        assert app.prompt.text == "ab\ncd"
        await pilot.press("up", "ctrl+k")
        assert app.prompt.text == "abcd"


async def test_a_chip_is_deleted_as_a_whole_and_comes_back_as_one() -> None:
    app, session = app_for("empty")
    log = "\n".join(f"line {number}" for number in range(60))
    async with run_app(app) as pilot:
        await pilot.press(*"see ")
        app.prompt.insert_paste(log)
        await pilot.press("ctrl+w")
        assert "⟦" not in app.prompt.text
        await pilot.press("ctrl+y", "enter")
        await wait_for(pilot, lambda: session.sent == [(f"see {log}", False)])


@given(st.lists(st.tuples(st.text(max_size=3), st.booleans(), st.booleans()), max_size=50))
def test_deletions_in_a_row_are_one(kills: list[tuple[str, bool, bool]]) -> None:
    ring, expected = KillRing(), ""
    for text, before, continues in kills:
        ring.add(text, before=before, continues=continues)
        expected = (text + expected if before else expected + text) if continues else text
        assert ring.newest == expected


@pytest.mark.parametrize("character", "abdefmnsxyzBDOPX0159-_=.+/?[ é")
def test_no_character_is_typed_by_a_key_with_alt(character: str) -> None:
    parser = PasteGuard(clock=(clock := FakeClock()))
    keys = list(parser.feed(f"\x1b{character}"))
    if not keys:  # the beginning of a longer sequence, of which nothing follows
        clock.now += 1
        parser._timeout_time = 0.0
        keys += parser.tick()
    assert [key.key[:4] for key in keys] == ["alt+"]  # type: ignore[attr-defined]  # they are keys
    assert not any(key.is_printable for key in keys)  # type: ignore[attr-defined]


# --- the search of earlier messages ---


def searching(app: TuiAgentApp) -> bool:
    return isinstance(app.screen, HistorySearch)


async def search(pilot: Pilot[int], app: TuiAgentApp) -> HistorySearch:
    await pilot.press("ctrl+r")
    await wait_for(pilot, lambda: searching(app))
    await wait_until_idle(pilot)
    assert isinstance(app.screen, HistorySearch)
    return app.screen


async def test_messages_of_all_sessions_of_the_folder_are_found_and_the_draft_is_kept() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        workspace = app.composer._workspace
        assert append_history(workspace, [DraftText(text=text) for text in ("fix the parser", "run tests", "fix it")])
        await pilot.press(*"mine", "enter", *"draft")
        await wait_until_rendered(pilot)
        screen = await search(pilot, app)
        assert [row.text for row in screen.list_view.rows] == ["mine", "fix it", "run tests", "fix the parser"]
        await pilot.press(*"fix")
        await wait_until_idle(pilot)
        assert "▸ fix it" in screen_text(app) and "run tests" not in screen_text(app)
        await pilot.press("ctrl+r", "enter")
        await wait_for(pilot, lambda: app.prompt.text == "fix the parser")
        assert not searching(app) and app.prompt.has_focus
        await pilot.press("up")
        assert app.prompt.text == "draft"  # stashed, not lost


@pytest.mark.parametrize("key", ["escape", "ctrl+g", "ctrl+c"])
async def test_leaving_the_search_leaves_the_draft_alone(key: str) -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"first", "enter", *"my draft", "left")
        await search(pilot, app)
        await pilot.press(*"fir", key)
        await wait_for(pilot, lambda: not searching(app))
        assert (app.prompt.text, app.prompt.cursor_location) == ("my draft", (0, 7))
        assert app.is_running


async def test_a_search_without_a_match_takes_nothing() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await search(pilot, app)
        await pilot.press(*"zzz", "enter", "tab")
        await wait_until_idle(pilot)
        assert searching(app) and "no earlier messages" in screen_text(app)


async def test_what_is_typed_at_once_after_the_key_is_searched_for() -> None:
    async with typing() as terminal:
        terminal.type("the first one\r")
        await terminal.wait_for_text("sent 'the first one'")
        terminal.type("another\r")
        await terminal.wait_for_text("sent 'another'")
        terminal.type("\x12first\r!?")
        await terminal.wait_for_text("the first one!?")
        terminal.type("\r")
        await terminal.wait_for_text("sent 'the first one!?'")


# --- editing an earlier message ---


async def test_esc_esc_lists_the_messages_and_enter_edits_one() -> None:
    app, checkpoints, _session = prepared()
    async with run_app(app) as pilot:
        await pilot.press(*"draft", "escape")
        await wait_for(pilot, lambda: "esc again edits an earlier message" in screen_text(app))
        await pilot.press("escape")
        await wait_for(pilot, lambda: isinstance(app.screen, RewindPanel))
        await wait_until_idle(pilot)
        assert "tidy up" in screen_text(app) and "conversation and files go back" in screen_text(app)
        await pilot.press("enter")
        await wait_for(pilot, lambda: checkpoints.calls == [("rewind", "run-3", "both")])
        await wait_for(pilot, lambda: app.prompt.text == "tidy up")
        await pilot.press("up")
        assert app.prompt.text == "draft"


@pytest.mark.parametrize(
    ("key", "call"),
    [
        ("t", ("rewind", "run-2", "conversation")),
        ("c", ("rewind", "run-2", "code")),
        ("b", ("rewind", "run-2", "both")),
        ("u", ("undo", "run-2", ())),
    ],
)
async def test_a_key_chooses_what_goes_back(key: str, call: tuple[object, ...]) -> None:
    app, checkpoints, _session = prepared()
    async with run_app(app) as pilot:
        await pilot.press("alt+up")
        await wait_for(pilot, lambda: isinstance(app.screen, RewindPanel))
        await pilot.press("down", key)
        await wait_for(pilot, lambda: checkpoints.calls == [call])


async def test_messages_without_file_changes_offer_the_conversation_only() -> None:
    app, session = app_for("answered")
    talk = tuple(Checkpoint(run=f"run-{n}", title=f"question {n}", files=()) for n in (1, 2))
    session.checkpoints = checkpoints = FakeCheckpoints(talk)  # type: ignore[assignment]  # another double
    async with run_app(app) as pilot:
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: isinstance(app.screen, RewindPanel))
        await wait_until_idle(pilot)
        shown = screen_text(app)
        assert "question 1" in shown and "the conversation goes back" in shown and "files only" not in shown
        await pilot.press("down", "enter")
        await wait_for(pilot, lambda: checkpoints.calls == [("rewind", "run-1", "both")])


async def test_without_a_message_it_says_so() -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: "no earlier message to edit" in screen_text(app))


async def test_esc_esc_takes_its_time_limit_seriously_and_stops_a_run_first() -> None:
    clock = FakeClock()
    app, _checkpoints, _session = prepared(clock=clock)
    async with run_app(app) as pilot:
        await pilot.press("escape")
        clock.now += 3
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert not isinstance(app.screen, RewindPanel)
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: session.interrupts >= 1)
        await wait_until_idle(pilot)
        assert not isinstance(app.screen, RewindPanel)


def test_messages_that_were_rewound_or_cleared_are_not_offered_until_that_is_undone() -> None:
    ledger = Ledger()

    def titles() -> list[str]:
        return [one.title for one in ledger.conversation()]

    def rewind(run: str = "", *, cleared: bool = False) -> None:
        ledger.fold(e.ConversationRewound(run=run, text="", history=(), cleared=cleared))

    for number in (1, 2, 3):
        ledger.fold(e.UserMessageAdded(id=str(number), text=f"m{number}"), f"run-{number}")
    assert titles() == ["m1", "m2", "m3"]
    rewind("run-2")
    assert titles() == ["m1"]
    rewind()
    assert titles() == ["m1", "m2", "m3"]
    rewind("run-3")
    ledger.fold(e.UserMessageAdded(id="4", text="m4"), "run-4")
    assert titles() == ["m1", "m2", "m4"]
    rewind(cleared=True)
    assert titles() == []
    rewind()
    assert titles() == ["m1", "m2", "m4"]


async def test_a_key_clears_the_conversation_on_the_second_press() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("alt+n")
        await wait_for(pilot, lambda: "alt+n again clears the conversation" in screen_text(app))
        assert session.checkpoints.clears == 0
        await pilot.press("alt+n")
        await wait_for(pilot, lambda: session.checkpoints.clears == 1)


# --- suspending and repainting ---


SHELL = """
set -m
"$0" -m tests.tui.pty_app empty told
echo "status=$?"
fg >/dev/null
echo "ended=$?"
"""


@asynccontextmanager
async def in_a_shell() -> AsyncIterator[Terminal]:
    """The screen as a job of a shell with job control."""
    with tempfile.TemporaryDirectory(prefix="keys-") as home:
        env = {"TUI_AGENT_HOME": home, "HOME": home, "TMPDIR": home}
        start = "import os, sys; os.execvp('bash', ['bash', '-c', sys.argv[1], sys.executable])"
        terminal = Terminal("-c", start, SHELL.replace("\nfg ", "\nread -r _\nfg "), size=(100, 30), env=env)
        try:
            await terminal.wait_for_text("Ask for a change")
            yield terminal
        finally:
            terminal.close()


async def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_brings_everything_back() -> None:
    async with in_a_shell() as terminal:
        terminal.type("my draft")
        await terminal.wait_for_text("my draft")
        terminal.type("\x1a")
        await terminal.wait_for_text(f"status={128 + signal.SIGSTOP}")
        assert terminal.is_sane()
        terminal.screen.reset()
        terminal.type("\n")
        await terminal.wait_for_text("my draft")
        await terminal.wait_for_text("tui-agent 0")
        terminal.type(" goes on\r")
        await terminal.wait_for_text("sent 'my draft goes on'")
        terminal.type("\x04")
        await terminal.wait_for_text("ended=0")


async def test_without_a_shell_ctrl_z_says_why_it_does_nothing() -> None:
    async with typing() as terminal:
        terminal.type("\x1a")
        await terminal.wait_for_text("nothing to suspend to")
        terminal.type("still here\r")
        await terminal.wait_for_text("sent 'still here'")


async def test_ctrl_z_says_why_it_does_nothing_without_a_terminal() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"ab", "ctrl+z")
        await wait_for(pilot, lambda: "can't be suspended" in screen_text(app))
        assert app.prompt.text == "ab"


@pytest.mark.parametrize("before", ["", "\x1bOP"], ids=["the session", "a dialog"])
async def test_ctrl_l_repaints_what_something_else_wrote_over(before: str) -> None:
    async with typing() as terminal:
        terminal.type("draft" + before)
        await terminal.wait_for_text("Keys and commands" if before else "draft")
        words = ("Keys and commands", "more lines") if before else ("draft", "F1 help")
        terminal.screen.reset()
        terminal.screen.draw("garbage " * 100)
        assert "draft" not in terminal.text
        terminal.type("\x0c")
        await terminal.wait_for_text(
            lambda: all(word in terminal.text for word in words) and "garb" not in terminal.text
        )


# --- how it looks ---


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=["60x16", "80x24", "120x40"])
@pytest.mark.parametrize("what", ["history", "rewind"])
def test_looks(what: str, size: tuple[int, int], snap_compare: Any) -> None:
    app, _checkpoints, _session = prepared()

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        if what == "history":
            for number in range(12):
                app.prompt.add_to_history(
                    DraftText(text=f"fix the parser of format {number}\nand its tests, all of them")
                )
            await search(pilot, app)
            await pilot.press(*"format 1")
        else:
            await pilot.press("alt+up")
            await wait_for(pilot, lambda: isinstance(app.screen, RewindPanel))
            await pilot.press("down")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)
