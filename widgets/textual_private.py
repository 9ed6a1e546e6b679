"""All uses of private names of Textual's apps, screens and widgets, each with a public fallback.

(`tui_agent/tui/driver.py` and `tui_agent/tui/paste.py` extend Textual's terminal driver and parser, which an app can
select with `driver_class`; `tests/tui/test_paste.py` checks what they need.)

Private names, and the behavior in a version of Textual without them:

- `Screen._compositor`, `_compositor_refresh`, `_screen_resized`, `Compositor._dirty_regions`, `_full_map`,
  `_get_renders` and `ChopsUpdate`: only changed cells are written. Without them, Textual writes complete lines.
- `Compositor.render_strips` of the screen below: fast dimming under a dialog. Without it, Textual dims slowly.
- `Widget._bindings`, `App._keymap`: keys in fields act in the order they were pressed. Without them, the active
  bindings of the screen are used.
- `DOMNode._attach`: styles of CSS classes without a widget. Without it, they are component classes.
- `MessagePump._pending_message`: a key received but not handled yet. Without it, only the queue is checked.
- `Widget._pruning`: a widget being removed. Without it, `is_attached` is checked.
- `Widget._forward_event`: forwards a key to another widget. Without it, the key is posted.
- `Screen._forward_event`: forwards the mouse to the screen below a dialog. Without it, that screen does not get it.
- `TextArea._replace_via_keyboard`: replaces as if typed. Without it, `TextArea.replace` is used.
- `App._driver`: writes to the terminal outside the screen, such as its title. Without it, only the bell works.
- `App._filters`: keeps bold and dim without colors. Without it, Textual converts colors to shades of gray.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from itertools import takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import events, messages
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
    from textual._compositor import ChopsUpdate, Compositor, CompositorMap, LayoutUpdate, ReflowResult
else:
    try:
        from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
    except ImportError:
        ChopsUpdate = Compositor = LayoutUpdate = object

MISSING: Final[set[str]] = set()
"""Names to treat as missing, for tests."""
COMPOSITOR_NAMES: Final = (
    "_dirty_regions",
    "_full_map",
    "_get_renders",
    "reflow",
    "visible_widgets",
    "render_partial_update",
    "render_full_update",
)


def has(owner: object, *names: str) -> bool:
    """Return whether `owner` has all the names."""
    return all(name not in MISSING and hasattr(owner, name) for name in names)


# --- the terminal ---------------------------------------------------------------------------------------


def driver_of(app: App[Any]) -> Driver | None:
    """Return the terminal driver; None before the app runs or if it is not accessible."""
    return app._driver if has(app, "_driver") else None


def drop_colors(app: App[Any]) -> None:
    """Use text attributes such as bold instead of shades of gray."""
    if has(app, "_filters"):
        app._filters = [NoColor() if isinstance(active, Monochrome) else active for active in app._filters]


# --- events, bindings and widgets ---------------------------------------------------------------------


def field_bindings(widget: Widget, key: str) -> Iterable[Binding]:
    """Return the bindings of `key` in `widget` itself, with the user's key settings."""
    if has(widget, "_bindings") and has(widget.app, "_keymap"):
        bindings = widget._bindings
        if widget.app._keymap:
            bindings = bindings.copy()
            bindings.apply_keymap(widget.app._keymap)
        return bindings.key_to_bindings.get(key, ())
    active = widget.screen.active_bindings.get(key)
    return [active.binding] if active is not None and active.node is widget else []


def keys_waiting(pump: MessagePump) -> bool:
    """Return whether `pump` has unhandled messages, such as keys."""
    return pump.message_queue_size > 0 or (has(pump, "_pending_message") and pump._pending_message is not None)


def is_being_removed(widget: Widget) -> bool:
    """Return whether removal of `widget` was requested."""
    return widget._pruning if has(widget, "_pruning") else not widget.is_attached


def forward_key(widget: Widget, event: events.Key) -> None:
    """Forward a key to `widget`, as the app does for the focused widget."""
    if has(widget, "_forward_event"):
        widget._forward_event(event)
    else:
        widget.post_message(event)


def forward_mouse(screen: Screen[Any], event: events.MouseEvent) -> None:
    """Forward a mouse event to the widget of `screen`, which is below another one, under the pointer."""
    if has(screen, "_forward_event"):
        screen._forward_event(type(event).from_event(screen, event))


def replace_selection(area: TextArea, text: str) -> None:
    """Replace the selection by `text` and move the cursor after it."""
    if has(area, "_replace_via_keyboard"):
        if (edit := area._replace_via_keyboard(text, *area.selection)) is not None:
            area.move_cursor(edit.end_location)
    elif not area.read_only:
        area.move_cursor(area.replace(text, *area.selection, maintain_selection_offset=False).end_location)


def class_style(widget: Widget, name: str) -> Style:
    """Return the style of the CSS class `name` on the background of `widget`."""
    if not has(DOMNode, "_attach"):
        return widget.get_component_rich_style(name)
    node = DOMNode(classes=name)
    node._attach(widget)
    widget.app.stylesheet.apply(node, animate=False)
    return node.rich_style


def component_classes(names: Iterable[str]) -> set[str]:
    """Return the component classes that `class_style` needs on a widget."""
    return set() if has(DOMNode, "_attach") else set(names)


def strips_of(screen: Screen[object]) -> list[Strip] | None:
    """Return the lines of `screen`; None if they are not accessible."""
    return screen._compositor.render_strips() if has(screen, "_compositor") and compositor_fits() else None


# --- a screen that writes only what changed --------------------------------------------------------------


def compositor_fits() -> bool:
    """Return whether Textual's compositor has the interface that `DiffingCompositor` extends."""
    return (
        Compositor is not object
        and has(Compositor(), *COMPOSITOR_NAMES, "render_strips")
        and has(Screen, "_compositor_refresh", "_screen_resized")
        and [*signature(ChopsUpdate).parameters] == ["chops", "spans", "chop_ends"]
    )


FIRST_UNCERTAIN_CHARACTER = "\u2600"
"""First character whose width may differ between Rich and terminals."""

Chops = Sequence[Mapping[int, Strip | None]]
"""For each row of the screen: column → strip painted from there."""


class PaintedRows:
    """The known contents of the terminal."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[list[int], dict[int, Strip]]] = {}

    def forget(self) -> None:
        """Forget everything, as after another screen painted."""
        self._rows.clear()

    def row(self, y: int, ends: list[int]) -> dict[int, Strip]:
        """Return the strips of a row by column; empty if the row was split differently."""
        cached = self._rows.get(y)
        if cached is None or cached[0] != ends:
            cached = self._rows[y] = (ends, {})
        return cached[1]


class ChangedCells(ChopsUpdate):
    """An update that writes only cells that differ from the terminal's contents."""

    def __init__(
        self, chops: Chops, spans: list[tuple[int, int, int]], chop_ends: list[list[int]], painted: PaintedRows
    ) -> None:
        super().__init__(chops, spans, chop_ends)
        self._painted = painted

    def render_segments(self, console: Console) -> str:
        """Return the output for the terminal."""
        output: list[str] = []
        for y, left, right in self.spans:
            ends = self.chop_ends[y]
            row = self._painted.row(y, ends)
            for end, (x, strip) in zip(ends, self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                before = row.get(x)
                if strip is before:
                    continue
                row[x] = strip
                if before is None:
                    output.append(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}")
                elif change := _changed_cells(before, strip):
                    output.append(f"\x1b[{y + 1};{x + 1 + change[0]}H{change[1].render(console)}")
        return "".join(output)


def _changed_cells(old: Strip, new: Strip) -> tuple[int, Strip] | None:
    """Return the first changed cell and the strip from there to the last one; None without a change."""
    before, after = list(old), list(new)
    first = _common_length(before, after)
    if first == len(before) == len(after):
        return None
    if old.cell_length != new.cell_length or not (_has_certain_width(old.text) and _has_certain_width(new.text)):
        return 0, new
    start = sum(segment.cell_length for segment in after[:first])
    last = _common_length(before[first:][::-1], after[first:][::-1])
    end = new.cell_length - sum(segment.cell_length for segment in after[len(after) - last :])
    removed, added = before[first : len(before) - last], after[first : len(after) - last]
    if removed and added:
        start += _common_cells(removed[0], added[0])
        end -= _common_cells(removed[-1], added[-1], -1)
    return start, new.crop(start, end)


def _has_certain_width(text: str) -> bool:
    """Return whether every character is one cell wide on every terminal.

    Terminals disagree about emoji and combining marks; such lines must be written completely.
    """
    return text.isascii() or (max(text) < FIRST_UNCERTAIN_CHARACTER and cell_len(text) == len(text))


def _common_cells(old: Segment, new: Segment, step: int = 1) -> int:
    """Return the number of equal ASCII cells at the start of two segments, or at the end with step -1."""
    if old.style != new.style or not (old.text.isascii() and new.text.isascii()):
        return 0
    return _common_length(old.text[::step], new.text[::step])


def _common_length(old: Sequence[object], new: Sequence[object]) -> int:
    """Return the number of equal items at the start of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


class ReflowingCompositor(Compositor):
    """Reports new and resized widgets at each layout, whatever was looked up since the last one."""

    def __init__(self) -> None:
        super().__init__()
        self._reflowed: CompositorMap = {}
        """The map of the last complete layout."""

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """See Compositor. After scrolling, a lookup of any widget's region replaces the map; in Textual 8, widgets that
        are new or have another size in it would then never get a Resize event."""
        self._full_map = self._reflowed
        result = super().reflow(parent, size)
        self._reflowed = self._full_map
        return result


class DiffingCompositor(ReflowingCompositor):
    """Renders only changed rows of widgets, and omits unchanged cells from partial updates."""

    def __init__(self, painted: PaintedRows) -> None:
        super().__init__()
        self.painted = painted
        self._dirty: list[Region] = []

    def render_partial_update(self) -> ChopsUpdate | None:
        """See Compositor."""
        self._dirty = [region.intersection(self.size.region) for region in self._dirty_regions]
        try:
            update = super().render_partial_update()
        finally:
            self._dirty = []
        if update is None:
            return None
        return ChangedCells(update.chops, update.spans, update.chop_ends, self.painted)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """See Compositor. A full update writes all cells, whatever the terminal shows."""
        self.painted.forget()
        return super().render_full_update(simplify)

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Yield renders from front to back, skipping dirty regions completely covered by widgets in front."""
        dirty = [region for region in self._dirty if region]
        if not dirty:
            yield from super()._get_renders(crop)
            return
        for widget, (region, clip) in self.visible_widgets.items():
            visible = region.intersection(clip)
            changed = [part for dirty_region in dirty if (part := visible.intersection(dirty_region))]
            if not changed:
                continue
            top, bottom = min(part.y for part in changed), max(part.bottom for part in changed)
            rows = Region(visible.x, top, visible.width, bottom - top)
            yield region, rows, widget.render_lines(rows.translate(-region.offset))
            dirty = [dirty_region for dirty_region in dirty if not visible.contains_region(dirty_region)]
            if not dirty:
                return


def report_all_resizes(screen: Screen[Any]) -> None:
    """Let `screen` report new and resized widgets whatever is looked up between two layouts."""
    if has(screen, "_compositor") and compositor_fits():
        screen._compositor = ReflowingCompositor()


FRAME_NAMES: Final = ("_on_timer_update", "_layout_required", "_scroll_required", "_repaint_required")
"""Attributes of a screen by which it paints a frame."""


class DiffingScreen(Screen[None]):
    """The screen of a session; writes only cells that differ from the terminal's contents."""

    AUTO_FOCUS = "#prompt"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._painted = PaintedRows()
        self.cost = 0.0
        """Seconds that the last paint took."""
        self._echo_due = False
        """The focused widget has changed and is about to be painted."""
        if has(self, "_compositor") and compositor_fits():
            self._compositor = DiffingCompositor(self._painted)

    def _compositor_refresh(self) -> None:
        if self is not self.app.screen:
            self._painted.forget()
        started = monotonic()
        super()._compositor_refresh()
        self.cost = monotonic() - started

    async def _on_update(self, message: messages.Update) -> None:
        await super()._on_update(message)
        if (
            message.widget is self.focused
            and not self._echo_due
            and has(self, *FRAME_NAMES)
            and has(self.app, "_batch_count")
        ):
            self._echo_due = True
            self.call_next(self._echo)  # what is typed does not wait for the next frame

    def _echo(self) -> None:
        self._echo_due = False
        waits = self._callbacks or self is not self.app.screen  # for the next frame, or for another screen
        if not (
            waits or self.app._batch_count or self._layout_required or self._scroll_required or self._repaint_required
        ):
            self._on_timer_update()  # what changes the layout waits until all of it has changed

    def _screen_resized(self, size: Size) -> None:
        self._painted.forget()  # terminals reflow text on a resize
        if size == self.size:  # the size changed and changed back
            self.refresh()
        super()._screen_resized(size)

    def on_screen_suspend(self) -> None:
        """Forget the terminal's contents, which another screen paints over."""
        self._painted.forget()

    on_screen_resume = on_screen_suspend
