from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle
from tui_agent.settings import LoadedSettings, Settings
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.vim import MOTIONS

TEXT = "one two\nthree  four.five\n\nlast"

NAMES = {"$": "dollar_sign", "^": "circumflex_accent", " ": "space", "~": "tilde", ".": "full_stop"}

CASES = [
    ("gg0|wx", "one wo\nthree  four.five\n\nlast", (0, 4)),
    ("gg|dw", "two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|2dw", "\nthree  four.five\n\nlast", (0, 0)),
    ("gg|dd", "three  four.five\n\nlast", (0, 0)),
    ("gg|2dd", "\nlast", (0, 0)),
    ("G|dd", "one two\nthree  four.five\n", (2, 0)),
    ("gg|yyp", "one two\none two\nthree  four.five\n\nlast", (1, 0)),
    ("gg|yyjP", "one two\none two\nthree  four.five\n\nlast", (1, 0)),
    ("ggj|wD", "one two\nthree  \n\nlast", (1, 6)),
    ("gg|ldwP", TEXT, (0, 3)),
    ("gg|rX", "Xne two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|2rX", "XXe two\nthree  four.five\n\nlast", (0, 1)),
    ("gg|$x", "one tw\nthree  four.five\n\nlast", (0, 5)),
    ("gg|djuu", TEXT, None),
    ("gg|d$j", "\nthree  four.five\n\nlast", (1, 0)),
    ("ggj|ede", "one two\nthre.five\n\nlast", (1, 4)),
    ("gg|99999999dl", "\nthree  four.five\n\nlast", (0, 0)),
]


async def put(app: TuiAgentApp, pilot: Pilot[int], text: str) -> None:
    app.prompt.text = text
    app.prompt.move_cursor(app.prompt.document.end)
    await wait_until_idle(pilot)


def keys_of(text: str) -> list[str]:
    return [NAMES.get(letter, letter) for letter in text if letter != "|"]


async def test_the_keys_of_vi() -> None:
    app, session = app_for("answered")
    session.settings = LoadedSettings(settings=Settings(vim=True))  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app) as pilot:
        await pilot.press(*"typed", "escape")
        assert app.prompt.border_subtitle == "normal"
        for keys, text, cursor in CASES:
            await put(app, pilot, TEXT)
            app.prompt.history.clear()
            await pilot.press(*keys_of(keys))
            assert (keys, app.prompt.text) == (keys, text)
            assert cursor is None or (keys, app.prompt.cursor_location) == (keys, cursor)
        await put(app, pilot, "one two")
        await pilot.press(*"0cwnew", "escape", *"A!", "escape", *"ofoo", "escape", *"Ibar ", "enter")
        await wait_for(pilot, lambda: session.sent == [("new two!\nbar foo", False)])
        assert app.prompt.border_subtitle == ""  # typing again
        await pilot.press(*"/theme", "escape", "escape", "escape")  # the list closes first
        assert app.prompt.text == "/theme" and app.prompt.border_subtitle == "normal"
        app.preferences.apply(LoadedSettings(settings=Settings()))
        await pilot.press("x")
        assert "x" in app.prompt.text and app.prompt.border_subtitle == ""
        assert "normal" not in screen_text(app)


async def test_escape_stops_a_run_from_the_second_press_on() -> None:
    app, session = app_for("streaming")
    session.settings = LoadedSettings(settings=Settings(vim=True))  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app) as pilot:
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert session.interrupts == 0
        await pilot.press("escape")
        await wait_for(pilot, lambda: session.interrupts == 1)


@given(st.text("ab .\n", max_size=12), st.data(), st.sampled_from(sorted(MOTIONS)), st.integers(1, 5))
def test_every_motion_stays_in_the_text(text: str, data: st.DataObject, keys: str, count: int) -> None:
    at = data.draw(st.integers(0, len(text)))
    assert 0 <= MOTIONS[keys](text, at, count).to <= len(text)


@pytest.mark.parametrize(
    ("keys", "at", "to"),
    [
        ("w", 0, 4),
        ("w", 4, 8),
        ("e", 0, 2),
        ("b", 6, 4),
        ("b", 4, 0),
        ("$", 9, 24),
        ("j", 5, 13),
        ("k", 13, 5),
        ("^", 20, 8),
    ],
)
def test_motions(keys: str, at: int, to: int) -> None:
    assert MOTIONS[keys](TEXT, at, 1).to == to
