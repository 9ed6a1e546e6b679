"""Keys of vi in the composer, for those who want them: moving, operators with counts, undo. Esc leaves typing, Esc
again stops a run as always; Enter sends from both."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.events import Key

if TYPE_CHECKING:
    from widgets.prompt_input import PromptInput

MOST: Final = 9_999
"""The highest count; what is more is cut."""
_WORD = re.compile(r"\w+|[^\w\s]+")


class Motion(NamedTuple):
    """How far a motion goes."""

    to: int
    inclusive: bool = False
    """An operator takes the letter that it ends on too."""
    lines: bool = False
    """An operator takes whole lines."""


def line_start(text: str, at: int) -> int:
    """Where the line of a place begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Where the line of a place ends, before its line feed."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _first_letter(text: str, at: int) -> int:
    start = line_start(text, at)
    return start + len(text[start : line_end(text, at)]) - len(text[start : line_end(text, at)].lstrip(" \t"))


def _next_word(text: str, at: int) -> int:
    return next((found.start() for found in _WORD.finditer(text, _inside(text, at)) if found.start() > at), len(text))


def _end_of_word(text: str, at: int) -> int:
    last = max(0, len(text) - 1)
    return next((found.end() - 1 for found in _WORD.finditer(text, _inside(text, at)) if found.end() - 1 > at), last)


def _word_before(text: str, at: int) -> int:
    starts = [found.start() for found in _WORD.finditer(text, 0, at) if found.start() < at]
    return starts[-1] if starts else 0


def _last_word(text: str, start: int, stop: int) -> int:
    """Where the words of a place end, if the next one stands in another line: lines are not joined."""
    words = text[start:stop].rstrip()
    if "\n" not in text[start + len(words) : stop]:
        return stop
    return start + len(words) if words else line_end(text, start)


def _inside(text: str, at: int) -> int:
    """Where the word at a place begins, so that its rest is not taken for a word."""
    while 0 < at < len(text) and text[at - 1 : at + 1].isalnum():
        at -= 1
    return at


def _below(text: str, at: int, by: int) -> int:
    """The same column some lines further down, or up."""
    column = at - line_start(text, at)
    for _ in range(abs(by)):
        if by > 0:
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


def _times(step: Callable[[str, int], int]) -> Callable[[str, int, int], Motion]:
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
    "j": lambda text, at, n: Motion(_below(text, at, n), lines=True),
    "k": lambda text, at, n: Motion(_below(text, at, -n), lines=True),
    "w": _times(_next_word),
    "b": _times(_word_before),
    "e": lambda text, at, n: _times(_end_of_word)(text, at, n)._replace(inclusive=True),
    "0": lambda text, at, n: Motion(line_start(text, at)),
    "^": lambda text, at, n: Motion(_first_letter(text, at)),
    "$": lambda text, at, n: Motion(line_end(text, at)),
    "gg": lambda text, at, n: Motion(0, lines=True),
    "G": lambda text, at, n: Motion(line_start(text, len(text)), lines=True),
}
"""Keys of a motion → where it leads from a place in the text, so many times."""

ALIASES: Final = {"D": "d$", "C": "c$", "Y": "yy", "S": "cc", "s": "cl", "x": "dl", "X": "dh"}
INSERTING: Final[dict[str, Callable[[str, int], int]]] = {
    "i": lambda text, at: at,
    "a": lambda text, at: min(at + 1, line_end(text, at)),
    "I": _first_letter,
    "A": line_end,
}
"""Keys that begin to type → where."""


class Vim:
    """Stands before a composer. Begins with typing."""

    def __init__(self, prompt: PromptInput) -> None:
        self.prompt = prompt
        self.typing = True
        self._pressed = ""
        """The beginning of a command."""
        self._kept = ""
        self._kept_lines = False
        """What was taken out or copied last, and whether that was lines."""

    def take(self, event: Key) -> bool:
        """True for a key that is done with."""
        if self.typing:
            if event.key == "escape":
                self._type(False)
                return True
            return False
        if event.key == "escape":
            done, self._pressed = bool(self._pressed), ""
            return done
        if event.key == "enter":
            self._type(True)
            return False
        if event.key == "ctrl+r":
            self.prompt.action_redo()
            return True
        if not (event.is_printable and event.character):
            self._pressed = ""
            if event.key not in ("backspace", "delete"):
                return False
            self._go("h" if event.key == "backspace" else "l")
            return True
        self._press(event.character)
        return True

    def _type(self, typing: bool) -> None:
        self.typing, self._pressed = typing, ""
        self.prompt.border_subtitle = "" if typing else "normal"
        if not typing and self._at > line_start(self.prompt.text, self._at):
            self._move(self._at - 1)

    def _press(self, letter: str) -> None:
        pressed = self._pressed + letter
        found = re.fullmatch(r"([1-9]\d*)?([dcy])?([1-9]\d*)?(.*)", pressed, re.DOTALL)
        assert found is not None  # every part may be empty
        count = min(MOST, int(found[1] or 1) * int(found[3] or 1))
        operator, rest = found[2] or "", found[4]
        self._pressed = pressed
        if not rest or rest in ("g", "r"):
            return
        self._pressed = ""
        if operator:
            self._operate(operator, rest, count)
        elif rest in ALIASES:
            self._operate(ALIASES[rest][0], ALIASES[rest][1:], count)
        else:
            self._command(rest, count)

    # --- what they do ---

    def _command(self, rest: str, count: int) -> None:
        text, at = self.prompt.text, self._at
        if rest in MOTIONS:
            self._go(rest, count)
        elif rest in INSERTING:
            self._move(INSERTING[rest](text, at))
            self._type(True)
        elif rest == "o":
            self._put(line_end(text, at), "\n")
            self._type(True)
        elif rest == "O":
            self._put(line_start(text, at), "\n")
            self._move(line_start(text, at))
            self._type(True)
        elif rest[0] == "r" and at + count <= line_end(text, at):
            self._change(at, at + count, rest[1] * count)
            self._move(at + count - 1)
        elif rest == "u":
            for _ in range(min(count, 100)):
                self.prompt.action_undo()
        elif rest in ("p", "P"):
            self._put_back(rest == "p", count)

    def _operate(self, operator: str, rest: str, count: int) -> None:
        text, at = self.prompt.text, self._at
        if rest == operator:
            start, stop, lines = line_start(text, at), line_end(text, _below(text, at, count - 1)), True
        elif rest in MOTIONS:
            word = "e" if (operator, rest) == ("c", "w") and text[at : at + 1].strip() else rest
            motion = MOTIONS[word](text, at, count)
            start, stop = sorted((at, motion.to))
            stop += motion.inclusive
            lines = motion.lines
            if lines:
                start, stop = line_start(text, start), line_end(text, stop)
            elif rest == "w":
                stop = _last_word(text, start, stop)
        else:
            return
        self._kept, self._kept_lines = text[start:stop], lines
        if operator == "y":
            self._move(start)
            return
        if lines and operator == "d":  # with one of the line feeds around them
            start, stop = (start, stop + 1) if stop < len(text) else (max(0, start - 1), stop)
        self._change(start, stop, "")
        at = line_start(self.prompt.text, min(start, len(self.prompt.text))) if lines else start
        if operator == "c":
            self._move(at)
            self._type(True)
        else:
            self._rest(at)

    def _put_back(self, behind: bool, count: int) -> None:
        text, at = self.prompt.text, self._at
        what = self._kept * min(count, 100)
        if not self._kept:
            return
        if self._kept_lines:
            what = "\n".join([self._kept] * min(count, 100))
            place = line_end(text, at) if behind else line_start(text, at)
            self._put(place, f"\n{what}" if behind else f"{what}\n")
            self._move(place + behind)
        else:
            place = min(at + 1, line_end(text, at)) if behind else at
            self._put(place, what)
            self._move(place + len(what) - 1)

    def _go(self, rest: str, count: int = 1) -> None:
        self._rest(MOTIONS[rest](self.prompt.text, self._at, count).to)

    # --- the composer ---

    @property
    def _at(self) -> int:
        """The cursor, counted in letters of the text."""
        row, column = self.prompt.cursor_location
        lines = self.prompt.text.split("\n")
        return sum(len(line) + 1 for line in lines[:row]) + column

    def _place(self, at: int) -> tuple[int, int]:
        text = self.prompt.text
        at = max(0, min(at, len(text)))
        return text.count("\n", 0, at), at - line_start(text, at)

    def _rest(self, at: int) -> None:
        """On a letter, where the line has any."""
        text = self.prompt.text
        self._move(at - 1 if at == line_end(text, at) and at > line_start(text, at) else at)

    def _move(self, at: int) -> None:
        self.prompt.move_cursor(self._place(at))

    def _put(self, at: int, what: str) -> None:
        self._change(at, at, what)
        self._move(at + len(what))

    def _change(self, start: int, stop: int, new: str) -> None:
        """In one step for undo."""
        self.prompt.history.checkpoint()
        self.prompt.replace(new, self._place(start), self._place(stop), maintain_selection_offset=False)
        self.prompt.history.checkpoint()
