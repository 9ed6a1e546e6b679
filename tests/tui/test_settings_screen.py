from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import settings
from tui_agent.keys import keymap
from tui_agent.settings.checking import setting_paths
from tui_agent.text import SecretMask
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.settings_file import SettingsFile
from widgets.settings_form import SettingsForm

FILE = """\
# my settings
base_url: http://me:sesame@10.0.0.5:8080/v1  # at home
small_model: tok-1234567890abcdef
timeouts:
  command: 45   # slow disk
keys: {details: f12}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path))
    monkeypatch.setenv("TUI_AGENT_MODE", "chat")
    (tmp_path / "config.yaml").write_text(FILE)
    return tmp_path / "config.yaml"


def app_with(config: Path, **flags: object) -> tuple[TuiAgentApp, FakeSession]:
    app, session = app_for("answered")
    session.settings = settings.load_settings(config, None, None, flags)  # type: ignore[attr-defined]  # as the engine's has
    session.mask = SecretMask({"token": "tok-1234567890abcdef"})
    return app, session


def form(app: TuiAgentApp) -> SettingsForm:
    assert isinstance(app.screen, SettingsForm)
    return app.screen


def selected(app: TuiAgentApp) -> str:
    row = form(app).current
    return row.name if row is not None else ""


async def opened(app: TuiAgentApp, pilot: Pilot[int], *keys: str) -> None:
    await pilot.press("f6")
    await wait_for(pilot, lambda: isinstance(app.screen, SettingsForm))
    await wait_until_idle(pilot)
    await pilot.press(*keys)
    await wait_until_idle(pilot)


async def test_every_setting_is_there_with_its_value_and_source_and_no_secret(config: Path) -> None:
    app, _session = app_with(config, approval_mode="auto")
    async with run_app(app, (120, 130)) as pilot:
        await opened(app, pilot)
        assert [row.name for row in form(app).rows] == [".".join(where) for where in setting_paths()]
        text = screen_text(app)
        for shown in ("line 5", "environment (TUI_AGENT_", "command line", "http://***@10.0.0.5:8080/v1"):
            assert shown in text
        for row in form(app).rows:
            assert "sesame" not in str(row) and "tok-1234567890abcdef" not in str(row)


async def test_a_change_is_written_and_comments_stay(config: Path) -> None:
    app, _session = app_with(config, approval_mode="auto")
    async with run_app(app) as pilot:
        await opened(app, pilot, *"timeouts.command", "up", "enter")
        await pilot.press("backspace", "backspace", *"90", "enter")
        await wait_for(pilot, lambda: "in the next session" in screen_text(app))
        assert config.read_text() == FILE.replace("command: 45 ", "command: 90 ")
        assert config.stat().st_mode & 0o777 == 0o644  # as it was
        await pilot.press("enter", "ctrl+u", *"-3", "enter")
        await wait_for(pilot, lambda: "more than 0" in screen_text(app))
        await pilot.press("escape", "delete")
        assert "command: 90" in config.read_text()  # something is searched for: it was meant for that
        await pilot.press("ctrl+u", *"base_url", "enter", "enter")  # a hidden value is kept as it is
        assert form(app).editing is None and "sesame" in config.read_text()
        await pilot.press("end", "ctrl+u", *"theme", "enter", "ctrl+u", *"light", "enter")
        await wait_for(pilot, lambda: app.theme == "tui-agent-light")
        await wait_for(pilot, lambda: "theme: light\n" in config.read_text())
        await pilot.press("ctrl+u", *"keys", "enter", "ctrl+u", *"{details: f11, nope: f5}", "enter")
        await wait_for(pilot, lambda: "is not an action" in screen_text(app))
        await pilot.press("ctrl+u", *"{details: f11}", "enter")
        await wait_for(pilot, lambda: keymap.current().keys["details"] == ("f11",))
        assert app.preferences.loaded is not None
        assert app.preferences.loaded.settings.approval_mode == "auto"  # a flag holds on
        config.write_text("mode: [\n")
        await pilot.press("ctrl+u", *"vim", "enter", "up", "enter")
        await wait_for(pilot, lambda: "nothing changed" in screen_text(app))
        assert config.read_text() == "mode: [\n"
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        shown = screen_text(app)
        await pilot.press("f11")  # the new key works, and the old one does not any more
        await wait_for(pilot, lambda: screen_text(app) != shown)
        detailed = screen_text(app)
        await pilot.press("ctrl+o")
        await wait_until_rendered(pilot)
        assert screen_text(app) == detailed


async def test_settings_are_found_by_name_first_and_listed_by_subject(config: Path) -> None:
    app, _session = app_with(config)
    async with run_app(app, (100, 40)) as pilot:
        await opened(app, pilot)
        assert "Models and their server" in screen_text(app)
        for query, best in (
            ("base_url", "base_url"),
            ("base url", "base_url"),
            ("model", "model"),
            ("url", "base_url"),
            ("mode", "mode"),
            ("command", "timeouts.command"),
            ("address of the", "base_url"),
        ):
            await pilot.press("ctrl+u", *query)
            assert selected(app) == best, query
        assert "Models and their server" not in screen_text(app)
        await pilot.press("ctrl+u", *"base_url", "enter")
        assert form(app).editing is form(app).current and selected(app) == "base_url"
        await pilot.press("escape", "ctrl+u")
        await wait_until_idle(pilot)
        assert selected(app) == "base_url" and "Models and their server" in screen_text(app)


class FakeModels:
    """A server whose settings can be changed."""

    endpoint = "http://old.example:1"

    def __init__(self) -> None:
        self.used: list[settings.Settings] = []
        self.problem = ""
        self.answers = asyncio.Event()
        self.answers.set()

    async def use_settings(self, chosen: settings.Settings, key: str = "") -> str:
        self.used.append(chosen)
        await self.answers.wait()
        return self.problem


async def test_the_next_request_uses_a_changed_address(config: Path) -> None:
    app, session = app_with(config, base_url="http://from.flag:1")
    models = session.models = FakeModels()  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app) as pilot:
        await opened(app, pilot, *"base_url", "enter", "ctrl+u", *"http://new:2", "enter")
        await wait_for(pilot, lambda: "overrides it at the next start · in effect" in screen_text(app))
        assert [used.base_url for used in models.used] == ["http://new:2"]
        assert "base_url: http://new:2" in config.read_text() and "this session" in screen_text(app)
        models.problem = "http://other:3 can't be reached."
        models.answers.clear()
        await pilot.press("enter", "ctrl+u", *"http://other:3", "enter")
        await wait_for(pilot, lambda: "asking the server" in screen_text(app))
        await pilot.press("ctrl+u", *"theme", "enter", "ctrl+u", *"lig")  # meanwhile another one is being edited
        models.answers.set()
        await wait_for(pilot, lambda: "saved; http://other:3 can't be reached." in screen_text(app))
        assert form(app).field.value == "lig"
        await pilot.press("escape", "escape")
        await pilot.press(*"/settings model tiny", "enter")
        await wait_for(pilot, lambda: len(models.used) == 3)
        assert (models.used[-1].model, models.used[-1].base_url) == ("tiny", "http://other:3")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("base_ulr http://x", "there is no setting base_ulr; did you mean `base_url`?"),
        ("base_url nonsense", "must be an http:// or https:// address"),
        ("temperature=0.5", "temperature: saved"),
        ("api_key secret", "there is no setting api_key"),
    ],
)
async def test_a_setting_is_changed_with_a_command(config: Path, typed: str, says: str) -> None:
    app, session = app_with(config)
    session.models = FakeModels()  # type: ignore[attr-defined]  # as the engine's has
    async with run_app(app) as pilot:
        await pilot.press(*f"/settings {typed}", "enter")
        await wait_for(pilot, lambda: says in screen_text(app))
        assert ("temperature: 0.5" in config.read_text()) is typed.startswith("temperature")
        await pilot.press(*"/settings base_url", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, SettingsForm) and selected(app) == "base_url")


async def test_a_file_that_is_not_there_yet_is_made_and_settings_taken_back(config: Path) -> None:
    config.unlink()
    app, _session = app_with(config)
    async with run_app(app) as pilot:
        await opened(app, pilot, *"small", "enter", *"tiny", "enter")
        await wait_for(pilot, lambda: config.exists() and config.read_text() == "small_model: tiny\n")
        assert config.stat().st_mode & 0o777 == 0o600
        await wait_until_rendered(pilot)
        await pilot.press("ctrl+u", "delete")
        await wait_for(pilot, lambda: config.read_text() == "")
        await wait_for(pilot, lambda: form(app).rows[5].value == "not set")
        await pilot.press("ctrl+u", *"work mode of a new", "enter", "down", "enter")
        await wait_for(pilot, lambda: "environment (TUI_AGENT_MODE) overrides it" in screen_text(app))


async def test_a_reset_brings_back_the_value_of_the_command_line(config: Path) -> None:
    app, _session = app_with(config, model="from-cli")
    async with run_app(app) as pilot:
        file, said = SettingsFile(app, config), list[str]()
        await file.change({"model": "typed"}, said.append)
        assert file.loaded.settings.model == "typed"
        for _ in range(2):
            await file.change({"model": None}, said.append)
            assert file.loaded.settings.model == "from-cli"
            assert file.loaded.sources["model"].startswith("command line")
        await wait_until_idle(pilot)
