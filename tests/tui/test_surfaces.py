from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.tui.kit import app_for, settled, still
from tui_agent.settings import Loaded, Settings

SMALL, USUAL, WIDE = (60, 16), (100, 30), (240, 60)

SETTINGS = Loaded(
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
    "palette-found": ("tests_ok", "light", USUAL, ["ctrl+p", *"mod", "down"]),
    "palette-small": ("tests_ok", "dark", SMALL, ["ctrl+p"]),
    "settings": ("tests_ok", "dark", USUAL, ["f6", "down"]),
    "settings-changed": ("tests_ok", "light", (80, 24), ["f6", *"start of a session", "enter", "down"]),
    "settings-small": ("tests_ok", "dark", SMALL, ["f6"]),
    "help-small": ("tests_ok", "dark", SMALL, ["f1"]),
    "key-name": ("tests_ok", "dark", (80, 24), ["ctrl+p", *"keys", "enter", "ctrl+o"]),
    "small": ("plan", "dark", SMALL, []),
    "wide": ("plan", "dark", WIDE, []),
    "light": ("plan", "light", USUAL, ["ctrl+o"]),
    "high-contrast": ("plan", "high-contrast", USUAL, ["ctrl+o"]),
    "ansi": ("plan", "ansi", USUAL, ["ctrl+o"]),
    "ansi-edit": ("edit_asked", "ansi", USUAL, []),
}


@pytest.mark.parametrize("name", SHOWN)
def test_shown(name: str, snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_HOME", "/home/me")
    scene, theme, size, pressed = SHOWN[name]
    app, session = app_for(scene, theme=theme)
    session.settings = SETTINGS if "settings" in name else None  # type: ignore[attr-defined]  # as the engine's has

    async def press(pilot: Pilot[int]) -> None:
        await settled(pilot)
        app.theme = f"tui-agent-{theme}"
        for key in pressed:
            await pilot.press(key)
            await still(pilot)
        await still(pilot)

    assert snap_compare(app, terminal_size=size, run_before=press)


@pytest.mark.parametrize("scene", ["plan", "edit_asked"])
def test_shown_without_colours(scene: str, snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, _session = app_for(scene)

    async def press(pilot: Pilot[int]) -> None:
        await settled(pilot)
        await still(pilot)

    assert snap_compare(app, terminal_size=USUAL, run_before=press)
