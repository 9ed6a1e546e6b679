"""The user's settings (G1): a model with type, default, range and description, and its sources."""

from __future__ import annotations

from tui_agent.settings.model import ServerSettings, Settings
from tui_agent.settings.source import LoadedSettings, load_settings, read_token, read_tokens, tighten
from tui_agent.settings.tree import SettingsProblem

__all__ = [
    "LoadedSettings",
    "ServerSettings",
    "Settings",
    "SettingsProblem",
    "load_settings",
    "read_token",
    "read_tokens",
    "tighten",
]
