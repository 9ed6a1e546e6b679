"""Built-in and user-defined themes.

Text has a contrast of at least 4.5:1, 7:1 in the high-contrast theme (U6); the ANSI theme uses the terminal's colors.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from textual.theme import Theme

_FIELDS = {field.name for field in dataclasses.fields(Theme)}
HAS_ANSI_FIELD = "ansi" in _FIELDS
"""Since Textual 8.2.5, a theme can request the terminal's colors; before, `App.ansi_color` did."""
THEMES = tuple(
    Theme(**{name: value for name, value in theme.items() if name in _FIELDS})
    for theme in json.loads(Path(__file__).with_name("themes.json").read_bytes())
)
DARK, LIGHT, HIGH_CONTRAST, ANSI = THEMES
"""ANSI uses the terminal's sixteen colors, and dim, bold and reverse instead of shades (`styles/ansi.tcss`)."""
DEFAULT = "default"
"""Name of the theme that fits the terminal."""
PREFIX = "tui-agent-"
NAMES = tuple(theme.name.removeprefix(PREFIX) for theme in THEMES)
"""Names in the settings and in `/theme`."""
THEME_FIELDS = ("foreground", "background", "surface", "panel", "primary", "secondary", "success", "warning", "error")
"""Color roles that are fields of Textual's `Theme`; the others are variables."""


def fallback_variables(dark: bool) -> dict[str, str]:
    """Return values of the app's variables for themes that lack them."""
    return dict((DARK if dark else LIGHT).variables)


def default_name(environ: Mapping[str, str] | None = None, light: bool | None = None) -> str:
    """Return the name of the theme that fits the terminal, by its number of colors and its background.

    `light`: what the terminal answered about its background; None without an answer, and COLORFGBG counts.
    """
    environ = os.environ if environ is None else environ
    term, depth = environ.get("TERM", ""), environ.get("COLORTERM", "").lower()
    if "NO_COLOR" in environ or (term in ("linux", "vt100", "vt220", "ansi", "xterm-16color", "screen") and not depth):
        return "ansi"
    if light is None:
        light = environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    return "light" if light else "dark"


def theme_for(name: str, user_themes: Mapping[str, Mapping[str, str]], light: bool | None = None) -> Theme | None:
    """Return the built-in or user-defined theme with this name, or None. `light` is that of `default_name`."""
    if "NO_COLOR" in os.environ:
        return ANSI
    name = default_name(light=light) if name == DEFAULT else name
    if name in NAMES:
        return THEMES[NAMES.index(name)]
    return user_theme(name, user_themes[name]) if name in user_themes else None


def user_theme(name: str, colors: Mapping[str, str]) -> Theme:
    """Return a user-defined theme: a built-in one with other colors. Invalid entries are ignored."""
    from tui_agent.settings.screen import BASE, ROLES, invalid_colors

    invalid = {role for role, _ in invalid_colors("", colors)}
    valid = {role: color for role, color in colors.items() if role in ROLES and role not in invalid}
    base_name = colors.get(BASE, "dark")
    base = THEMES[NAMES.index(base_name)] if base_name in NAMES else DARK
    fields = {role: valid.pop(role) for role in THEME_FIELDS if role in valid}
    variables = dict(base.variables)
    if "primary" in fields:
        fields["accent"] = fields["primary"]
        variables["input-selection-background"] = fields["primary"] + " 25%"
        variables["block-cursor-background"] = fields["primary"]
    variables |= valid
    base_fields = {field: getattr(base, field) for field in (*THEME_FIELDS, "accent", "dark")}
    return Theme(name=f"{PREFIX}own-{name}", variables=variables, **(base_fields | fields))


_THEME = re.compile(rb"""^theme[ \t]*:[ \t]*["']?([a-z-]{1,40})["']?[ \t]*(?:#.*)?$""", re.M)


def startup_name(config: Path) -> str:
    """Return the name of the theme in the environment or in `config`, which may be unknown; without one, `DEFAULT`."""
    name = os.environ.get("TUI_AGENT_THEME", "").strip()
    if not name:
        with suppress(OSError):
            handle = os.open(config, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                match = _THEME.search(file.read(65_536))
                name = match[1].decode() if match else ""
    return name or DEFAULT


def startup_theme(name: str) -> Theme:
    """Return the theme to use until the settings are read, given the `startup_name`."""
    return theme_for(name, {}) or THEMES[NAMES.index(default_name())]
