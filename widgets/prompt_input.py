"""The composer: a text area that sends on Enter, keeps what was typed, and never stops taking keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from widgets.command_menu import CommandMenu
from widgets.drafting import NOTHING, OPEN_CHARACTERS, Chips, History, Written, can_open, is_big
from widgets.in_order import press_bound
from widgets.ties import Ties

NEWLINE_KEYS = ("ctrl+j", "alt+enter", "shift+enter")
"""`\\` before Enter is the one that works in every terminal."""

MENU_KEYS = ("up", "down", "tab", "enter", "escape")
"""Belong to the list of commands while it is open."""

PLACEHOLDER = "Ask for a change, or ask a question"

LONGEST_MESSAGE = 500_000
"""Characters of one message, as the engine takes them; what is longer stays in the composer."""

CHIP = "prompt-input--chip"


class PromptInput(TextArea):
    """Several lines, a history of what was sent or set aside, the unsent draft kept while looking through it.

    A big paste is one chip: the cursor jumps over it, and it is deleted as a whole.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {CHIP}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+l", "lay_open", "Lay a paste open", show=False),
        Binding("ctrl+g", "submit(True)", "Guide the run", show=False),
        Binding("up", "older", "Older message", show=False),
        Binding("down", "newer", "Newer message", show=False),
        Binding("ctrl+t", "open_editor", "Edit elsewhere", show=False),
        Binding("ctrl+z", "undo", "Undo", show=False),
        Binding("ctrl+v", "paste", "Paste", show=False),
    ]

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

    class Leave(Message):
        """Ctrl+D with nothing typed."""

    class HelpWanted(Message):
        """A question mark with nothing typed."""

    def __init__(self, menu: CommandMenu | None = None, *, id: str | None = None) -> None:
        self.chips = Chips(lambda: [self.written, self.parked, *self.past.everything()])
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            placeholder=Content(PLACEHOLDER),
        )
        self.cursor_blink = False
        self.menu = menu
        self.ties = Ties()
        self._begun = False
        self.parked = NOTHING
        """The draft while a command is typed over it."""
        self.past = History()
        self._past_loaded = False

    # --- what stands in it ---

    @property
    def written(self) -> Written:
        """The text with its chips."""
        return self.chips.within(self.text)

    @property
    def selected_text(self) -> str:
        """What is selected, with pastes in the place of their chips."""
        return self.chips.within(super().selected_text).whole

    def kept(self) -> tuple[Written, list[Written]]:
        """What must survive: the draft, and further texts that are not in the history yet."""
        shown, aside = self.written, self.past.elsewhere()
        place = self.past.place
        if place is not None and shown == self.past.entries[place]:
            shown = self.past.draft_left()
            aside = [one for one in aside if one is not shown]
        if not self.parked.blank:
            return self.parked, [*aside, *([] if shown.text.strip() in ("", "/") else [shown])]
        return shown, aside

    def put(self, written: Written) -> None:
        """Show this instead of what is there; undo brings that back."""
        text = self.chips.adopt(written)
        if not can_open(text):
            text = self.chips.add(written.whole)
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    def render_line(self, y: int) -> Strip:
        """A line; nothing where no column is left, which Textual's placeholder can't be wrapped to."""
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(0)

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable:
            self._begin()
        if await self.ties.key(event):
            event.stop()
            event.prevent_default()
        elif event.key in MENU_KEYS and self.menu is not None and self.menu.filter(self.text):
            event.stop()
            event.prevent_default()
            self._in_menu(self.menu, event.key)
        elif event.key == "question_mark" and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(self.HelpWanted())
        elif event.key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif event.key == "ctrl+d" and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(self.Leave())
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
        else:
            await press_bound(self, event)

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
        draft, self.parked = self.parked, NOTHING
        self._show(self.chips.adopt(draft))
        if self.menu is not None:
            self.menu.filter(self.text)

    def open_menu(self) -> None:
        """List the commands; the draft comes back when one was chosen, or when nothing else stands here any more."""
        if not self.text.startswith("/"):
            if not self.parked.blank:
                self.remember(self.parked)
                self.ties.say("an earlier draft is in the history · up")
            self.parked = self.written
            self._show("/")

    def on_text_area_changed(self) -> None:
        """The draft filters the list, and is kept."""
        if not self.text and not self.parked.blank:
            self._unpark()
        if self.menu is not None:
            self.menu.filter(self.text)
        self.ties.changed(False)

    def on_blur(self) -> None:
        """The user turns to something else."""
        self.ties.changed(True)

    # --- chips ---

    def get_line(self, line_index: int) -> Text:
        """A line, its chips in their own colours."""
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

    def _edge(self, place: tuple[int, int], *, end: bool) -> int:
        row, column = place
        if row >= self.document.line_count:
            return column
        return self.chips.widened(self.document.get_line(row), column, end=end)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()  # what TextArea would do
        self.take_paste(event.text)

    def take_paste(self, text: str) -> None:
        """A paste into the place of the selection, in one step for undo; a big one as a chip (R12.1)."""
        self._begin()
        if is_big(text):
            text = self.chips.add(text)
        self.history.checkpoint()
        if (done := self._replace_via_keyboard(text, *self.selection)) is not None:
            self.move_cursor(done.end_location)
        self.history.checkpoint()

    def action_paste(self) -> None:
        """What was cut here."""
        self.take_paste(self.app.clipboard)

    def action_lay_open(self) -> None:
        """Put a paste in the place of its chip: the one at the cursor, else the last before it, else the first."""
        spans = [
            ((row, start), (row, end))
            for row in range(self.document.line_count)
            for start, end in self.chips.spans(self.document.get_line(row))
        ]
        if not spans:
            self.ties.say("there is no paste to lay open")
            return
        before = [span for span in spans if span[0] <= self.cursor_location]
        start, end = before[-1] if before else spans[0]
        text = self.chips.texts[self.document.get_text_range(start, end)]
        if not can_open(text) or len(self.text) + len(text) > 2 * OPEN_CHARACTERS:
            self.ties.say("too long to lay open here · /editor opens it in yours")
            return
        self.history.checkpoint()
        self.replace(text, start, end, maintain_selection_offset=False)
        self.history.checkpoint()

    def action_open_editor(self) -> None:
        """The draft in the user's own editor."""
        self.ties.edit_elsewhere()

    # --- sending and setting aside ---

    def _enter(self) -> None:
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
            self.ties.say(
                f"{len(text):,} characters are too many to send · put them into a file and name that"
            )
            return
        draft, message = self.past.draft_left(), self.ties.send(text)
        self._remember(written)
        self.clear()
        if not draft.blank:
            self.put(draft)
        elif not self.parked.blank:
            self._unpark()
        self.post_message(self.Submitted(text, steering, message))

    def set_aside(self) -> bool:
        """Put the draft into the history and clear the composer (R11.1). False when there was none."""
        written, draft = self.written, self.past.draft_left()
        parked, self.parked = self.parked, NOTHING
        if written.blank and parked.blank:
            self.clear()
            return False
        if written.text.strip() == "/" and not parked.blank:
            written = NOTHING  # no more than the key that lists the commands
        for one in (written, draft, parked):
            if not one.blank:
                self._remember(one)
        self.clear()
        return True

    def take_typed(self, text: str) -> None:
        """Text that was typed into a dialog before it would listen goes on where the draft ends."""
        self.insert(self.chips.add(text) if is_big(text) else text, self.document.end)
        self.move_cursor(self.document.end)

    def remember(self, written: Written) -> None:
        """Put a text into the history as the newest one, whatever the user looks at."""
        if new := self.past.add(self.chips.within(self.chips.adopt(written))):
            self.ties.remembered(new)

    def _remember(self, written: Written) -> None:
        self.ties.remembered(self.past.remember(written))

    # --- looking back ---

    async def action_older(self) -> None:
        """In the first line: the message before; in an empty composer the last one of the queue. Else a line up."""
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif not self.text and self.past.place is None and (back := await self.ties.take_back()) is not None:
            self.put(back)
        else:
            if not self._past_loaded:
                self._past_loaded = True
                self.past.load([self.chips.within(self.chips.adopt(one)) for one in await self.ties.past()])
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

    # --- undo ---

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
