"""Our themes: quiet, one accent, every pair of text and ground at least 4.5 : 1 (R26.1), 7 : 1 in the one of high
contrast (U6)."""

from __future__ import annotations

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
        "added-word": "#00591f",
        "removed-word": "#7d0000",
        "keyword": "#d9c2ff",
        "string": "#9dffb0",
        "number": "#ffd9a0",
        "name": "#6fd3ff",
        "input-selection-background": "#6fd3ff 40%",
        "block-cursor-background": "#ffd84a",
        "block-cursor-foreground": "#000000",
    },
)

THEMES = (DARK, LIGHT, HIGH_CONTRAST)


def fallbacks(dark: bool) -> dict[str, str]:
    """Values of our own variables for themes that do not have them."""
    return dict((DARK if dark else LIGHT).variables)
