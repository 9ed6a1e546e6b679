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


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("/mode agnt", "`agnt` is not a work mode; did you mean `agent`?"),
        ("/approvals aut", "`aut` is not an approval mode; did you mean `auto`?"),
        (
            "/approvals everything",
            "`everything` is not an approval mode; choose one of ask, auto-edit, auto, read-only",
        ),
        ("/theme drk", "`drk` is not a theme; did you mean `dark`?"),
        ("/plan acept", "`acept` is not a command for the plan; did you mean `accept`?"),
    ],
)
async def test_a_mistyped_argument_is_named(typed: str, says: str) -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press(*typed, "enter")
        await wait_for(pilot, lambda: says in screen_text(app))


async def test_a_hint_goes_with_the_next_command() -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press(*"/mdoel", "enter")
        await wait_for(pilot, lambda: "unknown command" in screen_text(app))
        app.prompt.text = ""
        await pilot.press(*"/search", "enter")
        await wait_until_idle(pilot)
        assert "unknown command" not in screen_text(app)


@pytest.mark.parametrize("size", [(60, 16), (40, 10), (60, 18)])
@pytest.mark.parametrize("typed", ["/", "@"])
async def test_the_list_leaves_the_composer_in_place(typed: str, size: tuple[int, int]) -> None:
    app, _session = app_for("empty")
    async with run_app(app, size) as pilot:
        await wait_until_idle(pilot)
        if typed == "@":
            app.prompt.text = "draft"
            app.composer.completion.picker.show("", [f"file{number}" for number in range(20)])
        else:
            await pilot.press(typed)
        await wait_until_idle(pilot)
        lines = screen_text(app).split("\n")
        assert lines[-2].strip().startswith("╰") and "enter send" in lines[-1]
        assert any("1 of " in line for line in lines)
        for _ in range(3):
            (app.composer.completion.picker if typed == "@" else app._menu).move(1)
            await wait_until_idle(pilot)
        assert sum(line.lstrip().startswith("›") for line in screen_text(app).split("\n")) == 1


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
