"""The pager for the output of a command (F7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.strip import Strip

from tui_agent.text import one_line
from widgets import ansi
from widgets.dialog_keys import Keys, key_lines
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.panel import Sheet
from widgets.styled_text import Line, Span, TextStyles, chop, fit, line, overlay, width_of
from widgets.text_selection import find_all, lower

OutputRow: TypeAlias = tuple[int, int, str]
"""Byte offset of a line, offset of the next one, text with escape sequences."""


class OutputWindow(NamedTuple):
    """The lines around an offset."""

    above: Sequence[OutputRow] = ()
    """Lines that end at the offset, top to bottom."""
    below: Sequence[OutputRow] = ()
    size: int = 0
    """Bytes so far."""
    number: int | None = None
    """Line number of the first line below; None while uncounted."""
    lines: int | None = None
    """Number of lines; None while uncounted."""


class PagerApi(Protocol):
    """Provides the lines of an output."""

    @property
    def title(self) -> str:
        """The command of the output."""

    @property
    def note(self) -> str:
        """A caveat, such as a truncated output; may be empty."""

    @property
    def growing(self) -> bool:
        """Whether more output may follow."""

    async def read_window(self, offset: int, above: int, below: int) -> OutputWindow:
        """Return at most `above` and `below` lines around an offset; -1 is the end."""

    async def find(self, text: str, offset: int, *, backwards: bool) -> int | None:
        """Return the offset of the nearest match after (`backwards`: before) `offset`; None if there is none."""

    async def line(self, number: int) -> int | None:
        """Return the offset of a line; None while uncounted."""

    async def turn(self, by: int) -> bool:
        """Switch to another output; return False if there is none."""

    def closed(self) -> None:
        """Called when the pager was closed."""


def highlight_matches(spans: Sequence[Span], needle: str, style: Style) -> list[Span]:
    """Highlight every `needle`, also across spans. Case-sensitive if the needle has capitals."""
    text = "".join(part for part, _style in spans)
    searched = lower(text) if needle == needle.lower() else text
    return overlay(spans, find_all(searched, needle), style)


def format_size(size: int) -> str:
    """Format a number of bytes for display."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


KEYS = Keys("pager")
COLUMN_STEP = 16
"""Columns per horizontal step."""
WHEEL_LINES = 3
"""Lines per step of the mouse wheel."""
POLL_SECONDS = 0.3
"""Seconds between checks for more output."""


class OutputPager(Sheet):
    """Head, lines, search and keys."""

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)

    def __init__(self, source: PagerApi) -> None:
        super().__init__()
        self.source = source
        self.top_offset, self.top_part = 0, 0
        """Offset of the first visible line, and how many of its screen lines are above the visible area."""
        self.column = 0
        self.wraps = False
        self.following = True
        self.needle = ""
        self.window = OutputWindow()
        self._visible_end = 0
        """Offset after the last visible line."""
        self._match_offset = -1
        """Offset of the latest match."""
        self._message = ""
        self._moves: list[Callable[[], Awaitable[None]]] = []
        self._moving = False
        self._grew = False
        self._visible_lines: Sequence[Line] = ()
        self._body = LinesView(lambda width, styles: self._visible_lines, id="pager-body")
        self._field = LineInput(id="pager-search", placeholder="search, or :120 for a line")
        self._field.display = False
        self._views = {"head": LinesView(self.head, id="pager-head"), "keys": LinesView(self.keys, id="pager-keys")}

    # --- painting ---

    def compose(self) -> ComposeResult:
        """Head, lines, search field, keys."""
        with Vertical(id="pager"):
            yield self._views["head"]
            yield self._body
            with Horizontal(id="pager-bar"):
                yield self._field
            yield self._views["keys"]

    def on_mount(self) -> None:
        """Start at the end."""
        self.go(self.to_end)
        self.set_interval(POLL_SECONDS, self._poll)

    def on_unmount(self) -> None:
        """Notify the source."""
        self.source.closed()

    def on_line_view_resized(self) -> None:
        """Lay out the lines again."""
        self.go(self._settle)

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """Title, size, and whether it is still growing."""
        right = format_size(self.window.size) + (" · running" if self.source.growing else "")
        title = fit(one_line(self.source.title, 400), max(4, width - len(right) - 10))
        left: list[Span] = [("Output ", styles.heading), (title, styles.muted)]
        gap = max(1, width - width_of(left) - len(right))
        lines = [line(*left, (" " * gap, styles.text), (right, styles.muted))]
        return [*lines, line((fit(one_line(self.source.note, 400), width), styles.warn))] if self.source.note else lines

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Key hints and position."""
        if self._message:
            return [line((fit(one_line(self._message, 300), width), styles.warn))]
        position = self._position_text()
        pairs = [("esc", "back"), (KEYS.label("search"), "search")]
        pairs += [(KEYS.labels("next_match", "previous_match"), "matches")] if self.needle else []
        pairs += [(KEYS.label("wrap"), "cut lines" if self.wraps else "wrap")]
        pairs += [] if self.wraps else [(KEYS.arrow_labels("left", "right"), "scroll sideways")]
        end = "follow" if self.source.growing else "to the end"
        pairs += [] if self.following else [(KEYS.label("bottom"), end)]
        pairs = [pair for pair in [*pairs, (KEYS.label("older"), "other calls")] if pair[0]]
        while pairs and sum(len(key) + len(text) + 3 for key, text in pairs) + len(position) > width:
            pairs.pop()
        spans = list(key_lines(pairs, width, styles)[0].segments)
        gap = max(1, width - sum(segment.cell_length for segment in spans) - len(position))
        return [Line([*spans, Segment(" " * gap, styles.text), Segment(position, styles.muted)])]

    def _position_text(self) -> str:
        window = self.window
        if not window.size:
            return "nothing yet" if self.source.growing else "no output"
        share = f"{min(100, round(100 * self._visible_end / window.size))}%"
        if window.number is None:
            return share
        return f"line {window.number:,}" + (f" of {window.lines:,}" if window.lines else "") + f" · {share}"

    def show_message(self, text: str) -> None:
        """Show a message instead of the keys until the next key."""
        self._message = text
        self._repaint()

    def _repaint(self) -> None:
        for view in self._views.values():
            view.relayout()

    # --- moving ---

    @property
    def _height(self) -> int:
        return max(1, self._body.size.height)

    def go(self, move: Callable[[], Awaitable[None]]) -> None:
        """Queue a move; moves run in order."""
        self._moves.append(move)
        if not self._moving:
            self._moving = True
            self.run_worker(self._go(), exit_on_error=False)

    async def _go(self) -> None:
        try:
            while self._moves and self.is_attached:
                await self._moves.pop(0)()
                if not self._moves:
                    await self._show()
        finally:
            self._moving = False

    async def to_end(self) -> None:
        """Show the end and follow new output."""
        window = await self.source.read_window(-1, self._height, 0)
        parts = self._parts(window.above)[-self._height :]
        self.top_offset, self.top_part = parts[0] if parts else (0, 0)
        self.following = True

    async def to_home(self) -> None:
        """Show the beginning."""
        self.top_offset, self.top_part, self.column, self.following = 0, 0, 0, False

    async def _wait_for_layout(self) -> None:
        """Wait for the next layout, as after hiding the field."""
        done = asyncio.Event()
        self.call_after_refresh(done.set)
        await done.wait()

    async def _settle(self) -> None:
        """Restore the position after a resize."""
        await (self.to_end() if self.following else self.scroll_lines(0))

    async def go_to_offset(self, offset: int) -> None:
        """Show the line at an offset, with some lines above it."""
        self.top_offset, self.top_part, self.following = offset, 0, False
        await self.scroll_lines(-(self._height // 3))

    async def scroll_lines(self, by: int) -> None:
        """Scroll by screen lines; negative scrolls up."""
        height = self._height
        if by < 0:
            self.following = False
            above = self._parts((await self.source.read_window(self.top_offset, -by, 0)).above)
            index = len(above) + self.top_part + by
            if index < len(above):
                self.top_offset, self.top_part = above[index] if index >= 0 else (0, 0)
            else:
                self.top_part = index - len(above)
            return
        window = await self.source.read_window(self.top_offset, 0, self.top_part + by + height + 1)
        parts = self._parts(window.below)
        index = self.top_part + by
        at_end = not window.below or window.below[-1][1] >= window.size
        if at_end and len(parts) - index <= height:
            await self.to_end()
        elif index < len(parts):
            self.top_offset, self.top_part = parts[index]

    def _parts(self, rows: Sequence[OutputRow]) -> list[tuple[int, int]]:
        """Return (row offset, part) for each screen line."""
        return [(row[0], part) for row in rows for part in range(len(self._painted(row)) if self.wraps else 1)]

    async def _show(self) -> None:
        """Paint the visible lines."""
        height = self._height
        self.window = window = await self.source.read_window(self.top_offset, 0, self.top_part + height)
        lines: list[Line] = []
        self._visible_end = window.size
        for number, row in enumerate(window.below):
            lines += self._painted(row)[0 if number else self.top_part :]
            if len(lines) >= height:
                self._visible_end = row[1]
                break
        if self.is_attached:
            self._visible_lines = lines[:height]
            self._body.repaint()
            self._repaint()

    def _painted(self, row: OutputRow) -> list[Line]:
        styles, width = self._body.text_styles, self._body.columns
        spans = list(ansi.ansi_spans(row[2], styles, styles.text))
        spans = (
            highlight_matches(spans, self.needle, styles.link + styles.strong.without_color) if self.needle else spans
        )
        if self.wraps:
            return chop(spans, width)
        strip = Strip(line(*spans).segments)
        segments = list(strip.crop(self.column, self.column + width))
        if strip.cell_length > self.column + width:
            segments = [*Strip(segments).crop(0, width - 1), Segment("›", styles.faint)]
        return [Line(segments)]

    def _poll(self) -> None:
        grew, self._grew = self._grew, self.source.growing
        if not self._moving and (grew or self._grew or self.window.lines is None):
            self.go(self.to_end if self.following and grew else self._stay)

    async def _stay(self) -> None:
        """Do not move: only the position display is updated."""

    # --- keys ---

    def on_key(self, event: events.Key) -> None:
        """Handle keys; the open search field gets all but Enter and Esc."""
        if self._field.display and event.key not in ("enter", "escape"):
            return
        event.stop()
        event.prevent_default()
        if self._message:
            self.show_message("")
        move = ACTIONS.get("close" if event.key in ("escape", "ctrl+c") else KEYS.action_for(event))
        if self._field.display:
            self._close_search(event.key == "enter")
        elif move is not None:
            move(self)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll."""
        event.stop()
        self.go(partial(self.scroll_lines, WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll."""
        event.stop()
        self.go(partial(self.scroll_lines, -WHEEL_LINES))

    def _page(self, direction: int) -> None:
        """Scroll by a screen, keeping one line."""
        self.go(partial(self.scroll_lines, direction * max(1, self._height - 1)))

    def _sideways(self, by: int) -> None:
        """Scroll horizontally."""
        if not self.wraps:
            self.column = max(0, self.column + by)
            self.go(self._stay)

    def _wrap(self) -> None:
        """Toggle wrapping."""
        self.wraps, self.column, self.top_part = not self.wraps, 0, 0
        self.go(self._settle)

    def _open_search(self) -> None:
        """Open the search field."""
        self._field.display = True
        self._field.value = ""
        self._field.focus()

    def _close_search(self, accepted: bool) -> None:
        self._field.display = False
        self.set_focus(None)
        self.go(self._wait_for_layout)
        text = self._field.value
        if accepted and (number := re.fullmatch(r":\s*(\d{1,12})", text)):
            self.go(partial(self._to_line, int(number[1])))
        elif accepted and text:
            self.needle = text
            self.go(partial(self._match, backwards=False, new=True))
        elif accepted:
            self.match(False)

    async def _to_line(self, number: int) -> None:
        offset = await self.source.line(number)
        if offset is None:
            self.show_message("The lines are still being counted.")
        else:
            await self.go_to_offset(offset)

    def match(self, backwards: bool) -> None:
        """Go to the next or previous match."""
        if self.needle:
            self.go(partial(self._match, backwards=backwards))

    async def _match(self, *, backwards: bool, new: bool = False) -> None:
        """Search from the latest match if visible, or from the first visible line; a `new` one includes its start."""
        rows = self.window.below
        start = self._match_offset if any(row[0] == self._match_offset for row in rows) else self.top_offset
        next_offset = next((row[1] for row in rows if row[0] == start), start)
        begin = 0 if new and self.following else start if backwards or new else next_offset
        match_offset = await self.source.find(self.needle, begin, backwards=backwards)
        if match_offset is None:
            first = await self.source.find(self.needle, self.window.size if backwards else 0, backwards=backwards)
            if first is None:
                self.show_message(f"“{self.needle}” was not found.")
                return
            match_offset = first
            self.show_message("Search wrapped to the end." if backwards else "Search wrapped to the beginning.")
        self._match_offset = match_offset
        await self.go_to_offset(match_offset)

    def turn(self, by: int) -> None:
        """Show the output of another call."""
        self.go(partial(self._turn, by))

    async def _turn(self, by: int) -> None:
        if await self.source.turn(by):
            self.column, self._match_offset = 0, -1
            await self.to_end()
        else:
            self.show_message("There is no older output." if by > 0 else "There is no newer output.")


ACTIONS: dict[str, Callable[[OutputPager], object]] = {
    "up": lambda pager: pager.go(partial(pager.scroll_lines, -1)),
    "down": lambda pager: pager.go(partial(pager.scroll_lines, 1)),
    "page_up": lambda pager: pager._page(-1),
    "page_down": lambda pager: pager._page(1),
    "top": lambda pager: pager.go(pager.to_home),
    "bottom": lambda pager: pager.go(pager.to_end),
    "left": lambda pager: pager._sideways(-COLUMN_STEP),
    "right": lambda pager: pager._sideways(COLUMN_STEP),
    "wrap": OutputPager._wrap,
    "search": OutputPager._open_search,
    "next_match": lambda pager: pager.match(False),
    "previous_match": lambda pager: pager.match(True),
    "older": lambda pager: pager.turn(1),
    "newer": lambda pager: pager.turn(-1),
    "close": lambda pager: pager.dismiss(),
}
"""Action → its method."""
