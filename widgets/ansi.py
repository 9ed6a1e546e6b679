"""Colors of tool output: the escape sequences that `text.clean(colors=True)` left become styles, never bytes."""

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

_BASIC = ("muted", "bad", "ok", "warn", "accent", "keyword", "link", "text")
"""Our roles in the place of the eight classic colors, so that every theme stays readable."""


def ansi_spans(text: str, styles: TextStyles, base: Style) -> Iterator[Span]:
    """`text` as spans in its colors over `base`; backgrounds, concealing and blinking are dropped."""
    style, end = base, 0
    for found in SGR.finditer(text):
        if found.start() > end:
            yield text[end : found.start()], _readable_style(style, base)
        style = _apply(style, base, tuple(found[1].replace(":", ";").split(";")), styles)
        end = found.end()
    if end < len(text):
        yield text[end:], _readable_style(style, base)


def strip_ansi(text: str) -> str:
    """`text` without its colors."""
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
            role: Style = getattr(styles, _BASIC[code % 10])
            style += Style(color=role.color)
        elif code == 39:
            style += Style(color=base.color)
        elif code in (38, 48):
            color = _extended(numbers)
            if code == 38 and color is not None:
                style += Style(color=color)
    return style


@lru_cache(512)
def _readable_style(style: Style, base: Style) -> Style:
    """A color that can be read on the ground of the output, where that is known: dim and foreign ones too."""
    color, own, ground = style.color, base.color, base.bgcolor
    if color is None or own is None or ground is None or ground.is_default or not ground.triplet:
        return style
    if not own.triplet or (style.color is base.color and not style.dim):
        return style
    full = Paint.from_rich_color(own)
    paint, under = Paint(*color.get_truecolor()), Paint.from_rich_color(ground)
    faded = paint.blend(under, 0.5) if style.dim else paint
    found = readable_color(readable_color(faded, paint, under), full, under)
    return style + Style(color=found.rich_color, dim=False)


def _extended(numbers: list[int]) -> Color | None:
    """The color after 38 or 48; takes its numbers away."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return Color.from_ansi(min(255, numbers.pop(0)))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(255, numbers.pop(0)) for _ in range(3))
        return Color.from_rgb(red, green, blue)
    numbers.clear()
    return None
