from __future__ import annotations

import re
from itertools import product

import pytest
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from tests.tui.contrast import LINES, Words, of_picture, of_screen, of_styles, unreadable
from tests.tui.kit import app_for, run_app, wait_for, wait_until_idle
from tui_agent import ROOT
from tui_agent.tui.themes import HIGH_CONTRAST, THEMES
from widgets import ansi
from widgets.overlay import MIN_CONTRAST, contrast_ratio, readable_color
from widgets.palette import Palette
from widgets.panel import Panel
from widgets.styled_text import TextStyles, text_styles_of
from widgets.transcript import Transcript

MEASURED = THEMES[:3]
"""The other one has the terminal's own colours."""
TEXTS = (
    "foreground", "primary", "success", "warning", "error", "muted", "code", "keyword", "string", "number", "name",
)  # fmt: skip
GROUNDS = ("background", "surface", "panel")
CHANGED = [
    *product(("added",), ("added-ground", "added-word")),
    *product(("removed",), ("removed-ground", "removed-word")),
    *product(("keyword", "string", "number", "name", "muted"), ("added-ground", "removed-ground")),
]
OUTPUT = "".join(
    f"\x1b[{code}mred\x1b[0m"
    for code in ("31", "2", "2;34", "1;90", *(f"38;5;{number}" for number in range(256)), "2;38;2;20;30;40")
)


def least(theme: Theme) -> float:
    return 7.0 if theme is HIGH_CONTRAST else MIN_CONTRAST


def colour(theme: Theme, name: str) -> Color:
    return Color.parse(theme.variables.get(name) or getattr(theme, name))


def test_contrast_is_what_the_guidelines_say() -> None:
    black, white = Color(0, 0, 0), Color(255, 255, 255)
    assert contrast_ratio(black, white) == contrast_ratio(white, black) == 21
    assert round(contrast_ratio(Color.parse("#777777"), white), 2) == 4.48
    assert contrast_ratio(readable_color(Color(90, 90, 90), white, black), black) == pytest.approx(
        MIN_CONTRAST, abs=0.5
    )
    assert readable_color(Color(10, 10, 10), Color(20, 20, 20), black) == Color(20, 20, 20)  # it has no better one


@pytest.mark.parametrize("theme", MEASURED, ids=lambda theme: theme.name)
def test_every_text_can_be_read_on_every_ground(theme: Theme) -> None:
    found = {
        (text, ground): round(contrast_ratio(colour(theme, text), colour(theme, ground)), 2)
        for text, ground in [*product(TEXTS, GROUNDS), *CHANGED]
    }
    assert {pair: value for pair, value in found.items() if value < least(theme)} == {}


def test_every_text_role_of_the_sheets_is_measured() -> None:
    sheet = (ROOT / "styles" / "tokens.tcss").read_text()
    roles = dict(re.findall(r"^\.role--(\w+) \{ color: \$([\w-]+)", sheet, re.M))
    assert set(roles) == set(TextStyles._fields)
    assert {colour for role, colour in roles.items() if role not in LINES} == {*TEXTS, "added", "removed"}


@pytest.mark.parametrize(
    ("scene", "keys"), [("plan_waits", ("", "f1", "ctrl+p")), ("edit_asked", ("", "e")), ("summary_waits", ("tab",))]
)
async def test_every_style_of_a_screen_can_be_read(scene: str, keys: tuple[str, ...]) -> None:
    found: dict[tuple[str, Words], float] = {}
    names: set[str] = set()
    app, _session = app_for(scene)
    async with run_app(app, (120, 50)) as pilot:
        for key in keys:
            await pilot.press(*key.split())
            if key in ("f1", "ctrl+p"):
                await wait_for(pilot, lambda: isinstance(app.screen, Panel | Palette))
            for theme in MEASURED:
                app.theme = theme.name
                await wait_until_idle(pilot)
                styles = list(of_styles(app))
                names |= {words.text.rpartition(" ")[2] for words in styles}
                found |= {(theme.name, one): v for one, v in unreadable(styles, least(theme)).items()}
                found |= {(theme.name, one): v for one, v in unreadable(of_screen(app)).items()}
            if isinstance(app.screen, Panel | Palette):
                await pilot.press("escape")
                await wait_for(pilot, lambda: len(app.screen_stack) == 1)
    assert found == {}
    if scene == "plan_waits":
        sheets = "".join(path.read_text() for path in (ROOT / "styles").glob("*.tcss"))
        parts = set(re.findall(r"\.([a-z-]+--[a-z_-]+)", sheets))
        assert parts - {f"role--{role}" for role in TextStyles._fields} <= names


async def test_colours_of_tool_output_can_be_read() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        for theme in MEASURED:
            app.theme = theme.name
            await wait_until_idle(pilot)
            styles = text_styles_of(app.query_one(Transcript))
            for base in (styles.text, styles.muted):
                for text, style in ansi.ansi_spans(OUTPUT, styles, base):
                    pair = [Color.from_rich_color(one) for one in (style.color, style.bgcolor)]
                    assert text == "red" and not style.dim and contrast_ratio(*pair) >= MIN_CONTRAST
            (plain,) = ansi.ansi_spans("\x1b[38;2;250;250;90mas it is", styles, styles.text)
            if theme.dark:
                assert plain[1].color == Style.parse("#fafa5a").color


def test_every_word_of_the_pictures_can_be_read() -> None:
    pictures: dict[str, int] = {}
    found: dict[str, dict[Words, float]] = {}
    for path in sorted((ROOT / "snapshots" / "tui").rglob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        theme = next(
            (one for one in MEASURED if f'fill="{one.background}"' in svg or f'fill="{one.surface}"' in svg), None
        )
        if theme is None:
            assert re.search("ansi|colour", path.name), path
            continue
        pictures[theme.name] = pictures.get(theme.name, 0) + 1
        if wrong := unreadable(of_picture(svg)):
            found[f"{path.parent.name}/{path.name}"] = wrong
    assert found == {}
    assert len(pictures) == len(MEASURED) and min(pictures.values()) > 20
