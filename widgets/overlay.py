"""What covers a screen: modal screens, which leave it readable, and a sentence in a terminal that is too small (U6)."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any, Final

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.css.styles import RulesMap
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual, VisualType

from widgets.line_view import LinesView
from widgets.styled_text import Line, TextStyles, wrap
from widgets.textual_private import report_all_resizes, strips_of

MIN_CONTRAST: Final = 4.5
"""Minimum contrast of text and background (WCAG 2.2, 1.4.3)."""
_BLEND_STEPS: Final = 16
_NO_STYLE = RichStyle()
_DIM = RichStyle(dim=True)


def contrast_ratio(first: Color, second: Color) -> float:
    """Return the contrast of two colors by WCAG 2.2, from 1 to 21 (black on white)."""
    dark, bright = sorted((_luminance(first), _luminance(second)))
    return (bright + 0.05) / (dark + 0.05)


def readable_color(faded: Color, full: Color, ground: Color, minimum: float = MIN_CONTRAST) -> Color:
    """Return the first blend from `faded` to `full` with at least contrast `minimum` on `ground`, otherwise `full`."""
    blends = (faded.blend(full, step / _BLEND_STEPS) for step in range(_BLEND_STEPS))
    return next((blend for blend in blends if contrast_ratio(blend, ground) >= minimum), full)


def _luminance(color: Color) -> float:
    red, green, blue = (_linear(channel / 255) for channel in color.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.03928 else float(((channel + 0.055) / 1.055) ** 2.4)


class OverlayScreen(ModalScreen[None]):
    """A modal screen over a dimmed one.

    Looks like Textual's `ModalScreen`, but dims much faster, as the screen below is repainted after every key press.
    """

    AUTO_FOCUS = ""

    def __init__(self) -> None:
        super().__init__()
        report_all_resizes(self)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close this screen, once: keys that arrive together may ask for it twice, which would close the next one."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()

    def render(self) -> VisualType:  # type: ignore[override]  # the return type of Screen is narrower than Widget's
        """Return the dimmed screen below."""
        background = super().render()
        if isinstance(background, BackgroundScreen) and strips_of(background.screen) is not None:
            return _Dimmed(background.screen, background.color)
        return background


class _Dimmed(Visual):
    """The lines of a screen, dimmed; the dimmed styles are cached."""

    def __init__(self, screen: Screen[object], color: Color) -> None:
        self._screen = screen
        self._color = color

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        """See Visual."""
        color, base = self._color, style.rich_style
        return [
            Strip(
                [
                    segment
                    if segment.control
                    else Segment(
                        segment.text,
                        _dimmed(segment.style or _NO_STYLE, color, base, any(map(str.isalnum, segment.text))),
                    )
                    for segment in line
                ],
                line.cell_length,
            ).crop(0, width)
            for line in islice(strips_of(self._screen) or (), height)
        ]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """Return the available width."""
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """Return the height of the screen."""
        return self._screen.size.height


@lru_cache(maxsize=1024)
def _dimmed(style: RichStyle, color: Color, base: RichStyle, has_words: bool) -> RichStyle:
    """Return the style dimmed by `color`, but readable if the text has words; without a color, as dim text."""
    if not color.a:
        return style.clear_meta_and_links() + _DIM
    (segment,) = BackgroundScreen.process_segments((Segment(" ", style),), color)
    dimmed = base if segment.style is None else base + segment.style
    full = base + style
    rich_colors = [dimmed.color, dimmed.bgcolor, full.color, full.bgcolor]
    colors = [Color.from_rich_color(rich) for rich in rich_colors if rich is not None and not rich.is_default]
    if not has_words or len(colors) < len(rich_colors):  # nothing to read, or default colors of the terminal
        return dimmed
    text, ground, full_text, full_ground = colors
    if contrast_ratio(full_text, ground) < MIN_CONTRAST <= contrast_ratio(full_text, full_ground):
        text, ground, full_text = ground, text, full_ground  # reversed, such as the character under a cursor
    text = readable_color(text, full_text, ground)
    return dimmed + RichStyle(color=text.rich_color, bgcolor=ground.rich_color)


# --- too small ---

MIN_WIDTH, MIN_HEIGHT = 40, 10
"""Smallest usable size of the terminal, in cells."""
KEYS_WHEN_TOO_SMALL = ("ctrl+c", "ctrl+z")
"""Keys that act nevertheless: they stop the run or quit, and suspend."""


def is_too_small(size: Size) -> bool:
    """Return whether nothing can be done in a terminal of a size."""
    return size.width < MIN_WIDTH or size.height < MIN_HEIGHT


class TooSmall(LinesView):
    """Covers the screen, so that no answer is given unseen."""

    def __init__(self, size: Size) -> None:
        super().__init__(self._sentence)
        self.terminal_size = size

    def _sentence(self, width: int, styles: TextStyles) -> list[Line]:
        size = f"{self.terminal_size.width}×{self.terminal_size.height}"
        text = (
            f"Too small: at least {MIN_WIDTH}×{MIN_HEIGHT}. This terminal has {size}. Text goes to your message; other "
            "keys are ignored, except ctrl+c."
        )
        return wrap([(text, styles.text)], max(1, width))


def cover_if_too_small(screen: Screen[Any], size: Size | None = None) -> None:
    """Cover a screen while the terminal, of the given or the app's `size`, is too small for it."""
    size = size or screen.app.size
    covers = screen.query_children(TooSmall)
    if not is_too_small(size):
        covers.remove()
    elif covers:
        covers.first().terminal_size = size
        covers.first().relayout()
    else:
        screen.mount(TooSmall(size))
