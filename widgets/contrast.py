"""How well one colour can be read on another, and colours that are brought back to where they can (R26.1)."""

from __future__ import annotations

from typing import Final

from textual.color import Color

LEAST: Final = 4.5
"""The contrast of words on their ground; WCAG 2.2, 1.4.3."""
_STEPS: Final = 16


def ratio(one: Color, other: Color) -> float:
    """From 1, the same lightness, to 21, black on white: the contrast of WCAG 2.2."""
    dark, bright = sorted((_lightness(one), _lightness(other)))
    return (bright + 0.05) / (dark + 0.05)


def readable(faded: Color, full: Color, ground: Color, least: float = LEAST) -> Color:
    """`faded`, or the first colour on its way to `full` that has the contrast `least` on `ground`; `full` where none
    has."""
    for step in range(_STEPS):
        found = faded.blend(full, step / _STEPS)
        if ratio(found, ground) >= least:
            return found
    return full


def _lightness(colour: Color) -> float:
    red, green, blue = (_linear(part / 255) for part in colour.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.03928 else float(((part + 0.055) / 1.055) ** 2.4)
