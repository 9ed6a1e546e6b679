"""What the pager of an output needs of the program, and two ways of showing."""

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
"""Place of a line in the bytes, place of the next one, text with its colours."""


class OutputWindow(NamedTuple):
    """What is to be seen from a place."""

    above: Sequence[OutputRow] = ()
    """Lines that end at the place, from above to below."""
    below: Sequence[OutputRow] = ()
    size: int = 0
    """Bytes there are by now."""
    number: int | None = None
    """Of the first line below; None as long as that is not counted."""
    lines: int | None = None
    """How many there are."""


class PagerApi(Protocol):
    """Where the lines come from."""

    @property
    def title(self) -> str:
        """What the output is of."""

    @property
    def note(self) -> str:
        """What should be known of it, such as that it is not all; empty where nothing should."""

    @property
    def growing(self) -> bool:
        """More may come."""

    async def look(self, place: int, above: int, below: int) -> OutputWindow:
        """At most so many lines above and below a place; -1 is the end."""

    async def find(self, text: str, place: int, *, back: bool) -> int | None:
        """The place of the nearest line behind, or before, `place` that holds `text`; None where there is none."""

    async def line(self, number: int) -> int | None:
        """The place of a line; None as long as it is not known."""

    async def turn(self, by: int) -> bool:
        """Go over to another output; False where there is none."""

    def closed(self) -> None:
        """The pager is gone."""


def highlight_matches(spans: Sequence[Span], needle: str, style: Style) -> list[Span]:
    """`spans` with every `needle` in them standing out, also over their borders. Capitals count if there are any."""
    text = "".join(part for part, _style in spans)
    whole = lower(text) if needle == needle.lower() else text
    return overlay(spans, find_all(whole, needle), style)


def format_bytes(size: int) -> str:
    """Bytes as a person reads them."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


KEYS = Keys("pager")
ACROSS = 16
"""Columns of one step to the side."""
WHEEL = 3
"""Lines of one turn of the wheel."""
LOOKING = 0.3
"""Seconds between looks at whether there is more."""


class OutputPager(Sheet):
    """Head, lines, search and keys."""

    OWN_ACTIONS: ClassVar[tuple[str, ...]] = ("cancel",)

    def __init__(self, door: PagerApi) -> None:
        super().__init__()
        self.door = door
        self.place, self.part = 0, 0
        """Where the first line that is seen begins, and how many lines of the screen of it are above that."""
        self.across = 0
        self.wraps = False
        self.following = True
        self.needle = ""
        self.sight = OutputWindow()
        self._seen = 0
        """Place behind the last line that is seen."""
        self._at = -1
        """Place of the line that was found last."""
        self._told = ""
        self._moves: list[Callable[[], Awaitable[None]]] = []
        self._moving = False
        self._grew = False
        self._seen_lines: Sequence[Line] = ()
        self._body = LinesView(lambda width, styles: self._seen_lines, id="pager-body")
        self._field = LineInput(id="pager-search", placeholder="search, or :120 for a line")
        self._field.display = False
        self._views = {"head": LinesView(self.head, id="pager-head"), "keys": LinesView(self.keys, id="pager-keys")}

    # --- what is shown ---

    def compose(self) -> ComposeResult:
        """From the head down to the keys."""
        with Vertical(id="pager"):
            yield self._views["head"]
            yield self._body
            with Horizontal(id="pager-bar"):
                yield self._field
            yield self._views["keys"]

    def on_mount(self) -> None:
        """The end is where one looks first."""
        self.go(self.to_end)
        self.set_interval(LOOKING, self._look_again)

    def on_unmount(self) -> None:
        """Whoever closed it."""
        self.door.closed()

    def on_line_view_resized(self) -> None:
        """Another width, another number of lines."""
        self.go(self._settle)

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """What it is, how much, and whether more comes."""
        right = format_bytes(self.sight.size) + (" · running" if self.door.growing else "")
        title = fit(one_line(self.door.title, 400), max(4, width - len(right) - 10))
        left: list[Span] = [("Output ", styles.heading), (title, styles.muted)]
        gap = max(1, width - width_of(left) - len(right))
        lines = [line(*left, (" " * gap, styles.text), (right, styles.muted))]
        return [*lines, line((fit(one_line(self.door.note, 400), width), styles.warn))] if self.door.note else lines

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """Where one is, and what can be done."""
        if self._told:
            return [line((fit(one_line(self._told, 300), width), styles.warn))]
        where = self._where()
        pairs = [("esc", "back"), (KEYS.of("search"), "search")]
        pairs += [(KEYS.both("next_match", "previous_match"), "matches")] if self.needle else []
        pairs += [(KEYS.of("wrap"), "cut lines" if self.wraps else "wrap")]
        pairs += [] if self.wraps else [(KEYS.arrows("left", "right"), "sideways")]
        end = "follow" if self.door.growing else "to the end"
        pairs += [] if self.following else [(KEYS.of("bottom"), end)]
        pairs = [pair for pair in [*pairs, (KEYS.of("older"), "other calls")] if pair[0]]
        while pairs and sum(len(key) + len(does) + 3 for key, does in pairs) + len(where) > width:
            pairs.pop()
        spans = list(key_lines(pairs, width, styles)[0].segments)
        gap = max(1, width - sum(one.cell_length for one in spans) - len(where))
        return [Line([*spans, Segment(" " * gap, styles.text), Segment(where, styles.muted)])]

    def _where(self) -> str:
        sight = self.sight
        if not sight.size:
            return "nothing yet" if self.door.growing else "no output"
        share = f"{min(100, round(100 * self._seen / sight.size))}%"
        if sight.number is None:
            return share
        return f"line {sight.number:,}" + (f" of {sight.lines:,}" if sight.lines else "") + f" · {share}"

    def say(self, text: str) -> None:
        """A sentence in the place of the keys, until the next key."""
        self._told = text
        self._repaint()

    def _repaint(self) -> None:
        for view in self._views.values():
            view.relayout()

    # --- moving ---

    @property
    def _height(self) -> int:
        return max(1, self._body.size.height)

    def go(self, move: Callable[[], Awaitable[None]]) -> None:
        """Move, after all moves that were asked for before."""
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
        """The last line at the bottom; what comes is followed."""
        sight = await self.door.look(-1, self._height, 0)
        parts = self._parts(sight.above)[-self._height :]
        self.place, self.part = parts[0] if parts else (0, 0)
        self.following = True

    async def to_home(self) -> None:
        """The first line at the top."""
        self.place, self.part, self.across, self.following = 0, 0, 0, False

    async def _laid_out(self) -> None:
        """Wait until the lines have their place, as after the field was hidden."""
        done = asyncio.Event()
        self.call_after_refresh(done.set)
        await done.wait()

    async def _settle(self) -> None:
        """The same place at another size; the end while that is followed when it comes to this."""
        await (self.to_end() if self.following else self.scroll_lines(0))

    async def to_place(self, place: int) -> None:
        """A line, with some before it."""
        self.place, self.part, self.following = place, 0, False
        await self.scroll_lines(-(self._height // 3))

    async def scroll_lines(self, by: int) -> None:
        """So many lines of the screen down, or up."""
        height = self._height
        if by < 0:
            self.following = False
            above = self._parts((await self.door.look(self.place, -by, 0)).above)
            at = len(above) + self.part + by
            if at < len(above):
                self.place, self.part = above[at] if at >= 0 else (0, 0)
            else:
                self.part = at - len(above)
            return
        sight = await self.door.look(self.place, 0, self.part + by + height + 1)
        parts = self._parts(sight.below)
        at = self.part + by
        ended = not sight.below or sight.below[-1][1] >= sight.size
        if ended and len(parts) - at <= height:
            await self.to_end()
        elif at < len(parts):
            self.place, self.part = parts[at]

    def _parts(self, rows: Sequence[OutputRow]) -> list[tuple[int, int]]:
        """Each line of the screen: the row that it is of, and which of its lines."""
        return [(row[0], part) for row in rows for part in range(len(self._painted(row)) if self.wraps else 1)]

    async def _show(self) -> None:
        """Paint what is seen from here."""
        height = self._height
        self.sight = sight = await self.door.look(self.place, 0, self.part + height)
        lines: list[Line] = []
        self._seen = sight.size
        for number, row in enumerate(sight.below):
            lines += self._painted(row)[0 if number else self.part :]
            if len(lines) >= height:
                self._seen = row[1]
                break
        if self.is_attached:
            self._seen_lines = lines[:height]
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
        whole = line(*spans)
        strip = Strip(whole.segments)
        shown = list(strip.crop(self.across, self.across + width))
        if strip.cell_length > self.across + width:
            shown = [*Strip(shown).crop(0, width - 1), Segment("›", styles.faint)]
        return [Line(shown)]

    def _look_again(self) -> None:
        grew, self._grew = self._grew, self.door.growing
        if not self._moving and (grew or self._grew or self.sight.lines is None):
            self.go(self.to_end if self.following and grew else self._stay)

    async def _stay(self) -> None:
        """Only what is said of the place may be another."""

    # --- keys ---

    def on_key(self, event: events.Key) -> None:
        """What is typed into the field is the field's, but for Enter and Esc."""
        if self._field.display and event.key not in ("enter", "escape"):
            return
        event.stop()
        event.prevent_default()
        if self._told:
            self.say("")
        does = DOES.get("close" if event.key in ("escape", "ctrl+c") else KEYS.does(event))
        if self._field.display:
            self._search(event.key == "enter")
        elif does is not None:
            does(self)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel."""
        event.stop()
        self.go(partial(self.scroll_lines, WHEEL))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel."""
        event.stop()
        self.go(partial(self.scroll_lines, -WHEEL))

    def _page(self, direction: int) -> None:
        """A screenful but one line."""
        self.go(partial(self.scroll_lines, direction * max(1, self._height - 1)))

    def _sideways(self, by: int) -> None:
        """Show what is further to the right, or to the left."""
        if not self.wraps:
            self.across = max(0, self.across + by)
            self.go(self._stay)

    def _wrap(self) -> None:
        """Long lines whole, or cut."""
        self.wraps, self.across, self.part = not self.wraps, 0, 0
        self.go(self._settle)

    def _ask(self) -> None:
        """Open the field."""
        self._field.display = True
        self._field.value = ""
        self._field.focus()

    def _search(self, take: bool) -> None:
        self._field.display = False
        self.set_focus(None)
        self.go(self._laid_out)
        text = self._field.value
        if take and (number := re.fullmatch(r":\s*(\d{1,12})", text)):
            self.go(partial(self._to_line, int(number[1])))
        elif take and text:
            self.needle = text
            self.go(partial(self._match, back=False, here=True))
        elif take:
            self.match(False)

    async def _to_line(self, number: int) -> None:
        place = await self.door.line(number)
        if place is None:
            self.say("The lines are still being counted.")
        else:
            await self.to_place(place)

    def match(self, back: bool) -> None:
        """The next match, or the one before."""
        if self.needle:
            self.go(partial(self._match, back=back))

    async def _match(self, *, back: bool, here: bool = False) -> None:
        """From the line that was found last, while it is seen, else from the first one that is seen."""
        rows = self.sight.below
        start = self._at if any(row[0] == self._at for row in rows) else self.place
        behind = next((row[1] for row in rows if row[0] == start), start)
        begin = 0 if here and self.following else start if back or here else behind
        found = await self.door.find(self.needle, begin, back=back)
        if found is None:
            first = await self.door.find(self.needle, self.sight.size if back else 0, back=back)
            if first is None:
                self.say(f"“{self.needle}” was not found.")
                return
            found = first
            self.say("Search wrapped to the end." if back else "Search wrapped to the beginning.")
        self._at = found
        await self.to_place(found)

    def turn(self, by: int) -> None:
        """The output of another call."""
        self.go(partial(self._turn, by))

    async def _turn(self, by: int) -> None:
        if await self.door.turn(by):
            self.across, self._at = 0, -1
            await self.to_end()
        else:
            self.say("There is no older output." if by > 0 else "There is no newer output.")


DOES: dict[str, Callable[[OutputPager], object]] = {
    "up": lambda pager: pager.go(partial(pager.scroll_lines, -1)),
    "down": lambda pager: pager.go(partial(pager.scroll_lines, 1)),
    "page_up": lambda pager: pager._page(-1),
    "page_down": lambda pager: pager._page(1),
    "top": lambda pager: pager.go(pager.to_home),
    "bottom": lambda pager: pager.go(pager.to_end),
    "left": lambda pager: pager._sideways(-ACROSS),
    "right": lambda pager: pager._sideways(ACROSS),
    "wrap": OutputPager._wrap,
    "search": OutputPager._ask,
    "next_match": lambda pager: pager.match(False),
    "previous_match": lambda pager: pager.match(True),
    "older": lambda pager: pager.turn(1),
    "newer": lambda pager: pager.turn(-1),
    "close": lambda pager: pager.dismiss(),
}
"""What an action does."""
