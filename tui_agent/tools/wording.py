"""Formatting text for the model: limits, printable names, suggestions for missing files."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from tui_agent.common.suggestions import similar_names

MAX_RESULT_SIZE = 30_000
"""Characters of one result."""
MAX_LINE_LENGTH = 2_000
"""Characters of one line."""


def shorten_line(line: str, cap: int = MAX_LINE_LENGTH, size: int = 0) -> str:
    """Shorten a line and append the number of missing characters; `size` is the full length if `line` is partial."""
    size = size or len(line)
    return line if size <= cap else f"{line[:cap]}… [{size - cap:,} more characters]"


def is_shortened(line: str) -> bool:
    """True if `shorten_line` shortened the line."""
    return len(line) > MAX_LINE_LENGTH and line.endswith(" more characters]")


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates so that the text can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def printable_name(name: str) -> str:
    """Return a file name on one line, with controls, invisible characters and undecodable bytes escaped."""
    if name.isascii() and name.isprintable():
        return name
    pieces: list[str] = []
    for character in name:
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            pieces.append(f"\\x{code - 0xDC00:02x}")
        elif character != " " and (
            not character.isprintable() or unicodedata.category(character) in ("Cf", "Zs", "Zl", "Zp")
        ):
            pieces.append(character.encode("unicode_escape").decode())
        else:
            pieces.append(character)
    return "".join(pieces)


def similar_files(path: Path) -> list[str]:
    """Return up to three names similar to that of a missing `path` in its folder."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for _, entry in zip(range(5000), entries, strict=False)]
    except OSError:
        return []
    return [printable_name(name) for name in similar_names(path.name, names, 3, 0.6)]


def missing_file_message(display: str, path: Path) -> str:
    """Return the message for a missing file."""
    similar = similar_files(path)
    hint = f" Did you mean {' or '.join(similar)}?" if similar else " Use list_files or search_workspace to find it."
    return f"{display} does not exist.{hint}"
