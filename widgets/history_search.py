"""The search of earlier messages: narrows while the user types, and gives one to the composer (U8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tui_agent.text import one_line
from widgets.composer_history import DraftText
from widgets.panel import cursor_mark
from widgets.picker_dialog import PickerDialog
from widgets.styled_text import Line, TextStyles, fit, line, overlay, wrap

MAX_SEARCHED = 20_000
"""Characters of a message that are searched."""
PREVIEW_LINES = 4
"""Lines of the selected message that are shown in full."""


class HistorySearch(PickerDialog[DraftText]):
    """Search field, the messages that contain all words, newest first, and the beginning of the selected one."""

    NAME = "history"
    LAYOUT = ("bar", "list", "preview", "keys")
    HEIGHTS = (20, 4 + PREVIEW_LINES, 9 + PREVIEW_LINES)
    PLACEHOLDER = "search your messages"

    def __init__(self, entries: Awaitable[Sequence[DraftText]], on_chosen: Callable[[DraftText, str], object]) -> None:
        """`entries` are the messages, oldest first.

        `on_chosen` gets the one that the user takes, and what was typed before the screen closed.
        """
        super().__init__(empty="no message matches")
        self._loading = entries
        self._entries: list[DraftText] = []
        self._chosen: DraftText | None = None
        self._loaded = self._takes_first = False
        """The messages are loaded; the user wants the first match, which has to be loaded first."""
        self._on_chosen = on_chosen

    def on_mount(self) -> None:
        """Load the messages."""
        self.run_worker(self._load())

    async def _load(self) -> None:
        newest_first: dict[str, DraftText] = {}
        for entry in reversed(await self._loading):
            if not entry.blank:
                newest_first.setdefault(entry.text.strip(), entry)
        self._entries = [*newest_first.values()]
        if not self._entries:
            self.list_view.empty = "no earlier messages"
        self.set_total(len(self._entries))
        self.filter_rows()
        self._loaded = True
        if self._takes_first:
            self.activate()

    def filter_rows(self) -> None:
        """Show the messages that contain all words of the query."""
        self.list_view.set_rows([entry for entry in self._entries if self.matches(entry.text[:MAX_SEARCHED])], 0)
        self.cursor_moved()

    def cursor_moved(self) -> None:
        """Show the selected message."""
        self.repaint_parts("preview", "keys")

    def row_lines(self, row: DraftText, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        text = fit(one_line(row.text, 4 * max(width, 20)), max(1, width - 3))
        folded = text.casefold()
        starts = [(folded.find(word), len(word)) for word in self.query_text.casefold().split()]
        marked = {column for start, length in starts if start >= 0 for column in range(start, start + length)}
        style = styles.strong if selected else styles.text
        spans = overlay([(text, style)], [(column, column + 1) for column in marked], styles.link)
        return [line(cursor_mark(selected, styles), *spans)]

    def _preview(self, width: int, styles: TextStyles) -> list[Line]:
        text = self.current.text[: PREVIEW_LINES * max(width, 20)] if self.current is not None else ""
        lines = [part for row in text.splitlines() for part in wrap([(row, styles.muted)], width)]
        return [*lines[:PREVIEW_LINES], *(Line([]) for _ in range(PREVIEW_LINES - len(lines)))]

    def key_pairs(self) -> list[tuple[str, str]]:
        """Return the keys and what they do."""
        older, newer = self.keys.label("down"), self.keys.label("up")
        return [*self.keys.hints([("use", "use it")]), (older, "older"), (newer, "newer"), ("esc", "back")]

    def _sync_query(self) -> None:
        if self._chosen is None:
            super()._sync_query()

    def process_key(self, key: str) -> bool:
        """Handle a key; once a message is chosen, the field keeps what is typed."""
        return self._chosen is None and super().process_key(key)

    def _key_action(self, key: str) -> str:
        return "back" if key == "ctrl+g" else super()._key_action(key)

    def activate(self) -> None:
        """Close, and give the selected message to the composer."""
        if (entry := self.current) is not None:
            self._chosen = entry
            self.dismiss()
        self._takes_first = not self._loaded

    def on_unmount(self) -> None:
        """Give the chosen message to the composer."""
        if self._chosen is not None:
            self.app.call_later(self._on_chosen, self._chosen, self.field.value.removeprefix(self.query_text))

    _action_use = activate
