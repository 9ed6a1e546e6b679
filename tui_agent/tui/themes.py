"""Our themes: quiet, one accent, every pair of text and ground at least 4.5 : 1 (R26.1), 7 : 1 in the one of high
contrast (U6). One more leaves all colours to the terminal, and users make their own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from textual.theme import Theme

DARK = Theme(
    name="tui-agent-dark",
    dark=True,
    primary="#8fb8f0",
    secondary="#a8b4c8",
    accent="#8fb8f0",
    foreground="#d6d9df",
    background="#14161a",
    surface="#1a1d22",
    panel="#22262d",
    success="#8cc79a",
    warning="#dfbd78",
    error="#ec8f8f",
    variables={
        "muted": "#8e95a1",
        "faint": "#4a505b",
        "code": "#c3cddb",
        "added": "#a9d8b2",
        "added-ground": "#17261d",
        "removed": "#efb0b0",
        "removed-ground": "#2b1a1c",
        "added-word": "#24452f",
        "removed-word": "#56282b",
        "keyword": "#b9a5e6",
        "string": "#a3cfa9",
        "number": "#dcb98a",
        "name": "#8fb8f0",
        "input-selection-background": "#8fb8f0 25%",
        "block-cursor-background": "#8fb8f0",
        "block-cursor-foreground": "#14161a",
    },
)

LIGHT = Theme(
    name="tui-agent-light",
    dark=False,
    primary="#2a5fb8",
    secondary="#4d5a6e",
    accent="#2a5fb8",
    foreground="#24272d",
    background="#fbfbf9",
    surface="#f3f3f0",
    panel="#eaeae6",
    success="#2b7040",
    warning="#855c00",
    error="#ad2f2c",
    variables={
        "muted": "#646a74",
        "faint": "#b4b8bf",
        "code": "#34404f",
        "added": "#1f5b32",
        "added-ground": "#e3f2e6",
        "removed": "#8f2623",
        "removed-ground": "#f9e6e5",
        "added-word": "#bfe3c8",
        "removed-word": "#f5c4c1",
        "keyword": "#6b46b8",
        "string": "#2b7040",
        "number": "#8a5200",
        "name": "#2a5fb8",
        "input-selection-background": "#2a5fb8 25%",
        "block-cursor-background": "#2a5fb8",
        "block-cursor-foreground": "#fbfbf9",
    },
)

HIGH_CONTRAST = Theme(
    name="tui-agent-high-contrast",
    dark=True,
    primary="#6fd3ff",
    secondary="#e0e0e0",
    accent="#6fd3ff",
    foreground="#ffffff",
    background="#000000",
    surface="#0a0a0a",
    panel="#1a1a1a",
    success="#7dff9a",
    warning="#ffd84a",
    error="#ff9d9d",
    variables={
        "muted": "#d0d0d0",
        "faint": "#a8a8a8",
        "code": "#ffffff",
        "added": "#b4ffc4",
        "added-ground": "#002a0d",
        "removed": "#ffc4c4",
        "removed-ground": "#3a0000",
        "added-word": "#00441a",
        "removed-word": "#7d0000",
        "keyword": "#d9c2ff",
        "string": "#9dffb0",
        "number": "#ffd9a0",
        "name": "#6fd3ff",
        "input-selection-background": "#6fd3ff 30%",
        "block-cursor-background": "#ffd84a",
        "block-cursor-foreground": "#000000",
    },
)

ANSI = Theme(
    name="tui-agent-ansi",
    dark=True,
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_default",
    accent="ansi_blue",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    variables={
        "muted": "ansi_default",
        "faint": "ansi_bright_black",
        "code": "ansi_default",
        "added": "ansi_green",
        "added-ground": "ansi_default",
        "removed": "ansi_red",
        "removed-ground": "ansi_default",
        "added-word": "ansi_default",
        "removed-word": "ansi_default",
        "keyword": "ansi_magenta",
        "string": "ansi_green",
        "number": "ansi_cyan",
        "name": "ansi_blue",
        "input-selection-background": "ansi_blue",
        "block-cursor-background": "ansi_default",
        "block-cursor-foreground": "ansi_default",
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
    },
)
"""The terminal's own sixteen colours, light or dark as it is; what else is told apart is dim, bold or reversed
(`styles/ansi.tcss`)."""

THEMES = (DARK, LIGHT, HIGH_CONTRAST, ANSI)
PREFIX = "tui-agent-"
NAMES = tuple(theme.name.removeprefix(PREFIX) for theme in THEMES)
"""As the settings and `/theme` name them."""
OWN_FIELDS = (
    "foreground",
    "background",
    "surface",
    "panel",
    "primary",
    "secondary",
    "success",
    "warning",
    "error",
)
"""Roles that are fields of Textual's themes; the others are variables."""


def fallbacks(dark: bool) -> dict[str, str]:
    """Values of our own variables for themes that do not have them."""
    return dict((DARK if dark else LIGHT).variables)


def default_name(environ: Mapping[str, str] | None = None) -> str:
    """The theme that fits the terminal, as far as it says what it is: 16 colours, or a light ground (R26.2)."""
    environ = os.environ if environ is None else environ
    term, depth = environ.get("TERM", ""), environ.get("COLORTERM", "").lower()
    if "NO_COLOR" in environ or (
        term in ("linux", "vt100", "vt220", "ansi", "xterm-16color", "screen") and not depth
    ):
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
    return made(name, own[name]) if name in own else None


def made(name: str, colours: Mapping[str, str]) -> Theme:
    """A theme of the user's own: another one with other colours. What is wrong in it is left out."""
    from tui_agent.settings.screen import BASE, ROLES, wrong_colours

    wrong = {role for role, _ in wrong_colours("", colours)}
    right = {role: colour for role, colour in colours.items() if role in ROLES and role not in wrong}
    word = colours.get(BASE, "dark")
    base = THEMES[NAMES.index(word)] if word in NAMES else DARK
    fields = {role: right.pop(role) for role in OWN_FIELDS if role in right}
    variables = dict(base.variables)
    if "primary" in fields:
        fields["accent"] = fields["primary"]
        variables["input-selection-background"] = fields["primary"] + " 25%"
        variables["block-cursor-background"] = fields["primary"]
    variables |= right
    known = {field: getattr(base, field) for field in (*OWN_FIELDS, "accent", "dark")}
    return Theme(name=f"{PREFIX}own-{name}", variables=variables, **(known | fields))


_THEME = re.compile(rb"""^theme[ \t]*:[ \t]*["']?([a-z-]{1,40})["']?[ \t]*(?:#.*)?$""", re.M)


def early(config: Path) -> Theme:
    """The theme to begin with, before the settings are read: a built-in one is known by its name alone."""
    word = os.environ.get("TUI_AGENT_THEME", "").strip()
    if not word:
        with suppress(OSError):
            handle = os.open(config, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                found = _THEME.search(file.read(65_536))
                word = found[1].decode() if found else ""
    return theme_for(word or "default", {}) or THEMES[NAMES.index(default_name())]
