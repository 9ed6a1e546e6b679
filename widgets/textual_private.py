"""The one module that uses private names of Textual's apps, screens and widgets. Each use has a public way as its
fallback. (`tui_agent/tui/driver.py` and `tui_agent/tui/paste.py` extend Textual's terminal driver and its parser, which
an app can choose through `driver_class`; `tests/tui/test_paste.py` says what they need.)

What is used, and what happens in a version of Textual without it:

- `Screen._compositor`, `_compositor_refresh`, `_screen_resized`, `Compositor._dirty_regions`, `_get_renders` and
  `ChopsUpdate`: only changed cells are written. Without them Textual writes whole lines.
- `Compositor.render_strips` of the screen below: a dialog dims it quickly. Without it Textual does, slowly.
- `Widget._bindings`, `App._keymap`: keys in fields act in the order they were pressed. Without them the bindings that
  are active on the screen are asked.
- `DOMNode._attach`: a style sheet's classes are computed without a widget. Without it they are component classes.
- `MessagePump._pending_message`: a key that was received and not handled yet. Without it only the queue counts.
- `Widget._pruning`: a widget that is being removed. Without it, one that is no longer attached.
- `Widget._forward_event`: hand a key to another widget. Without it the key is posted.
- `TextArea._replace_via_keyboard`: replace as if typed. Without it as a program does.
- `App._driver`: write to the terminal beside the screen, such as its title. Without it only the bell remains.
- `App._filters`: without colors keep bold and dim. Without it Textual turns colors into shades of grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import Monochrome, NoColor
from textual.geometry import Region, Size
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import TextArea

if TYPE_CHECKING:
    from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
else:
    try:
        from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
    except ImportError:
        ChopsUpdate = Compositor = LayoutUpdate = object

MISSING: Final[set[str]] = set()
"""Names that are treated as missing: tests put them here."""
COMPOSITOR: Final = ("_dirty_regions", "_get_renders", "visible_widgets", "render_partial_update", "render_full_update")


def has(owner: object, *names: str) -> bool:
    """True if `owner` has all the names."""
    return all(name not in MISSING and hasattr(owner, name) for name in names)


# --- the terminal ---------------------------------------------------------------------------------------


def driver_of(app: App[Any]) -> Driver | None:
    """What `app` reads from and writes to; None before it runs, or if only Textual can tell."""
    return app._driver if has(app, "_driver") else None


def drop_colors(app: App[Any]) -> None:
    """Paint with attributes such as bold alone: shades of grey would be colors too."""
    if has(app, "_filters"):
        app._filters = [NoColor() if isinstance(active, Monochrome) else active for active in app._filters]


# --- events, bindings and widgets ---------------------------------------------------------------------


def field_bindings(widget: Widget, key: str) -> Iterable[Binding]:
    """What `key` is bound to in `widget` itself, with the user's own keys."""
    if has(widget, "_bindings") and has(widget.app, "_keymap"):
        bindings = widget._bindings
        if widget.app._keymap:
            bindings = bindings.copy()
            bindings.apply_keymap(widget.app._keymap)
        return bindings.key_to_bindings.get(key, ())
    active = widget.screen.active_bindings.get(key)
    return [active.binding] if active is not None and active.node is widget else []


def keys_waiting(pump: MessagePump) -> bool:
    """True while messages, such as keys, wait for `pump`."""
    return pump.message_queue_size > 0 or (has(pump, "_pending_message") and pump._pending_message is not None)


def is_being_removed(widget: Widget) -> bool:
    """True from the moment when the removal of `widget` is asked for."""
    return widget._pruning if has(widget, "_pruning") else not widget.is_attached


def forward_key(widget: Widget, event: events.Key) -> None:
    """Hand a key to `widget`, as the app does for the focused one."""
    if has(widget, "_forward_event"):
        widget._forward_event(event)
    else:
        widget.post_message(event)


def replace_selection(area: TextArea, text: str) -> None:
    """Put `text` in the place of what is selected, the cursor behind it."""
    if has(area, "_replace_via_keyboard"):
        if (done := area._replace_via_keyboard(text, *area.selection)) is not None:
            area.move_cursor(done.end_location)
    elif not area.read_only:
        area.move_cursor(area.replace(text, *area.selection, maintain_selection_offset=False).end_location)


def class_style(widget: Widget, name: str) -> Style:
    """The style that the style sheet gives to the class `name` on the ground of `widget`."""
    if not has(DOMNode, "_attach"):
        return widget.get_component_rich_style(name)
    node = DOMNode(classes=name)
    node._attach(widget)
    widget.app.stylesheet.apply(node, animate=False)
    return node.rich_style


def component_classes(names: Iterable[str]) -> set[str]:
    """The component classes that `class_style` needs on a widget."""
    return set() if has(DOMNode, "_attach") else set(names)


def strips_of(screen: Screen[object]) -> list[Strip] | None:
    """What `screen` shows; None if only Textual can tell."""
    return screen._compositor.render_strips() if has(screen, "_compositor") and compositor_fits() else None


# --- a screen that writes only what changed --------------------------------------------------------------


def compositor_fits() -> bool:
    """True if Textual's compositor is the one that `DiffingCompositor` extends."""
    return (
        Compositor is not object
        and has(Compositor(), *COMPOSITOR, "render_strips")
        and has(Screen, "_compositor_refresh", "_screen_resized")
        and [*signature(ChopsUpdate).parameters] == ["chops", "spans", "chop_ends"]
    )


UNSURE = "\u2600"
"""From here on a character may take more cells than Rich thinks."""

Chops = Sequence[Mapping[int, Strip | None]]
"""For each row of the screen: column → what is painted from there to the next column."""


class PaintedRows:
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
        self, chops: Chops, spans: list[tuple[int, int, int]], chop_ends: list[list[int]], shown: PaintedRows
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
    index = sum(segment.cell_length for segment in after[:first])
    was, middle = before[first : len(before) - last], after[first : len(after) - last]
    if was and middle:
        same = _same(was[0], middle[0])
        was[0], middle[0] = _cut(was[0], same, None), _cut(middle[0], same, None)
        index += same
        if same := _same(was[-1], middle[-1], -1):
            middle[-1] = _cut(middle[-1], 0, -same)
    return index, Strip(segment for segment in middle if segment.text)


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
        (index for index, (before, after) in enumerate(pairs) if before != after), min(len(old.text), len(new.text))
    )


class DiffingCompositor(Compositor):
    """Asks widgets only for the rows that changed, and leaves out of a partial update what is shown already."""

    def __init__(self, painted: PaintedRows) -> None:
        super().__init__()
        self.painted = painted
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
        return ChangedCells(update.chops, update.spans, update.chop_ends, self.painted)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """See Compositor. Whoever asks for all wants it written, whatever stands there."""
        self.painted.forget()
        return super().render_full_update(simplify)

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """From front to back; a region that a widget fills is done with."""
        wanted = [region for region in self._wanted if region]
        if not wanted:
            yield from super()._get_renders(crop)
            return
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            touched = [both for region in wanted if (both := seen.intersection(region))]
            if not touched:
                continue
            top, bottom = min(region.y for region in touched), max(region.bottom for region in touched)
            rows = Region(seen.x, top, seen.width, bottom - top)
            yield region, rows, widget.render_lines(rows.translate(-region.offset))
            wanted = [region for region in wanted if not seen.contains_region(region)]
            if not wanted:
                return


class DiffingScreen(Screen[None]):
    """The screen that a session is shown on: only what differs from what the terminal shows is written."""

    AUTO_FOCUS = "#prompt"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._painted = PaintedRows()
        self.cost = 0.0
        """Seconds that the last paint took."""
        if has(self, "_compositor") and compositor_fits():
            self._compositor = DiffingCompositor(self._painted)

    def _compositor_refresh(self) -> None:
        if self is not self.app.screen:
            self._painted.forget()
        began = monotonic()
        super()._compositor_refresh()
        self.cost = monotonic() - began

    def _screen_resized(self, size: Size) -> None:
        self._painted.forget()  # terminals move text about when their size changes
        if size == self.size:  # it was another one for a moment
            self.refresh()
        super()._screen_resized(size)

    def on_screen_suspend(self) -> None:
        """Another screen paints now."""
        self._painted.forget()

    def on_screen_resume(self) -> None:
        """What the other screen left is not ours."""
        self._painted.forget()
