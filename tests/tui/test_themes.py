from __future__ import annotations

from itertools import product

import pytest
from textual.color import Color
from textual.theme import Theme

from tests.tui.kit import app_for, running
from tui_agent.tui.themes import HIGH_CONTRAST, THEMES

TEXTS = (
    "foreground",
    "primary",
    "success",
    "warning",
    "error",
    "muted",
    "code",
    "keyword",
    "string",
    "number",
    "name",
)
GROUNDS = ("background", "surface", "panel")
CHANGED = [
    ("added", "added-ground"),
    ("removed", "removed-ground"),
    ("added", "added-word"),
    ("removed", "removed-word"),
    *product(("keyword", "string", "number", "name", "muted"), ("added-ground", "removed-ground")),
]


def colour(theme: Theme, name: str) -> Color:
    return Color.parse(theme.variables.get(name) or getattr(theme, name))


def ratio(one: Color, other: Color) -> float:
    def light(colour: Color) -> float:
        parts = [part / 255 for part in colour.rgb]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_text_can_be_read_on_every_ground(theme: Theme) -> None:
    least = 7.0 if theme is HIGH_CONTRAST else 4.5
    pairs = [*product(TEXTS, GROUNDS), *CHANGED]
    found = {
        (text, ground): round(ratio(colour(theme, text), colour(theme, ground)), 2) for text, ground in pairs
    }
    assert {pair: value for pair, value in found.items() if value < least} == {}


async def test_the_command_goes_through_all_themes() -> None:
    app, _session = app_for("answered")
    seen = [app.theme]
    async with running(app) as pilot:
        for _ in THEMES:
            await pilot.press(*"/theme", "enter")
            await pilot.pause()
            seen.append(app.theme)
    assert seen[0] == seen[-1] and len(set(seen)) == len(THEMES)
