"""Terminal output of the commands: aligned plain text, color where it is supported, and one-line errors."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from tui_agent.platform.pipes import detach_stdout, print_error
from tui_agent.text import displayable

MAX_WIDTH = 100
"""Maximum line width in columns, and the width used when the output is not a terminal."""
FAILED, NEEDS_PERSON = 1, 3
"""Exit codes of a command that failed, and of one that may not decide by itself."""
INTERRUPTED = 130
"""Exit code after Ctrl+C."""
_COLORS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SYMBOLS = {"ok": "✓", "note": "·", "warn": "!", "bad": "✗", "→": "→", "—": "—", "…": "…", "×": "×"}
_ASCII_SYMBOLS = {"ok": "ok", "note": "-", "warn": "!", "bad": "x", "→": "->", "—": "-", "…": "...", "×": "x"}
_STATE_COLORS = {"ok": "green", "note": "dim", "warn": "yellow", "bad": "red"}


class CommandRefused(Exception):
    """The command can't be carried out; the message is for the user, `code` the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class TextPage:
    """Writes lines to a stream. Untrusted text may be passed as it is: it is cleaned here."""

    def __init__(self, out: TextIO | None = None, *, color: bool | None = None) -> None:
        """`color` None: use color if `out` is a terminal, unless NO_COLOR is set or TERM is `dumb`."""
        self._out = sys.stdout if out is None else out
        self.is_terminal = self._out.isatty()
        supported = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
        self._color = supported if color is None else color
        self._symbols = _SYMBOLS if _can_encode_symbols(self._out) else _ASCII_SYMBOLS
        self.columns = shutil.get_terminal_size((MAX_WIDTH, 24)).columns if self.is_terminal else MAX_WIDTH
        """Columns of the terminal; MAX_WIDTH if there is none."""
        self.width = max(40, min(self.columns, MAX_WIDTH))

    def symbol(self, name: str) -> str:
        """The symbol called `name` (ok, note, warn, bad, or a character), in ASCII if the stream needs it."""
        return self._symbols[name]

    def styled(self, text: str, *styles: str) -> str:
        """`text` with these styles, or unchanged without color."""
        codes = ";".join(_COLORS[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m" if self._color and codes and text else text

    def state_symbol(self, state: str) -> str:
        """The colored symbol of a state, padded to the width of the longest one."""
        width = max(len(self._symbols[name]) for name in _STATE_COLORS)
        return self.styled(self._symbols[state].ljust(width), _STATE_COLORS[state])

    def line(self, text: str = "", *styles: str) -> None:
        """Write one line without wrapping."""
        self._out.write(self.styled(self._sanitize(text), *styles) + "\n")

    def hanging(self, lead: str, lead_width: int, text: str, *styles: str) -> None:
        """Write `lead`, which may be styled and takes `lead_width` columns, with `text` wrapped to its right."""
        room = max(20, self.width - lead_width)
        for line in self._sanitize(text).split("\n"):
            for wrapped in textwrap.wrap(line, room, break_on_hyphens=False) or [""]:
                self._out.write(lead + self.styled(wrapped, *styles) + "\n")
                lead = " " * lead_width

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Write aligned columns; `right` are the indexes of right-aligned ones."""
        lines = [[self._sanitize(cell) for cell in row] for row in (head, *rows)]
        widths = [max(cell_width(cell) for cell in column) for column in zip(*lines, strict=True)]
        for number, line in enumerate(lines):
            cells = []
            for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
                padding = " " * (width - cell_width(cell))
                cells.append(padding + cell if column in right else cell + padding)
            style = () if number else ("dim",)
            self._out.write("  " + self.styled("  ".join(cells).rstrip(), *style) + "\n")

    def progress(self, text: str) -> None:
        """Show what is happening on a line that is overwritten next time; terminals only. Empty text clears it."""
        if self.is_terminal:
            self._out.write(f"\r\x1b[2K{self.styled(self._sanitize(text)[: self.width - 1], 'dim')}")
            self._out.flush()

    def _sanitize(self, text: str) -> str:
        text = displayable(text)
        if self._symbols is _ASCII_SYMBOLS:
            for symbol, replacement in zip(_SYMBOLS.values(), _ASCII_SYMBOLS.values(), strict=True):
                text = text.replace(symbol, replacement)
            text = text.encode("ascii", "replace").decode("ascii")
        return text


def cell_width(text: str) -> int:
    """Terminal columns that `text` takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _can_encode_symbols(out: TextIO) -> bool:
    try:
        "✓✗→—…·×".encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def format_bytes(size: float) -> str:
    """A size with its unit, such as `4.7 GB`."""
    if size < 1000:
        return f"{size:,.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000 or unit == "GB":
            break
    return f"{size:,.0f} {unit}" if size >= 100 else f"{size:.1f} {unit}"


def print_line(text: str, end: str = "\n") -> None:
    """Print displayable text to stdout and flush; characters that can't be encoded are replaced."""
    sys.stdout.write((displayable(text) + end).encode("utf-8", "replace").decode())
    sys.stdout.flush()


def confirm(question: str, what: str) -> bool:
    """Ask a question on the terminal. Raises CommandRefused if there is none; `what` is refused, such as `Deleting`."""
    if not sys.stdin.isatty():
        raise CommandRefused(f"{what} needs confirmation and there is no terminal. Use --yes to confirm.", NEEDS_PERSON)
    print_line(f"{question} [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def exit_code_of(work: Callable[[], int], codes: Mapping[type[Exception], int]) -> int:
    """Run `work` and return its exit code.

    Errors listed in `codes` are printed; their exit code is their `code` attribute, else the one listed.
    """
    try:
        return work()
    except tuple(codes) as error:
        print_error(str(error))
        return getattr(error, "code", next(code for kind, code in codes.items() if isinstance(error, kind)))
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return INTERRUPTED


def flushing_output(work: Callable[[], int]) -> int:
    """Run `work`, flush stdout and return the exit code: 0 if the reader closed the pipe, 1 after an I/O error."""
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        detach_stdout()
        return 0
    except OSError as error:
        detach_stdout()
        prefix = f"{error.filename}: " if error.filename is not None else "the output can't be written: "
        print_error(f"{prefix}{error.strerror or error}")
        return 1
    return code
