from __future__ import annotations

import asyncio
import gc
import os
import signal
import stat
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.doubles.terminal import Terminal
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.engine.session import MESSAGE_MAX
from tui_agent.platform.programs import editor_command
from tui_agent.tui import composer, composer_files
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.composer_files import (
    MAX_HISTORY_BYTES,
    append_history,
    history_file,
    read_composer_state,
    read_history,
)
from tui_agent.tui.external_editor import _apply_result, _strip_final_newline, with_chips
from tui_agent.tui.outbox import ComposerState, Sent
from widgets.composer_history import Chips, DraftText
from widgets.prompt_input import MAX_MESSAGE_CHARACTERS
from widgets.queue_panel import QueuePanel

ID = FakeSession().id
LOG = "\n".join(f"line {number}" for number in range(120))


def folder() -> Path:
    path = paths.sessions_dir() / ID
    path.mkdir(parents=True, exist_ok=True)
    return path


def resumed(scene: str = "answered") -> tuple[TuiAgentApp, FakeSession]:
    app, session = app_for(scene)
    session.replay_end = len(session.records)
    return app, session


async def pasted(pilot: Pilot[int], app: TuiAgentApp, text: str) -> None:
    before = app.prompt.text
    app.post_message(events.Paste(text))
    await wait_for(pilot, lambda: app.prompt.text != before)
    await wait_until_idle(pilot)


async def saved(pilot: Pilot[int], text: str) -> None:
    await wait_for(pilot, lambda: read_composer_state(ID).draft.full_text == text)


# --- chips ---


async def test_a_big_paste_is_one_thing_until_it_is_sent() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        prompt = app.prompt
        await pilot.press(*"see ")
        await pasted(pilot, app, LOG)
        assert prompt.text == "see ⟦paste 1 · 120 lines, 969 B⟧"
        assert "⟦paste 1 · 120 lines" in screen_text(app)
        await pilot.press("left", *"ab", "right", *"cd")
        assert prompt.text == "see ab⟦paste 1 · 120 lines, 969 B⟧cd"
        await pilot.press("backspace", "backspace", "backspace")
        assert prompt.text == "see ab"
        await pilot.press("ctrl+underscore")
        assert "⟦paste 1" in prompt.text
        prompt.move_cursor((0, 10))  # a click into it
        await pilot.press("x")
        assert prompt.text.startswith("see abx⟦paste 1")
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.sent == [(f"see abx{LOG}cd", False)])
        await wait_until_rendered(pilot)
        await pilot.press("up")
        assert prompt.text == "see abx⟦paste 1 · 120 lines, 969 B⟧cd"
        prompt.select_all()
        assert prompt.selected_text == f"see abx{LOG}cd"


async def test_a_chip_is_expanded_by_a_key_and_closed_by_undo() -> None:
    app, _session = app_for("empty")
    async with run_app(app, (40, 12)) as pilot:
        prompt = app.prompt
        await pilot.press("alt+e")
        await pasted(pilot, app, LOG)
        await pasted(pilot, app, "y" * 2_500)
        await pilot.press("alt+e")
        assert prompt.text == "⟦paste 1 · 120 lines, 969 B⟧" + "y" * 2_500
        await pilot.press("ctrl+home", "home", "alt+e")
        for _undo in range(5):
            await pilot.press("ctrl+underscore")
            await wait_until_idle(pilot)
        assert app.is_running


@pytest.mark.parametrize("text", ["x" * 1_000_000, "some words\n" * 100_000], ids=["one line", "many lines"])
async def test_a_megabyte_makes_a_small_screen_and_is_not_sent_away(text: str) -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        told: list[str] = []
        app.prompt.host = app.prompt.host._replace(show_hint=told.append)
        await pasted(pilot, app, text)
        assert len(app.prompt.text) < 60
        await pilot.press("alt+e", *"abc", "enter")
        await wait_until_idle(pilot)
        assert app.prompt.text.endswith("⟧abc")
        assert ["too long to expand" in told[0], "too many to send" in told[1]] == [True, True]
        assert session.sent == []
    assert MAX_MESSAGE_CHARACTERS == MESSAGE_MAX


async def test_a_paste_into_a_dialog_is_a_chip_of_the_initial_draft() -> None:
    app, session = app_for("command_asked")
    async with run_app(app) as pilot:
        await pasted(pilot, app, LOG)
        assert app.prompt.draft.full_text == LOG
        assert "⟦" in app.prompt.text
        assert session.answers == []


# --- on disk ---


async def test_a_draft_survives_the_program_and_goes_when_it_is_sent() -> None:
    file = folder() / composer_files.STATE_FILE
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        assert not file.exists()
        await pilot.press(*"half a ")
        await pasted(pilot, app, LOG)
        await saved(pilot, f"half a {LOG}")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    app, session = resumed()
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: app.prompt.draft.full_text == f"half a {LOG}")
        await pilot.press("!")
        app.composer.save_now()
        assert read_composer_state(ID).draft.full_text == f"half a {LOG}!"
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(session.sent) == 1)
        await wait_for(pilot, lambda: not file.exists())
    app, _session = resumed()
    async with run_app(app) as pilot:
        await wait_until_idle(pilot)
        assert app.prompt.text == ""


async def test_what_was_sent_is_not_offered_again_whatever_the_file_says() -> None:
    kept = ComposerState(id="d1", draft=DraftText(text="sent"), waiting=(Sent(id="w1", text="lost"),))
    (folder() / composer_files.STATE_FILE).write_bytes(msgspec.json.encode(kept))
    app, session = app_for("answered")
    session.push(e.UserMessageAdded(id="d1", text="sent"))
    session.replay_end = len(session.records)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: app.prompt.text == "lost")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[1]", b'{"draft": 3}'])
async def test_a_damaged_draft_is_none(data: bytes) -> None:
    (folder() / composer_files.STATE_FILE).write_bytes(data)
    app, _session = resumed()
    async with run_app(app) as pilot:
        await pilot.press("x")
        await saved(pilot, "x")


async def test_what_is_typed_before_the_draft_was_read_stays_and_the_draft_is_in_the_history() -> None:
    kept = ComposerState(id="d1", draft=DraftText(text="of before"))
    (folder() / composer_files.STATE_FILE).write_bytes(msgspec.json.encode(kept))
    app, _session = resumed()
    app.composer._initial_draft = "new"
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: app.composer._recovered)
        await pilot.press("up")
        assert app.prompt.text == "of before"
        await pilot.press("down")
        assert app.prompt.text == "new"


async def test_the_history_of_a_folder_outlives_its_sessions() -> None:
    app, session = app_for("answered")
    workspace = "/home/ada/exporter"
    async with run_app(app) as pilot:
        assert app.view.workspace == workspace
        await pilot.press(*"first", "enter")
        await pasted(pilot, app, LOG)
        await pilot.press("ctrl+c")
        await wait_for(pilot, lambda: len(read_history(workspace)) == 2)
        assert stat.S_IMODE(history_file(workspace).stat().st_mode) == 0o600
        assert stat.S_IMODE(history_file(workspace).parent.stat().st_mode) == 0o700
        assert [text for text, _steering in session.sent] == ["first"]
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pasted(pilot, app, "x" * 5_000)
        await pilot.press("up")
        await wait_for(pilot, lambda: app.prompt.draft.full_text == LOG)
        await pilot.press("up")
        await wait_for(pilot, lambda: app.prompt.text == "first")
        await pilot.press("down", "down")
        await wait_for(pilot, lambda: app.prompt.draft.full_text == "x" * 5_000)


async def test_a_recalled_message_is_sent_and_the_draft_comes_back() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press(*"one", "enter", *"draft", "up", "enter")
        await wait_for(pilot, lambda: len(session.sent) == 2)
        assert app.prompt.text == "draft"


def test_the_history_is_bounded_and_damaged_lines_are_left_out() -> None:
    append_history("/w", [DraftText(text="x" * 500_000 + str(number)) for number in range(30)])
    with history_file("/w").open("ab") as file:
        file.write(b"{damaged\n")
    append_history("/w", [DraftText(text="newest")])
    found = read_history("/w")
    assert found[-1].text == "newest"
    assert sum(len(one.text) for one in found) <= MAX_HISTORY_BYTES
    assert history_file("/w").stat().st_size <= MAX_HISTORY_BYTES + 1000
    assert read_history("/w") == found


def test_without_a_place_to_write_nothing_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "file"))
    append_history("/w", [DraftText(text="x")])
    assert read_history("/w") == []
    composer_files.write_state(ID, ComposerState(draft=DraftText(text="x")))
    assert read_composer_state(ID).empty


class Late:
    """A session that is opened when the test says so."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.there = asyncio.Event()

    async def __call__(self) -> FakeSession:
        await self.there.wait()
        return self.session


@asynccontextmanager
async def waited_for(session: FakeSession, draft: str = "") -> AsyncIterator[tuple[TuiAgentApp, Pilot[int], Late]]:
    late = Late(session)
    app = TuiAgentApp(late, draft=draft)
    app.composer.folder = "."
    async with app.run_test(size=(100, 30)) as pilot:
        yield app, pilot, late
        app.exit(0)


async def test_a_command_of_the_users_own_stays_one_before_the_session_is_open() -> None:
    folder()
    session = FakeSession()
    async with waited_for(session) as (app, pilot, late):
        await pilot.press(*"!ls", "enter", *"and this", "enter")
        await wait_until_idle(pilot)
        late.there.set()
        await wait_for(pilot, lambda: session.commands == ["ls"] and [one for one, _ in session.sent] == ["and this"])
        await wait_for(pilot, lambda: read_composer_state(ID).empty and not app.composer._dirty)


async def test_what_was_brought_from_another_session_is_kept_when_this_one_can_not_be_opened() -> None:
    async with waited_for(FakeSession(), draft="brought along") as (app, pilot, _late):
        await pilot.press("end", *"!", "ctrl+c", *"x", "enter", *"other")
        app.prompt.open_menu()
        app.composer.save_now()
    assert [one.text for one in read_history(os.path.realpath("."))] == ["brought along!", "x", "other"]
    assert "up restores it" in app.composer.exit_message


async def test_a_draft_is_kept_that_was_typed_while_the_past_was_read() -> None:
    folder()
    app, session = app_for("answered")
    session.replay_end = len(session.records) + 1  # the past never ends
    async with app.run_test() as pilot:
        await wait_for(pilot, lambda: app.composer._workspace != "")
        for character in "early":  # there is always something left to do, so what waits for that waits long
            app.post_message(events.Key(character, character))
        await wait_for(pilot, lambda: app.prompt.text == "early")
        assert not app.composer._recovered
        app.composer.save_now()
        assert "up restores it" in app.composer.exit_message
        assert [one.text for one in read_history(app.view.workspace)] == ["early"]
        assert read_composer_state(ID).empty
        app.exit(0)


async def test_a_write_that_is_late_puts_nothing_old_over_what_was_written_at_the_end() -> None:
    folder()
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        app.composer._executor.submit(time.sleep, 0.3)  # the disk is slow
        await pilot.press(*"old")
        app.composer.schedule_save(True)
        await pilot.pause()
        await pilot.press(*"er")
        app.composer.save_now()
        assert read_composer_state(ID).draft.text == "older"
    assert read_composer_state(ID).draft.text == "older"


async def test_what_is_new_in_the_history_is_written_at_the_end_if_not_before() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        app.composer._executor.submit(time.sleep, 0.3)  # the disk is slow
        await pilot.press(*"set aside", "ctrl+c")
        app.composer.save_now()
        assert [one.text for one in read_history(app.view.workspace)] == ["set aside"]
    assert [one.text for one in read_history(app.view.workspace)] == ["set aside"]


async def test_a_draft_that_can_not_be_written_is_said_once_and_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composer, "RETRY_DELAY", 0.01)
    file = folder() / composer_files.STATE_FILE
    file.mkdir()  # nothing can be put into its place
    app, session = app_for("streaming")
    told: list[str] = []
    async with run_app(app) as pilot:
        session.push(e.MessageQueued(id="q1", text="waits"))
        await wait_until_rendered(pilot)
        app.hints.show = told.append  # type: ignore[assignment,method-assign]  # hints are gone soon
        await pilot.press("up")
        await wait_for(pilot, lambda: len(told) == 2)
        assert app.prompt.text == ""
        assert order(app) == ["q1"]
        await pilot.press(*"draft")
        await wait_for(pilot, lambda: app.composer._save_failed)
        assert ["draft not saved" in told[0], "not withdrawn" in told[1]] == [True, True]
        file.rmdir()
        await saved(pilot, "draft")
        assert len(told) == 2


async def test_a_write_that_never_begins_since_the_screen_ends_is_nothing_to_warn_of(
    recwarn: pytest.WarningsRecorder,
) -> None:
    folder()
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("x")
        app.work(app.composer._save)
        assert any(not one.is_finished for one in app.workers)
        app.workers.cancel_all()
    gc.collect()
    assert [one for one in recwarn if "never awaited" in str(one.message)] == []


def test_a_draft_that_can_not_be_read_is_not_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composer_files, "MAX_STATE_BYTES", 10)
    assert composer_files.write_state(folder().name, ComposerState(draft=DraftText(text="long")))
    assert read_composer_state(ID).empty
    assert composer_files.write_state(ID, ComposerState(draft=DraftText(text="new")))
    assert b'"long"' in (folder() / composer_files.UNREADABLE_FILE).read_bytes()


async def test_what_an_editor_had_saved_when_the_program_was_killed_is_offered() -> None:
    kept = ComposerState(id="d1", draft=DraftText(text="draft"))
    (folder() / composer_files.STATE_FILE).write_bytes(msgspec.json.encode(kept))
    files = {
        "prompt-1-a.md": "draft and more\n",
        "prompt-1-b.md": "draft",
        f"{composer_files.EDITOR_PREFIX}c.md": "ours",
    }
    for name, text in files.items():
        (folder() / name).write_text(text, encoding="utf-8")
    app, _session = resumed()
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: not (folder() / "prompt-1-a.md").exists())
        assert app.prompt.text == "draft"
        await pilot.press("up")
        assert app.prompt.text == "draft and more\n"
        await pilot.press("down")
        assert app.prompt.text == "draft"
        assert [path.name for path in folder().glob("prompt-*")] == [f"{composer_files.EDITOR_PREFIX}c.md"]
        assert [one.text for one in read_history(app.view.workspace)] == ["draft and more\n"]


# --- a draft below the list of commands ---


async def test_a_draft_comes_back_from_below_the_list_of_commands() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        prompt = app.prompt
        await pilot.press(*"draft")
        prompt.open_menu()
        await pilot.press("backspace")
        await wait_for(pilot, lambda: prompt.text == "draft")
        prompt.open_menu()
        await pilot.press(*"nothing like it", "enter")
        await wait_for(pilot, lambda: "unknown command /nothing" in screen_text(app))
        assert prompt.text == "/nothing like it" and not session.sent
        prompt.select_all()
        await pilot.press("backspace")
        await wait_for(pilot, lambda: prompt.text == "draft")
        prompt.open_menu()
        prompt.select_all()
        await pilot.press("x")
        await wait_until_idle(pilot)
        prompt.open_menu()  # over what stands over a draft
        await pilot.press("escape")
        assert prompt.text == "x"
        await pilot.press("up")
        assert prompt.text == "draft"
        await pilot.press("down")
        prompt.open_menu()
        await pilot.press("ctrl+c")
        assert prompt.text == ""
        assert "draft stashed" in screen_text(app)
        await pilot.press("up")
        assert prompt.text == "x"


# --- the queue ---


async def test_up_takes_the_last_queued_message_back_with_its_exact_text() -> None:
    folder()
    app, session = app_for("streaming")
    secret = "use sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD now"
    async with run_app(app) as pilot:
        session.push(e.MessageQueued(id="q1", text="first of two"))
        session.push(e.MessageQueued(id="q2", text=secret))
        await wait_until_rendered(pilot)
        assert "first of two" in screen_text(app)
        await pilot.press("up")
        await wait_for(pilot, lambda: app.prompt.text == secret)
        await wait_until_rendered(pilot)
        assert [one.id for one in app.view.queue] == ["q1"]
        await saved(pilot, secret)
        await pilot.press("up")  # not empty: the history, not the queue
        await wait_until_idle(pilot)
        assert [one.id for one in app.view.queue] == ["q1"]


async def test_what_stays_queued_after_a_stop_says_how_it_is_sent() -> None:
    folder()
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        session.push(e.MessageQueued(id="q1", text="and then this"))
        await wait_until_rendered(pilot)
        assert "queued    and then this" in screen_text(app)
        assert "not sent" not in screen_text(app)
        session.push(e.RunEnded(outcome="interrupted", text="Interrupted by the user."), run="run1")
        await wait_until_rendered(pilot)
        assert "not sent: /queue, then s sends it" in screen_text(app)


async def test_a_message_that_is_on_its_way_stays_on_it() -> None:
    folder()
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        session.push(e.MessageQueued(id="q1", text="steer"))
        await wait_until_rendered(pilot)
        session.withdraw_message = lambda message: False  # type: ignore[method-assign]  # the run took it just now
        await pilot.press("up")
        await wait_for(pilot, lambda: "that message was just sent" in screen_text(app))
        assert app.prompt.text == ""
        app.hints.show("")
        app.composer.show_queue()
        await wait_for(pilot, lambda: isinstance(app.screen, QueuePanel))
        await pilot.press("x")
        await wait_for(pilot, lambda: "that message was just sent" in screen_text(app))
        session.push(e.UserMessageAdded(id="q1", text="steer", steering=True))
        await wait_until_rendered(pilot)
        assert read_composer_state(ID).empty


async def test_every_message_of_the_queue_can_be_moved_edited_or_withdrawn() -> None:
    folder()
    app, session = app_for("streaming")
    async with run_app(app) as pilot:
        for number in range(4):
            session.push(e.MessageQueued(id=f"q{number}", text=f"message {number}", steering=number == 1))
        await wait_until_rendered(pilot)
        await pilot.press(*"draft")
        app.composer.show_queue()
        await wait_for(pilot, lambda: isinstance(app.screen, QueuePanel))
        await wait_until_idle(pilot)
        assert "steering  message 1" in screen_text(app)
        await pilot.press("down", "x")
        await wait_until_rendered(pilot)
        assert order(app) == ["q0", "q2", "q3"]
        assert "message 1" not in screen_text(app)
        await pilot.press("plus", "plus", "minus", "home", "shift+down", "g")
        await wait_until_rendered(pilot)
        assert order(app) == ["q2", "q0", "q3"]
        assert [one.steering for one in app.view.queue] == [False, True, False]
        assert screen_text(app).index("message 2") < screen_text(app).index("▸ steering  message 0")
        session.push(e.UserMessageAdded(id="q2", text="message 2"))  # the run takes one while the user looks
        await wait_until_rendered(pilot)
        assert "message 2" not in text_of(app, QueuePanel)
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.prompt.text == "message 0")
        await wait_until_rendered(pilot)
        assert order(app) == ["q3"]
        session.send = queued(session)  # type: ignore[method-assign]  # as the engine does while a run goes on
        await pilot.press(*" too", "enter")
        await wait_until_rendered(pilot)
        assert [(one.text, one.steering) for one in app.view.queue] == [("message 0 too", True), ("message 3", False)]
        await pilot.press("ctrl+c")  # nothing to set aside: the run that goes on
        await pilot.press(*"x", "up", "up")
        assert app.prompt.text == "draft"
        await pilot.press("up")
        assert app.prompt.text == "message 1"


def order(app: TuiAgentApp) -> list[str]:
    return [one.id for one in app.view.queue]


def text_of(app: TuiAgentApp, kind: type[QueuePanel]) -> str:
    panel = app.screen
    assert isinstance(panel, kind)
    return "\n".join(one.text for one in panel.list_view.rows)


def queued(session: FakeSession) -> Callable[..., Coroutine[object, object, str]]:
    async def send(text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        session.push(e.MessageQueued(id=message, text=text, steering=steering))
        session.queue.move(message, before)
        return message

    return send


# --- the user's own editor ---


def test_the_editor_is_the_users_own() -> None:
    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if name == "vi" else None

    assert editor_command({"VISUAL": "code --wait", "EDITOR": "ed"}, which) == ["code", "--wait"]
    assert editor_command({"VISUAL": "", "EDITOR": "'/my tools/ed' -x"}, which) == ["/my tools/ed", "-x"]
    assert editor_command({"EDITOR": "'open"}, which) == ["/usr/bin/vi"]
    assert editor_command({}, lambda name: None) == []


def test_pastes_are_chips_again_when_they_come_back_as_they_were() -> None:
    chips = Chips()
    before = chips.to_draft("see " + chips.add(LOG) + chips.add("z" * 3_000))
    after = with_chips(f"please look at {LOG} and zzz", before)
    assert after.text == f"please look at {next(iter(before.chips))} and zzz"
    assert after.full_text == f"please look at {LOG} and zzz"


EDITORS = {
    "appends": ("echo more >> $1", "draftmore", "text from your editor"),
    "is killed": ("printf '\\033[?1049h'; stty raw -echo; kill -9 $$", "draft", "the editor ended with -9"),
    "is not there": ("", "draft", "could not be started"),
}


@asynccontextmanager
async def edited(tmp_path: Path, body: str) -> AsyncIterator[Terminal]:
    script = tmp_path / "editor"
    if body:
        script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        script.chmod(0o700)
    env = {"VISUAL": str(script), "TUI_AGENT_HOME": str(tmp_path / "home")}
    terminal = Terminal("-m", "tests.tui.pty_app", "empty", "told", size=(100, 30), env=env)
    try:
        await terminal.wait_for_text("Ask for a change")
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("how", EDITORS)
async def test_the_terminal_is_ours_again_however_the_editor_ends(how: str, tmp_path: Path) -> None:
    body, text, says = EDITORS[how]
    async with edited(tmp_path, body) as terminal:
        terminal.type("draft")
        await terminal.wait_for_text("draft")
        terminal.type("\x07")
        await terminal.wait_for_text(lambda: says in terminal.text or says.encode() in terminal.bytes)
        await terminal.wait_for_text("draft")
        terminal.type("!\r")
        await terminal.wait_for_text("sent")
        assert f"sent'{text}!'" in "".join(terminal.text.split())
        terminal.type("\x04")
        assert await terminal.end() == 0
        assert terminal.is_sane()


async def test_what_the_editor_saved_is_kept_when_the_program_is_ended(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with edited(tmp_path, "echo more >> $1; echo it is saved; exec sleep 300") as terminal:
        terminal.type("draft")
        await terminal.wait_for_text("draft")
        terminal.type("\x07")
        await terminal.wait_for_text("it is saved")
        terminal.kill(signal.SIGTERM)
        assert await terminal.end() == 128 + signal.SIGTERM
    (file,) = (home / "history").iterdir()
    kept = [msgspec.json.decode(line, type=DraftText).text for line in file.read_bytes().splitlines()]
    assert "draftmore" in kept


@pytest.mark.parametrize(("code", "kept"), [(0, True), (1, False)])
def test_a_failed_editors_text_goes_to_the_history(code: int, kept: bool) -> None:
    class Prompt:
        shown: str | None = None
        remembered: str | None = None

        def put(self, draft: DraftText) -> None:
            self.shown = draft.full_text

        def add_to_history(self, draft: DraftText) -> None:
            self.remembered = draft.full_text

    prompt = Prompt()
    before = DraftText(text="a")
    problem = f"the editor ended with {code}" if code else ""
    same, edited = (_strip_final_newline(text, before.full_text) for text in ("a\n", "b\n"))
    assert _apply_result(prompt, before, same, "") == "nothing changed"  # type: ignore[arg-type]  # as below
    hint = _apply_result(prompt, before, edited, problem)  # type: ignore[arg-type]  # what it uses of a composer
    assert (prompt.shown, prompt.remembered) == (("b", None) if kept else (None, "b"))
    assert ("history" in hint) is not kept


# --- a kill ---


async def test_a_draft_survives_kill_9(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sessions" / ID).mkdir(parents=True)
    for typed, seen in (("a draft of", "a draft of"), (" two lives", "a draft of two lives")):
        terminal = Terminal("-m", "tests.tui.pty_app", "empty", "resumed", env={"TUI_AGENT_HOME": str(home)})
        try:
            await terminal.wait_for_text("Ask for a change" if typed[0] == "a" else "a draft of")
            terminal.type(typed)
            await terminal.wait_for_text(seen)
            file = home / "sessions" / ID / composer_files.STATE_FILE
            await terminal.wait_for_text(lambda file=file, seen=seen: file.exists() and seen in file.read_text())  # type: ignore[misc]  # mypy and defaults
        finally:
            os.kill(terminal.process.pid, 9)
            terminal.close()


async def test_what_was_typed_for_a_session_that_can_not_be_opened_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    terminal = Terminal("-m", "tests.tui.pty_app", "empty", "late", env={"TUI_AGENT_HOME": str(home)}, size=(100, 30))
    try:
        await terminal.wait_for_text("Ask for a change")
        terminal.type("already sent\r")
        await terminal.wait_for_text(lambda: "already sent" not in terminal.text)
        terminal.type("still a draft")
        await terminal.wait_for_text("still a draft")
        (home / "go").touch()
        assert await terminal.end() == 2
        assert "Your draft is saved" in terminal.text
    finally:
        terminal.close()
    (file,) = (home / "history").iterdir()
    kept = [msgspec.json.decode(line, type=DraftText).text for line in file.read_bytes().splitlines()]
    assert kept == ["already sent", "still a draft"]
