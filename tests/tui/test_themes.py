from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import Theme

from tests.tui.kit import app_for, running, screen_text, still, until
from tui_agent import ROOT
from tui_agent.settings import Loaded, Settings
from tui_agent.settings.screen import ROLES
from tui_agent.settings.screen import THEMES as BUILT_IN
from tui_agent.tui.themes import (
    ANSI,
    DARK,
    HIGH_CONTRAST,
    LIGHT,
    NAMES,
    OWN_FIELDS,
    THEMES,
    default_name,
    early,
    theme_for,
)
from widgets.ink import Ink

TEXTS = (
    "foreground",
    "primary",
    "success",
    "warning",
    "error",
    "muted",
    "code",
    "keyword",
    "string",
    "number",
    "name",
)
GROUNDS = ("background", "surface", "panel")
CHANGED = [
    ("added", "added-ground"),
    ("removed", "removed-ground"),
    ("added", "added-word"),
    ("removed", "removed-word"),
    *product(("keyword", "string", "number", "name", "muted"), ("added-ground", "removed-ground")),
]


def colour(theme: Theme, name: str) -> Color:
    return Color.parse(theme.variables.get(name) or getattr(theme, name))


def ratio(one: Color, other: Color) -> float:
    def light(colour: Color) -> float:
        parts = [part / 255 for part in colour.rgb]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES[:3], ids=lambda theme: theme.name)
def test_every_text_can_be_read_on_every_ground(theme: Theme) -> None:
    least = 7.0 if theme is HIGH_CONTRAST else 4.5
    pairs = [*product(TEXTS, GROUNDS), *CHANGED]
    found = {
        (text, ground): round(ratio(colour(theme, text), colour(theme, ground)), 2) for text, ground in pairs
    }
    assert {pair: value for pair, value in found.items() if value < least} == {}


SCENES = (
    "plan", "plan_waits", "edit_asked", "command_asked", "question", "summary_waits", "notices", "failed", "tests_failed",
    "subagents_running", "trust",
)  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
async def test_every_text_on_the_screen_can_be_read(scene: str) -> None:
    app, _session = app_for(scene)
    found: dict[tuple[str, str], float] = {}
    async with running(app, (120, 50)) as pilot:
        for theme in THEMES[:3]:
            app.theme = theme.name
            await still(pilot)
            over = app.screen.query("#dialog")
            seen = over.first().region if over else app.screen.region
            for y, strip in enumerate(app.screen._compositor.render_strips()):
                inside = strip.crop(seen.x, seen.right) if seen.y <= y < seen.bottom else ()
                for text, style, _ in inside:
                    if style is None or not any(letter.isalnum() for letter in text):
                        continue
                    pair = [Color.from_rich_color(one) for one in (style.color, style.bgcolor)]
                    least = 7.0 if theme is HIGH_CONTRAST else 4.5
                    if (value := ratio(*pair)) < least:
                        found[theme.name, text] = value
    assert found == {}


def test_every_text_role_of_the_sheets_is_measured() -> None:
    roles = set(
        re.findall(r"^\.ink--(\w+) \{ color: \$([\w-]+)", (ROOT / "styles" / "tokens.tcss").read_text(), re.M)
    )
    assert {role for role, _ in roles} == set(Ink._fields)
    assert {colour for _, colour in roles} == {
        *TEXTS,
        "added",
        "removed",
        "faint",
    }  # faint: lines and rules, no words


def test_own_themes_take_what_is_right_and_leave_the_rest() -> None:
    colours = {
        "base": "light",
        "primary": "#aa0000",
        "muted": "#555555",
        "code": "blue",
        "nothing": "#000000",
    }
    theme = theme_for("mine", {"mine": colours})
    assert theme is not None and not theme.dark
    assert (theme.primary, theme.variables["muted"]) == ("#aa0000", "#555555")
    assert (theme.background, theme.variables["code"]) == (LIGHT.background, LIGHT.variables["code"])
    assert theme_for("other", {"mine": colours}) is None
    assert set(ROLES) == {
        *OWN_FIELDS,
        *(name for name in DARK.variables if "selection" not in name and "cursor" not in name),
    }
    assert ("default", *NAMES) == BUILT_IN


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "light"),
        ({"TERM": "xterm-256color", "COLORFGBG": "15;default;0"}, "dark"),
        ({"TERM": "linux"}, "ansi"),
        ({"TERM": "screen", "COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "ansi"),
    ],
)
def test_the_default_fits_the_terminal(environ: dict[str, str], name: str) -> None:
    assert default_name(environ) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mode: chat\ntheme: light\n", "light"),
        ("theme : 'high-contrast'  # better\n", "high-contrast"),
        ("# theme: light\n", "dark"),
        ("theme: mine\nthemes: {mine: {}}\n", "dark"),
        ("x: |\n  theme: light\n", "dark"),
        ("theme: \x00\xff\n", "dark"),
        (None, "dark"),
    ],
)
def test_the_first_paint_has_the_theme_of_the_settings(
    text: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    if text is not None:
        (tmp_path / "config.yaml").write_text(text, encoding="latin-1")
    assert early(tmp_path / "config.yaml").name == f"tui-agent-{name}"
    monkeypatch.setenv("TUI_AGENT_THEME", "ansi")
    assert early(tmp_path / "config.yaml") is ANSI


async def test_without_colours_none_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, _session = app_for("edit_asked")
    async with running(app):
        assert app.theme == ANSI.name
        styles = {style for strip in app.screen._compositor.render_strips() for _, style, _ in strip if style}
        written = "".join(style.render("x") for style in styles)
        assert not re.search(r"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9\d|10\d)\b", written)
        assert any(style.underline for style in styles)  # changed words


async def test_the_command_takes_a_name() -> None:
    app, session = app_for("answered")
    settings = Settings.model_validate(
        {"theme": "mine", "themes": {"mine": {"base": "light", "primary": "#aa0000"}}}
    )
    session.settings = Loaded(settings=settings)  # type: ignore[attr-defined]  # as the engine's has
    async with running(app) as pilot:
        await until(pilot, lambda: app.theme == "tui-agent-own-mine")
        assert app.current_theme.primary == "#aa0000"
        await pilot.press(*"/theme ansi", "enter")
        await until(pilot, lambda: app.theme == ANSI.name)
        await pilot.press(*"/theme none", "enter")
        await until(pilot, lambda: "there are dark" in screen_text(app))


async def test_the_command_goes_through_all_themes() -> None:
    app, _session = app_for("answered")
    seen = [app.theme]
    async with running(app) as pilot:
        for _ in THEMES:
            await pilot.press(*"/theme", "enter")
            await pilot.pause()
            seen.append(app.theme)
    assert seen[0] == seen[-1] and len(set(seen)) == len(THEMES)
