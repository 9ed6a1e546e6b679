"""The search bar above the composer: what is searched for, which match of how many, the keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from widgets.dialog_keys import ARROWS, Keys
from widgets.ink import Ink, Line, Span, line, width_of
from widgets.line_view import LinesView
from widgets.transcript import Transcript

KEYS = Keys("search")
PLACEHOLDER = "search the session"


class SearchBar(Horizontal):
    """Hidden until `open`; searches the transcript while one types, and leaves the view at the match."""

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.transcript = transcript
        self.display = False
        self._input = Input(placeholder=PLACEHOLDER, compact=True, select_on_focus=True)
        self._told = LinesView(self._paint)
        self._before: Widget | None = None
        self._searching = False

    def compose(self) -> ComposeResult:
        """A sign, the field, the count."""
        yield LinesView(lambda width, ink: [line(("⌕ ", ink.accent))], id="search-sign")
        yield self._input
        yield self._told

    def open(self) -> None:
        """Show the bar and take the keys; when it is open, select what is searched for."""
        bound = (("older", "step(-1)"), ("newer", "step(1)"))
        self._bindings = BindingsMap(
            Binding(",".join(keys), does, show=False, priority=True)
            for keys, does in (*((KEYS.all_of(name), does) for name, does in bound), (("escape",), "close"))
            if keys
        )
        if not self.display:
            self._before = self.screen.focused
            self.display = True
            if self._input.value:
                self._search(self._input.value)
        self._input.focus()
        self._input.select_all()

    def action_close(self) -> None:
        """Hide the bar; the view stays where it is."""
        if not self.display:
            return
        self.display = False
        self._search("")
        if self._before is not None and self._before.is_attached:
            self._before.focus()

    def action_step(self, direction: int) -> None:
        """Go to another match."""
        self.transcript.find_next(direction)
        self._told.relayout()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Search while one types."""
        message.stop()
        if self.display:
            self._search(message.value)

    def _search(self, query: str) -> None:
        self.run_worker(self._find(query), exclusive=True)

    async def _find(self, query: str) -> None:
        self._searching = True
        self._told.relayout()
        await self.transcript.find(query)
        self._searching = False
        self._told.relayout()

    def _paint(self, width: int, ink: Ink) -> list[Line]:
        finder = self.transcript.finder
        if finder is None:
            count: Span = ("", ink.muted)
        elif finder.total:
            count = (f"{finder.number} of {finder.total}", ink.text)
        else:
            count = ("searching", ink.muted) if self._searching else ("no match", ink.warn)
        spans: list[Span] = [count]
        offered = [(_shown(name), name) for name in ("older", "newer")]
        for key, does in [*(pair for pair in offered if pair[0]), ("esc", "close")]:
            more: list[Span] = [("   ", ink.text), (key, ink.text), (" " + does, ink.muted)]
            if width_of([*spans, *more]) > width:
                spans = spans if finder is not None and finder.total else [count]
                break
            spans += more
        return [line((" " * (width - width_of(spans)), ink.text), *spans)]


def _shown(action: str) -> str:
    """An arrow where one is a key of it, else its first key."""
    arrow = next((ARROWS[key] for key in KEYS.all_of(action) if key in ARROWS), "")
    return arrow or KEYS.of(action)
