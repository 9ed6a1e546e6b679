"""What the user can set (G1): one model with type, default, range and a sentence each, and where it is read from."""

from __future__ import annotations

from tui_agent.settings.model import Settings
from tui_agent.settings.source import Loaded, load_settings, read_token
from tui_agent.settings.tree import SettingsProblem

__all__ = ["Loaded", "Settings", "SettingsProblem", "load_settings", "read_token"]
