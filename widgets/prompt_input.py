"""The composer: a text area that sends on Enter, keeps what was typed, and never stops taking keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets.text_area import Edit, EditResult, Selection

from widgets.completion import CommandMenu
from widgets.composer_history import NO_DRAFT, OPEN_CHARACTERS, Chips, DraftText, InputHistory, can_open, is_big
from widgets.composer_host import ComposerHost
from widgets.dialog_keys import bindings
from widgets.inputs import PlainTextArea, press_bound_key
from widgets.textual_private import replace_selection

MENU_KEYS = ("up", "down", "tab", "enter", "escape")
"""Belong to the list of commands while it is open."""

PLACEHOLDER = "Ask for a change, or ask a question"

LONGEST_MESSAGE = 500_000
"""Characters of one message, as the engine takes them; what is longer stays in the composer."""

CHIP = "prompt-input--chip"


class ChipTextArea(PlainTextArea):
    """A text area in which a big paste is one chip: the cursor jumps over it, and it is deleted as a whole."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {CHIP}

    def __init__(self, chips: Chips, *, placeholder: str = "", id: str | None = None) -> None:
        self.chips = chips
        super().__init__(id=id, placeholder=placeholder)

    @property
    def written(self) -> DraftText:
        """The text with its chips."""
        return self.chips.within(self.text)

    @property
    def selected_text(self) -> str:
        """What is selected, with pastes in the place of their chips."""
        return self.chips.within(super().selected_text).whole

    def put(self, written: DraftText) -> None:
        """Show this instead of what is there; undo brings that back."""
        text = self.chips.adopt(written)
        if not can_open(text):
            text = self.chips.add(written.whole)
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    def get_line(self, line_index: int) -> Text:
        """A line, its chips in their own colors."""
        line = super().get_line(line_index)
        for start, end in self.chips.spans(line.plain):
            line.stylize(self.get_component_rich_style(CHIP), start, end)
        return line

    def _validate_selection(self, selection: Selection) -> Selection:
        """The cursor is never within a chip: it jumps to the side that it was going to."""
        selection = super()._validate_selection(selection)
        if not self.chips.texts:
            return selection
        (row, column), came_from = selection.end, self.selection.end
        line = self.document.get_line(row)
        jumped = (row, self.chips.widened(line, column, end=selection.end > came_from))
        if jumped == selection.end:
            return selection
        return Selection(jumped if selection.is_empty else selection.start, jumped)

    def edit(self, edit: Edit) -> EditResult:
        """An edit takes whole chips or none; one into a chip goes behind it."""
        if self.chips.texts:
            top, bottom = sorted((edit.from_location, edit.to_location))
            behind = (bottom[0], self._edge(bottom, end=True))
            before = behind if top == bottom else (top[0], self._edge(top, end=False))
            edit.from_location, edit.to_location = before, behind
        return super().edit(edit)

    def _edge(self, location: tuple[int, int], *, end: bool) -> int:
        row, column = location
        if row >= self.document.line_count:
            return column
        return self.chips.widened(self.document.get_line(row), column, end=end)

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # what TextArea would do
        self.take_paste(event.text)

    def take_paste(self, text: str) -> None:
        """A paste into the place of the selection, in one step for undo; a big one as a chip."""
        if is_big(text):
            text = self.chips.add(text)
        self.history.checkpoint()
        replace_selection(self, text)
        self.history.checkpoint()

    def action_paste(self) -> None:
        """What was cut here."""
        self.take_paste(self.app.clipboard)

    def expand_paste(self) -> str:
        """Put a paste in the place of its chip: the one at the cursor, else the last before it, else the first.

        Returns why that is not possible; empty when it was done.
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
        if not can_open(text) or len(self.text) + len(text) > 2 * OPEN_CHARACTERS:
            return "too long to expand here · /editor opens it in yours"
        self.history.checkpoint()
        self.replace(text, start, end, maintain_selection_offset=False)
        self.history.checkpoint()
        return ""

    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        """An edit that can't be undone at this size is left as it is (Textual #6686)."""
        try:
            super()._undo_batch(edits)
        except ValueError:
            self.refresh(layout=True)

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        """The same the other way."""
        try:
            super()._redo_batch(edits)
        except ValueError:
            self.refresh(layout=True)


class PromptInput(ChipTextArea):
    """Several lines, a history of what was sent or set aside, the unsent draft kept while looking through it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("composer")]

    @dataclass
    class Submitted(Message):
        """Enter: the text is to be sent."""

        text: str
        steering: bool = False
        """Meant for the run that goes on, not for the next one."""
        message: str = ""
        """The id that it gets."""

    @dataclass
    class Commanded(Message):
        """Enter on a command of the list."""

        name: str
        rest: str

    class Begun(Message):
        """The first key of all into the composer."""

    def __init__(self, menu: CommandMenu | None = None, *, id: str | None = None) -> None:
        chips = Chips(lambda: [self.written, self.parked, *self.past.everything()])
        super().__init__(chips, id=id, placeholder=PLACEHOLDER)
        self.menu = menu
        self.host: ComposerHost
        """Set by who keeps what is typed."""
        self.vim: Callable[[events.Key], bool] | None = None
        """Says whether a key was one of vi's, where the user wants these."""
        self._begun = False
        self.parked = NO_DRAFT
        """The draft while a command is typed over it."""
        self.past = InputHistory()
        self._past_loaded = False

    # --- what stands in it ---

    def kept(self) -> tuple[DraftText, list[DraftText]]:
        """What must survive: the draft, and further texts that are not in the history yet."""
        shown, aside = self.written, self.past.elsewhere()
        location = self.past.place
        if location is not None and shown == self.past.entries[location]:
            shown = self.past.draft_left()
            aside = [draft_text for draft_text in aside if draft_text is not shown]
        if not self.parked.blank:
            return self.parked, [*aside, *([] if shown.text.strip() in ("", "/") else [shown])]
        return shown, aside

    async def on_key(self, event: events.Key) -> None:
        if event.is_printable:
            self._begin()
        menu, menu_shown = self.menu, self.menu is not None and self.menu.display
        if await self.host.key(event):
            pass
        elif event.key in MENU_KEYS and menu is not None and menu.filter(self.text):
            self._in_menu(menu, event.key)
        elif self.vim is not None and not menu_shown and self.vim(event):
            pass
        elif event.key == "question_mark" and not self.text:
            await self.run_action("app.help")
        elif event.is_printable or await press_bound_key(self, event) or event.key not in UNBOUND_ACTIONS:
            return  # no letter is bound to anything
        else:
            UNBOUND_ACTIONS[event.key](self)
        event.stop()
        event.prevent_default()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.post_message(self.Begun())

    def _in_menu(self, menu: CommandMenu, key: str) -> None:
        if key in ("up", "down"):
            menu.move(-1 if key == "up" else 1)
        elif key == "tab":
            self.text = f"/{menu.name_chosen} "
            self.move_cursor(self.document.end)
        elif key == "enter":
            name, rest = menu.name_chosen, self.chips.within(self.text.partition(" ")[2]).whole
            self._unpark()
            self.post_message(self.Commanded(name, rest))
        else:
            menu.close()
            if not self.parked.blank:
                self._unpark()

    def _show(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)

    def _unpark(self) -> None:
        draft, self.parked = self.parked, NO_DRAFT
        self._show(self.chips.adopt(draft))
        if self.menu is not None:
            self.menu.filter(self.text)

    def open_menu(self) -> None:
        """List the commands; the draft comes back when one was chosen, or when nothing else stands here any more."""
        if not self.text.startswith("/"):
            if not self.parked.blank:
                self.remember(self.parked)
                self.host.say("an earlier draft is in the history · up")
            self.parked = self.written
            self._show("/")

    def on_text_area_changed(self) -> None:
        """The draft filters the list, and is kept."""
        if not self.text and not self.parked.blank:
            self._unpark()
        if self.menu is not None and (self.menu.names or self.text.startswith("/")):
            self.menu.filter(self.text)
        self.host.changed(False)

    def on_blur(self) -> None:
        """The user turns to something else."""
        self.host.changed(True)

    def take_paste(self, text: str) -> None:
        """See ChipTextArea; a paste counts as the first key."""
        self._begin()
        super().take_paste(text)

    def _action_newline(self) -> None:
        """A line break at the cursor."""
        self.insert("\n")

    async def _action_leave(self) -> None:
        """Quit from an empty composer; else the key deletes, as in every text field."""
        if self.text:
            self.action_delete_right()
        else:
            await self.run_action("app.command('leave')")

    def action_expand_paste(self) -> None:
        """Put a paste in the place of its chip."""
        if problem := self.expand_paste():
            self.host.say(problem)

    def action_open_editor(self) -> None:
        """The draft in the user's own editor."""
        self.host.edit_elsewhere()

    # --- sending and setting aside ---

    def _action_send(self) -> None:
        """Submit; with `\\` before the cursor begin a new line, which works in every terminal."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        if before.endswith("\\"):
            self.replace("\n", (row, column - 1), (row, column))
        else:
            self.action_submit(False)

    def action_submit(self, steering: bool) -> None:
        """Hand the text up and clear the composer; an unsent draft behind the history comes back."""
        written = self.written
        if written.blank:
            return
        text = written.whole
        if len(text) > LONGEST_MESSAGE:
            self.host.say(
                f"{len(text):,} characters are too many to send · put the text in a file and mention it with @"
            )
            return
        draft, message = self.past.draft_left(), self.host.send(text)
        self._remember(written)
        self.clear()
        if not draft.blank:
            self.put(draft)
        elif not self.parked.blank:
            self._unpark()
        self.post_message(self.Submitted(text, steering, message))

    def set_aside(self) -> bool:
        """Put the draft into the history and clear the composer. False when there was none."""
        written, draft = self.written, self.past.draft_left()
        parked, self.parked = self.parked, NO_DRAFT
        if written.blank and parked.blank:
            self.clear()
            return False
        if written.text.strip() == "/" and not parked.blank:
            written = NO_DRAFT  # no more than the key that lists the commands
        for draft_text in (written, draft, parked):
            if not draft_text.blank:
                self._remember(draft_text)
        self.clear()
        return True

    def take_typed(self, text: str) -> None:
        """Text that was typed into a dialog before it would listen goes on where the draft ends."""
        self.insert(self.chips.add(text) if is_big(text) else text, self.document.end)
        self.move_cursor(self.document.end)

    def remember(self, written: DraftText) -> None:
        """Put a text into the history as the newest one, whatever the user looks at."""
        if new := self.past.add(self.chips.within(self.chips.adopt(written))):
            self.host.remembered(new)

    def _remember(self, written: DraftText) -> None:
        self.host.remembered(self.past.remember(written))

    # --- looking back ---

    async def action_older(self) -> None:
        """In the first line: the message before; in an empty composer the last one of the queue. Else a line up."""
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif not self.text and self.past.place is None and (back := await self.host.take_back()) is not None:
            self.put(back)
        else:
            if not self._past_loaded:
                self._past_loaded = True
                self.past.load([self.chips.within(self.chips.adopt(message)) for message in await self.host.past()])
            if not self._look(-1):
                self.action_cursor_up()

    def action_newer(self) -> None:
        """In the last line: the message after, at last the draft. Elsewhere: a line down."""
        if not self.cursor_at_last_line or self.past.place is None or not self._look(1):
            self.action_cursor_down()

    def _look(self, by: int) -> bool:
        if (found := self.past.step(by, self.written)) is not None:
            self._show(self.chips.adopt(found))
        return found is not None


UNBOUND_ACTIONS: Final[dict[str, Callable[[PromptInput], object]]] = {
    "enter": lambda prompt: None,
    "up": PromptInput.action_cursor_up,
    "down": PromptInput.action_cursor_down,
}
"""What keys of ours do that the user gave no action: Enter nothing, the arrows what they do in every text."""
