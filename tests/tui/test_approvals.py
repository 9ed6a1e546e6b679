from __future__ import annotations

import re

import msgspec
import pytest
from textual import events

from tests.nightly import crossed
from tests.scenes import build, load
from tests.tui.edits import edit_action, edit_app, long_texts
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
from tui_agent import events as e
from tui_agent.common.domain import (
    Answer,
    Diff,
    EditAction,
    Grant,
    Hunk,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    ToolResult,
)
from tui_agent.events import Record
from tui_agent.safety.policy import offered_grants
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.line_view import LinesView
from widgets.request_view import QUIET_SECONDS, RequestModal


def modal(app: TuiAgentApp) -> RequestModal:
    assert isinstance(app.screen, RequestModal)
    return app.screen


def closed(app: TuiAgentApp) -> bool:
    return not isinstance(app.screen, RequestModal)


@pytest.mark.parametrize(
    ("scene", "key", "scope"),
    [
        ("edit_asked", "a", Scope.ONCE),
        ("edit_asked", "s", Scope.SESSION),
        ("command_asked", "a", Scope.ONCE),
        ("command_asked", "s", Scope.SESSION),
        ("command_asked", "A", Scope.ALWAYS),
        ("trust", "a", Scope.ONCE),
    ],
)
async def test_a_key_approves_with_its_scope(scene: str, key: str, scope: Scope) -> None:
    app, session = app_for(scene)
    async with run_app(app) as pilot:
        request = modal(app).request.id
        await pilot.press(key)
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == [(request, Answer(verdict="approve", scope=scope))]


async def test_a_dialog_whose_answer_is_not_on_disk_yet_says_so_and_takes_no_more_keys() -> None:
    app, session = app_for("command_asked")
    async with run_app(app) as pilot:
        session.disk.clear()
        await pilot.press("a")
        await wait_for(pilot, lambda: "saving your answer" in screen_text(app))
        await pilot.press(*"and")
        assert len(session.answers) == 1 and not closed(app)
        session.disk.set()
        await wait_for(pilot, lambda: closed(app))
        assert app.prompt.text == "and"


async def test_only_offered_scopes_have_a_key() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        await pilot.press("A")
        assert session.answers == []
        assert "always" not in screen_text(app)


@pytest.mark.parametrize("scene", ["command_asked", "edit_asked"])
async def test_a_letter_that_has_no_function_in_this_dialog_goes_to_the_draft(scene: str) -> None:
    keys = "wxnpoevu" if scene == "command_asked" else "wxnpou"  # the only hunk of the edit can be edited
    app, session = app_for(scene)
    async with run_app(app) as pilot:
        for key in keys:
            await pilot.press(key)
            await wait_for(pilot, lambda: modal(app).armed)
        await wait_for(pilot, lambda: app.prompt.text == keys)
        assert session.answers == [] and not closed(app)


async def test_what_is_unusual_about_a_file_is_said_once() -> None:
    path = "/home/ada/.aws/credentials"
    reading = ReadAction(path=path, display=path, credentials=True)
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        session.push(e.ApprovalRequested(id="r1", action=reading, digest="d", why="This file holds credentials"))
        await wait_for(pilot, lambda: "reject, with a reason" in screen_text(app))
        assert "This file holds credentials" in screen_text(app)
        assert "known to contain secrets" not in screen_text(app)
    edit = msgspec.structs.replace(edit_action(), protected=True, outside=True)
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        why = "This file is protected: its change is always asked for"
        session.push(e.ApprovalRequested(id="r1", action=edit, digest="d", why=why))
        await wait_for(pilot, lambda: "reject, with a reason" in screen_text(app))
        text = screen_text(app)
        assert why in text and "This file is outside the workspace." in text and "and protected" not in text


async def test_always_shows_the_exact_rule() -> None:
    app, _session = app_for("command_asked")
    async with run_app(app):
        assert re.search("always +exactly the command above in this folder", screen_text(app))


@pytest.mark.parametrize(
    ("key", "scene"),
    crossed(
        ["enter", "space", "y", "tab"],
        {scene: scene for scene in ("edit_asked", "command_asked", "trust", "question")},
        whole=("enter",),
    ),
)
async def test_no_other_key_consents(key: str, scene: str) -> None:
    app, session = app_for(scene)
    async with run_app(app) as pilot:
        await pilot.press(key)
        await pilot.pause()
        assert session.answers == []
        assert not closed(app)


async def test_a_hundred_keys_typed_ahead_approve_nothing_and_end_up_in_the_draft() -> None:
    clock = FakeClock()
    app, session = app_for("command_asked", quiet_seconds=QUIET_SECONDS, clock=clock)
    typed = "yes and sAar then\n" * 6
    async with run_app(app) as pilot:
        for character in typed:
            clock.now += 0.1
            await pilot.press({"\n": "enter", " ": "space"}.get(character, character))
        assert session.answers == []
        assert session.sent == []
        assert app.prompt.text == typed
        assert not closed(app)


async def test_the_dialog_listens_after_stillness_counted_from_the_last_key() -> None:
    clock = FakeClock()
    app, session = app_for("command_asked", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        clock.now += QUIET_SECONDS - 0.01
        await pilot.press("a")
        clock.now += QUIET_SECONDS - 0.01
        await pilot.press("a")
        assert session.answers == []
        clock.arm_dialogs()
        await pilot.press("a")
        await wait_for(pilot, lambda: closed(app))
        assert len(session.answers) == 1
        assert app.prompt.text == "aa"


async def test_a_paste_never_answers() -> None:
    app, session = app_for("command_asked")
    async with run_app(app) as pilot:
        app.post_message(events.Paste("a\nA\n"))
        await wait_for(pilot, lambda: bool(app.prompt.text))
        assert session.answers == []
        assert app.prompt.text == "a\nA\n"


async def test_a_rejection_carries_its_reason() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        await pilot.press("r", *"too clever", "backspace", "backspace", "enter")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == [("q1", Answer(verdict="reject", text="too clev"))]


async def test_escape_leaves_the_reason_and_then_stops_the_run() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        await pilot.press("r", *"hm", "escape")
        assert session.interrupts == 0
        await pilot.press("escape")
        await wait_for(pilot, lambda: session.interrupts == 1)
        session.push(e.ApprovalAnswered(id="q1", answer=Answer(verdict="withdrawn", by="interrupt")))
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == []


async def test_ctrl_c_in_a_dialog_stops_the_run() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        await pilot.press("ctrl+c")
        await wait_for(pilot, lambda: session.interrupts == 1)
        assert session.answers == []


async def test_a_dialog_closes_when_somebody_else_answers() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        session.push(e.ApprovalAnswered(id="q1", answer=Answer(verdict="approve", by="web")))
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == []


async def test_two_requests_are_asked_one_after_the_other() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        action = build.TESTS
        session.push(e.ApprovalRequested(id="q9", action=action, digest="d", why=""))
        await wait_until_rendered(pilot)
        assert modal(app).request.id == "q1"
        await pilot.press("a")
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and modal(app).request.id == "q9")
        await pilot.press("r", "enter")
        await wait_for(pilot, lambda: closed(app))
        assert [key for key, _answer in session.answers] == ["q1", "q9"]


def long_diff(lines: int) -> list[Record]:
    scene = build.Scene().opened().ask("big").reply()
    call = scene.call("write_file", path="big.txt")
    scene.end("", call).start(call, "big.txt")
    hunk = Hunk(old_start=0, old_count=0, new_start=1, new_count=lines, lines=tuple(f"+line {n}" for n in range(lines)))
    diff = Diff(path="big.txt", kind="create", hunks=(hunk,), added=lines)
    action = EditAction(path="/w/big.txt", display="big.txt", diff=diff, before=None, after="1" * 64)
    return scene.request(action, "ask").records


async def test_what_does_not_fit_must_be_seen_to_its_end_before_it_can_be_approved() -> None:
    app, session = app_for(long_diff(60))
    async with run_app(app, (60, 20)) as pilot:
        await pilot.press("a")
        assert session.answers == []
        assert "changed lines not seen yet" in screen_text(app)
        await pilot.press("pagedown", "end")
        await pilot.pause()
        assert "line 59" in screen_text(app)
        await pilot.press("a")
        await pilot.pause()
        assert session.answers == []
        await read_through(pilot)
        await pilot.press("a")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers[0][1].verdict == "approve"


async def test_only_the_key_that_shows_the_rest_is_named_until_everything_was_seen() -> None:
    app, session = edit_app(edit_action(*long_texts(60)))
    async with run_app(app, (80, 24)) as pilot:
        text = screen_text(app)
        assert "a  show the rest" in text and "for this session" not in text and "always" not in text
        body = modal(app).body.size
        await read_through(pilot)
        await wait_for(pilot, lambda: "for this session" in screen_text(app))
        assert "always" in screen_text(app) and modal(app).body.size == body
        await pilot.press("end", "s")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == [("q1", Answer(verdict="approve", scope=Scope.SESSION))]


async def test_the_end_of_a_text_is_told_without_the_names_of_keys() -> None:
    app, _session = edit_app(edit_action(*long_texts(60)))
    async with run_app(app, (80, 24)) as pilot:
        await read_through(pilot)
        await pilot.press("pageup")
        await wait_for(pilot, lambda: "↓ pgdn end" in screen_text(app) and "more lines below" in screen_text(app))
        await pilot.press("end")
        await wait_for(pilot, lambda: "no more lines below" in screen_text(app))
        assert "pgdn" not in screen_text(app)


async def test_what_fits_after_all_can_be_approved_at_once() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app, (80, 24)) as pilot:
        assert "def main" in screen_text(app)
        assert "below" not in screen_text(app)
        await pilot.press("a")
        await wait_for(pilot, lambda: closed(app))
        assert len(session.answers) == 1


async def test_every_line_of_a_long_diff_is_reached_by_keys_at_60x20() -> None:
    app, _session = app_for(long_diff(120))
    seen: set[str] = set()
    async with run_app(app, (60, 20)) as pilot:
        for _page in range(40):
            seen.update(row.split("+ ")[-1].strip() for row in screen_text(app).split("\n") if "+ line" in row)
            await pilot.press("down", "down", "down", "down")
            await pilot.pause()
    assert {one.split("  ")[0].rstrip(" │▁▂▃▄▅▆▇█").strip() for one in seen} >= {f"line {n}" for n in range(120)}


async def test_a_command_is_shown_whole_and_with_what_hides_in_it() -> None:
    app, _session = app_for("command_hostile")
    async with run_app(app):
        text = screen_text(app)
        for part in (
            "⟨200 spaces⟩; rm -rf ~",
            "<U+202E>",
            "<U+200B>",
            "<U+001B>[2J",
            "[@click=app.quit]x[/]",
            "PATH=/tmp/bin",
        ):
            assert part in text
        assert "critical" in text


async def test_a_command_of_20_kB_is_reachable_to_its_last_character() -> None:
    scene = build.Scene().opened().ask("go").reply()
    call = scene.call("run_terminal_command", command="x")
    command = "echo " + "x" * 20_000 + "END"
    scene.end("", call).start(call, "echo")
    scene.request(RunAction(command=command, cwd="/w"), "ask")
    app, session = app_for(scene.records)
    async with run_app(app, (120, 40)) as pilot:
        await pilot.press("a")
        assert session.answers == []
        await read_through(pilot)
        body = modal(app).query_one("#body", LinesView)
        assert "END" in "".join(line.text.strip() for line in body._lines)
        await pilot.press("a")
        await wait_for(pilot, lambda: closed(app))
        assert len(session.answers) == 1


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("2",), "one object per line (NDJSON)"),
        ((*"both, 2 files", "enter"), "both, 2 files"),
        (("x", "2", "left", "backspace", "enter"), "2"),
    ],
)
async def test_a_question_is_answered_by_number_or_in_own_words(keys: tuple[str, ...], answer: str) -> None:
    app, session = app_for("question")
    async with run_app(app) as pilot:
        await pilot.press(*keys)
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == [("q1", Answer(verdict="reply", text=answer))]


async def test_a_question_can_be_declined() -> None:
    app, session = app_for("question")
    async with run_app(app) as pilot:
        await pilot.press("ctrl+d")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers[0][1].verdict == "reject"


async def test_a_question_takes_no_key_before_it_listens() -> None:
    clock = FakeClock()
    app, session = app_for("question", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app) as pilot:
        await pilot.press(*"12 go", "enter")
        assert session.answers == []
        assert app.prompt.text == "12 go\n"
        clock.arm_dialogs()
        await pilot.press(*"ok", "enter")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers[0][1].text == "ok"


async def test_old_requests_of_a_replayed_session_open_no_dialog() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app):
        assert closed(app)
    records = load("edit_asked")
    resumed = build.Scene()
    resumed.records = list(records)
    resumed.opened(resumed=True)
    app, _session = app_for(resumed.records)
    async with run_app(app):
        assert closed(app)
        assert "Session resumed" in screen_text(app)


async def test_escape_does_not_trust_a_folder() -> None:
    app, session = app_for("trust")
    async with run_app(app) as pilot:
        await pilot.press("escape")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == [("t1", Answer(verdict="reject"))]


async def test_what_was_asked_before_this_process_is_not_asked_again() -> None:
    app, session = app_for("edit_asked")
    session.replay_end = len(session.records)
    async with run_app(app) as pilot:
        (request,) = app.view.pending
        assert closed(app)  # all of the past is painted
        withdrawn = Answer(verdict="withdrawn", by="an earlier process")
        session.push(e.ApprovalAnswered(id=request, answer=withdrawn))
        await wait_until_rendered(pilot)
        assert closed(app) and not app.view.pending


LONG = "cat > f.py <<'EOF'\n" + "\n".join(f"line {n}" for n in range(60)) + "\nEOF"


async def test_at_sixty_by_sixteen_all_choices_of_a_command_take_two_lines() -> None:
    app, session = app_for("command_asked")
    async with run_app(app, (60, 16)) as pilot:
        await wait_for(pilot, lambda: "approve once" in screen_text(app))
        lines = [line.strip("│ ") for line in screen_text(app).split("\n")]
        first = lines.index("a approve once   s this session   A always   r reject")
        assert lines[first + 1] == "s, A: exactly the command above in this folder"
        assert "esc stops the run" in lines[first + 2]
        await pilot.press("A")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers[0][1].scope is Scope.ALWAYS


async def test_a_rule_for_another_folder_names_it() -> None:
    app, session = app_for("empty", quiet_seconds=0)
    async with run_app(app, (100, 30)) as pilot:
        action = RunAction(command="make", cwd="/work/a", severity=Severity.MEDIUM)
        grants = (Grant(kind="run", pattern="make", cwd="/work/b", scope=Scope.SESSION),)
        session.push(e.ApprovalRequested(id="r1", action=action, digest="d", why="ask", grants=grants))
        await wait_for(pilot, lambda: "exactly the command above in /work/b" in screen_text(app))


@pytest.mark.parametrize("size", [(60, 16), (100, 30)])
async def test_a_long_command_leaves_its_keys_in_sight(size: tuple[int, int]) -> None:
    app, session = app_for("empty", quiet_seconds=0)
    async with run_app(app, size=size) as pilot:
        action = RunAction(command=LONG, cwd="/work/a", severity=Severity.MEDIUM)
        grants = offered_grants(action, exactly=False)
        session.push(e.ApprovalRequested(id="r1", action=action, digest="d", why="ask", grants=grants))
        await wait_for(pilot, lambda: "lines not seen yet" in screen_text(app))
        shown = screen_text(app)
        assert "reject, with a reason" in shown and "esc stops the run" in shown
        await read_through(pilot)
        await pilot.press("end")
        await wait_for(pilot, lambda: "no more lines below" in screen_text(app))
        rule = "exactly the command above in this folder"
        assert rule in " ".join(screen_text(app).replace("│", " ").split())
        await pilot.press("s")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers == [("r1", Answer(verdict="approve", scope=Scope.SESSION))]


@pytest.mark.parametrize("size", [(60, 16), (100, 30)])
async def test_all_of_a_long_question_is_in_reach(size: tuple[int, int]) -> None:
    app, session = app_for("empty", quiet_seconds=0)
    async with run_app(app, size=size) as pilot:
        asked = "\n".join(f"{n}. there is something about part {n}" for n in range(40))
        options = ("one " * 60, "two")
        session.push(e.QuestionAsked(id="q1", question=f"{asked}\nWhich way?", options=options))
        await wait_for(pilot, lambda: "more lines below" in screen_text(app))
        shown = screen_text(app)
        assert "0. there is" in shown and "your answer" in shown and "esc stops the run" in shown
        seen = shown
        for _page in range(30):
            if "no more lines below" in seen:
                break
            await pilot.press("pagedown")
            await wait_until_rendered(pilot)
            shown += (seen := screen_text(app))
        assert all(f"{n}. there is" in shown for n in range(40))
        assert "Which way?" in shown and "2  two" in seen
        await pilot.press("x", "up", "pageup", "y", "enter")
        await wait_for(pilot, lambda: closed(app))
        assert session.answers[0][1].text == "xy"


@pytest.mark.parametrize(("key", "verdict", "text"), [("2", "reply", "Restore it anyway"), ("escape", "reject", "")])
async def test_a_question_that_only_options_answer_has_no_field(key: str, verdict: str, text: str) -> None:
    options = ("Leave it unchanged", "Restore it anyway")
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        asked = e.QuestionAsked(id="q1", question="Changed", options=options, otherwise="leaves the file unchanged")
        session.push(asked)
        await wait_for(pilot, lambda: not closed(app) and modal(app).armed)
        shown = screen_text(app)
        assert "esc leaves the file unchanged" in shown and "your answer" not in shown and "the run" not in shown
        await pilot.press("r", "enter", "3")
        await wait_for(pilot, lambda: "r" in app.prompt.text and modal(app).armed)
        assert session.answers == []
        await pilot.press(key)
        await wait_for(pilot, lambda: closed(app))
        ((_id, answer),) = session.answers
        assert answer.verdict == verdict and text in answer.text


async def test_a_question_that_was_answered_keeps_its_lines_and_is_cut_where_it_is_long() -> None:
    scene = build.Scene().opened().ask("go").reply()
    call = scene.call("ask_user", question="?")
    scene.end("", call).start(call, "?", reads_only=True)
    scene.emit(e.QuestionAsked(id="q1", question="\n".join(f"{n}. is a line" for n in range(40))))
    scene.emit(e.QuestionAnswered(id="q1", answer=Answer(verdict="reply", text="the first")))
    scene.finish(call, ToolResult(success=True, data="the first"), 3)
    app, _session = app_for(scene.records)
    async with run_app(app, size=(100, 30)) as pilot:
        lines = [one.strip(" │▏") for one in screen_text(app).splitlines()]
        assert {"0. is a line", "7. is a line", "… 32 more lines · ctrl+o", "answer: the first"} <= set(lines)
        await pilot.press("ctrl+o")
        await wait_for(pilot, lambda: "39. is a line" in screen_text(app))


async def test_an_empty_field_never_approves_even_if_scrolling_has_made_the_word_unnecessary() -> None:
    app, session = app_for("answered")
    async with run_app(app, (120, 40)) as pilot:
        session.push(e.ApprovalRequested(id="q1", action=edit_action(*long_texts(620)), digest="d", why="ask"))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen._is_fitted)
        await wait_until_rendered(pilot)
        dialog = modal(app)
        assert isinstance(dialog, ApprovalModal)
        while dialog.unseen() > 510 and dialog._needed_word():
            await pilot.press("pagedown")
            await wait_until_idle(pilot)
        await pilot.press("a")
        await wait_until_idle(pilot)
        assert dialog.typing_word
        x, y = dialog.body.region.x + 5, dialog.body.region.y + 3
        while dialog._needed_word():
            app.post_message(events.MouseScrollDown(None, x, y, 0, 0, 0, False, False, False, x, y))
            await wait_until_idle(pilot)
        assert 'Type "unread"' in screen_text(app)
        await pilot.press("enter")
        await wait_until_idle(pilot)
        assert session.answers == [] and not dialog.typing_word  # the keys are back: what is left can be read
