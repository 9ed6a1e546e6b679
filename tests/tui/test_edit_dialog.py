from __future__ import annotations

from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tests.tui.edits import NEW, OLD, TOKEN, edit_action, edit_app, edit_dialog, long_texts
from tests.tui.kit import FakeClock, app_for, read_through, run_app, screen_text, wait_for, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Answer, Scope
from tui_agent.common.hunks import new_side_text
from tui_agent.text import SecretMask
from tui_agent.tui.app import TuiAgentApp
from widgets.diff_view import DiffView
from widgets.inputs import LineInput
from widgets.request_view import QUIET_SECONDS, RequestModal

EDIT = edit_action()
SECOND = new_side_text(EDIT.diff.hunks[1])


async def closed(pilot: Pilot[int], app: TuiAgentApp) -> None:
    await wait_for(pilot, lambda: not isinstance(app.screen, RequestModal))


@pytest.mark.parametrize(("key", "scope"), [("a", Scope.ONCE), ("s", Scope.SESSION), ("A", Scope.ALWAYS)])
async def test_a_key_approves_with_its_scope_and_shows_the_exact_rule(key: str, scope: Scope) -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        text = screen_text(app)
        assert "edit src/export.py" in text and "edit src/*.py" in text
        await pilot.press(key)
        await closed(pilot, app)
        assert session.answers == [("q1", Answer(verdict="approve", scope=scope))]


async def test_a_hunk_that_is_left_out_is_not_in_the_answer() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("n", "x")
        await pilot.pause()
        text = screen_text(app)
        assert "skipped" in text and "[ ] hunk 2 of 2" in text and "[x] hunk 1 of 2" in text
        assert "approve 1 of 2 hunks" in text and "for this session" not in text
        await pilot.press("s", "A")
        assert session.answers == []
        await pilot.press("a")
        await closed(pilot, app)
        (answer,) = [answer for _id, answer in session.answers]
        assert answer.data == {"hunks": [0], "edits": {}} and answer.scope is Scope.ONCE


async def test_a_hunk_taken_again_makes_the_whole_edit() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("n", "x", "x", "a")
        await closed(pilot, app)
        assert session.answers == [("q1", Answer(verdict="approve"))]


async def test_with_every_hunk_left_out_nothing_can_be_approved() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("x", "n", "x", "a", "s", "A", "enter", "space")
        assert session.answers == []
        assert "approve" not in screen_text(app).replace("approvals", "")
        await pilot.press("r", "enter")
        await closed(pilot, app)
        assert session.answers[0][1].verdict == "reject"


async def test_n_and_p_go_from_hunk_to_hunk_and_stop_at_the_ends() -> None:
    app, _session = edit_app()
    async with run_app(app, (80, 24)) as pilot:
        places = [edit_dialog(app).current]
        for key in ("n", "n", "p", "p"):
            await pilot.press(key)
            await pilot.pause()
            places.append(edit_dialog(app).current)
            assert f"▸ [x] hunk {places[-1] + 1} of 2" in screen_text(app)
        assert places == [0, 1, 1, 0, 0]


async def test_the_keys_are_for_a_hunk_in_view() -> None:
    app, _session = edit_app(edit_action(*long_texts(60), context=0))
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("end")
        await pilot.pause()
        view = edit_dialog(app).body
        assert edit_dialog(app).current in view.visible_hunks()
        assert "▸" in screen_text(app)
        await pilot.press("home")
        await pilot.pause()
        assert edit_dialog(app).current in view.visible_hunks()


async def test_v_puts_the_sides_beside_each_other_and_back() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("v")
        await pilot.pause()
        row = next(row for row in screen_text(app).split("\n") if "print(export(rows))" in row)
        assert "print(export(rows, options.fmt))" in row
        assert edit_dialog(app).body.side_by_side
        await pilot.press("v")
        await pilot.pause()
        row = next(row for row in screen_text(app).split("\n") if "print(export(rows))" in row)
        assert "options.fmt" not in row
        assert session.answers == []


async def test_below_a_hundred_columns_there_is_one_column() -> None:
    app, _session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("v")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not edit_dialog(app).body.side_by_side
        assert "side by side" not in screen_text(app) and "one column" not in screen_text(app)
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert edit_dialog(app).body.side_by_side


async def test_a_late_resize_counts_no_line_as_seen_that_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = DiffView.on_event

    async def on_event(view: DiffView, event: events.Event) -> None:
        if not (isinstance(event, events.Resize) and view.virtual_size.width):  # only the first one is handled
            await handle(view, event)

    monkeypatch.setattr(DiffView, "on_event", on_event)
    app, _session = app_for("edit_asked")
    async with run_app(app, (60, 20)) as pilot:
        await wait_for(pilot, lambda: edit_dialog(app).armed)
        body = edit_dialog(app).body
        assert body.virtual_size.width == body.columns
        assert edit_dialog(app).unseen() == 3


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
@pytest.mark.parametrize("split", [False, True])
async def test_every_line_of_a_long_diff_is_reached_in_both_views(size: tuple[int, int], split: bool) -> None:
    old, new = long_texts(80)
    app, _ = edit_app(edit_action(old, new))
    seen: set[int] = set()

    def look() -> None:
        text = screen_text(app)
        seen.update(n for n in range(80) if f"function_{n}(" in text)

    async with run_app(app, size) as pilot:
        if split:
            await pilot.press("v")
            await pilot.pause()
        assert edit_dialog(app).body.side_by_side is (split and size[0] >= 100)
        look()
        while edit_dialog(app).unseen() or edit_dialog(app).body.lines_below:
            await pilot.press("pagedown")
            await pilot.pause()
            look()
        assert seen == set(range(80))
        await pilot.press("a")
        await closed(pilot, app)


# --- editing before it is applied ---


async def edited(pilot: Pilot[int], *keys: str) -> None:
    """Press `e`, then keys once the field listens."""
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await pilot.press("e")
    await wait_for(pilot, lambda: app.screen.focused is edit_dialog(app).field)
    await pilot.press(*keys)
    await pilot.pause()


async def test_what_was_typed_is_shown_again_and_then_approved() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("n")
        await edited(pilot, *["down"] * 4, "end", "enter", *"# end", "ctrl+s")
        text = screen_text(app)
        assert "+ # end" in text and "edited by you" in text and "with your text" in text
        assert session.answers == []
        await read_through(pilot)
        await pilot.press("a")
        await closed(pilot, app)
        (answer,) = [answer for _id, answer in session.answers]
        assert answer.data is not None and answer.data["hunks"] == [0, 1]
        (text,) = answer.data["edits"].values()
        assert text.startswith(SECOND) and text.endswith("# end")


@pytest.mark.parametrize(
    "keys", [("a",), ("A", "s", "a"), ("enter",), ("space",), (*"aAsrw yes", "enter", "a"), ("tab", "a")]
)
async def test_no_key_in_the_field_approves(keys: tuple[str, ...]) -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await edited(pilot, *keys)
        assert session.answers == [] and edit_dialog(app).editing
        await pilot.press("escape")
        await pilot.pause()
        assert not edit_dialog(app).editing and edit_dialog(app).choice.selects_all(EDIT.diff)
        assert session.answers == [] and session.interrupts == 0


async def test_keys_typed_on_after_the_field_go_to_the_draft_and_approve_nothing() -> None:
    clock = FakeClock()
    app, session = edit_app(quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        clock.arm_dialogs()
        await edited(pilot, "x", "ctrl+s", *"aAs", "enter", "a")
        assert session.answers == []
        assert app.prompt.text == "aAs\na"
        clock.arm_dialogs()
        await pilot.press("a")
        await closed(pilot, app)
        assert session.answers[0][1].data is not None


async def test_keys_typed_on_after_a_dropped_text_or_reason_approve_nothing() -> None:
    clock = FakeClock()
    app, session = edit_app(quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        clock.arm_dialogs()
        await edited(pilot, "x", "escape", "a")
        assert session.answers == [] and app.prompt.text == "a"
        clock.arm_dialogs()
        await pilot.press("r")
        await wait_for(pilot, lambda: isinstance(app.focused, LineInput))
        await pilot.press("n", "escape", "a")
        await pilot.pause()
        assert session.answers == [] and app.prompt.text == "aa"


async def test_keys_typed_ahead_decide_nothing_and_change_nothing() -> None:
    clock = FakeClock()
    app, session = edit_app(quiet_seconds=QUIET_SECONDS, clock=clock)
    typed = "yes x e aAsnpvuwr " * 3
    async with run_app(app) as pilot:
        for character in typed:
            clock.now += 0.1
            await pilot.press({" ": "space"}.get(character, character))
        assert session.answers == [] and app.prompt.text == typed
        modal = edit_dialog(app)
        assert modal.choice.selects_all(EDIT.diff) and not modal.editing and not modal.typing_reason
        assert modal.current == 0 and not modal.body.split


@pytest.mark.parametrize("key", ["space", "enter", "y", "tab", "ctrl+s", "f1"])
async def test_no_other_key_consents(key: str) -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await pilot.press("x", key)
        await pilot.pause()
        assert session.answers == []


async def test_a_paste_in_the_field_is_typed_and_nothing_hides_in_it() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await edited(pilot, "ctrl+home")
        app.post_message(events.Paste("a\r\nA\x1b[2J\u202e"))
        await wait_for(pilot, lambda: edit_dialog(app).field.text.startswith("a\nA"))
        assert app.prompt.text == "" and session.answers == []


async def test_the_same_text_is_no_edit() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await edited(pilot, "x", "backspace", "ctrl+s")
        await pilot.press("a")
        await closed(pilot, app)
        assert session.answers == [("q1", Answer(verdict="approve"))]


async def test_a_long_edited_hunk_must_be_seen_to_its_end_again() -> None:
    old, new = long_texts(60)
    app, session = edit_app(edit_action(old, new))
    async with run_app(app, (80, 24)) as pilot:
        await read_through(pilot)
        await edited(pilot, "x", "ctrl+s")
        await wait_for(pilot, lambda: edit_dialog(app).unseen() > 0)
        await pilot.press("a")
        assert session.answers == []
        await read_through(pilot)
        await pilot.press("a")
        await closed(pilot, app)


async def test_a_new_file_is_edited_as_a_whole() -> None:
    app, session = edit_app(edit_action(None, "one\ntwo\n"))
    async with run_app(app) as pilot:
        assert "hunk" not in screen_text(app)
        await edited(pilot, "X", "ctrl+s", "a")
        await closed(pilot, app)
        assert session.answers[0][1].data == {"hunks": [0], "edits": {"0": "Xone\ntwo"}}


@pytest.mark.parametrize(
    "action", [edit_action(splittable=False), edit_action(OLD, NEW.replace("import json", "import json\x1b[2J\u202e"))]
)
async def test_what_can_not_be_edited_is_not_offered(action: Any) -> None:
    app, session = edit_app(action)
    async with run_app(app) as pilot:
        assert "edit it" not in screen_text(app)
        await pilot.press("e")
        await pilot.pause()
        assert not edit_dialog(app).editing and session.answers == []


# --- the file changed on disk ---


async def void(pilot: Pilot[int], session: Any) -> None:
    session.push(e.ApprovalVoided(id="q1", reason="changed on disk"))
    await wait_until_rendered(pilot)


async def test_a_void_approval_says_so_and_takes_no_approval() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await void(pilot, session)
        text = screen_text(app)
        assert "changed on disk while this dialog was open" in text and "approve once" not in text
        await pilot.press("a", "s", "A", "x", "e", "enter", "space")
        assert session.answers == []
        await pilot.press("w")
        await closed(pilot, app)
        assert session.answers == [("q1", Answer(verdict="withdrawn"))]


async def test_a_void_approval_can_be_rejected() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await void(pilot, session)
        await pilot.press("r", *"no", "enter")
        await closed(pilot, app)
        assert session.answers == [("q1", Answer(verdict="reject", text="no"))]


async def test_a_key_on_its_way_when_it_becomes_void_goes_to_the_draft() -> None:
    clock = FakeClock()
    app, session = edit_app(quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        clock.arm_dialogs()
        await void(pilot, session)
        await pilot.press("w")
        await pilot.pause()
        assert session.answers == [] and app.prompt.text == "w"


async def test_a_text_that_was_being_typed_when_it_became_void_approves_nothing() -> None:
    app, session = edit_app()
    async with run_app(app) as pilot:
        await edited(pilot, "x")
        await void(pilot, session)
        assert "changed on disk" in screen_text(app) and edit_dialog(app).editing
        await pilot.press("ctrl+s", "a")
        await pilot.pause()
        assert session.answers == []


# --- secrets ---


async def test_secrets_are_hidden_until_they_are_asked_for() -> None:
    action = edit_action(OLD, NEW.replace('"json":', f'"{TOKEN}":'))
    app, session = edit_app(action, mask=SecretMask({"GITHUB_TOKEN": TOKEN}))
    async with run_app(app) as pilot:
        assert TOKEN not in screen_text(app) and "⟨secret" in screen_text(app)
        await pilot.press("e")
        await pilot.pause()
        assert not edit_dialog(app).editing
        await pilot.press("u")
        await pilot.pause()
        assert TOKEN in screen_text(app)
        await pilot.press("u")
        await pilot.pause()
        assert TOKEN not in screen_text(app)
        await pilot.press("n", "x", "a")
        await closed(pilot, app)
        assert session.answers[0][1].data == {"hunks": [0], "edits": {}}


async def test_a_hunk_without_the_secret_is_edited_while_the_secret_stays_hidden() -> None:
    action = edit_action(OLD, NEW.replace('"json":', f'"{TOKEN}":'))
    app, session = edit_app(action, mask=SecretMask({"GITHUB_TOKEN": TOKEN}))
    async with run_app(app) as pilot:
        await pilot.press("n")
        await edited(pilot, "X", "ctrl+s")
        assert TOKEN not in screen_text(app) and "⟨secret" in screen_text(app)
        await pilot.press("a")
        await closed(pilot, app)
        data = session.answers[0][1].data
        assert data is not None and data["edits"] == {"1": "X" + SECOND}
