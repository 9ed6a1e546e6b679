"""Optional vim keys in the composer: motions, operators with counts, put and undo.

Esc enters normal mode; Esc in normal mode interrupts the run as always. Enter sends in both modes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.events import Key

if TYPE_CHECKING:
    from widgets.prompt_input import PromptInput

MAX_COUNT: Final = 9_999
_WORD = re.compile(r"\w+|[^\w\s]+")


class Motion(NamedTuple):
    """Target of a motion, and what an operator does with it."""

    to: int
    inclusive: bool = False
    """An operator includes the character at the target."""
    linewise: bool = False
    """An operator takes whole lines."""


def line_start(text: str, pos: int) -> int:
    """Return where the line at `pos` begins."""
    return text.rfind("\n", 0, pos) + 1


def line_end(text: str, pos: int) -> int:
    """Return where the line at `pos` ends, before its line feed."""
    end = text.find("\n", pos)
    return len(text) if end < 0 else end


def _first_nonblank(text: str, pos: int) -> int:
    start = line_start(text, pos)
    line = text[start : line_end(text, pos)]
    return start + len(line) - len(line.lstrip(" \t"))


def _next_word(text: str, pos: int) -> int:
    return next(
        (word.start() for word in _WORD.finditer(text, _word_start(text, pos)) if word.start() > pos), len(text)
    )


def _word_end(text: str, pos: int) -> int:
    last = max(0, len(text) - 1)
    ends = (word.end() - 1 for word in _WORD.finditer(text, _word_start(text, pos)))
    return next((end for end in ends if end > pos), last)


def _previous_word(text: str, pos: int) -> int:
    starts = [word.start() for word in _WORD.finditer(text, 0, pos) if word.start() < pos]
    return starts[-1] if starts else 0


def _operator_word_end(text: str, start: int, stop: int) -> int:
    """Shorten the range of an operator with `w` to the last word before a line break, so that lines are not joined."""
    words = text[start:stop].rstrip()
    if "\n" not in text[start + len(words) : stop]:
        return stop
    return start + len(words) if words else line_end(text, start)


def _word_start(text: str, pos: int) -> int:
    """Return where the word around `pos` begins."""
    while 0 < pos < len(text) and text[pos - 1 : pos + 1].isalnum():
        pos -= 1
    return pos


def _vertical(text: str, pos: int, lines: int) -> int:
    """Return the same column `lines` further down, or up if negative."""
    column = pos - line_start(text, pos)
    for _ in range(abs(lines)):
        if lines > 0:
            end = line_end(text, pos)
            if end == len(text):
                break
            pos = end + 1
        else:
            start = line_start(text, pos)
            if start == 0:
                break
            pos = line_start(text, start - 1)
    start = line_start(text, pos)
    return min(start + column, line_end(text, start))


def _repeated(step: Callable[[str, int], int]) -> Callable[[str, int, int], Motion]:
    def motion(text: str, pos: int, count: int) -> Motion:
        for _ in range(count):
            pos, before = step(text, pos), pos
            if pos == before:
                break
        return Motion(pos)

    return motion


MOTIONS: Final[dict[str, Callable[[str, int, int], Motion]]] = {
    "h": lambda text, pos, n: Motion(max(line_start(text, pos), pos - n)),
    "l": lambda text, pos, n: Motion(min(line_end(text, pos), pos + n)),
    "j": lambda text, pos, n: Motion(_vertical(text, pos, n), linewise=True),
    "k": lambda text, pos, n: Motion(_vertical(text, pos, -n), linewise=True),
    "w": _repeated(_next_word),
    "b": _repeated(_previous_word),
    "e": lambda text, pos, n: _repeated(_word_end)(text, pos, n)._replace(inclusive=True),
    "0": lambda text, pos, n: Motion(line_start(text, pos)),
    "^": lambda text, pos, n: Motion(_first_nonblank(text, pos)),
    "$": lambda text, pos, n: Motion(line_end(text, pos)),
    "gg": lambda text, pos, n: Motion(0, linewise=True),
    "G": lambda text, pos, n: Motion(line_start(text, len(text)), linewise=True),
}
"""Keys of a motion → its target from a position, `n` times."""

ALIASES: Final = {"D": "d$", "C": "c$", "Y": "yy", "S": "cc", "s": "cl", "x": "dl", "X": "dh"}
INSERT_COMMANDS: Final[dict[str, Callable[[str, int], int]]] = {
    "i": lambda text, pos: pos,
    "a": lambda text, pos: min(pos + 1, line_end(text, pos)),
    "I": _first_nonblank,
    "A": line_end,
}
"""Commands that enter insert mode → where the cursor goes."""


class Vim:
    """Handles the composer's keys; starts in insert mode."""

    def __init__(self, prompt: PromptInput) -> None:
        self.prompt = prompt
        self.inserting = True
        self._pending = ""
        """Keys of an incomplete command."""
        self._register = ""
        self._register_linewise = False

    def on_key(self, event: Key) -> bool:
        """Handle a key before the composer gets it; return True if that is all."""
        if self.inserting:
            if event.key == "escape":
                self._set_inserting(False)
                return True
            return False
        if event.key == "escape":
            had_pending, self._pending = bool(self._pending), ""
            return had_pending
        if event.key == "enter":
            self._set_inserting(True)
            return False
        if event.key == "ctrl+r":
            self.prompt.action_redo()
            return True
        if not (event.is_printable and event.character):
            self._pending = ""
            if event.key not in ("backspace", "delete"):
                return False
            self._move_by("h" if event.key == "backspace" else "l")
            return True
        self._press(event.character)
        return True

    def _set_inserting(self, inserting: bool) -> None:
        self.inserting, self._pending = inserting, ""
        self.prompt.border_subtitle = "" if inserting else "normal"
        if not inserting and self._cursor > line_start(self.prompt.text, self._cursor):
            self._move(self._cursor - 1)

    def _press(self, character: str) -> None:
        pending = self._pending + character
        match = re.fullmatch(r"([1-9]\d*)?([dcy])?([1-9]\d*)?(.*)", pending, re.DOTALL)
        assert match is not None  # every part may be empty
        count = min(MAX_COUNT, int(match[1] or 1) * int(match[3] or 1))
        operator, command = match[2] or "", match[4]
        self._pending = pending
        if not command or command in ("g", "r"):
            return
        self._pending = ""
        if operator:
            self._operate(operator, command, count)
        elif command in ALIASES:
            self._operate(ALIASES[command][0], ALIASES[command][1:], count)
        else:
            self._run(command, count)

    # --- commands ---

    def _run(self, command: str, count: int) -> None:
        text, pos = self.prompt.text, self._cursor
        if command in MOTIONS:
            self._move_by(command, count)
        elif command in INSERT_COMMANDS:
            self._move(INSERT_COMMANDS[command](text, pos))
            self._set_inserting(True)
        elif command == "o":
            self._insert(line_end(text, pos), "\n")
            self._set_inserting(True)
        elif command == "O":
            self._insert(line_start(text, pos), "\n")
            self._move(line_start(text, pos))
            self._set_inserting(True)
        elif command[0] == "r" and pos + count <= line_end(text, pos):
            self._replace(pos, pos + count, command[1] * count)
            self._move(pos + count - 1)
        elif command == "u":
            for _ in range(min(count, 100)):
                self.prompt.action_undo()
        elif command in ("p", "P"):
            self._put(command == "p", count)

    def _operate(self, operator: str, motion_keys: str, count: int) -> None:
        text, pos = self.prompt.text, self._cursor
        if motion_keys == operator:
            start, stop, linewise = line_start(text, pos), line_end(text, _vertical(text, pos, count - 1)), True
        elif motion_keys in MOTIONS:
            changes_word = (operator, motion_keys) == ("c", "w") and text[pos : pos + 1].strip()
            motion = MOTIONS["e" if changes_word else motion_keys](text, pos, count)
            start, stop = sorted((pos, motion.to))
            stop += motion.inclusive
            linewise = motion.linewise
            if linewise:
                start, stop = line_start(text, start), line_end(text, stop)
            elif motion_keys == "w":
                stop = _operator_word_end(text, start, stop)
        else:
            return
        self._register, self._register_linewise = text[start:stop], linewise
        if operator == "y":
            self._move(start)
            return
        if linewise and operator == "d":  # with one of the adjacent line feeds
            start, stop = (start, stop + 1) if stop < len(text) else (max(0, start - 1), stop)
        self._replace(start, stop, "")
        pos = line_start(self.prompt.text, min(start, len(self.prompt.text))) if linewise else start
        if operator == "c":
            self._move(pos)
            self._set_inserting(True)
        else:
            self._move_onto_character(pos)

    def _put(self, after: bool, count: int) -> None:
        """Insert the register after or before the cursor."""
        text, pos = self.prompt.text, self._cursor
        if not self._register:
            return
        copies = [self._register] * min(count, 100)
        if self._register_linewise:
            lines = "\n".join(copies)
            position = line_end(text, pos) if after else line_start(text, pos)
            self._insert(position, f"\n{lines}" if after else f"{lines}\n")
            self._move(position + after)
        else:
            characters = "".join(copies)
            position = min(pos + 1, line_end(text, pos)) if after else pos
            self._insert(position, characters)
            self._move(position + len(characters) - 1)

    def _move_by(self, motion_keys: str, count: int = 1) -> None:
        self._move_onto_character(MOTIONS[motion_keys](self.prompt.text, self._cursor, count).to)

    # --- the composer ---

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
