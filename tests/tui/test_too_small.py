from __future__ import annotations

import pytest
from textual import events

from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_plan_review import shown
from tui_agent import events as e
from tui_agent.common.domain import Answer
from tui_agent.tui.app import TuiAgentApp
from widgets.request_view import RequestModal


def dialog_lines(app: TuiAgentApp) -> list[str]:
    lines = screen_text(app).split("\n")
    return lines[next(number for number, line in enumerate(lines) if line.startswith("╭")) :]


@pytest.mark.parametrize("size", [(39, 12), (60, 9), (20, 5), (10, 3)])
async def test_below_forty_by_ten_there_is_one_sentence_and_no_answer(size: tuple[int, int]) -> None:
    app, session = app_for("command_asked")
    async with run_app(app, (80, 24)) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_until_idle(pilot)
        before = dialog_lines(app)
        await pilot.resize_terminal(*size)
        await wait_until_idle(pilot)
        words = " ".join(screen_text(app).split())
        assert words.startswith("Too small: at least 40×10." if size[0] > 10 else "Too small")
        assert "pytest" not in words
        assert size[0] < 30 or "Text goes to your message; other keys are ignored, except ctrl+c." in words
        await pilot.press("a", "enter", "r", "s", "A", "escape", "x", "backspace", "tab")
        assert session.answers == [] and session.interrupts == 0
        await pilot.resize_terminal(80, 24)
        await wait_until_idle(pilot)
        assert app.prompt.text == "arsA"
        assert dialog_lines(app)[:-1] == before[:-1] and "your message: arsA" in dialog_lines(app)[-1]
        await pilot.press("a")
        await wait_for(pilot, lambda: session.answers == [("q2", Answer(verdict="approve"))])


async def test_what_is_typed_unseen_is_added_to_the_draft_and_decides_nothing() -> None:
    app, session = app_for("answered")
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press(*"draft")
        await pilot.resize_terminal(30, 8)
        await wait_until_idle(pilot)
        await pilot.press(*"x", "enter")
        app.post_message(events.Paste("pasted"))
        session.push(e.QuestionAsked(id="q9", question="Which way?", options=("this", "that")))
        await wait_until_rendered(pilot)
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal))
        await wait_until_idle(pilot)
        assert "Too small" in screen_text(app) and "Which way" not in screen_text(app)
        await pilot.press("1")
        assert session.answers == [] and session.sent == []
        await pilot.resize_terminal(40, 10)
        await wait_until_idle(pilot)
        assert "Which way?" in screen_text(app)
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        frame = app.screen.query_one("#dialog")
        frame.scroll_to(y=1, animate=False, immediate=True)  # as showing its field in a smaller layout does
        await wait_for(pilot, lambda: frame.scroll_offset.y == 0)
        await pilot.press("1")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        await wait_until_idle(pilot)
        assert app.prompt.text == "draftxpasted1"
        assert "draftxpasted1" in screen_text(app) and "Too small" not in screen_text(app)


async def test_at_sixty_by_sixteen_an_edit_begins_with_its_changes_and_its_choices_take_one_line() -> None:
    app, _session = app_for("edit_asked")
    async with run_app(app, (60, 16)) as pilot:
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_until_idle(pilot)
        lines = screen_text(app).split("\n")
        changed = [number for number, line in enumerate(lines) if " − " in line or " + " in line]
        assert changed[0] <= 5 and len(changed) >= 4
        assert sum("show the rest" in line and "reject, with a reason" in line for line in lines) == 1


async def test_at_sixty_by_sixteen_a_plan_begins_with_its_steps() -> None:
    app, _session = app_for("plan_waits")
    async with run_app(app, (60, 16)) as pilot:
        await shown(pilot)
        text = screen_text(app)
        for number, words in enumerate(("Read the exporter", "Let export()", "Add the --json", "Test both"), 1):
            assert f"{number} {words}" in text
        assert "a show the rest" in text and "esc stop" in text.split("\n")[-1]
        await pilot.resize_terminal(80, 40)
        await wait_until_idle(pilot)
        assert "Give export() a JSON branch" in screen_text(app)
