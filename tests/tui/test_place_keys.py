from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.doubles.session import FakeSession
from tests.tui.edits import edit_app, edit_dialog
from tests.tui.kit import (
    FakeClock,
    app_for,
    read_through,
    run_app,
    screen_text,
    wait_for,
    wait_until_idle,
    wait_until_rendered,
)
from tests.tui.shelf import sample_sessions, session_app
from tests.tui.test_models import FakeModels
from tests.tui.test_pager import ran
from tests.tui.test_undoing import FakeCheckpoints
from tui_agent import events as e
from tui_agent.common.domain import Answer, FolderTrustState, Grant
from tui_agent.keys.key_names import PUNCTUATION_NAMES
from tui_agent.keys.keymap import CONTEXTS, EDITING_KEYS, Keymap
from tui_agent.settings import LoadedSettings, Settings
from tui_agent.tui import commands
from tui_agent.tui.app import TuiAgentApp
from widgets import checkpoints, output_pager
from widgets.approval_modal import SCOPES
from widgets.checkpoints import CheckpointsPanel, RewindPanel
from widgets.composer_history import DraftText
from widgets.dashboard import Dashboard
from widgets.first_run import FirstRun
from widgets.grants_panel import GrantsPanel
from widgets.history_search import HistorySearch
from widgets.info_panels import HelpPanel
from widgets.line_view import MOVES
from widgets.model_picker import ModelPicker
from widgets.output_pager import OutputPager
from widgets.palette import Palette
from widgets.picker_dialog import PickerDialog
from widgets.plan_list import PlanList
from widgets.plan_review import PlanReview
from widgets.queue_panel import QueuePanel
from widgets.request_view import QUIET_SECONDS, RequestModal
from widgets.search_bar import SearchBar
from widgets.session_picker import SessionPicker
from widgets.settings_form import SettingsForm
from widgets.summary_editor import SummaryEditor
from widgets.trust_panel import TrustPanel


def keyed(session: FakeSession, **keys: str) -> None:
    """`place__action` by its key, as a file of settings says it."""
    named = {name.replace("__", "."): key for name, key in keys.items()}
    settings = Settings.model_validate({"keys": named})
    assert Keymap(settings.keys).problems == []
    session.settings = LoadedSettings(settings=settings)  # type: ignore[attr-defined]  # as the engine's has


async def docked(pilot: Pilot[int], app: TuiAgentApp) -> PlanReview | SummaryEditor:
    found = app.dialogs.dock
    await wait_for(pilot, lambda: found.panel is not None and found.panel.is_mounted and found.panel.armed)
    await wait_until_idle(pilot)
    assert isinstance(found.panel, PlanReview | SummaryEditor)
    return found.panel


def handled_actions(picker: type[PickerDialog[Any]]) -> set[str]:
    return {name.removeprefix("_action_") for name in dir(picker) if name.startswith("_action_")} - {"back"}


def test_tables_and_widgets_know_the_same_actions() -> None:
    table = {place.name: {one.name for one in place.actions} for place in CONTEXTS.values()}
    does = {
        "sessions": {*handled_actions(SessionPicker), *MOVES},
        "models": {*handled_actions(ModelPicker), *MOVES},
        "palette": {*handled_actions(Palette), *MOVES},
        "pager": set(output_pager.ACTIONS),
        "settings": {*handled_actions(SettingsForm), *MOVES} - table["setting"],
        "setting": handled_actions(SettingsForm) & table["setting"],
        "checkpoints": {*dict(checkpoints.ACTIONS), "up", "down"},
        "approval": {
            *SCOPES,
            "reject",
            "again",
            *MOVES,
            "next_hunk",
            "previous_hunk",
            "leave_out",
            "only_seen",
            "edit",
            "sides",
            "secrets",
        },
    }
    assert {place: table[place] for place in does} == does
    bound = [one for kind in (Input, TextArea) for one in kind.BINDINGS if isinstance(one, Binding)]
    in_fields = {key.strip() for one in bound for key in one.key.split(",")}
    assert in_fields <= EDITING_KEYS
    assert {character: _character_to_key(character) for character in PUNCTUATION_NAMES} == PUNCTUATION_NAMES
    assert all(row.description for row in commands.palette_rows())


async def test_an_approval_is_as_careful_with_keys_of_the_users_as_with_its_own() -> None:
    clock = FakeClock()
    app, session = edit_app(clock=clock, quiet_seconds=QUIET_SECONDS)
    keyed(
        session,
        approval__approve_once="y",
        approval__approve_session="none",
        approval__bottom="f5",
        approval__next_hunk="ctrl+n",
        approval__edit="m",
        change__take="ctrl+g",
    )
    async with run_app(app, (80, 20)) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal))
        await pilot.press("y")  # before it listens: the draft's
        await wait_for(pilot, lambda: app.prompt.text == "y")
        clock.arm_dialogs()
        await pilot.press("y", "end")  # the end was not seen; `end` means nothing any more
        await wait_until_idle(pilot)
        assert session.answers == [] and edit_dialog(app).unseen()
        text = screen_text(app)
        assert "y  show the rest" in text and "for this session" not in text
        assert "ctrl+n p hunk 1 of" in text and "m edit it" in text and "not seen yet" in text
        clock.arm_dialogs()
        await pilot.press("m")
        await wait_for(pilot, lambda: "ctrl+g use the text" in screen_text(app))
        await wait_for(pilot, lambda: app.focused is edit_dialog(app).field)
        await pilot.press(*"# mine ")
        await pilot.press("ctrl+s", "ctrl+g")
        await wait_for(pilot, lambda: "edited by you" in screen_text(app))
        clock.arm_dialogs()
        await pilot.press("y")  # what was edited has to be seen to its end
        await wait_for(pilot, lambda: edit_dialog(app).held_key is None)
        await wait_until_idle(pilot)
        assert session.answers == []
        clock.arm_dialogs()
        await pilot.press("ctrl+n")
        await wait_for(pilot, lambda: edit_dialog(app).current == 1)
        await pilot.press("f5")
        await read_through(pilot)
        await pilot.press("a", "s", "space", "enter")
        await wait_until_idle(pilot)
        assert session.answers == []
        clock.arm_dialogs()
        await pilot.press("y")
        await wait_for(pilot, lambda: not isinstance(app.screen, RequestModal))
        ((_id, answer),) = session.answers
        assert answer.verdict == "approve" and "# mine" in str(answer.data)


@pytest.mark.parametrize(
    ("scene", "keys", "before", "press", "shown", "answer"),
    [
        ("command_asked", {"approval__reject": "y"}, "r", ("y", "enter"), "y  reject", Answer(verdict="reject")),
        ("plan_conflict", {"conflict__theirs": "y"}, "t", ("y",), "y  theirs", Answer(verdict="approve", data={"take": "theirs"})),
        ("question", {"question__decline": "f5"}, "ctrl+d", ("f5",), "F5 declines", Answer(verdict="reject", text="The user did not want to answer.")),
    ],
)  # fmt: skip
async def test_a_dialog_is_answered_with_keys_of_the_users(scene, keys, before, press, shown, answer) -> None:
    app, session = app_for(scene)
    keyed(session, **keys)
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and shown in screen_text(app))
        await pilot.press(before)
        await wait_until_idle(pilot)
        assert session.answers == [] and isinstance(app.screen, RequestModal)
        await pilot.press(*press)
        await wait_for(pilot, lambda: [one for _id, one in session.answers] == [answer])


async def test_the_first_screen_obeys_them() -> None:
    app, session = app_for("no_server")
    keyed(session, first_run__retry="f9")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, FirstRun) and app.screen.armed)
        await pilot.press("enter")
        assert session.looks == 0
        await pilot.press("f9")
        await wait_for(pilot, lambda: session.looks == 1)


async def test_a_summary_is_decided_ticked_and_typed_into_with_them() -> None:
    app, session = app_for("summary_waits")
    keyed(session, summary__accept="ctrl+g", summary__discard="f5", summary__tick="t")
    async with run_app(app) as pilot:
        editor = await docked(pilot, app)
        assert isinstance(editor, SummaryEditor)
        assert "ctrl+g accept" in screen_text(app) and "F5 discard" in screen_text(app)
        await pilot.press("ctrl+s", "f5")
        await wait_for(pilot, lambda: "F5 again to discard" in screen_text(app))
        await pilot.press("tab", "ctrl+d", *" tst")  # another key keeps it; in a field letters are typed
        await wait_for(pilot, lambda: editor.summary().action.endswith(" tst"))
        before = [one.completed for one in editor.summary().criteria]
        await pilot.press("tab", "tab", "tab", "x", "t")
        await wait_for(pilot, lambda: [one.completed for one in editor.summary().criteria] != before)
        assert "t ticks" in screen_text(app) and session.answers == []
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: [one.verdict for _id, one in session.answers] == ["approve"])


async def test_a_plan_is_reviewed_and_edited_with_them() -> None:
    app, session = app_for("plan_waits")
    keyed(session, review__approve="y", review__edit="c", steps__move_down="f5", steps__down="ctrl+n")
    async with run_app(app) as pilot:
        review = await docked(pilot, app)
        assert isinstance(review, PlanReview) and "y approve" in screen_text(app)
        first, second = (one.description for one in review.proposal.plan.steps[:2])
        await pilot.press("a", "e", "c", "f5")
        await wait_for(pilot, lambda: "y approve" not in screen_text(app) and "F5" in screen_text(app))
        assert [one.description for one in review.editor.plan.steps[:2]] == [second, first]
        row = review.editor.cursor
        await pilot.press("down", "J", "ctrl+n")
        assert review.editor.cursor == row + 1
        await pilot.press("escape")
        await wait_for(pilot, lambda: "y approve as edited" in screen_text(app) and review.armed)
        await pilot.press("y")
        await wait_for(pilot, lambda: len(session.answers) == 1 and session.answers[0][1].data is not None)


async def test_the_plan_panel_and_the_progress_obey_them() -> None:
    app, session = app_for("plan_pending")
    keyed(session, plan__accept="f5", plan__down="j", plan__undo="ctrl+u", progress__up="k", progress__top="g")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: "4 proposed" in screen_text(app))
        await pilot.press("f3")
        await wait_for(pilot, lambda: "F5 accept" in screen_text(app).replace("\xa0", " "))
        listed = app.query_one(PlanList)
        place = listed.cursor
        await pilot.press("down", "j", "ctrl+s")
        await wait_for(pilot, lambda: listed.cursor > place)
        assert session.settlements == []
        await pilot.press("f5")
        await wait_for(pilot, lambda: session.settlements == [True])
        await wait_until_rendered(pilot)
        await pilot.press("f4")
        tree = app.columns.progress
        await wait_for(pilot, lambda: tree.has_focus and len(tree.rows) > 1)
        place = tree.cursor
        await pilot.press("k")
        assert tree.cursor == place - 1 and tree.has_focus
        await pilot.press("u")  # no key here any more: a letter for the composer
        await wait_for(pilot, lambda: app.prompt.text == "u" and app.prompt.has_focus)


async def test_a_sub_agent_is_stopped_with_another_key_and_the_old_one_is_a_letter() -> None:
    app, session = app_for("subagents_running")
    keyed(session, progress__stop_subagent="z")
    async with run_app(app, (160, 40)) as pilot:
        await pilot.press("f4")
        await wait_for(pilot, lambda: app.columns.progress.has_focus)
        await pilot.press("end", "up")
        await wait_for(pilot, lambda: "z stops it" in screen_text(app))
        await pilot.press("z")
        await wait_for(pilot, lambda: session.subagents.stopped == ["c3"])
        await pilot.press("x")
        await wait_for(pilot, lambda: app.prompt.text == "x")


async def test_outputs_and_the_search_obey_them() -> None:
    app, session = app_for("answered")
    ran(session, "make", "", result="\n".join(f"row {n}" for n in range(400)))
    keyed(
        session, pager__search="?", pager__next_match="m", pager__close="z", search__older="ctrl+n", search__newer="f5"
    )
    async with run_app(app) as pilot:
        await pilot.press("f7")
        await wait_for(pilot, lambda: isinstance(app.screen, OutputPager) and "? search" in screen_text(app))
        await pilot.press("?", *"row 3", "enter")
        await wait_for(pilot, lambda: "m N matches" in screen_text(app))
        pager = app.screen
        assert isinstance(pager, OutputPager)
        await wait_until_idle(pilot)
        found = pager._match_offset
        await pilot.press("n", "m")
        await wait_for(pilot, lambda: pager._match_offset > found)
        await pilot.press("q", "z")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("ctrl+f", "e")
        await wait_for(pilot, lambda: app.query_one(SearchBar).display and "ctrl+n older" in screen_text(app))
        finder = app.transcript
        await wait_for(pilot, lambda: finder.finder is not None and finder.finder.done and finder.finder.total > 1)
        assert finder.finder is not None
        number = finder.finder.number
        await pilot.press("ctrl+n")
        await wait_for(pilot, lambda: finder.finder is not None and finder.finder.number != number)
        await pilot.press("f5")
        await wait_for(pilot, lambda: finder.finder is not None and finder.finder.number == number)


async def test_sessions_are_found_and_deleted_with_them() -> None:
    app, session, now = session_app()
    sample_sessions(now)
    keyed(session, sessions__delete="f9", sessions__folders="f5", sessions__down="ctrl+n")
    async with run_app(app) as pilot:
        await pilot.press(*"/sessions", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, SessionPicker) and "F9 delete" in screen_text(app))
        picker = app.screen
        assert isinstance(picker, SessionPicker)
        await pilot.press("tab", "f5")
        await wait_for(pilot, lambda: picker.all_folders)
        chosen = picker.current
        await pilot.press("ctrl+n")
        await wait_for(pilot, lambda: picker.current != chosen)
        count = len(picker.rows or ())
        await pilot.press(*"landing")
        await wait_for(pilot, lambda: len(picker.list_view.rows) == 1)
        await pilot.press("f8", "f9")
        await wait_for(pilot, lambda: "F9 again deletes" in screen_text(app))
        await pilot.press("f9")
        await wait_for(pilot, lambda: len(picker.rows or ()) == count - 1)


async def test_models_settings_and_the_palette_obey_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path))
    app, session = app_for("answered")
    session.models = models = FakeModels()  # type: ignore[attr-defined]  # only some sessions have a choice
    keyed(session, models__use="ctrl+g", settings__change="ctrl+g", setting__keep="f5", palette__do="ctrl+g")
    async with run_app(app) as pilot:
        await pilot.press("ctrl+p", *"model", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, Palette) and "ctrl+g run" in screen_text(app))
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: isinstance(app.screen, ModelPicker) and "ctrl+g use it" in screen_text(app))
        await pilot.press(*"llama", "enter")
        await wait_until_idle(pilot)
        assert models.chosen == []
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: [name for _role, name in models.chosen] == ["llama3.2:latest"])
        await pilot.press("escape", "f6")
        await wait_for(pilot, lambda: isinstance(app.screen, SettingsForm) and "ctrl+g change" in screen_text(app))
        await pilot.press(*"vim", "enter", "ctrl+g")
        await wait_for(pilot, lambda: "F5 save" in screen_text(app))
        await pilot.press("escape")
        await wait_for(pilot, lambda: "ctrl+g change" in screen_text(app))


async def test_panels_obey_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path))
    app, session = app_for("streaming")
    session.grants.grants = [Grant(kind="run", pattern="make"), Grant(kind="run", pattern="ls")]
    session.checkpoints = kept = FakeCheckpoints()  # type: ignore[assignment]  # another double
    keyed(
        session, panel__close="z", panel__down="j", queue__withdraw="f5", queue__down="j", grants__revoke="m", trust__revoke="m",
        checkpoints__keep="f5", statistics__again="m", rewind__conversation="f5", history__use="f5",
    )  # fmt: skip
    async with run_app(app) as pilot:
        for number in range(2):
            session.push(e.MessageQueued(id=f"q{number}", text=f"message {number}"))
        await wait_until_rendered(pilot)
        app.composer.show_queue()
        await wait_for(pilot, lambda: isinstance(app.screen, QueuePanel) and "F5 withdraw" in screen_text(app))
        await pilot.press("x", "j", "f5")
        await wait_for(pilot, lambda: [one.id for one in app.view.queue] == ["q0"])
        await pilot.press("z")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press(*"/grants", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, GrantsPanel) and "m revoke" in screen_text(app))
        await pilot.press("x", "m", "z")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1 and len(session.grants.revoked) == 1)
        session.trust.folders = [FolderTrustState(folder="/w", trusted=True)]
        await pilot.press(*"/trust", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, TrustPanel) and "m revoke" in screen_text(app))
        await pilot.press("x", "m")
        await wait_for(pilot, lambda: session.trust.done == [("revoke", "/w")])
        await pilot.press(*"/checkpoints", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel) and "F5 keep" in screen_text(app))
        await pilot.press("k", "f5")
        await wait_for(pilot, lambda: kept.calls == [("keep", "run-3")])
        await pilot.press("alt+up")
        await wait_for(pilot, lambda: isinstance(app.screen, RewindPanel) and "F5 conversation" in screen_text(app))
        await pilot.press("t", "f5")
        await wait_for(pilot, lambda: kept.calls[1:] == [("rewind", "run-3", "conversation")])
        await wait_for(pilot, lambda: app.prompt.text == "tidy up")
        app.prompt.add_to_history(DraftText(text="earlier"))
        await pilot.press("ctrl+r")
        await wait_for(pilot, lambda: isinstance(app.screen, HistorySearch) and "F5 use it" in screen_text(app))
        await pilot.press("f5")
        await wait_for(pilot, lambda: app.prompt.text == "earlier")
        await pilot.press("ctrl+u")
        await pilot.press(*"/stats", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, Dashboard) and "m reload" in screen_text(app))
        await pilot.press("m", "q", "z", "f1")
        await wait_for(pilot, lambda: isinstance(app.screen, HelpPanel))
        panel = app.screen
        await wait_until_idle(pilot)
        await pilot.press("down", "j")
        await wait_for(pilot, lambda: panel.query_one("#body").scroll_offset.y == 1)
        await pilot.press("q", "z")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)


def test_a_key_of_every_place_is_pressed_here() -> None:
    named = set(re.findall(r"\b([a-z_]+?)__[a-z]\w*[=\"]", Path(__file__).read_text(encoding="utf-8")))
    assert {place.name for place in CONTEXTS.values() if place.actions} <= named
