"""What dialogs share: options with their keys, hidden lines, a note and the draft in the frame, clicks (U4, A9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual import events
from textual.content import Content
from textual.widget import Widget

from widgets.dialog_keys import clickable, clicked_key, key_span
from widgets.line_view import LineView
from widgets.styled_text import Line, Span, TextStyles, hanging, visible

if TYPE_CHECKING:
    Mixin = Widget
else:
    Mixin = object  # Textual takes its style sheet from the first base that is a widget

MAX_DRAFT = 60
"""Maximum characters of the draft that are shown."""


class DialogFrame(Mixin):
    """Mixin for what has a border, whose lower edge shows why a key did nothing, and the end of the draft."""

    note = ""
    """What became of the last key; empty if it did what it does here."""
    _draft = ""
    _pressed: events.Key | None = None
    """The key hint on which the mouse button went down."""

    @property
    def frame(self) -> Widget:
        """What has the border."""
        return next(iter(self.query("#dialog")), self)

    def tell(self, note: str) -> None:
        """Show what became of a key until the next key; an empty string removes it."""
        if note != self.note:
            self.note = note
            self._paint_edge()

    def show_draft(self, text: str) -> None:
        """Show the end of the draft: what is typed while a dialog is open goes there."""
        self._draft = text
        self._paint_edge()

    def _paint_edge(self) -> None:
        lines = self._draft.rstrip().split("\n")
        start = "…" if len(lines) > 1 or len(lines[-1]) > MAX_DRAFT else ""
        draft = f"your message: {start}{lines[-1][-MAX_DRAFT:]}" if lines[-1] else ""
        text = visible(" · ".join(filter(None, (self.note, draft))))
        frame = self.frame
        frame.set_class(bool(self.note), "-tells")
        if text:
            frame.border_subtitle = Content(f" {text} ")
        else:
            frame.border_subtitle = self.edge_title

    @property
    def edge_title(self) -> str:
        """Text of the lower edge while there is nothing else to show."""
        return ""

    # --- clicks ---

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Note the key hint under the pointer."""
        self._pressed = clicked_key(event)

    def on_click(self, event: events.Click) -> None:
        """Press the key of the hint on which the button went down and up again."""
        down, self._pressed = self._pressed, None
        up = clicked_key(event)
        if down is not None and up is not None and down.key == up.key:
            event.stop()
            self.press_clicked(down)

    def press_clicked(self, event: events.Key) -> None:
        """Handle the key of a clicked hint; its time is that of the pointer going down."""
        raise NotImplementedError


def hidden_hint(body: LineView, scroll_keys: str, styles: TextStyles, *, seen: bool) -> list[Span]:
    """Return the scroll keys and the number of lines below, or that there are none; empty if everything is visible.

    `seen`: whether the end was visible before, so that the hint need not stand out.
    """
    if not body.max_scroll_y:
        return []
    style = styles.muted if seen else styles.warn
    if not (hidden := body.lines_below):
        return [("   no more lines below", style)]
    text = f"{hidden} more line{'s' * (hidden > 1)} below"
    return key_span(scroll_keys, text, styles.accent, style, "   ")


def option_lines(
    options: Iterable[tuple[str, str, str]],
    is_enabled: Callable[[str], bool],
    key_of: Callable[[str], str],
    width: int,
    styles: TextStyles,
    *,
    held: str = "",
) -> list[Line]:
    """Paint options (action, effect, exact rule) with their keys. Disabled ones are muted, unbound ones omitted.

    `held` is the label of the key that acts in a moment: its option is marked.
    """
    rows = [(key_of(action), text, rule, is_enabled(action)) for action, text, rule in options if key_of(action)]
    key_width = max((len(row[0]) for row in rows), default=1)
    text_width = max((len(row[1]) for row in rows), default=0)
    lines: list[Line] = []
    for key, text, rule, enabled in rows:
        style = styles.text if enabled else styles.muted
        key_style = styles.accent + styles.strong.without_color if enabled else styles.muted
        if enabled and key == held:
            style, key_style = styles.held, styles.held
        style, key_style = clickable(style, key), clickable(key_style, key)
        muted = clickable(styles.muted, key)
        spans = [(f"{text:<{text_width}}  ", style), (rule, muted)] if rule else [(text, style)]
        lines += hanging([(f"{key:<{key_width}}  ", key_style)], spans, width, styles.text)
    return lines
