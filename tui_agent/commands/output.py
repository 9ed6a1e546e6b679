"""What commands print: aligned plain text with color only where it is welcome, and errors as one line."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from tui_agent.platform.pipes import leave_stdout, print_error
from tui_agent.text import clean

WIDEST = 100
"""Columns that text is wrapped to at most; a pipe gets as many."""
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SIGNS = {"ok": "✓", "note": "·", "warn": "!", "bad": "✗", "→": "→", "—": "—", "…": "…", "×": "×"}
_ASCII = {"ok": "ok", "note": "-", "warn": "!", "bad": "x", "→": "->", "—": "-", "…": "...", "×": "x"}
_TONES = {"ok": "green", "note": "dim", "warn": "yellow", "bad": "red"}


class TextPage:
    """Writes lines to `out`. Text from outside may be given as it is: it is cleaned here."""

    def __init__(self, out: TextIO | None = None, *, colour: bool | None = None) -> None:
        """`colour` None: where `out` is a terminal and neither NO_COLOR nor TERM say otherwise."""
        self._out = sys.stdout if out is None else out
        self.live = self._out.isatty()
        wanted = self.live and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
        self._colour = wanted if colour is None else colour
        self._signs = _SIGNS if _can_draw(self._out) else _ASCII
        columns = shutil.get_terminal_size((WIDEST, 24)).columns if self.live else WIDEST
        self.width = max(40, min(columns, WIDEST))

    def sign(self, name: str) -> str:
        """A sign of the page's own: ok, note, warn, bad, or an arrow."""
        return self._signs[name]

    def styled(self, text: str, *styles: str) -> str:
        """`text` in these styles, where there is colour."""
        codes = ";".join(_COLOURS[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m" if self._colour and codes and text else text

    def state(self, state: str) -> str:
        """The sign of a state, in its colour, as wide as all others."""
        wide = max(len(self._signs[name]) for name in _TONES)
        return self.styled(self._signs[state].ljust(wide), _TONES[state])

    def line(self, text: str = "", *styles: str) -> None:
        """One line, as it is."""
        self._write(self.styled(self._plain(text), *styles) + "\n")

    def pair(self, lead: str, lead_width: int, text: str, *styles: str) -> None:
        """`lead`, which takes `lead_width` columns, and `text` wrapped beside it. `lead` may be styled already."""
        room = max(20, self.width - lead_width)
        pieces = [
            piece
            for part in self._plain(text).split("\n")
            for piece in (textwrap.wrap(part, room, break_on_hyphens=False) or [""])
        ]
        indent = " " * lead_width
        for number, piece in enumerate(pieces):
            self._write((lead if number == 0 else indent) + self.styled(piece, *styles) + "\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Aligned columns without lines; the numbers in `right` are columns that are aligned to the right."""
        cells = [[self._plain(cell) for cell in row] for row in (head, *rows)]
        widths = [max(cells_wide(row[column]) for row in cells) for column in range(len(head))]
        for number, row in enumerate(cells):
            padded = [
                _pad(cell, width, column in right) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            self._write("  " + self.styled("  ".join(padded).rstrip(), *(("dim",) if number == 0 else ())) + "\n")

    def progress(self, text: str) -> None:
        """What goes on just now, on a line that the next one takes; only where somebody watches."""
        if self.live:
            cut = self._plain(text)[: self.width - 1]
            self._out.write(f"\r\x1b[2K{self.styled(cut, 'dim')}" if text else "\r\x1b[2K")
            self._out.flush()

    def _plain(self, text: str) -> str:
        text = clean(text)
        if self._signs is _ASCII:
            for sign, plain in zip(_SIGNS.values(), _ASCII.values(), strict=True):
                text = text.replace(sign, plain)
            text = text.replace("…", "...").encode("ascii", "replace").decode("ascii")
        return text

    def _write(self, text: str) -> None:
        self._out.write(text)


def cells_wide(text: str) -> int:
    """Columns that `text` takes."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _pad(text: str, width: int, right: bool) -> str:
    gap = " " * (width - cells_wide(text))
    return gap + text if right else text + gap


def _can_draw(out: TextIO) -> bool:
    try:
        "✓✗→—…·×".encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def bytes_shown(size: float) -> str:
    """A size in words, such as `4.7 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


INTERRUPTED = 130


def say(text: str, end: str = "\n") -> None:
    """A line to stdout at once; what is no text in it can't fail."""
    sys.stdout.write((clean(text) + end).encode("utf-8", "replace").decode())
    sys.stdout.flush()


def exit_code_of(work: Callable[[], int], codes: Mapping[type[Exception], int]) -> int:
    """The exit code of `work`; an error that `codes` holds is told and has that code, or one of its own; Ctrl+C has
    130."""
    try:
        return work()
    except tuple(codes) as error:
        print_error(str(error))
        return getattr(error, "code", next(code for kind, code in codes.items() if isinstance(error, kind)))
    except BrokenPipeError:
        leave_stdout()  # nobody reads on
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return INTERRUPTED


def flushing_output(work: Callable[[], int]) -> int:
    """The exit code of `work`, once all that it printed has left; 0 where a reader had enough before the end, 1 where
    the output, or something else on a disk, could not be written, which is told."""
    try:
        code = work()
    except BrokenPipeError:
        leave_stdout()
        return 0
    except OSError as error:
        return _unwritten(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        leave_stdout()
    except OSError as error:
        return _unwritten(error)
    return code


def _unwritten(error: OSError) -> int:
    leave_stdout()
    where = f"{error.filename}: " if error.filename is not None else "the output can't be written: "
    print_error(f"{where}{error.strerror or error}")
    return 1
