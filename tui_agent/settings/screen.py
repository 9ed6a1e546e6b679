"""Validating custom keys and themes: errors are reported and skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tui_agent.keys.keymap import Keymap
from tui_agent.settings.model import Settings
from tui_agent.settings.tree import SettingsProblem, SettingsTree, printable

THEMES: Final = ("default", "dark", "light", "high-contrast", "ansi")
"""Names of the built-in themes."""

BASE: Final = "base"
ROLES: Final = (
    *("foreground", "background", "surface", "panel", "primary", "secondary", "success", "warning", "error"),
    *("muted", "faint", "code", "added", "added-ground", "removed", "removed-ground", "added-word"),
    *("removed-word", "keyword", "string", "number", "name"),
)
"""The roles that a theme assigns colors to."""

_COLOR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


def screen_problems(settings: Settings, tree: SettingsTree) -> Iterator[SettingsProblem]:
    """Yield the invalid keys and themes of one source."""
    for name, message in Keymap(settings.keys).problems:
        yield tree.problem(("keys", name), message, ignored=True)
    for name, colors in settings.themes.items():
        for role, message in invalid_colors(name, colors):
            yield tree.problem(("themes", name, role) if role else ("themes", name), message, ignored=True)


def theme_problem(settings: Settings, source: str) -> Iterator[SettingsProblem]:
    """Report an unknown theme after all sources were read; `source` is where its name came from."""
    available = (*THEMES, *settings.themes)
    if settings.theme not in available:
        message = f"unknown theme {printable(settings.theme, 40)!r}; available: {', '.join(available)}"
        yield SettingsProblem(file=source, field="theme", message=message, ignored=True)


def invalid_colors(name: str, colors: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the invalid entries of a theme with the reason."""
    if name in THEMES:
        yield "", "is a built-in theme; choose another name"
    for role, color in colors.items():
        if role == BASE:
            if color not in THEMES[1:-1]:
                yield role, f"must be {', '.join(THEMES[1:-2])} or {THEMES[-2]}"
        elif role not in ROLES:
            yield role, f"is not a role of a theme; available: {BASE}, {', '.join(ROLES)}"
        elif not _COLOR.fullmatch(color):
            yield role, f"must be a color such as #3a5f8b (in quotes), not {printable(color, 40)!r}"
