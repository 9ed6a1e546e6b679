from __future__ import annotations

import pytest
from textual import events
from textual.pilot import Pilot

from tests.nightly import sampled
from tests.tui.kit import app_for, wait_until_idle, wait_until_rendered
from tui_agent.settings import LoadedSettings, Settings

SMALL, USUAL, WIDE = (60, 16), (100, 30), (240, 60)

SETTINGS = LoadedSettings(
    settings=Settings.model_validate(
        {
            "mode": "plan",
            "base_url": "http://me:secret@10.0.0.5:8080/v1",
            "keys": {"details": "f12"},
            "timeouts": {"command": 45},
            "tools_off": ["web"],
        }
    ),
    sources={
        "mode": "command line",
        "base_url": "environment (LLM_BASE_URL)",
        "keys": "/home/me/config.yaml, line 9",
        "timeouts.command": "/home/me/config.yaml, line 4",
        "tools_off": "/work/exporter/.tui-agent.yaml, line 2",
    },
)

SHOWN = {
    "palette": ("tests_ok", "dark", USUAL, ["ctrl+p"]),
    "palette-found": ("tests_ok", "light", (80, 24), ["ctrl+p", *"mod", "down"]),
    "palette-small": ("tests_ok", "dark", SMALL, ["ctrl+p"]),
    "palette-wide": ("tests_ok", "high-contrast", WIDE, ["ctrl+p"]),
    "palette-ansi": ("tests_ok", "ansi", USUAL, ["ctrl+p"]),
    "settings": ("tests_ok", "dark", USUAL, ["f6", "down"]),
    "settings-changed": ("tests_ok", "light", (80, 24), ["f6", *"a new session", "enter", "down"]),
    "settings-small": ("tests_ok", "dark", SMALL, ["f6", "down"]),
    "settings-wide": ("tests_ok", "high-contrast", WIDE, ["f6", "down"]),
    "settings-ansi": ("tests_ok", "ansi", USUAL, ["f6", "down"]),
    "help-small": ("tests_ok", "dark", SMALL, ["f1"]),
    "help-wide": ("tests_ok", "high-contrast", WIDE, ["f1"]),
    "help-ansi": ("tests_ok", "ansi", USUAL, ["f1"]),
    "key-name": ("tests_ok", "dark", (80, 24), ["ctrl+p", *"keys", "enter", "ctrl+o"]),
    "small": ("plan", "dark", SMALL, []),
    "wide": ("plan", "dark", WIDE, []),
    "light": ("plan", "light", USUAL, ["ctrl+o"]),
    "high-contrast": ("plan", "high-contrast", USUAL, ["ctrl+o"]),
    "ansi": ("plan", "ansi", USUAL, ["ctrl+o"]),
    "ansi-edit": ("edit_asked", "ansi", USUAL, []),
}


FEW = (
    *("palette-small", "palette-wide", "palette-ansi"),
    *("settings-small", "settings-wide", "settings-ansi"),
    *("help-wide", "help-ansi", "ansi-edit"),
)
"""Nightly; each size and theme is shown by another one."""


@pytest.mark.parametrize("name", sampled(SHOWN, set(SHOWN) - set(FEW)))
def test_shown(name: str, snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_HOME", "/home/me")
    scene, theme, size, pressed = SHOWN[name]
    app, session = app_for(scene, theme=theme)
    session.settings = SETTINGS if "settings" in name else None  # type: ignore[attr-defined]  # as the engine's has

    async def press(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        app.theme = f"tui-agent-{theme}"
        for key in pressed:
            await pilot.press(key)
            await wait_until_idle(pilot)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=press)


BARE = {"plan": [], "edit_asked": [], "help": ["f1"], "palette": ["ctrl+p", *"mod"], "settings": ["f6", "down"]}


@pytest.mark.parametrize("name", BARE)
def test_shown_without_colours(name: str, snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TUI_AGENT_HOME", "/home/me")
    app, session = app_for("tests_ok" if BARE[name] else name)
    session.settings = SETTINGS if name == "settings" else None  # type: ignore[attr-defined]  # as the engine's has

    async def press(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        for key in BARE[name]:
            await pilot.press(key)
            await wait_until_idle(pilot)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=USUAL, run_before=press)


@pytest.mark.parametrize(
    ("opened", "closing"),
    [("f1", "enter"), ("f1", "q"), ("f1", "escape"), ("f6", "escape"), ("f9", "q"), ("ctrl+p", "escape")],
)
async def test_closing_keys_that_arrive_together_close_one_screen(opened: str, closing: str) -> None:
    app, session = app_for("tests_ok")
    session.settings = SETTINGS  # type: ignore[attr-defined]  # as the engine's has
    async with app.run_test(size=USUAL) as pilot:
        await wait_until_rendered(pilot)
        below = app.screen
        await pilot.press(opened)
        await wait_until_idle(pilot)
        dialog = app.screen
        assert dialog is not below
        for _ in range(3):
            dialog.post_message(events.Key(closing, None))
        await wait_until_idle(pilot)
        assert app.screen is below and app.is_running
