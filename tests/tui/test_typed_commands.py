"""What starts with `/` and is no message never reaches the model."""

from __future__ import annotations

import pytest

from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("/mdoel", "unknown command /mdoel; did you mean /model?"),
        ("/udno", "unknown command /udno; did you mean /undo?"),
        ("/xyzzy now", "unknown command /xyzzy; /help lists them."),
    ],
)
async def test_a_mistyped_command_stays_in_the_composer(typed: str, says: str) -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        for send in ("enter", "ctrl+t"):
            app.prompt.text = ""
            await pilot.press(*typed, send)
            await wait_for(pilot, lambda: says in screen_text(app))
            assert app.prompt.text == typed
        assert not session.sent


async def test_a_known_command_acts_though_the_menu_is_closed() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"/search", "escape", "enter")
        await wait_until_idle(pilot)
        assert app.prompt.text == "" and not session.sent
        assert app.query_one("SearchBar").display


async def test_a_leading_space_and_a_path_are_messages() -> None:
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        for text in (" /mdoel is a word", "/usr/bin is full"):
            await pilot.press(*text, "enter")
            await wait_until_idle(pilot)
        assert [each[0] if isinstance(each, tuple) else each for each in session.sent] == [
            " /mdoel is a word",
            "/usr/bin is full",
        ]
