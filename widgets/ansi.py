"""Colors of tool output: converts the escape sequences left by `text.clean(colors=True)` to styles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from rich.color import Color
from rich.style import Style
from textual.color import Color as Paint

from widgets.overlay import readable_color
from widgets.styled_text import Span, TextStyles

SGR = re.compile(r"\x1b\[([0-9;:]*)m")

_BASIC_ROLES = ("muted", "bad", "ok", "warn", "accent", "keyword", "link", "text")
"""Text roles used for the eight basic colors, for contrast in every theme."""


def ansi_spans(text: str, styles: TextStyles, base: Style) -> Iterator[Span]:
    """Yield `text` as colored spans on top of `base`; backgrounds, concealing and blinking are dropped."""
    style, end = base, 0
    for match in SGR.finditer(text):
        if match.start() > end:
            yield text[end : match.start()], _readable_style(style, base)
        style = _apply(style, base, tuple(match[1].replace(":", ";").split(";")), styles)
        end = match.end()
    if end < len(text):
        yield text[end:], _readable_style(style, base)


def strip_ansi(text: str) -> str:
    """Return `text` without color sequences."""
    return SGR.sub("", text)


@lru_cache(512)
def _apply(style: Style, base: Style, codes: tuple[str, ...], styles: TextStyles) -> Style:
    numbers = [int(code or 0) for code in codes if len(code) <= 3]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            style = base
        elif code in (1, 2, 3, 4, 9):
            key = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike"}[code]
            style += Style.parse(key)
        elif code in (22, 23, 24, 29):
            off = {22: "not bold not dim", 23: "not italic", 24: "not underline", 29: "not strike"}[code]
            style += Style.parse(off)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            role: Style = getattr(styles, _BASIC_ROLES[code % 10])
            style += Style(color=role.color)
        elif code == 39:
            style += Style(color=base.color)
        elif code in (38, 48):
            color = _parse_extended_color(numbers)
            if code == 38 and color is not None:
                style += Style(color=color)
    return style


@lru_cache(512)
def _readable_style(style: Style, base: Style) -> Style:
    """Return the style with enough contrast on the background of `base`, if that is known."""
    color, base_color, ground = style.color, base.color, base.bgcolor
    if color is None or base_color is None or ground is None or ground.is_default or not ground.triplet:
        return style
    if not base_color.triplet or (color is base_color and not style.dim):
        return style
    foreground, background = Paint.from_rich_color(base_color), Paint.from_rich_color(ground)
    wanted = Paint(*color.get_truecolor())
    faded = wanted.blend(background, 0.5) if style.dim else wanted
    readable = readable_color(readable_color(faded, wanted, background), foreground, background)
    return style + Style(color=readable.rich_color, dim=False)


def _parse_extended_color(numbers: list[int]) -> Color | None:
    """Return the color following code 38 or 48 and remove its numbers; None if it is invalid."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return Color.from_ansi(min(255, numbers.pop(0)))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(255, numbers.pop(0)) for _ in range(3))
        return Color.from_rgb(red, green, blue)
    numbers.clear()
    return None
