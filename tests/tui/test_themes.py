from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tui.kit import app_for, run_app, screen_text, wait_for
from tui_agent.settings import LoadedSettings, Settings
from tui_agent.settings.screen import ROLES
from tui_agent.settings.screen import THEMES as BUILT_IN
from tui_agent.tui.themes import (
    ANSI,
    DARK,
    LIGHT,
    NAMES,
    THEME_FIELDS,
    THEMES,
    default_name,
    startup_name,
    startup_theme,
    theme_for,
)
from widgets.overlay import OverlayScreen


def test_own_themes_take_what_is_right_and_leave_the_rest() -> None:
    colours = {"base": "light", "primary": "#aa0000", "muted": "#555555", "code": "blue", "nothing": "#000000"}
    theme = theme_for("mine", {"mine": colours})
    assert theme is not None and not theme.dark
    assert (theme.primary, theme.variables["muted"]) == ("#aa0000", "#555555")
    assert (theme.background, theme.variables["code"]) == (LIGHT.background, LIGHT.variables["code"])
    assert theme_for("other", {"mine": colours}) is None
    assert set(ROLES) == {
        *THEME_FIELDS,
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
    for light in (True, False):
        answered = name if name == "ansi" else "light" if light else "dark"
        assert default_name(environ, light) == answered


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
    assert startup_theme(startup_name(tmp_path / "config.yaml")).name == f"tui-agent-{name}"
    monkeypatch.setenv("TUI_AGENT_THEME", "ansi")
    assert startup_theme(startup_name(tmp_path / "config.yaml")) is ANSI


async def test_without_colours_none_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, _session = app_for("edit_asked")
    async with run_app(app):
        assert app.theme == ANSI.name
        styles = {style for strip in app.screen._compositor.render_strips() for _, style, _ in strip if style}
        written = "".join(style.render("x") for style in styles)
        assert not re.search(r"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9\d|10\d)\b", written)
        assert any(style.underline for style in styles)  # changed words


async def test_the_command_takes_a_name() -> None:
    app, session = app_for("answered")
    settings = Settings.model_validate({"theme": "mine", "themes": {"mine": {"base": "light", "primary": "#aa0000"}}})
    session.settings = LoadedSettings(settings=settings)  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: app.theme == "tui-agent-own-mine")
        assert app.current_theme.primary == "#aa0000"
        await pilot.press(*"/theme ansi", "enter")
        await wait_for(pilot, lambda: app.theme == ANSI.name)
        await pilot.press(*"/theme none", "enter")
        await wait_for(pilot, lambda: "choose one of dark" in screen_text(app))


async def test_the_command_goes_through_all_themes() -> None:
    app, _session = app_for("answered")
    seen = [app.theme]
    async with run_app(app) as pilot:
        for _ in THEMES:
            await pilot.press(*"/theme", "enter")
            await pilot.pause()
            seen.append(app.theme)
    assert seen[0] == seen[-1] and len(set(seen)) == len(THEMES)


@pytest.mark.parametrize("bare", [False, True], ids=["ansi", "without-colours"])
@pytest.mark.parametrize(("scene", "pressed"), [("tests_ok", ["ctrl+p"]), ("tests_ok", ["f9"]), ("question", [])])
async def test_a_dialog_leaves_the_screen_behind_it_visible(
    scene: str, pressed: list[str], bare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bare:
        monkeypatch.setenv("NO_COLOR", "1")
    app, _session = app_for(scene, theme="ansi")
    async with run_app(app, (120, 40)) as pilot:
        await pilot.press(*pressed)
        await wait_for(pilot, lambda: isinstance(app.screen, OverlayScreen))
        await wait_for(pilot, lambda: "tui-agent · exporter" in screen_text(app))
        strips = app.screen._compositor.render_strips()
        behind = [segment.style for segment in strips[0] if segment.text.strip()]
        assert all(style is not None and style.dim and not style.link for style in behind)
