"""Our themes: quiet, one accent, every pair of text and ground at least 4.5 : 1, 7 : 1 in the one of high
contrast (U6). One more leaves all colors to the terminal, and users define their own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from textual.theme import Theme

_FIELDS = {field.name for field in fields(Theme)}
HAS_ANSI_FIELD = "ansi" in _FIELDS
"""From Textual 8.2.5 on a theme says that its colors are the terminal's; before, the app does (`App.ansi_color`)."""
THEMES = tuple(
    Theme(**{name: value for name, value in theme.items() if name in _FIELDS})
    for theme in json.loads(Path(__file__).with_name("themes.json").read_bytes())
)
DARK, LIGHT, HIGH_CONTRAST, ANSI = THEMES
"""The last has the terminal's own sixteen colors; what else differs is dim, bold or reversed (`styles/ansi.tcss`)."""
PREFIX = "tui-agent-"
NAMES = tuple(theme.name.removeprefix(PREFIX) for theme in THEMES)
"""As the settings and `/theme` name them."""
OWN_FIELDS = ("foreground", "background", "surface", "panel", "primary", "secondary", "success", "warning", "error")
"""Roles that are fields of Textual's themes; the others are variables."""


def fallback_variables(dark: bool) -> dict[str, str]:
    """Values of our own variables for themes that do not have them."""
    return dict((DARK if dark else LIGHT).variables)


def default_name(environ: Mapping[str, str] | None = None) -> str:
    """The theme that fits the terminal, as far as it says what it is: 16 colors, or a light background."""
    environ = os.environ if environ is None else environ
    term, depth = environ.get("TERM", ""), environ.get("COLORTERM", "").lower()
    if "NO_COLOR" in environ or (term in ("linux", "vt100", "vt220", "ansi", "xterm-16color", "screen") and not depth):
        return "ansi"
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if ground in ("7", "15") else "dark"


def theme_for(name: str, own: Mapping[str, Mapping[str, str]]) -> Theme | None:
    """The theme of this name in the settings; `own` are those of the user. None where there is none."""
    if "NO_COLOR" in os.environ:
        return ANSI
    name = default_name() if name == "default" else name
    if name in NAMES:
        return THEMES[NAMES.index(name)]
    return user_theme(name, own[name]) if name in own else None


def user_theme(name: str, colours: Mapping[str, str]) -> Theme:
    """A user-defined theme: another one with other colors. Wrong entries are left out."""
    from tui_agent.settings.screen import BASE, ROLES, wrong_colours

    wrong = {role for role, _ in wrong_colours("", colours)}
    right = {role: colour for role, colour in colours.items() if role in ROLES and role not in wrong}
    word = colours.get(BASE, "dark")
    base = THEMES[NAMES.index(word)] if word in NAMES else DARK
    chosen = {role: right.pop(role) for role in OWN_FIELDS if role in right}
    variables = dict(base.variables)
    if "primary" in chosen:
        chosen["accent"] = chosen["primary"]
        variables["input-selection-background"] = chosen["primary"] + " 25%"
        variables["block-cursor-background"] = chosen["primary"]
    variables |= right
    known = {field: getattr(base, field) for field in (*OWN_FIELDS, "accent", "dark")}
    return Theme(name=f"{PREFIX}own-{name}", variables=variables, **(known | chosen))


_THEME = re.compile(rb"""^theme[ \t]*:[ \t]*["']?([a-z-]{1,40})["']?[ \t]*(?:#.*)?$""", re.M)


def startup_theme(config: Path) -> Theme:
    """The theme to begin with, before the settings are read: a built-in one is known by its name alone."""
    word = os.environ.get("TUI_AGENT_THEME", "").strip()
    if not word:
        with suppress(OSError):
            handle = os.open(config, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                found = _THEME.search(file.read(65_536))
                word = found[1].decode() if found else ""
    return theme_for(word or "default", {}) or THEMES[NAMES.index(default_name())]
