"""A screen that writes to the terminal only what differs from what stands there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual import events
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip

UNSURE = "\u2600"
"""From here on a character may take more cells than Rich thinks."""

Chops = Sequence[Mapping[int, Strip | None]]
"""For each row of the screen: column → what is painted from there to the next column."""


class Shown:
    """What stands on the terminal, as far as it is known."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[list[int], dict[int, Strip]]] = {}

    def forget(self) -> None:
        """Somebody else painted: nothing is known."""
        self._rows.clear()

    def row(self, y: int, ends: list[int]) -> dict[int, Strip]:
        """The pieces of a row; nothing when it was divided in another way."""
        known = self._rows.get(y)
        if known is None or known[0] != ends:
            known = self._rows[y] = (ends, {})
        return known[1]


class ChangedCells(ChopsUpdate):
    """An update that is compared with what is shown at the moment it is written."""

    def __init__(
        self, chops: Chops, spans: list[tuple[int, int, int]], chop_ends: list[list[int]], shown: Shown
    ) -> None:
        super().__init__(chops, spans, chop_ends)
        self._shown = shown

    def render_segments(self, console: Console) -> str:
        """The bytes for the terminal."""
        written: list[str] = []
        for y, left, right in self.spans:
            ends = self.chop_ends[y]
            row = self._shown.row(y, ends)
            for end, (x, strip) in zip(ends, self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                before = row.get(x)
                if strip is before:
                    continue
                row[x] = strip
                if before is None:
                    written.append(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}")
                elif change := _change(before, strip):
                    written.append(f"\x1b[{y + 1};{x + 1 + change[0]}H{change[1].render(console)}")
        return "".join(written)


def _change(old: Strip, new: Strip) -> tuple[int, Strip] | None:
    """The cells of `new` from the first to the last that differ from `old`; None when there are none."""
    before, after = list(old), list(new)
    if before == after:
        return None
    if old.cell_length != new.cell_length or not (_steady(old.text) and _steady(new.text)):
        return 0, new
    first, last = 0, 0
    limit = min(len(before), len(after))
    while first < limit and before[first] == after[first]:
        first += 1
    while last < limit - first and before[-1 - last] == after[-1 - last]:
        last += 1
    place = sum(segment.cell_length for segment in after[:first])
    was, middle = before[first : len(before) - last], after[first : len(after) - last]
    if was and middle:
        same = _same(was[0], middle[0])
        was[0], middle[0] = _cut(was[0], same, None), _cut(middle[0], same, None)
        place += same
        if same := _same(was[-1], middle[-1], -1):
            middle[-1] = _cut(middle[-1], 0, -same)
    return place, Strip(segment for segment in middle if segment.text)


def _steady(text: str) -> bool:
    """True when every character takes one cell on every terminal; about emoji and combining marks they disagree, and
    then only a whole line is sure to look right."""
    return text.isascii() or (max(text) < UNSURE and cell_len(text) == len(text))


def _cut(segment: Segment, first: int, last: int | None) -> Segment:
    return Segment(segment.text[first:last], segment.style)


def _same(old: Segment, new: Segment, step: int = 1) -> int:
    """Cells that two pieces share at their beginning, or with step -1 at their end; only where a character
    is a cell."""
    if old.style != new.style or not (old.text.isascii() and new.text.isascii()):
        return 0
    pairs = zip(old.text[::step], new.text[::step], strict=False)
    return next(
        (place for place, (one, other) in enumerate(pairs) if one != other), min(len(old.text), len(new.text))
    )


class CalmCompositor(Compositor):
    """Asks widgets only for the rows that changed, and leaves out of a partial update what is shown already."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = Shown()
        self._wanted: list[Region] = []

    def render_partial_update(self) -> ChopsUpdate | None:
        """See Compositor."""
        self._wanted = [region.intersection(self.size.region) for region in self._dirty_regions]
        try:
            update = super().render_partial_update()
        finally:
            self._wanted = []
        if update is None:
            return None
        return ChangedCells(update.chops, update.spans, update.chop_ends, self.shown)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """See Compositor. Whoever asks for all wants it written, whatever stands there."""
        self.shown.forget()
        return super().render_full_update(simplify)

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """From front to back; a region that a widget fills is done with."""
        wanted = [one for one in self._wanted if one]
        if not wanted:
            yield from super()._get_renders(crop)
            return
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            touched = [both for one in wanted if (both := seen.intersection(one))]
            if not touched:
                continue
            top, bottom = min(one.y for one in touched), max(one.bottom for one in touched)
            rows = Region(seen.x, top, seen.width, bottom - top)
            yield region, rows, widget.render_lines(rows.translate(-region.offset))
            wanted = [one for one in wanted if not seen.contains_region(one)]
            if not wanted:
                return


class CalmScreen(Screen[None]):
    """The screen that a session is shown on."""

    AUTO_FOCUS = "#prompt"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._compositor: CalmCompositor = CalmCompositor()
        self.cost = 0.0
        """Seconds that the last paint took."""

    def _compositor_refresh(self) -> None:
        if self is not self.app.screen:
            self._compositor.shown.forget()
        began = monotonic()
        super()._compositor_refresh()
        self.cost = monotonic() - began

    def _screen_resized(self, size: Size) -> None:
        self._compositor.shown.forget()  # terminals move text about when their size changes
        if size == self.size:  # it was another one for a moment
            self.refresh()
        super()._screen_resized(size)

    def on_screen_suspend(self) -> None:
        """Another screen paints now."""
        self._compositor.shown.forget()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """What the other screen left is not ours."""
        self._compositor.shown.forget()
