"""Completion of file mentions: an `@` at the start of a word opens a list that is filtered while typing (H7).

Enter and Tab choose from the results for the current text. A key that comes before they are complete waits, and later
keys queue behind it, and no key is lost or misread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from textual import events

from tui_agent.mentions.syntax import format_mention, typed_mention
from tui_agent.tui.base_app import BaseApp
from widgets.completion import MentionPicker

if TYPE_CHECKING:
    from tui_agent.mentions.search import MentionMatches, Mentions
    from widgets.prompt_input import PromptInput

LIST_KEYS = ("up", "down", "tab", "enter", "escape", "colon")
"""Keys of the open list; `:` inserts the name selected with the arrow keys, so that line numbers can follow."""
EDIT_KEYS = ("backspace", "delete", "ctrl+w", "ctrl+h")
"""Keys that edit a mention without typing a character."""
MAX_WAIT = 2.0
"""Seconds that a key waits for results before it is dropped."""


class MentionAtCursor(NamedTuple):
    """The mention in front of the cursor."""

    row: int
    start: int
    """Column of the `@`."""
    end: int
    query: str


class MentionCompletion:
    """Completes mentions in the composer with a list above it."""

    def __init__(self, app: BaseApp, prompt: PromptInput) -> None:
        self.app = app
        self.prompt = prompt
        self.picker = MentionPicker(self._on_click, id="mentions")
        self._mention: MentionAtCursor | None = None
        """The mention that is completed; None while the list is closed."""
        self._dismissed: tuple[int, int] | None = None
        """Position of the mention whose list the user closed."""
        self._key_pressed = False
        """The next change comes from a key; only then the list opens."""
        self._after_space: tuple[int, int] | None = None
        """Position after the space that was inserted after the last name."""
        self._results_complete = asyncio.Event()
        """The list is complete for the current text."""
        app.watch(prompt, "selection", self._on_cursor_moved, init=False)

    @property
    def _search(self) -> Mentions | None:
        return getattr(self.app.session, "mentions", None)

    def open(self) -> None:
        """Search for what was typed before the session was open."""
        if self._mention is not None:
            self._query(self._mention)

    # --- typing ---

    def _on_cursor_moved(self) -> None:
        key_pressed, self._key_pressed = self._key_pressed, False
        mention = self._mention_at_cursor()
        if mention is None or not (key_pressed or self._mention):
            self._dismissed = self._dismissed if mention is not None else None
            self._close()
        elif (mention.row, mention.start) != self._dismissed and mention != self._mention:
            self._dismissed = None
            self._query(mention)

    def _mention_at_cursor(self) -> MentionAtCursor | None:
        prompt = self.prompt
        if (
            not prompt.selection.is_empty
            or prompt.document.get_line(0).startswith("!")
            or (prompt.menu and prompt.menu.display)
        ):
            return None
        row, column = prompt.cursor_location
        if (mention := typed_mention(prompt.document.get_line(row)[:column])) is None:
            return None
        return MentionAtCursor(row, mention.start, column, mention.query)

    def _query(self, mention: MentionAtCursor) -> None:
        if self._mention is None or mention.query != self._mention.query:
            self._results_complete.clear()
        self._mention = mention
        if self._search is not None and not self._results_complete.is_set():
            self._search.find(mention.query, self._show_results)

    def _show_results(self, results: MentionMatches) -> None:
        if self._mention is None or results.query != self._mention.query:
            return
        self.picker.show(results.query, results.names, listing=results.listing, note=results.note)
        if results.complete:
            self._results_complete.set()

    def _close(self) -> None:
        if self._mention is not None:
            self._mention = None
            if self._search is not None:
                self._search.cancel()
            self.picker.close()

    # --- keys ---

    async def on_key(self, event: events.Key) -> bool:
        """Handle a key before the composer gets it; return True if the list took it."""
        self._key_pressed = event.is_printable or event.key in EDIT_KEYS
        if event.key == "colon" and self._after_space is not None:
            self._remove_space(*self._after_space)
        self._after_space = None
        if self._mention is None or self._search is None or event.key not in LIST_KEYS:
            return False
        if event.key == "escape":
            self._dismissed = (self._mention.row, self._mention.start)
            self._close()
            return True
        if event.key == "colon" and not self.picker.user_moved:
            return False
        if not await self._has_results():
            self.app.hints.show("still finding files · esc closes the list")
            return True
        if self._mention is None or not self.picker.names:
            return False
        if event.key in ("up", "down"):
            self.picker.move(-1 if event.key == "up" else 1)
        else:
            self._insert(self.picker.selected_name, event.key)
        return True

    async def _has_results(self) -> bool:
        """Wait for the results for the current text; return False if there are none in time."""
        try:
            async with asyncio.timeout(MAX_WAIT):
                await self._results_complete.wait()
        except TimeoutError:
            # While files are still being listed, incomplete results for the current text are good enough.
            mention = self._mention
            return mention is not None and self.picker.query_text == mention.query and bool(self.picker.names)
        return True

    def _on_click(self, name: str) -> None:
        self.prompt.focus()
        if self._mention is not None:
            self._insert(name, "enter")

    def _insert(self, name: str, key: str) -> None:
        """Replace the typed mention by the name. Tab on a folder keeps the list open for its content."""
        mention, prompt = self._mention, self.prompt
        if mention is None:
            return
        text, following = format_mention(name), prompt.document.get_line(mention.row)[mention.end :]
        if key == "tab" and name.endswith("/"):
            text = text.removesuffix('"')
        elif key == "colon":
            text += ":"
        elif not following[:1].isspace():
            text += " "
            self._after_space = None if name.endswith("/") else (mention.row, mention.start + len(text))
        self._key_pressed = True
        if self._search is not None:
            self._search.use(name)
        start = (mention.row, mention.start)
        prompt.history.checkpoint()
        prompt.replace(text, start, (mention.row, mention.end), maintain_selection_offset=False)
        prompt.move_cursor((mention.row, mention.start + len(text)))
        prompt.history.checkpoint()

    def _remove_space(self, row: int, column: int) -> None:
        """Remove the space after an inserted name, since line numbers follow it directly."""
        prompt = self.prompt
        if prompt.cursor_location == (row, column) and prompt.document.get_line(row)[column - 1 : column] == " ":
            prompt.replace("", (row, column - 1), (row, column))
