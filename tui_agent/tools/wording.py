"""Putting text into words for the model: caps, names that can be written down, near names."""

from __future__ import annotations

import difflib
import os
import unicodedata
from pathlib import Path

MODEL_CAP = 30_000
"""Characters that one result gives to the model at most."""
LINE_CAP = 2_000
"""Characters of one line."""


def cut_line(line: str, cap: int = LINE_CAP, size: int = 0) -> str:
    """`line` with its end left off, and the number of characters that are missing; `size`: of the whole line, where
    `line` is not all of it."""
    size = size or len(line)
    return line if size <= cap else f"{line[:cap]}… [{size - cap:,} more characters]"


def is_cut(line: str) -> bool:
    """Whether `cut_line` left the end of this line off."""
    return len(line) > LINE_CAP and line.endswith(" more characters]")


def writable(text: str) -> str:
    """`text` without lone surrogates, so that it can be written down and sent."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def shown_name(name: str) -> str:
    """A file name on one line: controls, invisible characters and bytes that are no text as escapes."""
    if name.isascii() and name.isprintable():
        return name
    pieces: list[str] = []
    for one in name:
        code = ord(one)
        if 0xDC80 <= code <= 0xDCFF:
            pieces.append(f"\\x{code - 0xDC00:02x}")
        elif one != " " and (not one.isprintable() or unicodedata.category(one) in ("Cf", "Zs", "Zl", "Zp")):
            pieces.append(one.encode("unicode_escape").decode())
        else:
            pieces.append(one)
    return "".join(pieces)


def near_names(path: Path) -> list[str]:
    """Names in the folder of a missing `path` that are like it, at most three."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for _, entry in zip(range(5000), entries, strict=False)]
    except OSError:
        return []
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(path.name.lower(), lowered, n=3, cutoff=0.6)
    return [shown_name(lowered[one]) for one in close]


def missing_text(display: str, path: Path) -> str:
    """What to say of a file that is not there."""
    near = near_names(path)
    hint = f" Did you mean {' or '.join(near)}?" if near else " Use list_files or search_workspace to find it."
    return f"{display} does not exist.{hint}"
