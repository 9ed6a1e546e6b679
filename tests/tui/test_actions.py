from __future__ import annotations

import itertools
import re

import pytest
from textual.binding import BindingsMap

from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent.keys import keymap
from tui_agent.keys.keymap import SESSION, SESSION_ACTIONS, Keymap
from tui_agent.settings import LoadedSettings, Settings
from tui_agent.tui import commands
from tui_agent.tui.app import TuiAgentApp
from widgets.dialog_keys import bindings, textual_keymap
from widgets.info_panels import HelpPanel
from widgets.palette import Palette, PaletteRow, find_rows
from widgets.search_bar import SearchBar

WITHOUT = {"exit"}
"""Another word for a command."""


def opened(app: TuiAgentApp) -> bool:
    return isinstance(app.screen, Palette)


def test_every_action_is_in_the_palette_and_can_have_another_key() -> None:
    listed = {row.name for row in commands.palette_rows()}
    actions = {name for name in commands.COMMANDS if name not in WITHOUT} | set(SESSION_ACTIONS)
    assert actions - listed == {"palette"}
    assert set(SESSION_ACTIONS) == actions  # so each has a name in `keys:`
    free = [
        f"{first}{second}+f{n}" for first, second, n in itertools.product(("", "alt+"), ("ctrl", "shift"), range(1, 21))
    ]
    chosen = {name: [key] for name, key in zip(sorted(actions), free, strict=False)}
    other = Keymap(chosen)
    assert other.problems == []
    for scope in ("app", "composer"):
        bound = BindingsMap(bindings(scope))
        bound.apply_keymap(textual_keymap(other))
        keys = {chosen[name][0]: name for name in chosen if SESSION_ACTIONS[name].scope == scope}
        assert {key: {one.id for one in found} for key, found in bound.key_to_bindings.items()} == {
            key: {name} for key, name in keys.items()
        }
    typed = [one for one in SESSION.actions if not one.name]
    assert typed == [one for one in SESSION.actions if not one.keys and one.alternatives]


async def test_the_palette_finds_does_and_shows_keys() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"draft", "ctrl+p")
        await wait_for(pilot, lambda: opened(app))
        await wait_until_idle(pilot)
        assert "ctrl+o" in screen_text(app)
        await pilot.press(*"apauto", "enter")  # as fast as one types
        await wait_for(pilot, lambda: session.modes != [])
        assert session.modes[0][1] in ("auto", "auto-edit")
        assert not opened(app) and app.prompt.text == "draft"
        await pilot.press("f2", *"srch", "down", "up", "enter")
        await wait_for(pilot, lambda: app.query_one(SearchBar).display)
        await pilot.press("escape", "ctrl+p", *"newline", "enter")
        await wait_for(pilot, lambda: app.prompt.text == "draft\n")
        await pilot.press("ctrl+p", *"zzzz", "enter", "escape")
        await wait_for(pilot, lambda: not opened(app))
        await pilot.press("ctrl+p", *"send", "enter")
        await wait_for(pilot, lambda: session.sent == [("draft\n", False)])
        assert app.is_running


def test_letters_find_the_better_name_first() -> None:
    rows = [
        PaletteRow(name, name, does)
        for name, does in (("compact", "room"), ("model", "who"), ("mode", "how"), ("scroll mode", ""))
    ]
    assert [one.row.name for one in find_rows(rows, "mode")] == ["mode", "model", "scroll mode"]
    assert [one.row.name for one in find_rows(rows, "cp")] == ["compact"]
    assert [one.row.name for one in find_rows(rows, "who")] == ["model"]
    assert find_rows(rows, "sm")[0].row.name == "scroll mode" and find_rows(rows, "sm")[0].positions == [0, 7]
    assert find_rows(rows, "xyz") == []


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("undo", "undo"),
        ("und", "undo"),
        ("model", "model"),
        ("plan", "plan"),
        ("stat", "stats"),
        ("edit", "editor"),
        ("page down", "page-down"),
        ("usage", "stats"),
    ],
)
def test_names_come_before_descriptions(query: str, first: str) -> None:
    found = [match.row.name for match in find_rows(commands.palette_rows(), query)]
    assert found[0] == first
    described = [name for name in found if query.split()[0] not in name]
    assert described == found[len(found) - len(described) :]


async def test_the_palette_and_the_help_are_grouped_by_subject() -> None:
    rows = commands.palette_rows()
    assert [group for group, _ in itertools.groupby(rows, lambda row: row.group)] == list(keymap.SUBJECTS)
    headings = [match.heading for match in find_rows(rows, "") if match.heading]
    assert headings == list(keymap.SUBJECTS)
    assert all(match.heading == "" for match in find_rows(rows, "undo"))
    app, _session = app_for("answered")
    async with run_app(app, (120, 130)) as pilot:
        await pilot.press("ctrl+p")
        await wait_for(pilot, lambda: opened(app))
        await wait_until_idle(pilot)
        shown = re.findall(r"│ +(Undo|Session|Settings and help) {3,}│", screen_text(app))
        assert shown == ["Undo", "Session", "Settings and help"]
        await pilot.press("escape", "f1")
        await wait_for(pilot, lambda: isinstance(app.screen, HelpPanel))
        await wait_until_idle(pilot)
        assert "Commands · Undo" in screen_text(app)


async def test_keys_of_the_user_are_the_keys_everywhere() -> None:
    app, session = app_for("plan")
    settings = Settings.model_validate(
        {
            "keys": {
                "send": "ctrl+s",
                "newline": "enter",
                "details": ["f12"],
                "older": "ctrl+up",
                "help": "f5",
                "undo": "alt+u",
                "top": "nokey",
            }
        }
    )
    session.settings = LoadedSettings(settings=settings)  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app, (120, 120)) as pilot:
        await wait_for(pilot, lambda: "ctrl+s send" in screen_text(app))
        assert "F12 details" in screen_text(app)
        await pilot.press(*"one", "enter", *"two", "up", "x", "ctrl+s")
        await wait_for(pilot, lambda: session.sent == [("onex\ntwo", False)])
        await wait_until_rendered(pilot)
        await pilot.press("up")
        assert app.prompt.text == ""
        await pilot.press("ctrl+up")
        await wait_for(pilot, lambda: app.prompt.text == "onex\ntwo")
        before = app.transcript.options.details
        await pilot.press("ctrl+o")
        assert app.transcript.options.details == before
        await pilot.press("f12")
        assert app.transcript.options.details != before
        await pilot.press("f5")
        await wait_for(pilot, lambda: isinstance(app.screen, HelpPanel))
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert "ctrl+s" in text and "F12" in text and "alt+u" in text


async def test_a_pressed_key_says_its_name() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"/keys", "enter")
        for key, says in (
            ("ctrl+o", "show or hide thinking"),
            ("x", "types a character"),
            ("f1", "this help"),
            ("ctrl+c", "quit"),
        ):
            await pilot.press(key)
            await wait_until_idle(pilot)
            assert says in screen_text(app)
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)


@pytest.mark.parametrize("told", ["busy", "idle"])
def test_the_footer_names_the_keys_that_hold(told: str) -> None:
    busy = told == "busy"
    assert Keymap().footer(busy=busy, plan=False)[0] == (("esc", "stop") if busy else ("enter", "send"))
