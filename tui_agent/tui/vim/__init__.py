"""Optional keys of vi in the composer: normal, insert, visual and visual-line mode.

Esc enters normal mode; Esc in normal mode does what it does without these keys. Enter sends in every mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from textual.events import Key
from textual.widgets.text_area import Selection

from tui_agent.tui.vim.grammar import ViCommand, is_find, is_motion, is_object, parse_command
from tui_agent.tui.vim.motions import (
    MOTIONS,
    Motion,
    find_character,
    first_nonblank,
    line_end,
    line_start,
    operator_word_end,
    vertical,
)
from tui_agent.tui.vim.registers import Registers
from tui_agent.tui.vim.text_objects import OBJECTS, TextRange

if TYPE_CHECKING:
    from widgets.prompt_input import PromptInput

__all__ = ["MOTIONS", "Vim"]

MAX_COPIES: Final = 100
"""Copies of a text that one command inserts."""
INDENT: Final = "    "
LETTERS: Final[dict[str, Callable[[str], str]]] = {"gu": str.lower, "gU": str.upper, "g~": str.swapcase}
"""Operators that change letters → how."""
INSERT_COMMANDS: Final[dict[str, Callable[[str, int], int]]] = {
    "i": lambda text, pos: pos,
    "a": lambda text, pos: min(pos + 1, line_end(text, pos)),
    "I": first_nonblank,
    "A": line_end,
}
"""Commands that enter insert mode → where the cursor goes."""
VISUAL_OPERATORS: Final = {
    key: operator
    for operator, keys in {"d": "dxDX", "c": "csCSR", "y": "yY", ">": ">", "<": "<"}.items()
    for key in keys
} | {"gu": "gu", "gU": "gU", "g~": "g~", "u": "gu", "U": "gU", "~": "g~"}
"""Keys in visual mode → the operator on what is selected."""
WHOLE_LINES: Final = "XSDCRY"
"""Those of them that take whole lines."""
KEYS: Final = {"left": "h", "right": "l", "backspace": "h", "delete": "x", "home": "0", "end": "$"}
VISUAL_KEYS: Final = {**KEYS, "up": "k", "down": "j"}
"""Keys that are commands under another name; in normal mode the arrows browse the history."""


def _after_escape(key: str) -> str:
    """Return the letter of a key with Alt, which is what terminals send for Esc and a letter; otherwise ""."""
    *modifiers, base = key.split("+")
    if "alt" not in modifiers or not set(modifiers) <= {"alt", "shift"} or len(base) != 1:
        return ""
    return base.upper() if "shift" in modifiers else base


class Vim:
    """Handles the composer's keys; starts in insert mode."""

    def __init__(self, prompt: PromptInput) -> None:
        self.prompt = prompt
        self.inserting = True
        self.registers = Registers(self._copy, self._paste)
        self._visual = ""
        """`v` or `V` in visual mode."""
        self._anchor = self._end = 0
        """Where the visual selection began, and the character at its other end."""
        self._shown: Selection | None = None
        """The selection as shown; another one is the user's, by mouse."""
        self._pending = ""
        """Keys of an incomplete command."""
        self._found = ""
        """The last `f`, `F`, `t` or `T` with its character."""
        self._change: ViCommand | None = None
        """The last command that changed the text, for `.`."""
        self._inserted = ""
        """What was typed after it."""
        self._before_insert: tuple[str, int] | None = None
        """Text and cursor when insert mode began."""
        self._repeating = False

    # --- keys ---

    def on_key(self, event: Key) -> bool:
        """Handle a key before the composer gets it; return True if that is all."""
        if self.inserting:
            return self._on_insert_key(event)
        if self._visual and self.prompt.selection != self._shown:
            self._leave_visual()
        if event.key == "escape":
            had_pending = bool(self._pending or self._visual)
            self._pending = ""
            self._leave_visual()
            return had_pending
        if event.key == "enter":
            if self._pending or self._visual:
                self._pending = ""
                return True
            self._set_inserting(True)
            self._before_insert = None  # what is typed next is another message
            return False
        if event.key == "ctrl+r":
            self.prompt.action_redo()
            return True
        character = event.character if event.is_printable else (VISUAL_KEYS if self._visual else KEYS).get(event.key)
        if not character:
            self._pending = ""
            return False
        self._press(character)
        return True

    def claims(self, key: str) -> bool:
        """Return whether a key of the app is a command here: Ctrl+R, and Esc with a letter, which arrives as Alt."""
        return bool(_after_escape(key)) if self.inserting else key == "ctrl+r"

    def _on_insert_key(self, event: Key) -> bool:
        """Leave insert mode with Esc."""
        letter = _after_escape(event.key)
        if event.key != "escape" and not letter:
            return False
        self._set_inserting(False)
        if letter:
            self._press(letter)
        return True

    def _set_inserting(self, inserting: bool) -> None:
        if inserting and not self.inserting:
            self._before_insert = self.prompt.text, self._cursor
        elif not inserting and self.inserting:
            self._note_inserted()
        self.inserting, self._pending = inserting, ""
        self._show_mode()
        if not inserting and self._cursor > line_start(self.prompt.text, self._cursor):
            self._move(self._cursor - 1)

    def _show_mode(self) -> None:
        names = {"": "" if self.inserting else "normal", "v": "visual", "V": "visual line"}
        self.prompt.border_subtitle = names[self._visual]

    def _note_inserted(self) -> None:
        """Note what was typed since insert mode began, for `.`."""
        if self._before_insert is None or self._repeating:
            return
        (before, pos), after = self._before_insert, self.prompt.text
        added = len(after) - len(before)
        is_insertion = added >= 0 and after[:pos] == before[:pos] and after[pos + added :] == before[pos:]
        self._inserted = after[pos : pos + added] if is_insertion else ""
        self._before_insert = None

    def _press(self, character: str) -> None:
        self._pending += character
        command = parse_command(self._pending, visual=bool(self._visual))
        if command is None:
            return
        self._pending = ""
        if self._visual:
            self._run_visual(command)
        elif command.name == "." and not command.operator:
            self._repeat(command.times)
        else:
            self._run(command)

    # --- normal mode ---

    def _run(self, command: ViCommand) -> None:
        text, pos = self.prompt.text, self._cursor
        if command.operator:
            self._run_operator(command)
        elif is_motion(command.name):
            if (motion := self._motion(command.name, pos, command.times)) is not None:
                self._move_onto_character(motion.to)
        elif command.name in INSERT_COMMANDS:
            self._note_change(command)
            self._move(INSERT_COMMANDS[command.name](text, pos))
            self._set_inserting(True)
        elif command.name in ("v", "V"):
            self._anchor = self._end = pos
            self._visual = command.name
            self._select()
        elif command.name == "u":
            for _ in range(min(max(command.times, 1), MAX_COPIES)):
                self.prompt.action_undo()
        elif (change := _CHANGES.get(command.name[:1])) is not None:
            self._note_change(command)
            change(self, command)

    def _note_change(self, command: ViCommand) -> None:
        if not self._repeating:
            self._change, self._inserted = command, ""

    def _repeat(self, count: int) -> None:
        """Run the last change again, with another count if there is one."""
        if (change := self._change) is None:
            return
        self._repeating = True
        self._run(change._replace(times=count or change.times))
        if self.inserting:
            if self._inserted:
                self._insert(self._cursor, self._inserted)
            self._set_inserting(False)
        self._repeating = False

    def _motion(self, name: str, pos: int, count: int) -> Motion | None:
        text = self.prompt.text
        if is_find(name):
            self._found = name
            return find_character(text, pos, name, count)
        if name in (";", ","):
            found = self._found
            kind = found[:1].swapcase() if name == "," else found[:1]
            return find_character(text, pos, kind + found[1:], count, again=True) if found else None
        return MOTIONS[name](text, pos, count)

    def _run_operator(self, command: ViCommand) -> None:
        pos = self._cursor
        taken = self._range(command, pos)
        if taken is None or (taken.start == taken.stop and not taken.linewise and command.operator in ("d", "y")):
            return
        if command.operator != "y":
            self._note_change(command)
        self._operate(command, taken)

    def _range(self, command: ViCommand, pos: int) -> TextRange | None:
        """Return what an operator takes; None if there is nothing."""
        text, name = self.prompt.text, command.name
        if command.takes_lines:
            last = vertical(text, pos, max(command.times, 1) - 1)
            return TextRange(line_start(text, pos), line_end(text, last), linewise=True)
        if is_object(name):
            return OBJECTS[name[1]](text, pos, name[0] == "a")
        if not is_motion(name):
            return None
        is_word = name in ("w", "W")
        changes_word = command.operator == "c" and is_word and bool(text[pos : pos + 1].strip())
        motion = self._motion({"w": "e", "W": "E"}[name] if changes_word else name, pos, command.times)
        if motion is None:
            return None
        start, stop = sorted((pos, motion.to))
        if motion.linewise:
            moved = line_start(text, start) != line_start(text, stop) or name not in "jk+-"
            return TextRange(line_start(text, start), line_end(text, stop), True) if moved else None
        stop = min(stop + motion.inclusive, len(text))
        if is_word and not changes_word:
            stop = operator_word_end(text, start, stop)
        return TextRange(start, stop)

    def _operate(self, command: ViCommand, taken: TextRange) -> None:
        """Run an operator on a range."""
        start, stop, linewise = self._snapped(taken)
        operator, part = command.operator, self.prompt.text[start:stop]
        if operator in LETTERS:
            self._replace(start, stop, LETTERS[operator](part))
            self._move(start)
        elif operator in ("<", ">"):
            self._indent(start, stop, by=1 if operator == ">" else -1)
        else:
            self.registers.store(command.register, part, linewise=linewise, yanked=operator == "y")
            if operator == "y":
                self._move(start)
            else:
                self._delete(start, stop, linewise=linewise, then_insert=operator == "c")

    def _delete(self, start: int, stop: int, *, linewise: bool, then_insert: bool) -> None:
        text = self.prompt.text
        if linewise and not then_insert:  # with one of the adjacent line feeds
            start, stop = (start, stop + 1) if stop < len(text) else (max(0, start - 1), stop)
        self._replace(start, stop, "")
        pos = line_start(self.prompt.text, min(start, len(self.prompt.text))) if linewise else start
        if then_insert:
            self._move(pos)
            self._set_inserting(True)
        else:
            self._move_onto_character(pos)

    def _indent(self, start: int, stop: int, *, by: int) -> None:
        text = self.prompt.text
        start, stop = line_start(text, start), line_end(text, max(start, stop - (stop > start)))
        lines = text[start:stop].split("\n")
        if by > 0:
            lines = [INDENT + line if line else line for line in lines]
        else:
            lines = [line[min(len(INDENT), len(line) - len(line.lstrip(" "))) :].removeprefix("\t") for line in lines]
        self._replace(start, stop, "\n".join(lines))
        self._move(first_nonblank(self.prompt.text, start))

    # --- changes without an operator ---

    def _open_line(self, command: ViCommand) -> None:
        pos = self._cursor
        below = command.name == "o"
        at = line_end(self.prompt.text, pos) if below else line_start(self.prompt.text, pos)
        self._insert(at, "\n")
        self._move(at + below)
        self._set_inserting(True)

    def _replace_characters(self, command: ViCommand) -> None:
        pos, count = self._cursor, max(command.times, 1)
        if pos + count <= line_end(self.prompt.text, pos):
            self._replace(pos, pos + count, command.name[1] * count)
            self._move(pos + count - 1)

    def _swap_case(self, command: ViCommand) -> None:
        text, pos = self.prompt.text, self._cursor
        stop = min(line_end(text, pos), pos + max(command.times, 1))
        self._replace(pos, stop, text[pos:stop].swapcase())
        self._move_onto_character(stop)

    def _join_lines(self, command: ViCommand) -> None:
        self._join(self._cursor, max(command.times, 2) - 1)

    def _join(self, pos: int, times: int) -> None:
        """Join the line at `pos` with the following ones, with a space in between."""
        start = end = line_end(self.prompt.text, pos)
        text, joined = self.prompt.text, ""
        for _ in range(times):
            if end >= len(text):
                break
            line = text[end + 1 : line_end(text, end + 1)]
            end += 1 + len(line)
            space = " " if line.strip() and not (joined or text[:start])[-1:].isspace() else ""
            joined += space + line.lstrip()
        if end > start:
            self._replace(start, end, joined)
            self._move_onto_character(start)

    def _put(self, command: ViCommand) -> None:
        """Insert a register after or before the cursor."""
        text, pos, after = self.prompt.text, self._cursor, command.name == "p"
        content = self.registers.get(command.register)
        if not content.text:
            return
        copies = [content.text] * min(max(command.times, 1), MAX_COPIES)
        if content.linewise:
            lines = "\n".join(copies)
            position = line_end(text, pos) if after else line_start(text, pos)
            self._insert(position, f"\n{lines}" if after else f"{lines}\n")
            self._move(position + after)
        else:
            characters = "".join(copies)
            position = min(pos + 1, line_end(text, pos)) if after else pos
            self._insert(position, characters)
            self._move(position + len(characters) - 1)

    # --- visual mode ---

    def _run_visual(self, command: ViCommand) -> None:
        name = command.name
        if name in ("v", "V"):
            self._visual = "" if name == self._visual else name
            self._select() if self._visual else self._leave_visual()
        elif name == "o":
            self._anchor, self._end = self._end, self._anchor
            self._select()
        elif name in VISUAL_OPERATORS:
            if name in WHOLE_LINES:
                self._visual = "V"
            self._operate_visual(command._replace(operator=VISUAL_OPERATORS[name]))
        elif name in ("p", "P"):
            self._put_over(command)
        elif name == "J":
            taken = self._leave_visual()
            lines = self.prompt.text.count("\n", taken.start, taken.stop)
            self._note_change(ViCommand("J", times=lines + 1))
            self._join(taken.start, max(lines, 1))
        elif name[:1] == "r" and len(name) == 2:
            taken = TextRange(*self._snapped(self._leave_visual()))
            part = self.prompt.text[taken.start : taken.stop]
            self._replace(taken.start, taken.stop, "".join("\n" if one == "\n" else name[1] for one in part))
            self._move(taken.start)
        elif is_object(name):
            if (found := OBJECTS[name[1]](self.prompt.text, self._end, name[0] == "a")) is not None:
                self._anchor, self._end = found.start, max(found.start, found.stop - 1)
                self._visual = "V" if found.linewise else self._visual
                self._select()
        elif is_motion(name) and (motion := self._motion(name, self._end, command.times)) is not None:
            self._end = min(motion.to, max(0, len(self.prompt.text) - 1))
            self._select()

    def _operate_visual(self, command: ViCommand) -> None:
        taken = self._leave_visual()
        part = self.prompt.text[taken.start : taken.stop]
        lines = part.count("\n") + 1
        if command.operator != "y" and (taken.linewise or lines == 1):  # `.` takes as much again
            name, count = (command.operator, lines) if taken.linewise else ("l", len(part))
            self._note_change(ViCommand(name, command.operator, count, command.register))
        self._operate(command, taken)

    def _put_over(self, command: ViCommand) -> None:
        """Replace the selection by a register; it becomes the unnamed one."""
        content, taken = self.registers.get(command.register), TextRange(*self._snapped(self._leave_visual()))
        part = self.prompt.text[taken.start : taken.stop]
        text = f"\n{content.text}\n" if content.linewise and not taken.linewise else content.text
        self._replace(taken.start, taken.stop, text)
        self.registers.store("", part, linewise=taken.linewise, yanked=False)
        self._move_onto_character(max(taken.start, taken.start + len(text) - 1))

    def _selected(self) -> TextRange:
        text = self.prompt.text
        start, end = sorted((min(self._anchor, len(text)), min(self._end, len(text))))
        if self._visual == "V":
            return TextRange(line_start(text, start), line_end(text, end), True)
        return TextRange(start, min(end + 1, len(text)))

    def _select(self) -> None:
        """Show what is selected."""
        start, stop, _linewise = self._selected()
        begin, end = (start, stop) if self._end >= self._anchor else (stop, start)
        self.prompt.selection = Selection(self._location(begin), self._location(end))
        self._shown = self.prompt.selection
        self._show_mode()

    def _leave_visual(self) -> TextRange:
        """Go back to normal mode, and return what was selected."""
        if not self._visual:
            return TextRange(self._cursor, self._cursor)
        taken, is_ours = self._selected(), self.prompt.selection == self._shown
        self._visual, self._shown = "", None
        if is_ours:
            self._move_onto_character(min(self._end, len(self.prompt.text)))
        self._show_mode()
        return taken

    # --- the composer ---

    def _copy(self, text: str) -> None:
        self.prompt.app.copy_to_clipboard(text)

    def _paste(self) -> str:
        return self.prompt.app.clipboard

    @property
    def _cursor(self) -> int:
        """The cursor as an offset in the text."""
        row, column = self.prompt.cursor_location
        lines = self.prompt.text.split("\n")
        return sum(len(line) + 1 for line in lines[:row]) + column

    def _location(self, pos: int) -> tuple[int, int]:
        text = self.prompt.text
        pos = max(0, min(pos, len(text)))
        return text.count("\n", 0, pos), pos - line_start(text, pos)

    def _offset(self, location: tuple[int, int]) -> int:
        lines = self.prompt.text.split("\n")
        return sum(len(line) + 1 for line in lines[: location[0]]) + location[1]

    def _snapped(self, taken: TextRange) -> tuple[int, int, bool]:
        """Return a range with the chips that it cuts as a whole."""
        start = self._offset(self.prompt.snap(self._location(taken.start), to_end=False))
        stop = self._offset(self.prompt.snap(self._location(taken.stop), to_end=True))
        return start, max(start, stop), taken.linewise

    def _move_onto_character(self, pos: int) -> None:
        """Move the cursor, but not after the last character of a line."""
        text = self.prompt.text
        self._move(pos - 1 if pos == line_end(text, pos) and pos > line_start(text, pos) else pos)

    def _move(self, pos: int) -> None:
        self.prompt.move_cursor(self._location(pos))

    def _insert(self, pos: int, text: str) -> None:
        self._replace(pos, pos, text)
        self._move(pos + len(text))

    def _replace(self, start: int, stop: int, text: str) -> None:
        """Replace a range as one undo step."""
        self.prompt.history.checkpoint()
        self.prompt.replace(text, self._location(start), self._location(stop), maintain_selection_offset=False)
        self.prompt.history.checkpoint()


_CHANGES: Final[dict[str, Callable[[Vim, ViCommand], None]]] = {
    "o": Vim._open_line,
    "O": Vim._open_line,
    "r": Vim._replace_characters,
    "~": Vim._swap_case,
    "J": Vim._join_lines,
    "p": Vim._put,
    "P": Vim._put,
}
"""Keys of changes without an operator."""
