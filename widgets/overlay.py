"""How well one colour can be read on another, and colours that are brought back to where they can."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Final

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.css.styles import RulesMap
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual, VisualType

from widgets.textual_private import strips_of

LEAST: Final = 4.5
"""The contrast of words on their ground; WCAG 2.2, 1.4.3."""
_STEPS: Final = 16


def contrast_ratio(one: Color, other: Color) -> float:
    """From 1, the same lightness, to 21, black on white: the contrast of WCAG 2.2."""
    dark, bright = sorted((_lightness(one), _lightness(other)))
    return (bright + 0.05) / (dark + 0.05)


def readable_color(faded: Color, full: Color, ground: Color, least: float = LEAST) -> Color:
    """`faded`, or the first colour on its way to `full` that has the contrast `least` on `ground`; `full` where none
    has."""
    for step in range(_STEPS):
        found = faded.blend(full, step / _STEPS)
        if contrast_ratio(found, ground) >= least:
            return found
    return full


def _lightness(colour: Color) -> float:
    red, green, blue = (_linear(part / 255) for part in colour.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.03928 else float(((part + 0.055) / 1.055) ** 2.4)


_NONE = RichStyle()


class OverlayScreen(ModalScreen[None]):
    """A screen over another one. Looks as Textual's does, at a fraction of its time: what is below is painted anew
    with every change of either, so a letter that is typed waits for it."""

    def render(self) -> VisualType:  # type: ignore[override]  # Textual's Screen says less than its Widget takes
        """The screen below."""
        found = super().render()
        if isinstance(found, BackgroundScreen) and strips_of(found.screen) is not None:
            return _Dimmed(found.screen, found.color)
        return found


class _Dimmed(Visual):
    """The lines of a screen as they are; of its styles, which are some dozen, each is worked out once."""

    def __init__(self, screen: Screen[object], color: Color) -> None:
        self._screen = screen
        self._color = color

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        """See Visual."""
        color, base = self._color, style.rich_style
        return [
            Strip(
                [
                    one
                    if one.control
                    else Segment(one.text, _dimmed(one.style or _NONE, color, base, _has_words(one.text)))
                    for one in line
                ],
                line.cell_length,
            ).crop(0, width)
            for line in islice(strips_of(self._screen) or (), height)
        ]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """All there is."""
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """As high as the screen."""
        return self._screen.size.height


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


@lru_cache(maxsize=1024)
def _dimmed(style: RichStyle, color: Color, base: RichStyle, words: bool) -> RichStyle:
    (one,) = BackgroundScreen.process_segments((Segment(" ", style),), color)
    found = base if one.style is None else base + one.style
    full = base + style
    pairs = found.color, found.bgcolor, full.color, full.bgcolor
    known = [Color.from_rich_color(one) for one in pairs if one is not None and not one.is_default]
    if not words or len(known) < len(pairs):
        return found  # or the terminal's own colours
    shown, ground, whole, bright = known
    if (
        contrast_ratio(whole, ground) < LEAST <= contrast_ratio(whole, bright)
    ):  # on light, as the letter under a cursor is
        shown, ground, whole = ground, shown, bright
    shown = readable_color(shown, whole, ground)
    return found + RichStyle(color=shown.rich_color, bgcolor=ground.rich_color)
