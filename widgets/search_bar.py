"""The search bar above the composer: query, number of matches, keys."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from widgets.dialog_keys import ARROWS, Keys, context_bindings
from widgets.line_view import LinesView
from widgets.styled_text import Line, Span, TextStyles, justified_line, line, width_of
from widgets.transcript import Transcript

KEYS = Keys("search")


class SearchBar(Horizontal):
    """Searches the transcript while the user types. Opens when it is mounted; closing keeps the scroll position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *context_bindings("search", {"older": "step(-1)", "newer": "step(1)"}),
        Binding("escape", "close", show=False, priority=True),
    ]

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.transcript = transcript
        self.display = False
        self._input = Input(placeholder="search the session", compact=True, select_on_focus=True)
        self._status = LinesView(self._paint)
        self._previous_focus: Widget | None = None

    def compose(self) -> ComposeResult:
        """Yield sign, field and status."""
        yield LinesView(lambda width, styles: [line(("⌕ ", styles.accent))], id="search-sign")
        yield self._input
        yield self._status

    def on_mount(self) -> None:
        """Open: the bar is mounted when it is first wanted."""
        self.open()

    def open(self) -> None:
        """Show and focus the bar, and select the query."""
        if not self.display:
            self._previous_focus = self.screen.focused
            self.display = True
            if self._input.value:
                self._search(self._input.value)
        self._input.focus()
        self._input.select_all()

    def action_close(self) -> None:
        """Hide the bar, end the search, and restore the focus."""
        self.display = False
        self._search("")
        if self._previous_focus is not None and self._previous_focus.is_attached:
            self._previous_focus.focus()

    def action_step(self, direction: int) -> None:
        """Go to the next match in a direction."""
        self.transcript.find_next(direction)
        self._status.relayout()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Search for the changed query."""
        message.stop()
        if self.display:
            self._search(message.value)

    def _search(self, query: str) -> None:
        self.run_worker(self._find(query), exclusive=True)
        self.call_later(self._status.relayout)  # shows a search that takes longer

    async def _find(self, query: str) -> None:
        await self.transcript.find(query)
        self._status.relayout()

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the number of matches and as many key hints as fit, right-aligned."""
        finder = self.transcript.finder
        if finder is None:
            count: Span = ("", styles.muted)
        elif finder.total:
            count = (f"{finder.number} of {finder.total}", styles.text)
        else:
            count = ("no match", styles.warn) if finder.done else ("searching", styles.muted)
        spans: list[Span] = [count]
        for key, action in [(_key_label("older"), "older"), (_key_label("newer"), "newer"), ("esc", "close")]:
            hint: list[Span] = [("   ", styles.text), (key, styles.text), (f" {action}", styles.muted)]
            if key and width_of([*spans, *hint]) > width:
                spans = spans if finder is not None and finder.total else [count]
                break
            spans += hint if key else []
        return [justified_line([], spans, width, styles)]


def _key_label(action: str) -> str:
    """Return the arrow of an action if it has an arrow key, otherwise the label of its first key."""
    return next((ARROWS[key] for key in KEYS.keys_for(action) if key in ARROWS), KEYS.label(action))
