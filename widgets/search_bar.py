"""The search bar above the composer: what is searched for, which match of how many, the keys."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from widgets.dialog_keys import ARROWS, Keys, context_bindings
from widgets.line_view import LinesView
from widgets.styled_text import Line, Span, TextStyles, line, width_of
from widgets.transcript import Transcript

KEYS = Keys("search")
PLACEHOLDER = "search the session"


class SearchBar(Horizontal):
    """Hidden until `open`; searches the transcript while one types, and leaves the view at the match."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *context_bindings("search", {"older": "step(-1)", "newer": "step(1)"}),
        Binding("escape", "close", show=False, priority=True),
    ]

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
        yield LinesView(lambda width, styles: [line(("⌕ ", styles.accent))], id="search-sign")
        yield self._input
        yield self._told

    def open(self) -> None:
        """Show the bar and take the keys; when it is open, select what is searched for."""
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

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        finder = self.transcript.finder
        if finder is None:
            count: Span = ("", styles.muted)
        elif finder.total:
            count = (f"{finder.number} of {finder.total}", styles.text)
        else:
            count = ("searching", styles.muted) if self._searching else ("no match", styles.warn)
        spans: list[Span] = [count]
        offered = [(_shown(name), name) for name in ("older", "newer")]
        for key, does in [*(pair for pair in offered if pair[0]), ("esc", "close")]:
            more: list[Span] = [("   ", styles.text), (key, styles.text), (" " + does, styles.muted)]
            if width_of([*spans, *more]) > width:
                spans = spans if finder is not None and finder.total else [count]
                break
            spans += more
        return [line((" " * (width - width_of(spans)), styles.text), *spans)]


def _shown(action: str) -> str:
    """An arrow where one is a key of it, else its first key."""
    arrow = next((ARROWS[key] for key in KEYS.keys_for(action) if key in ARROWS), "")
    return arrow or KEYS.label(action)
