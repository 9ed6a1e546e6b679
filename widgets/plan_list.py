"""The rows of the plan, one line-API view: what is not visible costs nothing, 500 criteria scroll like five."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from rich.style import Style
from textual import events
from textual.geometry import Region, Size

from widgets.dialog_keys import Keys
from widgets.ink import Line, line
from widgets.line_view import LineView
from widgets.plan_reading import Reading
from widgets.plan_rows import FOLDS, Kind, Row, paint, rows, single

KEYS = Keys("plan")


class PlanList(LineView):
    """A cursor over what can be ticked, edited or opened. It has the focus only after the user asked for it."""

    def __init__(self, pressed: Callable[[str, str], None], *, id: str | None = None) -> None:
        """`pressed` takes every key that is not about moving, and the character that it is, if it is one."""
        super().__init__(id=id)
        self.pressed = pressed
        self.moved: Callable[[], None] = lambda: None
        """Told when the cursor has gone elsewhere."""
        self.clicked: Callable[[], None] = lambda: None
        """Told of a click that ticks or opens the chosen row."""
        self.passes: Callable[[events.Key], bool] = lambda event: False
        """True for a key that goes elsewhere."""
        self.rows: list[Row] = []
        self.selected = 0
        """Place in `rows`."""
        self.held = False
        """True while the chosen row is edited elsewhere: it stays marked."""
        self.unfolded: set[Kind] = set()
        """Of the folds, those that are open."""
        self._kept: set[str] = set()
        """Criteria that the user had in sight when they were done: they are folded once he has left."""
        self._reading: Reading | None = None
        self._tops: list[int] = [0]
        self._painted: dict[Row, list[Line]] = {}
        self._width = 0

    def show(self, reading: Reading) -> None:
        """Show another reading; the cursor stays at what it was at."""
        if self.has_focus or self.held:
            self._kept |= {row.name[2] for row in self.rows if row.kind == "criterion"}
        self._show(reading)

    def _show(self, reading: Reading) -> None:
        chosen = self.chosen
        self._reading = reading
        kept = () if "done" in self.unfolded else self._kept
        self.rows = rows(reading, unfolded=self.unfolded, kept=kept)
        self._find(chosen)
        self._lay_out()

    @property
    def chosen(self) -> Row | None:
        """The row at the cursor."""
        row = self.rows[self.selected] if self.selected < len(self.rows) else None
        return row if row is not None and row.selectable else None

    def _find(self, chosen: Row | None) -> None:
        if chosen is not None:
            same = [at for at, row in enumerate(self.rows) if row.name == chosen.name]
            if same:
                self.selected = min(same, key=lambda at: abs(at - self.selected))
        self.selected = min(self.selected, max(0, len(self.rows) - 1))
        if self.chosen is None:
            near = [at for at, row in enumerate(self.rows) if row.selectable]
            self.selected = min(near, key=lambda at: abs(at - self.selected), default=0)

    def select(self, name: tuple[str, str, str]) -> None:
        """Put the cursor at the row of that name, if there is one."""
        place = next((at for at, row in enumerate(self.rows) if row.name == name), None)
        if place is not None:
            self._go(place)

    # --- lines ---

    def natural(self, width: int) -> int:
        """How many lines there are at a width."""
        if width != self._width:
            self._lay_out(width)
        return self._tops[-1]

    def _lay_out(self, width: int = 0) -> None:
        width = width or self._width
        if not width or not self.is_attached:
            return
        old = self._painted if width == self._width else {}
        self._width, self._painted, self._tops = width, {}, [0]
        for row in self.rows:
            if row in old:
                self._painted[row] = old[row]
            height = 1 if single(row, width) else len(self._lines(row))
            self._tops.append(self._tops[-1] + height)
        self.virtual_size = Size(width, self._tops[-1])
        self.refresh()

    def _lines(self, row: Row) -> list[Line]:
        found = self._painted.get(row)
        if found is None:
            found = self._painted[row] = paint(row, self._width, self.ink)
        return found

    def on_resize(self) -> None:
        """Other places to break."""
        if self.columns != self._width:
            self._lay_out(self.columns)
        if self.held:  # the same place whenever the room for it is known
            self.scroll_to(y=0, animate=False, immediate=True)
        if self.has_focus or self.held:
            self._into_view()

    def repaint(self) -> None:
        """The theme changed."""
        self._painted.clear()
        self.refresh()

    def line_at(self, y: int) -> Line | None:
        """A line of the row that covers `y`."""
        if not 0 <= y < self._tops[-1]:
            return None
        place = bisect_right(self._tops, y) - 1
        found = self._lines(self.rows[place])[y - self._tops[place]]
        if place != self.selected or not (self.has_focus or self.held) or self.chosen is None:
            return found
        ink = self.ink
        ground = Style(bgcolor=ink.panel.bgcolor)
        spans = [(one.text, (one.style or ink.text) + ground) for one in found.segments]
        return line(*spans, fill=ink.panel)

    # --- moving ---

    def take_focus(self) -> None:
        """The user asked for it."""
        self.can_focus = True
        self.screen.set_focus(self)
        self._into_view()

    def on_blur(self) -> None:
        """Nothing but the user brings the focus here."""
        self.can_focus = False
        self.refresh()

    def on_key(self, event: events.Key) -> None:
        """Move; everything else is for the panel."""
        moves = {"up": -1, "down": 1, "top": -len(self.rows), "bottom": len(self.rows)}
        if self.passes(event):
            pass
        elif not self.held and (way := KEYS.does(event)) in moves:
            self.move(moves[way])
        elif event.key in ("tab", "shift+tab"):
            return
        else:
            self.pressed(event.key, event.character or "" if event.is_printable else "")
        event.stop()
        event.prevent_default()

    def move(self, by: int) -> None:
        """Move the cursor by so many selectable rows; at either end the rest comes into view."""
        places = [at for at, row in enumerate(self.rows) if row.selectable]
        if not places:
            return
        here = places.index(self.selected) if self.selected in places else 0
        there = max(0, min(len(places) - 1, here + by))
        self._go(places[there])
        if there == here and by:
            self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def _go(self, place: int) -> None:
        self.selected = place
        self._into_view()
        self.refresh()
        self.moved()

    def _into_view(self) -> None:
        if self.selected + 1 >= len(self._tops):
            return
        top = self._tops[self.selected]
        first = next((at for at, row in enumerate(self.rows) if row.selectable), 0)
        if self.selected <= first:
            top = 0
        height = self._tops[self.selected + 1] - top
        self.scroll_to_region(Region(0, top, 1, height), animate=False, force=True, immediate=True)

    def toggle(self, kind: Kind) -> None:
        """Open or close what is folded."""
        self.unfolded ^= {kind}
        if kind == "done":
            self._kept.clear()
        if self._reading is not None:
            self._show(self._reading)
            self._into_view()

    def fold(self) -> None:
        """Nobody looks any more: what was done meanwhile goes to the others that are."""
        if self._kept and self._reading is not None:
            self._kept.clear()
            self._show(self._reading)

    def on_click(self, event: events.Click) -> None:
        """Go there; the box of a criterion is ticked, what is folded opens."""
        y = self.scroll_offset.y + event.y - self.styles.padding.top
        if not 0 <= y < self._tops[-1]:
            return
        place = bisect_right(self._tops, y) - 1
        if not self.rows[place].selectable:
            return
        self.take_focus()
        self._go(place)
        if self.rows[place].kind in FOLDS or (self.rows[place].kind == "criterion" and event.x < 2):
            self.clicked()
