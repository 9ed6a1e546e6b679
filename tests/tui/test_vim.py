from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.nightly import sampled
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle
from tui_agent.keys.key_names import PUNCTUATION_NAMES
from tui_agent.settings import LoadedSettings, Settings
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.vim import MOTIONS

TEXT = "one two\nthree  four.five\n\nlast"

NAMES = PUNCTUATION_NAMES

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
    ("gg|fo", TEXT, (0, 6)),
    ("gg|0fo", TEXT, (0, 6)),
    ("gg|fwx", "one to\nthree  four.five\n\nlast", (0, 5)),
    ("gg|dfw", "o\nthree  four.five\n\nlast", (0, 0)),
    ("gg|dtw", "wo\nthree  four.five\n\nlast", (0, 0)),
    ("gg|$dFt", "one o\nthree  four.five\n\nlast", (0, 4)),
    ("gg|$dTt", "one to\nthree  four.five\n\nlast", (0, 5)),
    ("ggj|fe;", TEXT, (1, 4)),
    ("ggj|fe;;,", TEXT, (1, 4)),
    ("ggj|2fe", TEXT, (1, 4)),
    ("ggj|d2fe", "one two\n  four.five\n\nlast", (1, 0)),
    ("gg|dfz", TEXT, (0, 0)),
    ("gg|diw", " two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|daw", "two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|wdaw", "one\nthree  four.five\n\nlast", (0, 2)),
    ("ggj|wdiW", "one two\nthree  \n\nlast", (1, 6)),
    ("gg|dip", "\nlast", (0, 0)),
    ("gg|dap", "last", (0, 0)),
    ("gg|yapP", "one two\nthree  four.five\n\none two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|vd", "ne two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|ved", " two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|vjd", "hree  four.five\n\nlast", (0, 0)),
    ("gg|viwd", " two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|$vbd", "one \nthree  four.five\n\nlast", (0, 3)),
    ("gg|Vd", "three  four.five\n\nlast", (0, 0)),
    ("gg|Vjd", "\nlast", (0, 0)),
    ("gg|vU", "One two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|Vry", "yyyyyyy\nthree  four.five\n\nlast", (0, 0)),
    ("gg|VjJ", "one two three  four.five\n\nlast", (0, 7)),
    ("gg|veyP", "oneone two\nthree  four.five\n\nlast", (0, 2)),
    ("gg|wviwyggviwp", "two two\nthree  four.five\n\nlast", (0, 2)),
    ("gg|vowd", "wo\nthree  four.five\n\nlast", (0, 0)),
    ("gg|x.", "e two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|dw.", "\nthree  four.five\n\nlast", (0, 0)),
    ("gg|x3.", " two\nthree  four.five\n\nlast"[1:], None),
    ("gg|dd.", "\nlast", (0, 0)),
    ("gg|vlx.", " two\nthree  four.five\n\nlast"[1:], None),
    ("gg|~", "One two\nthree  four.five\n\nlast", (0, 1)),
    ("gg|3~", "ONE two\nthree  four.five\n\nlast", (0, 3)),
    ("gg|J", "one two three  four.five\n\nlast", (0, 7)),
    ("gg|>>", "    one two\nthree  four.five\n\nlast", (0, 4)),
    ("gg|>><<", TEXT, (0, 0)),
    ("gg|>j", "    one two\n    three  four.five\n\nlast", (0, 4)),
    ("gg|gUiw", "ONE two\nthree  four.five\n\nlast", (0, 0)),
    ("gg|gUU", "ONE TWO\nthree  four.five\n\nlast", (0, 0)),
    ("gg|g~~", "ONE TWO\nthree  four.five\n\nlast", (0, 0)),
    ('gg|"ayw"byyG"ap', "one two\nthree  four.five\n\nlone ast", (3, 4)),
    ('gg|yiwwdiw"0p', "one one\nthree  four.five\n\nlast", (0, 6)),
    ('gg|"ayiww"Ayiw"aP', "one onetwotwo\nthree  four.five\n\nlast", (0, 9)),
    ('gg|yiww"_diwp', "one one\nthree  four.five\n\nlast", (0, 6)),
    ('gg|"+yiww"+P', "one onetwo\nthree  four.five\n\nlast", (0, 6)),
    ("gg|3G", TEXT, (2, 0)),
    ("gg|2gg", TEXT, (1, 0)),
    ("gg|}", TEXT, (2, 0)),
    ("gg|d}", "\n\nlast"[1:], (0, 0)),
    ("G|{", TEXT, (2, 0)),
    ("gg|5|", TEXT, (0, 4)),
    ("gg|W", TEXT, (0, 4)),
    ("ggj|WdB", "one two\nfour.five\n\nlast", (1, 0)),
    ("gg|qzQ&", TEXT, (0, 0)),
]

QUOTED = 'say("a b", [1, (2)]) end'
QUOTED_CASES = [
    ('0|ci"x', 'say("x", [1, (2)]) end'),
    ('0|di"', 'say("", [1, (2)]) end'),
    ('0|da"', "say(, [1, (2)]) end"),
    ("0|f(di(", "say() end"),
    ("0|f(dab", "say end"),
    ("0|f2dib", 'say("a b", [1, ()]) end'),
    ("0|f2di[", 'say("a b", []) end'),
    ("0|f2da]", 'say("a b", ) end'),
    ("0|f2di{", QUOTED),
    ("0|f(d%", "say end"),
    ("0|f(%x", 'say("a b", [1, (2)] end'),
    ("0|f2va(d", 'say("a b", [1, ]) end'),
]


async def put(app: TuiAgentApp, pilot: Pilot[int], text: str) -> None:
    app.prompt.text = text
    app.prompt.move_cursor(app.prompt.document.end)
    await wait_until_idle(pilot)


def keys_of(text: str) -> list[str]:
    """The keys of a case; `|` ends how it begins, except as the last one."""
    return [NAMES.get(letter, letter) for letter in text.replace("|", "", 1)]


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
            assert text is None or (keys, app.prompt.text) == (keys, text)
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


@asynccontextmanager
async def in_normal_mode() -> AsyncIterator[tuple[Pilot[int], TuiAgentApp, FakeSession]]:
    app, session = app_for("answered")
    session.settings = LoadedSettings(settings=Settings(vim=True))  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app) as pilot:
        await pilot.press("escape")
        assert app.prompt.border_subtitle == "normal"
        yield pilot, app, session


async def test_quotations_and_brackets_are_objects() -> None:
    async with in_normal_mode() as (pilot, app, _session):
        for keys, text in QUOTED_CASES:
            await put(app, pilot, QUOTED)
            await pilot.press(*keys_of(keys), "escape")
            assert (keys, app.prompt.text) == (keys, text)


async def test_what_is_typed_is_repeated_by_the_dot() -> None:
    async with in_normal_mode() as (pilot, app, _session):
        await put(app, pilot, "one two three")
        await pilot.press(*"0ciw", *"new", "escape", *"w.w.")
        assert app.prompt.text == "one two three".replace("one", "new").replace("two", "new").replace("three", "new")
        await put(app, pilot, "a\nb")
        await pilot.press(*"ggA;", "escape", *"j.")
        assert app.prompt.text == "a;\nb;"
        await pilot.press(*"oxy", "escape", *".")
        assert app.prompt.text == "a;\nb;\nxy\nxy"
        await pilot.press(*"ggcw", "escape", *"u")
        assert app.prompt.text.startswith("a;")


async def test_visual_mode_is_shown_and_left() -> None:
    async with in_normal_mode() as (pilot, app, session):
        await put(app, pilot, TEXT)
        await pilot.press(*"ggvee")
        assert app.prompt.border_subtitle == "visual" and app.prompt.selected_text == "one two"
        await pilot.press(*"V")
        assert app.prompt.border_subtitle == "visual line"
        await pilot.press("down", "enter")
        assert app.prompt.selected_text == "one two\nthree  four.five"
        await pilot.press("escape")
        assert app.prompt.border_subtitle == "normal" and app.prompt.selected_text == ""
        assert session.sent == [] and session.interrupts == 0
        await pilot.press(*"ggv")
        app.prompt.move_cursor((3, 2))  # by mouse
        await pilot.press(*"x")
        assert app.prompt.border_subtitle == "normal" and app.prompt.text == TEXT.replace("last", "lat")


async def test_a_pending_command_is_not_sent_by_enter() -> None:
    async with in_normal_mode() as (pilot, app, session):
        await put(app, pilot, "draft")
        await pilot.press("d", "enter")
        await wait_until_idle(pilot)
        assert session.sent == []
        await pilot.press("enter")
        await wait_for(pilot, lambda: session.sent == [("draft", False)])


async def test_esc_and_a_letter_in_one_read_are_two_keys() -> None:
    async with in_normal_mode() as (pilot, app, session):
        await put(app, pilot, "one two")
        await pilot.press("i", "alt+b")
        assert app.prompt.border_subtitle == "normal" and app.prompt.cursor_location[1] == 4
        await pilot.press("A", "alt+m")  # not the next mode
        await wait_until_idle(pilot)
        assert app.prompt.border_subtitle == "normal" and session.modes == []
        await pilot.press("x", "ctrl+r")
        assert app.prompt.text == "one tw" and app.screen.id == "_default"


async def test_a_chip_is_taken_as_a_whole() -> None:
    async with in_normal_mode() as (pilot, app, _session):
        await put(app, pilot, "see ")
        app.prompt.insert_paste("line\n" * 40)
        await pilot.press(*"0wviwd")
        assert "⟦" not in app.prompt.text
        await pilot.press("p")
        assert app.prompt.draft.full_text.count("line") == 40


KEYS = "hjklwbeWBE0^$|_+-{}%gGfFtT;,dcy<>pPxXsSrJ~uvVoOiIaA.\"'`()[]ipbq123 zé"


@pytest.mark.parametrize("seed", sampled(range(6), 3))
async def test_no_keys_fail_or_lose_text_that_undo_does_not_bring_back(seed: int) -> None:
    chance = random.Random(seed)
    async with in_normal_mode() as (_pilot, app, _session):
        prompt = app.prompt
        assert prompt.vim is not None
        for _round in range(60):
            text = "".join(chance.choices('ab .\n(")', k=chance.randrange(14)))
            prompt.text = text  # a new history
            prompt.move_cursor(prompt.document.end)
            keys = [chance.choice([*KEYS, "escape", "escape", "ctrl+r", "up", "left"]) for _ in range(25)]
            for key in keys:
                if not prompt.vim.on_key(Key(key, key if len(key) == 1 else None)) and len(key) == 1:
                    prompt.insert(key)
                row, column = prompt.cursor_location
                assert row < prompt.document.line_count and column <= len(prompt.document.get_line(row)), keys
            prompt.vim.on_key(Key("escape", None))
            for _undo in range(80):
                prompt.undo()
            assert prompt.text == text, (text, keys)


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


async def test_a_deletion_that_takes_nothing_keeps_the_registers() -> None:
    async with in_normal_mode() as (pilot, app, _session):
        await put(app, pilot, "one two\n\n")
        await pilot.press(*keys_of("ggywjxXp"))
        assert app.prompt.text == "one two\none \n"


async def test_a_deletion_within_a_line_has_a_register_of_its_own() -> None:
    async with in_normal_mode() as (pilot, app, _session):
        await put(app, pilot, "one two\nthree\n")
        await pilot.press(*keys_of('ggdwjyyG"-p'))
        assert app.prompt.text == "two\nthree\none "
