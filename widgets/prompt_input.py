"""The composer: a text area with chips for long pastes, a history, and a draft that is never lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol

from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets.text_area import Edit, EditResult, Selection

from tui_agent.keys.slash import TypedCommand, read_command
from widgets.completion import CommandMenu
from widgets.composer_history import (
    MAX_EXPANDED_CHARACTERS,
    NO_DRAFT,
    Chips,
    DraftText,
    InputHistory,
    becomes_chip,
    can_expand,
)
from widgets.dialog_keys import bindings
from widgets.inputs import PlainTextArea, press_bound_key
from widgets.request_view import call_later_once
from widgets.textual_private import replace_selection

MENU_KEYS = ("up", "down", "tab", "enter", "escape")
"""Keys of the command menu while it is open."""

PLACEHOLDER = "Ask for a change, or ask a question"

MAX_MESSAGE_CHARACTERS = 500_000
"""The engine's limit for a message; a longer text stays in the composer."""

MESSAGE_LENGTH: Final = 8
"""Characters from which a text is taken for a message, for which the first run is prepared."""

HESITATION: Final = 1.0
"""Seconds after which a shorter text is."""

CHIP = "prompt-input--chip"


class ChipTextArea(PlainTextArea):
    """A text area where a long paste is a chip: the cursor skips it, and it is deleted as a whole."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {CHIP}

    def __init__(self, chips: Chips, *, placeholder: str = "", id: str | None = None) -> None:
        self.chips = chips
        super().__init__(id=id, placeholder=placeholder)

    @property
    def draft(self) -> DraftText:
        """The text with its chips."""
        return self.chips.to_draft(self.text)

    @property
    def selected_text(self) -> str:
        """The selected text with its chips expanded."""
        return self.chips.to_draft(super().selected_text).full_text

    def put(self, draft: DraftText) -> None:
        """Replace the text; this can be undone."""
        text = self.chips.adopt(draft)
        if not can_expand(text):
            text = self.chips.add(draft.full_text)
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    def get_line(self, line_index: int) -> Text:
        """Return a line with styled chips."""
        line = super().get_line(line_index)
        for start, end in self.chips.spans(line.plain):
            line.stylize(self.get_component_rich_style(CHIP), start, end)
        return line

    def _validate_selection(self, selection: Selection) -> Selection:
        """Move a cursor within a chip on to the end of the chip that it was moving to."""
        selection = super()._validate_selection(selection)
        if not self.chips.texts:
            return selection
        (row, column), previous = selection.end, self.selection.end
        line = self.document.get_line(row)
        snapped = (row, self.chips.snap(line, column, to_end=selection.end > previous))
        if snapped == selection.end:
            return selection
        return Selection(snapped if selection.is_empty else selection.start, snapped)

    def edit(self, edit: Edit) -> EditResult:
        """Extend an edit to whole chips; an insertion within a chip goes after it."""
        if self.chips.texts:
            start, end = sorted((edit.from_location, edit.to_location))
            snapped_end = self.snap(end, to_end=True)
            edit.from_location = snapped_end if start == end else self.snap(start, to_end=False)
            edit.to_location = snapped_end
        return super().edit(edit)

    def snap(self, location: tuple[int, int], *, to_end: bool) -> tuple[int, int]:
        """Return a location, or the start or end of the chip around it."""
        row, column = location
        if row >= self.document.line_count:
            return location
        return row, self.chips.snap(self.document.get_line(row), column, to_end=to_end)

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # TextArea would insert it again
        self.insert_paste(event.text)

    def insert_paste(self, text: str) -> None:
        """Replace the selection by a paste, or by its chip, as a single step for undo."""
        if becomes_chip(text):
            text = self.chips.add(text)
        self.history.checkpoint()
        replace_selection(self, text)
        self.history.checkpoint()

    def action_paste(self) -> None:
        """Paste text that was cut in the composer."""
        self.insert_paste(self.app.clipboard)

    def expand_paste(self) -> str:
        """Expand the chip at the cursor, otherwise the last one before it, otherwise the first one.

        Returns why this is impossible, or an empty string.
        """
        spans = [
            ((row, start), (row, end))
            for row in range(self.document.line_count)
            for start, end in self.chips.spans(self.document.get_line(row))
        ]
        if not spans:
            return "no paste to expand"
        before = [span for span in spans if span[0] <= self.cursor_location]
        start, end = before[-1] if before else spans[0]
        text = self.chips.texts[self.document.get_text_range(start, end)]
        if not can_expand(text) or len(self.text) + len(text) > 2 * MAX_EXPANDED_CHARACTERS:
            return "too long to expand here · /editor opens it in yours"
        self.history.checkpoint()
        self.replace(text, start, end, maintain_selection_offset=False)
        self.history.checkpoint()
        return ""

    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        """Ignore an edit that can't be undone at the current size (Textual #6686)."""
        try:
            super()._undo_batch(edits)
        except ValueError:
            self.refresh(layout=True)

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        """Ignore an edit that can't be redone at the current size."""
        try:
            super()._redo_batch(edits)
        except ValueError:
            self.refresh(layout=True)


class ComposerHost(NamedTuple):
    """What the composer needs of the app."""

    show_hint: Callable[[str], object]
    on_change: Callable[[bool], object]
    """Called when `texts_to_save` changed, with True when the composer lost the focus: save immediately."""
    send: Callable[[str], str]
    """Called with a text to send; returns the id of its message."""
    on_history_added: Callable[[list[DraftText]], object]
    load_history: Callable[[], Awaitable[Iterable[DraftText]]]
    """Return the texts of earlier sessions, oldest first; called once."""
    open_editor: Callable[[], object]
    """Open the draft in the user's editor."""
    handle_key: Callable[[events.Key], Awaitable[bool]]
    """Called before the composer handles a key; returns True if the app handled it."""
    withdraw_newest: Callable[[], Awaitable[DraftText | None]]
    """Remove the newest message from the queue and return it."""


class ModalEditing(Protocol):
    """Modal keys, such as those of vi."""

    inserting: bool
    """Keys type text."""

    def claims(self, key: str) -> bool:
        """Return whether a key of the app is a command here."""

    def on_key(self, event: events.Key) -> bool:
        """Handle a key before the composer gets it; return True if that is all."""


class PromptInput(ChipTextArea):
    """The composer: sends on Enter, completes commands, browses the history, and keeps the unsent draft."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("composer")]

    @dataclass
    class Submitted(Message):
        """The user sends a text."""

        text: str
        steering: bool = False
        """Meant for the current run instead of the next one."""
        message: str = ""
        """Id of the message."""

    @dataclass
    class CommandChosen(Message):
        """A command was chosen in the menu."""

        name: str
        argument: str

    class Started(Message):
        """The user has begun a message, for the first time: more than a key that was pressed and deleted again."""

    def __init__(self, menu: CommandMenu | None = None, *, id: str | None = None) -> None:
        chips = Chips(lambda: [self.draft, self.stashed, *self.input_history.all_texts()])
        super().__init__(chips, id=id, placeholder=PLACEHOLDER)
        self.menu = menu
        self.host: ComposerHost
        self.vim: ModalEditing | None = None
        """The keys of vi; None unless they are enabled."""
        self._started = False
        self.stashed = NO_DRAFT
        """The draft while a command is typed in its place."""
        self.input_history = InputHistory()
        self._history_loaded = False

    # --- the text ---

    def texts_to_save(self) -> tuple[DraftText, list[DraftText]]:
        """Return what must survive a crash: the draft, and other texts that are not in the history yet."""
        history, draft, others = self.input_history, self.draft, self.input_history.hidden_texts()
        if history.position is not None and draft == history.entries[history.position]:
            draft = history.unsent_draft()
            others = [text for text in others if text is not draft]
        if not self.stashed.blank:
            return self.stashed, [*others, *([] if draft.text.strip() in ("", "/") else [draft])]
        return draft, others

    def claims(self, key: str) -> bool:
        """Return whether a key of the app is a command of the modal keys now."""
        return self.vim is not None and self.has_focus and self.vim.claims(key)

    async def on_key(self, event: events.Key) -> None:
        if not self._started and (event.is_printable or event.key == "enter"):
            self._expect_message(event.key)
        menu, menu_shown = self.menu, self.menu is not None and self.menu.display
        if await self.host.handle_key(event):
            pass
        elif event.key in MENU_KEYS and menu is not None and menu.filter(self.text):
            self._press_menu_key(menu, event.key)
        elif self.vim is not None and not menu_shown and self.vim.on_key(event):
            pass
        elif event.key == "question_mark" and not self.text:
            await self.run_action("app.help")
        elif event.is_printable or await press_bound_key(self, event) or event.key not in UNBOUND_ACTIONS:
            return  # printable keys have no bindings
        else:
            UNBOUND_ACTIONS[event.key](self)
        event.stop()
        event.prevent_default()

    def _expect_message(self, key: str) -> None:
        """Start with Enter, with `MESSAGE_LENGTH` characters, or when fewer are still there after `HESITATION`."""
        if key == "enter" or len(self.text) >= MESSAGE_LENGTH:
            self._start()
        elif not self.text:
            call_later_once(HESITATION, self, lambda: self._start() if self.text else None)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self.post_message(self.Started())

    def _press_menu_key(self, menu: CommandMenu, key: str) -> None:
        if key in ("up", "down"):
            menu.move(-1 if key == "up" else 1)
        elif key == "tab":
            self._set_text(f"/{menu.selected_name} ")
        elif key == "enter":
            argument = self.chips.to_draft(self.text.partition(" ")[2]).full_text
            name = menu.selected_name
            self._restore_stashed()
            self.post_message(self.CommandChosen(name, argument))
        else:
            menu.close()
            if not self.stashed.blank:
                self._restore_stashed()

    def _set_text(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)

    def _restore_stashed(self) -> None:
        draft, self.stashed = self.stashed, NO_DRAFT
        self._set_text(self.chips.adopt(draft))
        if self.menu is not None:
            self.menu.filter(self.text)

    def open_menu(self) -> None:
        """Open the command menu. The draft is restored when a command was chosen or the `/` was deleted."""
        if not self.text.startswith("/"):
            if not self.stashed.blank:
                self.add_to_history(self.stashed)
                self.host.show_hint("an earlier draft is in the history · up")
            self.stashed = self.draft
            self._set_text("/")

    def on_text_area_changed(self) -> None:
        """Filter the menu, and save the draft."""
        if not self.text and not self.stashed.blank:
            self._restore_stashed()
        if self.menu is not None and (self.menu.names or self.text.startswith("/")):
            self.menu.filter(self.text)
        self.host.on_change(False)

    def on_blur(self) -> None:
        """Save the draft immediately."""
        self.host.on_change(True)

    def insert_paste(self, text: str) -> None:
        """See ChipTextArea."""
        self._start()
        super().insert_paste(text)

    def _action_newline(self) -> None:
        """Insert a line break at the cursor."""
        self.insert("\n")

    async def _action_leave(self) -> None:
        """Quit if the composer is empty; otherwise delete the next character, as in every text field."""
        if self.text:
            self.action_delete_right()
        else:
            await self.run_action("app.command('leave')")

    def action_expand_paste(self) -> None:
        """Expand a chip."""
        if problem := self.expand_paste():
            self.host.show_hint(problem)

    def action_open_editor(self) -> None:
        """Open the draft in the user's editor."""
        self.host.open_editor()

    # --- sending ---

    def _action_send(self) -> None:
        """Submit; after a `\\`, replace it by a line break, which works in every terminal."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        if before.endswith("\\"):
            self.replace("\n", (row, column - 1), (row, column))
        else:
            self.action_submit(False)

    def action_submit(self, steering: bool) -> None:
        """Send the text and clear the composer; restores the unsent draft if a history entry was shown."""
        draft = self.draft
        if draft.blank:
            return
        text = draft.full_text
        if (command := read_command(text)) is not None:
            self._submit_command(command)
            return
        if len(text) > MAX_MESSAGE_CHARACTERS:
            self.host.show_hint(
                f"{len(text):,} characters are too many to send · put the text in a file and mention it with @"
            )
            return
        unsent, message = self.input_history.unsent_draft(), self.host.send(text)
        self._record(draft)
        self.clear()
        if not unsent.blank:
            self.put(unsent)
        elif not self.stashed.blank:
            self._restore_stashed()
        self.post_message(self.Submitted(text, steering, message))

    def _submit_command(self, command: TypedCommand) -> None:
        """Run a command; an unknown one stays in the composer and is never sent to the model."""
        if command.problem:
            self.host.show_hint(command.problem)
        else:
            self._restore_stashed()
            self.post_message(self.CommandChosen(command.name, command.argument))

    def move_to_history(self) -> bool:
        """Move the draft to the history and clear the composer; return False if there is no draft."""
        draft, unsent = self.draft, self.input_history.unsent_draft()
        stashed, self.stashed = self.stashed, NO_DRAFT
        if draft.blank and stashed.blank:
            self.clear()
            return False
        if draft.text.strip() == "/" and not stashed.blank:
            draft = NO_DRAFT  # the user only opened the command menu
        for text in (draft, unsent, stashed):
            if not text.blank:
                self._record(text)
        self.clear()
        return True

    def append_text(self, text: str, *, erases: bool = False) -> None:
        """Append text to the draft, such as keys that a dialog received too early; `erases`: after deleting its end."""
        if erases:
            self.move_cursor(self.document.end)
            self.action_delete_left()
        self.insert(self.chips.add(text) if becomes_chip(text) else text, self.document.end)
        self.move_cursor(self.document.end)

    def add_to_history(self, draft: DraftText) -> None:
        """Add the newest entry of the history; what is shown stays."""
        if new := self.input_history.add(self.chips.to_draft(self.chips.adopt(draft))):
            self.host.on_history_added(new)

    def _record(self, draft: DraftText) -> None:
        self.host.on_history_added(self.input_history.record(draft))

    # --- browsing the history ---

    async def action_older(self) -> None:
        """In the first line, show the previous text; in an empty composer, withdraw the newest queued message."""
        history = self.input_history
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif not self.text and history.position is None and (queued := await self.host.withdraw_newest()) is not None:
            self.put(queued)
        else:
            await self.load_history()
            if not self._browse(-1):
                self.action_cursor_up()

    async def load_history(self) -> list[DraftText]:
        """Load the messages of earlier sessions, once, and return all messages, oldest first."""
        if not self._history_loaded:
            self._history_loaded = True
            earlier = await self.host.load_history()
            self.input_history.load([self.chips.to_draft(self.chips.adopt(draft)) for draft in earlier])
        return self.input_history.entries

    def replace_draft(self, draft: DraftText, typed: str = "") -> None:
        """Put a text, and what was `typed` behind it, in the place of the draft, which goes to the history."""
        if self.move_to_history():
            self.host.show_hint("draft stashed · up restores it")
        self.put(draft)
        self.append_text(typed)

    def action_newer(self) -> None:
        """In the last line, show the next text, and finally the draft."""
        if not self.cursor_at_last_line or self.input_history.position is None or not self._browse(1):
            self.action_cursor_down()

    def _browse(self, by: int) -> bool:
        """Show an older (-1) or newer (1) text; return False if there is none."""
        if (text := self.input_history.step(by, self.draft)) is not None:
            self._set_text(self.chips.adopt(text))
        return text is not None


UNBOUND_ACTIONS: Final[dict[str, Callable[[PromptInput], object]]] = {
    "enter": lambda prompt: None,
    "up": PromptInput.action_cursor_up,
    "down": PromptInput.action_cursor_down,
}
"""What composer keys do if the user's key settings leave them unbound."""
