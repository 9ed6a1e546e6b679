"""What can't be read: words whose colour is too near to that of their ground, on a screen and in a stored picture."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from tui_agent.tui.app import TuiAgentApp
from widgets.overlay import MIN_CONTRAST, contrast_ratio
from widgets.styled_text import text_styles_of

CELL, ROW, TOP = 12.2, 24.4, 1.5
"""Width and height of a cell in a stored picture, and where its first row begins."""
FILL = re.compile(r"\.\S+-(r\d+) \{ fill: (#\w{6})")
RECT = re.compile(r'<rect fill="(#\w{6})" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="24.65" shape')
TEXT = re.compile(
    r'<text class="\S+-(r\d+)" x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)" clip-path="url\(#\S+-line-(\d+)\)">([^<]*)<'
)
LINES = {"faint"}
"""Roles that lines and rules are painted with, and no words."""


class Words(NamedTuple):
    """Words of one style."""

    text: str
    colour: str
    ground: str


def has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


@lru_cache(4096)
def contrast(colour: str, ground: str) -> float:
    return contrast_ratio(Color.parse(colour), Color.parse(ground))


def of_picture(svg: str) -> Iterator[Words]:
    """The words of a picture that has colours of its own; each cell is looked at on the ground that it stands on."""
    colours = dict(FILL.findall(svg))
    grounds: dict[tuple[int, int], str] = {}
    for colour, x, y, width in RECT.findall(svg):
        row, first = round((float(y) - TOP) / ROW), round(float(x) / CELL)
        grounds.update(((row, first + cell), colour) for cell in range(round(float(width) / CELL)))
    for name, x, width, row, escaped in TEXT.findall(svg):
        text = html.unescape(escaped)
        if not has_words(text):
            continue
        first = round(float(x) / CELL)
        for ground in {grounds[int(row), first + cell] for cell in range(round(float(width) / CELL))}:
            yield Words(text.strip("\xa0"), colours[name], ground)


def of_screen(app: TuiAgentApp) -> Iterator[Words]:
    """The words that are on the screen now."""
    for strip in app.screen._compositor.render_strips():
        for text, style, _control in strip:
            if style is not None and has_words(text):
                yield _words(text, style)


def of_styles(app: TuiAgentApp) -> Iterator[Words]:
    """Every style that words of the screen's widgets may have: the roles of text on the ground of each, and what
    Textual paints the parts of its own with."""
    for widget in app.screen.walk_children(Widget):
        where = f"{type(widget).__name__}#{widget.id}"
        for role, style in text_styles_of(widget)._asdict().items():
            if role not in LINES:
                yield _words(f"{where} {role}", style)
        for name in widget._get_component_classes():
            yield _words(f"{where} {name}", widget.get_component_rich_style(name))


def _words(text: str, style: Style) -> Words:
    colour, ground = style.color, style.bgcolor
    assert colour is not None and ground is not None, text
    if style.reverse:
        colour, ground = ground, colour
    return Words(text.strip(), Color.from_rich_color(colour).hex6, Color.from_rich_color(ground).hex6)


def unreadable(found: Iterable[Words], least: float = MIN_CONTRAST) -> dict[Words, float]:
    return {words: round(value, 2) for words in found if (value := contrast(words.colour, words.ground)) < least}
