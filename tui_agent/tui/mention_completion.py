"""The composer's mentions of files: an `@` at the beginning of a word opens a list that the next letters filter (H7).

Enter and Tab mean what was found for the letters that stand there: a key that comes before that is known waits, and
the keys behind it wait with it, so that none of them is lost or read as something else.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple

from textual import events

from tui_agent.tui.base_app import BaseApp
from widgets.completion import MentionPicker

if TYPE_CHECKING:
    from tui_agent.mentions.search import Found, Mentions
    from widgets.prompt_input import PromptInput

KEYS = ("up", "down", "tab", "enter", "escape", "colon")
"""Belong to the list while it is open; `:` takes what was chosen with the arrows, so that lines can follow."""
EDITS = ("backspace", "delete", "ctrl+w", "ctrl+h")
"""Keys that change a mention without being a letter of it."""
PATIENCE = 2.0
"""Seconds that a key waits for what is found; then it does nothing."""
LONGEST = 1_000
"""Letters of a line before the cursor that are looked at."""

_TYPED = re.compile(
    r"""(?<![A-Za-z0-9._%+\-@/\\"'`=&\#])@(?:"(?P<quoted>(?:[^"\\\n]|\\["\\])*)|(?P<plain>(?:[^\s"<>|`@][^\s"<>|`]*)?))\Z"""
)
_LINES = re.compile(r"[^:]:(?:L?\d*(?:-L?\d*)?)?\Z")


class TypedMention(NamedTuple):
    """A mention as far as it is typed."""

    row: int
    start: int
    """Column of its @."""
    end: int
    query: str


class MentionCompletion:
    """One for a composer, with the list above it."""

    def __init__(self, app: BaseApp, prompt: PromptInput) -> None:
        self.app = app
        self.prompt = prompt
        self.picker = MentionPicker(self._click, id="mentions")
        self._typed: TypedMention | None = None
        """What is looked for; None while the list is closed."""
        self._left: tuple[int, int] | None = None
        """Position of the mention whose list the user closed."""
        self._keyed = False
        """The next change comes from a key: only that opens the list."""
        self._blank: tuple[int, int] | None = None
        """Position after the blank that was inserted after the last name."""
        self._known = asyncio.Event()
        """The list is complete for the current text."""
        app.watch(prompt, "selection", self._look, init=False)

    @property
    def _finder(self) -> Mentions | None:
        return getattr(self.app.session, "mentions", None)

    def open(self) -> None:
        """The session is open: search for what was typed before."""
        if self._typed is not None:
            self._ask(self._typed)

    # --- what is typed ---

    def _look(self) -> None:
        """The cursor moved, perhaps since a letter was typed."""
        keyed, self._keyed = self._keyed, False
        typed = self._at_cursor()
        if typed is None or not (keyed or self._typed):
            self._left = self._left if typed is not None else None
            self._close()
        elif (typed.row, typed.start) != self._left and typed != self._typed:
            self._left = None
            self._ask(typed)

    def _at_cursor(self) -> TypedMention | None:
        prompt = self.prompt
        if (
            not prompt.selection.is_empty
            or prompt.document.get_line(0).startswith("!")
            or (prompt.menu and prompt.menu.display)
        ):
            return None
        row, column = prompt.cursor_location
        line = prompt.document.get_line(row)[max(0, column - LONGEST) : column]
        found = _TYPED.search(line)
        if found is None or (found["plain"] and _LINES.search(found["plain"])):
            return None
        query = found["plain"] or re.sub(r'\\(["\\])', r"\1", found["quoted"] or "")
        return TypedMention(row, column - len(line) + found.start(), column, query)

    def _ask(self, typed: TypedMention) -> None:
        if self._typed is None or typed.query != self._typed.query:
            self._known.clear()
        self._typed = typed
        if self._finder is not None and not self._known.is_set():
            self._finder.find(typed.query, self._show_found)

    def _show_found(self, found: Found) -> None:
        if self._typed is None or found.query != self._typed.query:
            return
        self.picker.show(found.query, found.names, listing=found.listing, note=found.note)
        if found.whole:
            self._known.set()

    def _close(self) -> None:
        if self._typed is not None:
            self._typed = None
            if self._finder is not None:
                self._finder.end()
            self.picker.close()

    # --- keys ---

    async def on_key(self, event: events.Key) -> bool:
        """A key before the composer gets it; True when it was meant for the list."""
        self._keyed = event.is_printable or event.key in EDITS
        if event.key == "colon" and self._blank is not None:
            self._take_blank_back(*self._blank)
        self._blank = None
        if self._typed is None or self._finder is None or event.key not in KEYS:
            return False
        if event.key == "escape":
            self._left = (self._typed.row, self._typed.start)
            self._close()
            return True
        if event.key == "colon" and not self.picker.moved:
            return False
        if not await self._list_is_ready():
            self.app.hints.show("still finding files · esc closes the list")
            return True
        if self._typed is None or not self.picker.names:
            return False
        if event.key in ("up", "down"):
            self.picker.move(-1 if event.key == "up" else 1)
        else:
            self._insert(self.picker.name_chosen, event.key)
        return True

    async def _list_is_ready(self) -> bool:
        """Wait until the list fits the current text; False when that takes too long."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._known.wait()
        except TimeoutError:
            # While files are still being listed, a list for the current text counts.
            typed = self._typed
            return typed is not None and self.picker.wanted == typed.query and bool(self.picker.names)
        return True

    def _click(self, name: str) -> None:
        self.prompt.focus()
        if self._typed is not None:
            self._insert(name, "enter")

    def _insert(self, name: str, key: str) -> None:
        """Put the name into the place of what was typed. With Tab a folder stays open for what is in it."""
        from tui_agent.mentions.syntax import format_mention

        typed, prompt = self._typed, self.prompt
        if typed is None:
            return
        text, behind = format_mention(name), prompt.document.get_line(typed.row)[typed.end :]
        if key == "tab" and name.endswith("/"):
            text = text.removesuffix('"')
        elif key == "colon":
            text += ":"
        elif not behind[:1].isspace():
            text += " "
            self._blank = None if name.endswith("/") else (typed.row, typed.start + len(text))
        self._keyed = True
        if self._finder is not None:
            self._finder.use(name)
        prompt.history.checkpoint()
        prompt.replace(text, (typed.row, typed.start), (typed.row, typed.end), maintain_selection_offset=False)
        prompt.move_cursor((typed.row, typed.start + len(text)))
        prompt.history.checkpoint()

    def _take_blank_back(self, row: int, column: int) -> None:
        """Line numbers follow the inserted name directly: remove the blank."""
        prompt = self.prompt
        if prompt.cursor_location == (row, column) and prompt.document.get_line(row)[column - 1 : column] == " ":
            prompt.replace("", (row, column - 1), (row, column))
