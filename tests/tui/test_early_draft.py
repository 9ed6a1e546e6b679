"""What is typed before the session is open, and the last keys, survive `kill -9` (L5)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events

from tests.doubles.session import FakeSession
from tests.doubles.terminal import Terminal
from tests.tui.kit import app_for, run_app, wait_for
from tui_agent.common import paths
from tui_agent.tui import composer_files
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.composer import MAX_SAVE_DELAY, SAVE_DELAY
from tui_agent.tui.composer_files import find_abandoned, read_composer_state, read_history
from tui_agent.tui.outbox import ComposerState, Sent
from widgets.composer_history import DraftText

STARTING = """
import asyncio, sys
from tui_agent.tui.run import run_tui

async def never():
    await asyncio.Event().wait()

run_tui(never, folder=sys.argv[1])
"""


@pytest.fixture
def start() -> Iterator[list[Terminal]]:
    started: list[Terminal] = []
    yield started
    for terminal in started:
        terminal.close()


def saved_early(folder: Path) -> str:
    """The texts in the files of processes that have not opened their session."""
    texts = [path.read_text("utf-8") for path in (paths.data_dir() / composer_files.EARLY).glob("*.json")]
    return "\n".join(texts)


def test_a_message_sent_and_a_draft_typed_while_starting_survive_a_kill(start: list[Terminal], tmp_path: Path) -> None:
    terminal = Terminal("-c", STARTING, str(tmp_path))
    start.append(terminal)
    terminal.shows("starting")
    terminal.type("the message\r")
    terminal.until(lambda: "the message" in saved_early(tmp_path))
    terminal.type("the draft" + "x" * 2000 + "end")
    terminal.until(lambda: "the message" in saved_early(tmp_path) and "xend" in saved_early(tmp_path))
    assert find_abandoned(str(tmp_path)) == []
    terminal.kill(signal.SIGKILL)
    terminal.wait()
    ((_path, state),) = find_abandoned(os.path.realpath(tmp_path))
    assert [text.full_text for text in state.texts] == ["the message", "the draft" + "x" * 2000 + "end"]


def test_it_moves_to_the_history_when_the_program_ends_in_order(start: list[Terminal], tmp_path: Path) -> None:
    terminal = Terminal("-c", STARTING, str(tmp_path))
    start.append(terminal)
    terminal.shows("starting")
    terminal.type("the draft")
    terminal.until(lambda: "the draft" in saved_early(tmp_path))
    terminal.kill(signal.SIGTERM)
    terminal.wait()
    assert saved_early(tmp_path) == ""
    assert [draft.full_text for draft in read_history(os.path.realpath(tmp_path))] == ["the draft"]


async def test_the_next_session_in_the_folder_offers_it_once(tmp_path: Path) -> None:
    folder = paths.data_dir() / composer_files.EARLY
    folder.mkdir(parents=True)
    state = ComposerState(draft=DraftText(text="draft"), waiting=(Sent(id="m-1", text="message"),))
    dead = folder / f"{composer_files._key(os.path.realpath(tmp_path))}.1.999999999999.json"
    composer_files._write(dead, state)
    app, _session = app_for("empty")
    app.composer.folder = str(tmp_path)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: app.prompt.text == "message\n\ndraft")
        await wait_for(pilot, lambda: not dead.exists())


async def test_a_draft_is_written_within_300_ms_of_the_last_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the delays that are asked for: time itself depends on the machine."""
    assert SAVE_DELAY <= MAX_SAVE_DELAY < 0.3
    delays: list[float] = []
    app, session = app_for("empty")
    (paths.sessions_dir() / session.id).mkdir(parents=True)
    async with run_app(app) as pilot:
        loop = asyncio.get_running_loop()
        real = loop.call_later

        def call_later(delay: float, callback: object, *args: object, **named: object) -> asyncio.TimerHandle:
            if callback == app.composer._save_changes:
                delays.append(delay)
            return real(delay, callback, *args, **named)  # type: ignore[arg-type]  # passed on

        monkeypatch.setattr(loop, "call_later", call_later)
        await pilot.press(*"some words")
        app.prompt.append_text("y" * 2000 + "end")
        await wait_for(pilot, lambda: read_composer_state(session.id).draft.full_text.endswith("end"))
    assert delays and max(delays) <= MAX_SAVE_DELAY


async def test_enter_before_the_screen_is_up_leaves_no_line_break_and_sends_nothing() -> None:
    app, session = app_for("empty")
    assert app._early_keys is not None
    for key, character in (("a", "a"), ("ctrl+j", "\n"), ("b", "b"), ("ctrl+j", "\n"), ("ctrl+j", "\n")):
        app._early_keys.append(events.Key(key, character))
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: app.prompt.text == "a\nb")
        assert session.sent == []


async def test_quitting_while_the_session_opens_is_no_failure() -> None:
    _app, session = app_for("answered")

    async def open_session() -> FakeSession:
        app.exit(0)
        while app.columns.is_attached:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        return session

    app = TuiAgentApp(open_session)
    async with app.run_test() as pilot:
        await wait_for(pilot, lambda: not app.is_running)
    assert (app.return_value, app.failure) == (0, "")
