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


def line_start(text: str, at: int) -> int:
    """Return where the line at `at` begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return where the line at `at` ends, before its line feed."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _first_nonblank(text: str, at: int) -> int:
    start = line_start(text, at)
    line = text[start : line_end(text, at)]
    return start + len(line) - len(line.lstrip(" \t"))


def _next_word(text: str, at: int) -> int:
    return next((word.start() for word in _WORD.finditer(text, _word_start(text, at)) if word.start() > at), len(text))


def _word_end(text: str, at: int) -> int:
    last = max(0, len(text) - 1)
    ends = (word.end() - 1 for word in _WORD.finditer(text, _word_start(text, at)))
    return next((end for end in ends if end > at), last)


def _previous_word(text: str, at: int) -> int:
    starts = [word.start() for word in _WORD.finditer(text, 0, at) if word.start() < at]
    return starts[-1] if starts else 0


def _operator_word_end(text: str, start: int, stop: int) -> int:
    """Shorten the range of an operator with `w` to the last word before a line break, so that lines are not joined."""
    words = text[start:stop].rstrip()
    if "\n" not in text[start + len(words) : stop]:
        return stop
    return start + len(words) if words else line_end(text, start)


def _word_start(text: str, at: int) -> int:
    """Return where the word around `at` begins."""
    while 0 < at < len(text) and text[at - 1 : at + 1].isalnum():
        at -= 1
    return at


def _vertical(text: str, at: int, lines: int) -> int:
    """Return the same column `lines` further down, or up if negative."""
    column = at - line_start(text, at)
    for _ in range(abs(lines)):
        if lines > 0:
            end = line_end(text, at)
            if end == len(text):
                break
            at = end + 1
        else:
            start = line_start(text, at)
            if start == 0:
                break
            at = line_start(text, start - 1)
    start = line_start(text, at)
    return min(start + column, line_end(text, start))


def _repeated(step: Callable[[str, int], int]) -> Callable[[str, int, int], Motion]:
    def motion(text: str, at: int, count: int) -> Motion:
        for _ in range(count):
            at, before = step(text, at), at
            if at == before:
                break
        return Motion(at)

    return motion


MOTIONS: Final[dict[str, Callable[[str, int, int], Motion]]] = {
    "h": lambda text, at, n: Motion(max(line_start(text, at), at - n)),
    "l": lambda text, at, n: Motion(min(line_end(text, at), at + n)),
    "j": lambda text, at, n: Motion(_vertical(text, at, n), linewise=True),
    "k": lambda text, at, n: Motion(_vertical(text, at, -n), linewise=True),
    "w": _repeated(_next_word),
    "b": _repeated(_previous_word),
    "e": lambda text, at, n: _repeated(_word_end)(text, at, n)._replace(inclusive=True),
    "0": lambda text, at, n: Motion(line_start(text, at)),
    "^": lambda text, at, n: Motion(_first_nonblank(text, at)),
    "$": lambda text, at, n: Motion(line_end(text, at)),
    "gg": lambda text, at, n: Motion(0, linewise=True),
    "G": lambda text, at, n: Motion(line_start(text, len(text)), linewise=True),
}
"""Keys of a motion → its target from a position, `n` times."""

ALIASES: Final = {"D": "d$", "C": "c$", "Y": "yy", "S": "cc", "s": "cl", "x": "dl", "X": "dh"}
INSERT_COMMANDS: Final[dict[str, Callable[[str, int], int]]] = {
    "i": lambda text, at: at,
    "a": lambda text, at: min(at + 1, line_end(text, at)),
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
        text, at = self.prompt.text, self._cursor
        if command in MOTIONS:
            self._move_by(command, count)
        elif command in INSERT_COMMANDS:
            self._move(INSERT_COMMANDS[command](text, at))
            self._set_inserting(True)
        elif command == "o":
            self._insert(line_end(text, at), "\n")
            self._set_inserting(True)
        elif command == "O":
            self._insert(line_start(text, at), "\n")
            self._move(line_start(text, at))
            self._set_inserting(True)
        elif command[0] == "r" and at + count <= line_end(text, at):
            self._replace(at, at + count, command[1] * count)
            self._move(at + count - 1)
        elif command == "u":
            for _ in range(min(count, 100)):
                self.prompt.action_undo()
        elif command in ("p", "P"):
            self._put(command == "p", count)

    def _operate(self, operator: str, motion_keys: str, count: int) -> None:
        text, at = self.prompt.text, self._cursor
        if motion_keys == operator:
            start, stop, linewise = line_start(text, at), line_end(text, _vertical(text, at, count - 1)), True
        elif motion_keys in MOTIONS:
            changes_word = (operator, motion_keys) == ("c", "w") and text[at : at + 1].strip()
            motion = MOTIONS["e" if changes_word else motion_keys](text, at, count)
            start, stop = sorted((at, motion.to))
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
        at = line_start(self.prompt.text, min(start, len(self.prompt.text))) if linewise else start
        if operator == "c":
            self._move(at)
            self._set_inserting(True)
        else:
            self._move_onto_character(at)

    def _put(self, after: bool, count: int) -> None:
        """Insert the register after or before the cursor."""
        text, at = self.prompt.text, self._cursor
        if not self._register:
            return
        copies = [self._register] * min(count, 100)
        if self._register_linewise:
            lines = "\n".join(copies)
            position = line_end(text, at) if after else line_start(text, at)
            self._insert(position, f"\n{lines}" if after else f"{lines}\n")
            self._move(position + after)
        else:
            characters = "".join(copies)
            position = min(at + 1, line_end(text, at)) if after else at
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

    def _location(self, at: int) -> tuple[int, int]:
        text = self.prompt.text
        at = max(0, min(at, len(text)))
        return text.count("\n", 0, at), at - line_start(text, at)

    def _move_onto_character(self, at: int) -> None:
        """Move the cursor, but not behind the last character of a line."""
        text = self.prompt.text
        self._move(at - 1 if at == line_end(text, at) and at > line_start(text, at) else at)

    def _move(self, at: int) -> None:
        self.prompt.move_cursor(self._location(at))

    def _insert(self, at: int, text: str) -> None:
        self._replace(at, at, text)
        self._move(at + len(text))

    def _replace(self, start: int, stop: int, text: str) -> None:
        """Replace a range as one undo step."""
        self.prompt.history.checkpoint()
        self.prompt.replace(text, self._location(start), self._location(stop), maintain_selection_offset=False)
        self.prompt.history.checkpoint()
